//! What holds in a location of what stands around it. The whole table is in `config/nginx/tests/inheritance.rs`, and beside
//! nginx in `tests/peer/nginx_inherit.rs`.

use super::start;
use crate::client::exchange;
use crate::upstream::Upstream;

fn status(port: u16, method: &str, path: &str, body: &str) -> u16 {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(port, request).status
}

/// What is in an internal location is not for clients.
#[test]
fn locations_in_internal_ones_are_internal() {
    let lines = "location /a/ { internal; location /a/b/ { } location ~ c$ { } }\n\
        location /go { error_page 402 =200 /a/b/f; return 402; }";
    let server = start(lines, &[("a/f", "f"), ("a/b/f", "f"), ("a/c", "c")]);
    for path in ["/a/f", "/a/b/f", "/a/c"] {
        assert_eq!(server.ask(path).status, 404, "{path}");
    }
    assert_eq!(server.ask("/go").text(), "f");
}

/// A block for other methods keeps what passes requests on, but not what answers in another way.
#[test]
fn other_methods_are_passed_on_and_not_answered() {
    let upstream = Upstream::echo();
    let lines = format!(
        "location /gif {{ empty_gif; limit_except POST {{ }} }}\n\
         location /numbers {{ stub_status; limit_except POST {{ }} }}\n\
         location /up {{ proxy_pass http://127.0.0.1:{}; limit_except POST {{ }} }}",
        upstream.port
    );
    let server = start(&lines, &[("gif", "file")]);
    assert_eq!(server.ask("/gif").text(), "file");
    assert_eq!(server.ask("/numbers").status, 404);
    assert!(server.ask("/up").text().starts_with("GET /up "));
}

/// A declared length is compared with the limit of the location that the path leads to; one that requests are sent to by its
/// name limits the bodies whose length nobody declared.
#[test]
fn bodies_are_limited_where_their_path_leads() {
    let upstream = Upstream::echo();
    let lines = format!(
        "client_max_body_size 3;\n\
         location / {{ client_max_body_size 0; try_files /none @app; }}\n\
         location /low {{ client_max_body_size 2; try_files /none @more; }}\n\
         location @app {{ proxy_pass http://127.0.0.1:{0}; }}\n\
         location @more {{ client_max_body_size 100; proxy_pass http://127.0.0.1:{0}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    assert_eq!(status(server.port, "POST", "/x", "hello"), 200);
    assert_eq!(status(server.port, "POST", "/low", "hello"), 413);
    let chunked = |path: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n"
        );
        exchange(server.port, request).status
    };
    assert_eq!(chunked("/x"), 413);
    assert_eq!(chunked("/low"), 413);
}

/// nginx answers these before it looks for a location.
#[test]
fn methods_that_nothing_serves_are_refused_everywhere() {
    let upstream = Upstream::echo();
    let lines = format!(
        "location / {{ return 301 /there; }}\nlocation /up {{ proxy_pass http://127.0.0.1:{}; }}\n\
         location /page {{ }}\nerror_page 405 /page;",
        upstream.port
    );
    let server = start(&lines, &[("page", "sorry")]);
    for (start, expected) in [
        ("TRACE /", 405),
        ("TRACE /up", 405),
        ("CONNECT a.test:443", 405),
        ("OPTIONS *", 400),
        ("get /", 400),
        ("GeT /up", 400),
        ("M1 /", 400),
        ("GET http://a..b/", 400),
        ("OPTIONS /up", 200),
        ("A-B_C /up", 200),
    ] {
        let request = format!("{start} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        // The connection ends with what is refused.
        let request = match expected {
            200 => request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
            _ => request,
        };
        assert_eq!(exchange(server.port, request).status, expected, "{start}");
    }
}
