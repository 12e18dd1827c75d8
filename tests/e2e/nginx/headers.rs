//! Request and response headers, lists for programs, and early hints.

use super::{setup, start};
use crate::client::{Client, exchange};
use crate::upstream::Upstream;
use crate::wire::{Wire, field};

#[test]
fn fields_are_inherited_as_the_switch_says() {
    let lines = "add_header X-Outer 1; add_header X-Both 1; \
         location /usual { return 200 x; } location /own { add_header X-Own 1; return 200 x; } \
         location /merge { add_header_inherit merge; add_header X-Own 1; add_header X-Both 2; return 200 x; \
             location /merge/in { add_header X-In 1; return 200 x; } location /merge/out { add_header_inherit off; return 200 x; } } \
         location /off { add_header_inherit off; return 200 x; }";
    let server = start(lines, &[]);
    for (path, expected) in [
        ("/usual", "X-Both=1 X-Outer=1"),
        ("/own", "X-Own=1"),
        ("/merge", "X-Both=1 X-Both=2 X-Outer=1 X-Own=1"),
        ("/merge/in", "X-Both=1 X-Both=2 X-In=1 X-Outer=1 X-Own=1"),
        ("/merge/out", ""),
        ("/off", ""),
    ] {
        let response = server.ask(path);
        let lines = response.head.lines().filter(|line| line.starts_with("X-"));
        let mut found: Vec<String> = lines.map(|line| line.replace(": ", "=")).collect();
        found.sort();
        assert_eq!(found.join(" "), expected, "{path}");
    }
}

#[test]
fn validators_are_replaced_and_taken_away() {
    let lines = "location / { add_header ETag '\"mine\"'; add_header Last-Modified \"Mon, 28 Sep 1970 06:00:00 GMT\"; } \
         location /none/ { add_header ETag ''; add_header Last-Modified $arg_date; }";
    let server = start(lines, &[("a", "x"), ("none/a", "x")]);
    let own = server.ask("/a");
    assert_eq!(own.head.matches("ETag: ").count(), 1, "{}", own.head);
    assert_eq!(own.field("ETag"), Some("\"mine\""));
    let modified = "Mon, 28 Sep 1970 06:00:00 GMT";
    assert_eq!(own.field("Last-Modified"), Some(modified));
    let none = server.ask("/none/a");
    assert_eq!(
        (none.field("ETag"), none.field("Last-Modified")),
        (None, None)
    );
    let some = server.ask("/none/a?date=today");
    assert_eq!(some.field("Last-Modified"), Some("today"));
}

#[test]
fn times_of_freshness_come_from_variables() {
    let server = setup(
        "events {}\nhttp { map $sent_http_content_type $fresh { default off; text/html epoch; text/css max; ~image/ 30d; text/plain @04h; }\n\
         server { listen 127.0.0.1:{port}; types { text/html html; text/css css; image/gif gif; text/plain txt; video/mp4 mp4; }\n\
         expires $fresh; location /x { return 200 x; } location / { root {folder}/www; } } }\n",
    );
    for name in ["a.html", "a.css", "a.gif", "a.txt", "a.mp4"] {
        server.folder().write(&format!("www/{name}"), "x");
    }
    let server = server.start();
    let cache = |path: &str| {
        let response = server.ask(path);
        let said = response.field("Cache-Control").map(str::to_owned);
        assert_eq!(
            said.is_some(),
            response.field("Expires").is_some(),
            "{path}"
        );
        said
    };
    assert_eq!(cache("/a.html").as_deref(), Some("no-cache"));
    assert_eq!(cache("/a.css").as_deref(), Some("max-age=315360000"));
    assert_eq!(cache("/a.gif").as_deref(), Some("max-age=2592000"));
    assert_eq!(cache("/a.mp4"), None);
    let daily = cache("/a.txt").expect("it ends at four o'clock");
    let seconds: u64 = daily["max-age=".len()..].parse().expect("a number");
    assert!((1..=86_400).contains(&seconds), "{daily}");
}

#[test]
fn trailers_follow_responses() {
    let lines = "add_trailer X-Path $uri; add_trailer X-Always yes always; add_trailer X-None $arg_x; gzip on; \
         location /merge/ { add_trailer_inherit merge; add_trailer X-More 1; return 200 \"some text that is long enough\"; } \
         location /lost { add_trailer_inherit off; return 200 x; } location /empty { return 200 ''; }";
    let server = start(
        lines,
        &[("a.html", "text"), ("long.html", &"text ".repeat(20_000))],
    );
    let behind = |method: &str, path: &str, fields: &str| {
        let mut wire = Wire::connect(server.port);
        wire.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"
        ));
        let head = wire.head().expect("a head");
        if !head.iter().any(|line| line == "Transfer-Encoding: chunked") {
            return "none".to_owned();
        }
        loop {
            let size = wire.line().expect("a chunk");
            let size = u64::from_str_radix(&size, 16).expect("its size");
            if size == 0 {
                return wire.head().expect("trailer fields").join(", ");
            }
            wire.take(size + 2);
        }
    };
    assert_eq!(
        behind("GET", "/a.html", ""),
        "X-Path: /a.html, X-Always: yes"
    );
    let packed = behind("GET", "/long.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed, "X-Path: /long.html, X-Always: yes");
    assert_eq!(behind("GET", "/empty", ""), "X-Path: /empty, X-Always: yes");
    assert_eq!(
        behind("GET", "/a.html?x=%0d%0aX-Evil:1", "")
            .lines()
            .count(),
        1
    );
    assert_eq!(behind("GET", "/nothing", ""), "X-Always: yes");
    assert_eq!(
        behind("GET", "/merge/", ""),
        "X-More: 1, X-Path: /merge/, X-Always: yes"
    );
    assert_eq!(behind("GET", "/lost", ""), "none");
    assert_eq!(behind("HEAD", "/a.html", ""), "none");
    let old = exchange(server.port, "GET /a.html HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((old.text(), old.field("X-Path")), ("text".to_owned(), None));
}

#[test]
fn lists_are_written_for_programs() {
    let lines = "autoindex on; location / { autoindex_format json; } location /p/ { autoindex_format jsonp; } location /x/ { autoindex_format xml; }";
    let files = [("a\"b.txt", "12345"), ("p/f", ""), ("x/<f>", "1")];
    let server = start(lines, &files);
    let json = server.ask("/");
    assert_eq!(json.field("Content-Type"), Some("application/json"));
    let list: serde_json::Value = serde_json::from_slice(&json.body).expect("it is JSON");
    assert_eq!(list[0]["type"], "directory");
    assert_eq!(
        (&list[2]["name"], &list[2]["size"]),
        (&"a\"b.txt".into(), &5.into())
    );
    assert!(list[2]["mtime"].as_str().expect("a time").ends_with(" GMT"));
    let called = server.ask("/p/?callback=my.name");
    assert_eq!(called.field("Content-Type"), Some("application/javascript"));
    assert!(
        called
            .text()
            .starts_with("/* callback */\r\nmy.name([\r\n{ \"name\":\"f\""),
        "{}",
        called.text()
    );
    assert!(called.text().ends_with("\r\n]);"));
    assert!(server.ask("/p/").text().starts_with('['));
    let long = "a".repeat(129);
    for name in ["alert(1)", "a%3Cb", "%61", &long] {
        let response = server.ask(&format!("/p/?callback={name}"));
        assert_eq!(response.status, 400, "{name}");
    }
    let xml = server.ask("/x/");
    assert_eq!(xml.field("Content-Type"), Some("text/xml; charset=utf-8"));
    let text = xml.text();
    assert!(
        text.starts_with("<?xml version=\"1.0\"?>\r\n<list>\r\n<file mtime=\"2"),
        "{text}"
    );
    assert!(
        text.ends_with("Z\" size=\"1\">&lt;f&gt;</file>\r\n</list>\r\n"),
        "{text}"
    );
}

#[test]
fn the_charset_is_added_to_upstream_responses() {
    let upstream = Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            let line = match head[0].split(' ').nth(1) {
                Some("/said") => "200 OK\r\nContent-Type: text/html; charset=koi8-r",
                Some("/moved") => "302 Found\r\nLocation: /\r\nContent-Type: text/html",
                Some("/image") => "200 OK\r\nContent-Type: image/gif",
                Some("/silent") => "200 OK",
                _ => "200 OK\r\nContent-Type: text/html",
            };
            if wire
                .try_send(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n"))
                .is_err()
            {
                return;
            }
        }
    });
    let lines = format!(
        "charset utf-8; location / {{ proxy_pass http://127.0.0.1:{0}; }} \
         location /var/ {{ charset $arg_c; proxy_pass http://127.0.0.1:{0}/; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    for (path, expected) in [
        ("/", Some("text/html; charset=utf-8")),
        ("/said", Some("text/html; charset=koi8-r")),
        ("/moved", Some("text/html")),
        ("/image", Some("image/gif")),
        ("/silent", None),
        ("/var/?c=x-mine", Some("text/html; charset=x-mine")),
        ("/var/", Some("text/html")),
    ] {
        assert_eq!(server.ask(path).field("Content-Type"), expected, "{path}");
    }
}

#[test]
fn early_hints_are_forwarded_if_configured() {
    let upstream = Upstream::start(|mut wire| {
        while wire.head().is_some() {
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
            if wire
                .try_send(format!(
                    "{hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                ))
                .is_err()
            {
                return;
            }
        }
    });
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{0}; }} \
         location /on {{ early_hints 1; proxy_pass http://127.0.0.1:{0}; }} \
         location /some {{ early_hints $http_x_hints $arg_hints; proxy_pass http://127.0.0.1:{0}; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let mut client = Client::connect(server.port);
    for (path, statuses) in [
        ("/", &[200][..]),
        ("/on", &[103, 200]),
        ("/some", &[200]),
        ("/some?hints=0", &[200]),
        ("/some?hints=1", &[103, 200]),
    ] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let found: Vec<u16> = statuses.iter().map(|_| client.response().status).collect();
        assert_eq!(found, statuses, "{path}");
    }
}

/// With `chunked_transfer_encoding off`, the end of the connection ends a body of unknown length.
#[test]
fn a_body_of_unknown_length_may_end_with_its_connection() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    // The end of the body comes after the head has reached the client: its length cannot be known before.
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            if !matches!(wait.lock().map(|wait| wait.recv()), Ok(Ok(()))) {
                return;
            }
            wire.send("0\r\n\r\n");
        }
    });
    let lines = format!(
        "proxy_buffering off; location / {{ proxy_pass http://127.0.0.1:{port}; }}\n\
         location /whole {{ chunked_transfer_encoding off; proxy_pass http://127.0.0.1:{port}; }}",
        port = upstream.port
    );
    let server = start(&lines, &[]);
    let mut wire = Wire::connect(server.port);
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = wire.head().expect("a head");
    assert_eq!(field(&head, "Transfer-Encoding"), Some("chunked"));
    assert_eq!(field(&head, "Connection"), None);
    go.send(()).expect("the upstream waits");
    assert_eq!(wire.body(&head).as_deref(), Some(&b"hello"[..]));
    wire.send("GET /whole HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = wire.head().expect("a head");
    assert_eq!(field(&head, "Transfer-Encoding"), None);
    assert_eq!(field(&head, "Content-Length"), None);
    assert_eq!(field(&head, "Connection"), Some("close"));
    go.send(()).expect("the upstream waits");
    assert_eq!(wire.take(100), b"hello", "up to the end of the connection");
}
