//! Patterns as PCRE has them: what they choose, and what becomes of a match that would take too long.

use super::{setup, start};
use crate::client::exchange;
use crate::harness::{Server, eventually};

fn get(server: &Server, path: &str, fields: &str) -> crate::client::Answer {
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
        // `$` holds before a line feed at the end, and nowhere else.
        ("/a.php%0A", 200, "script"),
        ("/a.php%0A%0A", 200, "rest"),
        ("/if?x=yes", 200, "yes"),
        ("/if?x=no", 200, "no"),
        ("/old/er", 200, "rest"),
        ("/old/x", 302, ""),
    ] {
        let answer = get(&server, path, "");
        assert_eq!(answer.status, status, "{path}");
        if !body.is_empty() {
            assert_eq!(answer.text(), body, "{path}");
        }
    }
}

#[test]
fn a_match_that_takes_too_long_fails_the_request_and_is_counted() {
    let conf = r#"
events {}
error_log {folder}/error.log;
http {
    map $arg_m $mapped { default usual; "~^(?!b)(a+)+$" long; }
    server {
        listen 127.0.0.1:{port};
        location ~ ^/(?!b)(a+)+$ { return 200 "found"; }
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
    // A map gives its default then, as nginx's does; the request goes on.
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
    // Each pattern is told of once, and each request that fails once.
    let log =
        || std::fs::read_to_string(server.folder.path().join("error.log")).unwrap_or_default();
    let count = |text: &str| log().matches(text).count();
    eventually(
        "the log tells of them",
        || {
            count("a pattern has too many ways to match, pattern") == 2
                && count("has too many ways to match, client") == 3
        },
        log,
    );
}

#[test]
fn bytes_that_are_no_text_slip_past_no_pattern() {
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
