//! The status lines of nginx's own responses and of proxied ones.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::peer::nginx::run;
use crate::peer::peers::{Site, free_port, sluice};
use crate::support::{listen, servers};

/// The statuses that `return` sends.
const CODES: &[u16] = &[
    200, 201, 202, 203, 204, 205, 206, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405,
    406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 418, 421, 422, 429, 500, 501, 502, 503,
    504, 505, 507,
];

/// Statuses for which nginx has no phrase, and the registered one is sent; and 408, in place of which nginx closes the
/// connection, as it does where a client has timed out.
const DIFFERENT: &[u16] = &[203, 205, 407, 408, 418, 422];

/// Status lines of upstreams. Both pass them on; sluice with the registered phrase.
const OF_UPSTREAMS: &[&str] = &[
    "302 Found",
    "404 Not Found",
    "405 Method Not Allowed",
    "422 Unprocessable Content",
];

fn start(
    site: &Site,
    program: &Path,
    upstream: u16,
    is_nginx: bool,
) -> (crate::peer::nginx::Running, u16) {
    let port = free_port();
    let (main, own, which) = match is_nginx {
        true => (
            "user root;\ndaemon off;\nmaster_process off;\n",
            "client_body_temp_path DIR/nginx-temp; proxy_temp_path DIR/nginx-temp; fastcgi_temp_path DIR/nginx-temp; \
             uwsgi_temp_path DIR/nginx-temp; scgi_temp_path DIR/nginx-temp; proxy_http_version 1.1;",
            "theirs",
        ),
        false => ("", "", "ours"),
    };
    let locations: Vec<String> = CODES
        .iter()
        .map(|code| format!("location = /{code} {{ return {code}; }}\n"))
        .collect();
    let text = format!(
        "{main}worker_processes 1;\npid DIR/{which}.pid;\nerror_log DIR/{which}-error.log;\nevents {{ worker_connections 512; }}\n\
         http {{\n{own}\naccess_log off;\nlarge_client_header_buffers 4 4k;\nserver {{\nlisten 127.0.0.1:{port};\nroot ROOT;\n{}\
         location /up {{ proxy_set_header Connection \"\"; proxy_pass http://127.0.0.1:{upstream}; }}\n}}\n}}\n",
        locations.concat()
    );
    let text = text.replace("DIR", &site.dir().display().to_string());
    let running = run(site, program, "lines", &site.fill(&text), port, is_nginx);
    (running, port)
}

/// The status line of the response to a request.
fn line(port: u16, request: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let timeout = Some(Duration::from_secs(10));
    socket
        .set_read_timeout(timeout)
        .expect("a timeout can be set");
    let bytes = format!("{request}\r\nHost: a\r\nConnection: close\r\n\r\n");
    socket
        .write_all(bytes.as_bytes())
        .expect("the server reads");
    let mut raw = Vec::new();
    let _ = socket.read_to_end(&mut raw);
    let text = String::from_utf8_lossy(&raw).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn status_lines_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let upstream = listen(|mut wire| {
        let Some(head) = wire.head() else { return };
        let at = head[0].find("?s=").map_or("200 OK".to_owned(), |at| {
            let digits = head[0][at + 3..].bytes().take_while(u8::is_ascii_digit);
            let number = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
            OF_UPSTREAMS[number].to_owned()
        });
        let _ = wire.try_send(format!(
            "HTTP/1.1 {at}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
    });
    let (theirs, their_port) = start(&site, &nginx, upstream, true);
    let (ours, our_port) = start(&site, &sluice(), upstream, false);
    let mut requests: Vec<(String, bool)> = CODES
        .iter()
        .map(|code| (format!("GET /{code} HTTP/1.1"), DIFFERENT.contains(code)))
        .collect();
    requests.extend((0..OF_UPSTREAMS.len()).map(|at| (format!("GET /up?s={at} HTTP/1.1"), false)));
    let long = "x".repeat(6000);
    for request in [
        "POST /note.txt HTTP/1.1\r\nContent-Length: 0".to_owned(),
        "TRACE / HTTP/1.1".to_owned(),
        format!("GET /{long} HTTP/1.1"),
        format!("GET / HTTP/1.1\r\nX-Long: {long}"),
        "GET / HTTP/3.0".to_owned(),
        "G@T / HTTP/1.1".to_owned(),
        "GET /note.txt HTTP/1.1\r\nRange: bytes=99-".to_owned(),
        "GET /sub HTTP/1.1".to_owned(),
        "GET /none HTTP/1.1".to_owned(),
    ] {
        requests.push((request, false));
    }
    let (mut equal, mut with_reason, mut failures) = (0, 0, Vec::new());
    for (request, has_reason) in &requests {
        let (expected, found) = (line(their_port, request), line(our_port, request));
        match expected == found {
            true if *has_reason => {
                failures.push(format!("{request}: the difference has gone away"))
            }
            true => equal += 1,
            false if *has_reason => with_reason += 1,
            false => {
                let short: String = request.chars().take(60).collect();
                failures.push(format!("{short}: nginx {expected:?}, sluice {found:?}"));
            }
        }
    }
    drop((theirs, ours));
    println!(
        "{equal} equal, {with_reason} different with a reason, {} without",
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
