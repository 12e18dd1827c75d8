//! An application that tells what it was asked, and plays the parts that the sites need: health checks, an
//! authentication service, WebSocket.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Starts it on a free port; it ends with the test.
pub fn start(name: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let Ok(writer) = stream.try_clone() else {
                    return;
                };
                serve(name, BufReader::new(stream), writer);
            });
        }
    });
    port
}

/// Starts one behind a socket of the file system.
pub fn start_unix(path: &Path) {
    let listener = UnixListener::bind(path).expect("the folder is writable");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let Ok(writer) = stream.try_clone() else {
                    return;
                };
                serve("socket", BufReader::new(stream), writer);
            });
        }
    });
}

fn serve(name: &str, mut reader: impl BufRead, mut writer: impl Write) -> Option<()> {
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let field = |name: &str| {
            let line = head
                .iter()
                .find(|line| line.to_ascii_lowercase().starts_with(name))?;
            Some(line[name.len()..].trim().to_owned())
        };
        let mut body = match field("content-length:") {
            Some(length) => vec![0; length.parse().ok()?],
            None => Vec::new(),
        };
        reader.read_exact(&mut body).ok()?;
        if field("transfer-encoding:").is_some() {
            body = chunks(&mut reader)?;
        }
        if field("upgrade:").is_some_and(|kind| kind.eq_ignore_ascii_case("websocket")) {
            // The answer to the key of the standard's example (RFC 6455, section 1.3), and a frame of text.
            writer
                .write_all(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x05hello",
                )
                .ok()?;
            return None;
        }
        writer.write_all(&answer(name, &head, &body)).ok()?;
    }
}

fn chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

fn answer(name: &str, head: &[String], body: &[u8]) -> Vec<u8> {
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

/// The request line, the fields that upstreams look at in the order of the alphabet, and the body.
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
