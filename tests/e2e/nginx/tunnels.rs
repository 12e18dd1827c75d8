//! Timeouts of tunnels: WebSockets and other upgrades.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::start;
use crate::client::Client;
use crate::h2::peer::{DATA, END_STREAM, Frame, HEADERS, Peer, RST_STREAM};
use crate::harness::{Server, TIMEOUT};
use crate::upstream::Upstream;
use crate::wire::Wire;

const REQUEST: &str = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// An upstream that switches protocols, then does what `talk` does, and reports when that has ended.
fn switching(talk: impl Fn(&mut Wire) + Send + Sync + 'static) -> (Upstream, Receiver<()>) {
    let (sender, ended) = channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::start(move |mut wire| {
        let Some(_) = wire.head() else { return };
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        );
        talk(&mut wire);
        let _ = sender.lock().expect("no panic").send(());
    });
    (upstream, ended)
}

/// Sends back what it receives, until the connection ends.
fn echo(wire: &mut Wire) {
    let mut buf = [0; 1000];
    while let Ok(count) = wire.reader.read(&mut buf)
        && count > 0
        && wire.try_send(&buf[..count]).is_ok()
    {}
}

/// A server with a location for each pair of a path and its timeouts.
fn proxy(upstream: &Upstream, locations: &[(&str, &str)]) -> Server {
    let port = upstream.port;
    let mut lines = "proxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\n\
                     proxy_set_header Connection upgrade;\nhttp2 on;\n"
        .to_owned();
    for (path, timeouts) in locations {
        lines += &format!("location {path} {{ {timeouts} proxy_pass http://127.0.0.1:{port}; }}\n");
    }
    start(&lines, &[])
}

fn tunnel(server: &Server, path: &str) -> Client {
    let mut client = Client::connect(server.port);
    client.send(format!("GET {path} HTTP/1.1\r\n{REQUEST}"));
    assert_eq!(client.response().status, 101);
    client
}

/// A tunnel whose client does not have to read what arrives.
fn raw_tunnel(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("it listens");
    socket
        .set_read_timeout(Some(TIMEOUT))
        .expect("it can be set");
    socket
        .set_write_timeout(Some(TIMEOUT))
        .expect("it can be set");
    socket
        .write_all(format!("GET / HTTP/1.1\r\n{REQUEST}").as_bytes())
        .expect("it takes a request");
    socket
}

/// Whether the peer ended the connection; a timeout of this test is something else.
fn is_ended(outcome: io::Result<usize>) -> bool {
    match outcome {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn an_idle_tunnel_ends_after_proxy_read_timeout() {
    let (upstream, ended) = switching(echo);
    let locations = [
        ("/quick", "proxy_read_timeout 200ms;"),
        (
            "/long",
            "proxy_read_timeout 1h; proxy_send_timeout 200ms; send_timeout 200ms;",
        ),
    ];
    let server = proxy(&upstream, &locations);
    let mut long = tunnel(&server, "/long");
    let mut quick = tunnel(&server, "/quick");
    quick.send("a");
    assert_eq!(quick.byte().expect("an echo"), b'a');
    assert!(quick.is_closed());
    ended
        .recv_timeout(TIMEOUT)
        .expect("the upstream sees the end");
    // The other timeouts are only for peers that do not accept data.
    long.send("b");
    assert_eq!(long.byte().expect("an echo"), b'b');
}

#[test]
fn an_idle_tunnel_on_a_stream_of_http2_ends_as_well() {
    let (upstream, ended) = switching(echo);
    let server = proxy(&upstream, &[("/", "proxy_read_timeout 200ms;")]);
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/"),
        ("sec-websocket-version", "13"),
    ]);
    peer.frame_of(HEADERS).expect("a response");
    peer.send(DATA, 0, id, b"a");
    let is_end = |frame: &Frame| {
        frame.kind == RST_STREAM || (frame.kind == DATA && frame.flags & END_STREAM != 0)
    };
    while !is_end(&peer.frame().expect("the end of the stream")) {}
    ended
        .recv_timeout(TIMEOUT)
        .expect("the upstream sees the end");
}

#[test]
fn an_upstream_that_does_not_read_ends_its_tunnel_after_proxy_send_timeout() {
    let (finish, finished) = channel::<()>();
    let finished = Mutex::new(finished);
    let (upstream, _ended) = switching(move |_| {
        let _ = finished.lock().expect("no panic").recv();
    });
    let server = proxy(
        &upstream,
        &[("/", "proxy_send_timeout 200ms; proxy_read_timeout 1h;")],
    );
    let mut client = raw_tunnel(&server);
    let outcome = loop {
        match client.write(&[0; 65_536]) {
            Ok(1..) => {}
            other => break other,
        }
    };
    assert!(is_ended(outcome));
    drop(finish);
}

#[test]
fn a_client_that_does_not_read_ends_its_tunnel_after_send_timeout() {
    let (upstream, ended) = switching(|wire| while wire.try_send([0; 65_536]).is_ok() {});
    let server = proxy(
        &upstream,
        &[("/", "send_timeout 200ms; proxy_read_timeout 1h;")],
    );
    let mut client = raw_tunnel(&server);
    ended
        .recv_timeout(TIMEOUT)
        .expect("the upstream sees the end");
    let outcome = loop {
        match client.read(&mut [0; 65_536]) {
            Ok(1..) => {}
            other => break other,
        }
    };
    assert!(is_ended(outcome));
}
