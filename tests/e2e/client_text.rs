//! Text from clients that a configuration puts into messages: methods, headers, targets and statuses. Whatever it is,
//! the result is a valid message or an error of that one request.

use crate::client::{Client, Response, exchange};
use crate::harness::Server;
use crate::nginx::setup;
use crate::upstream::Upstream;

/// The response to a request, checking that the log has no panic.
fn get(port: u16, path: &str, headers: &str) -> Response {
    exchange(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}Connection: close\r\n\r\n"),
    )
}

fn assert_no_panic(server: &Server) {
    let log = server.stderr();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn a_method_that_a_client_names_is_a_token_or_refused() {
    let upstream = Upstream::echo();
    let server = setup(&format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nlocation / {{\n\
         proxy_method $http_x_http_method_override;\nproxy_pass http://127.0.0.1:{};\n}}\n}}\n}}\n",
        upstream.port
    ))
    .start();
    let asked = |method: &str| {
        let response = get(
            server.port,
            "/",
            &format!("X-HTTP-Method-Override: {method}\r\n"),
        );
        let text = response.text();
        let line = text.lines().next().unwrap_or_default();
        (
            response.status,
            line.split(' ').next().unwrap_or_default().to_owned(),
        )
    };
    for refused in [
        "G/x",
        "G x",
        "G\tx",
        "G\"x",
        "G\u{e9}t",
        "(",
        "GET /x HTTP/1.1",
    ] {
        assert_eq!(asked(refused).0, 400, "{refused}");
    }
    assert_eq!(asked("PURGE"), (200, "PURGE".into()));
    assert_eq!(asked("M-SEARCH"), (200, "M-SEARCH".into()));
    // An empty one leaves the client's method.
    assert_eq!(asked(""), (200, "GET".into()));
    assert_eq!(asked("CONNECT").0, 405);
    assert_no_panic(&server);
}

#[test]
fn a_method_of_a_caddyfile_is_a_token_or_refused() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\tmethod {{http.request.header.X-Method}}\n\t\
         reverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    let asked = |method: &str| get(server.port, "/", &format!("X-Method: {method}\r\n"));
    assert_eq!(asked("G/x").status, 400);
    assert_eq!(asked("G x").status, 400);
    assert!(asked("purge").text().starts_with("PURGE / "));
    assert!(asked("").text().starts_with("GET / "));
    assert_no_panic(&server);
}

/// Decoded paths could bring line breaks into a configured header.
#[test]
fn no_control_character_of_a_client_reaches_an_upstream_in_a_header() {
    let upstream = Upstream::echo();
    let caddy = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy localhost:{} {{\n\t\theader_up X-Path {{path}}\n\t\t\
         header_up X-Lines \"a\n  b\"\n\t}}\n}}\n",
        upstream.port
    ));
    let nginx = setup(&format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{{port}};\nlocation / {{\n\
         proxy_pass http://127.0.0.1:{0};\nproxy_set_header X-Path $uri;\n}}\nlocation /host {{\n\
         proxy_pass http://127.0.0.1:{0};\nproxy_set_header Host $uri;\n}}\n}}\n}}\n",
        upstream.port
    ))
    .start();
    for server in [&caddy, &nginx] {
        for escape in ["%0d%0aX-Admin:%201", "%0a", "%01", "%7f", "%1b[2J"] {
            let response = get(server.port, &format!("/a{escape}"), "");
            assert_eq!(response.status, 400, "{escape}");
        }
        let plain = get(server.port, "/a%20b", "").text();
        assert!(plain.contains("X-Path: /a b"), "{plain}");
        assert_no_panic(server);
    }
    assert_eq!(get(nginx.port, "/host%0d%0aX:%20y", "").status, 400);
    // Line breaks of the configuration itself become spaces.
    let lines = get(caddy.port, "/", "").text();
    assert!(lines.contains("X-Lines: a   b"), "{lines}");
}

/// The same for an HTTP/2 upstream.
#[test]
fn no_control_character_of_a_client_opens_a_stream_to_an_upstream() {
    let inner = Server::start(
        "{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n:{port} {\n\trespond \"{header.X-Path}\"\n}\n",
    );
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy h2c://localhost:{} {{\n\t\theader_up X-Path {{path}}\n\t}}\n}}\n",
        inner.port
    ));
    assert_eq!(get(server.port, "/a%0d%0ab", "").status, 400);
    let response = get(server.port, "/a%20b", "");
    assert_eq!((response.status, response.text()), (200, "/a b".into()));
    assert_no_panic(&server);
}

#[test]
fn a_status_that_a_client_names_ends_a_response_or_is_refused() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\thandle /fail {\n\t\terror no {http.request.header.X-Status}\n\t}\n\t\
         respond text {http.request.header.X-Status}\n}\n",
    );
    for (status, expected) in [
        ("200", 200),
        ("404", 404),
        ("999", 999),
        ("100", 500),
        ("101", 500),
        ("103", 500),
        ("199", 500),
        ("99", 500),
        ("1000", 500),
        ("-200", 500),
        ("200 OK", 500),
        ("", 500),
    ] {
        for path in ["/", "/fail"] {
            let response = get(server.port, path, &format!("X-Status: {status}\r\n"));
            assert_eq!(response.status, expected, "{path} {status}");
        }
    }
    assert_no_panic(&server);
}

#[test]
fn nothing_opens_a_tunnel_on_a_site() {
    let server = Server::start(
        "{\n\tadmin off\n\tauto_https off\n}\nhttp://a.test:{port} {\n\trespond hello\n}\n",
    );
    for target in ["a.test:80", "a.test:{port}", "b.test:443"] {
        let target = target.replace("{port}", &server.port.to_string());
        let mut client = Client::connect(server.port);
        client.send(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!(response.status, 405, "{target}");
        assert!(response.field("Allow").is_some(), "{}", response.head);
        // Whatever would have gone through the tunnel is ignored.
        assert!(client.try_response().is_err(), "{target}");
    }
}

#[test]
fn a_request_line_without_end_is_too_long() {
    let server = Server::start("{\n\tadmin off\n}\n:{port} {\n\trespond hello\n}\n");
    for (length, status) in [(100_000, 414), (9_000, 414), (300, 501), (40, 501)] {
        let mut client = Client::connect(server.port);
        // The server may close before it has read all of it.
        let _ = client.try_send(format!(
            "{} / HTTP/1.1\r\nHost: a\r\n\r\n",
            "M".repeat(length)
        ));
        let response = client.response();
        assert_eq!(response.status, status, "{length}");
        assert_eq!(response.field("Connection"), Some("close"));
    }
}
