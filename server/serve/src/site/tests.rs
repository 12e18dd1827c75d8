//! A handler that panics ends its own connection with a 500, and nothing else. The test defines its own handlers,
//! because no directive panics.

mod proxying;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sluice_net::{ConnectionLimit, Listen, ListenAddr, Protocols, Workers};
use sluice_route::{Matcher, MatcherSet, MatcherSets, RouteIndex};

use super::*;
use sluice_observe::log::Log;
use sluice_pipeline::handler::{Handler, Waiting};
use sluice_pipeline::program::{List, Route};
use sluice_pipeline::settings::settings;

/// Panics, either at once or after awaiting.
enum Panics {
    AtOnce,
    Later,
}

impl Handler for Panics {
    fn serve(&self, _x: &mut Exchange) -> Step {
        match self {
            Panics::AtOnce => panic!("on purpose, at once"),
            Panics::Later => Step::Later,
        }
    }

    fn wait<'a>(&'a self, _x: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async { panic!("on purpose, later") })
    }
}

struct Fine;

impl Handler for Fine {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        exchange.inline.extend_from_slice(b"fine");
        Step::Done(Body::Inline)
    }
}

fn site() -> Site {
    let route = |path: &str, handler: Box<dyn Handler>| Route {
        matchers: MatcherSets::new(vec![MatcherSet::new(vec![
            Matcher::path(&[path]).expect("it is a path"),
        ])]),
        handlers: vec![handler],
        group: None,
        terminal: true,
        kind: None,
        site: None,
    };
    let routes = vec![
        route("/now", Box::new(Panics::AtOnce)),
        route("/later", Box::new(Panics::Later)),
        route("/", Box::new(Fine)),
    ];
    let keys: Vec<_> = routes.iter().map(|route| route.matchers.key()).collect();
    let list = List {
        index: RouteIndex::build(&keys),
        routes,
        errors: None,
    };
    Site {
        rules: Rules {
            expected_names: Some(ExpectedNames::default()),
            request_ids: None,
            program: Program {
                lists: vec![list],
                errors: None,
                errors_recur: false,
                itself: Default::default(),
                virtual_servers: None,
                metrics: None,
                sites: None,
            },
            trusted_proxies: None,
            host_check: HostCheck::Off,
        },
        settings: settings(&Server::default()),
        per_server: None,
        access: None,
        recorder: Arc::new(Recorder::new(Log::silent(), 1)),
        challenges: Arc::default(),
        alt_svc: crate::alt_svc::AltSvc::default(),
    }
}

/// Requests `path` and returns what is received up to the end of the connection or of the body of [`Fine`].
fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is open");
    let (mut said, mut byte) = (String::new(), [0]);
    while !said.ends_with("fine") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        said.push(byte[0] as char);
    }
    said
}

#[test]
fn a_panic_ends_one_connection_only() {
    let free = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let site = Arc::new(site());
    let mut workers = Workers::start(1, ConnectionLimit::new(100)).expect("threads start");
    let listen = Listen {
        addr: ListenAddr::Tcp(address),
        service: site.clone(),
        tls: None,
        wrapper: None,
        datagrams: None,
        protocols: Protocols::default(),
    };
    workers.apply(vec![listen]).expect("the port is free");
    let connect = || {
        let stream = TcpStream::connect(address).expect("somebody listens");
        let timeout = Some(Duration::from_secs(5));
        stream.set_read_timeout(timeout).expect("it can be set");
        stream
    };
    let mut bystander = connect();
    assert!(ask(&mut bystander, "/").ends_with("fine"));
    for path in ["/now", "/later"] {
        for _ in 0..3 {
            let mut unlucky = connect();
            assert!(ask(&mut unlucky, "/").ends_with("fine"));
            let said = ask(&mut unlucky, path);
            assert!(said.starts_with("HTTP/1.1 500 "), "{said}");
            assert!(said.contains("\r\nConnection: close\r\n"), "{said}");
            assert!(ask(&mut bystander, "/").ends_with("fine"), "after {path}");
        }
    }
    assert!(ask(&mut connect(), "/").ends_with("fine"));
    drop(bystander);
    workers.drain(Duration::from_secs(5));
    let totals = site.recorder.totals();
    assert_eq!(totals.in_flight(), 0, "each request is recorded once");
    assert_eq!(totals.started, 6 + 6 + 1 + 1 + 6);
}
