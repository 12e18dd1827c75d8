//! Rate limits, connection limits and bandwidth limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{setup, start};
use crate::client::{Client, exchange};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;

fn get(server: &Server, path: &str) -> crate::client::Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    )
}

/// A server whose zones allow one request per second, or one per tenth of a second.
fn limited(lines: &str) -> Server {
    let text = r#"
events {}
http {
limit_req_zone $arg_key zone=slow:1m rate=1r/m;
limit_req_zone $arg_key zone=quick:1m rate=10r/s;
limit_conn_zone $arg_key zone=at_once:1m;
server { listen 127.0.0.1:{port}; root {folder}/www; add_header X-Limits "$limit_req_status $limit_conn_status" always;
"#;
    let setup = setup(&format!("{text}{lines}\n}}\n}}\n"));
    for name in ["none", "burst", "nodelay", "some", "dry", "first", "second"] {
        setup.folder().write(&format!("www/{name}"), "here");
    }
    setup.start()
}

#[test]
fn requests_are_refused_or_held_back_as_in_nginx() {
    let server = limited(
        "limit_req_status 429;
         location /none { limit_req zone=slow; }
         location /burst { limit_req zone=quick burst=2; }
         location /nodelay { limit_req zone=slow burst=2 nodelay; }
         location /some { limit_req zone=quick burst=3 delay=2; }
         location /dry { limit_req zone=slow; limit_req_dry_run on; }",
    );
    let ask = |path: &str| {
        let response = get(&server, path);
        let said = response.field("X-Limits").unwrap_or_default().to_owned();
        (response.status, said)
    };
    let passed = || (200, "PASSED".to_owned());
    let rejected = || (429, "REJECTED".to_owned());
    let delayed = || (200, "DELAYED".to_owned());
    assert_eq!(ask("/none?key=a"), passed());
    assert_eq!(ask("/none?key=a"), rejected());
    assert_eq!(
        ask("/none"),
        (200, String::new()),
        "without a key nothing counts"
    );
    for _ in 0..3 {
        assert_eq!(ask("/nodelay?key=b"), passed());
    }
    assert_eq!(ask("/nodelay?key=b"), rejected());
    assert_eq!(ask("/dry?key=c"), passed());
    assert_eq!(ask("/dry?key=c"), (200, "REJECTED_DRY_RUN".to_owned()));
    // Five at once: one passes, the next is delayed for a tenth of a second, the one after for two; the others exceed
    // the burst.
    let begun = Instant::now();
    let mut clients: Vec<Client> = (0..5)
        .map(|_| {
            let mut client = Client::connect(server.port);
            client.send("GET /burst?key=d HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let mut came: Vec<(u16, String)> = clients
        .iter_mut()
        .map(|client| {
            let response = client.response();
            let said = response.field("X-Limits").unwrap_or_default().to_owned();
            (response.status, said)
        })
        .collect();
    came.sort();
    // Meanwhile a slow machine may allow more.
    let held = came.iter().filter(|one| **one == delayed()).count();
    assert!(
        (2..=4).contains(&held) && came.contains(&passed()),
        "{came:?}"
    );
    assert!(
        begun.elapsed() >= Duration::from_millis(200),
        "{:?}",
        begun.elapsed()
    );
    let said = server.stderr();
    assert!(
        said.contains("limiting requests, excess: ") && said.contains("by zone \\\"slow\\\""),
        "{said}"
    );
}

#[test]
fn the_first_of_a_burst_pass_at_once() {
    let server = limited("location /some { limit_req zone=quick burst=20 delay=2; }");
    let mut clients: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = Client::connect(server.port);
            client.send("GET /some?key=a HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    let said = |client: &mut Client| client.response().field("X-Limits").map(str::to_owned);
    let passed = clients
        .iter_mut()
        .filter_map(said)
        .filter(|said| said == "PASSED")
        .count();
    assert!((3..=5).contains(&passed), "{passed} of 6 passed at once");
}

#[test]
fn places_with_one_zone_count_together() {
    let may_end = Arc::new(AtomicBool::new(false));
    let stop = may_end.clone();
    let slow = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
            let may_end = || stop.load(Ordering::Relaxed);
            eventually("the end of the test", may_end, String::new);
            let _ = wire.try_send("y");
        }
    });
    let server = limited(&format!(
        "location /wait {{ limit_conn at_once 1; proxy_pass http://127.0.0.1:{}; }}
         location /first {{ limit_conn at_once 1; limit_conn_status 429; }}
         location /second {{ limit_conn at_once 2; }}
         location /dry {{ limit_conn at_once 1; limit_conn_dry_run on; limit_conn_log_level info; }}",
        slow.port
    ));
    let status = |path: &str| get(&server, path).status;
    // Another key: a request counts until the server has finished it, which clients do not see.
    assert_eq!(status("/first?key=z"), 200);
    let mut waiting = Client::connect(server.port);
    waiting.send("GET /wait?key=a HTTP/1.1\r\nHost: a\r\n\r\n");
    // Its head has arrived: it counts until its response has ended.
    assert!(waiting.head().expect("a head").contains("200"));
    assert_eq!((status("/first?key=a"), status("/first?key=b")), (429, 200));
    assert_eq!(status("/second?key=a"), 200);
    let dry = get(&server, "/dry?key=a");
    assert_eq!(
        (dry.status, dry.field("X-Limits")),
        (200, Some("REJECTED_DRY_RUN"))
    );
    may_end.store(true, Ordering::Relaxed);
    eventually(
        "the place to be free",
        || status("/first?key=a") == 200,
        || server.stderr(),
    );
}

#[test]
fn limit_rate_limits_how_fast_responses_are_sent() {
    let large = "x".repeat(60_000);
    let origin = Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nX-Accel-Limit-Rate: 40000\r\nContent-Length: 60000\r\n\r\n{large}"
    ));
    let server = start(
        &format!(
            "location /slow {{ limit_rate 40k; }}
             location /after {{ limit_rate 1; limit_rate_after 60k; }}
             location /by {{ limit_rate $arg_rate; }}
             location /set {{ set $limit_rate 40k; }}
             location /free {{ limit_rate 0; }}
             location /up {{ proxy_pass http://127.0.0.1:{}; }}",
            origin.port
        ),
        &[
            ("slow", &large),
            ("after", &large),
            ("by", &large),
            ("set", &large),
            ("free", &large),
        ],
    );
    let time = |path: &str| {
        let begun = Instant::now();
        let response = get(&server, path);
        assert_eq!(response.body.len(), 60_000, "{path}");
        begun.elapsed()
    };
    for path in ["/slow", "/by?rate=40k", "/set", "/up"] {
        let took = time(path);
        // A quarter of a second's worth is sent at once, so it takes a second and a quarter.
        assert!(took >= Duration::from_millis(900), "{path}: {took:?}");
    }
    for path in ["/after", "/by", "/free"] {
        time(path);
    }
    let mut client = Client::connect(server.port);
    client.send("GET /after HTTP/1.1\r\nHost: a\r\nRange: bytes=1-10\r\n\r\n");
    assert_eq!(client.response().body.len(), 10);
}
