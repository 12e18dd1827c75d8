//! What is cached, and the responses to further requests for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Origin, ask, caching, eventually_stored, get, pair, request_field, seen, start};
use crate::harness::eventually;
use crate::nginx::setup;
use crate::support::cgi::{read_scgi, read_uwsgi};
use crate::support::fastcgi::{read_request, said};
use crate::upstream::Upstream;

/// Responses by path, with the headers that decide.
const RESPONSES: &[(&str, &str)] = &[
    ("/fresh", "Cache-Control: max-age=60"),
    ("/shared", "Cache-Control: max-age=0, s-maxage=60"),
    ("/accel", "Cache-Control: private|X-Accel-Expires: 60"),
    ("/expires", "Expires: Thu, 31 Dec 2099 23:59:59 GMT"),
    ("/private", "Cache-Control: private, max-age=60"),
    ("/no-cache", "Cache-Control: no-cache, max-age=60"),
    ("/cookie", "Cache-Control: max-age=60|Set-Cookie: a=b"),
    ("/accel-off", "Cache-Control: max-age=60|X-Accel-Expires: 0"),
    ("/old", "Cache-Control: max-age=60|Age: 61"),
    ("/star", "Cache-Control: max-age=60|Vary: *"),
    ("/nothing", ""),
    ("/vary", "Cache-Control: max-age=60|Vary: Accept-Language"),
    ("/public", "Cache-Control: public, max-age=60"),
    (
        "/whole",
        "Cache-Control: max-age=60|Etag: \"tag\"|Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT|Accept-Ranges: bytes",
    ),
    ("/usual", ""),
    ("/ignored", "Cache-Control: no-store|Set-Cookie: a=b"),
];

#[test]
fn responses_are_stored_by_their_headers_and_the_configuration() {
    let origin = Origin::describing(RESPONSES);
    let usual = format!(
        "location /usual {{ proxy_cache_valid 200 1m; proxy_pass http://127.0.0.1:{0}; }}\n\
         location /ignored {{ proxy_cache_valid 1m; proxy_ignore_headers Cache-Control Set-Cookie; proxy_pass http://127.0.0.1:{0}; }}",
        origin.upstream.port
    );
    let server = start(caching(origin.upstream.port, &usual));
    for path in [
        "/fresh", "/shared", "/accel", "/expires", "/usual", "/ignored",
    ] {
        let first = format!("{path} 0");
        assert_eq!(seen(&get(&server, path)), pair("MISS", &first), "{path}");
        let hit = get(&server, path);
        assert_eq!(seen(&hit), pair("HIT", &first), "{path}");
        assert!(hit.field("Age").is_some(), "{}", hit.head);
        assert_eq!(hit.field("X-Accel-Expires"), None, "{}", hit.head);
        assert_eq!(origin.count(path), 1, "{path}");
    }
    for path in [
        "/private",
        "/no-cache",
        "/cookie",
        "/accel-off",
        "/old",
        "/star",
        "/nothing",
    ] {
        for count in 0..2 {
            let expected = format!("{path} {count}");
            assert_eq!(seen(&get(&server, path)), pair("MISS", &expected), "{path}");
        }
    }
    // Another query is another response; private responses, and those the origin excludes, are not cached.
    assert_eq!(seen(&get(&server, "/fresh?a")), pair("MISS", "/fresh?a 0"));
    let private = "Authorization: Basic eDp5\r\n";
    for count in 0..2 {
        let response = ask(&server, "GET", "/fresh?b", private);
        assert_eq!(seen(&response), pair("MISS", &format!("/fresh?b {count}")));
        let response = ask(&server, "GET", "/fresh?c", "Cache-Control: no-store\r\n");
        assert_eq!(seen(&response), pair("MISS", &format!("/fresh?c {count}")));
    }
    ask(&server, "GET", "/public", private);
    assert_eq!(seen(&get(&server, "/public")), pair("HIT", "/public 0"));
    let page = server.metrics();
    let failures = page
        .lines()
        .find(|line| line.starts_with("sluice_cache_failures_total{"));
    assert!(failures.is_some_and(|line| line.ends_with(" 0")), "{page}");
    let hits = format!(
        "sluice_cache_requests_total{{store=\"{}/cache\",status=\"hit\"}} 7",
        server.folder.path().display()
    );
    assert!(page.contains(&hits), "{page}");
}

#[test]
fn variants_stand_side_by_side() {
    let origin = Origin::describing(RESPONSES);
    let server = start(caching(origin.upstream.port, ""));
    let in_language = |language: &str| {
        let fields = format!("Accept-Language: {language}\r\n");
        seen(&ask(&server, "GET", "/vary", &fields))
    };
    assert_eq!(in_language("en"), pair("MISS", "/vary 0"));
    assert_eq!(in_language("de"), pair("MISS", "/vary 1"));
    assert_eq!(in_language("en"), pair("HIT", "/vary 0"));
    assert_eq!(in_language("de"), pair("HIT", "/vary 1"));
    assert_eq!(seen(&get(&server, "/vary")), pair("MISS", "/vary 2"));
}

#[test]
fn other_methods_use_what_a_get_has_stored_or_change_it() {
    let origin = Origin::describing(RESPONSES);
    let post = format!(
        "location /post {{ proxy_cache_methods POST; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:{}; }}",
        origin.upstream.port
    );
    let server = start(caching(origin.upstream.port, &post));
    // HEAD fetches the whole response, which then serves both.
    let head = ask(&server, "HEAD", "/fresh", "");
    assert_eq!(head.field("X-Cache"), Some("MISS"));
    assert_eq!(head.field("Content-Length"), Some("8"), "{}", head.head);
    assert_eq!(origin.last("/fresh")[0], "GET /fresh HTTP/1.1");
    eventually_stored(&server, 1);
    assert_eq!(seen(&get(&server, "/fresh")), pair("HIT", "/fresh 0"));
    assert_eq!(origin.count("/fresh"), 1);
    assert_eq!(
        ask(&server, "HEAD", "/fresh", "").field("X-Cache"),
        Some("HIT")
    );
    // A successful unsafe method invalidates the cached response (RFC 9111, section 4.4).
    let changed = ask(&server, "POST", "/fresh", "Content-Length: 0\r\n");
    assert_eq!((changed.status, changed.field("X-Cache")), (200, None));
    assert_eq!(seen(&get(&server, "/fresh")), pair("MISS", "/fresh 2"));
    let with_content = "Content-Length: 1\r\n\r\nx";
    for _ in 0..2 {
        let request =
            format!("GET /fresh HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{with_content}");
        let response = crate::client::exchange(server.port, request);
        assert_eq!(
            response.field("X-Cache"),
            None,
            "a GET with content has nothing to do with it"
        );
    }
    for had in ["MISS", "HIT"] {
        let response = ask(&server, "POST", "/post", "Content-Length: 0\r\n");
        assert_eq!(seen(&response), pair(had, "/post 0"));
    }
}

#[test]
fn head_responses_are_stored_separately_if_the_key_contains_the_method() {
    let origin = Origin::describing(RESPONSES);
    let port = origin.upstream.port;
    let lines = format!(
        "proxy_cache_convert_head off;\n\
         location /fresh {{ proxy_cache_key $request_method$uri; proxy_pass http://127.0.0.1:{port}; }}"
    );
    let server = start(caching(port, &lines));
    for (method, had) in [
        ("HEAD", "MISS"),
        ("HEAD", "HIT"),
        ("GET", "MISS"),
        ("GET", "HIT"),
    ] {
        let response = ask(&server, method, "/fresh", "");
        assert_eq!(
            response.field("X-Cache"),
            Some(had),
            "{method}: {}",
            response.head
        );
        assert_eq!(
            response.field("Content-Length"),
            Some("8"),
            "{}",
            response.head
        );
        if method == "HEAD" {
            eventually_stored(&server, 1);
        } else {
            assert_eq!(response.text(), "/fresh 1");
        }
    }
    // The usual key does not include the method: a GET would get a response without a body.
    for _ in 0..2 {
        let response = ask(&server, "HEAD", "/shared", "");
        assert_eq!(response.field("X-Cache"), Some("MISS"));
    }
    assert_eq!(seen(&get(&server, "/shared")), pair("MISS", "/shared 2"));
    assert_eq!(origin.last("/fresh")[0], "GET /fresh HTTP/1.1");
}

#[test]
fn ranges_and_conditions_are_served_from_the_cached_response() {
    let origin = Origin::describing(RESPONSES);
    let server = start(caching(origin.upstream.port, ""));
    let with = |path: &str, fields: &str| ask(&server, "GET", path, fields);
    for had in ["MISS", "HIT"] {
        let part = with("/whole", "Range: bytes=1-3\r\n");
        assert_eq!(part.status, 206, "{}", part.head);
        assert_eq!(seen(&part), pair(had, "who"));
        assert_eq!(part.field("Content-Range"), Some("bytes 1-3/8"));
        eventually_stored(&server, 1);
    }
    assert_eq!(request_field(&origin.last("/whole"), "Range"), None);
    let end = with("/whole", "Range: bytes=-1\r\n");
    assert_eq!((end.status, end.text().as_str()), (206, "0"));
    let several = with("/whole", "Range: bytes=0-0,2-3\r\n");
    assert_eq!(several.status, 206);
    assert!(
        several
            .text()
            .contains("Content-Range: bytes 2-3/8\r\n\r\nho"),
        "{}",
        several.text()
    );
    let none = with("/whole", "Range: bytes=99-\r\n");
    assert_eq!(
        (none.status, none.field("Content-Range")),
        (416, Some("bytes */8"))
    );
    // It is a page of this server, which says nothing about the cached response.
    assert!(none.text().contains("416"), "{}", none.text());
    for name in [
        "Etag",
        "Last-Modified",
        "Cache-Control",
        "Age",
        "Accept-Ranges",
    ] {
        assert_eq!(none.field(name), None, "{}", none.head);
    }
    for wrong in ["bytes=x-y", "bytes=5-2"] {
        let response = with("/whole", &format!("Range: {wrong}\r\n"));
        assert_eq!(response.status, 416, "{wrong}");
    }
    let other = with("/whole", "Range: bytes=1-3\r\nIf-Range: \"other\"\r\n");
    assert_eq!((other.status, other.text().as_str()), (200, "/whole 0"));
    for fields in [
        "If-None-Match: \"tag\"\r\n",
        "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
    ] {
        let known = with("/whole", fields);
        assert_eq!(
            (known.status, known.field("X-Cache")),
            (304, Some("HIT")),
            "{fields}"
        );
        assert_eq!(known.field("Etag"), Some("\"tag\""));
    }
    let failed = with("/whole", "If-Match: \"other\"\r\n");
    assert_eq!((failed.status, failed.field("Etag")), (412, None));
    // The client's condition is not forwarded, and the complete response is cached anyway.
    let first = with("/whole?b", "If-None-Match: \"tag\"\r\n");
    assert_eq!((first.status, first.field("X-Cache")), (304, Some("MISS")));
    assert_eq!(
        request_field(&origin.last("/whole?b"), "If-None-Match"),
        None
    );
    eventually_stored(&server, 2);
    assert_eq!(seen(&get(&server, "/whole?b")).0, "HIT");
    assert_eq!(origin.count("/whole?b"), 1);
}

#[test]
fn requests_can_pass_by_the_store_and_empty_it() {
    let origin = Origin::describing(RESPONSES);
    let port = origin.upstream.port;
    let lines = format!(
        "proxy_cache_bypass $arg_bypass; proxy_no_cache $arg_never; proxy_cache_key $uri;\n\
         location /often {{ proxy_cache_min_uses 3; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:{port}; }}\n\
         location /far {{ proxy_cache_max_range_offset 4; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:{port}; }}\n\
         location /purge {{ proxy_cache_purge $arg_purge; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:{port}; \
         proxy_cache_key $uri$arg_all; }}\n\
         location /unbuffered {{ proxy_buffering off; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:{port}; }}"
    );
    let server = start(caching(port, &lines));
    let look = |path: &str| seen(&get(&server, path));
    assert_eq!(look("/fresh?never=1"), pair("MISS", "/fresh?never=1 0"));
    assert_eq!(look("/fresh"), pair("MISS", "/fresh 0"));
    assert_eq!(look("/fresh?bypass=0"), pair("HIT", "/fresh 0"));
    // A bypassed response is cached, so that others get it.
    assert_eq!(look("/fresh?bypass=1"), pair("BYPASS", "/fresh?bypass=1 0"));
    assert_eq!(look("/fresh"), pair("HIT", "/fresh?bypass=1 0"));
    for (count, had) in ["MISS", "MISS", "MISS", "HIT"].into_iter().enumerate() {
        assert_eq!(
            look("/often"),
            pair(had, &format!("/often {}", count.min(2)))
        );
    }
    for count in 0..2 {
        assert_eq!(
            look("/unbuffered"),
            pair("MISS", &format!("/unbuffered {count}"))
        );
    }
    let far = ask(&server, "GET", "/far", "Range: bytes=4-\r\n");
    assert_eq!(seen(&far), pair("MISS", "/far 0"));
    assert_eq!(
        request_field(&origin.last("/far"), "Range"),
        Some("bytes=4-")
    );
    let near = ask(&server, "GET", "/far", "Range: bytes=3-\r\n");
    assert_eq!((near.status, near.text().as_str()), (206, "r 1"));
    // Purging.
    for path in ["/purge/a", "/purge/b", "/purge/c"] {
        assert_eq!(look(path).0, "MISS");
        assert_eq!(look(path).0, "HIT");
    }
    assert_eq!(get(&server, "/purge/a?purge=1").status, 204);
    assert_eq!(get(&server, "/purge/a?purge=1").status, 404);
    assert_eq!(look("/purge/a").0, "MISS");
    assert_eq!(look("/purge/b").0, "HIT");
    assert_eq!(get(&server, "/purge/?all=*&purge=1").status, 204);
    for path in ["/purge/a", "/purge/b", "/purge/c"] {
        assert_eq!(look(path).0, "MISS");
    }
}

#[test]
fn responses_of_fastcgi_applications_are_cached() {
    let application = Upstream::start(|mut wire| {
        let mut count = 0;
        while let Some(asked) = read_request(&mut wire) {
            let method = asked.param("REQUEST_METHOD").unwrap_or("-");
            let text =
                format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n{method} {count}");
            count += 1;
            if wire.try_send(said(text.as_bytes())).is_err() {
                return;
            }
        }
    });
    let conf = format!(
        "events {{}}\nhttp {{\nfastcgi_cache_path {{folder}}/php keys_zone=php:1m;\nserver {{\nlisten 127.0.0.1:{{port}};\n\
         location / {{ fastcgi_pass 127.0.0.1:{}; fastcgi_param REQUEST_METHOD $request_method; fastcgi_cache php; \
         fastcgi_cache_key $request_uri; fastcgi_cache_valid 200 1m; fastcgi_cache_bypass $arg_fresh; \
         add_header X-Cache $upstream_cache_status; }}\n}}\n}}\n",
        application.port
    );
    let server = start(setup(&conf));
    assert_eq!(seen(&get(&server, "/a")), pair("MISS", "GET 0"));
    assert_eq!(seen(&get(&server, "/a")), pair("HIT", "GET 0"));
    // HEAD is forwarded as GET, so that the response can serve both.
    assert_eq!(
        ask(&server, "HEAD", "/b", "").field("X-Cache"),
        Some("MISS")
    );
    eventually_stored(&server, 2);
    let stored = get(&server, "/b");
    assert_eq!(stored.field("X-Cache"), Some("HIT"));
    assert!(stored.text().starts_with("GET "));
    assert_eq!(seen(&get(&server, "/a?fresh=1")).0, "BYPASS");
}

#[test]
fn responses_of_scgi_and_uwsgi_applications_are_cached() {
    let count = Arc::new(AtomicUsize::new(0));
    let describe = move |method: &str| {
        let count = count.fetch_add(1, Ordering::SeqCst);
        format!("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n{method} {count}")
    };
    let describe = Arc::new(describe);
    let other = describe.clone();
    let scgi = Upstream::start(move |mut wire| {
        if let Some(asked) = read_scgi(&mut wire) {
            wire.send(describe(asked.param("REQUEST_METHOD").unwrap_or("-")));
        }
    });
    let uwsgi = Upstream::start(move |mut wire| {
        if let Some((asked, _)) = read_uwsgi(&mut wire) {
            wire.send(other(asked.param("REQUEST_METHOD").unwrap_or("-")));
        }
    });
    let place = |kind: &str, port: u16| {
        format!(
            "location /{kind} {{ {kind}_pass 127.0.0.1:{port}; {kind}_param REQUEST_METHOD $request_method; \
             {kind}_param CONTENT_LENGTH 0; {kind}_cache {kind}; {kind}_cache_key $request_uri; {kind}_cache_valid 200 1m; \
             {kind}_cache_bypass $arg_fresh; {kind}_no_cache $arg_never; {kind}_cache_lock on; }}\n"
        )
    };
    let conf = format!(
        "events {{}}\nhttp {{\nscgi_cache_path {{folder}}/s keys_zone=scgi:1m;\nuwsgi_cache_path {{folder}}/u keys_zone=uwsgi:1m;\n\
         add_header X-Cache $upstream_cache_status;\nserver {{\nlisten 127.0.0.1:{{port}};\n{}{}}}\n}}\n",
        place("scgi", scgi.port),
        place("uwsgi", uwsgi.port)
    );
    let server = start(setup(&conf));
    assert_eq!(seen(&get(&server, "/scgi")), pair("MISS", "GET 0"));
    assert_eq!(seen(&get(&server, "/scgi")), pair("HIT", "GET 0"));
    assert_eq!(seen(&get(&server, "/uwsgi")), pair("MISS", "GET 1"));
    assert_eq!(seen(&get(&server, "/uwsgi")), pair("HIT", "GET 1"));
    assert_eq!(seen(&get(&server, "/uwsgi?never=1")), pair("MISS", "GET 2"));
    assert_eq!(seen(&get(&server, "/uwsgi?never=1")), pair("MISS", "GET 3"));
    assert_eq!(
        seen(&get(&server, "/scgi?fresh=1")),
        pair("BYPASS", "GET 4")
    );
    assert_eq!(seen(&get(&server, "/scgi?fresh=1")).0, "BYPASS");
}

/// The directive of each module whose applications have no HTTP.
#[test]
fn responses_of_applications_are_purged() {
    let fastcgi = Upstream::start(|mut wire| {
        if read_request(&mut wire).is_some() {
            wire.send(said(b"Content-Type: text/plain\r\n\r\nok"));
        }
    });
    let scgi = Upstream::start(|mut wire| {
        if read_scgi(&mut wire).is_some() {
            wire.send("Content-Type: text/plain\r\n\r\nok");
        }
    });
    let uwsgi = Upstream::start(|mut wire| {
        if read_uwsgi(&mut wire).is_some() {
            wire.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nok");
        }
    });
    let server = setup(&format!(
        "events {{}}\nhttp {{\nfastcgi_cache_path {{folder}}/a keys_zone=a:1m; scgi_cache_path {{folder}}/b keys_zone=b:1m; uwsgi_cache_path {{folder}}/c keys_zone=c:1m;\n\
         server {{\nlisten 127.0.0.1:{{port}};\nadd_header X-Cache $upstream_cache_status;\n\
         location /fastcgi/ {{ fastcgi_cache a; fastcgi_cache_key $uri; fastcgi_cache_valid 1m; fastcgi_cache_purge $arg_purge; fastcgi_param A b; fastcgi_pass 127.0.0.1:{}; }}\n\
         location /scgi/ {{ scgi_cache b; scgi_cache_key $uri; scgi_cache_valid 1m; scgi_cache_purge $arg_purge; scgi_param A b; scgi_pass 127.0.0.1:{}; }}\n\
         location /uwsgi/ {{ uwsgi_cache c; uwsgi_cache_key $uri; uwsgi_cache_valid 1m; uwsgi_cache_purge $arg_purge; uwsgi_param CONTENT_LENGTH 0; uwsgi_pass 127.0.0.1:{}; }}\n}}\n}}\n",
        fastcgi.port, scgi.port, uwsgi.port
    ))
    .start();
    for module in ["fastcgi", "scgi", "uwsgi"] {
        let path = format!("/{module}/a");
        let look = || get(&server, &path).field("X-Cache").map(str::to_owned);
        assert_eq!(look().as_deref(), Some("MISS"), "{module}");
        eventually(
            "a hit",
            || look().as_deref() == Some("HIT"),
            || server.stderr(),
        );
        let purge = format!("{path}?purge=1");
        assert_eq!(get(&server, &purge).status, 204, "{module}");
        assert_eq!(get(&server, &purge).status, 404, "{module}");
        assert_eq!(look().as_deref(), Some("MISS"), "{module}");
    }
}
