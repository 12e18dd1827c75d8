//! Connections to an upstream through a proxy, or from another local address.

use std::time::Instant;

use super::abilities::has_ipv6;
use super::*;

fn through(url: String) -> Value {
    json!({ "transport": {
        "protocol": "http", "network_proxy": { "from": "url", "url": url }
    } })
}

/// Copies data between both sockets until one of them ends.
fn join(client: TcpStream, upstream: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut from, mut to) = (upstream, client);
    let _ = std::io::copy(&mut from, &mut to);
}

/// An HTTP proxy.
fn http_proxy(response: &'static str) -> Fake {
    Fake::new(move |mut peer| {
        let head = peer.head().unwrap();
        peer.send(response);
        if response.contains(" 200 ") {
            let target = head.split(' ').nth(1).unwrap();
            join(peer.socket, TcpStream::connect(target).unwrap());
        }
    })
}

#[test]
fn a_proxy_in_between_is_asked_to_connect() {
    let (a, proxy) = (Fake::called("a"), http_proxy("HTTP/1.1 200 OK\r\n\r\n"));
    let served = Proxy::with(
        &[&a],
        through(format!("http://me:secret@{}", proxy.address)),
    );
    for _ in 0..3 {
        assert_eq!(served.ask(GET).body, b"a");
    }
    let asked = proxy.seen();
    assert_eq!(asked.len(), 1, "the connection through the proxy is kept");
    assert!(
        asked[0].starts_with(&format!("CONNECT {} HTTP/1.1\r\n", a.address)),
        "{asked:?}"
    );
    assert!(
        asked[0].contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
        "{asked:?}"
    );
    assert!(
        !a.last().contains("Proxy-Authorization"),
        "it is the proxy's business"
    );
}

#[test]
fn a_proxy_that_refuses_or_babbles_is_a_bad_gateway() {
    let a = Fake::called("a");
    for response in [
        "HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake",
        "SSH-2.0-x\r\n\r\n",
        "",
    ] {
        let proxy = http_proxy(response);
        let served = Proxy::with(&[&a], through(format!("http://{}", proxy.address)));
        assert_eq!(served.ask(GET).status(), 502, "{response:?}");
    }
    assert!(a.seen().is_empty());
}

/// A SOCKS 5 proxy that requires a password.
fn socks_proxy() -> Fake {
    Fake::new(|mut peer| {
        let mut greeting = [0; 4];
        peer.socket.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, [5, 2, 0, 2]);
        peer.send([5, 2]);
        let mut login = [0; 11];
        peer.socket.read_exact(&mut login).unwrap();
        assert_eq!(&login, b"\x01\x02me\x06secret");
        peer.send([1, 0]);
        let mut start = [0; 4];
        peer.socket.read_exact(&mut start).unwrap();
        let host = match start {
            [5, 1, 0, 1] => {
                let mut ip = [0; 4];
                peer.socket.read_exact(&mut ip).unwrap();
                std::net::Ipv4Addr::from(ip).to_string()
            }
            [5, 1, 0, 3] => {
                let mut length = [0];
                peer.socket.read_exact(&mut length).unwrap();
                let mut name = vec![0; length[0].into()];
                peer.socket.read_exact(&mut name).unwrap();
                assert_eq!(name, b"known-to-the-proxy.test");
                "127.0.0.1".to_owned()
            }
            other => panic!("{other:?}"),
        };
        let mut port = [0; 2];
        peer.socket.read_exact(&mut port).unwrap();
        let upstream = TcpStream::connect((host.as_str(), u16::from_be_bytes(port)));
        // Byte by byte, because a reply may arrive in pieces.
        for byte in [5, 0, 0, 1, 127, 0, 0, 1, 0, 80] {
            peer.send([byte]);
            thread::sleep(Duration::from_millis(1));
        }
        join(peer.socket, upstream.unwrap());
    })
}

#[test]
fn socks_leads_to_addresses_and_to_names_that_the_proxy_knows() {
    let (a, proxy) = (Fake::called("a"), socks_proxy());
    let settings = || through(format!("socks5://me:secret@{}", proxy.address));
    assert_eq!(Proxy::with(&[&a], settings()).ask(GET).body, b"a");
    let dial = format!("known-to-the-proxy.test:{}", a.address.port());
    assert_eq!(Proxy::dialling(&[dial], settings()).ask(GET).body, b"a");
}

#[test]
fn a_local_address_is_dialled_from() {
    let peers = Arc::new(Mutex::new(Vec::new()));
    let seen = peers.clone();
    let fake = Fake::new(move |mut peer| {
        seen.lock()
            .unwrap()
            .push(peer.socket.peer_addr().unwrap().ip());
        peer.head();
        peer.send(HI);
    });
    let settings = json!({ "transport": { "protocol": "http", "local_address": "127.0.0.3" } });
    assert_eq!(Proxy::with(&[&fake], settings).ask(GET).status(), 200);
    assert_eq!(peers.lock().unwrap()[0].to_string(), "127.0.0.3");
}

#[test]
fn the_other_ip_version_is_tried_if_the_first_is_silent() {
    // `localhost` is 127.0.0.1 and ::1, and only the latter has a listener. The port is outside the ephemeral range:
    // another test could have the same port at 127.0.0.1.
    if !has_ipv6() {
        return;
    }
    let (_, listener) = both_versions();
    let port = listener.local_addr().unwrap().port();
    let _fake = Fake::on(listener, Fake::naming("six"));
    for delay in ["10ms", "-1ns"] {
        let settings = json!({ "transport": { "protocol": "http", "dial_fallback_delay": delay } });
        let proxy = Proxy::dialling(&[format!("localhost:{port}")], settings);
        assert_eq!(proxy.ask(GET).body, b"six", "{delay}");
    }
}

/// A port of its own at 127.0.0.1 and ::1.
fn both_versions() -> (TcpListener, TcpListener) {
    let both = |port: u16| {
        let six = TcpListener::bind(("::1", port)).ok()?;
        Some((TcpListener::bind(("127.0.0.1", port)).ok()?, six))
    };
    (10_000..12_000).find_map(both).unwrap()
}

#[test]
fn an_address_that_is_silent_holds_up_for_as_long_as_the_delay_says() {
    if !has_ipv6() {
        return;
    }
    let (four, six) = both_versions();
    let address = four.local_addr().unwrap();
    // Once the accept queue is full, the kernel ignores further connections.
    let mut queue = Vec::new();
    while let Ok(socket) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(socket);
        assert!(queue.len() < 10_000, "the queue of a listener is bounded");
    }
    let _fake = Fake::on(six, Fake::naming("six"));
    let dial = [format!("localhost:{}", address.port())];
    let transport = |more: Value| {
        let mut transport = json!({ "protocol": "http" });
        for (name, value) in more.as_object().unwrap() {
            transport[name] = value.clone();
        }
        json!({ "transport": transport })
    };
    for millis in [50, 500] {
        let delay = format!("{millis}ms");
        let settings = transport(json!({ "dial_fallback_delay": delay, "dial_timeout": "10s" }));
        let proxy = Proxy::dialling(&dial, settings);
        let began = Instant::now();
        assert_eq!(proxy.ask(GET).body, b"six", "{delay}");
        // Timers are as exact as the worker's clock, which may lag by a few milliseconds.
        assert!(
            began.elapsed() + Duration::from_millis(20) >= Duration::from_millis(millis),
            "{delay}: {:?}",
            began.elapsed()
        );
    }
    // A negative delay tries the other version only after the first one failed, and there is no time for that.
    let never = transport(json!({ "dial_fallback_delay": "-1ns", "dial_timeout": "400ms" }));
    assert_eq!(Proxy::dialling(&dial, never).ask(GET).status(), 502);
}
