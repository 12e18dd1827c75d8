//! How streams and connections end: by timeouts, at a reload, at shutdown.

use std::thread;
use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;

use super::peer::{DATA, END_STREAM, GOAWAY, INITIAL_WINDOW, Peer, RST_STREAM, SETTINGS, request};
use super::serving::plain;
use crate::client::Client;
use crate::harness::{Server, Setup, eventually, free_port};
use crate::upstream::Upstream;

const CANCEL: u32 = 8;

/// `request_body read_timeout` applies to one request, not to others on the connection.
#[test]
fn the_time_of_a_request_body_is_that_of_its_stream() {
    let server = Server::start(&plain(
        "",
        "request_body {\n\tread_timeout 500ms\n}\nrespond \"got {http.request.body}\"",
    ));
    let mut peer = Peer::connect(server.port);
    let begun = Instant::now();
    let slow = peer.begin_request(&request("POST", "/slow"));
    // Bytes that keep arriving do not extend it: it limits the total time.
    for _ in 0..3 {
        peer.send(DATA, 0, slow, b"x");
        let id = peer.begin_request(&request("POST", "/prompt"));
        peer.send(DATA, END_STREAM, id, b"all");
        assert_eq!(peer.response(id).text(), "got all");
        // Together less than the timeout, so that the bytes arrive within it.
        thread::sleep(Duration::from_millis(100));
    }
    let response = peer.response(slow);
    assert_eq!((response.status, response.ended), (408, true));
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(450) && took < Duration::from_secs(10),
        "{took:?}"
    );
    // Only the stream has ended.
    let id = peer.begin_request(&request("POST", "/later"));
    peer.send(DATA, END_STREAM, id, b"all");
    let response = peer.response(id);
    assert_eq!(
        (response.text().as_str(), response.reset),
        ("got all", None)
    );
    let next = peer.get("/");
    assert_eq!(peer.response(next).status, 200);
}

/// `request_body write_timeout` likewise, whether the client reads nothing or a little at a time.
#[test]
fn a_response_timeout_is_that_of_its_stream() {
    let setup = Setup::new(&plain(
        "",
        "root * {folder}/www\nrequest_body {\n\twrite_timeout 700ms\n}\nfile_server",
    ));
    setup.folder().write("www/large.bin", vec![b'x'; 1 << 20]);
    setup.folder().write("www/empty.txt", "");
    let server = setup.start();
    for step in [0, 1000] {
        let mut peer = Peer::connect_with(server.port, &[(INITIAL_WINDOW, 0)]);
        let begun = Instant::now();
        let slow = peer.get("/large.bin");
        for _ in 0..4 {
            if step > 0 {
                peer.give_window(slow, step);
            }
            // Together less than the timeout, so that the windows open within it.
            thread::sleep(Duration::from_millis(100));
        }
        let reset = peer.frame_of(RST_STREAM).expect("a reset");
        assert_eq!((reset.id, reset.code()), (slow, CANCEL), "{step}");
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(600) && took < Duration::from_secs(10),
            "{took:?}"
        );
        assert_eq!(peer.fetch("/empty.txt").status, 200, "others go on");
    }
}

/// An upstream that responds on demand.
fn on_demand() -> (Upstream, std::sync::mpsc::Sender<()>) {
    let (sender, signal) = std::sync::mpsc::channel::<()>();
    let signal = std::sync::Mutex::new(signal);
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            let _ = signal.lock().expect("no panic").recv();
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    (upstream, sender)
}

/// A reload that removes an address ends its connections, and no others.
#[test]
fn a_reload_without_an_address_sends_goaway_there() {
    let (upstream, sender) = on_demand();
    let second = free_port();
    let stays = plain("", "respond stays");
    let more = format!(
        "{stays}:{second} {{\nhandle /slow {{\nreverse_proxy localhost:{}\n}}\nrespond goes\n}}\n",
        upstream.port
    );
    let server = Server::start(&more);
    let mut kept = Peer::connect(server.port);
    assert_eq!(kept.fetch("/").text(), "stays");
    let mut quiet = Peer::connect(second);
    quiet.frame_of(SETTINGS).expect("settings");
    let mut old = Client::connect(second);
    assert_eq!(old.get("/").text(), "goes");
    let mut peer = Peer::connect(second);
    let under_way = peer.get("/slow");
    eventually("the request", || upstream.connections() == 1, String::new);
    server.write(&stays);
    server.signal(Signal::Hangup);
    let first = peer.frame_of(GOAWAY).expect("a word ahead");
    assert_eq!(
        (first.code(), &first.payload[..4]),
        (0, &[0x7f, 0xff, 0xff, 0xff][..])
    );
    assert!(quiet.goodbye().is_some(), "a quiet connection ends");
    assert!(old.is_closed(), "and so does one of HTTP/1.1");
    // What the client sent before it received GOAWAY is served.
    let late = peer.get("/");
    assert_eq!(peer.response(late).text(), "goes");
    sender.send(()).expect("the upstream waits");
    assert_eq!(peer.response(under_way).text(), "ok");
    while peer.frame().is_some() {}
    assert_eq!(kept.fetch("/").text(), "stays", "on the same connection");
}

#[test]
fn under_memory_pressure_an_idle_connection_ends_with_goaway() {
    let text = plain("", "respond hello");
    let server = Server::start(&text);
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    // The lowest limit: every running server uses more.
    server.write(&text.replacen("{\n", "{\n\tmemory_limit 16MiB\n", 1));
    server.signal(Signal::Hangup);
    let gone = peer.goodbye().expect("a GOAWAY");
    assert_eq!((gone.code(), &gone.payload[..4]), (0, &[0, 0, 0, 1][..]));
    assert!(server.metric("sluice_memory_idle_closed_total") >= 1);
}

/// A configuration whose connections are idle for a second at most.
fn briefly_idle(site: &str) -> String {
    let more = "timeouts {\n\t\t\tidle 1s\n\t\t}";
    plain(more, site)
}

/// Requests that are served as soon as they are read put off the end, too.
#[test]
fn a_connection_in_use_is_not_idle() {
    let server = Server::start(&briefly_idle("respond hello"));
    let mut peer = Peer::connect(server.port);
    let began = Instant::now();
    // Longer than a connection without requests lives.
    while began.elapsed() < Duration::from_secs(2) {
        assert_eq!(peer.fetch("/").text(), "hello");
    }
    assert!(peer.goodbye().is_some());
}

#[test]
fn a_request_may_take_longer_than_a_connection_may_be_idle() {
    let server = Server::start(&briefly_idle("respond \"got {http.request.body}\""));
    let mut peer = Peer::connect(server.port);
    // The connection has been idle before.
    assert_eq!(peer.fetch("/").text(), "got ");
    let id = peer.begin_request(&request("POST", "/"));
    thread::sleep(Duration::from_secs(2));
    peer.send(DATA, END_STREAM, id, b"all");
    assert_eq!(peer.response(id).text(), "got all");
}
