//! Access control: by address, by password, by subrequest, by method.

use std::time::Instant;

use super::{setup, start};
use crate::client::{Response, exchange};
use crate::harness::Server;
use crate::upstream::Upstream;

/// `right:secret` in every hash format, one name for each; the name `plain` has another password.
const USERS: &str = "# a comment
plain:{PLAIN}other:with more
sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
ssha:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0
apr1:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0
md5:$1$abc$iCQ2D3nhptRYi27fDYv2s1
sha256:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA
sha512:$6$0123456789abcdef$8CGkKDSyVpVlVNcs5PssRw/Tb8EgfecuA6D/zsRQFumJaU.s8KgTWWc2HfgkB7h2n1qIKiJFeSyUFrwvhILXy.
des:rqXexS6ZhobKA
sha:{PLAIN}the first line counts
";

/// Requests `path` with `fields`, each with its line ending.
fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n");
    exchange(server.port, request)
}

fn basic(name: &str, password: &str) -> String {
    let text = format!("{name}:{password}");
    let mut out = String::new();
    // Base64, three bytes at a time.
    for part in text.as_bytes().chunks(3) {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits = part
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - part.len()));
        for at in 0..4 {
            match at <= part.len() {
                true => out.push(char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    format!("Authorization: Basic {out}\r\n")
}

#[test]
fn passwords_of_a_file_let_in() {
    let lines = r#"
auth_basic "closed to $arg_who";
auth_basic_user_file {folder}/users;
location / { return 200 "in as $remote_user"; }
location /files/ { }
location /off { auth_basic off; }
location /by-variable { auth_basic $arg_realm; }
location /nofile { auth_basic_user_file {folder}/none; }
error_page 401 /login;
location = /login { auth_basic off; }
"#;
    let files = [
        ("../users", USERS),
        ("files/a", "a file"),
        ("off", "open"),
        ("by-variable", "seen"),
        ("nofile", "never"),
        ("login", "log in"),
    ];
    let server = start(lines, &files);
    // `return` is handled before any check, as in nginx.
    assert_eq!(ask(&server, "GET", "/", "").status, 200);
    for name in ["sha", "ssha", "apr1", "md5", "sha256", "sha512"] {
        // The second time the result is cached.
        for _ in 0..2 {
            let response = ask(&server, "GET", "/files/a", &basic(name, "secret"));
            assert_eq!(
                (response.status, &*response.text()),
                (200, "a file"),
                "{name}"
            );
        }
        let response = ask(&server, "GET", "/files/a", &basic(name, "Secret"));
        assert_eq!(response.status, 401, "{name}");
    }
    let plain = ask(&server, "GET", "/files/a", &basic("plain", "other"));
    assert_eq!(plain.status, 200);
    for (name, password) in [
        ("plain", "secret"),
        ("nobody", "secret"),
        ("des", "secret"),
        ("", ""),
    ] {
        let response = ask(&server, "GET", "/files/a?who=me\"", &basic(name, password));
        assert_eq!(
            (response.status, &*response.text()),
            (401, "log in"),
            "{name}"
        );
    }
    let response = ask(&server, "GET", "/files/a?who=me", "");
    assert_eq!(
        response.field("WWW-Authenticate"),
        Some("Basic realm=\"closed to me\"")
    );
    assert_eq!(ask(&server, "GET", "/off", "").text(), "open");
    assert_eq!(
        ask(&server, "GET", "/by-variable?realm=off", "").text(),
        "seen"
    );
    assert_eq!(ask(&server, "GET", "/by-variable?realm=x", "").status, 401);
    assert_eq!(
        ask(&server, "GET", "/nofile", &basic("sha", "secret")).status,
        403
    );
}

#[test]
fn a_file_of_users_is_looked_at_anew() {
    let server = start(
        "location / { auth_basic x; auth_basic_user_file {folder}/users; }",
        &[("../users", "a:{PLAIN}one\n"), ("page", "in")],
    );
    let status = |password: &str| ask(&server, "GET", "/page", &basic("a", password)).status;
    assert_eq!((status("one"), status("second")), (200, 401));
    server.folder.write("users", "a:{PLAIN}second\n");
    crate::harness::eventually(
        "the new password",
        || status("second") == 200,
        || server.stderr(),
    );
    // Each worker checks the file itself.
    crate::harness::eventually(
        "the old password to be forgotten",
        || status("one") == 401,
        || server.stderr(),
    );
}

#[test]
fn satisfy_says_how_many_checks_must_let_in() {
    let lines = r#"
auth_basic x;
auth_basic_user_file {folder}/users;
location /all-near { allow 127.0.0.1; deny all; }
location /all-far { allow 10.0.0.0/8; deny all; }
location /any-near { satisfy any; allow 127.0.0.1; deny all; }
location /any-far { satisfy any; allow 10.0.0.0/8; deny all; }
location /any-unsaid { satisfy any; }
"#;
    let names = ["all-near", "all-far", "any-near", "any-far", "any-unsaid"];
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "in")).collect();
    files.push(("../users", "a:{PLAIN}b\n"));
    let server = start(lines, &files);
    for (name, without, with, wrong) in [
        ("all-near", 401, 200, 401),
        ("all-far", 403, 403, 403),
        ("any-near", 200, 200, 200),
        ("any-far", 401, 200, 401),
        ("any-unsaid", 401, 200, 401),
    ] {
        let status = |fields: &str| ask(&server, "GET", &format!("/{name}"), fields).status;
        assert_eq!(
            (
                status(""),
                status(&basic("a", "b")),
                status(&basic("a", "c"))
            ),
            (without, with, wrong),
            "{name}"
        );
    }
}

/// A program that authorizes requests by cookie.
fn judge() -> Upstream {
    Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let _ = wire.body(&head);
            let text = head.join("\n");
            let response = match () {
                () if !text.starts_with("GET /judge HTTP/1.1\n") => "500 Wrong Request\r\n".to_owned(),
                () if text.contains("Content-Length") => "500 With A Length\r\n".to_owned(),
                () if text.contains("Cookie: in") => {
                    let uri = head.iter().find_map(|line| line.strip_prefix("X-Original-URI: "));
                    format!("200 OK\r\nX-User: bob {}\r\n", uri.unwrap_or("?"))
                }
                () if text.contains("Cookie: out") => "403 Forbidden\r\n".to_owned(),
                () if text.contains("Cookie: broken") => "418 Teapot\r\n".to_owned(),
                () => "401 Unauthorized\r\nWWW-Authenticate: Bearer a\r\nWWW-Authenticate: Basic realm=\"b\"\r\n".to_owned(),
            };
            let response = format!("HTTP/1.1 {response}Content-Length: 4\r\n\r\nbody");
            if wire.try_send(response.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn access_rules_apply_to_the_final_location() {
    let judge = judge();
    let echo = Upstream::echo();
    let lines = format!(
        r#"
location / {{
    auth_request /ask;
    auth_request_set $user $upstream_http_x_user;
    auth_request_set $said $upstream_status;
    add_header X-User "$user|$said|$from_there" always;
    proxy_set_header X-User $user;
    proxy_pass http://127.0.0.1:{};
}}
location = /ask {{
    internal;
    set $from_there kept;
    proxy_set_header X-Original-URI $request_uri;
    proxy_pass http://127.0.0.1:{}/judge;
}}
location /static/ {{ auth_request /fixed; }}
location = /fixed {{ if ($arg_x) {{ return 500; }} if ($http_x_go) {{ return 204; }} return 401; }}
location /self {{ auth_request /self; }}
"#,
        echo.port, judge.port
    );
    let server = start(&lines, &[("static/a", "a"), ("self", "me")]);
    let response = ask(
        &server,
        "POST",
        "/x?y=z",
        "Cookie: in\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(response.status, 200);
    assert_eq!(response.field("X-User"), Some("bob /x?y=z|200|kept"));
    let text = response.text();
    assert!(
        text.starts_with("POST /x?y=z HTTP/1.1") && text.ends_with("abc"),
        "{text}"
    );
    assert!(text.contains("X-User: bob /x?y=z"), "{text}");
    let response = ask(&server, "GET", "/x", "Cookie: out\r\n");
    assert_eq!(
        (response.status, response.field("X-User")),
        (403, Some("|403|kept"))
    );
    assert_eq!(ask(&server, "GET", "/x", "Cookie: broken\r\n").status, 500);
    let response = ask(&server, "GET", "/x", "");
    assert_eq!(response.status, 401);
    let lower = response.head.to_ascii_lowercase();
    for challenge in ["bearer a", "basic realm=\"b\""] {
        let line = format!("www-authenticate: {challenge}\r\n");
        assert!(lower.contains(&line), "{lower}");
    }
    assert_eq!(
        ask(&server, "GET", "/ask", "Cookie: in\r\n").status,
        404,
        "it is internal"
    );
    // The query belongs to the request, not to its authentication subrequest.
    assert_eq!(
        ask(&server, "GET", "/static/a?x=1", "X-Go: 1\r\n").text(),
        "a"
    );
    assert_eq!(ask(&server, "GET", "/static/a", "").status, 401);
    assert_eq!(
        ask(&server, "GET", "/self", "").text(),
        "me",
        "what is asked is not checked itself"
    );
}

#[test]
fn methods_have_rules_of_their_own() {
    let lines = r#"
location / { limit_except GET { deny all; } }
location /returns { limit_except GET { deny all; } return 200 "returned"; }
location /login { limit_except GET OPTIONS { auth_basic x; auth_basic_user_file {folder}/users; } return 200; }
"#;
    let server = start(lines, &[("a", "a"), ("../users", "a:{PLAIN}b\n")]);
    let status = |method: &str, path: &str, fields: &str| ask(&server, method, path, fields).status;
    assert_eq!(status("GET", "/a", ""), 200);
    assert_eq!(status("POST", "/a", "Content-Length: 0\r\n"), 403);
    assert_eq!(status("DELETE", "/a", ""), 403);
    assert_eq!(ask(&server, "GET", "/returns", "").text(), "returned");
    assert_eq!(status("PUT", "/returns", "Content-Length: 0\r\n"), 403);
    assert_eq!(status("OPTIONS", "/login", ""), 200);
    assert_eq!(status("PATCH", "/login", ""), 401);
    let mut client = crate::client::Client::connect(server.port);
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().expect("a head").starts_with("HTTP/1.1 200 "));
}

#[test]
fn refusals_can_be_held_back() {
    let server = setup(
        "events {} http { server { listen 127.0.0.1:{port}; root {folder}; auth_delay 300ms;
         auth_basic x; auth_basic_user_file {folder}/users; } }",
    );
    server.folder().write("users", "a:{PLAIN}b\n");
    server.folder().write("page", "in");
    let server = server.start();
    let begun = Instant::now();
    assert_eq!(ask(&server, "GET", "/page", &basic("a", "x")).status, 401);
    assert!(begun.elapsed().as_millis() >= 300, "{:?}", begun.elapsed());
    assert_eq!(ask(&server, "GET", "/page", &basic("a", "b")).status, 200);
}
