//! Known attacks on servers of QUIC and HTTP/3: the connection ends, memory stays bounded, and others are served.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use quinn_proto::{Dir, StreamId, TransportConfig, VarInt};
use sluice_wire::h3::FrameKind;
use sluice_wire::sections::End;

use super::peer::{Identity, Peer, data, frame, head, request};
use super::serving::site;
use crate::harness::{MEMORY_STEPS, Server};
use crate::upstream::Upstream;

/// Permitted memory growth for one attacking connection, in KiB.
const GROWTH_MAX: u64 = 4 * 1024;

const NO_ERROR: u64 = 0x100;
const EXCESSIVE_LOAD: u64 = 0x107;
const FRAME_UNEXPECTED: u64 = 0x105;
const STREAM_CREATION_ERROR: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const SETTINGS_ERROR: u64 = 0x109;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM_ERROR: u64 = 0x201;

fn start() -> Server {
    let server = Server::start(&site(
        "",
        "handle /held {\n\trespond \"{http.request.body}\"\n}\nrespond hello",
    ));
    let mut peer = Peer::connect(server.port);
    for _ in 0..200 {
        assert_eq!(peer.fetch("/").text(), "hello");
    }
    server
}

/// Repeats `attack` until the server closes the connection, and asserts the code. A request that does not end keeps the
/// connection open, also after GOAWAY.
fn ends(server: &Server, code: u64, mut attack: impl FnMut(&mut Peer)) {
    let before = server.status("RssAnon");
    let mut peer = Peer::connect(server.port);
    peer.open(Dir::Bi, &head(&request("POST", "/held")), End::Later);
    // Then the one before has begun.
    assert_eq!(peer.fetch("/").text(), "hello");
    for _ in 0..20_000 {
        attack(&mut peer);
        peer.step();
        if peer.lost.is_some() {
            break;
        }
    }
    assert_eq!(peer.closed(), code);
    // A flood counts as one, and not as a fault of the protocol.
    let counted = ["calmed", "faulty"]
        .map(|kind| server.metric(&format!("sluice_http3_connections_{kind}_total")));
    assert_eq!(counted, [1, 0]);
    let after = server.status("RssAnon");
    assert!(
        after <= before + GROWTH_MAX + MEMORY_STEPS,
        "from {before} to {after} KiB"
    );
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
}

#[test]
fn floods_of_frames_that_mean_nothing_end_the_connection() {
    let server = start();
    let grease = frame(FrameKind(0x21), b"");
    // On the control stream.
    ends(&server, EXCESSIVE_LOAD, |peer| {
        let control = peer.control();
        let _ = peer.quic.send_stream(control).write(&grease.repeat(100));
    });
    // In a request.
    let server = start();
    ends(&server, EXCESSIVE_LOAD, |peer| {
        let post = head(&request("POST", "/"));
        let Some(id) = peer.try_open(Dir::Bi, &post, End::Later) else {
            return;
        };
        let _ = peer.quic.send_stream(id).write(&grease.repeat(100));
        let _ = peer.quic.send_stream(id).write(&data(b"").repeat(100));
        peer.reset(id, 0x10c);
    });
    // Streams that end before they say what they are for.
    let server = start();
    ends(&server, EXCESSIVE_LOAD, |peer| {
        while let Some(id) = peer.quic.streams().open(Dir::Uni) {
            let _ = peer.quic.send_stream(id).finish();
        }
    });
}

/// Harmless for clients that send such frames for a reason: others of HTTP/2 and 3 do so, too.
#[test]
fn after_three_quarters_of_the_budget_the_client_is_asked_to_leave() {
    let server = Server::start(&site("", "respond \"got {http.request.body}\""));
    let mut peer = Peer::connect(server.port);
    let id = peer.open(Dir::Bi, &head(&request("POST", "/")), End::Later);
    // 14,000 of 16,384 points. Time gives back 160 in a second.
    let control = peer.control();
    let grease = frame(FrameKind(0x21), b"");
    peer.send(control, &grease.repeat(3_500), End::Later);
    peer.drive("GOAWAY", |peer| {
        peer.leaves.is_some() || peer.lost.is_some()
    });
    peer.send(id, &data(b"all"), End::Here);
    assert_eq!(peer.response(id).text(), "got all");
    assert_eq!(peer.closed(), NO_ERROR);
    assert_eq!(Peer::connect(server.port).fetch("/").status, 200);
}

#[test]
fn opening_and_resetting_ends_the_connection() {
    let server = start();
    ends(&server, EXCESSIVE_LOAD, |peer| {
        for _ in 0..10 {
            let get = head(&request("GET", "/"));
            let Some(id) = peer.try_open(Dir::Bi, &get, End::Later) else {
                return;
            };
            peer.reset(id, 0x10c);
            peer.stop(id, 0x10c);
        }
    });
}

#[test]
fn what_breaks_the_rules_of_http_ends_the_connection() {
    let server = start();
    let cases: [(u64, Vec<u8>, Dir); 6] = [
        // DATA before HEADERS.
        (FRAME_UNEXPECTED, data(b"x"), Dir::Bi),
        // SETTINGS in a request.
        (FRAME_UNEXPECTED, frame(FrameKind::SETTINGS, b""), Dir::Bi),
        // A push by a client.
        (STREAM_CREATION_ERROR, vec![1, 0], Dir::Uni),
        // A second control stream.
        (STREAM_CREATION_ERROR, vec![0, 4, 0], Dir::Uni),
        // A reference to an entry that cannot exist.
        (
            DECOMPRESSION_FAILED,
            frame(FrameKind::HEADERS, &[0, 0, 0x80]),
            Dir::Bi,
        ),
        // An encoder that duplicates what was never there.
        (ENCODER_STREAM_ERROR, vec![2, 0x05], Dir::Uni),
    ];
    for (code, bytes, dir) in cases {
        let mut peer = Peer::connect(server.port);
        assert_eq!(peer.fetch("/").text(), "hello");
        peer.open(dir, &bytes, End::Later);
        assert_eq!(peer.closed(), code, "{bytes:?}");
    }
    let counted = ["calmed", "faulty"]
        .map(|kind| server.metric(&format!("sluice_http3_connections_{kind}_total")));
    assert_eq!(counted, [0, 6]);
    // The end of a stream that must stay open.
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    let control = peer.control();
    let _ = peer.quic.send_stream(control).finish();
    assert_eq!(peer.closed(), CLOSED_CRITICAL_STREAM);
    // A setting of HTTP/2.
    let mut peer = Peer::connect(server.port);
    let control = peer.control();
    peer.drive("the handshake", |peer| peer.is_connected);
    peer.send(control, &frame(FrameKind::SETTINGS, &[2, 1]), End::Later);
    let code = peer.closed();
    assert!(
        matches!(code, SETTINGS_ERROR | FRAME_UNEXPECTED),
        "{code:x}"
    );
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
}

/// Opens as many requests with `head` as the server allows.
fn ask_all(peer: &mut Peer, head: &[u8]) -> Vec<StreamId> {
    let opened = std::iter::from_fn(|| {
        let id = peer.quic.streams().open(Dir::Bi)?;
        peer.send(id, head, End::Here);
        Some(id)
    });
    opened.collect()
}

#[test]
fn requests_after_goaway_are_not_free() {
    let server = start();
    let get = head(&request("GET", "/"));
    let mut is_leaving = false;
    ends(&server, EXCESSIVE_LOAD, |peer| {
        if !is_leaving {
            let control = peer.control();
            peer.send(control, &frame(FrameKind::GOAWAY, &[0]), End::Later);
            is_leaving = true;
        }
        ask_all(peer, &get);
    });
}

/// A client that takes no instructions of the server's decoder, and causes one with each request.
#[test]
fn instructions_that_the_client_does_not_take_are_few() {
    let server = start();
    let mut transport = TransportConfig::default();
    // Only for the control stream.
    transport.max_concurrent_uni_streams(VarInt::from_u32(1));
    let mut peer = Peer::begin_with(&Identity::new(), transport, server.port, "localhost");
    peer.drive("the handshake", |peer| peer.is_connected);
    // A table of 4 KiB with the entry `x: y`.
    let encoder = [2, 0x3f, 0xe1, 0x1f, 0x41, b'x', 1, b'y'];
    peer.open(Dir::Uni, &encoder, End::Later);
    let mut section = vec![2, 0, 0xd1, 0xd7, 0xc1, 0x50, 9];
    section.extend_from_slice(b"localhost");
    section.push(0x80);
    let get = frame(FrameKind::HEADERS, &section);
    let id = peer.open(Dir::Bi, &get, End::Here);
    assert_eq!(peer.response(id).text(), "hello");
    // Each acknowledgement has a byte at least.
    for _ in 0..4_200 {
        ask_all(&mut peer, &get);
        if peer.lost.is_some() {
            break;
        }
        peer.step();
    }
    assert_eq!(peer.closed(), EXCESSIVE_LOAD);
    assert_eq!(server.metric("sluice_http3_connections_calmed_total"), 1);
}

/// RFC 9114, section 6.2: what a stream of an unknown kind carries is refused, and nothing else ends with it.
#[test]
fn a_stream_of_an_unknown_kind_is_refused_alone() {
    let server = start();
    let mut peer = Peer::connect(server.port);
    for rest in [&b""[..], b"grease"] {
        let unknown = [&[0x21], rest].concat();
        let id = peer.open(Dir::Uni, &unknown, End::Later);
        peer.drive("refusal", |peer| {
            matches!(peer.quic.send_stream(id).stopped(), Ok(Some(_)))
        });
        let stopped = peer.quic.send_stream(id).stopped();
        assert_eq!(
            stopped,
            Ok(Some(VarInt::from_u64(STREAM_CREATION_ERROR).unwrap()))
        );
        assert_eq!(peer.fetch("/").text(), "hello");
    }
    // The control stream is still read, and its end still noticed.
    let control = peer.control();
    let _ = peer.quic.send_stream(control).finish();
    assert_eq!(peer.closed(), CLOSED_CRITICAL_STREAM);
    let counted = server.metric("sluice_http3_connections_faulty_total");
    assert_eq!(counted, 1);
}

#[test]
fn a_bomb_of_header_compression_does_not_go_off() {
    let server = start();
    let before = server.status("RssAnon");
    let mut peer = Peer::connect(server.port);
    // A table of 4 KiB with one entry of almost this size.
    let mut encoder = vec![2, 0x3f, 0xe1, 0x1f];
    encoder.extend_from_slice(&[0x41, b'x', 0x7f]);
    let value = vec![b'v'; 3_900];
    let mut rest = value.len() - 127;
    while rest >= 128 {
        encoder.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    encoder.push(rest as u8);
    encoder.extend_from_slice(&value);
    peer.open(Dir::Uni, &encoder, End::Later);
    // A head with a thousand references to it.
    let mut section = vec![2, 0, 0xd1, 0xd7, 0xc1];
    section.extend_from_slice(&[0x50, 9]);
    section.extend_from_slice(b"localhost");
    section.extend(std::iter::repeat_n(0x80, 1_000));
    let id = peer.open(Dir::Bi, &frame(FrameKind::HEADERS, &section), End::Here);
    let response = peer.response(id);
    assert_eq!(response.status, 431, "{response:?}");
    let after = server.status("RssAnon");
    assert!(after <= before + GROWTH_MAX + MEMORY_STEPS);
    assert_eq!(peer.fetch("/").text(), "hello");
}

#[test]
fn sections_that_wait_for_ever_are_few() {
    let server = start();
    let mut peer = Peer::connect(server.port);
    peer.open(Dir::Uni, &[2, 0x3f, 0xe1, 0x1f], End::Later);
    // Each refers to an entry that never comes.
    let waiting = frame(FrameKind::HEADERS, &[2, 0, 0x80]);
    for _ in 0..16 {
        peer.open(Dir::Bi, &waiting, End::Here);
    }
    assert_eq!(peer.fetch("/").text(), "hello");
    peer.open(Dir::Bi, &waiting, End::Here);
    assert_eq!(peer.closed(), DECOMPRESSION_FAILED);
}

#[test]
fn noise_and_small_first_packets_get_no_reply() {
    let server = start();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    // An Initial below 1,200 bytes, an unknown version below them, and noise (RFC 9000, sections 14.1 and 5.2.2).
    let mut small = vec![0xc0, 0, 0, 0, 1, 8];
    small.extend_from_slice(&[7; 200]);
    let mut unknown = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    unknown.extend_from_slice(&[7; 200]);
    for datagram in [small, unknown, vec![0; 1], vec![0x3f; 1_400], vec![0xff; 3]] {
        socket.send(&datagram).unwrap();
    }
    let mut buf = [0; 2_000];
    assert!(socket.recv(&mut buf).is_err(), "something came back");
    // A version that is not spoken, in a datagram of full size, is negotiated.
    let mut unknown = vec![0xc0, 0x6b, 0x33, 0x43, 0xcf, 8];
    unknown.extend_from_slice(&[7; 8]);
    unknown.push(0);
    unknown.resize(1_200, 0);
    socket.send(&unknown).unwrap();
    let count = socket.recv(&mut buf).expect("a version negotiation packet");
    let versions = &buf[7 + 8..count];
    assert_eq!(buf[1..5], [0; 4], "version negotiation");
    assert!(versions.chunks(4).any(|version| version == [0, 0, 0, 1]));
    assert!(count < 100, "no amplification");
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
}

/// Rows 6 and 7: neither a wrong length nor a client that leaves makes a part of a request look whole.
#[test]
fn content_that_differs_from_its_length_reaches_nobody_as_a_whole() {
    let upstream = Upstream::echo();
    let server = Server::start(&site(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    for (length, content) in [("5", "four"), ("3", "four"), ("4", "")] {
        let mut fields = request("POST", "/");
        fields.push(("content-length", length));
        let bytes = [head(&fields), data(content.as_bytes())].concat();
        let id = peer.open(Dir::Bi, &bytes, End::Here);
        let response = peer.response(id);
        let is_refused = response.reset.is_some() || response.status == 400;
        assert!(is_refused, "{length} {content}: {response:?}");
    }
    // A client that resets its stream in the middle, of a declared and an undeclared length.
    for length in [Some(("content-length", "9")), None] {
        let mut fields = request("POST", "/");
        fields.extend(length);
        let bytes = [head(&fields), data(b"four")].concat();
        let id = peer.open(Dir::Bi, &bytes, End::Later);
        peer.reset(id, 0x10c);
        let response = peer.response(id);
        assert!(!response.text().ends_with("four"), "{response:?}");
    }
    let mut fields = request("POST", "/");
    fields.push(("content-length", "4"));
    let bytes = [head(&fields), data(b"four")].concat();
    let id = peer.open(Dir::Bi, &bytes, End::Here);
    assert!(peer.response(id).text().ends_with("four"));
}

/// RFC 9000, section 8.1: an address that was not validated gets three times what it sent at most, also when the server
/// sends it again and again.
#[test]
fn a_forged_address_gets_three_times_what_was_sent_at_most() {
    let server = start();
    let (sent, received) = Peer::say_nothing_more(server.port, Duration::from_secs(4));
    assert!(sent >= 1_200, "{sent} bytes were sent");
    assert!(received > 0, "the server responds");
    assert!(received <= 3 * sent, "{received} bytes for {sent}");
}
