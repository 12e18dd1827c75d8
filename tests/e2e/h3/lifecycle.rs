//! Connections of HTTP/3 through reloads, migrations, idle times and the end of the server.

use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;
use sluice_wire::sections::End;

use super::peer::{Identity, Peer, data, head, request};
use super::serving::{pattern, site};
use crate::h2::tunnels::websocket;
use crate::harness::{Server, Setup};

#[test]
fn a_reload_keeps_connections() {
    let server = Server::start(&site("", "respond one"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "one");
    for round in 0..5 {
        let text = format!("round {round}");
        server.write(&site("", &format!("respond \"{text}\"")));
        server.signal(Signal::Hangup);
        peer.drive("the new configuration", |peer| {
            let id = peer.get("/");
            peer.response(id).text() == text
        });
    }
    assert!(peer.lost.is_none());
    assert_eq!(server.metric("sluice_http3_connections_total"), 1);
}

/// Reloads so many times under a WebSocket, a download and small requests on one connection.
pub fn outlive_reloads(rounds: usize) {
    let upstream = websocket();
    let text = |word: &str| {
        let lines = format!(
            "root {{folder}}\nrespond /word \"{word}\"\nhandle /chat {{\n\treverse_proxy 127.0.0.1:{}\n}}\nfile_server",
            upstream.port
        );
        site("", &lines)
    };
    let setup = Setup::new(&text("start"));
    let large = pattern(8_000_000);
    setup.folder().write("large", &large);
    let server = setup.start();
    let mut peer = Peer::connect(server.port);
    let chat = peer.open_websocket("/chat");
    let download = peer.get("/large");
    for round in 0..rounds {
        let word = format!("round {round}");
        server.write(&text(&word));
        server.signal(Signal::Hangup);
        peer.drive("the new configuration", |peer| {
            let id = peer.get("/word");
            peer.response(id).text() == word
        });
        peer.echoed(chat, &word);
    }
    assert!(peer.response(download).body == large);
    peer.send(chat, &[], End::Here);
    peer.response(chat);
    assert_eq!(server.metric("sluice_http3_connections_total"), 1);
}

#[test]
fn a_websocket_and_a_download_outlive_reloads() {
    outlive_reloads(3);
}

#[test]
fn a_reload_can_switch_it_off_and_on() {
    let server = Server::start(&site("", "respond hello"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    server.write(&site(
        "\tservers {\n\t\tprotocols h1 h2\n\t}",
        "respond hello",
    ));
    server.signal(Signal::Hangup);
    // GOAWAY, then the end without a fault.
    assert_eq!(peer.closed(), 0x100);
    server.write(&site("", "respond again"));
    server.signal(Signal::Hangup);
    let mut again = Peer::begin(&Identity::new(), server.port, "localhost");
    again.drive("HTTP/3", |peer| peer.is_connected || peer.lost.is_some());
    if again.lost.is_none() {
        assert_eq!(again.fetch("/").text(), "again");
    }
}

#[test]
fn a_client_may_come_from_another_port() {
    let server = Server::start(&site("", "respond {http.request.remote.port}"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").status, 200);
    for _ in 0..3 {
        peer.rebind();
        assert_eq!(peer.fetch("/").status, 200);
    }
    assert_eq!(server.metric("sluice_http3_connections_total"), 1);
}

#[test]
fn keys_are_updated() {
    let server = Server::start(&site("", "respond hello"));
    let mut peer = Peer::connect(server.port);
    for _ in 0..3 {
        assert_eq!(peer.fetch("/").text(), "hello");
        peer.quic.force_key_update();
        assert_eq!(peer.fetch("/").text(), "hello");
    }
}

#[test]
fn a_request_in_progress_outlives_the_order_to_stop() {
    for was_idle in [false, true] {
        let server = Server::start(&site(
            "",
            "request_body {\n\tmax_size 10MB\n}\nreverse_proxy 127.0.0.1:1 {\n\tlb_try_duration 1ms\n}",
        ));
        let mut peer = Peer::connect(server.port);
        if was_idle {
            assert_eq!(peer.fetch("/").status, 502);
        }
        let id = peer.open(
            quinn_proto::Dir::Bi,
            &head(&request("POST", "/")),
            End::Later,
        );
        server.signal(Signal::Terminate);
        peer.drive("GOAWAY", |peer| {
            peer.leaves.is_some() || peer.lost.is_some()
        });
        peer.send(id, &[], End::Here);
        let response = peer.response(id);
        assert_eq!(response.status, 502, "after a pause: {was_idle}");
        assert_eq!(peer.closed(), 0x100);
    }
}

/// A configuration whose connections are idle for a second at most.
fn briefly_idle(text: &str) -> String {
    let more = "\tservers {\n\t\ttimeouts {\n\t\t\tidle 1s\n\t\t}\n\t}";
    site(more, text)
}

#[test]
fn an_idle_connection_is_closed_without_a_fault() {
    let server = Server::start(&briefly_idle("respond hello"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    peer.drive("the end", |peer| peer.lost.is_some());
}

/// Requests that are served as soon as they are read put off the end, too.
#[test]
fn a_connection_in_use_is_not_idle() {
    const IDLE: Duration = Duration::from_secs(1);
    let server = Server::start(&briefly_idle("respond hello"));
    let mut peer = Peer::connect(server.port);
    let began = Instant::now();
    // Longer than a connection without requests lives.
    while began.elapsed() < 2 * IDLE {
        assert_eq!(peer.fetch("/").text(), "hello");
    }
    assert_eq!(peer.lost, None);
    peer.drive("the end", |peer| peer.lost.is_some());
}

/// What it sends and receives is not counted for each request, but while it is in use, too.
#[test]
fn a_connection_in_use_is_counted() {
    let server = Server::start(&site("", "respond hello"));
    let mut peer = Peer::connect(server.port);
    for _ in 0..200 {
        assert_eq!(peer.fetch("/").text(), "hello");
    }
    let received = server.metric("sluice_quic_received_bytes_total");
    assert!(received > 100 * 20, "{received}");
    assert!(peer.lost.is_none());
}

#[test]
fn a_request_may_take_longer_than_a_connection_may_be_idle() {
    let server = Server::start(&briefly_idle("respond \"got {http.request.body}\""));
    let mut peer = Peer::connect(server.port);
    // The connection has been idle before.
    assert_eq!(peer.fetch("/").text(), "got ");
    let head = head(&request("POST", "/"));
    let id = peer.open(quinn_proto::Dir::Bi, &head, End::Later);
    let began = Instant::now();
    peer.drive("twice the idle time", |peer| {
        peer.lost.is_some() || began.elapsed() > Duration::from_secs(2)
    });
    peer.send(id, &data(b"all"), End::Here);
    assert_eq!(peer.response(id).text(), "got all");
}

#[test]
fn clients_prove_their_address_where_it_is_asked() {
    let more = "\tservers {\n\t\thttp3 {\n\t\t\talways_retry\n\t\t}\n\t}";
    let server = Server::start(&site(more, "respond hello"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    // A ClientHello in two packets gets two.
    assert!(server.metric("sluice_quic_retries_total") >= 1);
}
