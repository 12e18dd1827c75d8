//! Requests that follow others (`post_action`), logs of subrequests, and request bodies in files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::start;
use crate::client::{Client, ask, exchange};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;

/// An upstream that records the heads and bodies of requests, and whether the file of `X-File` exists while it has one.
fn recording() -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = seen.clone();
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let Some(body) = wire.body(&head) else { return };
            let file = head.iter().find_map(|line| line.strip_prefix("X-File: "));
            let content = file.map(|path| std::fs::read_to_string(path).unwrap_or_default());
            let text = format!(
                "{}|{}|{}",
                head[0],
                String::from_utf8_lossy(&body),
                content.unwrap_or_else(|| "none".to_owned())
            );
            heard.lock().expect("no test panicked").push(text);
            if wire
                .try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .is_err()
            {
                return;
            }
        }
    });
    (upstream, seen)
}

fn becomes(server: &Server, seen: &Mutex<Vec<String>>, expected: &[&str]) {
    eventually(
        &format!("{expected:?}"),
        || *seen.lock().expect("no test panicked") == *expected,
        || {
            format!(
                "{:?}\n{}",
                seen.lock().expect("no test panicked"),
                server.stderr()
            )
        },
    );
}

#[test]
fn a_request_follows_another_one() {
    let (upstream, seen) = recording();
    let server = start(
        &format!(
            "post_action /done; location / {{ return 201 hello; }}\n\
             location /named {{ post_action @after; return 202 named; }}\n\
             location /inner {{ try_files /none /off; }}\n\
             location /off {{ post_action off; return 203 off; }}\n\
             location /done {{ internal; proxy_pass http://127.0.0.1:{0}/count?$request_uri,$status,$body_bytes_sent,$request_completion; }}\n\
             location @after {{ proxy_pass http://127.0.0.1:{0}; proxy_method PUT; }}",
            upstream.port
        ),
        &[],
    );
    assert_eq!(ask(server.port, "/a?b").text(), "hello");
    becomes(&server, &seen, &["GET /count?/a?b,201,5,OK HTTP/1.1||none"]);
    seen.lock().expect("no test panicked").clear();
    // Neither what is switched off nor what is internal adds one.
    assert_eq!(ask(server.port, "/off").status, 203);
    assert_eq!(ask(server.port, "/inner").status, 203);
    assert_eq!(ask(server.port, "/named/x?y").status, 202);
    becomes(&server, &seen, &["PUT /named/x?y HTTP/1.1||none"]);
}

#[test]
fn subrequests_are_logged_where_their_locations_say_so() {
    let server = super::setup(
        "events {}\nhttp {\nlog_format own '$uri $status';\naccess_log {folder}/own.log own;\n\
         server {\nlisten 127.0.0.1:{port};\nroot {folder}/www;\n\
         location / { auth_request /auth; }\n\
         location /auth { internal; log_subrequest on; return 204; }\n\
         location /quiet { auth_request /silent; return 200 ok; }\n\
         location /silent { internal; return 204; }\n}\n}\n",
    );
    server.folder().write("www/a.txt", "a");
    let server = server.start();
    // On one connection, so that the requests are logged in this order.
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/quiet").status, 200);
    assert_eq!(client.get("/a.txt").status, 200);
    let expected = "/quiet 200\n/auth 204\n/a.txt 200\n";
    eventually(
        "three lines",
        || server.folder.read("own.log") == expected,
        || server.folder.read("own.log"),
    );
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true => found.extend(files_in(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn bodies_are_stored_in_files() {
    let (upstream, seen) = recording();
    let server = start(
        &format!(
            "proxy_set_header X-File $request_body_file; client_max_body_size 10m;\n\
             location /kept {{ client_body_in_file_only on; client_body_temp_path {{folder}}/kept 1 2; proxy_pass_request_body off;\n\
             proxy_set_header X-File $request_body_file; proxy_set_header Content-Length \"\"; proxy_pass http://127.0.0.1:{0}; }}\n\
             location /clean {{ client_body_in_file_only clean; client_body_temp_path {{folder}}/clean; proxy_pass http://127.0.0.1:{0}; }}\n\
             location /off {{ client_body_in_file_only off; proxy_pass http://127.0.0.1:{0}; }}\n\
             location /none {{ client_body_in_file_only on; client_body_temp_path {{folder}}/unused; return 200 [$request_body_file]; }}",
            upstream.port
        ),
        &[],
    );
    let post = |path: &str, body: &str| {
        let length = body.len();
        exchange(
            server.port,
            format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        )
    };
    assert_eq!(post("/kept", "first").status, 200);
    assert_eq!(post("/kept", "").status, 200);
    assert_eq!(post("/clean", "second").status, 200);
    assert_eq!(post("/off", "third").status, 200);
    assert_eq!(post("/none", "fourth").text(), "[]");
    assert_eq!(ask(server.port, "/kept").status, 200);
    let expected = [
        "POST /kept HTTP/1.1||first",
        "POST /kept HTTP/1.1||",
        "POST /clean HTTP/1.1|second|second",
        "POST /off HTTP/1.1|third|none",
        "GET /kept HTTP/1.1||none",
    ];
    assert_eq!(*seen.lock().expect("no test panicked"), expected);
    let folder = server.folder.path();
    let kept = files_in(&folder.join("kept"));
    assert_eq!(
        kept,
        ["1/00/0000000001", "2/00/0000000002"].map(|name| folder.join("kept").join(name))
    );
    assert_eq!(std::fs::read(&kept[0]).unwrap(), b"first");
    let mode = std::fs::metadata(&kept[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    eventually(
        "the file is gone",
        || files_in(&folder.join("clean")).is_empty(),
        || format!("{:?}", files_in(&folder.join("clean"))),
    );
    // A long body, of which the file has every byte.
    let long = "0123456789".repeat(300_000);
    seen.lock().expect("no test panicked").clear();
    assert_eq!(post("/clean", &long).status, 200);
    let heard = seen.lock().expect("no test panicked").pop().unwrap();
    assert!(
        heard == format!("POST /clean HTTP/1.1|{long}|{long}"),
        "{}",
        heard.len()
    );
}
