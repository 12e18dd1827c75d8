//! PCRE regular expressions: what they select, and matches that would take too long.

use super::{setup, start};
use crate::client::exchange;
use crate::harness::{Server, eventually};

fn get(server: &Server, path: &str, fields: &str) -> crate::client::Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    exchange(server.port, request)
}

#[test]
fn patterns_look_around_and_refer_back() {
    let lines = r#"
location / { return 200 "rest"; }
location ~ /\.(?!well-known).* { return 403; }
location ~ ^/(?<base>.+)(?<!\.min)\.js$ { return 200 "plain $base"; }
location ~ ^/(\w+)/\1$ { return 200 "twice $1"; }
location ~ ^/(?>a|ab)c$ { return 200 "atomic"; }
location ~ \.php$ { return 200 "script"; }
location ~ "^/p/(\p{Lu}+)[\p{Nd}\P{L}]$" { return 200 "upper $1"; }
location = /if { if ($arg_x ~ "^(?!no).") { return 200 "yes"; } return 200 "no"; }
rewrite ^/old/(?!er)(.*)$ /new/$1 redirect;
"#;
    let server = start(lines, &[]);
    for (path, status, body) in [
        ("/.git/HEAD", 403, ""),
        ("/.well-known/x", 200, "rest"),
        ("/a/b.js", 200, "plain a/b"),
        ("/a/b.min.js", 200, "rest"),
        ("/ab/ab", 200, "twice ab"),
        ("/ab/abc", 200, "rest"),
        ("/ac", 200, "atomic"),
        ("/abc", 200, "rest"),
        // Bytes are characters of Latin-1.
        ("/p/AB1", 200, "upper AB"),
        ("/p/%C3%C3", 200, "rest"),
        ("/p/aB1", 200, "rest"),
        // `$` matches before a line feed at the end, and nowhere else.
        ("/a.php%0A", 200, "script"),
        ("/a.php%0A%0A", 200, "rest"),
        ("/if?x=yes", 200, "yes"),
        ("/if?x=no", 200, "no"),
        ("/old/er", 200, "rest"),
        ("/old/x", 302, ""),
    ] {
        let response = get(&server, path, "");
        assert_eq!(response.status, status, "{path}");
        if !body.is_empty() {
            assert_eq!(response.text(), body, "{path}");
        }
    }
}

#[test]
fn a_match_that_takes_too_long_fails_the_request_and_is_counted() {
    let conf = r#"
events {}
error_log {folder}/error.log;
http {
    map $arg_m $mapped { default usual; "~^(?!b)(a+)+\1?$" long; }
    server {
        listen 127.0.0.1:{port};
        location ~ ^/(?!b)(a+)+\1?$ { return 200 "found"; }
        location / { return 200 "$mapped"; }
    }
}
"#;
    let server = setup(conf).start();
    assert_eq!(get(&server, "/aaaa", "").text(), "found");
    let long = format!("/{}b", "a".repeat(60));
    for _ in 0..3 {
        assert_eq!(get(&server, &long, "").status, 500);
    }
    // A map then returns its default, as in nginx; the request continues.
    let mapped = format!("/?m={}b", "a".repeat(60));
    assert_eq!(get(&server, &mapped, "").text(), "usual");
    assert_eq!(get(&server, "/?m=aa", "").text(), "long");
    assert!(
        server
            .metrics()
            .contains("sluice_patterns_given_up_total 4"),
        "{}",
        server.metrics()
    );
    // Each pattern is logged once, and each failed request once.
    let log =
        || std::fs::read_to_string(server.folder.path().join("error.log")).unwrap_or_default();
    let count = |text: &str| log().matches(text).count();
    eventually(
        "the log tells of them",
        || {
            count("a pattern has too many ways to match, pattern") == 2
                && count("directive: map") == 1
                && count("of `location` has too many ways to match, client") == 3
        },
        log,
    );
}

#[test]
fn bytes_outside_utf8_slip_past_no_pattern() {
    let lines = r#"
location / { return 200 "open"; }
location ~ ^/secret/(?!public/).+$ { return 403; }
location ~ ^/two/..$ { return 200 "two bytes"; }
"#;
    let server = start(lines, &[]);
    for (path, status) in [
        ("/secret/%ff%fe", 403),
        ("/secret/%80/x", 403),
        ("/secret/public/%ff", 200),
        ("/secret/a%00b", 400),
    ] {
        assert_eq!(get(&server, path, "").status, status, "{path}");
    }
    assert_eq!(get(&server, "/two/%C3%A9", "").text(), "two bytes");
}

/// Legitimate URLs that used to exceed the limit: many positions where a match may begin, and as many where it may end.
#[test]
fn long_addresses_are_cheap_for_lookaround_patterns() {
    let lines = r#"
large_client_header_buffers 4 64k;
location / { return 200 "rest"; }
location ~ /pg/.*(?<!\.min)\.js { return 200 "script"; }
location ~ ^/(?!index|.+/code/proxy)b(?:/\w+)+/$ { return 200 "words"; }
"#;
    let server = start(lines, &[]);
    let long = |part: &str, end: &str| format!("{}{end}", part.repeat(8_000 / part.len()));
    for (path, body) in [
        (long("/pg/", ""), "rest"),
        (long("/pg/", "x.min.js"), "rest"),
        (long("/pg/a.min.js", ""), "rest"),
        (long("/pg/", "x.js"), "script"),
        (long("/b/a", "."), "rest"),
        (long("/b/code", "/"), "words"),
    ] {
        let response = get(&server, &path, "");
        let shown = &path[..20];
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, body),
            "{shown}"
        );
    }
}

/// Wherever a pattern is used, except in `map`, the request fails rather than being handled as if it did not match.
#[test]
fn a_match_that_takes_too_long_fails_the_request_wherever_it_is_looked_for() {
    let bad = r"(a+)+\1?$";
    let upstream = crate::upstream::Upstream::start(|mut wire| {
        let Some(head) = wire.head() else { return };
        let long = format!("{}b", "a".repeat(60));
        let field = match head[0].contains("/cookie") {
            true => format!("Set-Cookie: x=1; Path={long}"),
            false => format!("Location: {long}"),
        };
        wire.send(format!(
            "HTTP/1.1 302 Found\r\n{field}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
    });
    let lines = r#"
gzip on; gzip_types *; gzip_min_length 0;
location /rewrite { rewrite ^/rewrite/BAD /x; return 200 ok; }
location /if { if ($arg_x ~ ^BAD) { return 403; } return 200 ok; }
location /referer { valid_referers server_names ~BAD; if ($invalid_referer) { return 403; } return 200 ok; }
location /shown { valid_referers server_names ~BAD; return 200 "ok$invalid_referer"; }
location /gzip { gzip_disable BAD; return 200 ok; }
location /split { fastcgi_split_path_info ^(/split)(/BAD); return 200 "ok$fastcgi_path_info"; }
location /redirect { proxy_redirect ~BAD /x; proxy_pass http://127.0.0.1:UP; }
location /cookie { proxy_redirect off; proxy_cookie_path ~BAD /x; proxy_pass http://127.0.0.1:UP; }
"#;
    let lines = lines
        .replace("BAD", bad)
        .replace("UP", &upstream.port.to_string());
    let server = start(&lines, &[]);
    let long = format!("{}b", "a".repeat(60));
    let referer = format!("Referer: http://{long}/\r\n");
    let agent = format!("Accept-Encoding: gzip\r\nUser-Agent: {long}\r\n");
    for (path, fields) in [
        (format!("/rewrite/{long}"), ""),
        (format!("/if?x={long}"), ""),
        ("/referer".to_owned(), referer.as_str()),
        ("/shown".to_owned(), referer.as_str()),
        ("/gzip".to_owned(), agent.as_str()),
        (format!("/split/{long}"), ""),
        ("/redirect".to_owned(), ""),
        ("/cookie".to_owned(), ""),
    ] {
        assert_eq!(get(&server, &path, fields).status, 500, "{path}");
    }
    for path in ["/rewrite/b", "/if?x=b", "/shown", "/gzip", "/split"] {
        assert_eq!(get(&server, path, "").status, 200, "{path}");
    }
    // A variable that is evaluated twice is matched twice.
    let given_up = server.metric("sluice_patterns_given_up_total");
    assert!(given_up >= 8, "{given_up}");
}
