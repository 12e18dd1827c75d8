//! Overload protection of upstreams: circuit breakers, concurrency limits, and what placeholders and logs show about
//! them.

use std::time::Instant;

use super::*;

/// The statuses of this many requests, each on a connection of its own.
fn statuses(proxy: &Proxy, count: usize) -> Vec<u16> {
    (0..count).map(|_| proxy.ask(GET).status()).collect()
}

#[test]
fn an_upstream_that_mostly_fails_gets_nothing_for_a_while() {
    let ill = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seen = ill.clone();
    let fake = Fake::new(move |mut peer| {
        while peer.head().is_some() {
            peer.send(match seen.load(Ordering::SeqCst) {
                true => "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
                false => HI,
            });
        }
    });
    let proxy = Proxy::with(
        &[&fake],
        json!({ "circuit_breaker": {
            "type": "internal", "factor": "status_ratio", "threshold": 0.5,
            "trip_duration": "600ms", "min_requests": 5,
        } }),
    );
    assert_eq!(statuses(&proxy, 5), [500; 5]);
    assert_eq!(statuses(&proxy, 10), [503; 10]);
    assert_eq!(fake.seen().len(), 5, "nothing went there meanwhile");
    ill.store(false, Ordering::SeqCst);
    eventually("the circuit to close", || proxy.ask(GET).status() == 200);
    assert_eq!(statuses(&proxy, 10), [200; 10]);
}

#[test]
fn others_take_over_from_an_upstream_whose_circuit_is_open() {
    let slow = Fake::new(|mut peer| {
        while peer.head().is_some() {
            // Longer than the latency that opens the circuit.
            thread::sleep(Duration::from_millis(60));
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        }
    });
    let quick = Fake::called("quick");
    let proxy = Proxy::with(
        &[&slow, &quick],
        json!({
            "load_balancing": { "selection_policy": { "policy": "first" } },
            "circuit_breaker": { "factor": "latency", "threshold": 20, "min_requests": 3,
                "trip_duration": "30s" },
        }),
    );
    let bodies: Vec<_> = (0..6).map(|_| proxy.ask(GET).body).collect();
    assert_eq!(
        bodies,
        [&b"slow"[..], b"slow", b"slow", b"quick", b"quick", b"quick"]
    );
}

/// A server with `in_flight` before the proxy, and an upstream that responds when the test lets it.
fn limited(mut settings: Value) -> (Proxy, Fake, std::sync::mpsc::Sender<()>) {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Mutex::new(wait);
    let fake = Fake::new(move |mut peer| {
        while peer.head().is_some() {
            let _ = wait.lock().unwrap().recv();
            peer.send(HI);
        }
    });
    settings["handler"] = json!("in_flight");
    let proxy = Proxy::on_workers(
        2,
        json!({ "routes": [{ "handle": [
            settings,
            { "handler": "reverse_proxy", "upstreams": [{ "dial": fake.address.to_string() }] },
        ] }] }),
    );
    (proxy, fake, go)
}

fn wait_for(what: impl Fn() -> bool) {
    eventually("it", what);
}

/// Lets a request, or its end, reach the queue: nothing outside of the server shows that.
fn settle() {
    thread::sleep(Duration::from_millis(100));
}

#[test]
fn no_more_requests_are_in_flight_than_allowed() {
    let (proxy, fake, go) = limited(json!({ "max": 2, "queue": 1, "timeout": "5s" }));
    let mut first: Vec<Client> = (0..2).map(|_| proxy.connect()).collect();
    for client in &mut first {
        client.send(GET);
    }
    wait_for(|| fake.seen().len() == 2);
    let mut waiting = proxy.connect();
    waiting.send(GET);
    settle();
    let refused = proxy.ask(GET);
    assert_eq!(
        (refused.status(), refused.field("Retry-After").as_deref()),
        (503, Some("5"))
    );
    assert_eq!(fake.seen().len(), 2, "one waits and one was refused");
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    for client in first.iter_mut().chain([&mut waiting]) {
        assert_eq!(client.response().body, b"hi");
    }
    go.send(()).unwrap();
    assert_eq!(proxy.ask(GET).status(), 200, "places are free again");
}

#[test]
fn waiting_has_an_end_and_keys_have_places_of_their_own() {
    let settings = json!({ "max": 1, "queue": 5, "timeout": "200ms",
        "key": "{http.request.header.X-Key}" });
    let (proxy, fake, go) = limited(settings);
    let ask = |key: &str| {
        let mut client = proxy.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\n\r\n"));
        client
    };
    let mut one = ask("a");
    wait_for(|| fake.seen().len() == 1);
    let began = Instant::now();
    assert_eq!(ask("a").response().status(), 503);
    assert!(
        began.elapsed() >= Duration::from_millis(50),
        "{:?}",
        began.elapsed()
    );
    let mut other = ask("b");
    wait_for(|| fake.seen().len() == 2);
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(
        (one.response().status(), other.response().status()),
        (200, 200)
    );
}

#[test]
fn a_client_that_goes_away_while_it_waits_frees_its_place() {
    let (proxy, fake, go) = limited(json!({ "max": 1, "queue": 1, "timeout": "5s" }));
    let mut first = proxy.connect();
    first.send(GET);
    wait_for(|| fake.seen().len() == 1);
    let mut gone = proxy.connect();
    gone.send(GET);
    settle();
    drop(gone);
    settle();
    let mut waiting = proxy.connect();
    waiting.send(GET);
    settle();
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(
        (first.response().status(), waiting.response().status()),
        (200, 200)
    );
}

#[test]
fn times_and_load_are_shown_where_they_are_asked_for() {
    let fake = Fake::new(|mut peer| {
        while peer.head().is_some() {
            // A time to be shown.
            thread::sleep(Duration::from_millis(30));
            peer.send(HI);
        }
    });
    let rp = "http.reverse_proxy";
    let proxy = Proxy::with(
        &[&fake],
        json!({
            "headers": { "response": { "set": {
                "Latency": [format!("{{{rp}.upstream.latency}}")],
                "Latency-Ms": [format!("{{{rp}.upstream.latency_ms}}")],
                "Duration-Ms": [format!("{{{rp}.duration_ms}}")],
                "Upstream-Duration-Ms": [format!("{{{rp}.upstream.duration_ms}}")],
                "Load": [format!("{{{rp}.upstream.requests}} of {{{rp}.upstream.max_requests}}")],
                "Fails": [format!("{{{rp}.upstream.fails}}")],
            } } },
        }),
    );
    let response = proxy.ask(GET);
    let millis = |name: &str| response.field(name).unwrap().parse::<f64>().unwrap();
    let latency = millis("Latency-Ms");
    assert!((30.0..5_000.0).contains(&latency), "{latency}");
    assert!(
        response.field("Latency").unwrap().ends_with("ms"),
        "{}",
        response.head
    );
    assert!(millis("Upstream-Duration-Ms") >= latency);
    assert!(millis("Duration-Ms") >= latency);
    assert_eq!(response.field("Load").as_deref(), Some("0 of 0"));
    assert_eq!(response.field("Fails").as_deref(), Some("0"));
}

#[test]
fn tunnels_end_some_time_after_their_configuration_where_that_is_wanted() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
        );
        let mut socket = peer.socket.try_clone().unwrap();
        let _ = std::io::copy(&mut peer.socket, &mut socket);
    });
    for (delay, ends) in [(json!("300ms"), true), (json!(0), false)] {
        let mut proxy = Proxy::with(
            &[&fake],
            json!({ "stream_close_delay": delay, "stream_buffer_size": 512 }),
        );
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        assert_eq!(client.response().status(), 101);
        let piece = vec![b'x'; 10_000];
        client.send(&piece);
        let mut back = vec![0; piece.len()];
        client.socket.read_exact(&mut back).unwrap();
        assert_eq!(back, piece, "a small buffer takes it all in turn");
        proxy.replace(&[&fake]);
        client.send("still here");
        client.socket.read_exact(&mut back[..10]).unwrap();
        assert_eq!(&back[..10], b"still here");
        client
            .socket
            .set_read_timeout(Some(Duration::from_millis(1_000)))
            .unwrap();
        let read = client.socket.read(&mut back);
        match ends {
            true => assert_eq!(read.unwrap(), 0, "its time is over"),
            false => assert!(read.is_err(), "it goes on"),
        }
    }
}

/// Only clients that accept compression get it, whatever `compression` says, and pieces are forwarded at once.
#[test]
fn settings_of_buffers_and_compression_hold_without_any_work() {
    let fake = Fake::new(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh");
            // The first piece has to arrive before the second is sent.
            thread::sleep(Duration::from_millis(300));
            peer.send("i");
        }
    });
    let proxy = Proxy::with(
        &[&fake],
        json!({ "flush_interval": "10s", "transport": { "protocol": "http", "compression": false } }),
    );
    let mut client = proxy.connect();
    client.send(GET);
    read_head(&mut client.socket).unwrap();
    let began = Instant::now();
    let mut body = [0; 1];
    client.socket.read_exact(&mut body).unwrap();
    assert!(
        began.elapsed() < Duration::from_millis(250),
        "it was held back"
    );
    client.socket.read_exact(&mut body).unwrap();
    assert!(lines_named(&fake.last(), "Accept-Encoding").is_empty());
}

/// A proxy with `coalesce` on two workers, and an upstream that responds when the test lets it.
fn coalescing(response: &'static str) -> (Proxy, Fake, std::sync::mpsc::Sender<()>) {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Mutex::new(wait);
    let fake = Fake::new(move |mut peer| {
        while peer.head().is_some() {
            let _ = wait.lock().unwrap().recv();
            peer.send(response);
        }
    });
    let proxy = Proxy::on_workers(
        2,
        json!({ "routes": [{ "handle": [{
            "handler": "reverse_proxy", "coalesce": true,
            "upstreams": [{ "dial": fake.address.to_string() }],
            "headers": { "response": { "set": { "X-For": ["{http.request.header.X-Who}"] } } },
        }] }] }),
    );
    (proxy, fake, go)
}

/// Sends requests with these headers at once, lets the upstream send `responses` responses, and returns what each client
/// got.
fn all_at_once(
    (proxy, fake, go): &(Proxy, Fake, std::sync::mpsc::Sender<()>),
    fields: &[&str],
    responses: usize,
) -> Vec<Response> {
    let before = fake.seen().len();
    let mut clients: Vec<Client> = fields
        .iter()
        .map(|fields| {
            let mut client = proxy.connect();
            client.send(format!("GET /x HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
            // Each reaches the server before the next.
            thread::sleep(Duration::from_millis(30));
            client
        })
        .collect();
    (0..responses).for_each(|_| go.send(()).unwrap());
    let got = clients.iter_mut().map(Client::response).collect();
    assert_eq!(fake.seen().len() - before, responses);
    got
}

const SHARED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nVary: Accept\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\nshared";

#[test]
fn identical_requests_under_way_ask_once() {
    let setup = coalescing(SHARED);
    let who = [
        "X-Who: a\r\n",
        "X-Who: b\r\n",
        "X-Who: c\r\n",
        "",
        "",
        "",
        "",
        "",
    ];
    let got = all_at_once(&setup, &who, 1);
    assert!(
        got.iter()
            .all(|response| response.body == b"shared" && response.field("X-Hop").is_none())
    );
    assert!(
        got.iter()
            .all(|response| response.fields("Via") == ["1.1 sluice"])
    );
    let names: Vec<_> = got[..3]
        .iter()
        .map(|response| response.field("X-For").unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "c"], "each is changed for itself");
    // Nothing is cached.
    all_at_once(&setup, &[""], 1);
}

#[test]
fn requests_and_responses_for_one_client_are_not_shared() {
    let setup = coalescing(SHARED);
    for own in [
        "Cookie: a=b\r\n",
        "Authorization: Basic eDp5\r\n",
        "Range: bytes=0-1\r\n",
        "If-None-Match: \"x\"\r\n",
        "Cache-Control: no-cache\r\n",
        "Pragma: no-cache\r\n",
    ] {
        all_at_once(&setup, &[own, own], 2);
    }
    // The headers in `Vary` differ.
    all_at_once(
        &setup,
        &["Accept: a\r\n", "Accept: b\r\n", "Accept: a\r\n"],
        2,
    );
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=1, private\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVary: *\r\n\r\nhi",
        "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        let got = all_at_once(&coalescing(response), &["", "", ""], 3);
        assert!(got.iter().all(|one| one.body == b"hi"), "{response}");
    }
}

#[test]
fn a_first_request_that_is_given_up_leaves_nobody_waiting() {
    let setup = coalescing(SHARED);
    let (proxy, fake, go) = &setup;
    let mut first = proxy.connect();
    first.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(|| fake.seen().len() == 1);
    let mut second = proxy.connect();
    second.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    settle();
    drop(first);
    wait_for(|| fake.seen().len() == 2);
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(second.response().body, b"shared");
}
