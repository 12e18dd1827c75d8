//! Load balancing.

use super::*;

fn bodies(proxy: &Proxy, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| String::from_utf8(proxy.ask(GET).body).unwrap())
        .collect()
}

fn policy(policy: Value) -> Value {
    json!({ "load_balancing": { "selection_policy": policy } })
}

#[test]
fn requests_take_turns() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let proxy = Proxy::with(&[&a, &b], policy(json!({ "policy": "round_robin" })));
    let got = bodies(&proxy, 10);
    assert_eq!(got.iter().filter(|body| *body == "a").count(), 5);
    assert!(got.windows(2).all(|pair| pair[0] != pair[1]), "{got:?}");
}

#[test]
fn the_first_gets_everything_and_random_spreads() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let proxy = Proxy::with(&[&a, &b], policy(json!({ "policy": "first" })));
    assert!(bodies(&proxy, 5).iter().all(|body| body == "a"));
    let proxy = Proxy::with(&[&a, &b], json!({}));
    let got = bodies(&proxy, 60);
    assert!(got.contains(&"a".into()) && got.contains(&"b".into()));
}

#[test]
fn the_least_busy_gets_the_next() {
    let slow = Fake::new(|mut peer| {
        peer.head();
        peer.head();
    });
    let quick = Fake::called("quick");
    let settings = policy(json!({ "policy": "least_conn" }));
    let proxy = Proxy::with(&[&slow, &quick], settings);
    let mut waiting: Vec<Client> = Vec::new();
    // Once a request waits at the slow upstream, all others go to the other one.
    while slow.accepted() == 0 {
        let mut client = proxy.connect();
        client.send(GET);
        // One after the other: whether the slow one has it is not announced to the client.
        thread::sleep(Duration::from_millis(20));
        waiting.push(client);
    }
    assert_eq!(bodies(&proxy, 10), vec!["quick"; 10]);
    assert_eq!(slow.accepted(), 1);
}

#[test]
fn hashing_policies_keep_to_one_upstream_for_one_key() {
    let (a, b, c) = (Fake::called("a"), Fake::called("b"), Fake::called("c"));
    let header = json!({ "policy": "header", "field": "X-User" });
    let proxy = Proxy::with(&[&a, &b, &c], policy(header));
    let ask = |user: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nX-User: {user}\r\n\r\n");
        String::from_utf8(proxy.ask(&request).body).unwrap()
    };
    let users: Vec<String> = (0..30).map(|user| user.to_string()).collect();
    let first: Vec<String> = users.iter().map(|user| ask(user)).collect();
    let again: Vec<String> = users.iter().map(|user| ask(user)).collect();
    assert_eq!(first, again);
    for name in ["a", "b", "c"] {
        assert!(first.iter().any(|body| body == name), "{name} in {first:?}");
    }
    for by in ["ip_hash", "client_ip_hash", "uri_hash"] {
        let proxy = Proxy::with(&[&a, &b, &c], policy(json!({ "policy": by })));
        let got = bodies(&proxy, 6);
        assert!(got.iter().all(|body| *body == got[0]), "{by} {got:?}");
    }
}

#[test]
fn a_cookie_leads_back_to_the_same_upstream_without_naming_it() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let cookie = json!({ "policy": "cookie", "name": "stick", "secret": "s", "max_age": "1h" });
    let proxy = Proxy::with(&[&a, &b], policy(cookie));
    let first = proxy.ask(GET);
    let cookie = first.field("set-cookie").unwrap();
    assert!(
        cookie.starts_with("stick=") && cookie.ends_with("; Path=/; Max-Age=3600"),
        "{cookie}"
    );
    assert!(!cookie.contains("127.0.0.1"), "{cookie}");
    let value = cookie.split(';').next().unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: a=b; {value}\r\n\r\n");
    for _ in 0..10 {
        let response = proxy.ask(&request);
        assert_eq!(response.body, first.body);
        assert!(response.field("set-cookie").is_none());
    }
}

#[test]
fn a_cookie_names_only_the_upstream_that_responded() {
    let well = Fake::called("well");
    let cookie = json!({ "policy": "cookie", "name": "stick", "secret": "s", "fallback": { "policy": "first" } });
    let dials = [nobody(), nobody(), well.address.to_string()];
    let proxy = Proxy::dialling(&dials, policy(cookie));
    let response = proxy.ask(GET);
    assert_eq!(response.status(), 200);
    assert_eq!(response.fields("set-cookie").len(), 1, "{}", response.head);
}

#[test]
fn failures_take_an_upstream_out_for_a_while() {
    let well = Fake::called("well");
    // It receives the request, but does not respond; no other upstream gets it then.
    let ill = Fake::new(|mut peer| {
        peer.head();
    });
    let settings = json!({
        "load_balancing": { "selection_policy": { "policy": "first" } },
        "health_checks": { "passive": { "fail_duration": "400ms", "max_fails": 2 } },
    });
    let proxy = Proxy::with(&[&ill, &well], settings);
    let statuses: Vec<u16> = (0..5).map(|_| proxy.ask(GET).status()).collect();
    assert_eq!(statuses, [502, 502, 200, 200, 200]);
    eventually("another try", || proxy.ask(GET).status() == 502);
}

#[test]
fn statuses_and_fullness_count_where_they_are_named() {
    let sick = Fake::responding("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let well = Fake::called("well");
    let settings = json!({
        "load_balancing": { "selection_policy": { "policy": "first" } },
        "health_checks": { "passive": { "fail_duration": "1m", "unhealthy_status": [5] } },
    });
    let proxy = Proxy::with(&[&sick, &well], settings);
    assert_eq!(
        [proxy.ask(GET).status(), proxy.ask(GET).status()],
        [503, 200]
    );

    let busy = Fake::new(|mut peer| {
        peer.head();
        peer.head();
    });
    let directive = json!({
        "handler": "reverse_proxy",
        "upstreams": [{ "dial": busy.address.to_string(), "max_requests": 1 }],
    });
    let proxy = Proxy::serving(json!({ "routes": [{ "handle": [directive] }] }));
    let mut waiting = proxy.connect();
    waiting.send(GET);
    eventually("the request", || busy.accepted() == 1);
    assert_eq!(proxy.ask(GET).status(), 503);
    assert_eq!(busy.accepted(), 1);
}

#[test]
fn checks_of_our_own_take_upstreams_out_and_in() {
    let ill = Arc::new(AtomicUsize::new(1));
    let state = ill.clone();
    let fake = Fake::new(move |mut peer| {
        while let Some(head) = peer.head() {
            let body = match (
                head.starts_with("GET /health?a=b "),
                state.load(Ordering::SeqCst),
            ) {
                (true, 1) => "not so well",
                (true, _) => "all is well",
                (false, _) => "an answer..",
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{body}"
            ));
        }
    });
    let settings = json!({ "health_checks": { "active": {
        "uri": "/health?a=b", "interval": "100ms", "expect_body": "^all", "headers": { "X-Check": ["1"] }
    } } });
    let proxy = Proxy::with(&[&fake], settings);
    // Until the check fails it gets requests; the first one starts the checks.
    assert_eq!(proxy.ask(GET).status(), 200);
    eventually("a failed check", || proxy.ask(GET).status() == 503);
    let check = fake
        .seen()
        .into_iter()
        .find(|head| head.contains("/health"))
        .unwrap();
    assert_eq!(lines_named(&check, "x-check"), ["1"]);
    assert_eq!(lines_named(&check, "host"), [fake.address.to_string()]);
    ill.store(0, Ordering::SeqCst);
    eventually("a passed check", || proxy.ask(GET).status() == 200);
    // The checks end with their configuration.
    drop(proxy);
    let before = fake.seen().len();
    // That nothing comes is seen by nothing but the time: three intervals of the checks.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fake.seen().len(), before);
}

#[test]
fn health_checks_follow_redirects_if_configured() {
    let well = Fake::called("well");
    let elsewhere = well.address;
    let moved = Fake::new(move |mut peer| {
        while let Some(head) = peer.head() {
            peer.send(match head.starts_with("GET /health") {
                true => format!(
                    "HTTP/1.1 302 X\r\nLocation: http://{elsewhere}/there\r\nContent-Length: 0\r\n\r\n"
                ),
                false => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nmoved".to_owned(),
            });
        }
    });
    for (follows, status) in [(true, 200), (false, 503)] {
        let settings = json!({ "health_checks": { "active": {
            "uri": "/health", "interval": "100ms", "follow_redirects": follows,
            "expect_status": 200
        } } });
        let proxy = Proxy::with(&[&moved], settings);
        proxy.ask(GET);
        // The second check begins after the result of the first is known.
        let checks = || {
            moved
                .seen()
                .iter()
                .filter(|it| it.contains("/health"))
                .count()
        };
        let before = checks();
        eventually("checks", || checks() >= before + 2);
        assert_eq!(proxy.ask(GET).status(), status, "{follows}");
    }
    assert!(
        well.seen()
            .iter()
            .any(|head| head.starts_with("GET /there"))
    );
}
