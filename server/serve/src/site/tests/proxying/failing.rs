//! Upstreams that are down, slow or send garbage, and connections that fail at the wrong moment.

use std::time::Instant;

use super::*;

#[test]
fn what_goes_wrong_upstream_has_its_status() {
    assert_eq!(
        Proxy::dialling(&[nobody()], json!({})).ask(GET).status(),
        502
    );
    assert_eq!(Proxy::dialling(&[], json!({})).ask(GET).status(), 503);
    assert_eq!(
        Proxy::dialling(&["unix//nonexistent/x.sock".into()], json!({}))
            .ask(GET)
            .status(),
        502
    );
    for response in [
        "garbage\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\nBroken",
        "HTTP/1.1 101 X\r\n\r\n",
    ] {
        let fake = Fake::new(move |mut peer| {
            peer.head();
            peer.send(response);
        });
        assert_eq!(Proxy::to(&[&fake]).ask(GET).status(), 502, "{response:?}");
    }
    let silent = Fake::new(|mut peer| {
        peer.head();
        peer.head();
    });
    let settings = json!({ "transport": {
        "protocol": "http", "response_header_timeout": "100ms"
    } });
    assert_eq!(Proxy::with(&[&silent], settings).ask(GET).status(), 504);
}

#[test]
fn the_client_may_go_on_after_a_failure() {
    let fake = Fake::new(|mut peer| {
        let response = match peer.head() {
            Some(head) if head.starts_with("GET /bad") => "garbage\r\n\r\n",
            _ => HI,
        };
        peer.send(response);
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for (path, status) in [("/bad", 502), ("/", 200), ("/bad", 502)] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(client.response().status(), status);
    }
}

/// An upstream that responds to the first request of each connection and closes at the second.
fn forgetful() -> Fake {
    Fake::new(|mut peer| {
        peer.head();
        peer.send(HI);
        peer.head();
    })
}

#[test]
fn a_request_on_a_connection_that_just_closed_is_repeated_once_if_safe() {
    let fake = forgetful();
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    for _ in 0..4 {
        client.send(GET);
        assert_eq!(client.response().status(), 200);
    }
    // The second request met the closing connection, was repeated, and so on.
    assert_eq!(fake.accepted(), 4);
    assert_eq!(fake.seen().len(), 7);
}

#[test]
fn a_post_is_never_sent_twice() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send(HI);
        peer.head();
        let mut body = [0; 5];
        let _ = peer.socket.read_exact(&mut body);
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(GET);
    assert_eq!(client.response().status(), 200);
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().status(), 502);
    let posts = fake
        .seen()
        .iter()
        .filter(|head| head.starts_with("POST"))
        .count();
    assert_eq!((posts, fake.accepted()), (1, 1));
}

#[test]
fn a_fresh_connection_that_dies_is_not_tried_again_without_settings() {
    let fake = Fake::new(|mut peer| {
        peer.head();
    });
    assert_eq!(Proxy::to(&[&fake]).ask(GET).status(), 502);
    assert_eq!(fake.accepted(), 1);
}

#[test]
fn retries_go_to_another_upstream_but_not_with_what_may_have_had_an_effect() {
    let dying = Fake::new(|mut peer| {
        peer.head();
    });
    let well = Fake::called("well");
    let settings = json!({ "load_balancing": {
        "selection_policy": { "policy": "first" }, "retries": 1
    } });
    let proxy = Proxy::with(&[&dying, &well], settings.clone());
    assert_eq!(proxy.ask(GET).body, b"well");
    let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(proxy.ask(post).status(), 502);
    // If the connection is refused, nothing was sent: any request may be retried.
    let proxy = Proxy::dialling(&[nobody(), well.address.to_string()], settings);
    assert_eq!(proxy.ask(post).body, b"well");
}

#[test]
fn trying_goes_on_for_as_long_as_allowed() {
    let settings = json!({ "load_balancing": { "try_duration": "400ms", "try_interval": "50ms" } });
    let began = Instant::now();
    assert_eq!(
        Proxy::dialling(&[nobody()], settings.clone())
            .ask(GET)
            .status(),
        502
    );
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "{:?}",
        began.elapsed()
    );

    // An upstream that starts meanwhile gets the request.
    let address = nobody();
    let proxy = Proxy::dialling(
        std::slice::from_ref(&address),
        json!({ "load_balancing": { "try_duration": "5s" } }),
    );
    let late = thread::spawn(move || {
        // Some attempts fail before.
        thread::sleep(Duration::from_millis(300));
        let listener = TcpListener::bind(address).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        read_head(&mut socket);
        socket.write_all(HI.as_bytes()).unwrap();
        read_head(&mut socket);
    });
    assert_eq!(proxy.ask(GET).body, b"hi");
    drop(proxy);
    late.join().unwrap();
}

#[test]
fn a_client_that_goes_away_frees_the_upstream() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let fake = Fake::new(move |mut peer| {
        peer.head();
        let _ = peer.socket.read(&mut [0]);
        count.fetch_add(1, Ordering::SeqCst);
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(GET);
    eventually("the request", || fake.seen().len() == 1);
    drop(client);
    eventually("its end", || ended.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_client_that_stops_half_way_through_its_body_leaves_no_whole_request() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        let mut body = Vec::new();
        let _ = peer.socket.read_to_end(&mut body);
        peer.seen
            .lock()
            .unwrap()
            .push(format!("{} bytes", body.len()));
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    eventually("the request", || fake.seen().len() == 1);
    drop(client);
    eventually("its end", || fake.seen().len() == 2);
    assert_eq!(fake.last(), "3 bytes");
}

#[test]
fn connections_are_kept_unless_that_is_off() {
    let off = json!({ "transport": { "protocol": "http", "keep_alive": { "enabled": false } } });
    for (settings, is_kept) in [(json!({}), true), (off, false)] {
        let fake = Fake::responding(HI);
        let proxy = Proxy::with(&[&fake], settings);
        for _ in 0..10 {
            assert_eq!(proxy.ask(GET).body, b"hi");
        }
        // A response may arrive before its connection is returned to the pool.
        assert_eq!(fake.accepted() < 10, is_kept, "{}", fake.accepted());
    }
}

#[test]
fn each_connection_with_a_proxy_header_is_for_one_client() {
    let fake = Fake::new(|mut peer| {
        let line = read_until(&mut peer.socket, b"\r\n").unwrap();
        peer.seen.lock().unwrap().push(line);
        while peer.head().is_some() {
            peer.send(HI);
        }
    });
    let settings = json!({ "transport": { "protocol": "http", "proxy_protocol": "v1" } });
    let proxy = Proxy::with(&[&fake], settings);
    for _ in 0..2 {
        let mut client = proxy.connect();
        let (ours, theirs) = (client.socket.local_addr().unwrap(), proxy.address);
        client.send(GET);
        assert_eq!(client.response().body, b"hi");
        let line = &fake.seen()[fake.seen().len() - 2];
        let (from, to) = (ours.port(), theirs.port());
        assert_eq!(
            line,
            &format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {to}\r\n")
        );
    }
    assert_eq!(fake.accepted(), 2);
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for (settings, expected) in [
        (json!({ "circuit_breaker": {} }), "circuit_breaker"),
        (json!({ "circuit_breaker": { "factor": "moon" } }), "moon"),
        (json!({ "stream_buffer_size": 3 }), "stream_buffer_size"),
        (
            json!({ "transport": { "protocol": "fastcgi", "split_path": [".p\u{212a}p"] } }),
            "ASCII",
        ),
        (
            json!({ "transport": { "protocol": "fastcgi", "env": { "A=B": "c" } } }),
            "A=B",
        ),
        (
            json!({ "transport": { "protocol": "http", "versions": ["3"] } }),
            "versions 3",
        ),
        (
            json!({ "transport": { "protocol": "http", "versions": ["1.0"] } }),
            "1.0",
        ),
        (json!({ "transport": { "protocol": "quantum" } }), "quantum"),
        (json!({ "request_buffers": -1 }), "request_buffers"),
        (
            json!({ "upstreams": [{ "dial": "{http.request.host}:80" }],
                "dynamic_upstreams": { "source": "a", "name": "x" } }),
            "placeholder",
        ),
        (
            json!({ "dynamic_upstreams": { "source": "zookeeper" } }),
            "zookeeper",
        ),
        (
            json!({ "dynamic_upstreams": { "source": "srv", "name": "x", "proto": "tcp" } }),
            "service",
        ),
        (
            json!({ "transport": { "protocol": "http", "local_address": "eth0" } }),
            "local_address",
        ),
        (
            json!({ "transport": { "protocol": "http",
                "network_proxy": { "from": "url", "url": "gopher://p" } } }),
            "network_proxy",
        ),
        (json!({ "upstreams": [{ "dial": "no-port" }] }), "no-port"),
    ] {
        refused(settings, expected);
    }
}

/// Asserts that a directive with these settings is refused with this message.
fn refused(mut directive: Value, words: &str) {
    directive["handler"] = json!("reverse_proxy");
    let server = json!({ "routes": [{ "handle": [directive] }] });
    let config: sluice_model::Server = serde_json::from_value(server).unwrap();
    let refusals = Rules::build(&config, "", &[], &Slots::default(), None)
        .err()
        .expect(words);
    assert!(refusals[0].to_string().contains(words), "{}", refusals[0]);
}

#[test]
fn words_of_our_own_are_refused_where_they_mean_nothing() {
    for (settings, expected) in [
        (
            json!({ "transport": { "protocol": "scgi", "modifier1": 1 } }),
            "modifiers",
        ),
        (
            json!({ "transport": { "protocol": "uwsgi", "env": { "CONTENT_LENGTH": "1" } } }),
            "CONTENT_LENGTH",
        ),
        (
            json!({ "transport": { "protocol": "http", "read_buffer_size": 3 } }),
            "read_buffer",
        ),
        (
            json!({ "health_checks": { "passive": { "max_ejected": 101 } } }),
            "max_ejected",
        ),
    ] {
        refused(settings, expected);
    }
}
