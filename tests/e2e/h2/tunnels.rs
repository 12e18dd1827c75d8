//! WebSockets over HTTP/2 (RFC 8441): the stream becomes a tunnel to an HTTP/1.1 upstream.

use std::io::Read;
use std::sync::mpsc::channel;

use super::peer::{
    DATA, ENABLE_CONNECT_PROTOCOL, END_HEADERS, END_STREAM, Frame, HEADERS, INITIAL_WINDOW, Peer,
    SETTINGS,
};
use super::serving::plain;
use crate::harness::Server;
use crate::upstream::Upstream;
use crate::wire::field;

/// The extended CONNECT request of a WebSocket.
const ASKED: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":authority", "localhost"),
    (":path", "/chat?room=1"),
    ("sec-websocket-version", "13"),
];

/// Switches protocols, sends the request it received, and then echoes every byte.
pub fn websocket() -> Upstream {
    Upstream::start(|mut wire| {
        let Some(head) = wire.head() else { return };
        let key = field(&head, "Sec-WebSocket-Key").unwrap_or_default().len();
        let asked = format!(
            "{} {:?} {:?} {key}\n",
            head[0],
            field(&head, "Upgrade"),
            field(&head, "Connection")
        );
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
        );
        wire.send(asked);
        let mut buf = [0; 1000];
        while let Ok(count) = wire.reader.read(&mut buf)
            && count > 0
            && wire.try_send(&buf[..count]).is_ok()
        {}
    })
}

/// The next DATA of a stream, at least `len` bytes.
fn content(peer: &mut Peer, id: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let frame = peer.frame_of(DATA).expect("content");
        assert_eq!(frame.id, id);
        bytes.extend(frame.payload);
    }
    bytes
}

#[test]
fn a_websocket_passes_the_proxy() {
    let upstream = websocket();
    let site = format!(
        "@ws {{\nheader Connection *Upgrade*\nheader Upgrade websocket\n}}\n\
        reverse_proxy @ws localhost:{}\nrespond /plain hello",
        upstream.port
    );
    let server = Server::start(&plain("", &site));
    let mut peer = Peer::connect(server.port);
    let settings = peer.frame_of(SETTINGS).expect("settings");
    let offered = settings.payload.chunks(6).any(|setting| {
        setting[..2] == ENABLE_CONNECT_PROTOCOL.to_be_bytes() && setting[2..] == [0, 0, 0, 1]
    });
    assert!(offered, "{settings:?}");
    let id = peer.begin_request(&ASKED);
    let head = peer.frame_of(HEADERS).expect("an answer");
    assert_eq!(head.flags, END_HEADERS);
    let fields = peer.decode(&head.payload);
    let named = |name: &str| {
        fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    };
    assert_eq!(named(":status"), Some("200"));
    assert_eq!(named("sec-websocket-protocol"), Some("chat"));
    for absent in [
        "upgrade",
        "connection",
        "sec-websocket-accept",
        "content-length",
    ] {
        assert_eq!(named(absent), None);
    }
    let asked = "GET /chat?room=1 HTTP/1.1 Some(\"websocket\") Some(\"Upgrade\") 24\n";
    assert_eq!(content(&mut peer, id, asked.len()), asked.as_bytes());
    for word in ["one", "two", "three"] {
        peer.send(DATA, 0, id, word.as_bytes());
        assert_eq!(content(&mut peer, id, word.len()), word.as_bytes());
    }
    // Other streams continue beside it.
    let other = peer.get("/plain");
    let head = peer.frame_of(HEADERS).expect("an answer");
    assert_eq!(head.id, other);
    peer.send(DATA, END_STREAM, id, b"bye");
    let mut last: Vec<Frame> = Vec::new();
    while !last
        .iter()
        .any(|frame| frame.id == id && frame.flags & END_STREAM != 0)
    {
        last.push(peer.frame_of(DATA).expect("the end"));
    }
    let said: Vec<u8> = last
        .into_iter()
        .filter(|frame| frame.id == id)
        .flat_map(|frame| frame.payload)
        .collect();
    assert_eq!(said, b"bye");
}

#[test]
fn much_passes_a_tunnel_within_its_windows() {
    let upstream = websocket();
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 100)]);
    let id = peer.begin_request(&ASKED);
    let sent: Vec<u8> = (0..60_000_u32).map(|at| (at % 251) as u8).collect();
    for piece in sent.chunks(1000) {
        peer.send(DATA, 0, id, piece);
    }
    peer.send(DATA, END_STREAM, id, &[]);
    let response = peer.response(id);
    assert_eq!((response.status, response.ended), (200, true));
    let start = response
        .body
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a line")
        + 1;
    assert!(
        response.body[start..] == sent,
        "{} bytes",
        response.body.len() - start
    );
}

#[test]
fn only_a_tunnel_is_a_success() {
    let upstream = Upstream::echo();
    let site = format!(
        "respond /chat hello\nrespond /no 403\nreverse_proxy localhost:{}",
        upstream.port
    );
    let server = Server::start(&plain("", &site));
    let mut peer = Peer::connect(server.port);
    for (path, status) in [("/chat", 501), ("/no", 403), ("/other", 501)] {
        let mut asked = ASKED;
        asked[4].1 = path;
        let id = peer.begin_request(&asked);
        assert_eq!(peer.response(id).status, status, "{path}");
    }
}

/// RFC 9113, section 8.5: a tunnel to a destination of the client's choice. sluice is not a forward proxy: a handler
/// that would respond to anything with success returns 501, a reverse proxy 405, and an error stays what it is.
#[test]
fn a_plain_connect_leads_nowhere() {
    let (sender, asked) = channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            let _ = sender.lock().expect("no panic").send(head[0].clone());
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let to = format!("localhost:{}", upstream.port);
    for site in [
        "respond hello".to_owned(),
        "respond no 403".to_owned(),
        "file_server".to_owned(),
        format!("reverse_proxy {to}"),
    ] {
        let server = Server::start(&plain("", &site));
        let mut peer = Peer::connect(server.port);
        let id = peer.begin_request(&[(":method", "CONNECT"), (":authority", &to)]);
        let response = peer.response(id);
        assert_eq!((response.status, response.ended), (405, true), "{site}");
        // What would have gone through the tunnel is discarded, and the connection continues.
        peer.send(DATA, END_STREAM, id, b"GET / HTTP/1.1\r\n\r\n");
        assert!(peer.fetch("/missing").ended);
    }
    let asked: Vec<String> = asked.try_iter().collect();
    assert_eq!(asked, ["GET /missing HTTP/1.1"]);
}

#[test]
fn a_client_that_goes_away_ends_its_tunnel() {
    let (sender, received) = channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::start(move |mut wire| {
        let Some(_) = wire.head() else { return };
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        );
        let mut rest = Vec::new();
        let _ = wire.reader.read_to_end(&mut rest);
        let _ = sender.lock().expect("no panic").send(rest);
    });
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy localhost:{}", upstream.port),
    ));
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&ASKED);
    peer.frame_of(HEADERS).expect("an answer");
    peer.send(DATA, 0, id, b"some");
    peer.reset(id, 8);
    let timeout = std::time::Duration::from_secs(10);
    let rest = received
        .recv_timeout(timeout)
        .expect("the upstream sees the end");
    assert!(b"some".starts_with(&rest), "{rest:?}");
}
