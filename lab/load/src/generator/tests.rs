//! Loads of servers with known behaviour: each class of failure is counted exactly, a stall is visible in the open
//! loop, and the load generator's figures match what the server did.

mod faulty;
mod goaway;
mod h3;
mod quic_server;
mod scenario;
mod secure;
mod streams;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use self::faulty::{Act, Faulty};
use super::expect::Expect;
use super::request::{Draft, Prepared};
use super::target::Reach;
use super::*;

/// The expected body of these servers.
pub(crate) const BODY: &[u8] = b"hello, lab";

pub(crate) fn plan(address: SocketAddr, requests: Option<u64>) -> Plan {
    let target = Target::parse(
        &format!("http://{address}/x"),
        HttpVersion::Http1,
        None,
        Reach::Loopback,
    )
    .unwrap();
    let draft = Draft {
        path: target.path.clone(),
        ..Draft::default()
    };
    let prepared = draft.prepare(&target, Expect::exactly(200, BODY)).unwrap();
    Plan {
        target,
        tls: None,
        requests: vec![prepared],
        mix: Mix::default(),
        scenario: None,
        mode: Mode::Closed,
        connections: 4,
        depth: 1,
        requests_per_connection_max: None,
        threads: 1,
        cpus: Vec::new(),
        requests_max: requests,
        warmup: Duration::ZERO,
        warmup_requests: None,
        duration: Duration::from_secs(1),
        drain: Duration::from_secs(5),
        timeout: Duration::from_secs(5),
        failure_pause: Duration::ZERO,
        seed: 1,
        kind: Kind::default(),
        beside: Beside::default(),
        interrupt: Interrupt::default(),
        barrier: None,
    }
}

fn load(plan: &Plan) -> Load {
    run(plan, &mut |_| {}).unwrap()
}

/// All failures as pairs of class and count.
fn failures(load: &Load) -> Vec<(FailureClass, u64)> {
    let pairs = load.failures.iter();
    pairs
        .map(|failures| (failures.class, failures.count))
        .collect()
}

/// Everything a server can do wrong at once, and what it does right in between.
const ACTS: [Act; 19] = [
    Act::Good,
    Act::Status(502),
    Act::Short,
    Act::OtherBody,
    Act::Close,
    Act::Good,
    Act::Reset,
    Act::CutHead,
    Act::CutBody,
    Act::ResetBody,
    Act::Garbage,
    Act::Good,
    Act::Extra,
    Act::Close,
    Act::Reset,
    Act::Status(404),
    Act::Chunked,
    Act::Old,
    Act::Last,
];

/// Each act occurs at each position of a round, so that faults follow each other on old and new connections.
fn act(nth: u64) -> Act {
    ACTS[(nth * 7 % ACTS.len() as u64) as usize]
}

#[test]
fn each_fault_is_counted_exactly_in_its_class() {
    let server = Faulty::start(act);
    for connections in [1, 5] {
        let mut plan = plan(server.address, Some(570));
        plan.connections = connections;
        let load = load(&plan);
        let did = server.take();
        assert_eq!(load.ok + load.failed(), 570);
        assert_eq!(failures(&load), did.failures(), "{connections} connections");
        assert_eq!(load.ok, did.good);
        assert_eq!(
            load.latency.total.count, did.good,
            "failures have no part in it"
        );
        assert_eq!(load.connections.opened, did.accepted);
        let statuses = &load
            .failures
            .iter()
            .find(|f| f.class == FailureClass::Status)
            .unwrap()
            .statuses;
        assert_eq!(
            statuses
                .iter()
                .map(|(status, _)| *status)
                .collect::<Vec<_>>(),
            [404, 502]
        );
    }
}

#[test]
fn each_fault_is_counted_exactly_in_the_open_loop() {
    // At most 180 requests are due before the window begins (450 ms), and 400 in it: all faults are inside.
    let faults = 200..200 + 19 * 9;
    let server = Faulty::start(move |nth| match faults.contains(&nth) {
        true => act(nth),
        false => Act::Good,
    });
    let mut plan = plan(server.address, None);
    plan.connections = 3;
    plan.mode = Mode::Open {
        rate: 400.0,
        poisson: false,
    };
    let load = load(&plan);
    assert_eq!(failures(&load), server.take().failures());
    assert_eq!(load.failed(), 9 * 13);
    assert_eq!(Some(load.ok + load.failed()), load.due);
    assert_eq!(load.latency.total.count, load.ok);
}

/// A request that waits in the generator for most of its timeout still has all of it at the server.
#[test]
fn the_wait_for_a_connection_is_never_a_timeout_of_the_server() {
    let server = Faulty::start(|_| Act::After(Duration::from_millis(100)));
    let mut plan = plan(server.address, None);
    plan.connections = 1;
    plan.timeout = Duration::from_secs(1);
    plan.duration = Duration::from_secs(2);
    plan.mode = Mode::Open {
        rate: 50.0,
        poisson: false,
    };
    let load = load(&plan);
    let classes: Vec<_> = failures(&load).iter().map(|(class, _)| *class).collect();
    assert_eq!(classes, [FailureClass::Dropped]);
    assert_eq!(Some(load.ok + load.failed()), load.due);
    let wait = load.latency.wait.as_ref().unwrap();
    let service = load.latency.service.as_ref().unwrap();
    assert_eq!(
        (wait.count, service.count),
        (load.ok, load.ok),
        "of those that were sent"
    );
    let mean = |of: &crate::result::Distribution| of.mean_ns.unwrap();
    let sum = mean(wait) + mean(service);
    let total = mean(&load.latency.total);
    assert!((sum / total - 1.0).abs() < 0.01, "{sum} {total}");
    assert!(mean(wait) > mean(service), "they waited for each other");
}

#[test]
fn an_interrupted_load_has_the_figures_so_far() {
    let server = Faulty::start(|_| Act::Good);
    let open = Mode::Open {
        rate: 500.0,
        poisson: false,
    };
    for (mode, requests) in [
        (Mode::Closed, None),
        (open, None),
        (Mode::Closed, Some(1_000_000_000)),
    ] {
        let mut plan = plan(server.address, requests);
        (plan.mode, plan.threads) = (mode, 2);
        plan.duration = Duration::from_secs(3_600);
        let interrupt = plan.interrupt.clone();
        let load = run(&plan, &mut |stage| {
            // The counts of the window are published when its first interval is over.
            if let Stage::Running(ok, seen) = stage
                && (seen.ok() > 0 || requests.is_some() && ok > 0)
            {
                interrupt.set();
            }
        })
        .unwrap();
        assert!(load.interrupted && load.ok > 0, "{mode:?}");
        assert!(load.window_s > 0.0 && load.window_s < 600.0);
        let points = load.series.as_ref().unwrap().points.len();
        assert_eq!(points, (load.window_s * 10.0).ceil() as usize);
    }
}

#[test]
fn a_load_that_is_interrupted_before_its_window_has_no_figures() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, None);
    plan.warmup = Duration::from_secs(3_600);
    plan.interrupt.set();
    let early = load(&plan);
    assert!(early.interrupted);
    assert_eq!((early.ok, early.failed(), early.window_s), (0, 0, 0.0));
    // Also when it is known when the window begins.
    plan.interrupt = Interrupt::default();
    let interrupt = plan.interrupt.clone();
    let late = run(&plan, &mut |stage| {
        if let Stage::Window(..) = stage {
            interrupt.set();
        }
    });
    let late = late.unwrap();
    assert!(late.interrupted);
    assert_eq!((late.ok, late.failed(), late.window_s), (0, 0, 0.0));
}

#[test]
fn each_request_of_a_mix_has_its_own_figures() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, Some(400));
    let good = plan.requests[0].clone();
    let mut wrong = good.clone();
    wrong.expect = Expect::exactly(404, BODY);
    let requests = vec![("a".to_string(), 30, good), ("b".to_string(), 10, wrong)];
    (plan.requests, plan.mix) = Mix::of(requests).unwrap();
    plan.connections = 4;
    let load = load(&plan);
    let parts: Vec<_> = load
        .parts
        .iter()
        .map(|part| (part.name.as_str(), part.weight, part.ok, part.failed))
        .collect();
    assert_eq!(parts, [("a", 30, 300, 0), ("b", 10, 0, 100)]);
    assert_eq!((load.parts[0].latency.count, load.ok), (300, 300));
    assert_eq!(failures(&load), [(FailureClass::Status, 100)]);
}

#[test]
fn the_warmup_that_took_place_is_recorded() {
    let server = Faulty::start(|_| Act::Good);
    let mut counted = plan(server.address, Some(10));
    counted.warmup = Duration::from_secs(1);
    assert_eq!(load(&counted).asked.warmup_s, 0.0, "all of them count");
    let mut timed = plan(server.address, None);
    timed.duration = Duration::from_millis(100);
    assert_eq!(load(&timed).asked.warmup_s, NOTICE.as_secs_f64());
}

#[test]
fn a_warmup_ends_with_its_requests() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, None);
    plan.duration = Duration::from_millis(100);
    // Nobody would wait for an hour.
    (plan.warmup, plan.warmup_requests) = (Duration::from_secs(3_600), Some(200));
    let closed = load(&plan);
    assert!(closed.warmup_ok.unwrap() >= 200, "{:?}", closed.warmup_ok);
    assert_eq!(closed.asked.warmup_requests, Some(200));
    let took = closed.asked.warmup_s;
    assert!((NOTICE.as_secs_f64()..3_600.0).contains(&took), "{took}");
    let all = closed.connections.responses;
    assert!(closed.warmup_ok.unwrap() + closed.ended_ok <= all);
    let words = closed.warmup_words();
    assert!(words.ends_with("; 200 requests were to end it)"), "{words}");
    // In the open loop the rate decides how long that takes.
    plan.mode = Mode::Open {
        rate: 100.0,
        poisson: false,
    };
    plan.warmup_requests = Some(90);
    let open = load(&plan);
    assert!(
        (open.asked.warmup_s - 0.9).abs() < 1e-3,
        "{}",
        open.asked.warmup_s
    );
    assert!(open.warmup_ok.unwrap() <= 90);
    // All requests of a number count: none is sent before them.
    plan.mode = Mode::Closed;
    plan.requests_max = Some(10);
    let counted = load(&plan);
    let (asked, served) = (&counted.asked, counted.warmup_ok);
    assert_eq!(
        (asked.warmup_requests, served, counted.ok),
        (None, Some(0), 10)
    );
}

#[test]
fn a_warmup_by_requests_is_bounded_in_time() {
    let server = Faulty::start(|_| Act::Status(503));
    let mut plan = plan(server.address, None);
    plan.duration = Duration::from_millis(100);
    plan.failure_pause = Duration::from_millis(5);
    (plan.warmup, plan.warmup_requests) = (Duration::from_millis(600), Some(10));
    let load = load(&plan);
    assert_eq!((load.warmup_ok, load.ok), (Some(0), 0));
    assert!(load.failed() > 0 && load.asked.warmup_s >= 0.6 - 1e-3);
}

#[test]
fn silence_is_a_timeout_of_its_kind() {
    let server = Faulty::start(|nth| match nth % 10 {
        3 => Act::Silent,
        7 => Act::SilentBody,
        _ => Act::Good,
    });
    let mut plan = plan(server.address, Some(40));
    plan.timeout = Duration::from_millis(150);
    let load = load(&plan);
    let expected = [
        (FailureClass::HeadTimeout, 4),
        (FailureClass::BodyTimeout, 4),
    ];
    assert_eq!(failures(&load), expected);
    let took = load.failures[0].latency.min_ns.unwrap();
    assert!((150e6..2_000e6).contains(&took), "{took}");
}

#[test]
fn nobody_there_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let load = load(&plan(address, Some(100)));
    assert_eq!(failures(&load), [(FailureClass::Refused, 100)]);
    assert_eq!((load.ok, load.connections.failed), (0, 100));
}

#[test]
fn a_full_queue_is_a_connect_timeout() {
    // A listen queue of one, filled: the kernel then drops further SYNs.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _fill = std::net::TcpStream::connect(address).unwrap();
    let mut plan = plan(address, Some(6));
    plan.connections = 3;
    plan.timeout = Duration::from_millis(200);
    assert_eq!(failures(&load(&plan)), [(FailureClass::ConnectTimeout, 6)]);
}

#[test]
fn fields_are_checked_too() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, Some(10));
    plan.requests[0].expect.fields = vec![("X-Missing".into(), None)];
    assert_eq!(failures(&load(&plan)), [(FailureClass::Field, 10)]);
}

#[test]
fn requests_per_connection_are_kept_to() {
    let server = Faulty::start(|_| Act::Good);
    for (most, connections) in [(1, 60), (7, 9), (20, 3)] {
        let mut plan = plan(server.address, Some(60));
        plan.connections = 3;
        plan.requests_per_connection_max = Some(most);
        let load = load(&plan);
        let did = server.take();
        assert_eq!((load.ok, load.failed()), (60, 0));
        assert!(
            did.accepted >= connections && did.most_on_one <= most,
            "{most}: {did:?}"
        );
        assert_eq!(did.accepted, load.connections.opened);
    }
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, Some(500));
    plan.depth = 8;
    let load = load(&plan);
    assert_eq!((load.ok, load.failed(), server.take().good), (500, 0, 500));
}

#[test]
fn the_window_counts_what_ends_inside_it() {
    let server = Faulty::start(|_| Act::Good);
    let mut plan = plan(server.address, None);
    plan.duration = Duration::from_millis(500);
    let load = load(&plan);
    assert!(
        load.ok > 0 && load.ok < server.take().good,
        "warm-up does not count"
    );
    assert!((load.window_s - 0.5).abs() < 1e-6);
    let series: u64 = load
        .series
        .as_ref()
        .unwrap()
        .points
        .iter()
        .map(|point| point.ok)
        .sum();
    assert_eq!((series, load.ended_ok), (load.ok, load.ok));
    // Little's law: successful requests x mean time = clients x window, as a closed loop is always busy.
    let busy = load.ok as f64 * load.latency.total.mean_ns.unwrap() / 1e9 / load.window_s;
    assert!((0.85..1.1).contains(&(busy / 4.0)), "{busy}");
}

/// A stalling server shows what coordinated omission hides: clients that wait for their responses send nothing during
/// the stall, and so hardly notice it.
#[test]
fn a_stall_is_seen_by_the_open_loop_and_hidden_from_the_closed_one() {
    let stall = Duration::from_millis(1_500);
    let times = |mode| {
        let server = Faulty::stalling(Duration::from_millis(1_000), stall);
        let mut plan = plan(server.address, None);
        (plan.mode, plan.connections) = (mode, 4);
        plan.warmup = Duration::from_millis(500);
        plan.duration = Duration::from_millis(3_000);
        load(&plan)
    };
    let open = times(Mode::Open {
        rate: 100.0,
        poisson: false,
    });
    let closed = times(Mode::Closed);
    assert_eq!((open.failed(), closed.failed()), (0, 0));
    assert_eq!(open.due, Some(300));
    assert_eq!(open.ok, 300, "late answers count");
    // Half of all requests were due in the stall, and most of those waited longer than 200 ms. Shares rather than
    // times, as these also hold on a busy machine.
    let slow = |of: &crate::result::Distribution| {
        let steps = of.hdr.as_ref().unwrap().steps();
        let slow: u64 = steps
            .filter(|(ns, _)| *ns > 200_000_000)
            .map(|(_, count)| count)
            .sum();
        slow as f64 / of.count as f64
    };
    let (seen, hidden) = (slow(&open.latency.total), slow(&closed.latency.total));
    assert!(seen > 0.25, "{seen}");
    assert!(hidden < 0.10, "{hidden}");
    // Measured from when they were sent, even the open loop would have seen only four slow requests.
    let service = slow(open.latency.service.as_ref().unwrap());
    assert!(service < 0.10, "{service}");
    let longest = open.latency.total.max_ns.unwrap() / 1e9;
    assert!(longest > 1.2, "{longest}");
}

#[test]
fn requests_without_a_connection_in_time_are_dropped() {
    let server = Faulty::start(|nth| if nth == 0 { Act::Good } else { Act::Silent });
    let mut plan = plan(server.address, None);
    plan.mode = Mode::Open {
        rate: 100.0,
        poisson: false,
    };
    plan.connections = 1;
    plan.timeout = Duration::from_millis(200);
    plan.duration = Duration::from_millis(1_000);
    let load = load(&plan);
    let classes: Vec<_> = failures(&load).iter().map(|(class, _)| *class).collect();
    assert_eq!(classes, [FailureClass::HeadTimeout, FailureClass::Dropped]);
    assert_eq!(
        load.ok + load.failed(),
        100,
        "every request that was due is somewhere"
    );
    assert!(load.failed_in(FailureClass::Dropped) > 10);
}

#[test]
fn a_rate_is_kept_to() {
    let server = Faulty::start(|_| Act::Good);
    for poisson in [false, true] {
        let mut plan = plan(server.address, None);
        plan.mode = Mode::Open {
            rate: 400.0,
            poisson,
        };
        plan.duration = Duration::from_millis(1_500);
        plan.threads = 2;
        let load = load(&plan);
        let due = load.due.unwrap();
        assert_eq!(load.ok, due);
        let most = if poisson { 100 } else { 2 };
        assert!(due.abs_diff(600) <= most, "{due}");
    }
}

#[test]
fn plain_servers_and_strangers_fail_handshakes() {
    let server = Faulty::start(|_| Act::Good);
    let mut tls = plan(server.address, Some(5));
    tls.target = Target::parse(
        &format!("https://{}/", server.address),
        HttpVersion::Http1,
        None,
        Reach::Loopback,
    )
    .unwrap();
    let options = trust::TlsOptions {
        insecure: true,
        ..Default::default()
    };
    tls.tls = trust::prepare(&options, &tls.target).unwrap();
    tls.timeout = Duration::from_millis(300);
    assert_eq!(failures(&load(&tls)), [(FailureClass::TlsHandshake, 5)]);
}

#[test]
fn a_probe_records_the_expected_response() {
    let server = Faulty::start(|_| Act::Chunked);
    let plan = plan(server.address, None);
    let Prepared { .. } = &plan.requests[0];
    let found = probe::probe(&plan.target, None, &plan.requests[0]).unwrap();
    assert_eq!((found.status, found.body.as_slice()), (200, BODY));
    assert_eq!(found.first_response().body_sha256, probe::sha256(BODY));
}
