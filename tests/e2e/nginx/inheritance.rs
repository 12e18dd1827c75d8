//! What a location inherits from its surroundings. The complete table is in `config/nginx/tests/inheritance.rs`, and
//! the comparison with nginx in `tests/peer/nginx_inherit.rs`.

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

/// A location inside an internal one is not accessible to clients.
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

/// A `limit_except` block inherits proxying, but no other content handler.
#[test]
fn other_methods_are_forwarded() {
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

/// A declared length is checked against the limit of the location for the path; a named location that the request is
/// redirected to limits bodies of undeclared length.
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

/// nginx responds to these before it selects a location.
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
        ("CONNECT a.test:443", 400),
        ("OPTIONS *", 400),
        ("get /", 400),
        ("GeT /up", 400),
        ("M1 /", 400),
        ("GET http://a..b/", 400),
        ("OPTIONS /up", 200),
        ("A-B_C /up", 200),
    ] {
        let request = format!("{start} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        // The connection is closed after a rejected request.
        let request = match expected {
            200 => request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
            _ => request,
        };
        assert_eq!(exchange(server.port, request).status, expected, "{start}");
    }
}
