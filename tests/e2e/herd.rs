//! A thundering herd: thousands of clients that are connected and send their requests at the same time, in front of a slow
//! upstream with `overload` in each of its modes. Every client gets a response, and exactly as many as configured are admitted.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::thread;

use sluice_net::sys::limits::raise_open_files;

use crate::client::Client;
use crate::harness::Server;
use crate::support::abilities::skipped;
use crate::support::client_load::Holding;

const REQUEST: &[u8] = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Threads that connect, send and read.
const THREADS: usize = 4;

/// A mode, what it admits to the upstream, and what waits.
struct Mode {
    overload: &'static str,
    in_flight: usize,
    waiting: usize,
}

const MODES: [Mode; 3] = [
    Mode {
        overload: "fail_fast 100 {\n\t\tname app\n\t}",
        in_flight: 100,
        waiting: 0,
    },
    Mode {
        overload: "queue 100 {\n\t\tname app\n\t\tqueue 200\n\t\ttimeout 10m\n\t}",
        in_flight: 100,
        waiting: 200,
    },
    // Nothing has been measured yet, so the limit is the one at the start.
    Mode {
        overload: "adaptive {\n\t\tname app\n\t\tqueue 200\n\t\ttimeout 10m\n\t}",
        in_flight: 50,
        waiting: 200,
    },
];

/// Does something with each connection, in a few threads, and returns what came of it.
fn with_each<A: Send, B: Send>(all: Vec<A>, work: impl Fn(A) -> B + Sync) -> Vec<B> {
    let size = all.len().div_ceil(THREADS).max(1);
    let mut shares: Vec<Vec<A>> = Vec::new();
    let mut all = all.into_iter();
    while shares.len() < THREADS {
        shares.push(all.by_ref().take(size).collect());
    }
    thread::scope(|scope| {
        let work = &work;
        let share = |share: Vec<A>| scope.spawn(move || share.into_iter().map(work).collect());
        let threads: Vec<thread::ScopedJoinHandle<'_, Vec<B>>> =
            shares.into_iter().map(share).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|done| done.expect("no client fails"))
            .collect()
    })
}

/// Whether this process may have so many open files.
fn has_files_for(clients: usize) -> bool {
    let limit = raise_open_files().expect("the limit can be read");
    let has = usize::try_from(limit).is_ok_and(|limit| limit >= clients + 2_000);
    if !has {
        skipped(format_args!(
            "{limit} open files are too few for {clients} clients"
        ));
    }
    has
}

fn come(clients: usize) {
    if !has_files_for(clients) {
        return;
    }
    for mode in MODES {
        withstand(&mode, clients);
    }
}

fn withstand(mode: &Mode, clients: usize) {
    let holding = Holding::default();
    let upstream = holding.start();
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\toverload /slow {}\n\
         \treverse_proxy /slow localhost:{upstream}\n\trespond /fast ok\n}}\n",
        mode.overload
    ));
    let port = server.port;
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let herd: Vec<TcpStream> = with_each((0..clients).collect(), connect);
    let herd = with_each(herd, |mut stream| {
        stream.write_all(REQUEST).expect("the server takes it");
        stream
    });
    // What is not admitted is shed at once, while the upstream works on nothing but the first requests.
    let shed = clients - mode.in_flight - mode.waiting;
    for sample in [
        format!(
            "sluice_overload_shed_total{{name=\"app\",class=\"normal\",reason=\"full\"}} {shed}"
        ),
        format!(
            "sluice_overload_in_flight{{name=\"app\"}} {}",
            mode.in_flight
        ),
        format!("sluice_overload_waiting{{name=\"app\"}} {}", mode.waiting),
    ] {
        server.wait_for_sample(&sample);
    }
    assert_eq!(
        server.ask("/fast").text(),
        "ok",
        "others are served meanwhile"
    );
    holding.free();
    let responses = with_each(herd, |stream| Client::of(stream).response());
    let ok = responses.iter().filter(|one| one.status == 200).count();
    assert_eq!(ok, mode.in_flight + mode.waiting, "{}", mode.overload);
    for response in responses.iter().filter(|one| one.status != 200) {
        assert_eq!(response.status, 503, "{response:?}");
        let after = response.field("Retry-After").expect("it says when");
        assert!((1..=3).contains(&after.parse::<u32>().expect("seconds")));
    }
    // Each request was sent once.
    assert_eq!(holding.count(), ok);
    // It has recovered: the next ones are served, on new connections.
    for _ in 0..100 {
        assert_eq!(server.ask("/slow").status, 200);
    }
    server.wait_for_sample("sluice_overload_in_flight{name=\"app\"} 0");
}

#[test]
fn a_thousand_clients_at_once_all_get_a_response() {
    come(1_000);
}

/// The number of clients of issue 20, which `cargo xtask soak` runs by the name of this module.
mod soak {
    #[test]
    #[ignore = "19,000 open files: cargo xtask soak"]
    fn ninety_five_hundred_clients_at_once_all_get_a_response() {
        super::come(9_500);
    }
}
