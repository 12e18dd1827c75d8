//! Known denial-of-service attacks on HTTP/2 servers (rows 17 to 22 of the list of attacks, with their CVE): the
//! connection ends, memory stays bounded, and other clients are served.

use std::time::{Duration, Instant};

use super::peer::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW, PING, PRIORITY,
    Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, request,
};
use super::serving::plain;
use crate::harness::{MEMORY_STEPS, Server, eventually};
use crate::support::wait::until;
use crate::upstream::Upstream;

/// Permitted memory growth for one attacking connection, in KiB.
const GROWTH_MAX: u64 = 1024;

/// How long an attack may last before its connection is closed.
const TIMEOUT: Duration = Duration::from_secs(20);

// Error codes (RFC 9113, section 7).
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const CALM: u32 = 11;

/// A server that has already served requests, so that its memory does not grow from first use.
fn start(site: &str) -> Server {
    let server = Server::start(&plain("", site));
    for _ in 0..4 {
        let mut peer = Peer::connect(server.port);
        let ids: Vec<u32> = (0..100).map(|_| peer.get("/")).collect();
        ids.into_iter()
            .for_each(|id| assert_eq!(peer.response(id).status, 200));
    }
    server
}

/// Sends `flood` repeatedly until the server closes the connection; returns how often, and the error code of its
/// GOAWAY.
fn attack(server: &Server, mut flood: impl FnMut(&mut Peer) -> Vec<u8>) -> (u64, Option<u32>) {
    let before = server.status("RssAnon");
    let mut peer = Peer::connect(server.port);
    let mut bystander = Peer::connect(server.port);
    let (begun, mut rounds, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    loop {
        let bytes = flood(&mut peer);
        if peer.try_send(&bytes).is_err() {
            break;
        }
        rounds += 1;
        if rounds % 64 == 1 {
            let asked = Instant::now();
            assert_eq!(bystander.fetch("/").status, 200);
            slowest = slowest.max(asked.elapsed());
        }
        assert!(
            begun.elapsed() < TIMEOUT,
            "after {rounds} rounds it goes on"
        );
    }
    let gone = peer.goodbye().map(|frame| frame.code());
    let after = server.status("RssAnon");
    println!("{rounds} rounds, {before} -> {after} KiB, others waited {slowest:?}");
    assert!(
        after <= before + GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
    assert_eq!(bystander.fetch("/").status, 200);
    assert!(
        slowest < Duration::from_secs(2),
        "others waited {slowest:?}"
    );
    (rounds, gone)
}

/// Asserts that the last connection was closed with ENHANCE_YOUR_CALM. The GOAWAY may be lost, as the socket is closed
/// while data still arrives.
fn assert_calmed(server: &Server, (_, close_code): (u64, Option<u32>)) {
    assert!(matches!(close_code, None | Some(CALM)), "{close_code:?}");
    let counted = || server.metrics();
    let line = "sluice_http2_connections_calmed_total 1";
    eventually(line, || counted().contains(line), counted);
}

fn opened(peer: &mut Peer, id: u32, flags: u8) -> Vec<u8> {
    let _ = peer;
    frame(
        HEADERS,
        END_HEADERS | flags,
        id,
        &block(&request("GET", "/")),
    )
}

/// Stream IDs, each used once.
fn ids() -> impl FnMut() -> u32 {
    let mut id = 0;
    move || {
        id += 1;
        2 * id - 1
    }
}

#[test]
fn rapid_reset_ends_the_connection() {
    let server = start("respond hello");
    let mut next = ids();
    let ended = attack(&server, |peer| {
        let mut bytes = Vec::new();
        for _ in 0..50 {
            let id = next();
            bytes.extend(opened(peer, id, END_STREAM));
            bytes.extend(frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
        }
        bytes
    });
    assert!(
        ended.0 * 50 < 20_000,
        "{} requests were opened",
        ended.0 * 50
    );
    assert_calmed(&server, ended);
}

/// CVE-2023-44487 if each request is expensive: nothing of the reset ones remains, and the next is served. It may be
/// refused, meaning that it can be retried, as long as the earlier ones are being processed.
#[test]
fn requests_that_were_reset_leave_no_work() {
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            if head[0].contains("/slow") {
                // Work that takes long compared with the requests that reset it.
                std::thread::sleep(Duration::from_secs(1));
            }
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "ok");
    let before = server.open_files();
    for _ in 0..300 {
        let id = peer.get("/slow");
        peer.reset(id, CANCEL);
    }
    let look = || {
        let response = peer.fetch("/");
        (response.reset != Some(REFUSED_STREAM)).then_some(response)
    };
    let response = until(TIMEOUT, "a stream", look, || server.stderr());
    assert_eq!(response.text(), "ok", "{response:?}");
    // Some files belong to threads that were still starting.
    eventually(
        "connections of reset requests to be closed",
        || server.open_files() <= before + 20,
        || format!("{} files, {before} before", server.open_files()),
    );
}

/// CVE-2025-8671: the client makes the server reset its streams.
#[test]
fn made_you_reset_ends_the_connection() {
    let server = start("respond hello");
    let mut next = ids();
    let ended = attack(&server, |peer| {
        let mut bytes = Vec::new();
        for round in 0..48 {
            let id = next();
            bytes.extend(opened(peer, id, 0));
            // A window increment of zero, and one that is too large.
            let window = [[0; 4], [0x7f, 0xff, 0xff, 0xff]][round % 2];
            bytes.extend(frame(WINDOW_UPDATE, 0, id, &window));
        }
        bytes
    });
    assert!(
        ended.0 * 48 < 20_000,
        "{} requests were opened",
        ended.0 * 48
    );
    assert_calmed(&server, ended);
}

/// CVE-2024-27316.
#[test]
fn endless_continuations_end_the_connection() {
    let server = start("respond hello");
    let mut first = true;
    let piece = block(&[("x-y", &"z".repeat(1000))]);
    let ended = attack(&server, |_| {
        let kind = if std::mem::take(&mut first) {
            HEADERS
        } else {
            CONTINUATION
        };
        frame(kind, 0, 1, &piece)
    });
    assert_calmed(&server, ended);
    // Empty ones, whose bytes would never reach a limit.
    let server = start("respond hello");
    let mut first = true;
    let ended = attack(&server, |_| {
        let kind = if std::mem::take(&mut first) {
            HEADERS
        } else {
            CONTINUATION
        };
        frame(kind, 0, 1, &[])
    });
    assert_calmed(&server, ended);
}

#[test]
fn floods_of_frames_that_do_nothing_end_the_connection() {
    type Flood = fn() -> Vec<u8>;
    let floods: [(&str, Flood); 6] = [
        ("settings", || frame(SETTINGS, 0, 0, &[])),
        ("pings", || frame(PING, 0, 0, &[7; 8])),
        ("answers to pings", || frame(PING, ACK, 0, &[7; 8])),
        ("priorities", || frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 16])),
        ("windows", || frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown frames", || frame(0xfa, 0, 0, &[])),
    ];
    for (name, flood) in floods {
        println!("{name}");
        let server = start("respond hello");
        let ended = attack(&server, |_| flood().repeat(200));
        assert_calmed(&server, ended);
    }
}

#[test]
fn empty_content_ends_the_connection() {
    let upstream = Upstream::echo();
    let server = start(&format!("reverse_proxy localhost:{}", upstream.port));
    let mut first = true;
    let ended = attack(&server, |peer| {
        let mut bytes = Vec::new();
        if std::mem::take(&mut first) {
            bytes = opened(peer, 1, 0);
        }
        bytes.extend(frame(DATA, 0, 1, &[]).repeat(200));
        bytes
    });
    assert_calmed(&server, ended);
}

/// CVE-2026-49975: one entry of the dynamic table is referenced thousands of times by a byte each, on as many streams
/// as allowed, and no flow-control window lets their responses end.
#[test]
fn compressed_heads_cannot_be_blown_up() {
    let server = start("header x-large \"{header.cookie}\"\nrespond hello");
    let before = server.status("RssAnon");
    let mut peers = Vec::new();
    for _ in 0..8 {
        let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0)]);
        let mut first = block(&request("GET", "/"));
        // Literal with indexing: a cookie crumb of 3,000 bytes is added to the table.
        let crumb = "c".repeat(3000);
        first.push(0x40);
        first.extend_from_slice(&block(&[("cookie", &crumb)])[1..]);
        for round in 0..200_u32 {
            let mut bytes = match round {
                0 => first.clone(),
                _ => block(&request("GET", "/")),
            };
            bytes.extend(std::iter::repeat_n(
                0x80 | 62,
                if round == 0 { 0 } else { 100 },
            ));
            let id = peer.next_id() + 2 * round;
            if peer
                .try_send(&frame(HEADERS, END_HEADERS | END_STREAM, id, &bytes))
                .is_err()
            {
                break;
            }
        }
        peers.push(peer);
    }
    assert_eq!(Peer::connect(server.port).fetch("/").status, 200);
    // The server may still be reading what the sockets hold, and nothing announces that it has.
    std::thread::sleep(Duration::from_millis(300));
    let after = server.status("RssAnon");
    println!("{before} -> {after} KiB");
    assert!(
        after <= before + 8 * GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
}

/// Row 22: streams whose responses are never read.
#[test]
fn unread_responses_hold_little_memory() {
    let body = "x".repeat(200_000);
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let upstream = Upstream::responding(response);
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    // Workers have memory of their own, which they allocate with their first connections.
    for _ in 0..6 {
        let mut peer = Peer::connect(server.port);
        let ids: Vec<u32> = (0..100).map(|_| peer.get("/")).collect();
        ids.into_iter()
            .for_each(|id| assert_eq!(peer.response(id).body.len(), body.len()));
    }
    let before = server.status("RssAnon");
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0)]);
    let ids: Vec<u32> = (0..100).map(|_| peer.get("/")).collect();
    for _ in &ids {
        peer.frame_of(HEADERS).expect("a head");
    }
    let after = server.status("RssAnon");
    println!("{before} -> {after} KiB");
    // The heads of a hundred responses, 16 KiB each at most.
    assert!(
        after <= before + 3 * GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
}
