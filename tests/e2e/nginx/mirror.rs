//! Mirrored requests.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::{setup, start};
use crate::client::{Client, ask, exchange};
use crate::harness::eventually;
use crate::upstream::{Upstream, dead};

/// Requests as an upstream received them: the first line, `Content-Length`, `X-One` and the body.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn all(&self) -> Vec<String> {
        let mut all = self.0.lock().expect("no test panics with it").clone();
        all.sort();
        all
    }

    fn wait_for(&self, expected: &[&str]) {
        eventually(
            "the copies arrive",
            || self.all() == expected,
            || format!("{:?}", self.all()),
        );
    }
}

/// An upstream that records its requests and responds with `answer`.
fn noting(response: &'static str) -> (Upstream, Seen) {
    let seen = Seen::default();
    let notes = seen.clone();
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let Some(body) = wire.body(&head) else { return };
            let field = |name: &str| {
                let mut lines = head.iter().filter_map(|line| line.strip_prefix(name));
                lines.next().unwrap_or("-").trim().to_owned()
            };
            let line = head[0].trim_end_matches(" HTTP/1.1");
            let (length, one) = (field("Content-Length:"), field("X-One:"));
            let body = match body.len() {
                0..50 => String::from_utf8_lossy(&body).into_owned(),
                count => format!("{count} bytes"),
            };
            let note = format!("{line} {length} {one} {body}");
            notes.0.lock().expect("no test panics with it").push(note);
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    (upstream, seen)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn requests_are_mirrored_with_their_bodies_and_the_responses_discarded() {
    let (main, of_main) = noting(OK);
    let (copy, of_copy) =
        noting("HTTP/1.1 500 No\r\nSet-Cookie: a=b\r\nX-Copy: 1\r\nContent-Length: 2\r\n\r\nno");
    let lines = format!(
        "mirror /all; \
         location / {{ proxy_pass http://127.0.0.1:{0}; }} \
         location /two {{ mirror /one; mirror /other/x; proxy_pass http://127.0.0.1:{0}; }} \
         location /off {{ mirror off; proxy_pass http://127.0.0.1:{0}; }} \
         location /bare {{ mirror_request_body off; proxy_pass http://127.0.0.1:{0}; }} \
         location /denied {{ deny all; }} location /said {{ return 200 said; }} \
         location = /all {{ internal; proxy_pass http://127.0.0.1:{1}$request_uri; }} \
         location = /one {{ internal; proxy_pass http://127.0.0.1:{1}; }} \
         location /other/ {{ internal; proxy_pass http://127.0.0.1:{1}/cut/; }}",
        main.port, copy.port
    );
    let server = start(&lines, &[]);
    let mut client = Client::connect(server.port);
    let mut post = |path: &str, body: &str| {
        let length = body.len();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let response = client.response();
        assert_eq!(
            (response.field("Set-Cookie"), response.field("X-Copy")),
            (None, None)
        );
        (response.status, response.text())
    };
    let ok = (200, "ok".to_owned());
    assert_eq!(post("/a?b=c", "body"), ok);
    of_copy.wait_for(&["POST /a?b=c 4 1 body"]);
    assert_eq!(post("/two?q", "x"), ok);
    let three = [
        "POST /a?b=c 4 1 body",
        "POST /cut/x?q 1 1 x",
        "POST /one?q 1 1 x",
    ];
    of_copy.wait_for(&three);
    assert_eq!(post("/off", "x"), ok);
    assert_eq!(post("/bare", "not copied"), ok);
    assert_eq!(post("/denied", "x").0, 403);
    assert_eq!(post("/said", "x").1, "said");
    assert_eq!(post("/one", "x").0, 404, "it is internal");
    assert_eq!(ask(server.port, "/last").text(), "ok");
    // Everything to be mirrored before the last request has arrived by then.
    let copies = [
        "GET /last - - ",
        "POST /a?b=c 4 1 body",
        "POST /bare 0 1 ",
        "POST /cut/x?q 1 1 x",
        "POST /one?q 1 1 x",
    ];
    of_copy.wait_for(&copies);
    assert_eq!(
        of_main.all(),
        [
            "GET /last - - ",
            "POST /a?b=c 4 1 body",
            "POST /bare 10 1 not copied",
            "POST /off 1 1 x",
            "POST /two?q 1 1 x",
        ]
    );
}

#[test]
fn nobody_waits_for_copies() {
    let (main, _) = noting(OK);
    let silent = Upstream::start(|mut wire| {
        let _ = wire.head();
        // Until the server closes the connection.
        let _ = wire.line();
    });
    let lines = format!(
        "location / {{ mirror /silent; mirror /dead; proxy_pass http://127.0.0.1:{}; }} \
         location = /silent {{ internal; proxy_pass http://127.0.0.1:{}; }} \
         location = /dead {{ internal; proxy_pass http://127.0.0.1:{}; }}",
        main.port,
        silent.port,
        dead()
    );
    let server = start(&lines, &[]);
    let mut client = Client::connect(server.port);
    for _ in 0..5 {
        assert_eq!(client.get("/").text(), "ok");
    }
    eventually(
        "all copies are under way",
        || silent.connections() == 5,
        || silent.connections().to_string(),
    );
}

#[test]
fn a_long_body_is_passed_on_whole_and_not_copied() {
    let (main, of_main) = noting(OK);
    let (copy, of_copy) = noting(OK);
    let lines = format!(
        "client_max_body_size 4m; location / {{ mirror /copy; proxy_pass http://127.0.0.1:{}; }} \
         location = /copy {{ internal; proxy_pass http://127.0.0.1:{}$request_uri; }} \
         location /short/ {{ client_max_body_size 5; mirror /copy; proxy_pass http://127.0.0.1:{0}; }}",
        main.port, copy.port
    );
    let server = start(&lines, &[]);
    let post = |path: &str, length: usize| {
        let body = "x".repeat(length);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        exchange(server.port, head + &body).status
    };
    assert_eq!(post("/long", 1024 * 1024 + 1), 200);
    assert_eq!(post("/fits", 1024 * 1024), 200);
    assert_eq!(post("/short/x", 6), 413);
    let chunked = "POST /short/chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   6\r\nxxxxxx\r\n0\r\n\r\n";
    assert_eq!(exchange(server.port, chunked).status, 413);
    let chunked = chunked
        .replace("/short/", "/")
        .replace("close", "keep-alive");
    let mut client = Client::connect(server.port);
    client.send(chunked);
    assert_eq!(client.response().status, 200);
    of_copy.wait_for(&[
        "POST /chunked 6 - xxxxxx",
        "POST /fits 1048576 - 1048576 bytes",
    ]);
    assert_eq!(
        of_main.all(),
        [
            // The request body is buffered completely, so its length is known.
            "POST /chunked 6 - xxxxxx",
            "POST /fits 1048576 - 1048576 bytes",
            "POST /long 1048577 - 1048577 bytes",
        ]
    );
    server.wait_for_words("requests are not mirrored");
}

#[test]
fn mirrored_requests_without_an_upstream_are_dropped() {
    // It never responds, and accepts no more connections than its queue holds.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("it is bound").port();
    let server = setup(&format!(
        "worker_processes 1;\nevents {{ worker_connections 4096; }}\nhttp {{ keepalive_requests 10000; server {{ listen 127.0.0.1:{{port}}; root {{folder}}; \
         location / {{ mirror /copy; }} location = /copy {{ internal; proxy_pass http://127.0.0.1:{port}; }} }} }}\n"
    ))
    .start();
    let mut client = Client::connect(server.port);
    for _ in 0..1024 {
        assert_eq!(client.get("/none").status, 404);
    }
    assert!(
        !server.stderr().contains("not mirrored"),
        "there is room for so many"
    );
    assert_eq!(client.get("/none").status, 404);
    server.wait_for_words("requests are not mirrored");
}
