//! Scenarios against servers that count: sessions with cookies and variables, phases, and each class of failure.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::faulty::{Act, Faulty};
use super::{BODY, act, failures, load, plan};
use crate::generator::Plan;
use crate::generator::scenario::{
    Pace, Phase, Scenario, Session, Step, StepExpect, Template, Values, Variable, VariableScope,
};
use crate::result::{FailureClass, Load, Mode};

/// A server with a login: `/login?user=N` sets a cookie, and `/page/N` needs the cookie of this user. It counts the
/// requests to each path, and the most that it saw at a time on different connections.
#[derive(Clone, Default)]
struct Shop {
    paths: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Requests with the cookie of another user, or without one.
    strangers: Arc<Mutex<u64>>,
    accepted: Arc<Mutex<u64>>,
}

impl Shop {
    fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shop = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *shop.accepted.lock().unwrap() += 1;
                let shop = shop.clone();
                std::thread::spawn(move || shop.talk(stream));
            }
        });
        address
    }

    fn talk(&self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let (mut held, mut buf) = (Vec::new(), [0; 4096]);
        loop {
            while let Some(end) = memchr::memmem::find(&held, b"\r\n\r\n") {
                let head = String::from_utf8(held.drain(..end + 4).collect()).unwrap();
                if stream.write_all(self.response(&head).as_bytes()).is_err() {
                    return;
                }
            }
            match stream.read(&mut buf) {
                Ok(0) | Err(_) => return,
                Ok(got) => held.extend_from_slice(&buf[..got]),
            }
        }
    }

    fn response(&self, head: &str) -> String {
        let path = head.split(' ').nth(1).unwrap();
        let cookie = head.lines().find_map(|line| line.strip_prefix("Cookie: "));
        let mut paths = self.paths.lock().unwrap();
        let kind = path.split(['?', '/']).nth(1).unwrap().to_string();
        *paths.entry(kind).or_insert(0) += 1;
        if let Some(user) = path.strip_prefix("/login?user=") {
            if cookie.is_some() {
                *self.strangers.lock().unwrap() += 1;
            }
            return format!(
                "HTTP/1.1 200 OK\r\nSet-Cookie: id={user}; Path=/\r\nContent-Length: 2\r\n\r\nok"
            );
        }
        let user = path.rsplit('/').next().unwrap();
        if cookie != Some(&format!("id={user}")) {
            *self.strangers.lock().unwrap() += 1;
            return "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_string();
        }
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".to_string()
    }

    fn seen(&self, kind: &str) -> u64 {
        *self.paths.lock().unwrap().get(kind).unwrap_or(&0)
    }
}

pub(super) fn step(name: &str, path: &str, body: &str, think_ms: u64) -> Step {
    Step {
        name: name.into(),
        method: "GET".into(),
        path: Template::parse(path, |_| Some(0)).unwrap(),
        headers: vec![("X-Step".into(), Template::parse(name, |_| None).unwrap())],
        body: Template::default(),
        think_min: Duration::from_millis(think_ms),
        think_max: Duration::from_millis(think_ms),
        expect: StepExpect {
            status: 200,
            body: Some(body.into()),
            length: None,
            headers: Vec::new(),
        },
    }
}

pub(super) fn session(name: &str, weight: u32, steps: Vec<Step>) -> Session {
    Session {
        name: name.into(),
        weight,
        cookies: true,
        new_connection: false,
        steps,
    }
}

pub(super) fn phase(name: &str, ms: u64, from: f64, to: f64) -> Phase {
    Phase {
        name: name.into(),
        duration: Duration::from_millis(ms),
        from,
        to,
    }
}

/// A user logs in and visits two pages.
pub(super) fn shop(pace: Pace, phases: Vec<Phase>) -> Scenario {
    Scenario {
        name: "shop".into(),
        pace,
        phases,
        variables: vec![Variable {
            name: "user".into(),
            values: Values::Counter { from: 1, to: 50 },
            scope: VariableScope::Session,
        }],
        sessions: vec![session(
            "visit",
            1,
            vec![
                step("login", "/login?user=${user}", "ok", 5),
                step("page", "/page/${user}", "page", 5),
                step("again", "/page/${user}", "page", 0),
            ],
        )],
    }
}

pub(super) fn scenario_plan(address: SocketAddr, scenario: Scenario) -> Plan {
    let mut plan = plan(address, None);
    plan.mode = scenario.mode();
    plan.connections = scenario.clients_max();
    plan.duration = scenario.duration();
    plan.requests = vec![scenario.probe(&plan.target).unwrap()];
    plan.scenario = Some(Arc::new(scenario));
    plan
}

/// Without a session before the window, all that the server saw is in the figures.
pub(super) fn quiet() -> Phase {
    phase("quiet", 50, 0.0, 0.0)
}

pub(super) const OPEN: Pace = Pace::Sessions {
    clients_max: 40,
    poisson: false,
};

fn sums(load: &Load) -> [u64; 3] {
    let parts = load.parts.iter().map(|part| part.ok + part.failed).sum();
    let phases = load.phases.iter().map(|one| one.ok + one.failed).sum();
    [load.ok + load.failed(), parts, phases]
}

#[test]
fn sessions_keep_their_cookies_and_each_step_and_phase_its_figures() {
    for threads in [1, 2] {
        let server = Shop::default();
        let phases = vec![
            quiet(),
            phase("ramp", 400, 0.0, 200.0),
            phase("steady", 200, 200.0, 200.0),
        ];
        let mut plan = scenario_plan(server.start(), shop(OPEN, phases));
        plan.threads = threads;
        let load = load(&plan);
        assert_eq!(failures(&load), []);
        assert_eq!(*server.strangers.lock().unwrap(), 0);
        let all = server.seen("login") + server.seen("page");
        // A busy machine may leave requests without a response when the load ends.
        let counted = all - load.censored.without_response;
        assert_eq!(sums(&load), [counted; 3]);
        assert_eq!(load.due, Some(all));
        let names: Vec<&str> = load.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["visit: login", "visit: page", "visit: again"]);
        // 40 sessions below the ramp, and 40 after it.
        assert!(load.parts[0].ok.abs_diff(80) <= 1, "{:?}", load.parts[0].ok);
        let unseen = server.seen("login") - load.parts[0].ok;
        assert!(unseen <= load.censored.without_response, "{unseen}");
        let session = &load.sessions[0];
        assert_eq!(session.failed, 0);
        assert_eq!(session.completed + session.unfinished, load.parts[0].ok);
        assert_eq!(session.completed, session.duration.count);
        // A session has two think times of 5 ms.
        assert!(session.duration.min_ns.unwrap() >= 9_990_000.0);
        let phases: Vec<(&str, f64)> = load
            .phases
            .iter()
            .map(|one| (one.name.as_str(), one.begin_s))
            .collect();
        assert_eq!(phases, [("quiet", 0.0), ("ramp", 0.05), ("steady", 0.45)]);
        assert_eq!(load.phases[0].ok, 0);
        assert!(load.phases[1].ok > 0 && load.phases[2].ok > 0);
        assert_eq!(load.asked.scenario.as_deref(), Some("shop"));
        assert_eq!(load.connections.opened, *server.accepted.lock().unwrap());
        assert_eq!(load.clients_short(), None);
    }
}

#[test]
fn clients_come_and_go_with_the_phases() {
    let server = Shop::default();
    let phases = vec![
        quiet(),
        phase("one", 150, 1.0, 1.0),
        phase("spike", 150, 6.0, 6.0),
        phase("none", 100, 0.0, 0.0),
    ];
    let mut plan = scenario_plan(server.start(), shop(Pace::Clients, phases));
    plan.threads = 2;
    let load = load(&plan);
    assert_eq!(failures(&load), []);
    let all = server.seen("login") + server.seen("page");
    assert_eq!(sums(&load), [all; 3]);
    assert_eq!((load.asked.mode, load.asked.connections), (Mode::Closed, 6));
    assert_eq!(load.connections.clients, Some(6));
    // Each client that came back after it had left, or did not leave, has a connection of its own.
    assert_eq!(load.connections.opened, *server.accepted.lock().unwrap());
    assert!(load.phases[2].ok > load.phases[1].ok, "{:?}", load.phases);
    // What was in flight when the clients left.
    assert!(load.phases[3].ok <= 6, "{:?}", load.phases[3]);
    // Sessions of clients that left are not failures.
    assert_eq!(load.sessions[0].failed, 0);
    assert!(load.sessions[0].completed > 0);
}

#[test]
fn a_new_connection_per_session_is_one_per_session() {
    let server = Shop::default();
    let mut scenario = shop(OPEN, vec![quiet(), phase("steady", 200, 100.0, 100.0)]);
    scenario.sessions[0].new_connection = true;
    let load = load(&scenario_plan(server.start(), scenario));
    assert_eq!(failures(&load), []);
    assert_eq!(load.connections.opened, load.parts[0].ok);
}

#[test]
fn weights_decide_how_often_a_session_begins() {
    let server = Shop::default();
    let mut scenario = shop(OPEN, vec![quiet(), phase("steady", 300, 200.0, 200.0)]);
    let login = || vec![step("login", "/login?user=${user}", "ok", 0)];
    scenario.sessions = vec![session("often", 3, login()), session("seldom", 1, login())];
    let load = load(&scenario_plan(server.start(), scenario));
    let [often, seldom] = [load.parts[0].ok, load.parts[1].ok];
    assert_eq!(often + seldom, server.seen("login"));
    assert!(often.abs_diff(seldom * 3) <= 3, "{often} {seldom}");
    assert_eq!(load.sessions[1].weight, 1);
}

#[test]
fn each_fault_of_a_scenario_is_counted_exactly_in_its_class() {
    for pace in [OPEN, Pace::Clients] {
        let server = Faulty::start(act);
        let level = match pace {
            Pace::Clients => 3.0,
            Pace::Sessions { .. } => 400.0,
        };
        let body = std::str::from_utf8(BODY).unwrap();
        // Nobody is left at the end, so that all that was in flight ends inside the window.
        let phases = vec![
            quiet(),
            phase("steady", 400, level, level),
            phase("end", 300, 0.0, 0.0),
        ];
        let mut scenario = shop(pace, phases);
        scenario.sessions = vec![session(
            "two",
            1,
            vec![step("a", "/a", body, 0), step("b", "/b", body, 0)],
        )];
        let load = load(&scenario_plan(server.address, scenario));
        let did = server.take();
        assert_eq!(failures(&load), did.failures(), "{pace:?}");
        assert_eq!(load.ok, did.good);
        assert_eq!(load.latency.total.count, did.good);
        let [all, parts, phases] = sums(&load);
        assert_eq!((all, all), (parts, phases));
        // Every failed step ends its session.
        assert_eq!(load.sessions[0].failed, load.failed());
        assert!(load.failed_in(FailureClass::Status) > 0);
    }
}

#[test]
fn silence_ends_a_session_and_sessions_without_a_client_are_dropped() {
    let server = Faulty::start(|_| Act::Silent);
    let pace = Pace::Sessions {
        clients_max: 2,
        poisson: false,
    };
    let phases = vec![quiet(), phase("steady", 300, 100.0, 100.0)];
    let mut plan = scenario_plan(server.address, shop(pace, phases));
    plan.timeout = Duration::from_millis(150);
    let load = load(&plan);
    assert_eq!(load.ok, 0);
    let (timeouts, dropped) = (
        load.failed_in(FailureClass::HeadTimeout),
        load.failed_in(FailureClass::Dropped),
    );
    assert!(timeouts >= 2 && dropped > 0, "{:?}", failures(&load));
    assert_eq!(load.due, Some(timeouts + dropped));
}

#[test]
fn a_refused_scenario_has_figures_for_its_step() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let phases = vec![quiet(), phase("steady", 200, 100.0, 100.0)];
    let load = load(&scenario_plan(address, shop(OPEN, phases)));
    assert_eq!(load.failed(), load.failed_in(FailureClass::Refused));
    assert_eq!(load.due, Some(load.failed()));
    assert_eq!(load.parts[0].failed, load.failed());
}

#[test]
fn shares_of_machines_add_up() {
    let phases = vec![phase("a", 100, 1.0, 10.0), phase("b", 100, 7.0, 7.0)];
    for (pace, max) in [(Pace::Clients, 10), (OPEN, 40)] {
        let whole = shop(pace, phases.clone());
        assert_eq!(whole.clients_max(), max);
        let shares: Vec<Scenario> = (0..3).map(|machine| whole.share(machine, 3)).collect();
        let sum = |level: fn(&Phase) -> f64| {
            let levels = shares.iter().map(|share| level(&share.phases[1]));
            levels.sum::<f64>()
        };
        assert!((sum(|one| one.from) - 7.0).abs() < 1e-9);
        let clients: usize = shares.iter().map(Scenario::clients_max).sum();
        assert_eq!(clients, max);
    }
}
