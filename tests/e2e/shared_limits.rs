//! Rate limits that several nodes share, with a real `redis-server`. Counts are compared with the store's clock, so that the
//! speed of the machine does not matter.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::harness::{Server, Setup, eventually, free_port};
use crate::support::redis_server::RedisServer;
use crate::upstream::Upstream;

/// A node of a limit of `events` in `window` for all requests together.
fn node((events, window): (u32, &str), distributed: &str) -> Server {
    Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\tmetrics\n}}\n:{{port}} {{\n\trate_limit {{\n\t\tzone all {{\n\t\t\tevents {events}\n\
         \t\t\twindow {window}\n\t\t}}\n\t\tdistributed {{\n\t\t\t{distributed}\n\t\t}}\n\t}}\n\trespond ok\n}}\n"
    ))
}

/// Sends requests to each node on a connection of its own as long as `goes_on` says so after each status.
fn load(nodes: &[Server], goes_on: impl Fn(usize, u16) -> bool + Sync) {
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            let goes_on = &goes_on;
            scope.spawn(move || {
                let mut client = Client::connect(node.port);
                while goes_on(number, client.get("/").status) {}
            });
        }
    });
}

/// Sends as many requests to each node, and returns how many were allowed in all.
fn offered(nodes: &[Server], each: usize) -> usize {
    let allowed = AtomicUsize::new(0);
    let sent: Vec<AtomicUsize> = nodes.iter().map(|_| AtomicUsize::new(0)).collect();
    load(nodes, |number, status| {
        assert!(matches!(status, 200 | 429), "{status}");
        allowed.fetch_add(usize::from(status == 200), Ordering::Relaxed);
        sent[number].fetch_add(1, Ordering::Relaxed) + 1 < each
    });
    allowed.into_inner()
}

fn settings(redis: &RedisServer, mode: &str) -> String {
    // Long: on a busy machine no call is to be late, because late ones are decided by `on_error`.
    format!(
        "store {}\n\t\t\tmode {mode}\n\t\t\tdeadline 1s",
        redis.url()
    )
}

/// The sum of a metric's samples over the nodes.
fn sum(nodes: &[Server], sample: &str) -> u64 {
    let of = |node: &Server| {
        let page = node.metrics();
        let values = page.lines().filter_map(|line| line.strip_prefix(sample));
        let values = values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum::<u64>()
    };
    nodes.iter().map(of).sum()
}

#[test]
fn three_nodes_with_exact_counts_allow_what_one_would() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let distributed = settings(&redis, "exact");
    let nodes = [0; 3].map(|_| node((600, "1h"), &distributed));
    assert_eq!(offered(&nodes, 600), 600, "at three times the limit");
    let calls = sum(&nodes, "sluice_limit_store_calls_total{");
    // Each node asks once more, and then knows that the limit is reached.
    let workers = 6;
    assert!((600..=600 + workers).contains(&calls), "{calls} calls");
    assert_eq!(sum(&nodes, "caddy_rate_limit_requests_total{"), 1_800);
    assert_eq!(
        sum(&nodes, "caddy_rate_limit_declined_requests_total{"),
        1_200
    );
}

#[test]
fn three_nodes_with_leases_allow_nearly_what_one_would_and_ask_seldom() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let distributed = settings(&redis, "leased");
    let nodes = [0; 3].map(|_| node((2_000, "1h"), &distributed));
    let allowed = offered(&nodes, 2_000);
    assert!((1_900..=2_000).contains(&allowed), "{allowed} of 2000");
    let calls = sum(&nodes, "sluice_limit_store_calls_total{");
    assert!(calls < 1_000, "{calls} calls for {allowed} requests");
    println!("leased: {allowed} of 2000 allowed with {calls} calls");
}

/// Loads three nodes until four windows are full, and compares the time that took by the store's clock.
fn pace(mode: &str, tolerance: f64) {
    const EVENTS: u32 = 300;
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let distributed = settings(&redis, mode);
    let nodes = [0; 3].map(|_| node((EVENTS, "1s"), &distributed));
    let allowed = AtomicUsize::new(0);
    let began = redis.micros();
    load(&nodes, |_, status| {
        let all = allowed.fetch_add(usize::from(status == 200), Ordering::Relaxed);
        all < 4 * EVENTS as usize
    });
    let took = (redis.micros() - began) as f64 / 1e6;
    println!(
        "{mode}: {} events in {took} s",
        allowed.load(Ordering::Relaxed)
    );
    // The first window is filled at once. A fast machine needs three more seconds, a slow one longer.
    assert!(took >= 3.0 * (1.0 - tolerance), "{took} s for four windows");
    assert_eq!(sum(&nodes, "sluice_rate_limit_without_store_total{"), 0);
}

#[test]
fn exact_counts_keep_the_pace_by_the_clock_of_the_store() {
    pace("exact", 0.01);
}

#[test]
fn leases_keep_the_pace_by_the_clock_of_the_store() {
    pace("leased", 0.05);
}

/// Ends the load on drop.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_store_that_dies_in_the_run_fails_no_request_and_is_used_again() {
    let Some(mut redis) = RedisServer::start(&[]) else {
        return;
    };
    let distributed = format!("store {}", redis.url());
    let nodes = [0; 2].map(|_| node((50, "1h"), &distributed));
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let more = |count: usize| {
        let goal = sent.load(Ordering::Relaxed) + count;
        eventually(
            "requests",
            || sent.load(Ordering::Relaxed) >= goal,
            String::new,
        );
    };
    thread::scope(|scope| {
        // Also if the test fails.
        let stopping = Stopping(&stop);
        let loading = scope.spawn(|| {
            load(&nodes, |_, status| {
                assert!(matches!(status, 200 | 429), "{status}");
                sent.fetch_add(1, Ordering::Relaxed);
                !stop.load(Ordering::Relaxed)
            });
        });
        more(500);
        redis.stop();
        nodes
            .iter()
            .for_each(|node| node.wait_for_words("cannot use the store"));
        more(500);
        redis.restart();
        more(500);
        drop(stopping);
        loading.join().expect("no request fails");
    });
    for node in &nodes {
        // Each worker that has had a connection notices.
        node.wait_for_words("the store of shared limits is back");
        let begins = node.stderr().matches("cannot use the store").count();
        let ends = node
            .stderr()
            .matches("store of shared limits is back")
            .count();
        assert_eq!((begins, ends), (1, 1), "{}", node.stderr());
    }
}

#[test]
fn without_the_store_on_error_decides() {
    let dead = free_port();
    for (on_error, statuses) in [
        ("open", &[200, 200, 200][..]),
        ("closed", &[429, 429, 429]),
        ("local", &[200, 200, 429]),
    ] {
        let distributed = format!("store redis://127.0.0.1:{dead}\n\t\t\ton_error {on_error}");
        let node = node((2, "1h"), &distributed);
        let mut client = Client::connect(node.port);
        let responses: Vec<_> = statuses.iter().map(|_| client.get("/")).collect();
        let found: Vec<u16> = responses.iter().map(|response| response.status).collect();
        assert_eq!(found, statuses, "{on_error}");
        if let Some(refused) = responses.iter().find(|response| response.status == 429) {
            assert!(refused.field("Retry-After").is_some(), "{on_error}");
        }
        node.wait_for_words("cannot use the store of shared limits");
        assert!(
            node.metrics().contains("sluice_limit_store_up{"),
            "{on_error}"
        );
    }
}

#[test]
fn a_store_that_does_not_reply_delays_few_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                use std::io::Write;
                // The greeting gets its reply, and commands get none.
                let _ = stream.read(&mut [0; 64]);
                let _ = stream.write_all(b"+PONG\r\n");
                while stream.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
            });
        }
    });
    let node = node((1_000, "1h"), &format!("store redis://127.0.0.1:{port}"));
    let mut client = Client::connect(node.port);
    let mut slowest = Duration::ZERO;
    for _ in 0..200 {
        let began = Instant::now();
        assert_eq!(client.get("/").status, 200);
        slowest = slowest.max(began.elapsed());
    }
    println!("the slowest of 200 requests took {slowest:?}");
    let of = |outcome: &str| {
        let nodes = std::slice::from_ref(&node);
        let store = format!("redis://127.0.0.1:{port}/0");
        sum(
            nodes,
            &format!("sluice_limit_store_calls_total{{store=\"{store}\",outcome=\"{outcome}\"}}"),
        )
    };
    let (late, spared) = (of("timeout"), of("unavailable"));
    assert!(
        late >= 1 && spared > late,
        "{late} waited, {spared} did not"
    );
    assert_eq!(
        sum(
            std::slice::from_ref(&node),
            "sluice_rate_limit_without_store_total{"
        ),
        200
    );
}

#[test]
fn a_wrong_password_is_reported_once_and_its_correction_is_noticed() {
    let Some(redis) = RedisServer::start(&[
        "--user",
        "admin",
        "on",
        "nopass",
        "~*",
        "&*",
        "+@all",
        "--requirepass",
        "right",
    ]) else {
        return;
    };
    let distributed =
        "store redis://:{env.STORE_PASSWORD}@127.0.0.1:{store}/1\n\t\t\ton_error open";
    let text = format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\trate_limit {{\n\t\tzone all {{\n\t\t\tevents 1\n\t\t\twindow 1h\n\t\t}}\n\
         \t\tdistributed {{\n\t\t\t{}\n\t\t}}\n\t}}\n\trespond ok\n}}\n",
        distributed.replace("{store}", &redis.port.to_string())
    );
    let node = Setup::new(&text).env("STORE_PASSWORD", "left").start();
    let mut client = Client::connect(node.port);
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 200, "the store has not counted");
    }
    node.wait_for_words("WRONGPASS");
    assert_eq!(node.stderr().matches("WRONGPASS").count(), 1);
    assert!(!node.stderr().contains("left"), "{}", node.stderr());
    let changed = redis.ask("AUTH admin any\r\nCONFIG SET requirepass left", 2);
    assert_eq!(changed, ["+OK", "+OK"]);
    node.wait_for_words("the store of shared limits is back");
    let statuses: HashSet<u16> = (0..8).map(|_| client.get("/").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn scripts_that_the_store_forgets_are_sent_again() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let nodes = [node((40, "1h"), &settings(&redis, "exact"))];
    assert_eq!(offered(&nodes, 20), 20);
    assert_eq!(redis.ask("SCRIPT FLUSH", 1), ["+OK"]);
    assert_eq!(offered(&nodes, 30), 20, "nothing is lost or counted twice");
    assert_eq!(sum(&nodes, "sluice_rate_limit_without_store_total{"), 0);
    assert!(!nodes[0].stderr().contains("store of shared limits"));
}

#[test]
fn a_foreign_value_under_a_key_is_reported_and_stays() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let key = "sluice:limit:all:2/3600000000/1:";
    assert_eq!(redis.ask(&format!("SET {key} foreign"), 1), ["+OK"]);
    let nodes = [node((2, "1h"), &settings(&redis, "exact"))];
    assert_eq!(offered(&nodes, 5), 2, "the node counts for itself");
    nodes[0].wait_for_words("the store of shared limits refused a command");
    assert!(nodes[0].stderr().contains("WRONGTYPE"));
    assert_eq!(redis.ask(&format!("GET {key}"), 2), ["$7", "foreign"]);
}

#[test]
fn two_nodes_share_a_zone_of_an_nginx_conf() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let nodes = [0; 2].map(|_| {
        crate::nginx::setup(&format!(
            "events {{}}\nhttp {{\nlimit_req_zone $arg_user zone=one:1m rate=1r/m sync={} sync_deadline=1s;\n\
             limit_req_zone $server_name zone=all:1m rate=2r/m sync={} sync_deadline=1s;\nserver {{\nlisten 127.0.0.1:{{port}};\n\
             server_name a;\nlocation / {{\nlimit_req zone=one burst=9 nodelay;\nempty_gif;\n}}\n\
             location /both {{\nlimit_req zone=one burst=9 nodelay;\nlimit_req zone=all;\nempty_gif;\n}}\n}}\n}}\n",
            redis.url(), redis.url()
        ))
        .start()
    });
    let mut clients = nodes.each_ref().map(|node| Client::connect(node.port));
    let mut statuses = |path: &str, each: usize| {
        let mut found = Vec::new();
        for _ in 0..each {
            found.extend(clients.iter_mut().map(|client| client.get(path).status));
        }
        found
    };
    let found = statuses("/?user=a", 10);
    assert_eq!(
        found.iter().filter(|status| **status == 200).count(),
        10,
        "{found:?}"
    );
    assert_eq!(found[..10], [200; 10], "in the order of their arrival");
    // The second zone refuses the second request; what the first has counted of it is given back.
    let calls = || sum(&nodes, "sluice_limit_store_calls_total{");
    let before = calls();
    assert_eq!(statuses("/both?user=b", 1), [200, 503]);
    eventually("the fifth call", || calls() == before + 5, String::new);
    let found = statuses("/?user=b", 5);
    let passed = found.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 9, "{found:?}");
    assert_eq!(
        statuses("/?user=", 2),
        [200; 4],
        "an empty key is not counted"
    );
}

#[test]
fn two_nodes_share_the_slots_of_a_connection_limit() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    // A request for /hold gets no response; its client ends it.
    let held = Arc::new(AtomicUsize::new(0));
    let counted = held.clone();
    let behind = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if head[0].contains("/hold") {
                counted.fetch_add(1, Ordering::Relaxed);
                while wire.line().is_some() {}
                return;
            }
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    let mut nodes = [0; 2].map(|_| {
        crate::nginx::setup(&format!(
            "events {{ worker_connections 100; }}\nhttp {{\nlimit_conn_zone $arg_user zone=c:1m sync={} sync_deadline=1s;\n\
             server {{\nlisten 127.0.0.1:{{port}};\nlocation / {{\nlimit_conn c 2;\nproxy_pass http://127.0.0.1:{};\n}}\n}}\n}}\n",
            redis.url(),
            behind.port
        ))
        .start()
    });
    // A slot that a node has given back may go to the other one, which has asked for it before, and come back.
    let hold = |node: &Server| {
        let before = held.load(Ordering::Relaxed);
        let client = RefCell::new(None::<Client>);
        let is_held = || {
            if client.borrow().as_ref().is_none_or(Client::has_heard) {
                let mut next = Client::connect(node.port);
                next.send("GET /hold?user=a HTTP/1.1\r\nHost: a\r\n\r\n");
                client.replace(Some(next));
            }
            held.load(Ordering::Relaxed) > before
        };
        eventually("a request that is held", is_held, String::new);
        client.take().unwrap()
    };
    let status = |node: &Server| node.ask("/?user=a").status;
    let first = hold(&nodes[0]);
    let second = hold(&nodes[1]);
    assert_eq!(
        (status(&nodes[0]), status(&nodes[1])),
        (503, 503),
        "two are in flight"
    );
    assert_eq!(nodes[0].ask("/?user=b").status, 200, "another key");
    drop(first);
    // What one node no longer uses goes to the other.
    eventually("the slot", || status(&nodes[1]) == 200, String::new);
    eventually("the other slot", || status(&nodes[0]) == 200, String::new);
    let third = hold(&nodes[0]);
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
