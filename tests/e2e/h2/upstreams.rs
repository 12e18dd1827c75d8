//! HTTP/2 upstreams behind the proxy, with clients of both versions: gRPC, ends of connections, bad upstreams.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::peer::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW, PING, Peer, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame, request,
};
use super::serving::plain;
use crate::client::{Client, ask, exchange};
use crate::harness::{Server, eventually};
use crate::upstream::Upstream;
use crate::wire::field;

type Fields = Vec<(String, String)>;

const CANCEL: u32 = 8;

/// An upstream that uses HTTP/2 with prior knowledge, and calls `serve` for each connection.
fn upstream(serve: impl Fn(Peer) + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |wire| {
        if let Some(peer) = Peer::accept(wire.reader.into_inner(), &[]) {
            serve(peer);
        }
    })
}

fn proxy(port: u16) -> Server {
    Server::start(&plain("", &format!("reverse_proxy h2c://localhost:{port}")))
}

fn value<'a>(fields: &'a Fields, name: &str) -> &'a str {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

/// A message with gRPC framing: not compressed, its length, its bytes.
fn message(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("it fits");
    [&[0], &len.to_be_bytes()[..], text.as_bytes()].concat()
}

/// A gRPC service that echoes each message at once, and ends successfully when its client does.
fn echo(mut peer: Peer) {
    while let Some((frame, fields)) = peer.frame_with_fields() {
        let ends = frame.flags & END_STREAM != 0;
        match frame.kind {
            HEADERS if value(&fields, ":path") == "/echo.Echo/Missing" => {
                let status = [(":status", "200"), ("grpc-status", "12")];
                peer.head(frame.id, END_STREAM, &status);
                continue;
            }
            HEADERS => {
                let timeout = value(&fields, "grpc-timeout");
                let te = value(&fields, "te");
                let response = [
                    (":status", "200"),
                    ("content-type", "application/grpc"),
                    ("x-timeout", timeout),
                    ("x-te", te),
                ];
                peer.head(frame.id, 0, &response);
            }
            DATA => peer.send(DATA, 0, frame.id, &frame.payload),
            _ => continue,
        }
        if ends {
            let status = [("grpc-status", "0"), ("grpc-message", "fine")];
            peer.head(frame.id, END_STREAM, &status);
        }
    }
}

fn call(path: &str) -> [(&str, &str); 7] {
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "7S"),
    ]
}

#[test]
fn calls_of_grpc_pass_with_their_trailers_and_deadlines() {
    let server = proxy(upstream(echo).port);
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&call("/echo.Echo/Once"));
    peer.send(DATA, END_STREAM, id, &message("hello"));
    let response = peer.response(id);
    assert_eq!(response.status, 200);
    assert_eq!(response.field("content-type"), Some("application/grpc"));
    assert_eq!(response.field("x-timeout"), Some("7S"));
    assert_eq!(response.field("x-te"), Some("trailers"));
    assert_eq!(response.field("content-length"), None);
    assert_eq!(response.body, message("hello"));
    let expected = [("grpc-status", "0"), ("grpc-message", "fine")];
    let trailers = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(response.trailers, trailers);
    // A response of trailers only.
    let id = peer.begin_request(&call("/echo.Echo/Missing"));
    let response = peer.response(id);
    assert_eq!(
        (response.status, response.field("grpc-status")),
        (200, Some("12"))
    );
    assert!(response.ended && response.body.is_empty());
}

/// Each message arrives before the next one is sent: nothing is buffered on the way.
#[test]
fn messages_go_both_ways_one_by_one() {
    let server = proxy(upstream(echo).port);
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&call("/echo.Echo/Stream"));
    for number in 0..20 {
        let sent = message(&format!("message {number}"));
        peer.send(DATA, 0, id, &sent);
        let frame = peer.frame_of(DATA).expect("it comes back");
        assert_eq!((frame.id, frame.payload), (id, sent));
    }
    peer.send(DATA, END_STREAM, id, &[]);
    assert_eq!(value(&peer.response(id).trailers, "grpc-status"), "0");
}

#[test]
fn a_client_that_gives_a_call_up_ends_it_upstream_and_no_other() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let silent = Arc::new(AtomicBool::new(false));
    let (seen, asked) = (ended.clone(), silent.clone());
    let backend = upstream(move |mut peer| {
        while let Some((frame, fields)) = peer.frame_with_fields() {
            match frame.kind {
                HEADERS if value(&fields, ":path") == "/kept" => {
                    peer.head(frame.id, 0, &[(":status", "200")]);
                    peer.send(DATA, END_STREAM, frame.id, b"kept");
                }
                HEADERS if value(&fields, ":path") == "/silent" => asked.store(true, Relaxed),
                HEADERS => peer.head(frame.id, 0, &[(":status", "200")]),
                RST_STREAM => seen.lock().expect("nobody panics").push(frame.code()),
                _ => {}
            }
        }
    });
    let server = proxy(backend.port);
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/kept").text(), "kept");
    let before = backend.connections();
    let id = peer.begin_request(&call("/given-up"));
    while let Some((frame, _)) = peer.frame_with_fields()
        && frame.kind != HEADERS
    {}
    peer.reset(id, CANCEL);
    let codes = || ended.lock().expect("nobody panics").clone();
    eventually(
        "a reset",
        || codes() == [CANCEL],
        || format!("{:?}", codes()),
    );
    // An HTTP/1.1 client that closes its connection has the same effect.
    let mut old = Client::connect(server.port);
    old.send("GET /silent HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // If it is gone before its request is forwarded, the request is never sent.
    let is_asked = || silent.load(Relaxed);
    eventually("the request", is_asked, String::new);
    drop(old);
    eventually(
        "a reset",
        || codes() == [CANCEL; 2],
        || format!("{:?}", codes()),
    );
    assert_eq!(peer.fetch("/kept").text(), "kept");
    // Each of the two workers may have opened one.
    assert!(before <= 2 && backend.connections() <= 2);
}

/// Responses of each kind, by path; the requests are recorded.
fn kinds(mut peer: Peer, asked: &Mutex<HashMap<String, Fields>>) {
    while let Some((frame, fields)) = peer.frame_with_fields() {
        let path = value(&fields, ":path").to_owned();
        if frame.kind == HEADERS && !path.is_empty() {
            let mut asked = asked.lock().expect("nobody panics");
            asked.insert(path.clone(), fields);
        }
        let id = frame.id;
        let mut only = |fields: &[(&str, &str)]| peer.head(id, END_STREAM, fields);
        match path.as_str() {
            "/trailers" => {
                peer.head(id, 0, &[(":status", "103"), ("link", "</style.css>")]);
                peer.head(id, 0, &[(":status", "200"), ("trailer", "x-sum")]);
                peer.send(DATA, 0, id, b"content");
                peer.head(id, END_STREAM, &[("x-sum", "7")]);
            }
            "/head" => only(&[(":status", "200"), ("content-length", "9")]),
            "/none" => only(&[(":status", "204")]),
            "/same" => only(&[(":status", "304"), ("etag", "\"1\"")]),
            _ => {}
        }
    }
}

#[test]
fn http1_clients_get_responses_of_http2_upstreams() {
    let asked = Arc::new(Mutex::new(HashMap::new()));
    let seen = asked.clone();
    let backend = upstream(move |peer| kinds(peer, &seen));
    let server = proxy(backend.port);
    let mut client = Client::connect(server.port);
    client.send(
        "GET /trailers HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE, X-Hop\r\nX-Hop: 1\r\n\
         X-Upper: Kept\r\nCookie: a=1\r\n\r\n",
    );
    assert!(client.head().expect("hints").starts_with("HTTP/1.1 103 "));
    let head = client.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    assert!(head.contains("Via: 2.0 sluice\r\n"), "{head}");
    let mut rest = String::new();
    while !rest.ends_with("\r\n\r\n") {
        rest.push(char::from(client.byte().expect("more")));
    }
    assert_eq!(rest, "7\r\ncontent\r\n0\r\nx-sum: 7\r\n\r\n");
    for (request, status) in [("HEAD /head", 200), ("GET /none", 204), ("GET /same", 304)] {
        client.send(format!("{request} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let head = client.head().expect("a head");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(
            head.contains("Content-Length: 9\r\n"),
            status == 200,
            "{head}"
        );
    }
    let asked = asked.lock().expect("nobody panics");
    let fields = &asked["/trailers"];
    for (name, expected) in [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.test"),
        ("te", "trailers"),
        ("x-upper", "Kept"),
        ("cookie", "a=1"),
        ("x-forwarded-host", "a.test"),
        ("x-forwarded-proto", "http"),
        ("via", "1.1 sluice"),
        ("x-hop", ""),
        ("connection", ""),
        ("host", ""),
    ] {
        assert_eq!(value(fields, name), expected, "{name}");
    }
}

/// RFC 9113, section 6.8: streams after the last one named by a GOAWAY were not processed.
#[test]
fn no_request_is_lost_or_sent_twice_on_goaway() {
    let served = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let counts = served.clone();
    let backend = upstream(move |mut peer| {
        let mut streams = 0;
        let mut open: HashMap<u32, String> = HashMap::new();
        while let Some((frame, fields)) = peer.frame_with_fields() {
            if frame.kind == HEADERS {
                streams += 1;
                if streams == 6 {
                    // The sixth is not processed, the others are served completely.
                    let last = frame.id - 2;
                    peer.send(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
                } else if streams < 6 {
                    open.insert(frame.id, value(&fields, ":path").to_owned());
                }
            }
            if frame.flags & END_STREAM != 0
                && matches!(frame.kind, DATA | HEADERS)
                && let Some(path) = open.remove(&frame.id)
            {
                *counts
                    .lock()
                    .expect("nobody panics")
                    .entry(path.clone())
                    .or_default() += 1;
                peer.head(frame.id, 0, &[(":status", "200")]);
                peer.send(DATA, END_STREAM, frame.id, path.as_bytes());
            }
        }
    });
    let server = proxy(backend.port);
    let port = server.port;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            thread::spawn(move || {
                for number in 0..25 {
                    let path = format!("/{client}/{number}");
                    let post = format!(
                        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"
                    );
                    let response = exchange(port, post);
                    assert_eq!((response.status, response.text()), (200, path));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("all are answered");
    }
    let served = served.lock().expect("nobody panics");
    assert_eq!(served.len(), 200);
    assert!(served.values().all(|count| *count == 1), "{served:?}");
    assert!(backend.connections() > 20);
}

/// A client that sends its whole body before it reads: neither direction waits for the other.
#[test]
fn an_upload_goes_on_while_the_client_does_not_read() {
    const SIZE: usize = 300_000;
    let backend = upstream(|mut peer| {
        let mut taken = 0;
        while let Some((frame, _)) = peer.frame_with_fields() {
            match frame.kind {
                HEADERS => {
                    peer.head(frame.id, 0, &[(":status", "200")]);
                    // More than the client's current window.
                    (0..3).for_each(|_| peer.send(DATA, 0, frame.id, &[b'x'; 16_000]));
                }
                DATA => {
                    taken += frame.payload.len();
                    if frame.flags & END_STREAM != 0 {
                        peer.send(DATA, END_STREAM, frame.id, taken.to_string().as_bytes());
                    }
                }
                _ => {}
            }
        }
    });
    let server = proxy(backend.port);
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 1000)]);
    let id = peer.begin_request(&call("/upload"));
    // Windows of the stream and of the connection.
    let (mut window, mut window_of_all) = (65_535, 65_535);
    let mut sent = 0;
    while sent < SIZE {
        let count = (SIZE - sent).min(16_000);
        while window.min(window_of_all) < count {
            let frame = peer.frame_of(WINDOW_UPDATE).expect("leave to send");
            let word = frame.payload[..4].try_into().expect("four bytes");
            match frame.id == id {
                true => window += u32::from_be_bytes(word) as usize,
                false => window_of_all += u32::from_be_bytes(word) as usize,
            }
        }
        window_of_all -= count;
        sent += count;
        window -= count;
        let flags = if sent == SIZE { END_STREAM } else { 0 };
        peer.send(DATA, flags, id, &vec![b'y'; count]);
    }
    // At most the first 1,000 bytes were discarded above while waiting for window updates.
    peer.give_window(id, 1 << 20);
    assert!(peer.response(id).text().ends_with(&SIZE.to_string()));
}

/// Attack rows 17 to 22, from the upstream side: an upstream that floods, bombs or hangs yields a 502, and no other
/// client notices.
#[test]
fn bad_upstreams_of_http2_are_bad_gateways_and_hold_up_nobody() {
    let flood = |bytes: fn(u32) -> Vec<u8>| {
        upstream(move |mut peer| {
            let Some(Frame { id, .. }) = peer.frame_of(HEADERS) else {
                return;
            };
            let bytes = bytes(id).repeat(1000);
            for _ in 0..100 {
                if peer.try_send(&bytes).is_err() {
                    return;
                }
            }
            while peer.frame().is_some() {}
        })
    };
    let bad = [
        flood(|_| frame(PING, 0, 0, &[0; 8])),
        flood(|_| frame(SETTINGS, 0, 0, &[])),
        flood(|id| frame(DATA, 0, id, &[])),
        flood(|id| frame(9, 0, id, b"x")),
        flood(|id| frame(HEADERS, END_HEADERS, id, &[0x80])),
        flood(|_| b"garbage".to_vec()),
        Upstream::start(|mut wire| wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")),
        Upstream::start(|_| {}),
    ];
    let good = upstream(|mut peer| {
        while let Some((frame, _)) = peer.frame_with_fields() {
            if frame.kind == HEADERS {
                peer.head(frame.id, 0, &[(":status", "200")]);
                peer.send(DATA, END_STREAM, frame.id, b"good");
            }
        }
    });
    let mut site = format!("reverse_proxy /good h2c://localhost:{}\n", good.port);
    for (number, bad) in bad.iter().enumerate() {
        site.push_str(&format!(
            "reverse_proxy /bad{number} h2c://localhost:{}\n",
            bad.port
        ));
    }
    let server = Server::start(&plain("", &site));
    assert_eq!(ask(server.port, "/good").text(), "good");
    let before = server.status("VmRSS");
    for number in 0..bad.len() {
        assert_eq!(
            ask(server.port, &format!("/bad{number}")).status,
            502,
            "{number}"
        );
        assert_eq!(ask(server.port, "/good").text(), "good");
    }
    let grown = server.status("VmRSS").saturating_sub(before);
    // A megabyte of window each, and as much for buffers kept for reuse.
    assert!(
        grown < 16 * 1024,
        "{grown} KiB more for eight bad upstreams"
    );
}

/// A truncated body never looks complete.
#[test]
fn a_truncated_http2_response_never_looks_complete() {
    let backend = upstream(|mut peer| {
        let Some(Frame { id, .. }) = peer.frame_of(HEADERS) else {
            return;
        };
        peer.head(id, 0, &[(":status", "200")]);
        peer.send(DATA, 0, id, b"half");
        // The head is on its way to the client before the connection ends; at once it may be a 502.
        thread::sleep(Duration::from_millis(50));
    });
    let server = proxy(backend.port);
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(client.try_response().is_err());
    let mut peer = Peer::connect(server.port);
    let response = peer.fetch("/");
    assert!(!response.ended && response.reset.is_some(), "{response:?}");
    // Nor does one that is longer or shorter than declared.
    let liar = upstream(|mut peer| {
        let Some(Frame { id, .. }) = peer.frame_of(HEADERS) else {
            return;
        };
        peer.head(id, 0, &[(":status", "200"), ("content-length", "9")]);
        peer.send(DATA, END_STREAM, id, b"half");
        while peer.frame().is_some() {}
    });
    let server = proxy(liar.port);
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        client
            .try_response()
            .is_ok_and(|response| response.status == 502)
            || client.is_closed()
    );
}

#[test]
fn websockets_go_to_upstreams_of_http2_in_http1() {
    let backend = Upstream::start(|mut wire| {
        let Some(head) = wire.head() else { return };
        let upgrade = field(&head, "Upgrade").unwrap_or_default().to_owned();
        wire.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n{}",
            head[0]
        ));
    });
    let server = proxy(backend.port);
    let mut client = Client::connect(server.port);
    client
        .send("GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.head().expect("a head").starts_with("HTTP/1.1 101 "));
    let line: Vec<u8> = (0..18).map_while(|_| client.byte().ok()).collect();
    assert_eq!(line, b"GET /chat HTTP/1.1");
}

/// Health checks, retries and `handle_response` work the same with every upstream protocol.
#[test]
fn health_checks_retries_and_handled_responses_work_over_http2() {
    let checks = Arc::new(AtomicUsize::new(0));
    let counted = checks.clone();
    let backend = upstream(move |mut peer| {
        while let Some((frame, fields)) = peer.frame_with_fields() {
            if frame.kind != HEADERS {
                continue;
            }
            let (status, body) = match value(&fields, ":path") {
                "/up" => {
                    counted.fetch_add(1, Ordering::Relaxed);
                    ("200", "I am well")
                }
                "/moved" => ("404", "gone"),
                _ => ("200", "served"),
            };
            peer.head(frame.id, 0, &[(":status", status)]);
            peer.send(DATA, END_STREAM, frame.id, body.as_bytes());
        }
    });
    let dead = crate::upstream::dead();
    let server = Server::start(&plain(
        "",
        &format!(
            "reverse_proxy h2c://localhost:{dead} h2c://localhost:{} {{\n\
             lb_policy first\nlb_retries 1\nhealth_uri /up\nhealth_interval 100ms\nhealth_body well\n\
             @gone status 404\nhandle_response @gone {{\nrespond \"handled {{rp.status_code}}\" 410\n}}\n}}",
            backend.port
        ),
    ));
    assert_eq!(ask(server.port, "/").text(), "served");
    let response = ask(server.port, "/moved");
    assert_eq!(
        (response.status, response.text()),
        (410, "handled 404".to_owned())
    );
    let count = || checks.load(Ordering::Relaxed);
    eventually("three checks", || count() >= 3, || count().to_string());
    assert_eq!(ask(server.port, "/").text(), "served");
}

#[test]
fn content_of_another_length_is_one_request_upstream_at_most() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let backend = upstream(move |mut peer| {
        while let Some((frame, _)) = peer.frame_with_fields() {
            if frame.kind == HEADERS {
                counted.fetch_add(1, Ordering::Relaxed);
                peer.head(frame.id, END_STREAM, &[(":status", "200")]);
            }
        }
    });
    let server = proxy(backend.port);
    let mut peer = Peer::connect(server.port);
    // `Content-Length` that does not match the body, attack row 6.
    for (length, content) in [("3", &b"four"[..]), ("5", b"four"), ("0", b"x")] {
        let mut fields = request("POST", "/").to_vec();
        fields.push(("content-length", length));
        let id = peer.begin_request(&fields);
        peer.send(DATA, END_STREAM, id, content);
        let response = peer.response(id);
        assert!(
            response.reset.is_some() || response.status >= 400,
            "{response:?}"
        );
    }
    assert_eq!(peer.fetch("/").status, 200);
    let whole = seen.load(Ordering::Relaxed);
    assert!(whole <= 4, "{whole}");
}
