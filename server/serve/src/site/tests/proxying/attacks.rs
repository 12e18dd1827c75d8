//! Classes of vulnerabilities found in other proxies, as far as the tests of each feature do not cover them;
//! docs/attacks.md maps them to tests.

use std::net::Ipv4Addr;
use std::time::Instant;

use super::dns::{Dns, Mood, Record};
use super::*;

/// Hop-by-hop headers of the upstream's connection are not forwarded with any kind of response, including protocol
/// upgrades, and neither are headers listed in `Connection`.
#[test]
fn connection_headers_of_upstreams_are_removed_from_every_kind_of_response() {
    const HOPS: &str = "Connection: X-Hop, Upgrade, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
        Proxy-Authenticate: Basic\r\nProxy-Connection: close\r\nAlt-Svc: h3=\":1\"\r\nX-End: 2\r\n";
    for (line, end) in [
        ("101 Switching Protocols", "Upgrade: echo\r\n\r\n"),
        (
            "103 Early Hints",
            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("200 OK", "Content-Length: 0\r\n\r\n"),
        ("304 Not Modified", "\r\n"),
        (
            "500 Internal Server Error",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ] {
        let fake = Fake::new(move |mut peer| {
            peer.head();
            peer.send(format!("HTTP/1.1 {line}\r\n{HOPS}{end}"));
        });
        let proxy = Proxy::to(&[&fake]);
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
        let head = read_head(&mut client.socket).unwrap().to_ascii_lowercase();
        assert!(
            head.starts_with(&format!("http/1.1 {}", &line[..3])),
            "{head}"
        );
        for gone in ["x-hop", "timeout=5", "proxy-", "alt-svc"] {
            assert!(!head.contains(gone), "{gone}: {head}");
        }
        assert!(head.contains("x-end: 2"), "{head}");
    }
}

/// A client cannot use `Connection` to remove a header that we set.
#[test]
fn what_a_proxy_sets_cannot_be_named_away() {
    let fake = Fake::responding(HI);
    let proxy = Proxy::with(
        &[&fake],
        json!({ "headers": { "request": { "set": { "X-Auth": ["ours"] } } } }),
    );
    proxy.ask(
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Auth, X-Forwarded-For, Via, Host\r\nX-Auth: theirs\r\n\r\n",
    );
    let seen = fake.last();
    assert_eq!(lines_named(&seen, "X-Auth"), ["ours"]);
    assert_eq!(lines_named(&seen, "X-Forwarded-For"), ["127.0.0.1"]);
    assert_eq!(lines_named(&seen, "Host"), ["x"]);
    assert_eq!(lines_named(&seen, "Via"), ["1.1 sluice"]);
}

/// The rest of a response after the status line.
const FRAMINGS: [&str; 8] = [
    "\r\n",
    "Content-Length: 0\r\n\r\n",
    "Content-Length: 2\r\n\r\nab",
    "Content-Length: 5\r\n\r\nab",
    "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n2\r\nab",
    "Transfer-Encoding: gzip\r\n\r\nab",
    "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab",
];

/// Responds to each request with the status and framing in its path, then closes.
fn as_asked() -> Fake {
    Fake::new(|mut peer| {
        let Some(head) = peer.head() else { return };
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        let status = parts.next().unwrap_or("200");
        let framing = parts.next().and_then(|number| number.parse::<usize>().ok());
        let framing = FRAMINGS[framing.unwrap_or(1)];
        peer.send(format!("HTTP/1.1 {status} X\r\n{framing}"));
        let _ = peer.socket.shutdown(std::net::Shutdown::Write);
        // Read the rest of the request, so that closing does not cause a reset.
        let _ = std::io::copy(&mut peer.socket, &mut std::io::sink());
    })
}

/// Combines each method, with and without a body, with each status in each framing: the client always gets a response
/// or a close, nothing panics, and the next request is served.
#[test]
fn every_combination_of_request_and_response_is_survived() {
    let bodies = [
        "\r\n",
        "Content-Length: 2\r\n\r\nab",
        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ];
    let fake = as_asked();
    let proxy = Proxy::to(&[&fake]);
    let began = Instant::now();
    let mut count = 0;
    for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PURGE"] {
        for body in bodies {
            for status in [100, 101, 199, 200, 204, 205, 206, 303, 304, 416, 503, 599] {
                for framing in 0..FRAMINGS.len() {
                    let mut client = proxy.connect();
                    client.send(format!(
                        "{method} /{status}/{framing} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{body}"
                    ));
                    let all = client.rest();
                    let said = format!("{method} {status} {framing} {body:?}: {all:?}");
                    assert!(all.is_empty() || all.starts_with(b"HTTP/1.1 "), "{said}");
                    if matches!(status, 204 | 304) || method == "HEAD" {
                        assert!(all.is_empty() || all.ends_with(b"\r\n\r\n"), "{said}");
                    }
                    count += 1;
                }
            }
        }
    }
    assert!(
        count > 1_700 && began.elapsed() < Duration::from_secs(60),
        "{count} in {:?}",
        began.elapsed()
    );
    let counters = proxy.workers.as_ref().unwrap().counters();
    assert!(counters.iter().all(|worker| worker.panics.value() == 0));
    assert_eq!(
        proxy.ask("GET /200/2 HTTP/1.1\r\nHost: x\r\n\r\n").body,
        b"ab"
    );
}

/// Requests for other hosts reach only our own upstream, and do not open tunnels.
#[test]
fn nobody_is_connected_to_where_a_request_points() {
    let fake = Fake::responding(HI);
    let elsewhere = Fake::called("elsewhere");
    let proxy = Proxy::to(&[&fake]);
    let there = elsewhere.address;
    let connect = proxy.ask(&format!(
        "CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\n"
    ));
    assert_eq!(connect.status(), 405);
    let absolute = proxy.ask(&format!(
        "GET http://{there}/x HTTP/1.1\r\nHost: {there}\r\n\r\n"
    ));
    assert_eq!(absolute.body, b"hi");
    assert_eq!(elsewhere.accepted(), 0);
    assert!(
        !fake.seen().iter().any(|head| head.starts_with("CONNECT")),
        "{:?}",
        fake.seen()
    );
}

/// A path as interpreted by lenient servers: decoded once, with dot segments resolved, slashes merged and in lower
/// case.
fn leniently(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let hex = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    let plain = String::from_utf8_lossy(&plain).to_ascii_lowercase();
    let mut segments: Vec<&str> = Vec::new();
    for segment in plain.split('/') {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Variants of `/admin/secret.txt`.
const WAYS: [&str; 22] = [
    "/admin/secret.txt",
    "//admin/secret.txt",
    "/admin//secret.txt",
    "/./admin/secret.txt",
    "/admin/./secret.txt",
    "/a/../admin/secret.txt",
    "/a/b/../../admin/secret.txt",
    "/%61dmin/secret.txt",
    "/%61%64%6d%69%6e/secret.txt",
    "/ADMIN/secret.txt",
    "/Admin/secret.txt",
    "/a/%2e%2e/admin/secret.txt",
    "/a/%2E./admin/secret.txt",
    "/a/..%2fadmin/secret.txt",
    "/a%2f..%2fadmin/secret.txt",
    "/admin%2fsecret.txt",
    "/%2fadmin/secret.txt",
    "/admin/x/../secret.txt",
    "/admin/../admin/secret.txt",
    "/../admin/secret.txt",
    "/%2e%2e/admin/secret.txt",
    "/a/../%61dmin/%2e/secret.txt",
];

/// A rule for a path applies however the path is written: neither an upstream with lenient path parsing nor our file
/// server exposes what the rule forbids.
#[test]
fn rules_about_paths_hold_however_they_are_written() {
    let folder = std::env::temp_dir().join(format!("sluice-acl-{}", std::process::id()));
    for name in ["admin", "ADMIN", "Admin", "a/b"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join("secret.txt"), "secret").unwrap();
    }
    let fake = Fake::responding(HI);
    let forbid = json!({
        "match": [{ "path": ["/admin/*", "/admin"] }],
        "handle": [{ "handler": "static_response", "status_code": 403 }], "terminal": true
    });
    let proxied = Proxy::serving(json!({ "routes": [forbid, { "handle": [
        { "handler": "reverse_proxy", "upstreams": [{ "dial": fake.address.to_string() }] }
    ] }] }));
    let served = Proxy::serving(json!({ "routes": [forbid, { "handle": [
        { "handler": "file_server", "root": folder.to_str().unwrap() }
    ] }] }));
    for way in WAYS {
        let request = format!("GET {way} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        proxied.ask(&request);
        let response = served.ask(&request);
        assert!(
            !response.body.starts_with(b"secret"),
            "{way} is served: {}",
            response.head
        );
    }
    let passed: Vec<_> = fake
        .seen()
        .iter()
        .map(|head| head.split(' ').nth(1).unwrap().to_owned())
        .filter(|target| leniently(target).starts_with("/admin"))
        .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(passed.is_empty(), "{passed:?}");
}

/// A path parameter is part of its segment, both for rules and for the upstream (RFC 3986, section 3.3).
#[test]
fn the_rule_and_the_upstream_see_the_same_parameters_of_a_path() {
    let fake = Fake::responding(HI);
    let forbid = json!({
        "match": [{ "path": ["/admin*"] }],
        "handle": [{ "handler": "static_response", "status_code": 403 }], "terminal": true
    });
    let proxy = Proxy::serving(json!({ "routes": [forbid, { "handle": [
        { "handler": "reverse_proxy", "upstreams": [{ "dial": fake.address.to_string() }] }
    ] }] }));
    for (path, status) in [
        ("/admin;x=1/y", 403),
        ("/a;/../admin", 403),
        ("/x;a=b/y;c", 200),
    ] {
        let response = proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(response.status(), status, "{path}");
    }
    assert!(
        fake.last().starts_with("GET /x;a=b/y;c HTTP/1.1\r\n"),
        "{}",
        fake.last()
    );
}

#[test]
fn a_dns_server_that_babbles_is_as_good_as_silent() {
    let fake = Fake::called("up");
    let dns = Dns::knowing(vec![("app.test.", Record::Address(Ipv4Addr::LOCALHOST))]);
    dns.mood(Mood::Babbles);
    let proxy = Proxy::serving(json!({ "routes": [{ "handle": [{
        "handler": "reverse_proxy",
        "dynamic_upstreams": {
            "source": "a", "name": "app.test", "port": fake.address.port().to_string(),
            "resolver": { "addresses": [dns.address.to_string()] },
            "versions": { "ipv4": true }, "dial_timeout": "100ms",
        },
    }] }] }));
    for _ in 0..6 {
        let began = Instant::now();
        assert_eq!(proxy.ask(GET).status(), 503);
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
        // Requests between two attempts of the resolver, and after several.
        thread::sleep(Duration::from_millis(400));
    }
    dns.mood(Mood::Replies);
    eventually("its recovery", || proxy.ask(GET).status() == 200);
}
