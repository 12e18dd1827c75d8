//! Requests that must not be served, and limits that must be enforced.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, ask};
use crate::harness::{MEMORY_STEPS, Server, Setup, eventually};
use crate::upstream::Upstream;
use crate::wire::Wire;
use sluice_net::sys::process::Signal;

const HELLO: &str = "{\n\tadmin off\n}\n:{port} {\n\trespond \"hello\"\n}\n";

/// A second request after a rejected one: a response to it would mean that the end of the first was misjudged.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// Heads with invalid framing or headers (RFC 9112, sections 2.2, 3, 5 and 6.3).
const BAD_HEADS: &[(&str, u16)] = &[
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n",
        400,
    ),
    ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        501,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n",
        400,
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n folded\r\n\r\n",
        400,
    ),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX-A: b\nX-B: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\nHost: a\n\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX(A): b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e4}: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a/b@c\r\n\r\n", 400),
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /#part HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET relative HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
];

#[test]
fn bad_heads_are_refused_and_nothing_behind_them_is_served() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let upstream = Upstream::start(move |mut wire| {
        while let Some(_head) = wire.head() {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    for (head, status) in BAD_HEADS {
        let mut client = Client::connect(server.port);
        client.send(format!("{head}{HIDDEN}"));
        let response = client.response();
        assert_eq!(response.status, *status, "{head:?}: {}", response.head);
        assert_eq!(response.field("Connection"), Some("close"), "{head:?}");
        assert!(client.is_closed(), "{head:?}: something else was said");
    }
    assert_eq!(
        asked.load(Ordering::Relaxed),
        0,
        "the upstream saw none of it"
    );
    assert_eq!(server.ask("/").text(), "ok");
}

#[test]
fn bad_chunks_are_refused_and_nothing_behind_them_is_served() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    for chunks in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "0\r\nbad trailer\r\n\r\n",
        "0\r\nX : 1\r\n\r\n",
    ] {
        let mut client = Client::connect(server.port);
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{HIDDEN}"
        ));
        // The head was valid, so the request may have been forwarded already: then the connection is just closed.
        if let Ok(response) = client.try_response() {
            assert_eq!(response.status, 400, "{chunks:?}: {}", response.head);
        }
        assert!(client.is_closed(), "{chunks:?}: something else was said");
    }
    assert!(server.ask("/").status == 200);
}

#[test]
fn bodies_that_nobody_reads_are_not_taken_for_requests() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\trespond /away 401\n\tredir /moved /there\n\trespond {path}\n}\n",
    );
    for path in ["/away", "/moved", "/"] {
        let mut client = Client::connect(server.port);
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{HIDDEN}\
             GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            HIDDEN.len()
        ));
        client.response();
        match client.try_response() {
            Ok(response) => assert_eq!(response.text(), "/next", "after {path}"),
            Err(error) => panic!("a short body is read over, after {path}: {error}"),
        }
        assert!(client.is_closed());
    }
}

#[test]
fn a_header_of_a_megabyte_is_refused() {
    let server = Server::start(HELLO);
    let mut other = Client::connect(server.port);
    let refused = |head: &str, status: u16| {
        let mut client = Client::connect(server.port);
        // The server may stop reading before it has received everything.
        let _ = client.try_send(head);
        assert_eq!(client.response().status, status);
    };
    let large = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Large: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "X-Many: x\r\n".repeat(100_000)
    );
    let some = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "A: b\r\n".repeat(1_000)
    );
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1 << 20));
    refused(&large, 431);
    assert_eq!(other.get("/").text(), "hello");
    let before = server.peak();
    for _ in 0..5 {
        refused(&large, 431);
        refused(&many, 431);
        refused(&some, 431);
        refused(&long, 414);
        assert_eq!(other.get("/").text(), "hello");
    }
    // The kernel counts pages per CPU and sums them up at intervals: the peak may seem to fall a little.
    let grown = server.grown(before);
    assert!(
        grown < 4 * 1024 + MEMORY_STEPS,
        "a refused head is not kept: {grown} KiB"
    );
}

#[test]
fn a_head_that_begins_behind_a_request_has_its_time_too() {
    let server = Server::start(
        "{\n\tadmin off\n\tservers {\n\t\ttimeouts {\n\t\t\tread_header 400ms\n\t\t}\n\t}\n}\n\
         :{port} {\n\trespond hello\n}\n",
    );
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHos");
    assert_eq!(client.response().status, 200);
    assert_eq!(client.response().status, 408);
    assert!(client.is_closed());
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let server = Server::start(
        "{\n\tadmin off\n\tservers {\n\t\ttimeouts {\n\t\t\tread_header 400ms\n\t\t}\n\t}\n}\n\
         :{port} {\n\trespond hello\n}\n",
    );
    let begun = Instant::now();
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let mut trickle = client_stream(server.port);
    let trickling = thread::spawn(move || {
        // Sending byte by byte does not extend the timeout.
        for byte in "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "
            .bytes()
            .chain([b'x'; 400])
        {
            if trickle.write_all(&[byte]).is_err() {
                return true;
            }
            // A client that sends slowly: the pauses are what is tested.
            thread::sleep(Duration::from_millis(20));
        }
        false
    });
    assert_eq!(client.response().status, 408);
    assert!(client.is_closed());
    assert!(
        trickling.join().expect("it does not panic"),
        "a byte now and then bought time"
    );
    assert!(
        begun.elapsed() >= Duration::from_millis(390),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

fn client_stream(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).expect("somebody listens")
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\tservers {{\n\t\ttimeouts {{\n\t\t\tread_body 400ms\n\t\t}}\n\t}}\n}}\n\
         :{{port}} {{\n\treverse_proxy localhost:{}\n}}\n",
        upstream.port
    ));
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome");
    let begun = Instant::now();
    assert_eq!(client.response().status, 408);
    assert!(client.is_closed());
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn an_unread_response_is_aborted() {
    let setup = Setup::new(
        "{\n\tadmin off\n\tservers {\n\t\ttimeouts {\n\t\t\twrite 400ms\n\t\t}\n\t}\n}\n\
         :{port} {\n\troot * {folder}\n\tfile_server\n}\n",
    )
    .env("SLUICE_WORKERS", "1");
    let path = setup.folder().write("large.bin", "");
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .expect("it was written");
    file.set_len(1 << 30).expect("holes cost no space");
    let server = setup.start();
    assert_eq!(server.ask("/none").status, 404);
    let before = server.open_files();
    let mut stalled: Vec<Client> = (0..5).map(|_| Client::connect(server.port)).collect();
    for client in &mut stalled {
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        client.head().expect("it begins");
    }
    assert!(server.open_files() > before);
    eventually(
        "the stalled connections to go",
        // The file itself stays open for further requests.
        || server.open_files() <= before + 1,
        || format!("{} files, {before} before", server.open_files()),
    );
}

#[test]
fn an_unknown_host_gets_an_empty_response() {
    let server = Server::start(
        "{\n\tadmin off\n}\nhttp://known.test:{port} {\n\trespond known\n}\n\
         http://*.wild.test:{port} {\n\trespond wild\n}\n",
    );
    for (host, body) in [
        ("known.test", "known"),
        ("KNOWN.test", "known"),
        ("known.test:1234", "known"),
        ("a.wild.test", "wild"),
        ("a.b.wild.test", ""),
        ("wild.test", ""),
        ("known.test.evil.test", ""),
        ("other.test", ""),
    ] {
        let mut client = Client::connect(server.port);
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, body),
            "{host}"
        );
    }
}

#[test]
fn a_hanging_upstream_delays_no_other_request() {
    let upstream = Upstream::start(|mut wire| {
        let _ = wire.head();
        // Until the other side gives up.
        wire.drain();
    });
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy /hang localhost:{}\n\trespond hello\n}}\n",
        upstream.port
    ));
    let server = setup.env("SLUICE_WORKERS", "1").start();
    let hanging: Vec<Wire> = (0..50)
        .map(|_| {
            let mut wire = Wire::connect(server.port);
            wire.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
            wire
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(server.ask("/").text(), "hello");
    assert!(begun.elapsed() < Duration::from_secs(2));
    drop(hanging);
}

/// A server with a low limit of open files.
fn confined() -> Server {
    Setup::new(HELLO).files_max(128).start()
}

#[test]
fn the_limit_of_connections_holds_and_the_server_recovers() {
    let server = confined();
    // Each of these has started a request, so it is not idle and cannot be closed for another.
    let busy: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = client_stream(server.port);
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    let files = server.open_files();
    assert!(files <= 128 - 32, "files are left for other work: {files}");
    let before = server.ticks();
    // What a server spends in a time is only seen after that time.
    thread::sleep(Duration::from_millis(700));
    assert!(server.ticks() - before < 20, "a full server does not spin");
    drop(busy);
    assert_eq!(ask(server.port, "/").text(), "hello");
}

#[test]
fn nobody_goes_while_there_is_room_for_all() {
    const SITE: &str = ":{port} {\n\trespond \"hello\"\n}\n";
    let server = Setup::new(SITE).files_max(128).start();
    // A client without an upstream needs one file; some are reserved.
    let most = usize::try_from(server.metric("sluice_connections_max")).expect("it is small");
    assert_eq!(most, 128 - 64 - 128 / 8);
    let mut clients: Vec<Client> = (0..most).map(|_| Client::connect(server.port)).collect();
    for _ in 0..2 {
        for client in &mut clients {
            assert_eq!(client.get("/").text(), "hello");
        }
    }
    assert_eq!(server.metric("sluice_accept_pauses_total"), 0);
    server.write(&SITE.replace("\trespond", "\treverse_proxy /x localhost:1\n\trespond"));
    server.signal(Signal::Hangup);
    eventually(
        "half as many where upstreams are asked",
        || server.metric("sluice_connections_max") == (128 - 64) / 2,
        || server.stderr(),
    );
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "hello", "who is here stays");
    }
}

#[test]
fn idle_connections_make_room_for_others() {
    let server = confined();
    let mut idle = Vec::new();
    for _ in 0..300 {
        let mut client = Client::connect(server.port);
        assert_eq!(client.get("/").text(), "hello");
        idle.push(client);
    }
    assert_eq!(ask(server.port, "/").text(), "hello");
}
