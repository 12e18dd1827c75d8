//! Lookup variables, and text replaced in responses.

use super::setup;
use crate::client::{Client, exchange};
use crate::upstream::Upstream;

#[test]
fn variables_are_looked_up() {
    let conf = r#"
events {}
http {
map $http_upgrade $connection_upgrade { default upgrade; '' close; }
map $host $name { hostnames; default other; *.a.example a; b.* b; .both.test both; ~^(?<sub>.+)\.c$ "sub $sub"; }
map $arg_x $first { default $second; y "got y"; ~*^(Z+) "zs $1"; }
map $arg_x $second { default "second $arg_x"; circle $first; }
map $arg_c $one { default $two; }
map $arg_c $two { default $one; }
geo $near { default far; 127.0.0.0/8 near; 127.0.0.1 here; }
geo $arg_ip $where { default nowhere; 10.0.0.0/8 ten; 10.1.0.0/16 "ten one"; 2001:db8::/32 six; }
split_clients $arg_key $variant { 25% .one; 25.5% .two; * ""; }
server {
listen 127.0.0.1:{port};
location /all { return 200 "$connection_upgrade|$name|$near"; }
location /first { return 200 $first; }
location /where { return 200 $where; }
location /circle { return 200 "[$one]"; }
location /split { return 200 "[$variant]"; }
}
}
"#;
    let server = setup(conf).start();
    let ask = |host: &str, target: &str, more: &str| {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
        exchange(server.port, request).text()
    };
    assert_eq!(ask("x.A.example", "/all", "X: y\r\n"), "close|a|here");
    for (host, name) in [
        ("b.test", "b"),
        ("both.test", "both"),
        ("x.both.test", "both"),
        ("deep.c", "sub deep"),
        ("a.example", "other"),
    ] {
        assert_eq!(
            ask(host, "/all", ""),
            format!("close|{name}|here"),
            "{host}"
        );
    }
    for (target, expected) in [
        ("/first?x=Y", "got y"),
        ("/first?x=zzz", "zs zzz"),
        ("/first?x=q", "second q"),
        ("/first?x=circle", ""),
        ("/where?ip=10.2.0.1", "ten"),
        ("/where?ip=10.1.0.1", "ten one"),
        ("/where?ip=2001:db8::1", "six"),
        ("/where?ip=no", "nowhere"),
        ("/circle", "[]"),
    ] {
        assert_eq!(ask("h", target, ""), expected, "{target}");
    }
    let mut counts = std::collections::BTreeMap::new();
    for key in 0..400 {
        *counts.entry(ask_split(&server, key)).or_insert(0) += 1;
    }
    let share = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert!((70..=130).contains(&share("[.one]")), "{counts:?}");
    assert!((70..=130).contains(&share("[.two]")), "{counts:?}");
    assert_eq!(
        share("[.one]") + share("[.two]") + share("[]"),
        400,
        "{counts:?}"
    );
}

fn ask_split(server: &crate::harness::Server, key: u32) -> String {
    server.ask(&format!("/split?key=client-{key}")).text()
}

#[test]
fn responses_are_compressed() {
    let lines = "gzip on; gzip_types text/css; gzip_min_length 100; types { text/html html; text/css css; image/png png; }\n\
                 location /plain/ { gzip off; }";
    let long = "hot dogs ".repeat(100);
    let files = [
        ("a.html", long.as_str()),
        ("a.css", long.as_str()),
        ("a.png", long.as_str()),
        ("short.html", "short"),
        ("plain/a.html", long.as_str()),
    ];
    let server = super::start(lines, &files);
    let mut client = Client::connect(server.port);
    for (path, coding) in [
        ("/a.html", Some("gzip")),
        ("/a.css", Some("gzip")),
        ("/a.png", None),
        ("/short.html", None),
        ("/plain/a.html", None),
    ] {
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        let response = client.response();
        assert_eq!(
            (response.status, response.field("Content-Encoding")),
            (200, coding),
            "{path}"
        );
        if coding.is_some() {
            let mut text = String::new();
            let read = std::io::Read::read_to_string(
                &mut flate2::read::GzDecoder::new(&*response.body),
                &mut text,
            );
            assert!(read.is_ok() && text == long, "{path}");
        }
    }
    assert_eq!(
        client.get("/a.html").field("Content-Encoding"),
        None,
        "nobody asked for it"
    );
}

#[test]
fn files_that_were_compressed_ahead_are_sent() {
    let lines = "types { text/html html; text/css css; } gzip_static on; gzip_vary on;\n\
                 location /all/ { gzip_static always; } location /off/ { gzip_static off; }";
    let files = [
        ("a.html", "plain text"),
        ("a.html.gz", "packed"),
        ("b.css", "alone"),
        ("all/c.css.gz", "packed only"),
        ("off/d.html", "off"),
        ("off/d.html.gz", "packed"),
    ];
    let server = super::start(lines, &files);
    let mut client = Client::connect(server.port);
    let mut ask = |path: &str, fields: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.response()
    };
    let gzip = "Accept-Encoding: br, gzip\r\n";
    for (path, fields, text, coding, vary) in [
        ("/a.html", gzip, "packed", Some("gzip"), true),
        ("/a.html", "", "plain text", None, true),
        (
            "/a.html",
            "Accept-Encoding: gzip;q=0\r\n",
            "plain text",
            None,
            true,
        ),
        ("/b.css", gzip, "alone", None, false),
        ("/all/c.css", "", "packed only", Some("gzip"), false),
        ("/off/d.html", gzip, "off", None, false),
    ] {
        let response = ask(path, fields);
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, text),
            "{path}"
        );
        assert_eq!(response.field("Content-Encoding"), coding, "{path}");
        assert_eq!(response.field("Vary").is_some(), vary, "{path}");
    }
    let packed = ask("/a.html", gzip);
    assert_eq!(packed.field("Content-Type"), Some("text/html"));
    let tag = packed.field("ETag").unwrap_or_default().to_owned();
    let known = ask("/a.html", &format!("{gzip}If-None-Match: {tag}\r\n"));
    assert_eq!(known.status, 304);
    let part = ask("/a.html", &format!("{gzip}Range: bytes=1-3\r\n"));
    assert_eq!((part.status, part.text().as_str()), (206, "ack"));
}

#[test]
fn sub_filter_replaces_text_in_responses() {
    // Pieces that split the text, as an upstream may send them.
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let is_packed = head[0].contains("packed");
            let coding = if is_packed {
                "Content-Encoding: gzip\r\n"
            } else {
                ""
            };
            let bytes = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"x\"\r\n{coding}Transfer-Encoding: chunked\r\n\r\n\
                 9\r\n<p>http:/\r\n6\r\n/inner\r\n10\r\n/a HTTP://INNER/\r\n0\r\n\r\n"
            );
            if wire.try_send(bytes).is_err() {
                return;
            }
        }
    });
    let lines = format!(
        "types {{ text/html html; text/css css; text/plain txt; }} sub_filter_types text/css;\n\
         sub_filter 'old' 'new'; sub_filter '<title>' '<title>$arg_x ';\n\
         location /all/ {{ sub_filter old ''; sub_filter_once off; sub_filter_last_modified on; gzip on; gzip_min_length 1; }}\n\
         location /up {{ proxy_pass http://127.0.0.1:{}; sub_filter http://inner https://outer; sub_filter_once off; }}",
        upstream.port
    );
    let long = format!("{}OLD end", "not yet ".repeat(20_000));
    let files = [
        ("a.html", "<TITLE>old old"),
        ("a.css", "so old"),
        ("a.txt", "old"),
        ("long.html", long.as_str()),
        ("all/a.html", "old, older, Old"),
    ];
    let server = super::start(&lines, &files);
    let mut client = Client::connect(server.port);
    for (path, expected) in [
        ("/a.html?x=hey", "<title>hey new old"),
        ("/a.css", "so new"),
        ("/a.txt", "old"),
        ("/all/a.html", ", er, "),
        ("/up", "<p>https://outer/a https://outer/"),
        ("/up/packed", "<p>http://inner/a HTTP://INNER/"),
    ] {
        assert_eq!(client.get(path).text(), expected, "{path}");
    }
    let changed = client.get("/long.html");
    assert_eq!(changed.text(), long.replace("OLD", "new"));
    let kept = client.get("/all/a.html");
    let tag = kept.field("ETag").unwrap_or_default();
    assert!(tag.starts_with("W/\"") && kept.field("Last-Modified").is_some());
    assert_eq!(
        (changed.field("ETag"), changed.field("Last-Modified")),
        (None, None)
    );
    client.send("HEAD /a.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("an answer");
    assert!(
        !head.to_ascii_lowercase().contains("content-length: 14"),
        "{head}"
    );
    client.send("GET /all/a.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let packed = client.response();
    assert_eq!(packed.field("Content-Encoding"), Some("gzip"));
    let mut text = String::new();
    let read =
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*packed.body), &mut text);
    assert!(
        read.is_ok() && text == ", er, ",
        "changed before it is compressed: {text}"
    );
}

#[test]
fn requests_are_limited() {
    let conf = r#"
events { worker_connections 100; }
http {
geo $counted { default 1; 10.0.0.0/8 0; }
map $arg_free $key { default $binary_remote_addr; 1 ""; }
limit_req_zone $key zone=few:1m rate=1r/m;
limit_req_zone $arg_k zone=bursts:1m rate=1r/m;
server {
listen 127.0.0.1:{port};
location /few { limit_req zone=few; return 200 "in"; }
location / { limit_req zone=bursts burst=2 nodelay; limit_req_status 429; root {folder}; error_page 404 = @in; }
location /limited/ { limit_req zone=few; root {folder}; }
location @in { return 200 "in"; }
}
}
"#;
    let setup = setup(conf);
    setup.folder().write("index.html", "index");
    let server = setup.start();
    let mut client = Client::connect(server.port);
    let mut statuses = |path: &str, count: usize| -> Vec<u16> {
        (0..count).map(|_| client.get(path).status).collect()
    };
    assert_eq!(
        statuses("/few", 2),
        [200, 200],
        "`return` comes before limits, as in nginx"
    );
    assert_eq!(statuses("/limited/x", 2), [404, 503]);
    assert_eq!(
        statuses("/limited/x?free=1", 2),
        [404, 404],
        "an empty key does not count"
    );
    assert_eq!(statuses("/x?k=a", 4), [200, 200, 200, 429]);
    assert_eq!(statuses("/x?k=b", 1), [200], "another key");
    assert_eq!(
        statuses("/?k=c", 4),
        [200, 200, 200, 429],
        "the redirect to the index does not count"
    );
}
