//! Clients of all protocols, clients that leave, and responses that outgrow what may be stored.

use std::process::Command;

use super::{caching, get, is_cached, proxying, reported};
use crate::abilities;
use crate::client::Client;
use crate::harness::{Setup, eventually};
use crate::nginx::cache::sharing::Gate;
use crate::nginx::cache::{Origin, counted, target};
use crate::wire::field;

const UUID: &str = "respond \"{http.request.uuid}\"";

#[test]
fn http_2_and_http_1_share_responses() {
    let site = format!("cache {{\n\tdisk {{folder}}/cache\n}}\n{UUID}");
    let server = Setup::new(&crate::h2::serving::plain("", &site)).start();
    let mut peer = crate::h2::peer::Peer::connect(server.port);
    let first = peer.fetch("/a");
    let status = |value: Option<&str>| value.unwrap_or_default().to_owned();
    assert!(status(first.field("cache-status")).contains("stored"));
    let second = peer.fetch("/a");
    assert!(status(second.field("cache-status")).contains("; hit"));
    assert_eq!(first.text(), second.text());
    let request = "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let third = crate::client::exchange(server.port, request);
    assert_eq!(
        (reported(&third).as_str(), third.text()),
        ("hit", first.text())
    );
}

#[test]
fn responses_are_cached_for_http_3() {
    let site = format!("cache {{\n\tdisk {{folder}}/cache\n}}\n{UUID}");
    let server = Setup::new(&crate::h3::serving::site("", &site)).start();
    let mut peer = crate::h3::peer::Peer::connect(server.port);
    let [first, second] = ["/a"; 2].map(|path| peer.fetch(path));
    let status = |value: Option<&str>| value.unwrap_or_default().to_owned();
    assert!(status(first.field("cache-status")).contains("stored"));
    assert!(status(second.field("cache-status")).contains("; hit"));
    assert_eq!(first.text(), second.text());
}

#[test]
fn upgrades_pass_the_cache() {
    let origin = Origin::start(|wire, head, _| {
        let protocol = field(head, "Upgrade").unwrap_or("none").to_owned();
        let _ = wire.try_send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\nhello"
        ));
    });
    let server = proxying(origin.upstream.port, "");
    for count in 1..=2 {
        let mut client = Client::connect(server.port);
        client.send(
            "GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
        );
        let head = client.head().expect("a response");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(!head.contains("Cache-Status"), "{head}");
        let said: Vec<u8> = (0..5).map(|_| client.byte().expect("a byte")).collect();
        assert_eq!(said, b"hello");
        assert_eq!(origin.count("/a"), count);
    }
}

#[test]
fn what_a_client_does_not_wait_for_is_stored() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, head, _| {
        let length = 11;
        let _ = wire.try_send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nfirst"
        ));
        closed.wait();
        if target(head) == "/whole" {
            let _ = wire.try_send(" second");
        } else {
            let _ = wire.stream().shutdown(std::net::Shutdown::Both);
        }
    });
    let server = proxying(origin.upstream.port, "");
    for path in ["/whole", "/cut"] {
        let mut client = Client::connect(server.port);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.head().expect("a head");
        assert_eq!(client.byte().expect("a byte"), b'f');
    }
    gate.open();
    let _ = get(&server, "/whole");
    eventually(
        "the response that its client has left",
        || reported(&get(&server, "/whole")) == "hit",
        || server.stderr(),
    );
    assert_eq!(origin.count("/whole"), 1);
    assert_eq!(
        counted(&server, "sluice_cache_stored_total"),
        1,
        "not the other"
    );
}

#[test]
fn nobody_waits_for_a_response_that_is_too_long_to_be_stored() {
    let gate = Gate::default();
    let closed = gate.clone();
    let origin = Origin::start(move |wire, head, before| {
        let some = format!("10000\r\n{}\r\n", "x".repeat(65_536));
        let _ = wire.try_send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let _ = wire.try_send(&some);
        if before == 0 && target(head) == "/a" {
            closed.wait();
        }
        let _ = wire.try_send("0\r\n\r\n");
    });
    // Requests wait for as long as the test does.
    let text = format!(
        "events {{}}\nhttp {{\nproxy_cache_path {{folder}}/cache keys_zone=one:1m max_size=32k;\nserver {{\n\
         listen 127.0.0.1:{{port}};\nproxy_cache one;\nproxy_cache_valid 1h;\nproxy_cache_lock on;\nproxy_cache_lock_age 1h;\n\
         proxy_cache_lock_timeout 1h;\nlocation / {{ proxy_pass http://127.0.0.1:{}; }}\n}}\n}}\n",
        origin.upstream.port
    );
    let server = crate::nginx::setup(&text).start();
    let mut first = Client::connect(server.port);
    first.send("GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    first.head().expect("a head");
    let second = get(&server, "/a");
    assert_eq!((second.status, second.body.len()), (200, 65_536));
    gate.open();
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_limit_on_the_size_of_files_ends_no_server() {
    let site = format!(
        "root * {{folder}}\n\tcache\n\thandle /file {{\n\t\tfile_server\n\t}}\n\thandle {{\n\t\t{UUID}\n\t}}"
    );
    let setup = caching("", &site);
    let content = "0123456789".repeat(20_000);
    std::fs::write(setup.folder().path().join("file"), &content).expect("writable");
    let server = setup.start();
    let limited = Command::new("prlimit")
        .arg(format!("--pid={}", server.pid()))
        .arg("--fsize=65536")
        .status();
    match limited {
        Ok(status) if status.success() => {}
        Ok(_) | Err(_) => return abilities::skipped("prlimit cannot limit the size of files"),
    }
    for _ in 0..2 {
        let response = get(&server, "/file");
        assert_eq!(response.status, 200, "{}", response.head);
        assert!(response.text() == content, "{}", response.body.len());
        assert!(
            reported(&response).starts_with("fwd=miss"),
            "{}",
            response.head
        );
    }
    server.wait_for_words("cannot store a response in the cache");
    is_cached(&server, "/small");
}
