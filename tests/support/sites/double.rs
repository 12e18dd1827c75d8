//! An application that describes the request it received, and plays the roles that the sites need: health checks, an
//! authentication service, WebSocket.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::listen;
use crate::support::wire::{Wire, field};

/// Starts it on a free port; it runs until the test process ends.
pub fn start(name: &'static str) -> u16 {
    listen(move |mut wire| while serve(name, &mut wire).is_some() {})
}

/// Starts one on a unix socket.
pub fn start_unix(path: &Path) {
    let listener = UnixListener::bind(path).expect("the folder is writable");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut wire = Wire::new(stream);
                while serve("socket", &mut wire).is_some() {}
            });
        }
    });
}

fn serve<S: Read + Write>(name: &str, wire: &mut Wire<S>) -> Option<()> {
    let head = wire.head()?;
    let body = wire.body(&head)?;
    if field(&head, "Upgrade").is_some_and(|kind| kind.eq_ignore_ascii_case("websocket")) {
        // The response to the example key of RFC 6455, section 1.3, and a text frame.
        let _ = wire.try_send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x05hello",
        );
        return None;
    }
    wire.try_send(respond(name, &head, &body)).ok()
}

fn respond(name: &str, head: &[String], body: &[u8]) -> Vec<u8> {
    let target = head[0].split(' ').nth(1).unwrap_or("/");
    let path = target.split('?').next().unwrap_or(target);
    let mut fields = format!("X-App: {name}\r\nX-Internal: yes\r\nX-Powered-By: doubles\r\n");
    let mut status = "200 OK".to_owned();
    let may_enter = head.iter().any(|line| line.contains("session=ok"));
    match path {
        "/api/verify" if may_enter => {
            fields.push_str("Remote-User: alice\r\nRemote-Groups: staff\r\n")
        }
        "/api/verify" => {
            status = "302 Found".to_owned();
            fields.push_str("Location: https://auth.example.com/\r\n");
        }
        "/permissions" => fields.push_str("Permissions-Policy: none\r\n"),
        _ if path.contains("/my-bucket") => {
            fields.push_str("X-Amz-Request-Id: 1\r\nSet-Cookie: a=b\r\nCache-Control: private\r\n");
        }
        _ => {}
    }
    if let Some((_, code)) = path.split_once("/status/") {
        status = format!("{code} Said So");
    }
    let said = account(head, body);
    let length = said.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n{fields}Content-Length: {length}\r\n\r\n{said}"
    );
    head.into_bytes()
}

/// The request line, the headers that upstreams use in alphabetical order, and the body.
fn account(head: &[String], body: &[u8]) -> String {
    let known = |line: &&String| {
        let line = line.to_ascii_lowercase();
        let begins = [
            "host:",
            "x-",
            "cookie:",
            "remote-",
            "range:",
            "authorization:",
        ];
        begins.iter().any(|begin| line.starts_with(begin))
    };
    let mut fields: Vec<String> = head
        .iter()
        .skip(1)
        .filter(known)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| format!("{}:{value}", name.to_ascii_lowercase()))
        .collect();
    fields.sort();
    let mut said = format!("{}\n", head[0]);
    for field in fields {
        let _ = writeln!(said, "{field}");
    }
    said.push('\n');
    said.push_str(&String::from_utf8_lossy(body));
    said
}
