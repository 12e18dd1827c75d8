//! The options of `http3`, and the limits of connections and their memory.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use quinn_proto::{ConnectionError, Dir};
use sluice_net::sys::process::Signal;
use sluice_wire::sections::End;

use super::peer::{Identity, Peer, head, request};
use super::serving::{pattern, site};
use crate::harness::{MEMORY_STEPS, Server, Setup, run_to_end, text};

/// The code of a connection that is not accepted (RFC 9000, section 20.1).
const CONNECTION_REFUSED: u64 = 2;

/// A Caddyfile whose `http3` has these lines.
fn with(options: &str, lines: &str) -> String {
    site(
        &format!("\tservers {{\n\t\thttp3 {{\n{options}\n\t\t}}\n\t}}"),
        lines,
    )
}

/// Opens a request that has yet to end.
fn held(peer: &mut Peer) -> quinn_proto::StreamId {
    peer.open(Dir::Bi, &head(&request("POST", "/")), End::Later)
}

#[test]
fn as_many_requests_at_once_as_configured() {
    let server = Server::start(&with("\t\t\tmax_streams 2", "respond hello"));
    let mut peer = Peer::connect(server.port);
    let (first, second) = (held(&mut peer), held(&mut peer));
    assert_eq!(peer.quic.streams().open(Dir::Bi), None);
    for id in [first, second] {
        peer.send(id, &[], End::Here);
        assert_eq!(peer.response(id).text(), "hello");
    }
    // The places of those that have ended are free again.
    for _ in 0..5 {
        assert_eq!(peer.fetch("/").text(), "hello");
    }
}

/// How much a client may send on two streams before the server has read anything.
fn windows(text: &str) -> (usize, usize) {
    let server = Server::start(text);
    let mut peer = Peer::connect(server.port);
    let mut room = || {
        let id = peer
            .quic
            .streams()
            .open(Dir::Bi)
            .expect("room for a stream");
        let written = peer.quic.send_stream(id).write(&vec![0; 1_000_000]);
        written.unwrap_or_default()
    };
    (room(), room())
}

#[test]
fn clients_send_no_more_than_the_windows_before_it_is_read() {
    let (stream, more) = windows(&site("", "respond hello"));
    // What the control stream has carried counts for the connection.
    assert!((262_000..=262_144).contains(&stream), "{stream}");
    assert!(stream + more <= 262_144, "{stream} and {more}");
    let (stream, more) = windows(&with("\t\t\tstream_window 64KiB", "respond hello"));
    assert_eq!((stream, more), (65_536, 65_536));
}

#[test]
fn downloads_are_whole_with_each_way_of_sending() {
    let large = pattern(2_000_000);
    for option in [
        "congestion bbr",
        "congestion cubic",
        "no_segmentation_offload",
    ] {
        let setup = Setup::new(&with(
            &format!("\t\t\t{option}"),
            "root {folder}\nfile_server",
        ));
        setup.folder().write("large.bin", &large);
        let server = setup.start();
        let response = Peer::connect(server.port).fetch("/large.bin");
        assert!(
            response.body == large,
            "{option}: {} bytes",
            response.body.len()
        );
    }
}

/// A client of a process that is gone learns from a stateless reset (RFC 9000, section 10.3) that its connection is, if both
/// have the same secret.
#[test]
fn a_secret_of_the_operator_outlives_the_process() {
    let text = with("\t\t\thost_key_file {folder}/secret", "respond hello");
    let setup = Setup::new(&text);
    setup.folder().write("secret", [7; 64]);
    let port: u16 = setup.fill("{port}").parse().expect("a port");
    let mut server = setup.start();
    let mut peer = Peer::connect(port);
    assert_eq!(peer.fetch("/").text(), "hello");
    server.kill();
    let successor = Setup::bare();
    let text = text.replace("{port}", &port.to_string());
    successor.folder().write("Caddyfile", successor.fill(&text));
    successor.folder().write("secret", [7; 64]);
    let _successor = successor.start();
    peer.get("/");
    peer.drive("the end of the connection", |peer| peer.lost.is_some());
    assert_eq!(peer.lost, Some(ConnectionError::Reset));
}

#[test]
fn a_secret_that_is_not_there_is_reported() {
    for (content, message) in [(None, "cannot read `"), (Some(""), "secret` is empty")] {
        let setup = Setup::new(&with(
            "\t\t\thost_key_file {folder}/secret",
            "respond hello",
        ));
        if let Some(content) = content {
            setup.folder().write("secret", content);
        }
        let output = run_to_end(setup.folder(), &["run"]);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        for words in [message, "openssl rand -out FILE 64", "Caddyfile:"] {
            assert!(said.contains(words), "no `{words}` in {said}");
        }
    }
}

#[test]
fn it_listens_where_it_is_one_of_the_protocols() {
    let is_free = |port: u16| {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        (tcp, UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
    };
    let servers = |protocols: &str| format!("\tservers {{\n\t\tprotocols {protocols}\n\t}}");
    let server = Server::start(&site(&servers("h3"), "respond hello"));
    assert_eq!(is_free(server.port), (true, false));
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
    let server = Server::start(&site(&servers("h1 h2"), "respond hello"));
    assert_eq!(is_free(server.port), (false, true));
    // `bind` decides for its addresses.
    let bind =
        |protocols: &str| format!("bind 127.0.0.1 {{\n\tprotocols {protocols}\n}}\nrespond hello");
    let server = Server::start(&site("", &bind("h1 h2")));
    assert_eq!(is_free(server.port), (false, true));
    let server = Server::start(&site("", &bind("h3")));
    assert_eq!(is_free(server.port), (true, false));
    assert_eq!(Peer::connect(server.port).fetch("/").text(), "hello");
}

#[test]
fn other_sites_need_a_handshake_of_their_own_where_that_is_strict() {
    let text = site("\tservers {\n\t\tstrict_sni_host on\n\t}", "respond one");
    let server = Server::start(&format!(
        "{text}a.localhost {{\n\ttls internal\n\trespond two\n}}\n"
    ));
    let mut peer = Peer::connect(server.port);
    for (host, status) in [("localhost", 200), ("a.localhost", 421), ("localhost", 200)] {
        let mut fields = request("GET", "/");
        fields[2].1 = host;
        let id = peer.open(Dir::Bi, &head(&fields), End::Here);
        assert_eq!(peer.response(id).status, status, "{host}");
    }
}

#[test]
fn a_reload_changes_the_idle_time_of_new_connections() {
    let idle = |time: &str| {
        let option = format!("\tservers {{\n\t\ttimeouts {{\n\t\t\tidle {time}\n\t\t}}\n\t}}");
        site(&option, &format!("respond {time}"))
    };
    // One worker, so that the first connection sees when new ones begin with the new configuration.
    let server = Setup::new(&idle("1h")).env("SLUICE_WORKERS", "1").start();
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "1h");
    server.write(&idle("1s"));
    server.signal(Signal::Hangup);
    peer.drive("the new configuration", |peer| {
        peer.fetch("/").text() == "1s"
    });
    let mut again = Peer::connect(server.port);
    assert_eq!(again.fetch("/").text(), "1s");
    again.drive("the end", |peer| peer.lost.is_some());
    // Both ends know the time, so neither has to say more (RFC 9000, section 10.1); a client that is late hears it.
    if again.lost != Some(ConnectionError::TimedOut) {
        assert_eq!(again.closed(), 0x100);
    }
}

#[test]
fn connections_take_the_slots_of_the_server() {
    let setup = Setup::new(&site("", "respond hello")).files_max(128);
    let server = setup.start();
    let most = usize::try_from(server.metric("sluice_connections_max")).expect("it is small");
    assert!(most < 100, "{most}");
    let mut busy = Vec::new();
    let mut refused = loop {
        let mut peer = Peer::begin(&Identity::new(), server.port, "localhost");
        peer.try_open(Dir::Bi, &head(&request("POST", "/")), End::Later);
        peer.drive("an end of the handshake", |peer| {
            peer.is_connected || peer.lost.is_some()
        });
        if peer.lost.is_some() {
            break peer;
        }
        busy.push(peer);
        assert!(busy.len() <= most, "{} connections of {most}", busy.len());
    };
    assert_eq!(refused.closed(), CONNECTION_REFUSED);
    assert!(
        busy.len() + 4 > most,
        "{} connections of {most}",
        busy.len()
    );
    drop(busy);
}

/// A response whose packets the client does not acknowledge holds no more than what the first round trips can carry.
#[test]
fn stalled_downloads_hold_little_memory() {
    const CLIENTS: u64 = 40;
    /// In KiB: data that is not acknowledged, the connection, and buffers.
    const EACH_MAX: u64 = 64 + 128;
    let setup = Setup::new(&site("", "root {folder}\nfile_server"));
    setup.folder().write("large.bin", pattern(20_000_000));
    let server = setup.start();
    let stalled = || {
        let mut peer = Peer::connect(server.port);
        let id = peer.get("/large.bin");
        peer.drive("its head", |peer| peer.so_far(id).status == 200);
        peer
    };
    drop(stalled());
    let before = server.status("RssAnon");
    let peers: Vec<Peer> = (0..CLIENTS).map(|_| stalled()).collect();
    let after = server.status("RssAnon");
    let grown = after.saturating_sub(before);
    assert!(grown <= CLIENTS * EACH_MAX + MEMORY_STEPS, "{grown} KiB");
    drop(peers);
}

/// Connections that wait for their next request hold at most 60 KB each: the states of QUIC and HTTP/3, the keys, and the task.
pub fn wait_in_little_memory(clients: u64) {
    const EACH_MAX: u64 = 60_000;
    let server = Server::start(&site("", "respond hello"));
    let idle = || {
        let mut peer = Peer::connect(server.port);
        assert_eq!(peer.fetch("/").text(), "hello");
        peer
    };
    drop(idle());
    let before = server.status("RssAnon");
    let peers: Vec<Peer> = (0..clients).map(|_| idle()).collect();
    let after = server.status("RssAnon");
    let grown = after.saturating_sub(before);
    println!("{grown} KiB of {clients} idle connections");
    let grown_max = clients * EACH_MAX / 1024 + MEMORY_STEPS;
    assert!(grown <= grown_max, "{grown} of {grown_max} KiB");
    drop(peers);
}

#[test]
fn idle_connections_hold_little_memory() {
    wait_in_little_memory(200);
}

#[test]
fn an_nginx_file_decides_about_early_data() {
    for (line, is_accepted) in [("ssl_early_data on;", true), ("", false)] {
        let setup = Setup::bare();
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        setup.folder().write("server.pem", made.cert.pem());
        setup
            .folder()
            .write("server.key", made.signing_key.serialize_pem());
        let conf = format!(
            "events {{}}\nhttp {{\nserver {{\nlisten {{port}} quic;\nlisten {{port}} ssl;\n{line}\n\
             ssl_certificate {{folder}}/server.pem;\nssl_certificate_key {{folder}}/server.key;\n\
             return 200 hello;\n}}\n}}\n"
        );
        setup.folder().write("nginx.conf", setup.fill(&conf));
        let server = setup
            .args(&["nginx", "-c", "{folder}/nginx.conf", "-g", "daemon off;"])
            .start();
        let identity = Identity::new();
        let mut first = Peer::begin(&identity, server.port, "localhost");
        assert_eq!(first.fetch("/").text(), "hello");
        first.drive("a ticket", |peer| peer.quic.stats().frame_rx.crypto > 2);
        let mut again = Peer::begin(&identity, server.port, "localhost");
        assert_eq!(again.fetch("/").text(), "hello");
        assert_eq!(again.quic.accepted_0rtt(), is_accepted, "{line}");
    }
}

#[test]
fn under_memory_pressure_idle_connections_are_closed_and_new_ones_refused() {
    let server = Server::start(&site("", "respond hello"));
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "hello");
    // The lowest limit: every running server uses more.
    server.write(&site("\tmemory_limit 16MiB", "respond hello"));
    server.signal(Signal::Hangup);
    assert_eq!(peer.closed(), 0x100);
    assert!(server.metric("sluice_memory_idle_closed_total") >= 1);
    let mut refused = Peer::begin(&Identity::new(), server.port, "localhost");
    assert_eq!(refused.closed(), CONNECTION_REFUSED);
    assert!(server.metric("sluice_memory_connections_refused_total") >= 1);
}
