//! Upstreams of a Caddyfile: dynamic sources, proxies on the way to them, health checks and load balancing, and their
//! metrics.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::client::{Client, Response, exchange};
use crate::harness::{Server, Setup, TIMEOUT, eventually};
use crate::support::abilities::has_ipv6;
use crate::support::dns::{Dns, Mood, Record};
use crate::support::wait::until;
use crate::upstream::{Upstream, dead, respond};
use crate::wire::{Wire, field};

/// An upstream that responds with `word`, on any loopback address.
fn saying(address: impl Into<IpAddr>, port: u16, word: &'static str) -> u16 {
    let listener = TcpListener::bind((address.into(), port)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut wire = Wire::with_timeout(stream);
                let bytes = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{word}",
                    word.len()
                );
                while respond(&mut wire, bytes.as_bytes()).is_some() {}
            });
        }
    });
    port
}

fn proxy(block: &str) -> Server {
    Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy {{\n{block}\n\t}}\n}}\n"
    ))
}

/// The distinct responses of the upstreams to `count` requests, sorted.
fn said(server: &Server, count: usize) -> String {
    let mut said: Vec<String> = (0..count).map(|_| server.ask("/").text()).collect();
    said.sort();
    said.dedup();
    said.join(" ")
}

fn admin(server: &mut Server, path: &str) -> Response {
    let port = server.admin;
    exchange(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n"),
    )
}

#[test]
fn names_give_upstreams_that_come_and_go() {
    let one = Ipv4Addr::LOCALHOST;
    let two = Ipv4Addr::new(127, 0, 0, 2);
    let port = saying(one, 0, "one");
    saying(two, port, "two");
    let dns = Dns::knowing(vec![
        ("up.test.", Record::Address(one)),
        ("up.test.", Record::Address(two)),
    ]);
    let mut server = proxy(&format!(
        "dynamic a up.test {port} {{\nresolvers {}\nrefresh 200ms\n}}\nlb_policy round_robin\nfail_duration 1s",
        dns.address
    ));
    assert_eq!(said(&server, 8), "one two");
    let shown = admin(&mut server, "/reverse_proxy/upstreams").text();
    assert!(
        shown.contains("\"127.0.0.2:"),
        "those of names are shown: {shown}"
    );
    dns.set(vec![("up.test.", Record::Address(two))]);
    eventually(
        "the change",
        || said(&server, 4) == "two",
        || server.stderr(),
    );
    // Known addresses stay in use without DNS replies.
    dns.mood(Mood::Silent);
    let asked = dns.asked();
    eventually(
        "it is asked in vain",
        || {
            assert_eq!(said(&server, 2), "two");
            dns.asked() > asked
        },
        || server.stderr(),
    );
    assert_eq!(said(&server, 4), "two");
    // A name that no longer exists is a valid DNS answer.
    dns.mood(Mood::Replies);
    dns.set(Vec::new());
    eventually(
        "the end of the name",
        || server.ask("/").status >= 502,
        || server.stderr(),
    );
}

#[test]
fn services_and_several_sources_give_upstreams() {
    let (one, two) = (
        saying(Ipv4Addr::LOCALHOST, 0, "one"),
        saying(Ipv4Addr::LOCALHOST, 0, "two"),
    );
    let dns = Dns::knowing(vec![
        ("_web._tcp.up.test.", Record::Service(one, 1, "host.test")),
        ("host.test.", Record::Address(Ipv4Addr::LOCALHOST)),
        ("more.test.", Record::Address(Ipv4Addr::LOCALHOST)),
    ]);
    let resolvers = format!("resolvers {}", dns.address);
    let srv = format!("srv _web._tcp.up.test {{\n{resolvers}\n}}");
    let transport = format!("transport http {{\n{resolvers}\n}}");
    let server = proxy(&format!("dynamic {srv}\n{transport}"));
    assert_eq!(said(&server, 2), "one");
    let server = proxy(&format!(
        "dynamic multi {{\n{srv}\na more.test {two} {{\n{resolvers}\n}}\n}}\n{transport}\nlb_policy round_robin"
    ));
    assert_eq!(said(&server, 6), "one two");
}

#[test]
fn names_are_asked_for_the_versions_of_ip_that_are_named() {
    if !has_ipv6() {
        return;
    }
    let port = saying(Ipv6Addr::LOCALHOST, 0, "six");
    saying(Ipv4Addr::new(127, 0, 0, 3), port, "four");
    let dns = Dns::knowing(vec![
        ("up.test.", Record::Address6(Ipv6Addr::LOCALHOST)),
        ("up.test.", Record::Address(Ipv4Addr::new(127, 0, 0, 3))),
    ]);
    for (versions, expected) in [("ipv6", "six"), ("ipv4", "four"), ("ipv4 ipv6", "four six")] {
        let server = proxy(&format!(
            "dynamic a up.test {port} {{\nresolvers {}\nversions {versions}\n}}\nlb_policy round_robin",
            dns.address
        ));
        assert_eq!(said(&server, 8), expected, "{versions}");
    }
}

/// A forward proxy that accepts CONNECT and records the targets.
fn connect_proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = asked.clone();
    let upstream = Upstream::start(move |mut wire| {
        let Some(head) = wire.head() else { return };
        let target = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
        notes
            .lock()
            .expect("nobody panics with it")
            .push(head.join("|"));
        let Ok(mut there) = TcpStream::connect(&target) else {
            let _ = wire.try_send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
            return;
        };
        wire.send("HTTP/1.1 200 Connected\r\n\r\n");
        let mut back = there.try_clone().expect("a second handle");
        let mut client = wire.stream().try_clone().expect("a second handle");
        thread::spawn(move || std::io::copy(&mut back, &mut client));
        let _ = std::io::copy(&mut wire.reader, &mut there);
    });
    (upstream.port, asked)
}

#[test]
fn a_proxy_in_between_is_asked_for_the_upstream() {
    let port = saying(Ipv4Addr::LOCALHOST, 0, "through");
    let (between, asked) = connect_proxy();
    let server = proxy(&format!(
        "to 127.0.0.1:{port}\ntransport http {{\nnetwork_proxy url http://me:secret@127.0.0.1:{between}\n}}"
    ));
    assert_eq!(said(&server, 2), "through");
    let asked = asked.lock().expect("nobody panics with it");
    assert!(
        asked[0].starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1"))
            && asked[0].contains("Proxy-Authorization: Basic bWU6c2VjcmV0"),
        "{asked:?}"
    );
    let server = proxy(&format!(
        "to 127.0.0.1:{}\ntransport http {{\nnetwork_proxy url http://127.0.0.1:{between}\n}}",
        dead()
    ));
    assert_eq!(server.ask("/").status, 502);
}

#[test]
fn the_forwarded_header_names_the_client_and_is_extended() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\tservers {{\n\t\ttrusted_proxies static 127.0.0.1\n\t\ttrusted_proxies_strict\n\
         \t\tclient_ip_headers Forwarded X-Forwarded-For\n\t}}\n}}\n\
         :{{port}} {{\n\trespond /who {{client_ip}}\n\treverse_proxy 127.0.0.1:{}\n}}\n",
        upstream.port
    ));
    let ask = |path: &str, fields: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: site.test\r\n{fields}Connection: close\r\n\r\n");
        exchange(server.port, request).text()
    };
    let forwarded =
        "Forwarded: for=9.9.9.9, for=\"[2001:db8::7]:80\";proto=https, for=127.0.0.1\r\n";
    assert_eq!(ask("/who", forwarded), "2001:db8::7");
    assert_eq!(ask("/who", "X-Forwarded-For: 8.8.8.8\r\n"), "8.8.8.8");
    assert_eq!(ask("/who", "Forwarded: for=unknown\r\n"), "127.0.0.1");
    let echoed = ask("/", forwarded);
    let line = echoed.lines().find(|line| line.starts_with("Forwarded: "));
    let expected = "for=127.0.0.1, for=127.0.0.1;host=\"site.test\";proto=http";
    assert!(
        line.is_some_and(|line| line.ends_with(expected)),
        "{echoed}"
    );
}

#[test]
fn peers_of_a_unix_socket_are_believed_where_that_is_said() {
    let trusting = "servers {\n\t\ttrusted_proxies_unix\n\t}";
    for (setting, expected) in [(trusting, "9.9.9.9"), ("", "")] {
        let setup = Setup::new(&format!(
            "{{\n\tadmin off\n\t{setting}\n}}\n\
             http:// {{\n\tbind unix/{{folder}}/sock\n\trespond {{client_ip}}\n}}\n"
        ));
        let path = setup.folder().path().join("sock");
        let server = setup.start();
        eventually(
            "it listens",
            || UnixStream::connect(&path).is_ok(),
            || server.stderr(),
        );
        let mut socket = UnixStream::connect(&path).expect("it listens");
        socket
            .write_all(
                b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9\r\nConnection: close\r\n\r\n",
            )
            .expect("it reads");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an answer");
        let body = text.split("\r\n\r\n").nth(1);
        assert_eq!(body, Some(expected), "{setting}: {text}");
    }
}

#[test]
fn only_what_is_named_is_sent_again() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    // It reads the request and closes the connection without a response.
    let dying = Upstream::start(move |mut wire| {
        if let Some(head) = wire.head() {
            let _ = wire.body(&head);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let living = saying(Ipv4Addr::LOCALHOST, 0, "done");
    let server = proxy(&format!(
        "to 127.0.0.1:{} 127.0.0.1:{living}\nlb_policy first\nlb_retries 2\nlb_retry_match {{\nmethod POST\npath /again\n}}",
        dying.port
    ));
    let ask = |method: &str, path: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
        );
        exchange(server.port, request).status
    };
    assert_eq!(ask("POST", "/again"), 200);
    assert_eq!(ask("POST", "/once"), 502);
    assert_eq!(ask("GET", "/again"), 502, "the matcher decides alone");
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

#[test]
fn an_unforgeable_cookie_selects_the_same_upstream() {
    let ports: Vec<u16> = ["a", "b", "c"]
        .map(|word| saying(Ipv4Addr::LOCALHOST, 0, word))
        .to_vec();
    let to: String = ports
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    let server = proxy(&format!(
        "to{to}\nlb_policy cookie seat s3cret {{\nmax_age 1h\n}}"
    ));
    let ask = |cookie: &str| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: x=y; seat={cookie}\r\nConnection: close\r\n\r\n"
        );
        exchange(server.port, request)
    };
    let first = ask("nobody");
    let set = first.field("Set-Cookie").expect("a cookie").to_owned();
    let cookie = set
        .strip_prefix("seat=")
        .and_then(|rest| rest.split(';').next())
        .expect("the named cookie");
    assert!(set.contains("Max-Age=3600"), "{set}");
    assert!(cookie.len() == 64 && !ports.iter().any(|port| cookie.contains(&port.to_string())));
    for _ in 0..8 {
        let again = ask(cookie);
        assert_eq!(again.text(), first.text());
        assert_eq!(again.field("Set-Cookie"), None);
    }
    let forged = format!("{}0", &cookie[..63]);
    assert!(forged == cookie || ask(&forged).field("Set-Cookie").is_some());
}

/// The value of a metric with labels.
fn sample(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[test]
fn failures_leave_a_share_of_the_upstreams_in() {
    let bad = Upstream::responding("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno");
    let more: Vec<Upstream> = (0..3)
        .map(|_| Upstream::responding("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"))
        .collect();
    let ports = [bad.port, more[0].port, more[1].port, more[2].port];
    let to: String = ports
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    let statuses = |server: &Server| {
        let mut client = Client::connect(server.port);
        let mut found: Vec<u16> = (0..12).map(|_| client.get("/").status).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let block = format!("to{to}\nlb_policy round_robin\nfail_duration 1m\nunhealthy_status 5xx");
    // As in Caddy all of them may be unhealthy, and then there is no upstream left.
    let server = proxy(&block);
    assert_eq!(statuses(&server), [500, 503]);
    let mut server = proxy(&format!("{block}\nmax_ejected 50%"));
    assert_eq!(statuses(&server), [500]);
    let page = admin(&mut server, "/metrics").text();
    let failing = ports.iter().filter(|port| {
        let labels = format!("{{by=\"failures\",upstream=\"127.0.0.1:{port}\"}}");
        sample(&page, &format!("sluice_upstream_healthy{labels}")) == Some(0.0)
    });
    assert_eq!(
        failing.count(),
        4,
        "they are told to fail, all the same: {page}"
    );
}

#[test]
fn upstream_states_are_shown() {
    let good = saying(Ipv4Addr::LOCALHOST, 0, "good");
    let passes = Arc::new(AtomicBool::new(true));
    let check = passes.clone();
    let broken = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let is_check = head[0].contains("/health") && check.load(Ordering::SeqCst);
            let status = if is_check { 200 } else { 500 };
            let said = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nno");
            if wire.try_send(said).is_err() {
                return;
            }
        }
    });
    let bad = broken.port;
    let mut server = proxy(&format!(
        "to 127.0.0.1:{good} 127.0.0.1:{bad}\nlb_policy least_conn\nfail_duration 1m\nmax_fails 1000\n\
         unhealthy_status 500\ncircuit_breaker status_ratio 50% {{\nmin_requests 3\ntrip_duration 1m\n}}\n\
         health_uri /health\nhealth_interval 50ms"
    ));
    // Random choice among the idle ones: it is practically impossible that none of sixty goes to one of two.
    for _ in 0..60 {
        server.ask("/");
    }
    passes.store(false, Ordering::SeqCst);
    let _port = server.admin;
    let look = || {
        let response = admin(&mut server, "/reverse_proxy/upstreams");
        assert_eq!(response.field("Content-Type"), Some("application/json"));
        let shown: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        (find(&shown, bad)["healthy_by"]["checks"] == false).then_some(shown)
    };
    let shown = until(TIMEOUT, "a failed health check", look, String::new);
    let (well, ill) = (find(&shown, good), find(&shown, bad));
    assert_eq!(well["healthy"], true, "{shown}");
    assert_eq!(
        (&well["num_requests"], &well["fails"]),
        (&0.into(), &0.into())
    );
    assert_eq!(ill["healthy"], false);
    assert_eq!(ill["healthy_by"]["circuit"], false);
    assert_eq!(
        ill["healthy_by"]["failures"], true,
        "a thousand are allowed"
    );
    assert_eq!(ill["circuit_trips"], 1);
    assert_eq!(ill["fails"], 3, "the circuit opened with the third");
    let page = admin(&mut server, "/metrics").text();
    for (series, labels, value) in [
        ("caddy_reverse_proxy_upstreams_healthy", "", 0.0),
        ("sluice_upstream_circuit_trips_total", "", 1.0),
        ("sluice_upstream_failures", "", 3.0),
        ("sluice_upstream_requests_in_flight", "", 0.0),
        ("sluice_upstream_healthy", "by=\"checks\",", 0.0),
        ("sluice_upstream_healthy", "by=\"failures\",", 1.0),
        ("sluice_upstream_healthy", "by=\"circuit\",", 0.0),
    ] {
        let name = format!("{series}{{{labels}upstream=\"127.0.0.1:{bad}\"}}");
        assert_eq!(sample(&page, &name), Some(value), "{name}\n{page}");
    }
    assert_eq!(admin(&mut server, "/reverse_proxy/other").status, 404);
}

fn find(shown: &serde_json::Value, port: u16) -> serde_json::Value {
    let address = format!("127.0.0.1:{port}");
    let list = shown.as_array().cloned().unwrap_or_default();
    let found = list.into_iter().find(|one| one["address"] == *address);
    found.unwrap_or_else(|| panic!("{address} is not in {shown}"))
}

#[test]
fn large_reads_are_taken_where_that_is_set() {
    let length = 3_000_000;
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let _ = field(&head, "Host");
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ));
            wire.send(vec![b'x'; length]);
        }
    });
    for size in ["4KiB", "1MiB"] {
        let server = proxy(&format!(
            "to 127.0.0.1:{}\ntransport http {{\nread_buffer {size}\n}}",
            upstream.port
        ));
        for _ in 0..2 {
            assert_eq!(server.ask("/").body.len(), length, "{size}");
        }
    }
}

#[test]
fn unverified_certificates_are_reported() {
    let server = proxy("to https://127.0.0.1:1\ntransport http {\ntls_insecure_skip_verify\n}");
    server.wait_for_words("the certificates of upstreams are not verified");
    assert!(
        server.stderr().contains("127.0.0.1:1"),
        "{}",
        server.stderr()
    );
    let server = proxy("to https://127.0.0.1:1");
    assert_eq!(server.ask("/").status, 502);
    assert!(!server.stderr().contains("are not verified"));
}

#[test]
fn while_one_of_four_upstreams_is_down_no_request_fails() {
    let live = [(); 3].map(|()| saying(Ipv4Addr::LOCALHOST, 0, "ok"));
    for policy in [
        "random",
        "round_robin",
        "least_conn",
        "ip_hash",
        "uri_hash",
        "first",
    ] {
        let server = proxy(&format!(
            "to 127.0.0.1:{} 127.0.0.1:{} 127.0.0.1:{} 127.0.0.1:{}\nlb_policy {policy}",
            dead(),
            live[0],
            live[1],
            live[2]
        ));
        let mut client = Client::connect(server.port);
        for number in 0..40 {
            let response = client.get(&format!("/{number}"));
            assert_eq!(response.status, 200, "{policy}");
        }
    }
}
