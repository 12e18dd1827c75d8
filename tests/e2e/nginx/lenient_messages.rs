//! What nginx accepts of clients and upstreams although a strict server refuses it, and that none of it lets anybody
//! smuggle a request. A Caddyfile stays strict.

use super::{site, start};
use crate::client::{Client, exchange};
use crate::h2::peer::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, Peer, SETTINGS, block, frame,
};
use crate::harness::{Server, eventually};
use crate::upstream::{Upstream, respond};
use crate::wire::Wire;
use sluice_wire::h2::PREFACE;
use std::sync::{Arc, Mutex};

/// A request that must never be served.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// An upstream that records the request lines.
fn recording() -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let noted = lines.clone();
    let upstream = Upstream::start(move |mut wire: Wire| {
        while let Some(head) = wire.head() {
            let Some(_) = wire.body(&head) else { return };
            noted
                .lock()
                .expect("nobody panics with it")
                .push(head[0].clone());
            let text = head[0].clone();
            let length = text.len();
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}"
            ));
        }
    });
    (upstream, lines)
}

fn pass(upstream: &Upstream) -> String {
    format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; }}",
        upstream.port
    )
}

/// A Caddyfile's server, which accepts none of this.
fn strict(upstream: &Upstream) -> Server {
    Server::start(&format!(
        "{{\nadmin off\n}}\n:{{port}} {{\nreverse_proxy 127.0.0.1:{}\n}}\n",
        upstream.port
    ))
}

/// Sends `request` and a hidden one behind it: the only response.
fn only_response(port: u16, request: &str) -> crate::client::Response {
    let mut client = Client::connect(port);
    // The server may close before it has read all of it.
    let _ = client.try_send(format!("{request}{HIDDEN}"));
    let response = client.response();
    assert_eq!(response.field("Connection"), Some("close"), "{request:?}");
    assert!(client.try_response().is_err(), "{request:?}");
    response
}

#[test]
fn a_head_may_end_its_lines_with_lf_and_nothing_behind_it_is_a_request() {
    let (upstream, lines) = recording();
    let server = start(&pass(&upstream), &[]);
    let caddy = strict(&upstream);
    let accepted = [
        "GET /1 HTTP/1.1\nHost: a\n\n",
        "GET /2 HTTP/1.1\r\nHost: a\n\r\n",
        "GET /3 HTTP/1.1\r\nHost: a\r\n\n",
        "\nGET /4 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /5 HTTP/1.1\nHost: a\nContent-Length: 3\n\nabc",
        "POST /6 HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n",
        "GET /7 HTTP/1.0\nConnection: keep-alive\n\n",
    ];
    for request in accepted {
        assert_eq!(
            only_response(server.port, request).status,
            200,
            "{request:?}"
        );
        assert_eq!(
            only_response(caddy.port, request).status,
            400,
            "{request:?}"
        );
    }
    // The cases of docs/attacks.md, classes 1, 2, 3 and 10, with the other line end.
    let refused = [
        "POST / HTTP/1.1\nHost: a\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
        "POST / HTTP/1.1\nHost: a\nContent-Length: 3\nContent-Length: 0\n\nabc",
        "POST / HTTP/1.1\nHost: a\nTransfer-Encoding : chunked\n\n0\r\n\r\n",
        "POST / HTTP/1.1\nHost: a\nX: y\n Transfer-Encoding: chunked\n\n0\r\n\r\n",
        "POST / HTTP/1.1\nHost: a\nX: y\rContent-Length: 3\n\nabc",
        "POST / HTTP/1.1\nHost: a\nX: y\r\r\n\r\n",
        "POST / HTTP/1.0\nHost: a\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
        "GET /\nHTTP/1.1\nHost: a\n\n",
    ];
    for request in refused {
        assert_eq!(
            only_response(server.port, request).status,
            400,
            "{request:?}"
        );
    }
    let served = lines.lock().expect("nobody panics with it").clone();
    assert_eq!(served.len(), accepted.len(), "{served:?}");
}

/// Chunks are framed strictly, whatever the lines of the head end with.
#[test]
fn chunks_end_their_lines_with_cr_lf() {
    let (upstream, lines) = recording();
    let server = start(&pass(&upstream), &[]);
    for chunks in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\r\n",
        "3\r\nabc\r\n0\r\n\n",
    ] {
        for end in ["\n", "\r\n"] {
            let head = [
                "POST / HTTP/1.1",
                "Host: a",
                "Transfer-Encoding: chunked",
                "",
                "",
            ];
            let request = format!("{}{chunks}", head.join(end));
            assert_eq!(
                only_response(server.port, &request).status,
                400,
                "{request:?}"
            );
        }
    }
    assert!(lines.lock().expect("nobody panics with it").is_empty());
}

#[test]
fn an_upstream_may_end_its_lines_with_lf_and_is_not_asked_again_on_that_connection() {
    let lf = Upstream::responding("HTTP/1.1 200 OK\nContent-Length: 2\n\nok");
    let mixed = Upstream::responding("HTTP/1.1 200\nContent-Length: 2\r\n\nok");
    let usual = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    for (upstream, connections) in [(&lf, 3), (&mixed, 3), (&usual, 1)] {
        let conf = format!(
            "events {{}}\nhttp {{\nupstream up {{ server 127.0.0.1:{}; keepalive 4; }}\n\
             server {{\nlisten 127.0.0.1:{{port}};\nlocation / {{ proxy_pass http://up; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; }}\n}}\n}}\n",
            upstream.port
        );
        let server = super::setup(&conf).start();
        let mut client = Client::connect(server.port);
        for _ in 0..3 {
            let response = client.get("/");
            assert_eq!((response.status, response.text()), (200, "ok".to_owned()));
        }
        assert_eq!(upstream.connections(), connections);
        if connections == 3 {
            assert_eq!(strict(upstream).ask("/").status, 502);
        }
    }
    for chunks in ["2\nok\r\n0\r\n\r\n", "2\r\nok\n0\r\n\r\n"] {
        let bytes = format!("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n{chunks}");
        let upstream = Upstream::responding(bytes);
        let server = start(&pass(&upstream), &[]);
        let mut client = Client::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // The head may have left before the second line end is read; the end of the body never does.
        let response = client.try_response();
        assert!(
            !response.is_ok_and(|response| response.status == 200),
            "{chunks:?}"
        );
    }
}

/// What reaches variables, the upstream and the log.
#[test]
fn targets_may_have_raw_bytes_and_fragments() {
    let (upstream, _) = recording();
    let setup = super::setup(&format!(
        "events {{}}\nhttp {{\nlog_format m '$request';\nserver {{\nlisten 127.0.0.1:{{port}};\nroot {{folder}}/www;\n\
         access_log {{folder}}/a.log m;\n\
         location /echo {{ return 200 \"$uri|$request_uri|$args\"; }}\n\
         location /raw {{ proxy_pass http://127.0.0.1:{0}; }}\nlocation /up/ {{ proxy_pass http://127.0.0.1:{0}/; }}\n}}\n}}\n",
        upstream.port
    ));
    setup.folder().write("www/caf\u{e9}.txt", "coffee");
    let server = setup.start();
    let caddy = strict(&upstream);
    let ask = |port: u16, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        exchange(port, request)
    };
    for (target, expected) in [
        ("/caf\u{e9}.txt", "coffee"),
        (
            "/echo/\u{e9}?\u{fc}",
            "/echo/\u{e9}|/echo/\u{e9}?\u{fc}|\u{fc}",
        ),
        ("/echo/a#b?c", "/echo/a|/echo/a#b?c|"),
        ("/echo/a?b#c?d", "/echo/a|/echo/a?b#c?d|b"),
        ("/echo/a#/../b", "/echo/a|/echo/a#/../b|"),
        ("http://a/echo/a#b", "/echo/a|/echo/a#b|"),
        ("/raw/\u{e9}?\u{fc}", "GET /raw/\u{e9}?\u{fc} HTTP/1.1"),
        ("/raw/a#b?c", "GET /raw/a#b?c HTTP/1.1"),
        ("/up/\u{e9}?\u{fc}", "GET /\u{e9}?\u{fc} HTTP/1.1"),
        ("/up/%41\u{e9}", "GET /A%C3%A9 HTTP/1.1"),
        ("/up/a#b?c", "GET /a HTTP/1.1"),
        ("/up/a?b#c", "GET /a?b HTTP/1.1"),
        ("/up/a%23b", "GET /a%23b HTTP/1.1"),
    ] {
        let found = ask(server.port, target)
            .text()
            .replace("HTTP/1.0", "HTTP/1.1");
        assert_eq!(found, expected, "{target}");
        if target.contains('#') || !target.is_ascii() {
            assert_eq!(ask(caddy.port, target).status, 400, "{target}");
        }
    }
    for target in ["/\u{7f}", "/a\u{1}", "#", "\u{e9}", "http://a#/"] {
        assert_eq!(ask(server.port, target).status, 400, "{target:?}");
    }
    let folder = &server.folder;
    eventually(
        "the log has the target as it was sent",
        || {
            let log = folder.read("a.log");
            log.contains("GET /echo/a#b?c HTTP/1.1")
                && log.contains("GET /raw/\\xC3\\xA9?\\xC3\\xBC HTTP/1.1")
        },
        || folder.read("a.log"),
    );
}

#[test]
fn http_1_0_may_post_without_a_length_and_nothing_behind_it_is_a_request() {
    let (upstream, lines) = recording();
    let server = start(&pass(&upstream), &[]);
    let caddy = strict(&upstream);
    for method in ["POST", "PUT"] {
        for option in ["", "Connection: keep-alive\r\n"] {
            let request = format!("{method} / HTTP/1.0\r\nHost: a\r\n{option}\r\n");
            assert_eq!(
                only_response(server.port, &request).status,
                200,
                "{request:?}"
            );
            assert_eq!(
                only_response(caddy.port, &request).status,
                411,
                "{request:?}"
            );
        }
    }
    assert_eq!(lines.lock().expect("nobody panics with it").len(), 4);
}

#[test]
fn trace_connect_and_hosts_with_empty_labels_are_refused_everywhere() {
    let (upstream, lines) = recording();
    let lines_of_site = format!(
        "http2 on;\n{}\nlocation /own {{ return 200; }}",
        pass(&upstream)
    );
    let server = start(&lines_of_site, &[]);
    for (method, target, host, status) in [
        ("TRACE", "/", "a", 405),
        ("TRACE", "/own", "a", 405),
        ("CONNECT", "a:443", "a:443", 400),
        ("GET", "/own", "a..b", 400),
        ("GET", "/", ".", 400),
        ("GET", "/", "a..:80", 400),
    ] {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(only_response(server.port, &head).status, status, "{head:?}");
        let mut peer = Peer::connect(server.port);
        let id = match method {
            "CONNECT" => peer.ask(&[(":method", method), (":authority", host)]),
            _ => peer.ask(&[
                (":method", method),
                (":scheme", "http"),
                (":path", target),
                (":authority", host),
            ]),
        };
        assert_eq!(peer.response(id).status, status, "{head:?} over HTTP/2");
        // Other requests of the connection go on.
        let id = peer.ask(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/own"),
            (":authority", "a"),
        ]);
        assert_eq!(peer.response(id).status, 200, "after {head:?}");
    }
    assert!(lines.lock().expect("nobody panics with it").is_empty());
}

/// Over HTTP/2 a client may send its first SETTINGS after its first request, or never.
#[test]
fn settings_of_http2_may_come_late() {
    // The kind of the first frame that decides.
    let ask = |port: u16, frames: &[Vec<u8>]| {
        let mut wire = Wire::connect(port);
        wire.send(PREFACE);
        wire.send(frames.concat());
        loop {
            let head = wire.take(9);
            let length = u64::from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
            wire.take(length);
            if [HEADERS, GOAWAY].contains(&head[3]) {
                return head[3];
            }
        }
    };
    let request = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &block(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
        ]),
    );
    let settings = frame(SETTINGS, 0, 0, &[]);
    let ping = frame(PING, 0, 0, b"12345678");
    let server = start("http2 on; return 200 ok;", &[]);
    let caddy = Server::start(
        "{\nadmin off\nservers {\nprotocols h1 h2c\n}\n}\n:{port} {\nrespond ok\n}\n",
    );
    for frames in [
        vec![request.clone(), settings.clone()],
        vec![request.clone()],
        vec![ping, settings.clone(), request.clone()],
        vec![settings, request],
    ] {
        assert_eq!(ask(server.port, &frames), HEADERS);
        let is_usual = frames[0][3] == SETTINGS;
        assert_eq!(
            ask(caddy.port, &frames),
            if is_usual { HEADERS } else { GOAWAY }
        );
    }
}

/// `large_client_header_buffers` limits each line and their sum.
#[test]
fn lines_are_as_long_as_one_buffer() {
    for (directive, size, count) in [
        ("", 8192, 4),
        ("large_client_header_buffers 2 2k;", 2048, 2),
        ("large_client_header_buffers 3 16k;", 16_384, 3),
        (
            "client_header_buffer_size 4k; large_client_header_buffers 2 2k;",
            4096,
            1,
        ),
    ] {
        let server = site(&format!("{directive}\nreturn 200 ok;")).start();
        let ask = |head: String| exchange(server.port, head);
        let target = |length: usize| {
            let line = "GET / HTTP/1.1\r\n".len();
            let target = "a".repeat(length - line);
            ask(format!(
                "GET /{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            ))
        };
        // The head as a whole has room for one long line.
        if count > 1 {
            assert_eq!(target(size).status, 200, "{directive}");
        }
        assert_eq!(target(size + 1).status, 414, "{directive}");
        let header = |length: usize| {
            let value = "a".repeat(length - "X: \r\n".len());
            ask(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {value}\r\n\r\n"
            ))
        };
        if count > 1 {
            assert_eq!(header(size).status, 200, "{directive}");
        }
        let refused = header(size + 1);
        assert_eq!(refused.status, 400, "{directive}");
        assert!(
            refused
                .text()
                .contains("400 Request Header Or Cookie Too Large"),
            "{}",
            refused.text()
        );
        let many = format!("X: {}\r\n", "a".repeat(size - 100)).repeat(count + 1);
        let refused = ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"));
        assert_eq!(refused.status, 400, "{directive}");
    }
    // A name may be as long as its line.
    let server = site("return 200 ok;").start();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}: 1\r\n\r\n",
        "X".repeat(4000)
    );
    assert_eq!(exchange(server.port, head).status, 200);
    // 494 has an error page of its own.
    let server = start(
        "error_page 494 /long.txt;\nlocation / { }",
        &[("long.txt", "too long")],
    );
    let head = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "a".repeat(9000)
    );
    assert_eq!(exchange(server.port, head).text(), "too long");
}

/// Header names are spelled as nginx spells them, and HTTP/1.0 gets HTTP/1.1 also where the head is refused.
#[test]
fn responses_are_spelled_as_nginx_spells_them() {
    let lines = "location /private { auth_basic x; auth_basic_user_file {folder}/none; }\n\
                 location /moved { return 301 /there; }\nlocation /wait { limit_except GET { deny all; } }";
    let server = start(lines, &[("a.txt", "hello")]);
    let asked = |head: &str| {
        let response = exchange(server.port, format!("{head}\r\n\r\n"));
        assert!(response.head.starts_with("HTTP/1.1 "), "{}", response.head);
        response.head
    };
    for (head, names) in [
        (
            "GET /a.txt HTTP/1.0",
            &[
                "ETag",
                "Last-Modified",
                "Accept-Ranges",
                "Content-Type",
                "Server",
                "Date",
            ][..],
        ),
        (
            "GET /a.txt HTTP/1.0\r\nRange: bytes=0-1",
            &["Content-Range", "ETag"],
        ),
        ("GET /a.txt HTTP/1.0\r\nRange: bytes=9-", &["Content-Range"]),
        ("GET /private HTTP/1.0", &["WWW-Authenticate"]),
        ("GET /moved HTTP/1.0", &["Location"]),
        ("GET /none HTTP/1.0", &["Content-Length"]),
        ("GET / HTTP/1.0\r\nHost: a b", &["Connection"]),
    ] {
        let found = asked(head);
        for name in names {
            assert!(found.contains(&format!("\r\n{name}: ")), "{head}: {found}");
        }
    }
}

/// The spelling of an upstream's headers stays, except where sluice writes them itself.
#[test]
fn responses_of_upstreams_keep_their_spelling() {
    let upstream = Upstream::start(|mut wire: Wire| {
        let text = b"HTTP/1.1 200 OK\r\netag: \"1\"\r\nWWW-authenticate: x\r\nX-oDD: 1\r\nContent-Length: 0\r\n\r\n";
        while respond(&mut wire, text).is_some() {}
    });
    let server = start(&pass(&upstream), &[]);
    let head = server.ask("/").head;
    for line in ["etag: \"1\"", "WWW-authenticate: x", "X-oDD: 1"] {
        assert!(head.contains(line), "{head}");
    }
}
