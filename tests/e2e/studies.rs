//! The Caddyfiles of study 000 as printed: only ports and paths are replaced.

use crate::client::{Client, exchange};
use crate::harness::{Server, Setup};
use crate::upstream::{Upstream, dead};

const SYNTHETIC: &str = include_str!("../data/studies/000-synthetic.Caddyfile");
const STATIC: &str = include_str!("../data/studies/000-static.Caddyfile");
const PROXY: &str = include_str!("../data/studies/000-proxy.Caddyfile");

fn start(text: &str, from: &str, to: &str) -> Server {
    assert!(
        text.contains(":8080") && text.contains(from),
        "the study is as printed"
    );
    Server::start(&text.replace(from, to).replace(":8080", ":{port}"))
}

#[test]
fn synthetic() {
    let server = start(SYNTHETIC, ":8080", ":8080");
    let mut client = Client::connect(server.port);
    for path in ["/", "/anything?at=all"] {
        let response = client.get(path);
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "Hello, world!")
        );
        assert_eq!(
            response.field("Content-Type"),
            Some("text/plain; charset=utf-8")
        );
        assert_eq!(response.field("Content-Length"), Some("13"));
    }
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        client
            .head()
            .expect("an answer")
            .contains("Content-Length: 13\r\n")
    );
    assert_eq!(
        client.response().text(),
        "Hello, world!",
        "no body came with the head"
    );
}

#[test]
fn pipelined_requests_get_responses_in_order_on_one_connection() {
    let server = start(SYNTHETIC, "respond \"Hello, world!\"", "respond {path}");
    let mut client = Client::connect(server.port);
    let many: String = (0..200)
        .map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    client.send(many);
    for n in 0..200 {
        assert_eq!(client.response().text(), format!("/{n}"));
    }
}

#[test]
fn files() {
    let setup = Setup::new(
        &STATIC
            .replace(":8080", ":{port}")
            .replace("/srv/static", "{folder}/static"),
    );
    setup.folder().write("static/index.html", "<h1>small</h1>");
    let large: Vec<u8> = (0..190_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    setup.folder().write("static/large.bin", &large);
    let server = setup.start();
    let mut client = Client::connect(server.port);
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "<h1>small</h1>")
        );
        assert_eq!(
            response.field("Content-Type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(client.get("/large.bin").body, large);
        assert_eq!(client.get("/none").status, 404);
    }
}

#[test]
fn proxied() {
    let upstream = Upstream::echo();
    let server = start(PROXY, "8081", &upstream.port.to_string());
    let mut client = Client::connect(server.port);
    let response = client.get("/a/b?c=d");
    assert_eq!(response.status, 200);
    let said = response.text().to_ascii_lowercase();
    assert!(said.starts_with("get /a/b?c=d http/1.1\n"), "{said}");
    for line in [
        "\nhost: localhost\n",
        "\nx-forwarded-for: 127.0.0.1\n",
        "\nx-forwarded-proto: http\n",
    ] {
        assert!(said.contains(line), "{line} {said}");
    }
    let response = exchange(
        server.port,
        "POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody",
    );
    assert!(response.text().ends_with("\n\nbody"), "{}", response.text());
}

#[test]
fn proxied_to_nobody() {
    let server = start(PROXY, "8081", &dead().to_string());
    assert_eq!(server.ask("/").status, 502);
}

const OLD_PROXY: &str = include_str!("../data/studies/004-proxy.Caddyfile-v0");
const OLD_UPSTREAM: &str = include_str!("../data/studies/004-upstream.Caddyfile-v0");
const OLD_PAGE: &str = include_str!("../data/studies/004-index.html");

/// The upstream of study 004: files and nothing else, in the configuration language of Caddy 0.
fn old_upstream() -> Server {
    assert!(
        OLD_UPSTREAM.contains("http://:580 {"),
        "the study is as printed"
    );
    let setup = Setup::new(&OLD_UPSTREAM.replace(":580", ":{port}"));
    setup.folder().write("WebRoot/index.html", OLD_PAGE);
    setup.start()
}

/// The proxy of study 004 in front of a port.
fn old_proxy(upstream: u16) -> Server {
    assert!(
        OLD_PROXY.starts_with("http:// {"),
        "the study is as printed"
    );
    let text = OLD_PROXY.replace("http:// {", "http://:{port} {");
    Server::start(&text.replace(":580", &format!(":{upstream}")))
}

#[test]
fn files_of_caddy_0() {
    let server = old_upstream();
    let mut client = Client::connect(server.port);
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, OLD_PAGE));
        assert_eq!(
            response.field("Server"),
            None,
            "`header / -Server` removes it"
        );
    }
    assert_eq!(client.get("/none").status, 404);
    let said = server.stderr();
    assert!(said.contains("caddy1-dialect"), "{said}");
    assert_eq!(said.matches("[caddy1-").count(), 1, "{said}");
}

#[test]
fn proxy_of_caddy_0() {
    let upstream = old_upstream();
    let server = old_proxy(upstream.port);
    let response = server.ask("/");
    assert_eq!((response.status, response.text().as_str()), (200, OLD_PAGE));
    assert_eq!(response.field("Server"), None);
}

/// Caddy 0 took the address of a client from the client's own X-Forwarded-For, which is unsafe.
#[test]
fn proxy_of_caddy_0_sends_the_peers_address() {
    let upstream = Upstream::echo();
    let server = old_proxy(upstream.port);
    let response = exchange(
        server.port,
        "GET /x HTTP/1.1\r\nHost: a.example:99\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\n\r\n",
    );
    let said = response.text().to_ascii_lowercase();
    for line in [
        "\nhost: a.example:99\n",
        "\nx-real-ip: 127.0.0.1\n",
        "\nx-forwarded-proto: http\n",
    ] {
        assert!(said.contains(line), "{line} {said}");
    }
    assert!(!said.contains("1.2.3.4"), "{said}");
}

#[test]
fn failures_of_caddy_0_go_to_their_file() {
    let server = old_proxy(dead());
    assert_eq!(server.ask("/lost").status, 502);
    crate::harness::eventually(
        "the failure in the log",
        || server.folder.read("CaddyErrors.log").contains("/lost"),
        || server.folder.read("CaddyErrors.log"),
    );
}
