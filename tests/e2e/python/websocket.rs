//! WebSockets of ASGI applications, over HTTP/1.1 and HTTP/2.

use sluice_net::sys::process::Signal;
use sluice_python::limits::WINDOW_BYTES;

use super::ws_client::{BINARY, CLOSE, PING, PONG, TEXT, WebSocket, frame, handshake};
use super::{metric, pid, start};
use crate::client::Client;
use crate::h2::peer::{DATA, HEADERS, Peer};
use crate::harness::{Server, eventually};
use crate::wire::field;

const APP: &str = "module_asgi asgi:app";

/// Waits until the application knows with which code a WebSocket ended.
fn ended_with(server: &Server, code: &str) {
    let last = || server.ask("/last-code").text();
    eventually("the application learns the code", || last() == code, last);
}

#[test]
fn messages_go_both_ways() {
    let Some(server) = start(APP) else { return };
    let more = "Sec-WebSocket-Protocol: chat.v1, chat.v2\r\n";
    let mut socket = WebSocket::open(server.port, "/ws?room=1", more);
    assert_eq!(
        field(&socket.head, "Sec-WebSocket-Protocol"),
        Some("chat.v2")
    );
    assert_eq!(field(&socket.head, "X-Greeting"), Some("hi"));
    assert_eq!(field(&socket.head, "Sec-WebSocket-Extensions"), None);
    for text in ["one", "", "grüße €", &"x".repeat(70_000)] {
        socket.say(text);
        assert_eq!(socket.hear(), text);
    }
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    socket.send(BINARY, &bytes);
    assert_eq!(socket.next(), Some((BINARY, bytes)));
    socket.say("scope");
    let scope: serde_json::Value = serde_json::from_str(&socket.hear()).expect("it is JSON");
    assert_eq!(scope["type"], "websocket");
    assert_eq!(scope["scheme"], "ws");
    assert_eq!(scope["query_string"], "room=1");
    assert_eq!(
        scope["subprotocols"],
        serde_json::json!(["chat.v1", "chat.v2"])
    );
    socket.send(CLOSE, b"\x0f\xa0bye");
    assert_eq!(socket.closed(), (4000, String::new()));
    ended_with(&server, "4000");
}

#[test]
fn fragments_pings_and_bytes_one_by_one() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.frame(TEXT, b"gr\xc3");
    socket.frame(0x80 | PING, b"are you there?");
    socket.frame(0x00, b"");
    socket.frame(0x80, b"\xbc\xc3\x9fe");
    assert_eq!(socket.next(), Some((PONG, b"are you there?".to_vec())));
    assert_eq!(socket.hear(), "grüße");
    for byte in frame(0x80 | TEXT, b"slowly") {
        socket.wire.send([byte]);
    }
    assert_eq!(socket.hear(), "slowly");
    // Several in one write.
    let many: Vec<u8> = (0..100)
        .flat_map(|n| frame(0x81, format!("{n}").as_bytes()))
        .collect();
    socket.wire.send(many);
    for n in 0..100 {
        assert_eq!(socket.hear(), n.to_string());
    }
}

#[test]
fn a_large_message_of_the_application_waits_for_the_client() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    // More than a frame between sluice and the process could hold.
    socket.say("large 20000000");
    assert_eq!(server.ask("/pid").status, 200);
    let (mut first, mut total) = (BINARY, 0);
    loop {
        let (byte, payload) = socket.next_frame().expect("a fragment");
        assert_eq!(byte & 0x7f, first);
        assert!(payload.len() <= WINDOW_BYTES as usize, "{}", payload.len());
        assert!(payload.iter().all(|byte| *byte == b'y'));
        (first, total) = (0, total + payload.len());
        if byte & 0x80 != 0 {
            break;
        }
    }
    assert_eq!(total, 20_000_000);
    socket.say(&"€".repeat(200_000));
    assert_eq!(socket.hear(), "€".repeat(200_000));
}

/// What exceeds the window waits in the server, and nothing else that the client does makes it go on.
#[test]
fn messages_that_wait_for_the_application_go_on_when_it_receives() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/late", "");
    for at in 0..6 {
        socket.send(BINARY, &[at; 100_000]);
    }
    let held = || metric(&server, "sluice_python_websocket_inbound_bytes");
    eventually(
        "two messages fill the window",
        // Two pieces each, which count 128 bytes besides.
        || held() == 2 * (100_000 + 2 * 128),
        || held().to_string(),
    );
    assert_eq!(server.ask("/listen").status, 200);
    for at in 0..6 {
        let (opcode, payload) = socket.next().expect("the echo");
        assert_eq!((opcode, payload.len(), payload[0]), (BINARY, 100_000, at));
    }
}

#[test]
fn the_application_closes() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("close 4001 enough of it");
    assert_eq!(socket.closed(), (4001, "enough of it".to_owned()));
    socket.send(CLOSE, b"\x0f\xa1");
    assert_eq!(socket.next(), None);
}

#[test]
fn an_exception_closes_with_1011() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("raise");
    assert_eq!(socket.closed().0, 1011);
    server.wait_for_words("on purpose");
}

#[test]
fn a_client_without_a_word_is_1006() {
    let Some(server) = start(APP) else { return };
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.say("hello");
    assert_eq!(socket.hear(), "hello");
    drop(socket);
    ended_with(&server, "1006");
}

#[test]
fn what_breaks_the_protocol_is_refused_with_its_code() {
    let Some(server) = start(&format!("{APP}\nmax_message_size 1KiB")) else {
        return;
    };
    for (bytes, code) in [
        (vec![0x81, 1, b'x'], 1002),
        (frame(0xc1, b"x"), 1002),
        (frame(0x83, b""), 1002),
        (frame(0x80, b"x"), 1002),
        (frame(0x81, b"\xff"), 1007),
        (frame(0x82, &[0; 1025]), 1009),
        (frame(0x88, b"\x03\xed"), 1002),
    ] {
        let mut socket = WebSocket::open(server.port, "/ws", "");
        socket.wire.send(&bytes);
        assert_eq!(
            socket.closed().0,
            code,
            "{:?}",
            &bytes[..bytes.len().min(8)]
        );
        assert_eq!(socket.next(), None, "nothing follows");
        ended_with(&server, &code.to_string());
    }
    let mut socket = WebSocket::open(server.port, "/ws", "");
    socket.send(BINARY, &[7; 1024]);
    assert_eq!(socket.next(), Some((BINARY, vec![7; 1024])));
}

#[test]
fn handshakes_that_are_refused() {
    let Some(server) = start(APP) else { return };
    let ask = |request: String| {
        let mut client = Client::connect(server.port);
        client.send(request);
        client.response()
    };
    let version = ask(handshake("/ws", "").replace("Version: 13", "Version: 8"));
    assert_eq!(version.status, 426);
    assert_eq!(version.field("Sec-WebSocket-Version"), Some("13"));
    let key = ask(handshake("/ws", "").replace("dGhl", "x"));
    assert_eq!(key.status, 400);
    let refused = ask(handshake("/refuse", ""));
    assert_eq!(refused.status, 403);
    let denied = ask(handshake("/deny", ""));
    assert_eq!(
        (denied.status, denied.text().as_str()),
        (401, "who are you?")
    );
}

#[test]
fn a_websocket_over_http_2() {
    let Some(server) = start(APP) else { return };
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/ws"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat.v2"),
    ]);
    let head = peer.frame_of(HEADERS).expect("a response");
    let fields = peer.decode(&head.payload);
    let named = |name: &str| fields.iter().find(|(known, _)| known == name);
    assert_eq!(
        named(":status").map(|(_, value)| &**value),
        Some("200"),
        "{fields:?}"
    );
    assert_eq!(
        named("sec-websocket-protocol").map(|(_, value)| &**value),
        Some("chat.v2")
    );
    assert_eq!(named("sec-websocket-accept"), None);
    peer.send(DATA, 0, id, &frame(0x81, b"over a stream"));
    let said = peer.frame_of(DATA).expect("a message");
    assert_eq!(said.payload, b"\x81\x0dover a stream");
    peer.send(DATA, 0, id, &frame(0x88, b"\x03\xe8"));
    let said = peer.frame_of(DATA).expect("a Close frame");
    assert_eq!(said.payload, b"\x88\x02\x03\xe8");
    ended_with(&server, "1000");
}

#[test]
fn a_stop_closes_with_1012_and_does_not_wait_for_clients() {
    let Some(mut server) = start(APP) else { return };
    let mut sockets: Vec<WebSocket> = (0..5)
        .map(|_| WebSocket::open(server.port, "/ws", ""))
        .collect();
    for socket in &mut sockets {
        socket.say("hello");
        assert_eq!(socket.hear(), "hello");
    }
    server.signal(Signal::Terminate);
    for socket in &mut sockets {
        assert_eq!(socket.closed().0, 1012);
    }
    drop(sockets);
    assert!(server.wait_for_end().success());
}

#[test]
fn websockets_hold_no_place_of_other_requests() {
    let Some(server) = start(&format!("{APP}\nconcurrency 200")) else {
        return;
    };
    let first = pid(&server);
    let mut sockets: Vec<WebSocket> = (0..100)
        .map(|_| WebSocket::open(server.port, "/ws", ""))
        .collect();
    assert_eq!(pid(&server), first);
    for (n, socket) in sockets.iter_mut().enumerate() {
        socket.say(&n.to_string());
    }
    for (n, socket) in sockets.iter_mut().enumerate() {
        assert_eq!(socket.hear(), n.to_string());
    }
}
