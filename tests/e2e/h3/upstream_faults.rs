//! Upstreams over HTTP/3 that break rules, refuse requests, or are at their limits.

use quinn_proto::{TransportConfig, VarInt};
use sluice_wire::h3::FrameKind;
use sluice_wire::sections::End;

use super::origin::{Act, Asked, Origin, Report, Responder};
use super::peer::{data, frame, head};
use super::serving::pattern;
use super::upstreams::{over_http3, plain};
use crate::client::{Client, ask};
use crate::harness::{Server, Setup, TIMEOUT, eventually};

const NO_ERROR: u64 = 0x100;
const INTERNAL_ERROR: u64 = 0x102;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const ID_ERROR: u64 = 0x108;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const REQUEST_REJECTED: u64 = 0x10b;
const REQUEST_CANCELLED: u64 = 0x10c;
const MESSAGE_ERROR: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;

/// A server before these upstreams, with one worker, so that all requests share a connection.
fn before(origins: &[&Origin], transport: &str, beside: &str) -> Server {
    let ports: Vec<u16> = origins.iter().map(|origin| origin.port).collect();
    let transport = format!("tls_insecure_skip_verify\n{transport}");
    let text = plain(&over_http3(&ports, &transport, beside));
    Setup::new(&text).env("SLUICE_WORKERS", "1").start()
}

/// Sends a request that is not repeated once it was sent.
fn post(client: &mut Client, path: &str) {
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
    ));
}

#[test]
fn streams_that_are_used_up_lead_to_further_connections() {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
    let mut waiting: Vec<Asked> = Vec::new();
    let origin = Origin::with(transport, move |responder: &mut Responder, asked| {
        waiting.push(asked);
        // The first ones get their responses together.
        if asked.number >= 2 {
            for asked in waiting.drain(..) {
                responder.respond(asked, b"all");
            }
        }
    });
    let server = before(&[&origin], "", "");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.port)).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "all");
    }
    assert_eq!(origin.connections(), 3);
    // Streams that have ended are replaced.
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "all");
    }
}

#[test]
fn requests_that_were_rejected_go_elsewhere() {
    let rejecting = Origin::start(|responder, asked| {
        responder.reset(asked, REQUEST_REJECTED);
    });
    let other = Origin::start(|responder, asked| responder.respond(asked, b"other"));
    let server = before(
        &[&rejecting, &other],
        "",
        "lb_policy first\nlb_retries 1\nrequest_buffers 1KiB",
    );
    let mut client = Client::connect(server.port);
    for path in ["/a", "/b"] {
        post(&mut client, path);
        assert_eq!(client.response().text(), "other");
    }
    assert!(rejecting.connections() > 0);
}

#[test]
fn a_request_above_the_id_of_goaway_is_sent_again() {
    let origin = Origin::start(|responder, asked| match asked.number {
        0 => {
            let goaway = frame(FrameKind::GOAWAY, &[0]);
            responder.control(asked, &goaway, End::Later);
        }
        _ => responder.respond(asked, b"again"),
    });
    let server = before(&[&origin], "", "lb_retries 1\nrequest_buffers 1KiB");
    let mut client = Client::connect(server.port);
    post(&mut client, "/");
    assert_eq!(client.response().text(), "again");
    assert_eq!(origin.connections(), 2);
    assert_eq!(closed(&origin), NO_ERROR);
}

/// Waits until the connection is closed; its streams may be reset before.
fn closed(origin: &Origin) -> u64 {
    loop {
        match origin.reports.recv_timeout(TIMEOUT) {
            Ok(Report::Closed(code)) => return code,
            Ok(Report::Stopped(_)) => {}
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }
}

/// A way to break the rules, and what the upstream sees then.
type Fault = (&'static str, Act, Option<Report>);

/// What ends the connection.
const OF_CONNECTIONS: [Fault; 6] = [
    (
        "content before the head",
        |responder, to| responder.send(to, &data(b"x"), End::Later),
        Some(Report::Closed(FRAME_UNEXPECTED)),
    ),
    (
        "SETTINGS in a response",
        |responder, to| responder.send(to, &frame(FrameKind::SETTINGS, b""), End::Later),
        Some(Report::Closed(FRAME_UNEXPECTED)),
    ),
    (
        "a frame that is cut off",
        |responder, to| responder.send(to, &head(&[(":status", "200")])[..5], End::Here),
        Some(Report::Closed(FRAME_ERROR)),
    ),
    (
        "a reference into a table that was not offered",
        |responder, to| {
            let section = frame(FrameKind::HEADERS, &[2, 0, 0x80]);
            responder.send(to, &section, End::Here);
        },
        Some(Report::Closed(DECOMPRESSION_FAILED)),
    ),
    (
        "a push",
        |responder, to| {
            responder.push(to, &[1, 0]);
        },
        Some(Report::Closed(ID_ERROR)),
    ),
    (
        "the end of the control stream",
        |responder, to| responder.control(to, b"", End::Here),
        Some(Report::Closed(CLOSED_CRITICAL_STREAM)),
    ),
];

/// What ends the stream.
const OF_STREAMS: [Fault; 4] = [
    (
        "a head without a status",
        |responder, to| responder.send(to, &head(&[("a", "b")]), End::Later),
        Some(Report::Stopped(MESSAGE_ERROR)),
    ),
    (
        "a head that is too large",
        |responder, to| {
            let large = "x".repeat(100_000);
            let head = head(&[(":status", "200"), ("large", &large)]);
            responder.send(to, &head, End::Later);
        },
        Some(Report::Stopped(MESSAGE_ERROR)),
    ),
    (
        "interim responses without end",
        |responder, to| {
            let interims = head(&[(":status", "103")]).repeat(100);
            responder.send(to, &interims, End::Later);
        },
        Some(Report::Stopped(EXCESSIVE_LOAD)),
    ),
    (
        "a reset",
        |responder, to| {
            responder.send(to, &head(&[(":status", "200")])[..2], End::Later);
            responder.reset(to, INTERNAL_ERROR);
        },
        // Both directions are over already.
        None,
    ),
];

/// A response that breaks the rules gives 502, and the next request is served. Returns the connections that this took.
fn survive((what, misbehave, expected): Fault) -> usize {
    let origin = Origin::start(move |responder, asked| match asked.number {
        0 => misbehave(responder, asked),
        _ => responder.respond(asked, b"well"),
    });
    let server = before(&[&origin], "", "");
    let mut client = Client::connect(server.port);
    post(&mut client, "/");
    let mut statuses = std::iter::repeat_with(|| client.response().status);
    let status = statuses.find(|status| *status != 103);
    assert_eq!(status, Some(502), "{what}");
    match expected {
        None => {}
        Some(Report::Closed(code)) => assert_eq!(closed(&origin), code, "{what}"),
        Some(Report::Stopped(_)) => {
            let report = origin.reports.recv_timeout(TIMEOUT);
            assert_eq!(report.ok(), expected, "{what}");
        }
    }
    assert_eq!(client.get("/").text(), "well", "{what}");
    origin.connections()
}

#[test]
fn a_response_that_breaks_the_connection_gives_502_and_the_next_request_dials() {
    for fault in OF_CONNECTIONS {
        assert_eq!(survive(fault), 2, "{}", fault.0);
    }
}

#[test]
fn a_response_that_breaks_its_stream_gives_502_and_the_connection_is_kept() {
    for fault in OF_STREAMS {
        assert_eq!(survive(fault), 1, "{}", fault.0);
    }
}

#[test]
fn a_response_that_is_shorter_than_declared_is_cut_off() {
    let origin = Origin::start(|responder, asked| {
        let mut bytes = head(&[(":status", "200"), ("content-length", "9")]);
        bytes.extend(data(b"begun"));
        responder.send(asked, &bytes, End::Here);
    });
    let server = before(&[&origin], "", "");
    let mut client = Client::connect(server.port);
    post(&mut client, "/");
    assert!(client.try_response().is_err(), "it must not look complete");
}

/// Repeats what means nothing until the connection is closed, and asks again.
fn flood(repeat: Act) {
    let origin = Origin::start(move |responder, asked| match asked.number {
        0 => repeat(responder, asked),
        _ => responder.respond(asked, b"well"),
    });
    let server = before(&[&origin], "", "");
    let mut client = Client::connect(server.port);
    post(&mut client, "/");
    assert_eq!(client.response().status, 502);
    assert_eq!(closed(&origin), EXCESSIVE_LOAD);
    assert_eq!(client.get("/").text(), "well");
}

#[test]
fn floods_of_frames_that_mean_nothing_end_the_connection() {
    flood(|responder, asked| {
        let grease = frame(FrameKind(0x21), b"").repeat(10_000);
        responder.control(asked, &grease, End::Later);
    });
    flood(|responder, asked| {
        let grease = frame(FrameKind(0x21), b"").repeat(10_000);
        responder.send(asked, &grease, End::Later);
    });
    // Streams that end before they say what they are for.
    flood(|responder, asked| {
        responder.repeat(
            asked,
            |responder, asked| while responder.push(asked, b"") {},
        );
    });
}

/// Frames that are harmless in this number.
#[test]
fn after_three_quarters_of_the_budget_a_connection_gets_no_further_requests() {
    let origin = Origin::start(|responder, asked| {
        if asked.number == 0 {
            // 14,000 of 16,384 points. Time gives back 160 in a second.
            let grease = frame(FrameKind(0x21), b"").repeat(3_500);
            responder.control(asked, &grease, End::Later);
        }
        responder.respond(asked, b"well");
    });
    let server = before(&[&origin], "", "");
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/").text(), "well");
    assert_eq!(closed(&origin), NO_ERROR);
    assert_eq!(client.get("/").text(), "well");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_client_that_leaves_cancels_its_stream_only() {
    let origin = Origin::start(|responder, asked| {
        if asked.number > 0 {
            responder.respond(asked, b"well");
        }
    });
    let server = before(&[&origin], "", "");
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // The request has arrived when the second one has, as they are sent in order.
    assert_eq!(ask(server.port, "/").text(), "well");
    drop(client);
    let report = origin.reports.recv_timeout(TIMEOUT);
    assert_eq!(report, Ok(Report::Stopped(REQUEST_CANCELLED)));
    assert_eq!(ask(server.port, "/").text(), "well");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_upstream_that_is_too_slow_gives_504() {
    let origin = Origin::start(|responder, asked| {
        if asked.number > 0 {
            responder.respond(asked, b"well");
        }
    });
    let server = before(&[&origin], "response_header_timeout 100ms", "");
    let mut client = Client::connect(server.port);
    post(&mut client, "/");
    assert_eq!(client.response().status, 504);
    // Other requests do not rely on this connection, which ends.
    let reports = [(); 2].map(|()| origin.reports.recv_timeout(TIMEOUT));
    let expected = [Report::Stopped(REQUEST_CANCELLED), Report::Closed(NO_ERROR)];
    assert_eq!(reports, expected.map(Ok));
}

#[test]
fn a_slow_client_holds_up_its_own_response_only() {
    let large = pattern(8_000_000);
    let sent = large.clone();
    let origin = Origin::start(move |responder, asked| match asked.number {
        0 => responder.respond(asked, &sent),
        _ => responder.respond(asked, b"small"),
    });
    let server = before(&[&origin], "", "");
    let mut slow = Client::connect(server.port);
    slow.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = slow.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    for _ in 0..100 {
        assert_eq!(ask(server.port, "/").text(), "small");
    }
    assert_eq!(origin.connections(), 1);
    let mut rest = Vec::new();
    while !rest.ends_with(b"0\r\n\r\n") {
        rest.push(slow.byte().expect("the rest"));
    }
    assert!(rest.len() > large.len(), "{}", rest.len());
}

/// UDP sockets that are connected to a port, of all processes.
fn sockets_to(port: u16) -> usize {
    let all = std::fs::read_to_string("/proc/net/udp").expect("the kernel has UDP");
    let to = format!(":{port:04X}");
    let remotes = all
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    remotes.filter(|remote| remote.ends_with(&to)).count()
}

#[test]
fn nothing_is_left_of_a_dead_upstream() {
    let origin = Origin::start(|responder, asked| responder.respond(asked, b"well"));
    let (server, port) = (before(&[&origin], "", ""), origin.port);
    assert_eq!(ask(server.port, "/").text(), "well");
    assert_eq!(sockets_to(port), 1);
    drop(origin);
    assert_eq!(ask(server.port, "/").status, 502);
    let shown = || format!("{} sockets", sockets_to(port));
    eventually("the end of all", || sockets_to(port) == 0, shown);
}
