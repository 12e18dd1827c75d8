//! What a connection costs in memory: one that is idle, and one whose request waits for an upstream.

use sluice_net::sys::limits::raise_open_files;

use crate::client::Client;
use crate::harness::{Server, Setup, eventually};
use crate::support::abilities::skipped;
use crate::support::client_load::Holding;

/// Connections that are there before anything is measured: pools and tables have grown.
const FIRST: usize = 200;

/// Connections that are measured.
const COUNT: usize = 1_000;

/// What an idle connection may take, in bytes. With its timeout and its readiness it takes 1,200; the rest is what the
/// kernel has not counted yet and what the allocator has in reserve.
const IDLE_BYTES_MAX: u64 = 1_600;

/// What a connection may take whose request waits for an upstream, with the connection to that.
const WAITING_BYTES_MAX: u64 = 4_800;

/// Memory of the process beside files, in bytes.
fn memory(server: &Server) -> u64 {
    server.status("RssAnon") * 1024
}

/// Connections that each have received a response.
fn connect(server: &Server, count: usize) -> Vec<Client> {
    let connect = |_| {
        let mut client = Client::connect(server.port);
        assert_eq!(client.get("/here").status, 200);
        client
    };
    (0..count).map(connect).collect()
}

/// Sends the requests that wait, and returns when the upstream has all of them.
fn wait_for(server: &Server, clients: &mut [Client], holding: &Holding) {
    let expected = holding.count() + clients.len();
    for client in clients.iter_mut() {
        client.send("GET /there HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually(
        "the requests at the upstream",
        || holding.count() == expected,
        || server.stderr(),
    );
}

#[test]
fn connections_take_little_memory_idle_and_waiting() {
    let files = raise_open_files().expect("the limit can be read");
    if files < 2 * (COUNT + FIRST) as u64 + 200 {
        return skipped(format_args!(
            "{files} open files are too few for {COUNT} clients and their upstream"
        ));
    }
    let holding = Holding::default();
    let upstream = holding.start();
    let text = format!(
        ":{{port}} {{\n\trespond /here ok\n\treverse_proxy /there 127.0.0.1:{upstream}\n}}\n"
    );
    let server = Setup::new(&text).env("SLUICE_WORKERS", "1").start();
    let mut first = connect(&server, FIRST);
    wait_for(&server, &mut first, &holding);
    let before = memory(&server);
    let mut clients = connect(&server, COUNT);
    let idle = memory(&server).saturating_sub(before) / COUNT as u64;
    wait_for(&server, &mut clients, &holding);
    let waiting = memory(&server).saturating_sub(before) / COUNT as u64;
    println!("{COUNT} connections: {idle} bytes each while idle, {waiting} while waiting");
    assert!(idle <= IDLE_BYTES_MAX, "{idle} bytes while idle");
    assert!(
        waiting <= WAITING_BYTES_MAX,
        "{waiting} bytes while waiting"
    );
    holding.free();
    for client in first.iter_mut().chain(&mut clients) {
        assert_eq!(client.response().status, 200);
    }
}
