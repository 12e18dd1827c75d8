//! Responses of other locations added before and after the body, and cookies that identify clients.

use super::{setup, start};
use crate::client::{Client, exchange};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;

fn get(server: &Server, path: &str, fields: &str) -> crate::client::Response {
    exchange(
        server.port,
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"),
    )
}

/// An upstream that returns the request line in a page.
fn recording() -> Upstream {
    Upstream::start(|mut wire| {
        while let Some(head) = wire.head() {
            if wire.body(&head).is_none() {
                return;
            }
            let path = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
            let coding = match path.as_str() {
                "/packed" => "Content-Encoding: br\r\n",
                _ => "",
            };
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"x\"\r\n{coding}Transfer-Encoding: chunked\r\n\r\n\
                 {:x}\r\n[{}]\r\n0\r\n\r\n",
                head[0].len() + 2,
                head[0]
            );
            if wire.try_send(response).is_err() {
                return;
            }
        }
    })
}

#[test]
fn addition_adds_responses_before_and_after() {
    let upstream = recording();
    let lines = format!(
        "types {{ text/html html; text/plain txt; }} add_before_body /up/before; add_after_body /foot.html; gzip on; \
         location /up/ {{ proxy_pass http://127.0.0.1:{0}/; }} \
         location /front {{ add_after_body ''; add_before_body /missing; default_type text/html; return 200 front; }} \
         location /plain.txt {{ addition_types text/plain; }} \
         location /bad {{ return 404; }} location = /missing {{ internal; default_type text/html; return 404 '(none)'; }} \
         location /sub.html {{ sub_filter body replaced; }} location /said {{ set $before 1; default_type text/html; return 200 \"said $before\"; }} \
         location = /broken.html {{ add_before_body /nobody; }} location = /nobody {{ proxy_pass http://127.0.0.1:1; }}",
        upstream.port
    );
    let files = [
        ("a.html", "<body>"),
        ("foot.html", "<foot>"),
        ("plain.txt", "text"),
        ("note.txt", "text"),
        ("sub.html", "<body>"),
        ("broken.html", "<body>"),
    ];
    let server = start(&lines, &files);
    let before = "[GET /before HTTP/1.1]";
    let page = get(&server, "/a.html?x=y", "");
    assert_eq!(page.text(), format!("{before}<body><foot>"));
    assert!(
        page.field("ETag")
            .expect("files have one")
            .starts_with("W/\"")
    );
    assert_eq!(
        (page.field("Content-Length"), page.field("Accept-Ranges")),
        (None, None)
    );
    for (path, expected) in [
        ("/note.txt", "text".to_owned()),
        ("/plain.txt", format!("{before}text<foot>")),
        ("/front", "(none)front".to_owned()),
        ("/sub.html", format!("{before}<replaced><foot>")),
        ("/up/x", format!("{before}[GET /x HTTP/1.1]<foot>")),
        ("/up/packed", "[GET /packed HTTP/1.1]".to_owned()),
        ("/said", format!("{before}said 1<foot>")),
    ] {
        assert_eq!(get(&server, path, "").text(), expected, "{path}");
    }
    let bad = get(&server, "/bad", "");
    assert!(
        bad.status == 404 && !bad.text().contains("foot"),
        "only good answers"
    );
    let broken = get(&server, "/broken.html", "").text();
    assert!(
        broken.contains("502 Bad Gateway") && broken.ends_with("<body><foot>"),
        "{broken}"
    );
    let packed = get(&server, "/a.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.field("Content-Encoding"), Some("gzip"), "as a whole");
    // A request body is not forwarded with subrequests.
    let mut client = Client::connect(server.port);
    client.send("POST /up/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(
        client.response().text(),
        format!("{before}[POST /x HTTP/1.1]<foot>")
    );
    client.send("HEAD /a.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(!head.contains("Content-Length"), "{head}");
    assert_eq!(client.get("/note.txt").text(), "text");
}

const COOKIES: &str = "events {}\nhttp { log_format uid '$uri $uid_got $uid_set'; access_log {folder}/uid.log uid;\n\
         server { listen 127.0.0.1:{port}; userid on; userid_service 1;\n\
         location / { return 200 x; }\n\
         location /all { userid_name id; userid_domain a.test; userid_path /p; userid_expires max; userid_flags secure httponly samesite=lax; userid_p3p 'CP=\"x\"'; return 200 x; }\n\
         location /time { userid_expires 1d; return 200 x; }\n\
         location /mark { userid_mark z; return 200 x; }\n\
         location /log { userid log; return 200 $uid_got; }\n\
         location /reset { set $uid_reset $arg_reset; return 200 x; }\n\
         location /off { userid off; return 200 x; } } }\n";

#[test]
fn clients_get_a_cookie_and_are_known_by_it() {
    let setup = setup(COOKIES);
    let log = setup.folder().path().join("uid.log");
    let server = setup.start();
    let cookie = |path: &str, sent: &str| {
        let fields = match sent {
            "" => String::new(),
            sent => format!("Cookie: a=b; {sent}\r\n"),
        };
        get(&server, path, &fields)
            .field("Set-Cookie")
            .map(str::to_owned)
    };
    let first = cookie("/", "").expect("it is new");
    let value = first
        .strip_prefix("uid=")
        .and_then(|rest| rest.strip_suffix("; path=/"));
    let value = value.unwrap_or_else(|| panic!("{first}")).to_owned();
    assert!(value.len() == 24 && value.ends_with("=="), "{value}");
    assert_eq!(cookie("/", &format!("uid={value}")), None, "it is known");
    assert_ne!(
        cookie("/", ""),
        Some(first.clone()),
        "each client has its own"
    );
    assert!(
        cookie("/", "uid=short").is_some() && cookie("/", "uid=!!!!!!!!!!!!!!!!!!!!!!!!").is_some()
    );
    let all = get(&server, "/all", "");
    let set = all.field("Set-Cookie").expect("it is new");
    assert!(
        set.starts_with("id=")
            && set.ends_with("; expires=Thu, 31-Dec-37 23:55:55 GMT; domain=a.test; path=/p; secure; httponly; samesite=lax"),
        "{set}"
    );
    assert_eq!(all.field("P3P"), Some("CP=\"x\""));
    let time = cookie("/time", "").expect("it is new");
    assert!(
        time.contains("; expires=") && time.ends_with(" GMT; path=/"),
        "{time}"
    );
    let marked = cookie("/mark", &format!("uid={value}")).expect("it had no mark");
    let letters = &value[..22];
    assert_eq!(marked, format!("uid={letters}z=; path=/"));
    assert_eq!(cookie("/mark", &format!("uid={letters}z=")), None);
    assert_eq!(cookie("/off", ""), None);
    assert_eq!(cookie("/log", ""), None);
    assert_eq!(cookie("/reset", &format!("uid={value}")), None);
    assert!(cookie("/reset?reset=1", &format!("uid={value}")).is_some());
    let known = get(&server, "/log", &format!("Cookie: uid={value}\r\n")).text();
    // The number of the server, in network byte order, read as a native integer.
    let service = u32::from_ne_bytes(1u32.to_be_bytes());
    assert!(
        known.starts_with(&format!("uid={service:08X}")) && known.len() == 36,
        "{known}"
    );
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let line = format!("/log {known} -\n");
    eventually("it is logged", || text().contains(&line), text);
    let is_set = |line: &&str| line.starts_with("/ - uid=");
    eventually(
        "so are new ones",
        || text().lines().filter(is_set).count() == 4,
        text,
    );
}
