//! The selection of server and location for a request, and its rewriting.

use super::{setup, start};
use crate::client::{Client, exchange};

fn get(port: u16, host: &str, path: &str) -> crate::client::Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange(port, request)
}

#[test]
fn servers_are_chosen_by_name() {
    let server = |name: &str, says: &str| {
        let shown = name.trim_start_matches('~').replace('$', "");
        format!(
            "server {{ listen 127.0.0.1:{{port}}{says}; server_name {name}; return 200 \"{shown}\"; }}\n"
        )
    };
    let servers = [
        server("first.example", ""),
        server("a.example", ""),
        server("*.example", ""),
        server("*.long.example", ""),
        server("www.*", ""),
        server("~^(?<who>[a-z]+)\\.match$", ""),
        server(".both.test", ""),
        server("default.example", " default_server"),
    ];
    let running = setup(&format!("events {{}} http {{ {} }}", servers.concat())).start();
    for (host, name) in [
        ("a.example", "a.example"),
        ("A.Example:80", "a.example"),
        ("a.example.", "a.example"),
        ("b.example", "*.example"),
        ("x.long.example", "*.long.example"),
        ("www.x.example", "*.example"),
        ("www.other", "www.*"),
        ("me.match", "^(?<who>[a-z]+)\\.match"),
        ("both.test", ".both.test"),
        ("x.both.test", ".both.test"),
        ("nobody", "default.example"),
    ] {
        assert_eq!(get(running.port, host, "/").text(), name, "{host}");
    }
}

#[test]
fn locations_have_the_precedence_of_nginx() {
    let lines = r#"
location = / { return 200 "exact"; }
location / { return 200 "root"; }
location /documents/ { return 200 "documents"; }
location ^~ /images/ { return 200 "images"; }
location ~* \.(gif|jpg)$ { return 200 "pattern $1"; }
location ~ ^/(?<word>w[a-z]+)$ { return 200 "word $word"; }
location /documents/deep/ { location ~ \.gif$ { return 200 "nested gif"; } return 200 "deep"; }
location /outer/ { location /outer/in/ { return 200 "in"; } return 200 "outer"; }
"#;
    let server = start(lines, &[]);
    let mut client = Client::connect(server.port);
    for (path, expected) in [
        ("/", "exact"),
        ("/index.html", "root"),
        ("/documents/a.html", "documents"),
        ("/images/1.gif", "images"),
        ("/documents/1.JPG", "pattern JPG"),
        ("/what", "word what"),
        ("/documents/deep/x", "deep"),
        ("/documents/deep/x.gif", "nested gif"),
        ("/outer/x", "outer"),
        ("/outer/in/x", "in"),
        ("/outer/in/x.jpg", "pattern jpg"),
        ("/documents/%2e%2e/images//1.gif", "images"),
        ("//documents///x?y", "documents"),
    ] {
        assert_eq!(client.get(path).text(), expected, "{path}");
    }
    assert_eq!(client.get("/../x").status, 400, "it leads out of the root");
}

#[test]
fn targets_are_rewritten() {
    let lines = r#"
rewrite ^/server/(.*)$ /loc/$1;
set $kept "kept";
if ($arg_go = "away") { return 302 /elsewhere; }
if ($http_x_bot ~* "(spi)der") { return 403 "bot $1\n"; }
location /loc/ { rewrite ^/loc/last/(.*)$ /last/$1?added=1 last; rewrite ^/loc/break/(.*)$ /file-$1? break; return 200 "loc $uri$is_args$args"; }
location /last/ { return 200 "last $uri$is_args$args $kept $request_uri"; }
location /circle/ { rewrite ^/circle/(.*)$ /circle/$1x last; }
location /moved/ { rewrite ^/moved/(.*)$ http://new.example/$1 permanent; }
location /internal/ { internal; return 200 "inside"; }
location /to-internal { rewrite ^ /internal/x last; }
location /code { return 418; }
location /no-body { return 204; }
location /if { set $a ""; if ($a) { return 200 "set"; } if (!-f $document_root/if) { return 200 "no file"; } }
"#;
    let server = start(lines, &[("file-a", "content of a")]);
    let mut client = Client::connect(server.port);
    for (path, status, expected) in [
        ("/server/x?q", 200, "loc /loc/x?q"),
        (
            "/loc/last/a?b=1",
            200,
            "last /last/a?added=1&b=1 kept /loc/last/a?b=1",
        ),
        ("/loc/break/a?q", 200, "content of a"),
        ("/internal/x", 404, ""),
        ("/to-internal", 200, "inside"),
        ("/circle/a", 500, ""),
        ("/code", 418, ""),
        ("/no-body", 204, ""),
        ("/if", 200, "no file"),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, status, "{path}");
        if !expected.is_empty() {
            assert_eq!(response.text(), expected, "{path}");
        }
    }
    let response = client.get("/moved/a?b");
    assert_eq!(
        (response.status, response.field("Location")),
        (301, Some("http://new.example/a?b"))
    );
    let response = get(server.port, "me.example", "/?go=away");
    let location = format!("http://me.example:{}/elsewhere", server.port);
    assert_eq!(
        (response.status, response.field("Location")),
        (302, Some(location.as_str()))
    );
    assert!(response.text().contains("<h1>302 Found</h1>"));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Bot: a Spider\r\nConnection: close\r\n\r\n";
    let response = exchange(server.port, request);
    assert_eq!(
        (response.status, response.text().as_str()),
        (403, "bot Spi\n")
    );
}

#[test]
fn files_are_served_as_nginx_does() {
    let lines = r#"
types { text/html html; text/css css; }
default_type application/x-other;
index home.html index.html;
location /alias/ { alias {folder}/other/; }
location /try/ { try_files $uri $uri/ /fallback.html; }
location /named/ { try_files $uri @named; }
location @named { return 200 "named $uri"; }
location /strict/ { try_files $uri =410; }
location /closed/ { deny all; }
"#;
    let files = [
        ("index.html", "<p>index</p>"),
        ("style.css", "body {}"),
        ("sub/home.html", "home"),
        ("empty/x", "x"),
        ("try/there.html", "there"),
        ("fallback.html", "fallback"),
        ("note", "0123456789"),
        ("closed/x", "x"),
    ];
    let setup = super::site(lines);
    for (name, content) in files {
        setup.folder().write(&format!("www/{name}"), content);
    }
    setup.folder().write("other/x.css", "other");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    for (path, status, media_type, expected) in [
        ("/", 200, "text/html", "<p>index</p>"),
        ("/style.css", 200, "text/css", "body {}"),
        ("/note", 200, "application/x-other", "0123456789"),
        ("/sub/", 200, "text/html", "home"),
        ("/empty/", 403, "text/html", ""),
        ("/none", 404, "text/html", ""),
        ("/none/", 404, "text/html", ""),
        ("/alias/x.css", 200, "text/css", "other"),
        ("/try/there.html", 200, "text/html", "there"),
        ("/try/not", 200, "text/html", "fallback"),
        ("/named/x", 200, "application/x-other", "named /named/x"),
        ("/strict/x", 410, "text/html", ""),
        ("/closed/x", 403, "text/html", ""),
    ] {
        let response = client.get(path);
        assert_eq!(
            (response.status, response.field("Content-Type")),
            (status, Some(media_type)),
            "{path}"
        );
        if !expected.is_empty() {
            assert_eq!(response.text(), expected, "{path}");
        }
    }
    let response = get(server.port, "h", "/sub?q");
    let location = format!("http://h:{}/sub/?q", server.port);
    assert_eq!(
        (response.status, response.field("Location")),
        (301, Some(location.as_str()))
    );
    client.send("POST /note HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 405);
    client.send("GET /note HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (206, "234"));
    assert_eq!(response.field("Content-Range"), Some("bytes 2-4/10"));
    let tag = client.get("/note").field("ETag").expect("a tag").to_owned();
    client.send(format!(
        "GET /note HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"
    ));
    assert_eq!(client.response().status, 304);
}

#[test]
fn errors_have_pages() {
    let lines = r#"
error_page 404 /404.html;
error_page 403 =200 /403.html;
error_page 410 = @gone;
error_page 402 http://pay.example/;
error_page 500 /missing.html;
add_header X-Always "$uri" always;
add_header X-Good good;
location /deny { deny all; }
location /gone { return 410; }
location /pay { return 402; }
location /broken { return 500; }
location @gone { return 202 "gone from $uri"; }
location = /403.html { internal; }
location /text { return 404 "not a page"; }
"#;
    let server = start(
        lines,
        &[
            ("404.html", "<p>nothing here</p>"),
            ("403.html", "keep out"),
        ],
    );
    let mut client = Client::connect(server.port);
    let response = client.get("/none");
    assert_eq!(
        (response.status, response.text().as_str()),
        (404, "<p>nothing here</p>")
    );
    assert_eq!(response.field("X-Always"), Some("/404.html"));
    assert_eq!(response.field("X-Good"), None);
    assert_eq!(response.field("Last-Modified"), None);
    let response = client.get("/deny");
    assert_eq!(
        (response.status, response.text().as_str()),
        (200, "keep out")
    );
    assert_eq!(response.field("X-Good"), Some("good"));
    assert_eq!(client.get("/403.html").status, 404, "it is internal");
    let response = client.get("/gone");
    assert_eq!(
        (response.status, response.text().as_str()),
        (202, "gone from /gone")
    );
    let response = client.get("/pay");
    assert_eq!(
        (response.status, response.field("Location")),
        (302, Some("http://pay.example/"))
    );
    let response = client.get("/broken");
    assert_eq!(
        response.status, 404,
        "the page of the error is missing itself"
    );
    assert!(
        response.text().contains("<hr><center>sluice</center>"),
        "{}",
        response.text()
    );
    assert_eq!(response.field("X-Always"), Some("/missing.html"));
    let response = client.get("/text");
    assert_eq!(
        (response.status, response.text().as_str()),
        (404, "not a page")
    );
}

#[test]
fn targets_of_upstreams_follow_the_rules_of_proxy_pass() {
    let upstream = crate::upstream::Upstream::echo();
    let to = format!("http://127.0.0.1:{}", upstream.port);
    let lines = format!(
        r#"
location /plain/ {{ proxy_pass {to}; }}
location /cut/ {{ proxy_pass {to}/; }}
location /base {{ proxy_pass {to}/new; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header Accept ""; }}
location /rewritten/ {{ rewrite ^/rewritten/(.*)$ "/got $1" break; proxy_pass {to}; }}
"#
    );
    let server = start(&lines, &[]);
    for (path, expected) in [
        ("/plain/a%20b//c?d", "GET /plain/a%20b//c?d HTTP/1.1"),
        ("/cut/a%20b/../c?d", "GET /c?d HTTP/1.1"),
        ("/base/x", "GET /new/x HTTP/1.1"),
        ("/rewritten/x?y", "GET /got%20x?y HTTP/1.1"),
    ] {
        let said = get(server.port, "site", path).text();
        assert_eq!(said.lines().next(), Some(expected), "{path}");
    }
    let said = get(server.port, "site", "/base")
        .text()
        .to_ascii_lowercase();
    assert!(
        said.contains("\nhost: site\n") && said.contains("\nx-real-ip: 127.0.0.1\n"),
        "{said}"
    );
    let response = get(server.port, "site", "/plain");
    assert_eq!(response.status, 301, "the slash is added");
}

#[test]
fn no_alias_leads_out_of_its_folder() {
    let setup = super::site("location /trap { alias {folder}/other/; }");
    setup.folder().write("www/note", "secret");
    setup.folder().write("other/x", "other");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/trap/x").text(), "other");
    for path in ["/trap../www/note", "/trap..", "/trap%2e./www/note"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
}
