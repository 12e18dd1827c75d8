//! Clients that send or read next to nothing: what they cost, and how their connections end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, exchange};
use crate::h2::peer::{DATA, Peer, request};
use crate::harness::{MEMORY_STEPS, Server, TIMEOUT, eventually};
use crate::upstream::{Upstream, respond};
use crate::wire::patient;

/// A pause that is short for a test and long for the rates here.
const PAUSE: Duration = Duration::from_millis(50);

/// Permitted cost of a stalled upload, both sides together, in KiB: a third of a buffer. With 5,000 uploads each costs
/// 6 KiB; with few, memory that the server holds anyway is included.
const STALLED_KIB_MAX: u64 = 20;

/// A site with these server settings.
fn start(settings: &str, site: &str) -> Server {
    Server::start(&format!(
        "{{\n\tdebug\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\t{settings}\n\t\tprotocols h1 h2c\n\t}}\n}}\n:{{port}} {{\n\t{site}\n}}\n"
    ))
}

/// The response to a request that sends a byte of its body now and then.
fn drip(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is taken");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut writer = stream.try_clone().expect("a second handle");
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::SeqCst) && writer.write_all(b"x").is_ok() {
                // A client that sends slowly: the pauses are what is tested, here and below.
                thread::sleep(PAUSE);
            }
        });
        let mut said = Vec::new();
        // The connection may be reset after the response, because bytes still arrive.
        let _ = stream.read_to_end(&mut said);
        is_over.store(true, Ordering::SeqCst);
        String::from_utf8_lossy(&said).into_owned()
    })
}

#[test]
fn an_upload_slower_than_the_lowest_rate_is_ended() {
    let upstream = Upstream::echo();
    let site = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = start("min_data_rate 10KB 200ms", &site);
    let said = drip(server.port);
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(said.contains("Connection: close"), "{said}");
    assert_eq!(server.metric("sluice_slow_requests_total"), 1);
    server.wait_for_words("slower than the minimum data rate allows");
}

#[test]
fn timeouts_end_uploads_that_stall_or_are_too_slow() {
    let upstream = Upstream::echo();
    for limit in ["200ms", "200ms 10000"] {
        let site = format!(
            "timeouts {{\n\t\tread_timeout {limit}\n\t}}\n\treverse_proxy 127.0.0.1:{}",
            upstream.port
        );
        let server = start("strict_sni_host insecure_off", &site);
        let said = match limit {
            "200ms" => {
                let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
                exchange(server.port, head).head
            }
            _ => drip(server.port),
        };
        assert!(said.starts_with("HTTP/1.1 408 "), "{limit}: {said}");
    }
}

#[test]
fn timeouts_end_responses_that_are_taken_too_slowly() {
    let upstream = endless();
    // The rate counts from the end of the timeout, which is long enough for a busy client not to exceed it.
    for (limit, slow) in [("200ms", 0), ("2s 4000000000", 1)] {
        let site = format!(
            "timeouts {{\n\t\twrite_timeout {limit}\n\t}}\n\treverse_proxy 127.0.0.1:{}",
            upstream.port
        );
        let server = start("strict_sni_host insecure_off", &site);
        match slow {
            0 => take_nothing(&server),
            _ => take_slowly(&server),
        }
        assert_eq!(
            server.metric("sluice_slow_responses_total"),
            slow,
            "{limit}"
        );
        server.wait_for_words("client: timeout");
    }
}

#[test]
fn an_upload_over_http2_slower_than_the_lowest_rate_is_ended() {
    let upstream = Upstream::echo();
    let site = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = start("min_data_rate 10KB 200ms", &site);
    let mut peer = Peer::connect(server.port);
    let id = peer.begin_request(&request("POST", "/"));
    eventually_after_each(&server, || peer.send(DATA, 0, id, b"x"));
    assert_eq!(peer.response(id).status, 408);
    assert_eq!(peer.fetch("/").status, 200, "the connection goes on");
}

/// Repeats a small step until the server has ended an upload.
fn eventually_after_each(server: &Server, mut step: impl FnMut()) {
    let begun = Instant::now();
    while server.metric("sluice_slow_requests_total") == 0 {
        assert!(begun.elapsed() < TIMEOUT, "it goes on and on");
        step();
        // As above.
        thread::sleep(PAUSE);
    }
}

#[test]
fn a_client_with_enough_bytes_sent_may_pause() {
    let upstream = Upstream::start(|mut wire| {
        while respond(&mut wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_some() {}
    });
    let site = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = start("min_data_rate 100 50ms", &site);
    let mut client = Client::connect(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100008\r\n\r\n");
    client.send([b'x'; 100_000]);
    for _ in 0..8 {
        // In total much more than the allowed time, and insignificant compared with the earned credit.
        thread::sleep(PAUSE);
        client.send("y");
    }
    assert_eq!(client.response().status, 200);
    assert_eq!(server.metric("sluice_slow_requests_total"), 0);
}

/// An upstream whose response does not end.
fn endless() -> Upstream {
    Upstream::start(|mut wire| {
        if wire.head().is_some() {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n");
            while wire.try_send([b'x'; 65536]).is_ok() {}
        }
    })
}

/// Takes a response slowly until the server ends it.
fn take_slowly(server: &Server) {
    let mut stream = patient(TcpStream::connect(("127.0.0.1", server.port)).expect("it listens"));
    let head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is taken");
    let mut some = vec![0; 256 * 1024];
    while stream.read(&mut some).is_ok_and(|count| count > 0) {
        // A client that reads slowly.
        thread::sleep(PAUSE);
    }
}

/// Asks for a response, and takes it when the server has given up on it.
fn take_nothing(server: &Server) {
    let mut stream = patient(TcpStream::connect(("127.0.0.1", server.port)).expect("it listens"));
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("it is taken");
    server.wait_for_words("client: timeout");
    let mut all = Vec::new();
    _ = stream.read_to_end(&mut all);
    assert!(all.starts_with(b"HTTP/1.1 200 "), "{} bytes", all.len());
}

#[test]
fn a_response_taken_slower_than_the_lowest_rate_is_ended() {
    let upstream = endless();
    let site = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = start("min_data_rate 4GB 200ms", &site);
    take_slowly(&server);
    assert_eq!(server.metric("sluice_slow_responses_total"), 1);
    assert_eq!(server.metric("sluice_slow_requests_total"), 0);
    server.wait_for_words("slower than the minimum data rate allows");
}

#[test]
fn a_response_that_comes_slowly_is_no_fault_of_its_client() {
    let upstream = Upstream::start(|mut wire| {
        if wire.head().is_some() {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
            for _ in 0..10 {
                // An upstream that sends slowly.
                thread::sleep(PAUSE);
                wire.send("x");
            }
        }
    });
    let site = format!(
        "reverse_proxy 127.0.0.1:{} {{\n\t\tflush_interval -1\n\t}}",
        upstream.port
    );
    let server = start("min_data_rate 4GB 1ms", &site);
    assert_eq!(server.ask("/").text(), "xxxxxxxxxx");
}

#[test]
fn uploads_that_stall_hold_no_buffers() {
    let upstream = Upstream::start(|mut wire| {
        let _ = wire.head();
        let mut byte = [0; 512];
        while wire.stream().read(&mut byte).is_ok_and(|count| count > 0) {}
    });
    let site = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = start("min_data_rate off", &site);
    let stall = || {
        let mut client = Client::connect(server.port);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegun");
        client
    };
    let before = server.status("RssAnon");
    let count = 400;
    let stalled: Vec<Client> = (0..count).map(|_| stall()).collect();
    eventually(
        "all of them upstream",
        || upstream.connections() == count,
        || server.stderr(),
    );
    let grown = server.status("RssAnon").saturating_sub(before);
    let most = count as u64 * STALLED_KIB_MAX + MEMORY_STEPS;
    assert!(grown <= most, "{grown} KiB for {count} uploads");
    drop(stalled);
    assert_eq!(exchange(server.port, "BAD\r\n\r\n").status, 400);
}
