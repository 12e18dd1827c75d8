//! `reverse_proxy` from the point of view of clients and upstreams.

use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, ask, exchange};
use crate::harness::{Server, Setup, eventually};
use crate::upstream::{Upstream, close, dead, respond, unix_echo};
use crate::wire::{Wire, field};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A site that proxies to upstreams on these ports, with these lines in the block.
fn site(ports: &[u16], block: &str) -> String {
    let to: String = ports
        .iter()
        .map(|port| format!(" localhost:{port}"))
        .collect();
    format!("{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy{to} {{\n{block}\n}}\n}}\n")
}

fn start(upstream: &Upstream) -> Server {
    Server::start(&site(&[upstream.port], ""))
}

#[test]
fn connections_to_upstreams_are_used_again() {
    let upstream = Upstream::responding(OK);
    let server = Setup::new(&site(&[upstream.port], ""))
        .env("SLUICE_WORKERS", "1")
        .start();
    let mut client = Client::connect(server.port);
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "ok");
        assert_eq!(server.ask("/").text(), "ok");
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn connections_that_the_upstream_closed_are_not_the_clients_problem() {
    let upstream = Upstream::start(|mut wire| _ = respond(&mut wire, OK.as_bytes()));
    let server = start(&upstream);
    let mut client = Client::connect(server.port);
    for _ in 0..30 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(upstream.connections(), 30);
}

#[test]
fn upstreams_take_turns() {
    let one = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    let two = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    let server = Setup::new(&site(&[one.port, two.port], "lb_policy round_robin"))
        .env("SLUICE_WORKERS", "1")
        .start();
    let said: String = (0..6).map(|_| server.ask("/").text()).collect();
    assert!(said == "121212" || said == "212121", "{said}");
}

#[test]
fn sockets_of_the_file_system_are_upstreams_too() {
    let setup = Setup::new("{\n\tadmin off\n}\n:{port} {\n\treverse_proxy unix/{folder}/up\n}\n");
    unix_echo(&setup.folder().path().join("up"));
    let server = setup.start();
    assert!(
        server
            .ask("/over/unix")
            .text()
            .starts_with("GET /over/unix HTTP/1.1\n")
    );
}

/// A masked frame, as clients send it (RFC 6455, section 5.3).
pub fn masked(opcode: u8, content: &[u8]) -> Vec<u8> {
    let key = [1_u8, 2, 3, 4];
    let mut frame = vec![0x80 | opcode, 0x80 | 127];
    frame.extend_from_slice(&(content.len() as u64).to_be_bytes());
    frame.extend_from_slice(&key);
    frame.extend(
        content
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    frame
}

/// Reads a frame with a 64-bit length: opcode and unmasked payload.
pub fn frame(wire: &mut Wire) -> Option<(u8, Vec<u8>)> {
    let head = wire.take(10);
    let length = u64::from_be_bytes(head.get(2..10)?.try_into().ok()?);
    let key = if head[1] & 0x80 == 0 {
        vec![0; 4]
    } else {
        wire.take(4)
    };
    let content = wire.take(length);
    let content = content
        .iter()
        .zip(key.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect();
    Some((head[0] & 0x0f, content))
}

/// The example of RFC 6455, section 1.3: the key, and the matching `Sec-WebSocket-Accept`.
pub const WEBSOCKET_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const WEBSOCKET_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Accepts a WebSocket upgrade and echoes everything until the connection is closed.
pub fn websocket_echo(wire: &mut Wire, head: &[String]) -> Option<()> {
    let asked = field(head, "Upgrade") == Some("websocket")
        && field(head, "Connection").is_some_and(|text| text.eq_ignore_ascii_case("upgrade"))
        && field(head, "Sec-WebSocket-Key") == Some(WEBSOCKET_KEY);
    if !asked {
        return wire
            .try_send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .ok();
    }
    wire.try_send(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {WEBSOCKET_ACCEPT}\r\n\r\n"
    ))
    .ok()?;
    while let Some((opcode, content)) = frame(wire) {
        let mut bytes = vec![0x80 | opcode, 127];
        bytes.extend_from_slice(&(content.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&content);
        wire.try_send(bytes).ok()?;
        if opcode == 8 {
            return Some(());
        }
    }
    None
}

fn echo_over_websocket(wire: &mut Wire) -> Option<()> {
    let head = wire.head()?;
    websocket_echo(wire, &head)
}

#[test]
fn websockets_pass_both_ways() {
    let upstream = Upstream::start(|mut wire| _ = echo_over_websocket(&mut wire));
    let server = start(&upstream);
    let mut client = Wire::connect(server.port);
    client.send(format!(
        "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
    ));
    // Data sent right after the request, before the response, is not lost.
    client.send(masked(1, b"early"));
    let head = client.head().expect("an answer");
    assert!(head[0].starts_with("HTTP/1.1 101 "), "{head:?}");
    assert_eq!(field(&head, "Sec-WebSocket-Accept"), Some(WEBSOCKET_ACCEPT));
    assert_eq!(field(&head, "Upgrade"), Some("websocket"));
    assert_eq!(frame(&mut client), Some((1, b"early".to_vec())));
    for size in [0, 1, 5_000, 300_000] {
        let content: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[0]).collect();
        client.send(masked(2, &content));
        assert_eq!(frame(&mut client), Some((2, content)));
    }
    client.send(masked(8, b""));
    assert_eq!(frame(&mut client), Some((8, Vec::new())));
    assert_eq!(
        client.drain(),
        0,
        "the end of one side is the end of the other"
    );
}

#[test]
fn a_refused_upgrade_is_an_ordinary_response() {
    let upstream = Upstream::start(|mut wire| while respond(&mut wire, OK.as_bytes()).is_some() {});
    let server = start(&upstream);
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    assert_eq!(client.response().text(), "ok");
    assert_eq!(
        client.get("/").text(),
        "ok",
        "the connection speaks HTTP still"
    );
}

#[test]
fn events_arrive_when_they_happen() {
    let (go, next) = sync_channel::<()>(1);
    let next = Mutex::new(next);
    let upstream = Upstream::start(move |mut wire| {
        let _ = wire.head();
        wire.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..3 {
            wire.send("9\r\ndata: 1\n\n\r\n");
            // The next event occurs once the client has received this one.
            next.lock()
                .expect("nobody panics with it")
                .recv()
                .expect("the test goes on");
        }
        wire.send("0\r\n\r\n");
    });
    let server = start(&upstream);
    let mut client = Wire::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head().expect("an answer");
    assert_eq!(field(&head, "Content-Type"), Some("text/event-stream"));
    for _ in 0..3 {
        assert_eq!(client.chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
        go.send(()).expect("the upstream waits");
    }
    assert_eq!(client.chunk().as_deref(), Some(&b""[..]));
}

#[test]
fn a_truncated_response_never_looks_complete() {
    let filler = "x".repeat(100_000);
    for sent in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nonly this".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n0\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nbad\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n{filler}"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n{filler}"),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Cut: he".to_owned(),
    ] {
        let bytes = sent.clone();
        let upstream = Upstream::start(move |mut wire| {
            let _ = respond(&mut wire, bytes.as_bytes());
            close(&mut wire);
        });
        let server = start(&upstream);
        let mut client = Client::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let shown = &sent[..sent.len().min(90)];
        match client.try_response() {
            Err(_) => {}
            Ok(response) => assert_eq!(response.status, 502, "{shown:?}: {}", response.head),
        }
    }
}

/// A connection that ends without any response would look as if the request had not been forwarded.
#[test]
fn the_received_part_of_a_truncated_response_is_forwarded() {
    for (sent, body) in [
        (
            "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nonly this",
            "only this",
        ),
        (
            "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\nbad\r\n",
            "4\r\nonly\r\n",
        ),
    ] {
        let upstream = Upstream::start(move |mut wire| {
            let _ = respond(&mut wire, sent.as_bytes());
            close(&mut wire);
        });
        let server = start(&upstream);
        let mut client = Wire::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head().expect("the head of the answer");
        assert!(head[0].contains("201"), "{head:?}");
        let had = client.take(1000);
        assert_eq!(String::from_utf8_lossy(&had), body);
    }
}

#[test]
fn a_response_delimited_by_close_is_complete() {
    let upstream = Upstream::start(|mut wire| {
        let _ = respond(&mut wire, b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
        close(&mut wire);
    });
    let server = start(&upstream);
    assert_eq!(server.ask("/").text(), "until the end");
    let old = exchange(server.port, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(old.text(), "until the end");
}

#[test]
fn when_all_upstreams_are_dead_the_error_comes_at_once() {
    let server = Server::start(&site(&[dead(), dead(), dead()], ""));
    let begun = Instant::now();
    assert_eq!(server.ask("/").status, 502);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_dead_upstream_is_passed_over_within_the_time_for_tries() {
    let upstream = Upstream::responding(OK);
    let block = "lb_policy first\nlb_try_duration 5s\nlb_try_interval 10ms\nfail_duration 30s";
    let server = Server::start(&site(&[dead(), upstream.port], block));
    for _ in 0..5 {
        assert_eq!(server.ask("/").text(), "ok");
    }
}

#[test]
fn nonsense_from_upstreams_is_a_bad_gateway() {
    for nonsense in [
        "",
        "SPAM\r\n\r\n",
        "\0\0\0\0",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |mut wire| {
            let _ = respond(&mut wire, nonsense.as_bytes());
            close(&mut wire);
        });
        let server = start(&upstream);
        let mut client = Client::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // If the head was valid, the only option is to abort.
        match client.try_response() {
            Ok(response) => assert_eq!(response.status, 502, "{nonsense:?}"),
            Err(_) => assert!(nonsense.contains("zz"), "{nonsense:?}"),
        }
    }
}

#[test]
fn an_endless_head_from_an_upstream_is_cut_off() {
    let upstream = Upstream::start(|mut wire| {
        let _ = wire.head();
        let _ = wire.try_send("HTTP/1.1 200 OK\r\n");
        while wire
            .try_send("X-More: and more and more and more\r\n".repeat(100))
            .is_ok()
        {}
    });
    let server = start(&upstream);
    assert_eq!(server.ask("/").status, 502);
}

#[test]
fn a_slow_upstream_is_a_gateway_timeout() {
    let upstream = Upstream::start(|mut wire| {
        let _ = wire.head();
        // Until the other side gives up.
        wire.drain();
    });
    let block = "transport http {\nresponse_header_timeout 200ms\n}";
    let server = Server::start(&site(&[upstream.port], block));
    let begun = Instant::now();
    assert_eq!(server.ask("/").status, 504);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn chunked_bodies_and_their_trailers_pass() {
    let upstream = Upstream::start(|mut wire| {
        let head = wire.head().expect("a request");
        let body = wire.body(&head).expect("a whole body");
        assert_eq!(body, b"one two");
        wire.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
             3;note=1\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 28\r\n\r\n",
        );
    });
    let server = start(&upstream);
    let mut client = Wire::connect(server.port);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\none \r\n3\r\ntwo\r\n0\r\nX-Client: 1\r\n\r\n",
    );
    let head = client.head().expect("an answer");
    assert_eq!(
        field(&head, "Transfer-Encoding"),
        Some("chunked"),
        "{head:?}"
    );
    let mut body = Vec::new();
    while let Some(chunk) = client.chunk().filter(|chunk| !chunk.is_empty()) {
        body.extend_from_slice(&chunk);
    }
    assert_eq!(body, b"abcdefg");
    assert_eq!(client.head(), Some(vec!["X-Sum: 28".to_owned()]));
}

#[test]
fn expect_100_is_confirmed_when_the_body_is_read() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\trespond /unread done\n\trequest_body {{\n\t\tmax_size 10\n\t}}\n\
         \treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    let head = |path: &str, length: u32| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut client = Client::connect(server.port);
    client.send(head("/", 4));
    assert_eq!(client.response().status, 100);
    client.send("body");
    assert!(client.response().text().ends_with("\n\nbody"));
    // This body is not read by anything, and an oversized one is rejected before it arrives.
    for (path, length, status) in [("/unread", 4, 200), ("/", 11, 413)] {
        let mut client = Client::connect(server.port);
        client.send(head(path, length));
        assert_eq!(client.response().status, status, "{path}");
    }
}

#[test]
fn a_client_that_leaves_inside_its_body_is_not_passed_on_as_whole() {
    let (sender, received) = sync_channel(4);
    let upstream = Upstream::start(move |mut wire| {
        if let Some(head) = wire.head() {
            sender.send(wire.body(&head)).expect("the test waits");
        }
    });
    let server = start(&upstream);
    for framing in [
        "Content-Length: 100000\r\n\r\nonly this",
        "Transfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n",
    ] {
        let before = upstream.connections();
        let mut client = Client::connect(server.port);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        eventually(
            "the request",
            || upstream.connections() > before,
            || server.stderr(),
        );
        drop(client);
        let seen = received
            .recv_timeout(Duration::from_secs(20))
            .expect("the upstream is told");
        assert_eq!(seen, None, "{framing:?}");
    }
}

#[test]
fn a_client_that_disconnects_cancels_the_upstream_response() {
    let (sender, received) = sync_channel(1);
    let upstream = Upstream::start(move |mut wire| {
        let _ = wire.head();
        let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n");
        while wire.try_send(vec![b'x'; 64 * 1024]).is_ok() {}
        let _ = sender.send(());
    });
    let server = start(&upstream);
    let mut client = Wire::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.take(1000).len(), 1000);
    drop(client);
    received
        .recv_timeout(Duration::from_secs(20))
        .expect("the upstream is told");
}

#[test]
fn slow_clients_do_not_pile_up_memory() {
    const CLIENTS: usize = 8;
    const BLOCK: usize = 64 * 1024;
    let (held_up, held_ups) = sync_channel(CLIENTS);
    let upstream = Upstream::start(move |mut wire| {
        let _ = wire.head();
        let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n");
        let timeout = Some(Duration::from_millis(500));
        let stream = wire.stream();
        stream.set_write_timeout(timeout).expect("it can be set");
        let block = vec![b'x'; BLOCK];
        let mut sent = 0;
        // The server stops reading once its buffers are full. A busy machine may delay the first blocks.
        while wire.try_send(&block).is_ok() || sent < 2 * BLOCK {
            sent += BLOCK;
        }
        let _ = held_up.send(sent);
    });
    let server = start(&upstream);
    let before = server.peak();
    // They send requests and read nothing.
    let clients: Vec<Wire> = (0..CLIENTS)
        .map(|_| {
            let mut client = Wire::connect(server.port);
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for _ in &clients {
        held_ups.recv().expect("the upstream is held up");
    }
    let grown = server.grown(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
}

#[test]
fn slow_upstreams_do_not_pile_up_memory() {
    let (over, test) = sync_channel::<()>(0);
    let test = Mutex::new(test);
    let upstream = Upstream::start(move |mut wire| {
        let _ = wire.head();
        // Reads nothing more until the test is over.
        let _ = test.lock().expect("nobody panics with it").recv();
    });
    let server = start(&upstream);
    let before = server.peak();
    let mut client = Wire::connect(server.port);
    client
        .stream()
        .set_write_timeout(Some(Duration::from_millis(500)))
        .expect("it can be set");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n");
    let block = vec![b'x'; 256 * 1024];
    let blocks = (0..4000)
        .take_while(|_| client.try_send(&block).is_ok())
        .count();
    assert!(
        blocks < 400,
        "the client is held back, after {blocks} blocks"
    );
    let grown = server.grown(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    drop(over);
}

#[test]
fn fields_for_the_next_hop_only_stay_there() {
    let upstream = Upstream::echo();
    let server = start(&upstream);
    let said = exchange(
        server.port,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Authorization: Basic eDp5\r\nX-End: 2\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
    )
    .text()
    .to_ascii_lowercase();
    for gone in ["x-hop", "keep-alive", "proxy-authorization", "6.6.6.6"] {
        assert!(!said.contains(gone), "{gone}: {said}");
    }
    assert!(said.contains("x-end: 2"), "{said}");
}

#[test]
fn concurrent_clients_get_their_own_responses() {
    let upstream = Upstream::echo();
    let server = start(&upstream);
    let port = server.port;
    let clients: Vec<_> = (0..24)
        .map(|client| {
            thread::spawn(move || {
                for n in 0..10 {
                    let path = format!("/{client}/{n}");
                    let text = ask(port, &path).text();
                    assert!(
                        text.starts_with(&format!("GET {path} HTTP/1.1\n")),
                        "{text}"
                    );
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("each got its own answer");
    }
}
