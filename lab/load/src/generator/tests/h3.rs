//! Loads over HTTP/3 of a server that fails on purpose: each class of failure is counted exactly.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use sluice_wire::h3::Code;

use super::quic_server::{Act, Admission, QuicServer};
use super::scenario::{OPEN, phase, quiet, scenario_plan, session, shop, step};
use super::*;
use crate::generator::probe::probe;
use crate::generator::scenario::Pace;
use crate::generator::target::HttpVersion;
use crate::generator::trust::{TlsOptions, prepare};

/// A load of `server`, whose certificate is trusted.
fn plan_of(address: SocketAddr, requests: Option<u64>, options: &TlsOptions) -> Plan {
    let mut plan = plan(address, requests);
    let url = format!("https://localhost:{}/x", address.port());
    plan.target = Target::parse(&url, HttpVersion::Http3, None, Reach::Loopback).unwrap();
    plan.tls = prepare(options, &plan.target).unwrap();
    // Handshakes take long where many tests run at once.
    (plan.timeout, plan.drain) = (Duration::from_secs(60), Duration::from_secs(60));
    plan
}

fn insecure() -> TlsOptions {
    TlsOptions {
        insecure: true,
        ..TlsOptions::default()
    }
}

fn body(plan: &mut Plan, bytes: &[u8]) {
    let draft = Draft {
        method: "POST".into(),
        path: "/x".into(),
        body: Arc::from(bytes),
        ..Draft::default()
    };
    let expect = Expect::exactly(200, bytes);
    plan.requests = vec![draft.prepare(&plan.target, expect).unwrap()];
}

/// Everything that a server can do wrong on one connection with one stream at a time.
const ACTS: [Act; 17] = [
    Act::Good,
    Act::Status(502),
    Act::Short,
    Act::OtherBody,
    Act::Close,
    Act::Good,
    Act::Reset,
    Act::LengthUnmet,
    Act::CutBody,
    Act::ResetBody,
    Act::Disorder,
    Act::Ornate,
    Act::Nothing,
    Act::CloseWithError,
    Act::GoAway,
    Act::Reject,
    Act::Status(404),
];

/// Each act occurs at each position of a round.
fn act(nth: u64) -> Act {
    ACTS[(nth * 7 % ACTS.len() as u64) as usize]
}

/// What happens to streams and leaves the connection alone.
fn stream_act(nth: u64) -> Act {
    match act(nth) {
        Act::Close | Act::CutBody | Act::Disorder | Act::CloseWithError | Act::GoAway => Act::Good,
        act => act,
    }
}

#[test]
fn each_fault_is_counted_exactly_in_its_class() {
    let server = QuicServer::start(act);
    for connections in [1, 5] {
        let mut plan = plan_of(server.address, Some(544), &insecure());
        plan.connections = connections;
        let load = load(&plan);
        let opened = load.connections.opened as usize;
        let did = server.take();
        assert_eq!(load.ok + load.failed(), 544);
        assert_eq!(failures(&load), did.failures(), "{connections} connections");
        assert_eq!(load.ok, did.good);
        assert_eq!(load.latency.total.count, did.good);
        assert!(
            did.refused > 0,
            "requests refused with GOAWAY are sent again"
        );
        assert_eq!(opened as u64, did.accepted);
        assert_eq!(load.asked.protocol, "h3");
        assert_eq!(load.connections.alpn.as_deref(), Some("h3"));
        assert_eq!(load.connections.tls_version.as_deref(), Some("TLSv1_3"));
        let example = |class| {
            let found = load.failures.iter().find(|one| one.class == class);
            found.and_then(|one| one.example.clone()).unwrap()
        };
        let lost = example(FailureClass::ConnectionLost);
        assert_eq!(lost, "closed by the server: H3_EXCESSIVE_LOAD");
    }
}

#[test]
fn streams_of_one_connection_fail_on_their_own() {
    let server = QuicServer::start(stream_act);
    // More than the server allows at a time: the others wait for a stream.
    let mut plan = plan_of(server.address, Some(340), &insecure());
    (plan.connections, plan.depth) = (2, 5);
    let load = load(&plan);
    let did = server.take_closed(2);
    assert_eq!(failures(&load), did.failures());
    assert_eq!((load.ok, load.ok + load.failed()), (did.good, 340));
    assert_eq!((load.connections.opened, did.accepted), (2, 2));
    assert_eq!(
        did.closed,
        [Code::NO_ERROR; 2],
        "connections are closed in order"
    );
}

#[test]
fn each_fault_is_counted_exactly_in_the_open_loop() {
    // At most 68 requests are due before the window begins (450 ms), and 150 in it: all faults are inside.
    let faults = 75..75 + 17 * 4;
    let server = QuicServer::start(move |nth| match faults.contains(&nth) {
        true => act(nth),
        false => Act::Good,
    });
    let mut plan = plan_of(server.address, None, &insecure());
    plan.connections = 3;
    plan.mode = Mode::Open {
        rate: 150.0,
        poisson: false,
    };
    let load = load(&plan);
    let did = server.take();
    assert_eq!(failures(&load), did.failures());
    assert_eq!((load.failed(), did.refused), (4 * 13, 4));
    assert_eq!(Some(load.ok + load.failed()), load.due);
    assert_eq!(load.latency.total.count, load.ok);
}

#[test]
fn silence_is_a_timeout_of_its_stream() {
    let server = QuicServer::start(|nth| match nth % 4 {
        1 => Act::Silent,
        3 => Act::SilentBody,
        _ => Act::Good,
    });
    let mut plan = plan_of(server.address, Some(8), &insecure());
    (plan.connections, plan.timeout) = (1, Duration::from_millis(300));
    let load = load(&plan);
    let did = server.take_closed(1);
    // A busy machine may be late with a good response as well.
    assert_eq!(load.ok + load.failed(), 8);
    for (class, count) in did.failures() {
        assert!(load.failed_in(class) >= count, "{:?}", failures(&load));
    }
    assert_eq!(did.accepted, 1, "the connection goes on");
}

#[test]
fn a_server_that_refuses_with_goaway_again_and_again_has_failed() {
    let server = QuicServer::start(|_| Act::GoAway);
    let mut plan = plan_of(server.address, Some(3), &insecure());
    plan.timeout = Duration::from_secs(1);
    let load = load(&plan);
    assert_eq!(failures(&load), [(FailureClass::GoAway, 3)]);
    assert!(server.take().refused > 3);
}

#[test]
fn uploads_beyond_every_window_are_echoed() {
    let server = QuicServer::start(|_| Act::Echo);
    let mut plan = plan_of(server.address, Some(12), &insecure());
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|at| (at % 251) as u8).collect();
    body(&mut plan, &bytes);
    (plan.connections, plan.depth) = (1, 2);
    let load = load(&plan);
    assert_eq!(failures(&load), []);
    assert_eq!(load.ok, 12);
    assert_eq!(load.transfer.body_bytes, Some(12 * bytes.len() as u64));
    assert!(load.transfer.received_bytes > 12 * bytes.len() as u64);
}

/// The entry comes when the client has everything else, the end of the stream included.
#[test]
fn a_head_waits_for_its_entry_of_the_dynamic_table() {
    let server = QuicServer::start(|nth| if nth % 3 == 0 { Act::Late } else { Act::Good });
    let mut plan = plan_of(server.address, Some(30), &insecure());
    plan.connections = 1;
    let late = load(&plan);
    assert_eq!((late.ok, failures(&late)), (30, vec![]));
    // Its value arrives as well.
    let server = QuicServer::start(|_| Act::Late);
    let mut plan = plan_of(server.address, Some(30), &insecure());
    (plan.connections, plan.depth) = (2, 3);
    plan.requests[0].expect.fields = vec![("x-late".into(), Some("y".into()))];
    let late = load(&plan);
    assert_eq!((late.ok, failures(&late)), (30, vec![]));
}

#[test]
fn each_fault_of_a_scenario_is_counted_exactly_in_its_class() {
    for pace in [OPEN, Pace::Clients] {
        let server = QuicServer::start(act);
        let level = match pace {
            Pace::Clients => 3.0,
            Pace::Sessions { .. } => 100.0,
        };
        // Nobody is left at the end, so that all that was in flight ends inside the window.
        let phases = vec![
            quiet(),
            phase("steady", 600, level, level),
            phase("end", 1_500, 0.0, 0.0),
        ];
        let body = std::str::from_utf8(BODY).unwrap();
        let mut scenario = shop(pace, phases);
        scenario.sessions = vec![session(
            "two",
            1,
            vec![step("a", "/a", body, 0), step("b", "/b", body, 0)],
        )];
        let mut plan = scenario_plan(server.address, scenario);
        let secure = plan_of(server.address, None, &insecure());
        (plan.target, plan.tls) = (secure.target, secure.tls);
        (plan.timeout, plan.drain) = (secure.timeout, secure.drain);
        let load = load(&plan);
        let did = server.take();
        assert_eq!(failures(&load), did.failures(), "{pace:?}");
        assert_eq!(load.ok, did.good);
        assert!(did.refused > 0 && load.failed_in(FailureClass::ConnectionLost) > 0);
        // Every failed step ends its session; those that end after the window count by their steps alone.
        assert!(load.sessions[0].failed <= load.failed());
        assert!(load.sessions[0].failed > 0);
        assert_eq!(load.connections.opened, did.accepted);
        assert_eq!(load.asked.protocol, "h3");
    }
}

#[test]
fn sessions_over_http3_keep_their_connection_and_close_it() {
    let server = QuicServer::start(|_| Act::Good);
    let body = std::str::from_utf8(BODY).unwrap();
    let phases = vec![quiet(), phase("steady", 300, 2.0, 2.0)];
    let mut scenario = shop(Pace::Clients, phases);
    let steps = vec![step("a", "/a", body, 2), step("b", "/b", body, 2)];
    scenario.sessions = vec![session("two", 1, steps)];
    let mut plan = scenario_plan(server.address, scenario);
    let secure = plan_of(server.address, None, &insecure());
    (plan.target, plan.tls) = (secure.target, secure.tls);
    let load = load(&plan);
    assert_eq!(failures(&load), []);
    assert!(load.sessions[0].completed > 0);
    let did = server.take_closed(2);
    assert_eq!((did.accepted, did.closed), (2, vec![Code::NO_ERROR; 2]));
}

#[test]
fn connections_end_after_their_number_of_requests() {
    let server = QuicServer::start(|_| Act::Good);
    let mut plan = plan_of(server.address, Some(30), &insecure());
    (plan.connections, plan.requests_per_connection_max) = (1, Some(3));
    let load = load(&plan);
    assert_eq!((load.ok, load.connections.opened), (30, 10));
    let did = server.take_closed(10);
    assert_eq!((did.accepted, did.closed), (10, vec![Code::NO_ERROR; 10]));
}

#[test]
fn handshakes_that_fail_have_their_classes() {
    let trusted = QuicServer::start(|_| Act::Good);
    let other = QuicServer::start(|_| Act::Good);
    let file = std::env::temp_dir().join(format!("lab-h3-{}.pem", std::process::id()));
    std::fs::write(&file, &trusted.certificate).unwrap();
    let options = TlsOptions {
        ca: Some(file.clone()),
        ..TlsOptions::default()
    };
    let good = load(&plan_of(trusted.address, Some(12), &options));
    assert_eq!((good.ok, failures(&good)), (12, vec![]));
    let strange = load(&plan_of(other.address, Some(12), &options));
    assert_eq!(failures(&strange), [(FailureClass::Certificate, 12)]);
    std::fs::remove_file(&file).unwrap();
    let choose = || Box::new(|_| Act::Good);
    let old = QuicServer::with(b"hq-interop", Admission::All, choose());
    let refusing = QuicServer::with(b"h3", Admission::Refuse, choose());
    let nobody = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (address, class) in [
        (old.address, FailureClass::TlsHandshake),
        (refusing.address, FailureClass::Refused),
        (nobody, FailureClass::Refused),
        (silent.local_addr().unwrap(), FailureClass::ConnectTimeout),
    ] {
        let mut plan = plan_of(address, Some(4), &insecure());
        if class == FailureClass::ConnectTimeout {
            plan.timeout = Duration::from_millis(200);
        }
        assert_eq!(failures(&load(&plan)), [(class, 4)]);
    }
}

#[test]
fn a_retry_is_followed() {
    let server = QuicServer::with(b"h3", Admission::Retry, Box::new(|_| Act::Good));
    let load = load(&plan_of(server.address, Some(20), &insecure()));
    assert_eq!((load.ok, failures(&load)), (20, vec![]));
}

#[test]
fn a_probe_has_the_response() {
    let server = QuicServer::start(|nth| match nth {
        0 => Act::Status(418),
        1 => Act::Reset,
        _ => Act::CloseWithError,
    });
    let plan = plan_of(server.address, None, &insecure());
    let ask = || probe(&plan.target, plan.tls.as_ref(), &plan.requests[0]);
    let response = ask().unwrap();
    assert_eq!((response.status, response.body.as_slice()), (418, BODY));
    let head = String::from_utf8(response.head).unwrap();
    assert!(
        head.starts_with("HTTP/3 418\r\n") && head.contains("content-length: 10"),
        "{head}"
    );
    assert_eq!(ask().unwrap_err().class, FailureClass::StreamReset);
    assert_eq!(ask().unwrap_err().class, FailureClass::ConnectionLost);
    assert_eq!(server.take_closed(2).closed, [Code::NO_ERROR; 2]);
}
