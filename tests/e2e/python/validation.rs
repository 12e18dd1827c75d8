//! The standard library's check of PEP 3333 (`wsgiref.validate`) and a check of ASGI 3 over the real binary: what the server
//! says to applications, for all kinds of requests over sockets.

use super::ws_client::{BINARY, CLOSE, WebSocket};
use super::{digest, lines_with, pattern, post, start};
use crate::client::{Client, Response, exchange};
use crate::h2::peer::{DATA, END_STREAM, Peer};
use crate::harness::{Server, eventually};
use crate::wire::Wire;

/// Sends a request with a chunked body.
fn post_chunked(port: u16, path: &str, body: &[u8]) -> Response {
    let mut client = Client::connect(port);
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    for piece in body.chunks(30_000) {
        client.send(format!("{:x}\r\n", piece.len()));
        client.send(piece);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    client.response()
}

/// Sends bodies of all kinds.
fn upload(server: &Server) {
    for length in [0, 1, 65_536, 1_000_000] {
        let body = pattern(length);
        let response = post(server.port, "/digest", &body);
        assert_eq!(response.text(), digest(&body), "{length}");
        let response = post_chunked(server.port, "/digest", &body);
        assert_eq!(response.text(), digest(&body), "{length} in chunks");
    }
    let none = "POST /digest HTTP/1.0\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(exchange(server.port, none).text(), digest(b""));
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/digest"),
    ]);
    peer.send(DATA, 0, id, b"ab");
    peer.send(DATA, END_STREAM, id, b"cd");
    assert_eq!(peer.response(id).text(), digest(b"abcd"));
}

#[test]
fn wsgiref_validate_finds_nothing() {
    for options in ["", "runtime gevent", "preload"] {
        let Some(server) = start(&format!("module_wsgi validated:app\n{options}")) else {
            return;
        };
        validate(&server);
    }
}

fn validate(server: &Server) {
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/hello?a=%41").text(), "hello");
    client.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a response");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 5\r\n"),
        "{head}"
    );
    client.send("HEAD /streamed HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("a response");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(client.get("/streamed").text(), "piece\n".repeat(100));
    assert_eq!(client.get("/written").text(), "written, again, returned");
    assert_eq!(client.get("/wrapped").text(), "from a file\n".repeat(1000));
    let source = std::fs::read(super::apps().join("validated.py")).expect("it is there");
    assert_eq!(client.get("/wrapped-file").body, source);
    let replaced = client.get("/replaced");
    assert_eq!(
        (replaced.status, replaced.text().as_str()),
        (500, "replaced")
    );
    assert_eq!(client.get("/empty").status, 204);
    assert_eq!(client.get("/errors").text(), "hello");
    client.send("POST /lines HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n\r\none\ntwo\nthr\nfo");
    assert_eq!(client.response().text(), "one\n|tw|o\n|thr\n|fo");
    for method in ["OPTIONS", "PUT", "DELETE", "PATCH"] {
        client.send(format!(
            "{method} /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.response().text(), "hello", "{method}");
    }
    upload(server);
    let mut wire = Wire::connect(server.port);
    wire.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.take(100_000).len(), 100_000);
    drop(wire);
    // Two that ended by themselves, and one whose client left.
    let closed = || server.ask("/closed").text();
    eventually("all are closed", || closed() == "3", closed);
    for words in [
        "WSGIWarning",
        "AssertionError",
        "without being closed",
        "Traceback",
    ] {
        assert_eq!(lines_with(server, words), Vec::<String>::new());
    }
    // The check is there.
    assert_eq!(client.get("/broken").status, 500);
    server.wait_for_words("AssertionError");
}

#[test]
fn asgi_scopes_and_events_are_those_of_the_specification() {
    for options in ["", "runtime native", "preload"] {
        let app = "module_asgi checked:app\nlifespan on";
        let Some(mut server) = start(&format!("{app}\n{options}")) else {
            return;
        };
        converse(&server);
        hold_websockets(&server);
        let faults = server.ask("/faults").text();
        assert_eq!(faults, "[]", "with {options:?}");
        assert_eq!(server.ask("/provoked").text(), "[]", "the check is blind");
        server.signal(sluice_net::sys::process::Signal::Terminate);
        assert!(server.wait_for_end().success());
        let last = lines_with(&server, "faults: ");
        assert!(
            last.iter().any(|line| line.contains("faults: []")),
            "{last:?}"
        );
    }
}

/// Requests of all kinds, some of which are not waited for.
fn converse(server: &Server) {
    let mut client = Client::connect(server.port);
    for target in ["/digest", "/digest?a=%41&b", "/d%69gest"] {
        assert_eq!(client.get(target).text(), digest(b""), "{target}");
    }
    client.send(
        "GET http://example.com:81/digest HTTP/1.1\r\nHost: example.com:81\r\nX-Upper: 1\r\nCookie: a\r\nCookie: b\r\n\r\n",
    );
    assert_eq!(client.response().text(), digest(b""));
    client.send("HEAD /streamed HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head().expect("a response");
    assert_eq!(client.get("/streamed").text(), "piece\n".repeat(100));
    assert_eq!(client.get("/late").text(), "done");
    assert_eq!(post(server.port, "/late", b"body").text(), "done");
    upload(server);
    let mut wire = Wire::connect(server.port);
    wire.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.head().expect("a response");
    drop(wire);
    let after = || server.ask("/after").text();
    eventually("the client is gone", || after() != "nothing", after);
    // An upload that its client abandons.
    let mut client = Client::connect(server.port);
    client.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    drop(client);
    assert_eq!(server.ask("/digest").text(), digest(b""));
}

fn hold_websockets(server: &Server) {
    let mut socket = WebSocket::open(
        server.port,
        "/ws?a=1",
        "Sec-WebSocket-Protocol: one, two\r\n",
    );
    socket.say("text");
    assert_eq!(socket.hear(), "text");
    socket.send(BINARY, b"\0\xff");
    assert_eq!(socket.next(), Some((BINARY, b"\0\xff".to_vec())));
    socket.send(CLOSE, b"\x03\xe8bye");
    assert_eq!(socket.closed().0, 1000);
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("close");
    assert_eq!(socket.closed(), (4000, "asked".to_owned()));
    socket.send(CLOSE, b"\x0f\xa0");
    assert_eq!(socket.next(), None);
    // One whose client leaves without a word.
    drop(WebSocket::open(server.port, "/ws", ""));
}
