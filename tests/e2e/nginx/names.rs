//! Upstream servers with DNS names: each address is a server, and the addresses change.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

use super::setup;
use crate::client::Client;
use crate::harness::{Server, eventually};
use crate::support::abilities::skipped;
use crate::support::dns::{Dns, Mood, Record};
use crate::support::listen_at;
use crate::upstream::{Upstream, dead, respond};
use crate::wire::Wire;

const NEAR: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The loopback address with this number.
fn near(number: u8) -> Record {
    Record::Address(Ipv4Addr::new(127, 0, 0, number))
}

/// Servers on one port of 127.0.0.1, 127.0.0.2 and so on, which respond with their numbers.
fn numbered(count: u8) -> u16 {
    let one = |number: u8| {
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, number));
        (ip, move |mut wire: Wire| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            while respond(&mut wire, text.as_bytes()).is_some() {}
        })
    };
    listen_at((1..=count).map(one).collect())
}

fn start(groups: &str, lines: &str) -> Server {
    setup(&format!(
        "events {{}}\nhttp {{\n{groups}\nserver {{\nlisten 127.0.0.1:{{port}};\n{lines}\n}}\n}}\n"
    ))
    .start()
}

/// The responses to `count` requests on one connection.
fn responses(server: &Server, path: &str, count: usize) -> String {
    let mut client = Client::connect(server.port);
    (0..count).map(|_| client.get(path).text()).collect()
}

fn sorted(text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

#[test]
fn each_address_of_a_name_is_a_server() {
    let port = numbered(3);
    let dns = Dns::knowing(vec![
        ("app.test.", near(3)),
        ("app.test.", near(1)),
        ("app.test.", near(2)),
    ]);
    let server = start(
        &format!(
            "resolver {};\nupstream some {{ zone some 64k; server app.test:{port} weight=2 resolve; }}\n\
             upstream keyed {{ zone keyed 64k; hash $arg_k; server app.test:{port} resolve; }}",
            dns.address
        ),
        "location /x { proxy_pass http://some; add_header X-At $upstream_addr; }\n\
         location /y { proxy_pass http://some; }\nlocation /k { proxy_pass http://keyed; }",
    );
    let mut client = Client::connect(server.port);
    let mut said = String::new();
    for _ in 0..3 {
        said.push_str(&client.get("/x").text());
        said.push_str(&client.get("/y").text());
    }
    assert_eq!(
        said, "123123",
        "in their order, and all locations take turns"
    );
    let at = client.get("/x").field("X-At").map(str::to_owned);
    assert_eq!(at, Some(format!("127.0.0.1:{port}")));
    for key in 0..12 {
        let path = format!("/k?k={key}");
        assert_eq!(client.get(&path).text(), client.get(&path).text());
    }
    assert_eq!(dns.asked(), 4, "both groups, for both versions of IP");
}

#[test]
fn an_address_that_fails_is_passed_over_and_the_others_go_on() {
    let port = numbered(2);
    // The third address refuses connections.
    let dns = Dns::knowing(vec![
        ("app.test.", near(1)),
        ("app.test.", near(2)),
        ("app.test.", near(3)),
    ]);
    let server = start(
        &format!(
            "resolver {} ipv6=off;\nupstream some {{ server app.test:{port} resolve fail_timeout=60s; }}",
            dns.address
        ),
        "location / { proxy_pass http://some; add_header X-At $upstream_addr; }",
    );
    let mut client = Client::connect(server.port);
    let mut tries = String::new();
    for _ in 0..12 {
        let response = client.get("/");
        assert_eq!(response.status, 200);
        tries.push_str(response.field("X-At").unwrap_or_default());
    }
    assert_eq!(tries.matches("127.0.0.3").count(), 1, "{tries}");
    assert_eq!(dns.asked(), 1, "for IPv4 alone");
}

#[test]
fn addresses_that_left_go_and_new_ones_come() {
    let port = numbered(3);
    let dns = Dns::knowing(vec![("app.test.", near(1)), ("app.test.", near(2))]);
    let groups = format!(
        "resolver {address} valid=1s;\nupstream some {{ server app.test:{port} resolve; }}\n\
         upstream told {{ resolver {address}; server app.test:{port} resolve; }}",
        address = dns.address
    );
    dns.ttl(1);
    let server = start(
        &groups,
        &format!(
            "location /some {{ proxy_pass http://some; }}\nlocation /told {{ proxy_pass http://told; }}\n\
             location /one {{ proxy_pass http://$arg_name:{port}; }}"
        ),
    );
    for path in ["/some", "/told"] {
        assert_eq!(sorted(&responses(&server, path, 4)), "1122", "{path}");
    }
    dns.set(vec![("app.test.", near(2)), ("app.test.", near(3))]);
    for path in ["/some", "/told"] {
        eventually(
            "the new addresses",
            || sorted(&responses(&server, path, 4)) == "2233",
            || responses(&server, path, 4),
        );
    }
    // Without a reply the known addresses stay in use.
    dns.mood(Mood::Silent);
    assert_eq!(sorted(&responses(&server, "/some", 4)), "2233");
    dns.mood(Mood::Replies);
    dns.set(Vec::new());
    eventually(
        "nobody is left",
        || Client::connect(server.port).get("/some").status == 502,
        || responses(&server, "/some", 2),
    );
    server.wait_for_words("app.test could not be resolved (3: Host not found)");
    dns.set(vec![("app.test.", near(1))]);
    eventually(
        "it is back",
        || responses(&server, "/some", 2) == "11",
        || responses(&server, "/some", 2),
    );
    assert_eq!(responses(&server, "/one?name=app.test", 1), "1");
    dns.set(vec![("app.test.", near(3))]);
    eventually(
        "the name in the address leads elsewhere",
        || responses(&server, "/one?name=app.test", 1) == "3",
        || responses(&server, "/one?name=app.test", 1),
    );
}

#[test]
fn srv_records_supply_ports_weights_and_backups() {
    let named = |name: &'static str| {
        Upstream::responding(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"
        ))
    };
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let of = |port, priority, weight| Record::Weighted(port, priority, weight, "host.test");
    let dns = Dns::knowing(vec![
        ("host.test.", Record::Address(NEAR)),
        ("_http._tcp.app.test.", of(a.port, 1, 3)),
        ("_http._tcp.app.test.", of(b.port, 1, 1)),
        ("_http._tcp.app.test.", of(c.port, 2, 9)),
        ("_web._udp.app.test.", of(dead(), 1, 1)),
        ("_web._udp.app.test.", of(c.port, 7, 1)),
    ]);
    let server = start(
        &format!(
            "resolver {};\nupstream some {{ zone x 64k; server app.test service=http resolve; }}\n\
             upstream even {{ zone x; server app.test service=http resolve weight=2; }}\n\
             upstream dots {{ zone x; server app.test service=_web._udp resolve; }}\n\
             upstream last {{ zone x; server 127.0.0.1:{} max_fails=0; server app.test service=http resolve backup; }}",
            dns.address,
            dead()
        ),
        "location /some { proxy_pass http://some; }\nlocation /even { proxy_pass http://even; }\n\
         location /dots { proxy_pass http://dots; }\nlocation /last { proxy_pass http://last; }",
    );
    assert_eq!(sorted(&responses(&server, "/some", 8)), "aaaaaabb");
    assert_eq!(
        sorted(&responses(&server, "/even", 8)),
        "aaaabbbb",
        "a weight in the configuration counts for all of them"
    );
    assert_eq!(
        responses(&server, "/dots", 3),
        "ccc",
        "the ones that stand by"
    );
    assert_eq!(
        sorted(&responses(&server, "/last", 8)),
        "aaaaaabb",
        "those that come later are left out beside a backup"
    );
}

#[test]
fn a_silent_resolver_times_out() {
    let dns = Dns::knowing(Vec::new());
    dns.mood(Mood::Silent);
    let server = start(
        &format!(
            "resolver {};\nresolver_timeout 1s;\nupstream some {{ server app.test resolve; }}",
            dns.address
        ),
        "location / { proxy_pass http://some; }",
    );
    assert_eq!(Client::connect(server.port).get("/").status, 502);
    server.wait_for_words("app.test could not be resolved (110: Operation timed out)");
    server.wait_for_words("no live upstreams while connecting to upstream");
}

#[test]
fn a_name_without_an_address_leaves_the_others_and_resolvers_have_names() {
    let port = numbered(2);
    let dns = Dns::knowing(vec![("app.test.", near(2))]);
    let server = start(
        &format!(
            "resolver localhost:{} ipv6=off;\n\
             upstream some {{ server 127.0.0.1:{port}; server none.test resolve; server app.test:{port} resolve; }}",
            dns.address.port()
        ),
        "location / { proxy_pass http://some; }",
    );
    eventually(
        "both answer",
        || sorted(&responses(&server, "/", 4)) == "1122",
        || responses(&server, "/", 4),
    );
}

#[test]
fn names_without_resolve_are_known_to_the_system() {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let found = (name, 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let is_name = name.parse::<IpAddr>().is_err() && name != "localhost";
    if !is_name || !found.is_ok_and(|found| !found.is_empty()) {
        skipped("the system does not know its own name");
        return;
    }
    let serve = |mut wire: Wire| {
        while respond(&mut wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_some() {}
    };
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let port = listen_at(vec![(any, serve)]);
    let server = start(
        &format!("upstream some {{ server {name}:{port}; }}"),
        &format!(
            "location /group {{ proxy_pass http://some; }}\n\
             location / {{ proxy_pass http://{name}:{port}; add_header X-At $upstream_addr; }}"
        ),
    );
    assert_eq!(responses(&server, "/group", 2), "okok");
    let response = Client::connect(server.port).get("/");
    let at = response.field("X-At").unwrap_or_default().to_owned();
    let last = at.rsplit(", ").next().unwrap_or_default();
    assert!(
        last.parse::<std::net::SocketAddr>().is_ok(),
        "an address and no name: {at}"
    );
}

/// Names are looked up again when their lifetime ends, also while nobody asks.
#[test]
fn names_are_resolved_again_without_requests() {
    let port = numbered(2);
    let dns = Dns::knowing(vec![("app.test.", near(1))]);
    dns.ttl(1);
    let server = start(
        &format!(
            "resolver {} ipv6=off;\nupstream some {{ zone some 64k; server app.test:{port} resolve; }}",
            dns.address
        ),
        "location / { proxy_pass http://some; add_header X-At $upstream_addr; }",
    );
    assert_eq!(responses(&server, "/", 1), "1");
    let before = dns.asked();
    dns.set(vec![("app.test.", near(2))]);
    // The second of them begins after the first has ended, so the new address is known by then.
    eventually(
        "two more queries",
        || dns.asked() >= before + 2,
        || dns.asked().to_string(),
    );
    let response = Client::connect(server.port).get("/");
    let at = response.field("X-At").map(str::to_owned);
    assert_eq!(
        (response.text(), at),
        ("2".to_owned(), Some(format!("127.0.0.2:{port}")))
    );
}

/// A name in `proxy_pass` with variables: an address whose lifetime has ended is not used again if there is a new one.
#[test]
fn an_address_is_not_used_after_its_lifetime() {
    let port = numbered(2);
    let dns = Dns::knowing(vec![("app.test.", near(1))]);
    let server = start(
        &format!("resolver {} valid=1s ipv6=off;", dns.address),
        &format!(
            "location / {{ proxy_pass http://$arg_name:{port}; add_header X-At $upstream_addr; }}"
        ),
    );
    assert_eq!(responses(&server, "/?name=app.test", 1), "1");
    dns.set(vec![("app.test.", near(2))]);
    // Nothing happens while the lifetime passes, so there is no event to wait for.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let response = Client::connect(server.port).get("/?name=app.test");
    let at = response.field("X-At").map(str::to_owned);
    assert_eq!(
        (response.text(), at),
        ("2".to_owned(), Some(format!("127.0.0.2:{port}")))
    );
    assert_eq!(dns.asked(), 2);
}

/// A response that is too long for UDP is asked for again over TCP (RFC 7766, section 5).
#[test]
fn truncated_dns_responses_are_read_again_over_tcp() {
    let port = numbered(1);
    let dns = Dns::knowing(vec![("app.test.", near(1))]);
    dns.mood(Mood::TooLong);
    let server = start(
        &format!(
            "resolver {} ipv6=off;\nupstream some {{ zone some 64k; server app.test:{port} resolve; }}",
            dns.address
        ),
        &format!(
            "location /group {{ proxy_pass http://some; }}\nlocation /variable {{ proxy_pass http://$arg_name:{port}; }}"
        ),
    );
    assert_eq!(responses(&server, "/group", 1), "1");
    assert_eq!(responses(&server, "/variable?name=app.test", 1), "1");
    assert_eq!(dns.asked(), 2, "each was asked over UDP first");
}
