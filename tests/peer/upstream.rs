//! The upstream of both servers: its response describes the request it received.

use crate::support::listen;
use crate::support::wire::{Wire, field};

/// Starts it on a free port; it runs until the test process ends.
pub fn start() -> u16 {
    listen(|mut wire| while serve(&mut wire).is_some() {})
}

fn serve(wire: &mut Wire) -> Option<()> {
    let head = wire.head()?;
    let body = wire.body(&head)?;
    let path = head[0].split(' ').nth(1).unwrap_or("/");
    wire.try_send(respond(path, &head, &body)).ok()
}

/// By path: the kinds of responses that a proxy encounters. The default one echoes the request with its headers sorted,
/// because their order is not guaranteed.
fn respond(path: &str, head: &[String], body: &[u8]) -> Vec<u8> {
    let path = path.split('?').next().unwrap_or(path);
    match path {
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\n\
            3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
                .to_vec()
        }
        "/nothing" => b"HTTP/1.1 204 No Content\r\nX-Up: 1\r\n\r\n".to_vec(),
        "/notmodified" => b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec(),
        "/moved" => b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n".to_vec(),
        "/broken" => {
            b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nX-Up: a\r\nX-Up: b\r\n\r\noops".to_vec()
        }
        "/hop" => {
            b"HTTP/1.1 200 OK\r\nConnection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
            Content-Length: 2\r\n\r\nok"
                .to_vec()
        }
        "/incremental" => b"HTTP/1.1 200 OK\r\nIncremental: ?1\r\nProxy-Status: inner;error=x\r\n\
            Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nlive"
            .to_vec(),
        "/incremental/empty" => {
            b"HTTP/1.1 200 OK\r\nIncremental: ?1\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        "/garbage" => b"SPAM\r\n\r\n".to_vec(),
        "/accel" => sent_on(head),
        _ => {
            let mut fields: Vec<_> = head[1..]
                .iter()
                .map(|line| {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    // The port of the server differs between the two.
                    format!("{}:{}", name.to_ascii_lowercase(), value)
                })
                .collect();
            fields.sort();
            let text = format!(
                "{}\n{}\n{}",
                head[0],
                fields.join("\n"),
                String::from_utf8_lossy(body)
            );
            let head_only = head[0].starts_with("HEAD ");
            let mut raw = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Echo: yes\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            if !head_only {
                raw.push_str(&text);
            }
            raw.into_bytes()
        }
    }
}

/// A response that makes the server continue with what the request names.
fn sent_on(head: &[String]) -> Vec<u8> {
    let to = field(head, "X-To").unwrap_or("/");
    format!(
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nContent-Type: text/x\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\n\
         Content-Disposition: attachment\r\nExpires: never\r\nCache-Control: no-cache\r\nETag: \"e\"\r\nX-Other: x\r\n\
         Vary: v\r\nContent-Language: de\r\nContent-Length: 4\r\n\r\nlost"
    )
    .into_bytes()
}
