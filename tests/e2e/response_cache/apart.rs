//! Requests that are not for the same response: by prefixes that routes remove, headers, and what proxies in front say.

use sluice_net::sys::process::Signal;

use super::{admin, ask, caching, get, is_cached, proxying, reported};
use crate::harness::Setup;
use crate::nginx::cache::{Origin, say};
use crate::wire::field;

const UUID: &str = "respond \"{http.request.uuid}\"";

#[test]
fn prefixes_that_routes_remove_keep_responses_apart() {
    let site = "handle_path /one/* {\n\t\tcache\n\t\trespond \"one {http.request.uuid}\"\n\t}\n\t\
                handle_path /two/* {\n\t\tcache\n\t\trespond \"two {http.request.uuid}\"\n\t}";
    let server = caching("purge 127.0.0.1", site).start();
    for path in ["/one/a", "/two/a", "/one/b", "/one/b?q"] {
        is_cached(&server, path);
    }
    assert!(get(&server, "/two/a").text().starts_with("two "));
    let shown = get(&server, "/one/b?q");
    let key = format!("key=\"GET-http:{}-a.test-/one/b /b?q\"", server.port);
    assert!(shown.head.contains(&key), "{}", shown.head);
    assert_eq!(ask(&server, "PURGE", "/one/a", "").status, 204);
    assert_eq!(reported(&get(&server, "/two/a")), "hit");
    assert!(reported(&get(&server, "/one/a")).starts_with("fwd=miss"));
    assert_eq!(ask(&server, "PURGE", "/one/*", "").status, 204);
    assert_eq!(reported(&get(&server, "/two/a")), "hit");
    for path in ["/one/a", "/one/b", "/one/b?q"] {
        assert!(
            reported(&get(&server, path)).starts_with("fwd=miss"),
            "{path}"
        );
    }
}

#[test]
fn an_absolute_target_is_the_same_resource() {
    let server = caching("", &format!("cache\n\t{UUID}")).start();
    is_cached(&server, "/");
    for target in ["http://a.test", "http://a.test/"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let response = crate::client::exchange(server.port, request);
        assert_eq!(reported(&response), "hit", "{}", response.head);
    }
}

#[test]
fn variants_by_headers_are_removed_together() {
    let origin = Origin::describing(&[("/a", "Vary: X-Lang")]);
    let options = "headers X-Tenant\n\t\tpurge 127.0.0.1";
    let server = proxying(origin.upstream.port, options);
    let fill = || {
        for tenant in ["one", "two"] {
            for lang in ["de", "fr"] {
                let fields = format!("X-Tenant: {tenant}\r\nX-Lang: {lang}\r\n");
                let first = ask(&server, "GET", "/a", &fields);
                assert!(reported(&first).ends_with("stored"), "{}", first.head);
                let second = ask(&server, "GET", "/a", &fields);
                assert_eq!(reported(&second), "hit", "{}", second.head);
            }
        }
    };
    fill();
    assert_eq!(origin.count("/a"), 4);
    let keys = admin(&server, "GET", "/souin-api/souin").text();
    assert!(
        keys.contains("-/a\"") && !keys.contains("one"),
        "no values of headers: {keys}"
    );
    assert_eq!(ask(&server, "PURGE", "/a", "").status, 204);
    fill();
    let changed = ask(
        &server,
        "POST",
        "/a",
        "X-Tenant: one\r\nContent-Length: 0\r\n",
    );
    assert_eq!(changed.status, 200);
    fill();
}

#[test]
fn headers_that_a_reload_adds_count_for_older_responses() {
    let site = format!("cache\n\t{UUID}");
    let server = caching("", &site).start();
    is_cached(&server, "/a");
    let before = get(&server, "/a").text();
    server.write(&super::caddyfile("headers X-Tenant", &site));
    server.signal(Signal::Hangup);
    server.wait_for_words("configuration loaded");
    let after = ask(&server, "GET", "/a", "X-Tenant: one\r\n");
    assert_eq!(reported(&after), "fwd=miss; stored", "{}", after.head);
    assert_ne!(after.text(), before);
    let other = get(&server, "/a");
    assert_eq!(reported(&other), "fwd=miss; stored", "{}", other.head);
}

/// An upstream that responds with the host that its proxy names.
fn naming() -> Origin {
    Origin::start(|wire, head, _| {
        let host = field(head, "X-Forwarded-Host").unwrap_or("-").to_owned();
        say(wire, "200 OK", "", &host);
    })
}

#[test]
fn clients_cannot_put_another_host_into_responses() {
    let origin = naming();
    let server = proxying(origin.upstream.port, "");
    let first = ask(&server, "GET", "/a", "X-Forwarded-Host: evil.test\r\n");
    assert_eq!(
        (reported(&first).as_str(), first.text().as_str()),
        ("fwd=miss; fwd-status=200; stored", "a.test")
    );
    let second = get(&server, "/a");
    assert_eq!(
        (reported(&second).as_str(), second.text().as_str()),
        ("hit", "a.test")
    );
}

#[test]
fn what_trusted_proxies_say_keeps_responses_apart() {
    let origin = naming();
    let port = origin.upstream.port;
    let server = Setup::new(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}}\n}}\n\
         :{{port}} {{\n\tcache {{\n\t\tdisk {{folder}}/cache\n\t}}\n\treverse_proxy 127.0.0.1:{port}\n}}\n"
    ))
    .start();
    for (fields, host) in [
        ("X-Forwarded-Host: evil.test\r\n", "evil.test"),
        ("", "a.test"),
        ("X-Forwarded-Proto: https\r\n", "a.test"),
    ] {
        for expected in ["fwd=miss; fwd-status=200; stored", "hit"] {
            let response = ask(&server, "GET", "/a", fields);
            assert_eq!(
                (reported(&response).as_str(), response.text().as_str()),
                (expected, host),
                "{fields}"
            );
        }
    }
}
