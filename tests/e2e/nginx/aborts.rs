//! Clients that disconnect before their responses end: upstream requests are aborted at once, as in nginx.

use std::cell::Cell;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::setup;
use crate::client::Client;
use crate::harness::{Server, Setup, eventually};
use crate::support;

/// The upstream's observations.
#[derive(Default)]
struct Seen {
    asked: AtomicUsize,
    /// Aborted requests, by the first letter of their target.
    left_off: AtomicUsize,
    left_on: AtomicUsize,
    is_free: Mutex<bool>,
    freed: Condvar,
}

impl Seen {
    fn free(&self) {
        *self.is_free.lock().expect("nobody panics with it") = true;
        self.freed.notify_all();
    }
}

/// An upstream that starts a response to `/stall` and stops there, and does not respond to other requests; to `/on`
/// only when permitted.
fn upstream() -> (u16, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let shared = seen.clone();
    let port = support::listen(move |mut wire| {
        let Some(head) = wire.head() else { return };
        let target = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
        if target == "/stall" {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun");
        }
        shared.asked.fetch_add(1, Ordering::AcqRel);
        if target == "/on" {
            let mut is_free = shared.is_free.lock().expect("nobody panics with it");
            while !*is_free {
                is_free = shared.freed.wait(is_free).expect("nobody panics with it");
            }
            let sent = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let is_open = sent.is_ok();
            shared
                .left_on
                .fetch_add(usize::from(is_open), Ordering::AcqRel);
            return;
        }
        let gone = wire.reader.read(&mut [0]);
        if !matches!(gone, Ok(1..)) {
            shared.left_off.fetch_add(1, Ordering::AcqRel);
        }
    });
    (port, seen)
}

fn leave_while_it_stalls(server: &Server, seen: &Seen, count: usize) {
    // The connection slot of the previous client may be free a moment after its upstream notices.
    let begun = Cell::new(None);
    let begin = || {
        let mut client = Client::connect(server.port);
        client.send("GET /stall HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head().expect("the answer begins");
        let is_begun = head.starts_with("HTTP/1.1 200");
        begun.set(is_begun.then_some(client));
        is_begun
    };
    eventually("a place", begin, || "none is free".to_owned());
    drop(begun.take());
    let left = || seen.left_off.load(Ordering::Acquire);
    eventually(
        "the end upstream",
        || left() == count,
        || left().to_string(),
    );
}

#[test]
fn a_disconnected_client_closes_a_stalled_upstream_response_at_once() {
    let (port, seen) = upstream();
    let conf = "
events { worker_connections 100; }
http {
limit_conn_zone $server_port zone=one:1m;
server { listen 127.0.0.1:{port}; limit_conn one 1; proxy_read_timeout 1h; location / { proxy_pass http://127.0.0.1:UP; } }
}
";
    let server = setup(&conf.replace("UP", &port.to_string())).start();
    // The slot of each is free for the next.
    for count in 1..=3 {
        leave_while_it_stalls(&server, &seen, count);
    }
}

#[test]
fn the_same_holds_for_a_caddyfile() {
    let (port, seen) = upstream();
    let text = format!("http://localhost:{{port}}\nreverse_proxy 127.0.0.1:{port}\n");
    let server = Setup::new(&text.replace("localhost", "")).start();
    for count in 1..=3 {
        leave_while_it_stalls(&server, &seen, count);
    }
}

/// With `proxy_ignore_client_abort` the upstream request continues until its response begins.
#[test]
fn ignore_client_abort_lets_the_upstream_finish() {
    let (port, seen) = upstream();
    let conf = "
events { worker_connections 100; }
http {
log_format short '$request_uri $status';
server {
listen 127.0.0.1:{port};
access_log {folder}/access.log short;
proxy_read_timeout 1h;
location /on { proxy_ignore_client_abort on; proxy_pass http://127.0.0.1:UP; }
location /off { proxy_pass http://127.0.0.1:UP; }
}
}
";
    let setup = setup(&conf.replace("UP", &port.to_string())).env("SLUICE_WORKERS", "1");
    let server = setup.start();
    let asked = || seen.asked.load(Ordering::Acquire);
    // One after the other: the first client that disconnects was noticed first.
    for (count, target) in [(1, "/on"), (2, "/off")] {
        let mut client = Client::connect(server.port);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        eventually("the request", || asked() == count, || asked().to_string());
    }
    let left = || seen.left_off.load(Ordering::Acquire);
    eventually("the end of one", || left() == 1, || left().to_string());
    seen.free();
    let log = || server.folder.read("access.log");
    eventually("its line", || log().contains("/on 200"), log);
    assert_eq!(seen.left_on.load(Ordering::Acquire), 1);
}
