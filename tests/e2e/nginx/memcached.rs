//! `memcached_pass`: values of memcached as responses, from a double and, if it is installed, from memcached itself.

use std::collections::HashMap;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::setup;
use crate::client::Client;
use crate::harness::{Folder, Server};
use crate::support::abilities::can_run;
use crate::support::ports::free_port;
use crate::support::program::Program;
use crate::support::wire::Wire;
use crate::upstream::{Upstream, dead};

/// A memcached double with these values: key, flags and content. It records its requests.
struct Fake {
    upstream: Upstream,
    asked: Arc<Mutex<Vec<String>>>,
}

fn fake(values: &[(&'static str, u32, &'static [u8])]) -> Fake {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let values: HashMap<_, _> = values
        .iter()
        .map(|(key, flags, value)| (*key, (*flags, *value)))
        .collect();
    let noted = asked.clone();
    let upstream = Upstream::start(move |mut wire| {
        while let Some(line) = wire.line() {
            noted
                .lock()
                .expect("nobody panics with it")
                .push(line.clone());
            let key = line.strip_prefix("get ").unwrap_or_default();
            let response = match (key, values.get(key)) {
                ("broken", _) => b"SERVER_ERROR out of memory\r\n".to_vec(),
                ("other", _) => b"VALUE another 0 2\r\nno\r\nEND\r\n".to_vec(),
                ("short", _) => b"VALUE short 0 10\r\nno\r\n".to_vec(),
                (_, None) => b"END\r\n".to_vec(),
                (_, Some((flags, value))) => {
                    let head = format!("VALUE {key} {flags} {}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
                }
            };
            if wire.try_send(response).is_err() || key == "short" {
                break;
            }
        }
    });
    Fake { upstream, asked }
}

fn start(groups: &str, lines: &str) -> Server {
    setup(&format!(
        "events {{}}\nhttp {{\ntypes {{ text/css css; }}\n{groups}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    ))
    .start()
}

#[test]
fn memcached_values_are_response_bodies() {
    let large: &'static [u8] = vec![b'x'; 300_000].leak();
    let fake = fake(&[
        ("/a.css", 0, b"body {}"),
        ("/a%20b", 0, b"\r\nEND\r\n"),
        ("/zip", 6, b"not unpacked here"),
        ("/empty", 0, b""),
        ("/large", 0, large),
    ]);
    let port = fake.upstream.port;
    let server = start(
        &format!("upstream cache {{ server 127.0.0.1:{port}; keepalive 4; }}"),
        "set $memcached_key $uri;\nmemcached_gzip_flag 2;\ndefault_type text/x-own;\n\
         location / { memcached_pass cache; }\n\
         location /page { memcached_pass cache; error_page 404 = @made; }\n\
         location @made { return 200 made; }",
    );
    let mut client = Client::connect(server.port);
    let response = client.get("/a.css");
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "body {}")
    );
    assert_eq!(response.field("Content-Type"), Some("text/css"));
    assert_eq!(response.field("Content-Length"), Some("7"));
    assert_eq!(response.field("Content-Encoding"), None);
    assert_eq!(client.get("/a%20b").text(), "\r\nEND\r\n");
    let zip = client.get("/zip");
    assert_eq!(zip.field("Content-Encoding"), Some("gzip"));
    assert_eq!(zip.field("Content-Type"), Some("text/x-own"));
    assert_eq!(client.get("/empty").text(), "");
    assert_eq!(client.get("/large").text().len(), large.len());
    assert_eq!(client.get("/none").status, 404);
    assert_eq!(client.get("/page").text(), "made");
    client.send("HEAD /a.css HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("Content-Length: 7\r\n"), "{head}");
    client.send("POST /a.css HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.response().status, 405);
    // A client cannot terminate the key.
    assert_eq!(client.get("/x%0d%0aflush_all%0d%0a").status, 404);
    let asked = fake.asked.lock().expect("nobody panics with it").clone();
    assert_eq!(
        asked.last().map(String::as_str),
        Some("get /x%0D%0Aflush_all%0D%0A")
    );
    assert!(
        asked.iter().all(|line| line.starts_with("get ")),
        "{asked:?}"
    );
    // All of them leave their connection for reuse, except the response to HEAD, whose body is not read, and perhaps a
    // value whose end arrives late.
    let made = fake.upstream.connections();
    assert!(made <= 3, "{made}");
}

#[test]
fn memcached_misses_and_errors_try_the_next_server() {
    let (first, second) = (
        fake(&[("one", 0, b"first")]),
        fake(&[("two", 0, b"second")]),
    );
    let (gone, a, b) = (dead(), first.upstream.port, second.upstream.port);
    let server = start(
        &format!(
            "upstream both {{ server 127.0.0.1:{a} max_fails=0; server 127.0.0.1:{b} backup; }}\n\
             upstream half {{ server 127.0.0.1:{gone}; server 127.0.0.1:{a}; }}"
        ),
        &format!(
            "set $memcached_key $arg_key;\n\
             location /both {{ memcached_pass both; memcached_next_upstream error not_found invalid_response; }}\n\
             location /half {{ memcached_pass half; }}\n\
             location /one {{ memcached_pass 127.0.0.1:{a}; }}\n\
             location /gone {{ memcached_pass 127.0.0.1:{gone}; }}"
        ),
    );
    let mut client = Client::connect(server.port);
    for (path, status, text) in [
        ("/both?key=one", 200, Some("first")),
        ("/both?key=two", 200, Some("second")),
        ("/both?key=none", 404, None),
        ("/both?key=broken", 502, None),
        ("/half?key=one", 200, Some("first")),
        ("/one?key=broken", 502, None),
        ("/one?key=other", 502, None),
        ("/one", 500, None),
        ("/gone?key=one", 502, None),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, status, "{path}");
        if let Some(text) = text {
            assert_eq!(response.text(), text, "{path}");
        }
    }
    server
        .wait_for_words("upstream sent invalid header while reading response header from upstream");
    server.wait_for_words("memcached://127.0.0.1");
    server.wait_for_words("variable is not set");
    // A truncated value is not forwarded as complete.
    let mut cut = Client::connect(server.port);
    cut.send("GET /one?key=short HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(cut.try_response().is_err(), "less than was announced");
}

#[test]
fn memcached_itself_is_understood() {
    if !can_run("memcached", &["-V"]) {
        return;
    }
    let (port, folder) = (free_port(), Folder::new());
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
    command.args(["-U", "0", "-u", "nobody", "-m", "16"]);
    let _real = Program::start(&mut command, folder.path().join("log")).listening(port);
    let mut wire = Wire::connect(port);
    for (key, flags, value) in [("/a", 0, "value"), ("/zip", 2, "zipped"), ("/none", 0, "")] {
        let length = value.len();
        wire.send(format!("set {key} {flags} 0 {length}\r\n{value}\r\n"));
        assert_eq!(wire.line().as_deref(), Some("STORED"));
    }
    wire.stream().flush().expect("it is open");
    let server = start(
        "",
        &format!(
            "set $memcached_key $uri;\nmemcached_gzip_flag 2;\nlocation / {{ memcached_pass 127.0.0.1:{port}; }}"
        ),
    );
    let mut client = Client::connect(server.port);
    for _ in 0..3 {
        assert_eq!(client.get("/a").text(), "value");
        assert_eq!(client.get("/none").text(), "");
        assert_eq!(client.get("/nothing").status, 404);
        let zip = client.get("/zip");
        assert_eq!(zip.field("Content-Encoding"), Some("gzip"));
    }
    let long = "x".repeat(300);
    assert_eq!(
        client.get(&format!("/{long}")).status,
        502,
        "longer than its keys"
    );
}
