//! WebSocket, events and held connections against servers with known behaviour: each failure is counted in its class,
//! each interval is as long as the server made it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::held_connections::Beside;
use super::super::kind;
use super::super::request::Draft;
use super::super::talk::frame::accept;
use super::*;

const MESSAGE: &[u8] = b"is anybody there?";

/// A server that calls `serve` for its n-th connection on a thread of its own. It ends with the test process.
fn server(serve: impl Fn(TcpStream, u64) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (serve, dials) = (Arc::new(serve), AtomicU64::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_nodelay(true);
            let (serve, nth) = (serve.clone(), dials.fetch_add(1, Ordering::Relaxed));
            std::thread::spawn(move || serve(stream, nth));
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// What a WebSocket server does with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Echo,
    /// In two frames with a ping between them; the pong is awaited.
    Fragments,
    Shout,
    Short,
    Goodbye,
    Cut,
    Close,
    Masked,
    Silent,
}

impl Act {
    /// How it is counted, on a connection that has had a response before or not.
    fn class(self, has_responded: bool) -> Option<FailureClass> {
        Some(match self {
            Act::Echo | Act::Fragments => return None,
            Act::Shout => FailureClass::Body,
            Act::Short => FailureClass::Length,
            Act::Goodbye | Act::Close if has_responded => FailureClass::Stale,
            Act::Goodbye | Act::Close => FailureClass::Closed,
            Act::Cut => FailureClass::BodyCut,
            Act::Masked => FailureClass::Malformed,
            Act::Silent => FailureClass::BodyTimeout,
        })
    }

    fn bytes(self, payload: &[u8]) -> Vec<u8> {
        let text = |bytes: &[u8]| [&[0x81, bytes.len() as u8], bytes].concat();
        match self {
            Act::Echo => text(payload),
            Act::Fragments => {
                let (one, two) = payload.split_at(5);
                let between = [0x89, 0, 0x80, two.len() as u8];
                [&[0x01, 5][..], one, &between, two].concat()
            }
            Act::Shout => text(&payload.to_ascii_uppercase()),
            Act::Short => text(&payload[1..]),
            // Code 1001: going away.
            Act::Goodbye => vec![0x88, 2, 0x03, 0xE9],
            Act::Cut => text(payload)[..9].to_vec(),
            Act::Masked => [&[0x81, 0x80 | payload.len() as u8, 0, 0, 0, 0], payload].concat(),
            Act::Close | Act::Silent => Vec::new(),
        }
    }
}

type Counted = std::sync::Mutex<std::collections::BTreeMap<FailureClass, u64>>;

/// Upgrades, and performs the next act for each message. Errors of a client that has disconnected are ignored.
fn echo(mut stream: TcpStream, next: &dyn Fn() -> Act, counted: &Counted) {
    let head = read_head(&mut stream);
    let mut lines = head.lines();
    let Some(key) = lines.find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")) else {
        return;
    };
    let response = accept(key);
    let upgrade = format!("HTTP/1.1 101 Yes\r\nsec-websocket-accept: {response}\r\n\r\n");
    let _ = stream.write_all(upgrade.as_bytes());
    // Messages are short and uniform: a head of 6 bytes including the mask, and the payload.
    let (mut frame, mut has_responded) = ([0; 6 + MESSAGE.len()], false);
    while stream.read_exact(&mut frame).is_ok() {
        let mask = [2, 3, 4, 5].map(|at: usize| frame[at]);
        let payload = frame[6..].iter().zip(mask.iter().cycle());
        let payload: Vec<u8> = payload.map(|(byte, mask)| byte ^ mask).collect();
        assert_eq!(payload, MESSAGE);
        let act = next();
        if let Some(class) = act.class(has_responded) {
            *counted.lock().unwrap().entry(class).or_insert(0) += 1;
        }
        has_responded = true;
        let _ = stream.write_all(&act.bytes(&payload));
        match act {
            Act::Echo | Act::Shout | Act::Short | Act::Silent => {}
            Act::Fragments => {
                let mut pong = [0; 6];
                stream.read_exact(&mut pong).unwrap();
                assert_eq!(pong[..2], [0x8A, 0x80]);
            }
            Act::Goodbye | Act::Cut | Act::Close | Act::Masked => return,
        }
    }
}

fn messages(address: SocketAddr, requests: Option<u64>) -> Plan {
    let mut plan = plan(address, requests);
    let made = kind::websocket(&Draft::default(), &plan.target, MESSAGE.into(), 3);
    let (kind, request) = made.unwrap();
    (plan.kind, plan.requests) = (kind, vec![request]);
    plan
}

#[test]
fn messages_come_back_and_each_fault_has_its_class() {
    let acts = [
        Act::Echo,
        Act::Fragments,
        Act::Shout,
        Act::Echo,
        Act::Short,
        Act::Goodbye,
        Act::Close,
        Act::Echo,
        Act::Cut,
        Act::Fragments,
        Act::Masked,
        Act::Echo,
        Act::Close,
    ];
    let counted = Arc::new(Counted::default());
    let (count, nth) = (counted.clone(), AtomicU64::new(0));
    let next = move || acts[nth.fetch_add(1, Ordering::Relaxed) as usize % acts.len()];
    let address = server(move |stream, _| echo(stream, &next, &count));
    let mut plan = messages(address, Some(390));
    plan.connections = 3;
    let load = load(&plan);
    assert_eq!(load.ok + load.failed(), 390);
    let counted: Vec<_> = counted.lock().unwrap().clone().into_iter().collect();
    assert_eq!(failures(&load), counted);
    assert_eq!(load.latency.total.count, load.ok);
    let upgrades = load.latency.opening.as_ref().unwrap().count;
    assert_eq!(
        upgrades, load.connections.opened,
        "each upgrade is kept apart"
    );
    assert_eq!(load.asked.protocol, "websocket");
}

#[test]
fn a_failed_upgrade_is_not_an_echo() {
    for (response, class) in [
        (
            "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
            FailureClass::Status,
        ),
        (
            "HTTP/1.1 101 Yes\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
            FailureClass::Field,
        ),
        ("220 mail.example ESMTP\r\n\r\n", FailureClass::Malformed),
        ("HTTP/1.1 101 Y", FailureClass::HeadCut),
        ("", FailureClass::Closed),
    ] {
        let address = server(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(response.as_bytes());
        });
        let plan = messages(address, Some(20));
        let load = load(&plan);
        assert_eq!(failures(&load), [(class, 20)], "{response}");
        assert!(load.latency.opening.is_none());
        assert_eq!(kind::ask(&plan).unwrap_err().class, class, "{response}");
    }
}

#[test]
fn messages_that_do_not_come_back_time_out_and_the_open_loop_counts_them() {
    let nth = AtomicU64::new(0);
    let next = move || match nth.fetch_add(1, Ordering::Relaxed) % 10 {
        9 => Act::Silent,
        _ => Act::Echo,
    };
    let address = server(move |stream, _| echo(stream, &next, &Counted::default()));
    let mut plan = messages(address, None);
    plan.mode = Mode::Open {
        rate: 200.0,
        poisson: false,
    };
    (plan.connections, plan.timeout) = (20, Duration::from_millis(300));
    let load = load(&plan);
    assert_eq!(load.ok + load.failed(), 200, "all that were due");
    assert!(load.failed_in(FailureClass::BodyTimeout) > 0);
    // How many depends on other load on the CPU: what stalled for 300 ms timed out.
    assert!(load.ok > 0, "{:?}", load.failures);
}

fn events(address: SocketAddr, requests: Option<u64>) -> Plan {
    let mut plan = plan(address, requests);
    let (kind, request) = kind::events(&Draft::default(), &plan.target).unwrap();
    (plan.kind, plan.requests) = (kind, vec![request]);
    plan
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

#[test]
fn gaps_between_events_are_as_long_as_they_were_made() {
    let gap = Duration::from_millis(40);
    let address = server(move |mut stream, _| {
        read_head(&mut stream);
        // The time to the first event, which is measured.
        std::thread::sleep(Duration::from_millis(120));
        let _ = stream.write_all(STREAM.as_bytes());
        // A comment is not an event, and an event in two pieces is one.
        while stream.write_all(b": still here\n\ndata: to").is_ok() {
            if stream.write_all(b"day\nid: 4\n\n").is_err() {
                return;
            }
            // The gap, which is measured.
            std::thread::sleep(gap);
        }
    });
    let mut plan = events(address, None);
    (plan.connections, plan.duration) = (5, Duration::from_millis(1_200));
    let load = load(&plan);
    assert_eq!(load.failed(), 0, "{:?}", load.failures);
    // Never earlier, apart from clock resolution; later by what a busy machine adds.
    let gaps = &load.latency.total;
    let median = gaps.percentile(50.0).unwrap() / 1e6;
    assert!((38.0..400.0).contains(&median), "{median} ms");
    let opening = load.latency.opening.as_ref().unwrap();
    assert_eq!(opening.count, 5);
    assert!(opening.min_ns.unwrap() >= 118e6, "{opening:?}");
    assert!(load.ok > 5, "{}", load.ok);
    assert_eq!(load.asked.protocol, "server-sent events");
}

#[test]
fn streams_that_end_or_are_none_have_their_classes() {
    for (response, class) in [
        (
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            FailureClass::Status,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nx",
            FailureClass::Field,
        ),
        (STREAM, FailureClass::Closed),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 3\r\n\r\n: a",
            FailureClass::Closed,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a",
            FailureClass::BodyCut,
        ),
        ("HTTP/1.1 2", FailureClass::HeadCut),
    ] {
        let address = server(move |mut stream, _| {
            read_head(&mut stream);
            let _ = stream.write_all(response.as_bytes());
        });
        let plan = events(address, Some(20));
        assert_eq!(failures(&load(&plan)), [(class, 20)], "{response}");
        assert_eq!(kind::ask(&plan).unwrap_err().class, class, "{response}");
    }
    // Three events, then the end: the first opens, two are intervals, the wait for a fourth is lost.
    let address = server(move |mut stream, _| {
        read_head(&mut stream);
        for bytes in [STREAM, "data: 1\n\n", "data: 2\n\n", "data: 3\n\n"] {
            let _ = stream.write_all(bytes.as_bytes());
            // The events arrive one by one, usually.
            std::thread::sleep(Duration::from_millis(15));
        }
    });
    // If events arrive together, the later ones do not end a wait, so the sums are bounds.
    let ended = load(&events(address, Some(60)));
    let stale = ended.failed_in(FailureClass::Stale);
    assert_eq!(ended.failed(), stale, "{:?}", ended.failures);
    assert!(
        stale >= 10 && (2 * stale..=2 * stale + 8).contains(&ended.ok),
        "{stale}, {}",
        ended.ok
    );
    let address = server(move |mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(STREAM.as_bytes());
        let _ = stream.write_all(b"data: the only one\n\n");
        let _ = stream.read(&mut [0]);
    });
    let mut plan = events(address, Some(8));
    plan.timeout = Duration::from_millis(200);
    assert_eq!(failures(&load(&plan)), [(FailureClass::BodyTimeout, 8)]);
}

#[test]
fn idle_connections_are_held_and_those_that_the_server_ends_are_counted() {
    // Every fifth connection is closed after its response, if it stays idle.
    let address = server(|mut stream, nth| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
        loop {
            if read_head(&mut stream).is_empty() {
                return;
            }
            let _ = stream.write_all(&[&head[..], BODY].concat());
            if nth < 20 && nth % 5 == 0 {
                // It is idle for a while before it ends.
                std::thread::sleep(Duration::from_millis(300));
                return;
            }
        }
    });
    let mut plan = plan(address, None);
    plan.beside = Beside {
        idle: 20,
        ..Beside::default()
    };
    let mut stages = Vec::new();
    let load = run(&plan, &mut |stage| match stage {
        Stage::Alone => stages.push("alone"),
        Stage::Held => stages.push("held"),
        Stage::Window(..) => stages.push("window"),
        Stage::Running(..) => {}
    });
    let load = load.unwrap();
    assert_eq!(stages, ["alone", "held", "window"]);
    assert_eq!(load.failed(), 0);
    let held = load.held.as_ref().unwrap();
    assert_eq!((held.idle, held.idle_open), (20, 16));
    assert_eq!(held.lost, [(FailureClass::Stale, 4)]);
    assert_eq!(load.connections.opened, 4, "they are no part of the load");
}

#[test]
fn slow_readers_read_at_the_configured_rate() {
    let address = server(|mut stream, _| {
        // The load's own requests get their response at once, those of slow readers more than any buffer holds.
        while !read_head(&mut stream).is_empty() {
            let body = vec![b'x'; 8 << 20];
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    let mut plan = plan(address, None);
    plan.requests[0].expect = Expect {
        status: 200,
        ..Expect::default()
    };
    (plan.connections, plan.timeout) = (1, Duration::from_secs(20));
    plan.beside = Beside {
        idle: 0,
        slow: 3,
        slow_bytes_per_s: 10_000,
    };
    let load = load(&plan);
    let held = load.held.as_ref().unwrap();
    assert_eq!((held.slow, held.slow_open), (3, 3), "{held:?}");
    assert!(held.lost.is_empty(), "{held:?}");
    // At least one read each, and no more than ten reads of 1,000 bytes a second, however long it took.
    let seconds = load.window_s + 40.0;
    assert!(held.slow_received_bytes >= 3_000, "{held:?}");
    assert!((held.slow_received_bytes as f64) < 30_000.0 * seconds);
    assert_eq!(held.slow_responses, 0);
}
