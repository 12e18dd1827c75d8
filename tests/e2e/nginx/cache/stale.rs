//! Stale responses: when they are used, and how they become fresh.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Origin, caching, get, pair, request_field, say, seen, start};
use crate::harness::{Server, eventually};

/// An upstream that can be switched to failing, by path.
fn switched() -> (Origin, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let origin = Origin::start(move |wire, head, before| {
        let path = super::target(head).to_owned();
        let is_failing = failing.load(Ordering::SeqCst);
        match (is_failing, path.as_str()) {
            (true, "/closed" | "/strict" | "/allowed") => {
                let _ = wire.stream().shutdown(std::net::Shutdown::Both);
            }
            (true, "/garbage") => _ = wire.try_send("nonsense\r\n\r\n"),
            (true, "/status") => say(wire, "503 Service Unavailable", "", "broken"),
            (true, "/other-status") => say(wire, "500 Internal Server Error", "", "broken"),
            (_, "/strict") => say(
                wire,
                "200 OK",
                "Cache-Control: max-age=1, must-revalidate",
                "fine",
            ),
            (_, "/allowed") => say(
                wire,
                "200 OK",
                "Cache-Control: max-age=1, stale-if-error=600",
                "fine",
            ),
            _ => say(
                wire,
                "200 OK",
                "Cache-Control: max-age=1",
                &format!("fine {before}"),
            ),
        }
    });
    (origin, fails)
}

/// Sends requests until the cached response is no longer fresh.
fn until_stale(server: &Server, path: &str) -> (String, String) {
    let last = std::cell::RefCell::new(pair("", ""));
    eventually(
        "an answer that is no hit",
        || {
            *last.borrow_mut() = seen(&get(server, path));
            last.borrow().0 != "HIT"
        },
        || format!("{:?}", last.borrow()),
    );
    last.into_inner()
}

#[test]
fn stale_responses_replace_failures_if_allowed() {
    let (origin, fails) = switched();
    let port = origin.upstream.port;
    let lines = format!(
        "location /never/ {{ proxy_cache_use_stale off; proxy_pass http://127.0.0.1:{port}/; }}\n\
         proxy_cache_use_stale error invalid_header http_503;"
    );
    let server = start(caching(port, &lines));
    let paths = [
        "/closed",
        "/garbage",
        "/status",
        "/other-status",
        "/strict",
        "/allowed",
    ];
    for path in paths.iter().chain(&["/never/closed", "/never/allowed"]) {
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
    fails.store(true, Ordering::SeqCst);
    for path in ["/closed", "/garbage", "/status"] {
        assert_eq!(
            until_stale(&server, path),
            pair("STALE", "fine 0"),
            "{path}"
        );
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
    let old = get(&server, "/closed");
    let age = old.field("Age").and_then(|age| age.parse::<u64>().ok());
    assert!(age.is_some_and(|age| age >= 1), "{}", old.head);
    // Its status is not in the list, and a response that forbids it is not used stale (RFC 9111, section 4.2.4).
    assert_eq!(
        until_stale(&server, "/other-status"),
        pair("EXPIRED", "broken")
    );
    assert_eq!(until_stale(&server, "/strict").0, "EXPIRED");
    assert_eq!(get(&server, "/strict").status, 502);
    // One that allows it is used whatever the configuration says (RFC 5861, section 4).
    assert_eq!(until_stale(&server, "/allowed"), pair("STALE", "fine"));
    assert_eq!(until_stale(&server, "/never/allowed").0, "STALE");
    assert_eq!(until_stale(&server, "/never/closed").0, "EXPIRED");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(until_stale(&server, "/closed").0, "EXPIRED");
    assert_eq!(seen(&get(&server, "/closed")).0, "HIT");
}

#[test]
fn cached_failures_are_served_while_they_are_valid() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let origin = Origin::start(move |wire, _, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = wire.stream().shutdown(std::net::Shutdown::Both);
    });
    let lines = "proxy_cache_valid 502 1m;";
    let server = start(caching(origin.upstream.port, lines));
    for had in ["MISS", "HIT"] {
        let response = get(&server, "/a");
        assert_eq!(
            (response.status, response.field("X-Cache")),
            (502, Some(had))
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn stale_responses_are_validated_and_updated() {
    let origin = Origin::start(
        |wire, head, before| match request_field(head, "If-None-Match") {
            Some("\"tag\"") => say(
                wire,
                "304 Not Modified",
                "Cache-Control: max-age=60|X-New: yes"
                    .replace('|', "\r\n")
                    .as_str(),
                "",
            ),
            Some(other) => panic!("{other}"),
            None => say(
                wire,
                "200 OK",
                "Cache-Control: max-age=1\r\nEtag: \"tag\"\r\nX-Old: yes",
                &format!("content {before}"),
            ),
        },
    );
    let server = start(caching(origin.upstream.port, "proxy_cache_revalidate on;"));
    assert_eq!(seen(&get(&server, "/a")), pair("MISS", "content 0"));
    assert_eq!(until_stale(&server, "/a"), pair("REVALIDATED", "content 0"));
    let updated = get(&server, "/a");
    assert_eq!(seen(&updated), pair("HIT", "content 0"));
    assert_eq!(
        (
            updated.field("X-New"),
            updated.field("X-Old"),
            updated.field("Cache-Control")
        ),
        (Some("yes"), Some("yes"), Some("max-age=60"))
    );
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn one_request_updates_while_others_use_what_is_stale() {
    let gate = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let waits = gate.clone();
    let origin = Origin::start(move |wire, head, before| {
        if before > 0 && super::target(head) == "/a" {
            let is_open = waits.0.lock().expect("no test panics in it");
            drop(waits.1.wait_while(is_open, |is_open| !*is_open));
        }
        let fields = match super::target(head) {
            "/b" => "Cache-Control: max-age=1, stale-while-revalidate=600",
            _ => "Cache-Control: max-age=1",
        };
        say(wire, "200 OK", fields, &format!("content {before}"));
    });
    let port = origin.upstream.port;
    let lines = format!(
        "proxy_cache_background_update on;\n\
         location /a {{ proxy_cache_use_stale updating; proxy_pass http://127.0.0.1:{port}; }}"
    );
    let server = start(caching(port, &lines));
    assert_eq!(seen(&get(&server, "/a")), pair("MISS", "content 0"));
    // The upstream does not respond, but no client waits for it.
    assert_eq!(until_stale(&server, "/a"), pair("STALE", "content 0"));
    // For a worker whose clock is slightly behind it may still be fresh for a moment.
    eventually(
        "an answer while another request updates",
        || {
            let (had, text) = seen(&get(&server, "/a"));
            assert!(matches!(&*had, "HIT" | "UPDATING"), "{had}");
            assert_eq!(text, "content 0");
            had == "UPDATING"
        },
        String::new,
    );
    eventually("an update", || origin.count("/a") == 2, String::new);
    *gate.0.lock().expect("no test panics in it") = true;
    gate.1.notify_all();
    eventually(
        "the updated answer",
        || get(&server, "/a").text() != "content 0",
        String::new,
    );
    // The response itself can allow it.
    assert_eq!(seen(&get(&server, "/b")), pair("MISS", "content 0"));
    assert_eq!(until_stale(&server, "/b"), pair("STALE", "content 0"));
    eventually(
        "the updated answer",
        || get(&server, "/b").text() != "content 0",
        String::new,
    );
}
