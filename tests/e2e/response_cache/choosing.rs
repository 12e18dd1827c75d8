//! When a cached response is used, renewed or replaced, and what concurrent requests do meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ask, get, proxying, reported};
use crate::client::{Client, Response};
use crate::harness::{Server, eventually};
use crate::nginx::cache::sharing::Gate;
use crate::nginx::cache::{Origin, say, target};
use crate::wire::field;

/// Requests a path until the response is not a hit of a fresh one.
fn until_stale(server: &Server, path: &str) -> Response {
    let last = std::cell::RefCell::new(None);
    eventually(
        "a response that is no longer fresh",
        || {
            let response = get(server, path);
            let status = response
                .field("Cache-Status")
                .unwrap_or_default()
                .to_owned();
            let is_fresh =
                status.contains("; hit") && !status.contains("ttl=-") && !status.contains("ttl=0");
            *last.borrow_mut() = Some(response);
            !is_fresh
        },
        || server.stderr(),
    );
    last.into_inner().expect("a response")
}

#[test]
fn requests_choose_which_responses_they_accept() {
    let origin = Origin::describing(&[("/a", "Cache-Control: max-age=600")]);
    let server = proxying(origin.upstream.port, "");
    let only = ask(&server, "GET", "/a", "Cache-Control: only-if-cached\r\n");
    assert_eq!((only.status, origin.count("/a")), (504, 0));
    get(&server, "/a");
    let only = ask(&server, "GET", "/a", "Cache-Control: only-if-cached\r\n");
    assert_eq!((only.status, reported(&only).as_str()), (200, "hit"));
    for (count, directive) in [(2, "no-cache"), (3, "min-fresh=601")] {
        let fields = format!("Cache-Control: {directive}\r\n");
        let response = ask(&server, "GET", "/a", &fields);
        assert_eq!(
            reported(&response),
            "fwd=request; fwd-status=200; stored",
            "{directive}"
        );
        assert_eq!(origin.count("/a"), count);
        let text = format!("/a {}", count - 1);
        assert_eq!(
            get(&server, "/a").text(),
            text,
            "it replaces the cached response"
        );
    }
    let response = ask(&server, "GET", "/a", "Cache-Control: max-age=600\r\n");
    assert_eq!(reported(&response), "hit");
}

#[test]
fn stale_responses_are_validated() {
    let origin = Origin::start(|wire, head, before| {
        let fields = "ETag: \"1\"\r\nCache-Control: max-age=1";
        match field(head, "If-None-Match") {
            Some("\"1\"") => {
                let _ = wire.try_send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"));
            }
            _ => say(wire, "200 OK", fields, &format!("content {before}")),
        }
    });
    let server = proxying(origin.upstream.port, "");
    assert_eq!(
        reported(&get(&server, "/a")),
        "fwd=miss; fwd-status=200; stored"
    );
    let renewed = until_stale(&server, "/a");
    assert_eq!(reported(&renewed), "fwd=stale; fwd-status=304");
    assert_eq!(
        (renewed.status, renewed.text().as_str()),
        (200, "content 0")
    );
    // A request that does not accept the cached response has it validated as well.
    let response = ask(&server, "GET", "/a", "Cache-Control: no-cache\r\n");
    assert!(
        reported(&response).ends_with("fwd-status=304"),
        "{}",
        response.head
    );
    assert_eq!(response.text(), "content 0");
}

/// An upstream that fails from some time on; its responses are fresh for a second.
fn failing() -> (Origin, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let origin = Origin::start(move |wire, head, before| {
        if failing.load(Ordering::SeqCst) {
            match target(head) {
                "/closed" => _ = wire.stream().shutdown(std::net::Shutdown::Both),
                _ => say(wire, "503 Service Unavailable", "", "broken"),
            }
            return;
        }
        let fields = match target(head) {
            "/strict" => "Cache-Control: max-age=1, must-revalidate",
            "/updating" => "Cache-Control: max-age=1, stale-while-revalidate=600",
            _ => "Cache-Control: max-age=1",
        };
        say(wire, "200 OK", fields, &format!("content {before}"));
    });
    (origin, fails)
}

#[test]
fn stale_responses_replace_failures() {
    let (origin, fails) = failing();
    let server = proxying(origin.upstream.port, "stale 1h");
    for path in ["/closed", "/status", "/strict"] {
        assert_eq!(get(&server, path).status, 200);
    }
    fails.store(true, Ordering::SeqCst);
    for path in ["/closed", "/status"] {
        let stale = until_stale(&server, path);
        assert_eq!(
            (stale.status, reported(&stale).as_str()),
            (200, "hit"),
            "{path}: {}",
            stale.head
        );
        assert_eq!(stale.text(), "content 0");
    }
    // RFC 9111, section 4.2.4.
    let strict = until_stale(&server, "/strict");
    assert_eq!((strict.status, strict.text().as_str()), (503, "broken"));
    let response = ask(
        &server,
        "GET",
        "/closed",
        "Cache-Control: max-stale=600, only-if-cached\r\n",
    );
    assert_eq!(
        (response.status, reported(&response).as_str()),
        (200, "hit")
    );
    fails.store(false, Ordering::SeqCst);
    assert!(reported(&until_stale(&server, "/status")).starts_with("fwd=stale"));
}

#[test]
fn stale_responses_have_no_headers_of_what_failed() {
    let (origin, fails) = failing();
    let site = format!(
        "cache\n\troute {{\n\t\t@late file {{\n\t\t\troot {{folder}}\n\t\t\ttry_files /late\n\t\t}}\n\t\t\
         header @late X-Late yes\n\t\treverse_proxy 127.0.0.1:{}\n\t}}",
        origin.upstream.port
    );
    let server = super::caching("stale 1h", &site).start();
    assert_eq!(get(&server, "/closed").status, 200);
    server.folder.write("late", "");
    let tries = std::cell::Cell::new(0);
    eventually(
        "the header, as a file is looked for again only after a moment",
        || {
            tries.set(tries.get() + 1);
            let other = get(&server, &format!("/other?{}", tries.get()));
            other.field("X-Late") == Some("yes")
        },
        || server.stderr(),
    );
    fails.store(true, Ordering::SeqCst);
    let stale = until_stale(&server, "/closed");
    assert_eq!(reported(&stale), "hit", "{}", stale.head);
    assert_eq!(stale.field("X-Late"), None, "{}", stale.head);
}

#[test]
fn background_renewals_are_those_of_their_clients() {
    let origin = Origin::start(|wire, head, before| {
        let fields = match (target(head), before) {
            ("/auth", _) => "",
            (_, 0) => "Cache-Control: public, max-age=1, stale-while-revalidate=600",
            _ => "Cache-Control: max-age=600",
        };
        say(wire, "200 OK", fields, &format!("content {before}"));
    });
    let port = origin.upstream.port;
    let server = crate::harness::Setup::new(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\torder cache after forward_auth\n}}\n:{{port}} {{\n\tcache {{\n\t\t\
         disk {{folder}}/cache\n\t}}\n\tforward_auth 127.0.0.1:{port} {{\n\t\turi /auth\n\t}}\n\t\
         reverse_proxy 127.0.0.1:{port}\n}}\n"
    ))
    .start();
    assert!(reported(&get(&server, "/a")).ends_with("stored"));
    let stale = until_stale(&server, "/a");
    assert_eq!(
        (reported(&stale).as_str(), stale.text().as_str()),
        ("hit", "content 0")
    );
    // The response to it may be for one client only, so it is not stored, and the next request asks for it again.
    eventually(
        "another renewal",
        || {
            assert_eq!(get(&server, "/a").text(), "content 0");
            origin.count("/a") >= 3
        },
        || server.stderr(),
    );
    assert_eq!(
        crate::nginx::cache::counted(&server, "sluice_cache_stored_total"),
        1
    );
}

#[test]
fn stale_responses_are_renewed_in_the_background() {
    let (origin, _) = failing();
    let server = proxying(origin.upstream.port, "");
    assert_eq!(get(&server, "/updating").text(), "content 0");
    let stale = until_stale(&server, "/updating");
    assert_eq!(
        (reported(&stale).as_str(), stale.text().as_str()),
        ("hit", "content 0")
    );
    eventually(
        "the new response",
        || get(&server, "/updating").text() != "content 0",
        || server.stderr(),
    );
}

#[test]
fn one_of_a_hundred_requests_fetches_the_response() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, head, before| {
        closed.wait();
        let fields = match target(head) {
            "/private" => "Cache-Control: private",
            _ => "Cache-Control: max-age=600",
        };
        say(wire, "200 OK", fields, &format!("content {before}"));
    });
    let server = proxying(origin.upstream.port, "");
    let mut clients: Vec<Client> = (0..100).map(|_| Client::connect(server.port)).collect();
    let request = "GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    clients.iter_mut().for_each(|client| client.send(request));
    eventually("the first request", || origin.count("/a") == 1, String::new);
    gate.open();
    let mut hits = 0;
    for client in &mut clients {
        let response = client.response();
        assert_eq!(response.text(), "content 0");
        hits += usize::from(reported(&response) == "hit");
    }
    assert_eq!((hits, origin.count("/a")), (99, 1));
    // Responses that are not stored do not keep others waiting for one another.
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(server.port)).collect();
    let request = request.replace("/a", "/private");
    clients.iter_mut().for_each(|client| client.send(&request));
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(origin.count("/private"), 10);
}

#[test]
fn handlers_that_take_too_long_are_abandoned() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, head, _| {
        if target(head) == "/slow" {
            closed.wait();
        }
        say(wire, "200 OK", "", "late");
    });
    let server = proxying(
        origin.upstream.port,
        "timeout {\n\t\t\tbackend 100ms\n\t\t}",
    );
    let response = get(&server, "/slow");
    assert_eq!(response.status, 504, "{}", response.head);
    gate.open();
    // A busy machine may need more time now and then.
    eventually(
        "a response in time",
        || get(&server, "/fast").text() == "late",
        || server.stderr(),
    );
}
