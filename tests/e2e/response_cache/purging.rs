//! How cached responses are removed.

use super::{admin, ask, caching, get, is_cached, proxying, reported};
use crate::nginx::cache::Origin;

#[test]
fn clients_at_some_addresses_may_purge() {
    let origin = Origin::describing(&[]);
    let server = proxying(origin.upstream.port, "purge 127.0.0.1");
    for path in ["/a", "/b/1", "/b/2"] {
        is_cached(&server, path);
    }
    assert_eq!(ask(&server, "PURGE", "/a", "").status, 204);
    assert_eq!(ask(&server, "PURGE", "/a", "").status, 404);
    assert_eq!(ask(&server, "PURGE", "/b/*", "").status, 204);
    for path in ["/a", "/b/1", "/b/2"] {
        assert!(
            reported(&get(&server, path)).starts_with("fwd=miss"),
            "{path}"
        );
    }
    assert_eq!(origin.count("/b/*"), 0, "no handler sees the request");
    let other = proxying(origin.upstream.port, "purge 192.0.2.1");
    is_cached(&other, "/c");
    assert_eq!(ask(&other, "PURGE", "/c", "").status, 403);
    assert_eq!(reported(&get(&other, "/c")), "hit");
}

#[test]
fn without_the_option_nobody_purges_by_method() {
    let server = caching("", "cache\n\trespond /a \"{method}\" 405\n\trespond ok").start();
    is_cached(&server, "/b");
    let response = ask(&server, "PURGE", "/a", "");
    assert_eq!((response.status, response.text().as_str()), (405, "PURGE"));
    assert_eq!(reported(&get(&server, "/b")), "hit");
}

#[test]
fn the_admin_api_lists_and_removes_responses() {
    let origin = Origin::describing(&[]);
    let server = proxying(origin.upstream.port, "");
    for path in ["/a?q=1", "/b/1", "/b/2"] {
        is_cached(&server, path);
    }
    let keys = || -> Vec<String> {
        let list = admin(&server, "GET", "/souin-api/souin");
        serde_json::from_slice(&list.body).expect("a list of keys")
    };
    let beginning = format!("GET-http:{}-a.test-", server.port);
    let key = |path: &str| format!("{beginning}{path}");
    assert_eq!(keys(), [key("/a?q=1"), key("/b/1"), key("/b/2")]);
    let purge = |key: &str| admin(&server, "PURGE", &format!("/souin-api/souin/{key}")).status;
    assert_eq!(purge(&key("/a?q=1")), 204);
    assert_eq!(keys(), [key("/b/1"), key("/b/2")]);
    assert_eq!(purge(&key("/b/*")), 204);
    assert!(keys().is_empty());
    is_cached(&server, "/b/1");
    assert_eq!(purge("flush"), 204);
    assert!(reported(&get(&server, "/b/1")).starts_with("fwd=miss"));
    assert_eq!(purge(""), 400);
    assert_eq!(admin(&server, "POST", "/souin-api/souin/flush").status, 405);
}

#[test]
fn successful_changes_make_responses_invalid() {
    let origin = Origin::describing(&[]);
    let port = origin.upstream.port;
    let site = format!(
        "cache\n\t@refused method DELETE\n\trespond @refused 403\n\treverse_proxy 127.0.0.1:{port}"
    );
    let server = caching("", &site).start();
    is_cached(&server, "/a");
    assert_eq!(ask(&server, "DELETE", "/a", "").status, 403);
    assert_eq!(reported(&get(&server, "/a")), "hit", "nothing has changed");
    let response = ask(&server, "POST", "/a", "Content-Length: 0\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Cache-Status"), None);
    assert_eq!(
        reported(&get(&server, "/a")),
        "fwd=miss; fwd-status=200; stored"
    );
}

#[test]
fn responses_are_purged_by_surrogate_keys() {
    let origin = Origin::describing(&[
        ("/a", "Surrogate-Key: news home"),
        ("/b", "Surrogate-Key: news"),
        ("/c", "Surrogate-Key: home, shop"),
    ]);
    let server = proxying(origin.upstream.port, "purge 127.0.0.1");
    let paths = ["/a", "/b", "/c", "/d"];
    paths.iter().for_each(|path| is_cached(&server, path));
    let keys = |list: &str| format!("Surrogate-Key: {list}\r\n");
    assert_eq!(ask(&server, "PURGE", "/d", &keys("other")).status, 404);
    assert_eq!(ask(&server, "PURGE", "/d", &keys("news other")).status, 204);
    let are_hits = |expected: [bool; 4]| {
        for (path, expected) in paths.iter().zip(expected) {
            assert_eq!(reported(&get(&server, path)) == "hit", expected, "{path}");
        }
    };
    are_hits([false, false, true, true]);
    let port = server.admin;
    let purge = |fields: &str| {
        let request = format!(
            "PURGE /souin-api/souin HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{fields}\r\n"
        );
        crate::client::exchange(port, request).status
    };
    assert_eq!(purge(""), 400);
    assert_eq!(purge(&keys("home")), 204);
    are_hits([false, true, false, true]);
}
