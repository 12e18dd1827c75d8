//! Upstream groups: server selection, failed servers, and what locations share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::setup;
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::upstream::{Upstream, dead, respond};

/// A server that responds with its name.
fn named(name: &str) -> Upstream {
    let length = name.len();
    Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}"
    ))
}

/// A server that responds with this status and nothing else.
fn failing(status: u16) -> Upstream {
    Upstream::responding(format!(
        "HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno"
    ))
}

/// A server with these lines in `http`, and these in its `server` block.
fn start(groups: &str, lines: &str) -> Server {
    setup(&format!(
        "events {{ worker_connections 1000; }}\nhttp {{\n{groups}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    ))
    .start()
}

/// The responses to consecutive requests.
fn responses(server: &Server, path: &str, count: usize) -> String {
    let mut client = Client::connect(server.port);
    (0..count).map(|_| client.get(path).text()).collect()
}

#[test]
fn turns_go_by_weight_and_are_those_of_all_locations() {
    let [a, b, c] = ["a", "b", "c"].map(named);
    let group = format!(
        "upstream turns {{ server 127.0.0.1:{} weight=3; server 127.0.0.1:{}; server 127.0.0.1:{} weight=2; }}",
        a.port, b.port, c.port
    );
    let server = start(
        &group,
        "location /x { proxy_pass http://turns; } location /y { proxy_pass http://turns; }",
    );
    let mut client = Client::connect(server.port);
    let mut said = String::new();
    for _ in 0..6 {
        for path in ["/x", "/y"] {
            said.push_str(&client.get(path).text());
        }
    }
    assert_eq!(
        said, "acabcaacabca",
        "as nginx does, and one after the other"
    );
}

#[test]
fn a_key_leads_to_one_server() {
    let [a, b, c] = ["a", "b", "c"].map(named);
    let servers = [&a, &b, &c].map(|one| format!("server 127.0.0.1:{};", one.port));
    let servers = servers.concat();
    for hash in ["hash $arg_k;", "hash $arg_k consistent;"] {
        let group = format!("upstream some {{ {hash} {servers} }}");
        let server = start(
            &group,
            "location /x { proxy_pass http://some; } location /y { proxy_pass http://some; }",
        );
        let mut client = Client::connect(server.port);
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..60 {
            let first = client.get(&format!("/x?k={key}")).text();
            assert_eq!(client.get(&format!("/y?k={key}")).text(), first, "{hash}");
            seen.insert(first);
        }
        assert_eq!(seen.len(), 3, "{hash}: {seen:?}");
    }
}

#[test]
fn a_failed_server_is_passed_over_by_all_locations() {
    let alive = named("alive");
    let group = format!(
        "upstream some {{ server 127.0.0.1:{} max_fails=1 fail_timeout=60s; server 127.0.0.1:{}; }}",
        dead(),
        alive.port
    );
    let lines = "location /x { proxy_pass http://some; } \
                 location /y { proxy_pass http://some; proxy_next_upstream off; }";
    let server = start(&group, lines);
    assert_eq!(
        responses(&server, "/x", 1),
        "alive",
        "the next one was asked"
    );
    assert_eq!(
        responses(&server, "/y", 4),
        "alivealivealivealive",
        "the other location knows that the first one failed"
    );
}

#[test]
fn the_next_server_is_asked_for_what_is_named() {
    let (bad, good) = (failing(503), named("good"));
    let group = format!(
        "upstream some {{ server 127.0.0.1:{} max_fails=0; server 127.0.0.1:{} backup; }}",
        bad.port, good.port
    );
    let lines = "location /none { proxy_pass http://some; } \
                 location /named { proxy_pass http://some; proxy_next_upstream http_503; } \
                 location /twice { proxy_pass http://some; proxy_next_upstream http_503 non_idempotent; } \
                 location /once { proxy_pass http://some; proxy_next_upstream http_503; proxy_next_upstream_tries 1; }";
    let server = start(&group, lines);
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/none").status, 503);
    assert_eq!(client.get("/named").text(), "good");
    assert_eq!(client.get("/once").status, 503);
    for (path, status) in [("/named", 503), ("/twice", 200)] {
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
        ));
        assert_eq!(client.response().status, status, "{path}");
    }
}

#[test]
fn upstream_variables_list_each_server_that_was_tried() {
    let (bad, good) = (failing(503), named("good"));
    let gone = dead();
    let group = format!(
        "log_format tries \"$upstream_addr|$upstream_status|$upstream_response_length|$upstream_connect_time|\
         $upstream_header_time|$upstream_response_time\";\n\
         upstream some {{ server 127.0.0.1:{gone}; server 127.0.0.1:{}; server 127.0.0.1:{}; }}",
        bad.port, good.port
    );
    let lines = format!(
        "access_log {{folder}}/tries.log tries;\n\
         location / {{ proxy_pass http://some; proxy_next_upstream error http_503; add_header X-Tries $upstream_status; }}\n\
         location /bad {{ proxy_pass http://127.0.0.1:{}; proxy_intercept_errors on; error_page 503 = /good; }}\n\
         location /good {{ proxy_pass http://127.0.0.1:{}; }}\n\
         location /none {{ return 204; }}",
        bad.port, good.port
    );
    let server = start(&group, &lines);
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/").field("X-Tries"), Some("502, 503, 200"));
    assert_eq!(client.get("/bad").text(), "good");
    assert_eq!(client.get("/none").status, 204);
    let read = || server.folder.read("tries.log");
    eventually("three lines", || read().lines().count() == 3, read);
    let log = read();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split('|').collect()).collect();
    let (bad, good) = (bad.port, good.port);
    assert_eq!(
        lines[0][..3],
        [
            &format!("127.0.0.1:{gone}, 127.0.0.1:{bad}, 127.0.0.1:{good}")[..],
            "502, 503, 200",
            "0, 0, 4",
        ]
    );
    let is_time = |text: &str| {
        text.split_once('.')
            .is_some_and(|(_, millis)| millis.len() == 3)
    };
    for (index, first) in [(3, "-"), (4, "-")] {
        let times: Vec<&str> = lines[0][index].split(", ").collect();
        assert_eq!(times[0], first, "{log}");
        assert!(is_time(times[1]) && is_time(times[2]), "{log}");
    }
    assert!(lines[0][5].split(", ").all(is_time), "{log}");
    assert_eq!(
        lines[1][..2],
        [
            &format!("127.0.0.1:{bad} : 127.0.0.1:{good}")[..],
            "503 : 200"
        ]
    );
    assert_eq!(lines[2], ["-", "-", "-", "-", "-", "-"]);
}

#[test]
fn no_upstream_left_is_a_bad_gateway() {
    let group = format!(
        "upstream some {{ server 127.0.0.1:{}; server 127.0.0.1:{}; server 127.0.0.1:{} down; }}",
        dead(),
        dead(),
        dead()
    );
    let server = start(&group, "location / { proxy_pass http://some; }");
    let mut client = Client::connect(server.port);
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 502);
    }
}

#[test]
fn a_full_server_gets_no_more() {
    let held = Arc::new(AtomicBool::new(true));
    let is_held = held.clone();
    let slow = Upstream::start(move |mut wire| {
        let Some(_) = wire.head() else { return };
        while is_held.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow")
            .ok();
    });
    let other = named("other");
    let group = format!(
        "upstream some {{ server 127.0.0.1:{} max_conns=1; server 127.0.0.1:{} backup; }}",
        slow.port, other.port
    );
    let server = start(
        &group,
        "location /x { proxy_pass http://some; } location /y { proxy_pass http://some; }",
    );
    let mut waiting = Client::connect(server.port);
    waiting.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let waits = || slow.connections() == 1;
    eventually("the first server is busy", waits, String::new);
    assert_eq!(responses(&server, "/y", 3), "otherotherother");
    held.store(false, Ordering::Relaxed);
    assert_eq!(waiting.response().text(), "slow");
}

#[test]
fn clients_keep_their_server_by_network() {
    let [a, b, c] = ["a", "b", "c"].map(named);
    let group = format!(
        "set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP; \
         upstream some {{ ip_hash; server 127.0.0.1:{}; server 127.0.0.1:{}; server 127.0.0.1:{}; }}",
        a.port, b.port, c.port
    );
    let server = start(&group, "location / { proxy_pass http://some; }");
    let mut client = Client::connect(server.port);
    let mut from = |ip: &str| {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Real-IP: {ip}\r\n\r\n"
        ));
        client.response().text()
    };
    let mut seen = std::collections::BTreeSet::new();
    for net in 0..30 {
        let first = from(&format!("10.{net}.7.1"));
        assert_eq!(from(&format!("10.{net}.7.200")), first, "one network");
        seen.insert(first);
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn connections_are_kept_for_so_many_requests() {
    let one = Upstream::start(|mut wire| {
        while respond(&mut wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").is_some() {}
    });
    let group = format!(
        "upstream some {{ server 127.0.0.1:{}; keepalive 4; keepalive_requests 3; }}",
        one.port
    );
    let lines = "location /x { proxy_pass http://some; } location /y { proxy_pass http://some; }";
    let conf = format!(
        "worker_processes 1;\nevents {{ worker_connections 100; }}\nhttp {{\n{group}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    );
    let server = setup(&conf).start();
    let mut client = Client::connect(server.port);
    for round in 0..6 {
        let path = ["/x", "/y"][round % 2];
        assert_eq!(client.get(path).text(), "hi");
    }
    // A response may arrive before its connection is returned to the pool, so there may be more.
    let made = one.connections();
    assert!(
        (2..=6).contains(&made),
        "no connection carries more than three: {made}"
    );
}

#[test]
fn clients_stay_with_the_server_that_a_cookie_names() {
    let [a, b, c] = ["a", "b", "c"].map(named);
    let group = format!(
        "upstream some {{ sticky cookie srv expires=1h path=/ httponly; server 127.0.0.1:{}; server 127.0.0.1:{} route=two; \
         server 127.0.0.1:{}; }}",
        a.port, b.port, c.port
    );
    let server = start(&group, "location / { proxy_pass http://some; }");
    let ask = |cookie: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nCookie: x=y; srv={cookie}\r\n\r\n"
        );
        let response = crate::client::exchange(server.port, request);
        (
            response.text(),
            response.field("Set-Cookie").map(str::to_owned),
        )
    };
    // A client without a cookie gets one for the next server, and stays with it.
    let mut names = std::collections::BTreeMap::new();
    for _ in 0..3 {
        let (said, cookie) = ask("");
        let cookie = cookie.expect("it is told who answered");
        let value = cookie.split(['=', ';']).nth(1).expect("a value").to_owned();
        assert!(
            cookie.contains("; Max-Age=3600; Path=/; HttpOnly"),
            "{cookie}"
        );
        names.insert(said, value);
    }
    assert_eq!(names.len(), 3, "unbound clients take turns: {names:?}");
    assert_eq!(names["b"], "two");
    assert_eq!(names["a"].len(), 32, "{names:?}");
    for _ in 0..5 {
        for (said, name) in &names {
            assert_eq!(ask(name), (said.clone(), None));
        }
    }
    // An unknown value is ignored.
    assert!(ask("nobody").1.is_some());
}

#[test]
fn clients_of_a_removed_server_get_another_one() {
    let [a, b] = ["a", "b"].map(named);
    let group = format!(
        "upstream some {{ sticky route $cookie_route $arg_route; server 127.0.0.1:{} route=gone; server 127.0.0.1:{} route=a; \
         server 127.0.0.1:{} route=b; server 127.0.0.1:{} route=down down; }}",
        dead(),
        a.port,
        b.port,
        a.port
    );
    let server = start(&group, "location / { proxy_pass http://some; }");
    for name in ["a", "b"] {
        assert_eq!(
            responses(&server, &format!("/?route={name}"), 5),
            name.repeat(5)
        );
    }
    for name in ["gone", "down", "nobody", ""] {
        let said = responses(&server, &format!("/?route={name}"), 4);
        assert!(
            said.contains('a') && said.contains('b') && said.len() == 4,
            "{name}: {said}"
        );
    }
    // The first non-empty variable counts.
    let request =
        "GET /?route=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: route=b\r\n\r\n";
    let response = crate::client::exchange(server.port, request);
    assert_eq!(response.text(), "b");
    assert_eq!(
        response.field("Set-Cookie"),
        None,
        "the application names its servers"
    );
}

#[test]
fn one_failure_beside_a_dead_server_costs_one_response() {
    // It closes the first connection once it has read the request, and responds ever after.
    let has_failed = AtomicBool::new(false);
    let live = Upstream::start(move |mut wire| {
        if !has_failed.swap(true, Ordering::SeqCst) {
            wire.head();
            return;
        }
        while respond(&mut wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_some() {}
    });
    let group = format!(
        "upstream two {{ server 127.0.0.1:{} fail_timeout=1h; server 127.0.0.1:{} fail_timeout=1h; }}",
        live.port,
        dead()
    );
    let server = start(&group, "location / { proxy_pass http://two; }");
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/").status, 502, "both have failed");
    eventually(
        "the server that is up again",
        || Client::connect(server.port).get("/").status == 200,
        || server.stderr(),
    );
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 200);
    }
}

/// With `queue`, requests beyond `max_conns` wait for the end of others; without room in the queue they get 502.
#[test]
fn requests_wait_for_a_server_in_a_bounded_queue() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |mut wire| {
        while let Some(_head) = wire.head() {
            let released = wait.lock().map(|wait| wait.recv());
            if !matches!(released, Ok(Ok(()))) {
                return;
            }
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if wire.try_send(response).is_err() {
                return;
            }
        }
    });
    let server = super::setup(&format!(
        "events {{}}\nhttp {{\nupstream app {{ zone app 64k; server 127.0.0.1:{} max_conns=1; queue 1 timeout=1h; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }} }}\n}}\n",
        upstream.port
    ))
    .env("SLUICE_WORKERS", "1")
    .start();
    let port = server.port;
    let ask = move || std::thread::spawn(move || Client::connect(port).get("/").status);
    let first = ask();
    let is_asked = || upstream.connections() == 1;
    eventually("the first request is at the upstream", is_asked, || {
        server.stderr()
    });
    let second = ask();
    // One of these two waits, and the other finds the queue full.
    let third = ask();
    let refused = eventually_finished([&second, &third]);
    go.send(()).expect("the upstream waits");
    go.send(()).expect("the upstream waits");
    assert_eq!(first.join().expect("a response"), 200);
    let statuses = [second, third].map(|request| request.join().expect("a response"));
    let mut sorted = statuses;
    sorted.sort_unstable();
    assert_eq!(sorted, [200, 502]);
    assert_eq!(statuses[refused], 502);
}

/// The number of the request that has ended.
fn eventually_finished(requests: [&std::thread::JoinHandle<u16>; 2]) -> usize {
    let ended = || requests.iter().position(|request| request.is_finished());
    eventually("a refused request", || ended().is_some(), String::new);
    ended().expect("it has ended")
}

#[test]
fn a_draining_server_gets_only_clients_that_stay_with_it() {
    let (leaving, staying) = (named("leaving"), named("staying"));
    let server = super::setup(&format!(
        "events {{}}\nhttp {{\nupstream app {{ server 127.0.0.1:{} route=a drain; server 127.0.0.1:{} route=b slow_start=30s; sticky route $arg_route; }}\n\
         server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://app; }} }}\n}}\n",
        leaving.port, staying.port
    ))
    .start();
    let ask = |path: &str| Client::connect(server.port).get(path).text();
    for _ in 0..6 {
        assert_eq!(ask("/"), "staying");
    }
    assert_eq!(ask("/?route=a"), "leaving");
    assert_eq!(ask("/?route=b"), "staying");
}
