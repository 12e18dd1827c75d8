//! Limits of requests in flight that several nodes share (`in_flight { distributed … }`), with a real `redis-server`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::support::redis_server::RedisServer;
use crate::upstream::Upstream;

/// A node whose limit is called `api`.
fn node(redis: &RedisServer, limit: &str, distributed: &str, behind: &Upstream) -> Server {
    let (url, port) = (redis.url(), behind.port);
    Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\tmetrics\n}}\n:{{port}} {{\n\tin_flight {limit}\n\t\tdistributed {{\n\t\t\tname api\n\
         \t\t\tstore {url}\n\t\t\tdeadline 1s\n\t\t\t{distributed}\n\t\t}}\n\t}}\n\treverse_proxy 127.0.0.1:{port}\n}}\n"
    ))
}

/// An upstream whose requests for /hold get no response: their clients end them.
struct Holding {
    upstream: Upstream,
    held: Arc<AtomicUsize>,
}

impl Holding {
    fn start() -> Holding {
        let held = Arc::new(AtomicUsize::new(0));
        let counted = held.clone();
        let upstream = Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                if head[0].contains("/hold") {
                    counted.fetch_add(1, Ordering::SeqCst);
                    while wire.line().is_some() {}
                    return;
                }
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                if wire.try_send(response).is_err() {
                    return;
                }
            }
        });
        Holding { upstream, held }
    }

    /// A request in flight on this node, until the client is dropped.
    fn hold(&self, node: &Server) -> Client {
        let before = self.held.load(Ordering::SeqCst);
        let mut client = Client::connect(node.port);
        client.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
        let is_held = || self.held.load(Ordering::SeqCst) > before;
        eventually("the request", is_held, || node.stderr());
        client
    }
}

#[test]
fn two_nodes_have_no_more_requests_in_flight_than_one_would() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let behind = Holding::start();
    let mut nodes = [0; 2].map(|_| node(&redis, "2 {", "", &behind.upstream));
    let status = |node: &Server| node.ask("/").status;
    let first = behind.hold(&nodes[0]);
    let second = behind.hold(&nodes[1]);
    let refused = nodes[0].ask("/");
    assert_eq!(refused.status, 503, "two are in flight");
    assert!(refused.field("Retry-After").is_some());
    assert_eq!(status(&nodes[1]), 503);
    nodes[1].wait_for_sample("sluice_shared_slots_used{limit=\"api\"} 1");
    drop(first);
    // What one node no longer uses goes to the other.
    eventually("the slot", || status(&nodes[1]) == 200, String::new);
    eventually("the other slot", || status(&nodes[0]) == 200, String::new);
    nodes[0].wait_for_sample("sluice_shared_slots_used{limit=\"api\"} 0");
    let third = behind.hold(&nodes[0]);
    assert_eq!(status(&nodes[1]), 503);
    nodes[0].kill();
    // Its slot comes back with the end of its lease, by the clock of the store.
    let before = redis.micros();
    eventually(
        "the slot of the dead node",
        || status(&nodes[1]) == 200,
        String::new,
    );
    assert!(redis.micros() - before < 15_000_000);
    drop((second, third));
}

#[test]
fn a_request_waits_for_the_slot_of_another_node_and_for_one_of_its_own() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let behind = Holding::start();
    let limit = "1 {\n\t\tqueue 2\n\t\ttimeout 1m";
    let nodes = [0; 2].map(|_| node(&redis, limit, "", &behind.upstream));
    let first = behind.hold(&nodes[0]);
    thread::scope(|scope| {
        let waiting = [&nodes[1], &nodes[0]].map(|node| scope.spawn(move || node.ask("/").status));
        // Both nodes want a slot now.
        let nodes_known = || redis.ask("HLEN sluice:slots:api:", 1) == [":2"];
        eventually("the question", nodes_known, || nodes[1].stderr());
        drop(first);
        for waiting in waiting {
            assert_eq!(waiting.join().expect("it is responded to"), 200);
        }
    });
}

/// Ends the load on drop.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_node_that_is_always_busy_leaves_another_its_share() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (now.clone(), most.clone());
    let behind = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let count = counted.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(count, Ordering::SeqCst);
            // The pace of a slow upstream: so long a request is in flight.
            thread::sleep(Duration::from_millis(20));
            counted.fetch_sub(1, Ordering::SeqCst);
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    let limit = "4 {\n\t\tqueue 50\n\t\ttimeout 1m";
    let nodes = [0; 2].map(|_| node(&redis, limit, "", &behind));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stopping = Stopping(&is_over);
        let is_over = &is_over;
        let load = |node: &'_ Server| {
            let port = node.port;
            for _ in 0..6 {
                scope.spawn(move || {
                    let mut client = Client::connect(port);
                    while !is_over.load(Ordering::SeqCst) {
                        assert_eq!(client.get("/").status, 200, "it waits at most");
                    }
                });
            }
        };
        let held = |node: &Server, count: u64| {
            node.wait_for_sample(&format!(
                "sluice_shared_slots_held{{limit=\"api\"}} {count}"
            ));
        };
        load(&nodes[0]);
        held(&nodes[0], 4);
        load(&nodes[1]);
        held(&nodes[1], 2);
        held(&nodes[0], 2);
    });
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 4, "{most} at a time");
}

#[test]
fn without_the_store_each_node_keeps_the_limit_by_itself_or_refuses() {
    let Some(mut redis) = RedisServer::start(&[]) else {
        return;
    };
    let behind = Holding::start();
    let local = node(&redis, "1 {", "", &behind.upstream);
    let closed = node(&redis, "1 {", "on_error closed", &behind.upstream);
    redis.stop();
    assert_eq!(local.ask("/").status, 200);
    assert_eq!(closed.ask("/").status, 503);
    local.wait_for_words("cannot use the store of shared limits; `on_error` decides");
    local.wait_for_sample("sluice_shared_slots_used{limit=\"api\"} 0");
    let held = behind.hold(&local);
    assert_eq!(local.ask("/").status, 503, "the limit of one node");
    let without = "sluice_shared_slots_without_store_total{limit=\"api\"} 2";
    local.wait_for_sample(without);
    drop(held);
    redis.restart();
    for node in [&local, &closed] {
        let responds = || node.ask("/").status == 200;
        eventually("the store is back", responds, || node.stderr());
    }
}
