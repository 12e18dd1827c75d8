//! Upstreams from DNS, and from placeholders in their addresses.

use std::net::Ipv4Addr;
use std::time::Instant;

use super::dns::{Dns, Mood, Record};
use super::*;

const LOOPBACK: Record = Record::Address(Ipv4Addr::LOCALHOST);

fn by_name(dns: &Dns, port: u16, more: Value) -> Value {
    let mut source = json!({
        "source": "a",
        "name": "app.test",
        "port": port.to_string(),
        "resolver": { "addresses": [dns.address.to_string()] },
        "versions": { "ipv4": true },
    });
    merge(&mut source, more);
    json!({ "dynamic_upstreams": source })
}

fn merge(into: &mut Value, more: Value) {
    for (key, value) in more.as_object().unwrap() {
        into[key] = value.clone();
    }
}

/// A second upstream on the port of `first`, at another loopback address.
fn beside(first: &Fake, name: &'static str) -> (Fake, Ipv4Addr) {
    let ip = Ipv4Addr::new(127, 0, 0, 2);
    let listener = TcpListener::bind((ip, first.address.port())).unwrap();
    (Fake::on(listener, Fake::naming(name)), ip)
}

#[test]
fn a_name_gives_its_upstreams_and_is_asked_for_once() {
    let a = Fake::called("a");
    let (b, second) = beside(&a, "b");
    let records = vec![
        ("app.test.", LOOPBACK),
        ("app.test.", Record::Address(second)),
    ];
    let dns = Dns::knowing(records);
    let mut settings = by_name(&dns, a.address.port(), json!({}));
    merge(
        &mut settings,
        json!({
            "load_balancing": { "selection_policy": { "policy": "round_robin" } }
        }),
    );
    let proxy = Proxy::with(&[], settings);
    let got: Vec<Vec<u8>> = (0..10).map(|_| proxy.ask(GET).body).collect();
    assert_eq!(
        got.iter().filter(|body| *body == b"a").count(),
        5,
        "{got:?}"
    );
    assert_eq!(
        got.iter().filter(|body| *body == b"b").count(),
        5,
        "{got:?}"
    );
    assert_eq!(dns.asked(), 1);
    // The upstreams keep their state: their idle connections are reused.
    assert!(a.accepted() <= 2 && b.accepted() <= 2);
}

#[test]
fn a_change_of_the_name_counts_after_the_refresh() {
    let a = Fake::called("a");
    let (_b, second) = beside(&a, "b");
    let dns = Dns::knowing(vec![("app.test.", LOOPBACK)]);
    let proxy = Proxy::with(
        &[],
        by_name(&dns, a.address.port(), json!({ "refresh": "300ms" })),
    );
    assert_eq!(proxy.ask(GET).body, b"a");
    dns.set(vec![("app.test.", Record::Address(second))]);
    eventually("the change", || proxy.ask(GET).body == b"b");
}

#[test]
fn short_lives_of_records_count_where_no_refresh_is_set() {
    let a = Fake::called("a");
    let dns = Dns::knowing(vec![("app.test.", LOOPBACK)]);
    dns.ttl(1);
    let proxy = Proxy::with(&[], by_name(&dns, a.address.port(), json!({})));
    assert_eq!(proxy.ask(GET).status(), 200);
    eventually("another query", || {
        assert_eq!(proxy.ask(GET).status(), 200);
        dns.asked() >= 2
    });
}

#[test]
fn silence_of_the_server_leaves_the_upstreams_and_a_name_that_is_gone_does_not() {
    let a = Fake::called("a");
    let dns = Dns::knowing(vec![("app.test.", LOOPBACK)]);
    let settings = json!({ "refresh": "200ms", "dial_timeout": "200ms" });
    let proxy = Proxy::with(&[], by_name(&dns, a.address.port(), settings));
    assert_eq!(proxy.ask(GET).status(), 200);
    dns.mood(Mood::Silent);
    // Several refreshes fail.
    let before = dns.asked();
    eventually("queries", || {
        assert_eq!(proxy.ask(GET).status(), 200);
        dns.asked() >= before + 3
    });
    dns.set(Vec::new());
    dns.mood(Mood::Replies);
    eventually("the end of the name", || proxy.ask(GET).status() == 503);
}

#[test]
fn a_grace_period_keeps_the_servers_of_a_service_that_is_gone() {
    let a = Fake::called("a");
    let service = Record::Service(a.address.port(), 1, "localhost");
    let dns = Dns::knowing(vec![("_app._tcp.test.", service)]);
    let source = |grace: &str| {
        json!({ "dynamic_upstreams": {
            "source": "srv", "service": "app", "proto": "tcp", "name": "test",
            "resolver": { "addresses": [dns.address.to_string()] },
            "refresh": "200ms", "grace_period": grace,
        } })
    };
    let (patient, strict) = (
        Proxy::with(&[], source("1h")),
        Proxy::with(&[], source("0s")),
    );
    assert_eq!(patient.ask(GET).body, b"a");
    assert_eq!(strict.ask(GET).body, b"a");
    dns.set(Vec::new());
    eventually("the end of the name", || strict.ask(GET).status() == 503);
    assert_eq!(patient.ask(GET).body, b"a");
}

#[test]
fn a_dns_reply_too_long_for_a_datagram_is_fetched_over_tcp() {
    let a = Fake::called("a");
    let dns = Dns::knowing(vec![("app.test.", LOOPBACK)]);
    dns.mood(Mood::TooLong);
    let proxy = Proxy::with(&[], by_name(&dns, a.address.port(), json!({})));
    assert_eq!(proxy.ask(GET).body, b"a");
}

#[test]
fn several_sources_are_one_set_and_fixed_upstreams_stand_in() {
    let (a, b, fixed) = (Fake::called("a"), Fake::called("b"), Fake::called("fixed"));
    let dns = Dns::knowing(vec![
        (
            "one.test.",
            Record::Service(a.address.port(), 1, "localhost"),
        ),
        (
            "two.test.",
            Record::Service(b.address.port(), 1, "localhost"),
        ),
    ]);
    let source = |name: &str| {
        json!({ "source": "srv", "name": name, "refresh": "200ms",
            "resolver": { "addresses": [dns.address.to_string()] } })
    };
    let sources = [
        source("one.test"),
        source("missing.test"),
        source("two.test"),
    ];
    let settings = json!({
        "dynamic_upstreams": { "source": "multi", "sources": sources },
        "load_balancing": { "selection_policy": { "policy": "round_robin" } },
    });
    let proxy = Proxy::with(&[&fixed], settings);
    let got: Vec<Vec<u8>> = (0..6).map(|_| proxy.ask(GET).body).collect();
    for name in [b"a", b"b"] {
        assert_eq!(
            got.iter().filter(|body| *body == name).count(),
            3,
            "{got:?}"
        );
    }
    dns.set(Vec::new());
    eventually("the fixed one", || proxy.ask(GET).body == b"fixed");
}

#[test]
fn upstreams_of_a_name_are_checked() {
    let sick = Fake::new(|mut peer| {
        while let Some(head) = peer.head() {
            let status = if head.starts_with("GET /health") {
                500
            } else {
                200
            };
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nsick"
            ));
        }
    });
    let (well, second) = beside(&sick, "well");
    let records = vec![
        ("app.test.", LOOPBACK),
        ("app.test.", Record::Address(second)),
    ];
    let dns = Dns::knowing(records);
    let mut settings = by_name(&dns, sick.address.port(), json!({}));
    merge(
        &mut settings,
        json!({
            "health_checks": { "active": { "uri": "/health", "interval": "100ms" } }
        }),
    );
    let proxy = Proxy::with(&[], settings);
    proxy.ask(GET);
    // The second check begins after the result of the first is known.
    eventually("two checks", || {
        let seen = sick.seen();
        let checks = seen.iter().filter(|head| head.starts_with("GET /health"));
        checks.count() >= 2
    });
    assert!((0..10).all(|_| proxy.ask(GET).body == b"well"));
    assert!(well.accepted() > 0);
}

#[test]
fn a_transport_may_ask_other_resolvers() {
    let a = Fake::called("a");
    let dns = Dns::knowing(vec![("only-there.test.", LOOPBACK)]);
    let transport = json!({ "transport": {
        "protocol": "http", "resolver": { "addresses": [dns.address.to_string()] }
    } });
    let dial = format!("only-there.test:{}", a.address.port());
    assert_eq!(
        Proxy::dialling(&[dial], transport.clone()).ask(GET).body,
        b"a"
    );
    let dial = format!("not-there.test:{}", a.address.port());
    assert_eq!(Proxy::dialling(&[dial], transport).ask(GET).status(), 502);
}

#[test]
fn a_request_may_name_its_upstream_within_limits() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let proxy = Proxy::dialling(&["{http.request.header.X-To}".into()], json!({}));
    let ask = |to: &str| proxy.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\nX-To: {to}\r\n\r\n"));
    for _ in 0..3 {
        assert_eq!(ask(&a.address.to_string()).body, b"a");
        assert_eq!(ask(&b.address.to_string()).body, b"b");
    }
    assert_eq!((a.accepted(), b.accepted()), (1, 1), "connections are kept");
    for refused in ["", "localhost", "unix//run/x.sock", "a b:80", "localhost:0"] {
        assert_eq!(ask(refused).status(), 503, "{refused:?}");
    }
    // A link-local address is refused before connecting.
    let began = Instant::now();
    assert_eq!(ask("169.254.169.254:80").status(), 502);
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[test]
fn upstreams_that_requests_name_are_bounded() {
    let a = Fake::called("a");
    let port = a.address.port();
    let proxy = Proxy::dialling(&["{http.request.header.X-To}".into()], json!({}));
    let mut client = proxy.connect();
    for n in 0..sluice_proxy::limits::NAMED_UPSTREAMS_MAX + 10 {
        let (high, low) = (n / 250, n % 250 + 1);
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: x\r\nX-To: 127.9.{high}.{low}:1\r\n\r\n"
        ));
        assert_eq!(client.response().status(), 502);
    }
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX-To: 127.0.0.1:{port}\r\n\r\n"
    ));
    assert_eq!(client.response().body, b"a");
}

#[test]
fn the_environment_names_upstreams_when_the_configuration_is_loaded() {
    let a = Fake::called("a");
    // The environment does not contain this variable; it expands to nothing.
    let dial = format!("{}{{env.SLUICE_TEST_UNSET}}", a.address);
    assert_eq!(Proxy::dialling(&[dial], json!({})).ask(GET).body, b"a");
}
