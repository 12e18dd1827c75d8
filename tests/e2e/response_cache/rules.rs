//! Which responses are stored, and for whom.

use super::{ask, caching, get, is_cached, proxying, reported};
use crate::nginx::cache::{Origin, counted, say, target};

#[test]
fn responses_say_whether_they_are_stored() {
    let origin = Origin::describing(&[
        ("/private", "Cache-Control: private, max-age=60"),
        ("/no-store", "Cache-Control: no-store"),
        ("/cookie", "Cache-Control: max-age=60|Set-Cookie: a=b"),
        ("/vary", "Vary: *"),
        ("/stale", "Cache-Control: max-age=0"),
        ("/events", "Content-Type: text/event-stream; charset=utf-8"),
        ("/nginx", "X-Accel-Expires: 60|Cache-Control: private"),
        ("/max-age", "Cache-Control: max-age=60"),
        ("/expires", "Expires: Thu, 31 Dec 2099 00:00:00 GMT"),
    ]);
    let server = proxying(origin.upstream.port, "");
    for path in [
        "/private",
        "/no-store",
        "/cookie",
        "/vary",
        "/stale",
        "/events",
        "/nginx",
    ] {
        for count in 1..=2 {
            let response = get(&server, path);
            assert_eq!(reported(&response), "fwd=miss; fwd-status=200", "{path}");
            assert_eq!(origin.count(path), count, "{path}");
        }
    }
    for path in ["/max-age", "/expires", "/plain"] {
        is_cached(&server, path);
        assert_eq!(origin.count(path), 1);
    }
    assert_eq!(counted(&server, "sluice_cache_stored_total"), 3);
    let page = server.metrics();
    let hits = page
        .lines()
        .find(|line| line.starts_with("sluice_cache_requests_total") && line.contains("\"hit\""));
    assert!(hits.is_some_and(|line| line.ends_with(" 3")), "{page}");
}

#[test]
fn statuses_and_sizes_are_limited() {
    let origin = Origin::start(|wire, head, _| {
        let (status, body) = match target(head) {
            "/404" => ("404 Not Found", "none".to_owned()),
            "/302" => ("302 Found", "elsewhere".to_owned()),
            "/307" => ("307 Temporary Redirect", "elsewhere".to_owned()),
            "/500" => ("500 Internal Server Error", "broken".to_owned()),
            "/long" => ("200 OK", "x".repeat(101)),
            _ => ("200 OK", "x".repeat(100)),
        };
        match target(head) {
            // Its length is not known before its end.
            "/chunks" => {
                let _ = wire.try_send(format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n{}\r\n0\r\n\r\n",
                    "y".repeat(101)
                ));
            }
            _ => say(wire, status, "", &body),
        }
    });
    let options = "allowed_additional_status_codes 302\n\t\tmax_cacheable_body_bytes 100";
    let server = proxying(origin.upstream.port, options);
    for path in ["/404", "/302", "/fits"] {
        is_cached(&server, path);
    }
    for path in ["/307", "/500", "/long", "/chunks"] {
        for count in 1..=2 {
            let response = get(&server, path);
            assert!(
                reported(&response).starts_with("fwd=miss"),
                "{path}: {}",
                response.head
            );
            assert_eq!(origin.count(path), count, "{path}");
        }
    }
    assert_eq!(get(&server, "/chunks").body.len(), 101);
}

#[test]
fn variants_and_keys_keep_responses_apart() {
    let origin = Origin::describing(&[("/vary", "Vary: X-Lang")]);
    let options = "headers X-Tenant\n\t\tkey {\n\t\t\tsort_query\n\t\t}\n\t\tcache_keys ^/one {\n\t\t\t\
                   disable_query\n\t\t\thide\n\t\t}";
    let server = proxying(origin.upstream.port, options);
    for lang in ["de", "fr"] {
        let fields = format!("X-Lang: {lang}\r\n");
        let reported = |expected: &str| {
            let response = ask(&server, "GET", "/vary", &fields);
            assert_eq!(super::reported(&response), expected, "{lang}");
        };
        reported("fwd=miss; fwd-status=200; stored");
        reported("hit");
    }
    assert_eq!(origin.count("/vary"), 2);
    for (path, fields, is_hit) in [
        ("/a?b=1&a=2", "", false),
        ("/a?a=2&b=1", "", true),
        ("/a?a=2&b=1", "X-Tenant: t\r\n", false),
        ("/a?a=2&b=1", "X-Tenant: t\r\n", true),
        ("/one?a", "", false),
        ("/one?b", "", true),
    ] {
        let response = ask(&server, "GET", path, fields);
        assert_eq!(reported(&response) == "hit", is_hit, "{path} {fields}");
        let shows_key = response.head.contains("; key=\"");
        assert_eq!(shows_key, !path.starts_with("/one"), "{}", response.head);
    }
    let other_host = "GET /a?a=2&b=1 HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n";
    let response = crate::client::exchange(server.port, other_host);
    assert!(
        reported(&response).starts_with("fwd=miss"),
        "{}",
        response.head
    );
}

#[test]
fn responses_for_one_client_are_not_given_to_another() {
    let origin = Origin::describing(&[
        ("/public", "Cache-Control: public, max-age=60"),
        ("/auth", ""),
    ]);
    let port = origin.upstream.port;
    let site = format!(
        "cache\n\thandle /auth/* {{\n\t\tforward_auth 127.0.0.1:{port} {{\n\t\t\turi /auth\n\t\t}}\n\t\t\
         reverse_proxy 127.0.0.1:{port}\n\t}}\n\thandle {{\n\t\treverse_proxy 127.0.0.1:{port}\n\t}}"
    );
    let server = caching("", &site).start();
    let known = "Authorization: Basic eDp5\r\n";
    for count in 1..=2 {
        let response = ask(&server, "GET", "/a", known);
        assert_eq!(reported(&response), "fwd=miss; fwd-status=200");
        assert_eq!(origin.count("/a"), count);
        // A subrequest has admitted the client, perhaps by a cookie.
        let response = ask(&server, "GET", "/auth/a", "Cookie: session=1\r\n");
        assert_eq!(reported(&response), "fwd=miss; fwd-status=200");
        assert_eq!(origin.count("/auth/a"), count);
    }
    let response = ask(&server, "GET", "/public", known);
    assert_eq!(reported(&response), "fwd=miss; fwd-status=200; stored");
    assert_eq!(reported(&get(&server, "/public")), "hit");
    let response = ask(&server, "GET", "/b", "Cache-Control: no-store\r\n");
    assert_eq!(reported(&response), "fwd=miss; fwd-status=200");
    assert!(reported(&get(&server, "/b")).ends_with("stored"));
}

#[test]
fn modes_decide_whose_headers_count() {
    let fields = [("/a", "Cache-Control: no-store"), ("/b", "")];
    for (mode, stores, reads) in [
        ("strict", false, true),
        ("bypass_request", false, false),
        ("bypass_response", true, true),
        ("bypass", true, false),
    ] {
        let origin = Origin::describing(&fields);
        let server = proxying(origin.upstream.port, &format!("mode {mode}"));
        get(&server, "/a");
        assert_eq!(reported(&get(&server, "/a")) == "hit", stores, "{mode}");
        get(&server, "/b");
        let response = ask(&server, "GET", "/b", "Cache-Control: no-cache\r\n");
        assert_eq!(reported(&response) == "hit", !reads, "{mode}");
    }
}

#[test]
fn responses_without_cache_control_get_the_default() {
    let origin = Origin::describing(&[("/b", "Cache-Control: max-age=5")]);
    let options = "default_cache_control \"public, max-age=77\"";
    let server = proxying(origin.upstream.port, options);
    for _ in 0..2 {
        let response = get(&server, "/a");
        let value = response.field("Cache-Control");
        assert_eq!(value, Some("public, max-age=77"), "{}", response.head);
        assert_eq!(get(&server, "/b").field("Cache-Control"), Some("max-age=5"));
    }
    let status = get(&server, "/a");
    let status = status.field("Cache-Status").unwrap_or_default();
    assert!(status.contains("ttl=7"), "{status}");
}
