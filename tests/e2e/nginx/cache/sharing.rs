//! Concurrent requests for a response that is not cached yet.

use std::sync::{Arc, Condvar, Mutex};

use super::{Origin, caching, get, pair, say, seen, start};
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::nginx::setup;
use crate::wire::Wire;

/// A gate that a test opens.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("no test panics in it") = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let is_open = self.0.0.lock().expect("no test panics in it");
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open));
    }
}

const REQUEST: &str = "GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

#[test]
fn one_asks_and_the_others_wait() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, _, before| {
        closed.wait();
        say(
            wire,
            "200 OK",
            "Cache-Control: max-age=60",
            &format!("content {before}"),
        );
    });
    let lines = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";
    let server = start(caching(origin.upstream.port, lines));
    let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send(REQUEST);
    }
    eventually("the first request", || origin.count("/a") == 1, String::new);
    gate.open();
    let mut responses: Vec<_> = clients
        .iter_mut()
        .map(|client| seen(&client.response()))
        .collect();
    responses.sort();
    assert_eq!(responses[29], pair("MISS", "content 0"));
    for hit in &responses[..29] {
        assert_eq!(*hit, pair("HIT", "content 0"));
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn the_cache_lock_ends_when_a_response_is_not_stored_or_takes_long() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, head, before| {
        if before == 0 {
            closed.wait();
        }
        let fields = match super::target(head) {
            "/private" => "Cache-Control: private",
            _ => "Cache-Control: max-age=60",
        };
        say(wire, "200 OK", fields, &format!("content {before}"));
    });
    let lines = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;\n\
                 location /short { proxy_cache_lock_timeout 100ms; proxy_pass http://127.0.0.1:PORT; }\n\
                 location /aged { proxy_cache_lock_age 100ms; proxy_cache_lock_timeout 1ms; proxy_pass http://127.0.0.1:PORT; }";
    let lines = lines.replace("PORT", &origin.upstream.port.to_string());
    let server = start(caching(origin.upstream.port, &lines));
    let first = |path: &str| {
        let mut client = Client::connect(server.port);
        client.send(REQUEST.replace("/a", path));
        eventually("the first request", || origin.count(path) == 1, String::new);
        client
    };
    // Its lock timeout has expired: it requests the response itself, and does not cache it.
    let mut slow = first("/short");
    assert_eq!(seen(&get(&server, "/short")), pair("MISS", "content 1"));
    assert_eq!(seen(&get(&server, "/short")), pair("MISS", "content 2"));
    // The first one takes too long: another may cache its response.
    let mut aged = first("/aged");
    eventually(
        "an answer of another request",
        || seen(&get(&server, "/aged")).0 == "HIT",
        String::new,
    );
    let mut private = first("/private");
    let mut waiting: Vec<Client> = (0..10).map(|_| Client::connect(server.port)).collect();
    for client in &mut waiting {
        client.send(REQUEST.replace("/a", "/private"));
    }
    gate.open();
    for client in [&mut slow, &mut aged, &mut private] {
        assert_eq!(seen(&client.response()), pair("MISS", "content 0"));
    }
    for client in &mut waiting {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(origin.count("/private"), 11);
}

#[test]
fn the_next_one_asks_when_the_first_one_fails() {
    let origin = Origin::start(|wire, _, before| match before {
        0 => _ = wire.stream().shutdown(std::net::Shutdown::Both),
        _ => say(
            wire,
            "200 OK",
            "Cache-Control: max-age=60",
            &format!("content {before}"),
        ),
    });
    let server = start(caching(
        origin.upstream.port,
        "proxy_cache_lock on; proxy_cache_lock_timeout 1h;",
    ));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send(REQUEST);
    }
    let responses: Vec<_> = clients.iter_mut().map(Client::response).collect();
    let failed = responses
        .iter()
        .filter(|response| response.status == 502)
        .count();
    assert_eq!(failed, 1);
    for response in responses.iter().filter(|response| response.status == 200) {
        assert_eq!(response.text(), "content 1");
    }
    assert_eq!(origin.count("/a"), 2);
}

/// A waiting request checks the age as well, not only later ones.
#[test]
fn a_waiting_request_proceeds_when_the_first_takes_too_long() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, _, before| {
        if before == 0 {
            closed.wait();
        }
        let text = format!("content {before}");
        say(wire, "200 OK", "Cache-Control: max-age=60", &text);
    });
    let lines = "proxy_cache_lock on; proxy_cache_lock_age 200ms; proxy_cache_lock_timeout 1h;";
    let server = start(caching(origin.upstream.port, lines));
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send(REQUEST);
    }
    eventually("a second request", || origin.count("/a") >= 2, String::new);
    gate.open();
    let responses: Vec<_> = clients
        .iter_mut()
        .map(|client| seen(&client.response()))
        .collect();
    let missed = responses.iter().filter(|(had, _)| had == "MISS").count();
    assert_eq!(missed, origin.count("/a"), "{responses:?}");
}

/// More than the socket buffers of a connection hold with the usual limits of Linux, 6 MiB and 4 MiB.
const CONTENT_BYTES: u64 = 12_000_000;

/// Bytes in a pattern that shows what is missing.
fn long_content() -> String {
    (0..CONTENT_BYTES / 100)
        .map(|at| format!("{at:0100}"))
        .collect()
}

/// Reads the body of a response whose head was read.
fn rest(wire: &mut Wire) -> String {
    String::from_utf8(wire.take(CONTENT_BYTES)).expect("digits")
}

#[test]
fn a_slow_client_delays_nobody_else() {
    let content = long_content();
    let sent = content.clone();
    let origin = Origin::start(move |wire, _, _| {
        say(wire, "200 OK", "Cache-Control: max-age=60", &sent);
    });
    let lines = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";
    let server = start(caching(origin.upstream.port, lines));
    let mut slow = Wire::connect(server.port);
    slow.send(REQUEST);
    let head = slow.head().expect("an answer");
    assert!(head[0].contains("200"), "{head:?}");
    // The client has stopped reading. The whole response is cached anyway, and others get it.
    super::eventually_stored(&server, 1);
    for _ in 0..2 {
        let response = get(&server, "/a");
        assert_eq!(response.field("X-Cache"), Some("HIT"));
        assert!(
            response.text() == content,
            "what is stored is what was sent"
        );
    }
    assert!(rest(&mut slow) == content, "the slow one gets all of it");
    // A client that disconnects instead of reading does not make others wait either.
    let mut leaving = Wire::connect(server.port);
    leaving.send(REQUEST.replace("/a", "/left"));
    leaving.head().expect("an answer");
    drop(leaving);
    super::eventually_stored(&server, 2);
    assert!(get(&server, "/left").text() == content);
    assert_eq!(origin.count("/left"), 1);
}

#[test]
fn a_slow_client_gets_everything_that_does_not_fit_in_memory() {
    let content = long_content();
    let sent = content.clone();
    let origin = Origin::start(move |wire, _, _| {
        // Without a length it is not known to be too long.
        let _ = wire.try_send(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        for part in sent.as_bytes().chunks(50_000) {
            let _ = wire.try_send(format!("{:x}\r\n", part.len()));
            let _ = wire.try_send(part);
            if wire.try_send("\r\n").is_err() {
                return;
            }
        }
        let _ = wire.try_send("0\r\n\r\n");
    });
    let port = origin.upstream.port;
    let conf = format!(
        "events {{}}\nhttp {{\nproxy_cache_path {{folder}}/cache keys_zone=one:1m max_size=3m;\nserver {{\nlisten 127.0.0.1:{{port}};\n\
         proxy_cache one;\nlocation / {{ proxy_pass http://127.0.0.1:{port}; }}\n}}\n}}\n"
    );
    let server = start(setup(&conf));
    let mut slow = Wire::connect(server.port);
    slow.send(REQUEST);
    slow.head().expect("an answer");
    // As much as fits is in the file, which is then abandoned.
    eventually(
        "the store to be left",
        || filling(&server) == 0,
        || filling(&server).to_string(),
    );
    let mut had = String::new();
    while let Some(chunk) = slow.chunk().filter(|chunk| !chunk.is_empty()) {
        had.push_str(std::str::from_utf8(&chunk).expect("digits"));
    }
    assert!(had == content, "{} bytes of it", had.len());
}

/// Number of responses being written to the cache.
fn filling(server: &Server) -> usize {
    let folder = server.folder.path().join("cache/.filling");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}
