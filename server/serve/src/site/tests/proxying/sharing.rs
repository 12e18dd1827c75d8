//! Load balancing across workers: evenly, carefully for recovering upstreams, and without using backups.

use super::*;

/// A proxy with several workers for `fakes`, each with settings of its own.
fn shared(workers: usize, fakes: &[(&Fake, Value)], balancing: Value, more: Value) -> Proxy {
    let upstream = |(fake, settings): &(&Fake, Value)| {
        let mut upstream = settings.clone();
        upstream["dial"] = json!(fake.address.to_string());
        upstream
    };
    let mut directive = more;
    directive["handler"] = json!("reverse_proxy");
    directive["upstreams"] = fakes.iter().map(upstream).collect();
    directive["load_balancing"] = balancing;
    Proxy::on_workers(workers, json!({ "routes": [{ "handle": [directive] }] }))
}

fn policy(name: &str) -> Value {
    json!({ "selection_policy": { "policy": name } })
}

/// An upstream that never responds.
fn holding() -> Fake {
    Fake::new(|mut peer| {
        peer.head();
        peer.head();
    })
}

#[test]
fn the_least_busy_of_all_workers_gets_the_next() {
    let fakes: Vec<Fake> = (0..4).map(|_| holding()).collect();
    let list: Vec<_> = fakes.iter().map(|fake| (fake, json!({}))).collect();
    let proxy = shared(2, &list, policy("least_conn"), json!({}));
    let mut clients = Vec::new();
    for n in 1..=20 {
        // The kernel assigns connections to workers at random.
        let mut client = proxy.connect();
        client.send(GET);
        clients.push(client);
        let seen = || fakes.iter().map(|fake| fake.seen().len()).sum::<usize>();
        eventually("the request arrives", || seen() == n);
    }
    let shares: Vec<usize> = fakes.iter().map(|fake| fake.seen().len()).collect();
    assert_eq!(
        shares, [5; 4],
        "a worker that saw only its own requests would not be even"
    );
}

/// At low load almost all upstreams are idle when a request arrives. A worker that knew only its own requests would
/// often choose an upstream that is busy with another worker's request; with shared counters this does not happen, and
/// the choice among idle ones is uniform.
#[test]
fn at_low_load_no_request_goes_to_a_busy_upstream() {
    const CLIENTS: usize = 3;
    const ROUNDS: usize = 200;
    let busy: Vec<Arc<AtomicUsize>> = (0..4).map(|_| Arc::default()).collect();
    let met = Arc::new(AtomicUsize::new(0));
    let fakes: Vec<Fake> = busy
        .iter()
        .map(|busy| {
            let (busy, met) = (busy.clone(), met.clone());
            Fake::new(move |mut peer| {
                while peer.head().is_some() {
                    if busy.fetch_add(1, Ordering::SeqCst) > 0 {
                        met.fetch_add(1, Ordering::SeqCst);
                    }
                    // The work of the upstream, in which others may meet this request.
                    thread::sleep(Duration::from_millis(2));
                    // Before the response, which may trigger the next request.
                    busy.fetch_sub(1, Ordering::SeqCst);
                    peer.send(HI);
                }
            })
        })
        .collect();
    let list: Vec<_> = fakes.iter().map(|fake| (fake, json!({}))).collect();
    let proxy = shared(4, &list, policy("least_conn"), json!({}));
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            // A connection per request, and thereby a random worker.
            scope.spawn(|| (0..ROUNDS).for_each(|_| assert_eq!(proxy.ask(GET).status(), 200)));
        }
    });
    let shares: Vec<usize> = fakes.iter().map(|fake| fake.seen().len()).collect();
    let met = met.load(Ordering::SeqCst);
    println!("least_conn, 4 workers, 3 clients, 4 upstreams: shares {shares:?}, {met} met another");
    let fair = CLIENTS * ROUNDS / shares.len();
    assert!(
        shares.iter().all(|share| share.abs_diff(fair) < fair / 3),
        "{shares:?}"
    );
    // Two workers may choose at the same moment.
    assert!(met * 50 <= CLIENTS * ROUNDS, "{met} requests met another");
}

#[test]
fn turns_go_round_over_all_workers() {
    let fakes: Vec<Fake> = (0..3).map(|_| Fake::responding(HI)).collect();
    let list: Vec<_> = fakes.iter().map(|fake| (fake, json!({}))).collect();
    let proxy = shared(2, &list, policy("round_robin"), json!({}));
    for _ in 0..30 {
        assert_eq!(proxy.ask(GET).status(), 200);
    }
    assert!(fakes.iter().all(|fake| fake.seen().len() == 10));
}

#[test]
fn limits_on_requests_hold_over_all_workers() {
    let fakes: Vec<Fake> = (0..2).map(|_| holding()).collect();
    for (upstream, more) in [
        (json!({ "max_requests": 2 }), json!({})),
        (
            json!({}),
            json!({ "health_checks": { "passive": { "unhealthy_request_count": 2 } } }),
        ),
    ] {
        let list: Vec<_> = fakes.iter().map(|fake| (fake, upstream.clone())).collect();
        let before: usize = fakes.iter().map(|fake| fake.seen().len()).sum();
        let proxy = shared(2, &list, policy("random"), more);
        let mut clients = Vec::new();
        for n in 1..=4 {
            let mut client = proxy.connect();
            client.send(GET);
            clients.push(client);
            let seen = || fakes.iter().map(|fake| fake.seen().len()).sum::<usize>();
            eventually("the request arrives", || seen() == before + n);
        }
        for _ in 0..6 {
            assert_eq!(proxy.ask(GET).status(), 503);
        }
    }
}

#[test]
fn one_that_stands_by_gets_what_no_other_takes() {
    let (usual, backup) = (holding(), Fake::called("backup"));
    let list = [
        (&usual, json!({ "max_requests": 1 })),
        (&backup, json!({ "backup": true })),
    ];
    let proxy = shared(2, &list, policy("round_robin"), json!({}));
    let mut waiting = proxy.connect();
    waiting.send(GET);
    eventually("the request arrives", || usual.seen().len() == 1);
    assert!((0..4).all(|_| proxy.ask(GET).body == b"backup"));
    drop(waiting);
    eventually("the usual one is free again", || {
        let mut client = proxy.connect();
        client.send(GET);
        // Until it has arrived, at one or the other.
        thread::sleep(Duration::from_millis(20));
        usual.seen().len() > 1
    });
}

#[test]
fn one_that_is_leaving_gets_only_those_that_know_it() {
    let (leaving, staying) = (Fake::called("leaving"), Fake::called("staying"));
    let cookie = json!({ "selection_policy": { "policy": "cookie", "secret": "s" } });
    let before = shared(1, &[(&leaving, json!({}))], cookie.clone(), json!({}));
    let set = before.ask(GET).field("Set-Cookie").unwrap();
    let named = set.split(';').next().unwrap();
    let list = [(&leaving, json!({ "drain": true })), (&staying, json!({}))];
    let proxy = shared(1, &list, cookie, json!({}));
    assert!((0..8).all(|_| proxy.ask(GET).body == b"staying"));
    let known = format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: {named}\r\n\r\n");
    assert_eq!(proxy.ask(&known).body, b"leaving");
}

/// The number of "ill" responses among `count`, from an upstream that has recovered. The intervals are large, so that a
/// slow machine does not affect the result.
fn share_after_illness(slow_start: &str, pause: Duration, count: usize) -> usize {
    let ill = Fake::new(|mut peer| {
        let mut first = true;
        while let Some(head) = peer.head() {
            let status = if first && head.contains("X-Ill") {
                500
            } else {
                200
            };
            first = false;
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\nill"
            ));
        }
    });
    let well = Fake::called("well");
    let mut balancing = policy("round_robin");
    balancing["slow_start"] = json!(slow_start);
    let passive = json!({ "health_checks": { "passive": {
        "fail_duration": "1500ms", "unhealthy_status": [500]
    } } });
    let proxy = shared(
        1,
        &[(&ill, json!({})), (&well, json!({}))],
        balancing,
        passive,
    );
    let ask = |request: &str| proxy.ask(request).body == b"ill";
    eventually("it falls ill", || {
        proxy
            .ask("GET / HTTP/1.1\r\nHost: x\r\nX-Ill: 1\r\n\r\n")
            .status()
            == 500
    });
    assert!(!(0..5).any(|_| ask(GET)), "it gets nothing while it is ill");
    // The illness, and a part of the slow start: the share depends on the time since.
    thread::sleep(Duration::from_millis(1_600) + pause);
    (0..count).filter(|_| ask(GET)).count()
}

#[test]
fn one_that_was_ill_gets_its_share_little_by_little() {
    let early = share_after_illness("10m", Duration::ZERO, 200);
    assert!(
        (1..60).contains(&early),
        "{early} of 200 just after it came back"
    );
}

#[test]
fn one_that_has_been_well_for_long_gets_its_whole_share() {
    let late = share_after_illness("50ms", Duration::from_millis(200), 20);
    assert_eq!(late, 10);
}

#[test]
fn a_popular_key_spills_over_where_that_is_bounded() {
    let fakes: Vec<Fake> = (0..4).map(|_| holding()).collect();
    let list: Vec<_> = fakes.iter().map(|fake| (fake, json!({}))).collect();
    let mut balancing = policy("uri_hash");
    balancing["bounded_load"] = json!(150);
    let proxy = shared(2, &list, balancing, json!({}));
    let mut clients = Vec::new();
    for n in 1..=16 {
        let mut client = proxy.connect();
        client.send(GET);
        clients.push(client);
        let seen = || fakes.iter().map(|fake| fake.seen().len()).sum::<usize>();
        eventually("the request arrives", || seen() == n);
    }
    let most = fakes.iter().map(|fake| fake.seen().len()).max();
    assert_eq!(
        most,
        Some(6),
        "one and a half times the even share of 16 over 4"
    );
}
