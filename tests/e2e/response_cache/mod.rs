//! `cache` in a Caddyfile: responses of all handlers behind it.

mod apart;
mod choosing;
mod connections;
mod handlers;
mod keeping;
mod purging;
mod rules;

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup};

/// A server that caches in its folder, with these lines in the global option and these in its site.
fn caching(options: &str, site: &str) -> Setup {
    Setup::new(&caddyfile(options, site))
}

fn caddyfile(options: &str, site: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tcache {{\n\t\tdisk {{folder}}/cache\n\t\t{options}\n\t}}\n}}\n\
         :{{port}} {{\n\t{site}\n}}\n"
    )
}

/// One that caches what an upstream responds.
fn proxying(port: u16, options: &str) -> Server {
    let site = format!("cache\n\treverse_proxy 127.0.0.1:{port}");
    caching(options, &site).start()
}

/// Requests a path with these headers, each with its line ending.
fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n");
    if method != "HEAD" {
        return exchange(server.port, request);
    }
    let mut client = Client::connect(server.port);
    client.send(request);
    let head = client.head().expect("a response");
    Response {
        status: head[9..12].parse().expect("a status"),
        head,
        body: Vec::new(),
    }
}

fn get(server: &Server, path: &str) -> Response {
    ask(server, "GET", path, "")
}

/// What `Cache-Status` says: `hit`, or `fwd=REASON` with what follows, but for the key and the lifetime.
fn reported(response: &Response) -> String {
    let value = response.field("Cache-Status").unwrap_or("-");
    let parts = value.split("; ").skip(1);
    let parts = parts.filter(|part| !part.starts_with("key=") && !part.starts_with("ttl="));
    parts.collect::<Vec<_>>().join("; ")
}

/// Requests a path twice; the second response has to be the first one, from the cache.
fn is_cached(server: &Server, path: &str) {
    let first = get(server, path);
    assert!(reported(&first).starts_with("fwd=miss"), "{}", first.head);
    assert!(reported(&first).ends_with("stored"), "{}", first.head);
    let second = get(server, path);
    assert_eq!(reported(&second), "hit", "{path}: {}", second.head);
    assert_eq!(
        (second.status, &second.body),
        (first.status, &first.body),
        "{path}"
    );
}

/// A request to the admin API.
fn admin(server: &Server, method: &str, path: &str) -> Response {
    let host = server.admin;
    exchange(
        host,
        format!("{method} {path} HTTP/1.1\r\nHost: localhost:{host}\r\nConnection: close\r\n\r\n"),
    )
}
