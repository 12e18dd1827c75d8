//! Upgrades: what becomes a tunnel, and what must not (attack row 4).

use super::*;

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: aa\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
    Upgrade: WebSocket\r\nKeep-Alive: 1\r\nX-B: 1\r\n\r\n";

#[test]
fn an_upgrade_becomes_a_tunnel_for_bytes_of_both_sides() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send(format!("{SWITCHED}early"));
        let mut bytes = [0; 1024];
        loop {
            match peer.socket.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(count) => peer.send(bytes[..count].to_ascii_uppercase()),
            }
        }
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    // The first bytes of the new protocol arrive with the request.
    client.send(format!("{UPGRADE}hello"));
    let head = read_head(&mut client.socket).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(lines_named(&head, "upgrade"), ["WebSocket"]);
    assert_eq!(lines_named(&head, "connection"), ["Upgrade"]);
    assert_eq!(lines_named(&head, "x-b"), ["1"]);
    assert!(lines_named(&head, "keep-alive").is_empty());
    let mut bytes = [0; 10];
    client.socket.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"earlyHELLO");
    client.send("more");
    client.socket.read_exact(&mut bytes[..4]).unwrap();
    assert_eq!(&bytes[..4], b"MORE");
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"");
    let seen = fake.last();
    assert_eq!(lines_named(&seen, "connection"), ["Upgrade"]);
    assert_eq!(lines_named(&seen, "upgrade"), ["websocket"]);
    assert_eq!(lines_named(&seen, "sec-websocket-key"), ["aa"]);
}

/// Bytes that follow a failed upgrade are parsed as a request.
#[test]
fn nothing_passes_unparsed_without_a_valid_101() {
    for (refusal, status) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200),
        (
            "HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
            200,
        ),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", 502),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
            502,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
            502,
        ),
    ] {
        let fake = Fake::new(move |mut peer| {
            while let Some(head) = peer.head() {
                peer.send(if head.starts_with("GET /ws ") {
                    refusal
                } else {
                    HI
                });
            }
        });
        let proxy = Proxy::to(&[&fake]);
        let mut client = proxy.connect();
        client.send(format!(
            "{UPGRADE}GET /second HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
        ));
        assert_eq!(client.response().status(), status, "{refusal}");
        assert_eq!(client.response().body, b"hi", "{refusal}");
        // The second request is processed like any other: with our headers, and never together with the first.
        let second = fake.last();
        assert!(second.starts_with("GET /second "), "{second}");
        assert_eq!(lines_named(&second, "x-forwarded-for"), ["127.0.0.1"]);
        if status == 502 {
            assert_eq!(
                fake.accepted(),
                2,
                "a connection that switched is not used again: {refusal}"
            );
        }
    }
}

#[test]
fn a_switch_nobody_asked_for_is_refused() {
    let fake = Fake::responding(SWITCHED);
    let proxy = Proxy::to(&[&fake]);
    for request in [
        GET,
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nab",
    ] {
        assert_eq!(proxy.ask(request).status(), 502, "{request}");
        assert!(lines_named(&fake.last(), "upgrade").is_empty(), "{request}");
    }
}

#[test]
fn interim_responses_before_an_upgrade_are_not_the_upgrade() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(3));
        // Usually enough for the proxy to read the interim responses by themselves.
        thread::sleep(Duration::from_millis(50));
        peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        peer.head();
        peer.send(HI);
    });
    let proxy = Proxy::to(&[&fake]);
    let mut client = proxy.connect();
    client.send(format!("{UPGRADE}{GET}"));
    assert_eq!(client.response().status(), 403);
    assert_eq!(client.response().body, b"hi");
    let flood = Fake::new(|mut peer| {
        peer.head();
        while peer
            .socket
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .is_ok()
        {}
    });
    assert_eq!(Proxy::to(&[&flood]).ask(UPGRADE).status(), 502);
}

#[test]
fn a_tunnel_ends_when_its_time_is_over() {
    let fake = Fake::new(|mut peer| {
        peer.head();
        peer.send(SWITCHED);
        let _ = peer.socket.read(&mut [0]);
    });
    let proxy = Proxy::with(&[&fake], json!({ "stream_timeout": "200ms" }));
    let mut client = proxy.connect();
    client.send(UPGRADE);
    assert_eq!(client.response().status(), 101);
    assert_eq!(client.rest(), b"");
}
