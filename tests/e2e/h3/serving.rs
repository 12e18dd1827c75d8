//! Requests over HTTP/3: heads, bodies, many streams, tunnels, early data, and what announces it.

use quinn_proto::Dir;
use sluice_wire::h3::FrameKind;
use sluice_wire::sections::End;

use super::peer::{Identity, Peer, data, frame, head, request};
use std::net::{Ipv6Addr, UdpSocket};

use crate::h2::tunnels::websocket;
use crate::handshakes::ClientCa;
use crate::harness::{Server, Setup, eventually};
use crate::upstream::Upstream;

/// A Caddyfile with an HTTPS site on `localhost`; `more` stands in the global options.
pub fn site(more: &str, site: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\thttp_port 0\n\thttps_port {{port}}\n\tskip_install_trust\n\t\
         auto_https disable_redirects\n{more}\n}}\nlocalhost {{\n\ttls internal\n{site}\n}}\n"
    )
}

/// The bytes of a large response, which tell their place.
pub fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / 7 + at / 4096) as u8).collect()
}

#[test]
fn requests_are_classified() {
    let log = "log {\n\toutput file {folder}/access.log\n}\n@three protocol http/3\n\
        respond @three \"{http.request.proto} {method} {host} {uri} {header.cookie} {tls_version}\"\nrespond old";
    let server = Server::start(&site("", log));
    let mut peer = Peer::connect(server.port);
    let mut fields = request("GET", "/a?b");
    fields.extend([("cookie", "a=1"), ("cookie", "b=2")]);
    let id = peer.open(Dir::Bi, &head(&fields), End::Here);
    let response = peer.response(id);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.text(),
        "HTTP/3.0 GET localhost /a?b a=1; b=2 tls1.3"
    );
    assert_eq!(response.field("server"), Some("sluice"));
    assert_eq!(response.field("content-length"), Some("43"));
    // HTTP/3 does not announce itself to clients that have it.
    assert_eq!(response.field("alt-svc"), None);
    let log = || server.folder.read("access.log");
    eventually("a line", || log().contains("\"proto\":\"HTTP/3.0\""), log);
    assert!(log().contains("\"proto\":\"h3\""), "{}", log());
    assert_eq!(server.metric("sluice_http3_connections_total"), 1);
}

#[test]
fn it_is_announced_with_the_port_that_the_client_names() {
    let server = Server::start(&site("", "respond hello"));
    let config = crate::tls::trusting_local(&server.folder);
    let mut wire = crate::tls::connect(&config, server.port, "localhost").unwrap();
    for (host, port) in [
        (format!("localhost:{}", server.port), server.port),
        ("localhost:1234".to_owned(), 1234),
        ("localhost".to_owned(), 443),
    ] {
        wire.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let head = wire.head().expect("a response");
        wire.body(&head).expect("its body");
        let expected = format!("h3=\":{port}\"; ma=2592000");
        let found = crate::wire::field(&head, "alt-svc");
        assert_eq!(found, Some(&*expected), "{head:?}");
    }
}

#[test]
fn bodies_arrive_whole_in_both_directions() {
    let upstream = Upstream::echo();
    let text = site(
        "",
        &format!(
            "root {{folder}}\nroute /echo {{\n\treverse_proxy 127.0.0.1:{}\n}}\nfile_server",
            upstream.port
        ),
    );
    let setup = Setup::new(&text);
    let large = pattern(3_000_000);
    setup.folder().write("large.bin", &large);
    setup.folder().write("empty", "");
    let server = setup.start();
    let mut peer = Peer::connect(server.port);
    let response = peer.fetch("/large.bin");
    assert_eq!(response.status, 200);
    assert!(response.body == large, "{} bytes", response.body.len());
    let response = peer.fetch("/empty");
    assert_eq!((response.status, response.body.len()), (200, 0));
    let upload = pattern(1_000_000);
    let id = peer.post("/echo", &upload);
    let response = peer.response(id);
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(
        response.body.ends_with(&upload),
        "{} bytes",
        response.body.len()
    );
    let id = peer.open(Dir::Bi, &head(&request("HEAD", "/large.bin")), End::Here);
    let response = peer.response(id);
    assert_eq!(response.field("content-length"), Some("3000000"));
    assert!(response.body.is_empty());
    // In pieces, of a length that is not declared, with frames of unknown kinds between.
    let id = peer.open(Dir::Bi, &head(&request("POST", "/echo")), End::Later);
    for piece in upload[..50_000].chunks(7_777) {
        let bytes = [frame(FrameKind(0x21), b"grease"), data(piece)].concat();
        peer.send(id, &bytes, End::Later);
    }
    peer.send(id, &[], End::Here);
    let response = peer.response(id);
    assert!(
        response.body.ends_with(&upload[..50_000]),
        "{} bytes",
        response.body.len()
    );
}

#[test]
fn a_hundred_requests_at_once_are_served_beside_a_download() {
    let setup = Setup::new(&site("", "root {folder}\nrespond /hello hi\nfile_server"));
    let large = pattern(2_000_000);
    setup.folder().write("large.bin", &large);
    let server = setup.start();
    let mut peer = Peer::connect(server.port);
    let download = peer.get("/large.bin");
    for _ in 0..3 {
        let ids: Vec<_> = (0..99).map(|_| peer.get("/hello")).collect();
        for id in ids {
            assert_eq!(peer.response(id).text(), "hi");
        }
    }
    assert!(peer.response(download).body == large);
}

#[test]
fn refused_requests_get_their_status() {
    let server = Server::start(&site("", "request_body {\n\tmax_size 10\n}\nrespond hello"));
    let mut peer = Peer::connect(server.port);
    let status = |peer: &mut Peer, fields: &[(&str, &str)]| {
        let id = peer.open(Dir::Bi, &head(fields), End::Here);
        peer.response(id)
    };
    let long = "x".repeat(40_000);
    let mut fields = request("GET", "/");
    fields.push(("x", &long));
    assert_eq!(status(&mut peer, &fields).status, 431);
    // Malformed heads end their streams (RFC 9114, section 4.1.2), and nothing else.
    for wrong in [
        vec![(":method", "GET"), (":scheme", "https"), (":path", "/")],
        [request("GET", "/"), vec![("Upper", "case")]].concat(),
        [request("GET", "/"), vec![("connection", "close")]].concat(),
        [request("GET", "/"), vec![(":path", "/b")]].concat(),
    ] {
        let response = status(&mut peer, &wrong);
        let is_refused = response.reset.is_some() || response.status == 400;
        assert!(is_refused, "{wrong:?}: {response:?}");
    }
    assert_eq!(peer.fetch("/").text(), "hello");
}

#[test]
fn a_websocket_becomes_a_tunnel() {
    let upstream = websocket();
    let text = format!("reverse_proxy 127.0.0.1:{}", upstream.port);
    let server = Server::start(&site("", &text));
    let mut peer = Peer::connect(server.port);
    let id = peer.open_websocket("/chat");
    peer.echoed(id, "ping over a tunnel");
    peer.send(id, &[], End::Here);
    peer.response(id);
}

#[test]
fn early_data_is_served_where_it_is_safe() {
    let text = "@early tls early_data\nrespond @early early\nrespond late";
    let server = Server::start(&site("", text));
    let identity = Identity::new();
    let mut first = Peer::begin(&identity, server.port, "localhost");
    assert_eq!(first.fetch("/").text(), "late");
    // The ticket follows the handshake.
    first.drive("a ticket", |peer| peer.quic.stats().frame_rx.crypto > 2);
    let mut again = Peer::begin(&identity, server.port, "localhost");
    assert!(again.quic.has_0rtt(), "the session was not remembered");
    let id = again.get("/");
    let response = again.response(id);
    assert!(again.quic.accepted_0rtt(), "early data was refused");
    assert!(
        matches!(&*response.text(), "early" | "late"),
        "{response:?}"
    );
    // A request that changes something waits for the end of the handshake, or is refused (RFC 8470).
    let mut third = Peer::begin(&identity, server.port, "localhost");
    let id = third.post("/", b"x");
    let response = third.response(id);
    assert!(matches!(response.status, 200 | 425), "{response:?}");
    drop((again, third));
    let text = site("\tservers {\n\t\t0rtt off\n\t}", text);
    let server = Server::start(&text);
    let identity = Identity::new();
    let mut first = Peer::begin(&identity, server.port, "localhost");
    assert_eq!(first.fetch("/").text(), "late");
    let mut again = Peer::begin(&identity, server.port, "localhost");
    assert_eq!(again.fetch("/").text(), "late");
    assert!(!again.quic.accepted_0rtt());
}

#[test]
fn a_client_without_http3_is_refused() {
    let server = Server::start(&site("", "respond hello"));
    let mut peer = Peer::begin(&Identity::offering(&[b"h2"]), server.port, "localhost");
    // The alert `no_application_protocol`.
    assert_eq!(peer.closed(), 0x100 + 120);
}

#[test]
fn an_nginx_file_serves_it_where_it_listens() {
    let setup = Setup::bare();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    setup.folder().write("server.pem", made.cert.pem());
    setup
        .folder()
        .write("server.key", made.signing_key.serialize_pem());
    let text = "events { worker_connections 100; }\nhttp {\n\tserver {\n\t\tlisten {port} quic reuseport;\n\t\t\
        listen {port} ssl;\n\t\tssl_certificate {folder}/server.pem;\n\t\tssl_certificate_key {folder}/server.key;\n\t\t\
        quic_retry on;\n\t\treturn 200 \"$http3 $server_protocol\";\n\t}\n}\n";
    setup.folder().write("nginx.conf", setup.fill(text));
    let server = setup
        .args(&["nginx", "-c", "{folder}/nginx.conf", "-g", "daemon off;"])
        .start();
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "h3 HTTP/3.0");
}

#[test]
fn client_certificates_are_demanded_as_over_tcp() {
    let (ca, stranger) = (ClientCa::new(), ClientCa::new());
    let text = site("", "respond {tls_client_subject}").replace(
        "tls internal",
        "tls internal {\n\t\tclient_auth {\n\t\t\ttrust_pool file {folder}/ca.pem\n\t\t}\n\t}",
    );
    let setup = Setup::new(&text);
    setup.folder().write("ca.pem", ca.pem());
    let server = setup.start();
    let (cert, key) = ca.issue(|params| {
        let name = rcgen::DnType::CommonName;
        params.distinguished_name.push(name, "known to the CA");
    });
    let mut peer = Peer::begin(&Identity::certified(cert, key), server.port, "localhost");
    assert_eq!(peer.fetch("/").text(), "CN=known to the CA");
    let (cert, key) = stranger.issue(|_| ());
    for identity in [Identity::certified(cert, key), Identity::new()] {
        let mut peer = Peer::begin(&identity, server.port, "localhost");
        // A TLS alert (RFC 9001, section 4.8).
        let code = peer.closed();
        assert!((0x100..0x200).contains(&code), "{code:x}");
    }
}

#[test]
fn a_certificate_that_is_made_on_demand_is_there_for_the_next_connection() {
    let text = site("", "respond \"for {host}\"").replace(
        "localhost {\n\ttls internal",
        "https:// {\n\ttls internal {\n\t\ton_demand\n\t}",
    );
    let server = Server::start(&text);
    let mut first = Peer::begin(&Identity::new(), server.port, "localhost");
    first.drive("an end of the handshake", |peer| {
        peer.is_connected || peer.lost.is_some()
    });
    if !first.is_connected {
        // The alert `unrecognized_name`: the client falls back to TCP meanwhile.
        assert_eq!(first.closed(), 0x100 + 112);
    }
    let connects = || {
        let mut peer = Peer::begin(&Identity::new(), server.port, "localhost");
        peer.drive("an end of the handshake", |peer| {
            peer.is_connected || peer.lost.is_some()
        });
        peer.is_connected && peer.fetch("/").text() == "for localhost"
    };
    eventually("a certificate", connects, || server.stderr());
}

#[test]
fn a_udp_port_in_use_leaves_the_other_protocols() {
    let setup = Setup::new(&site("", "respond hello"));
    let port: u16 = setup.fill("{port}").parse().expect("a port");
    let taken = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).expect("it is free");
    let server = setup.start();
    server.wait_for_words("HTTP/3 is not served: the UDP port cannot be bound");
    let config = crate::tls::trusting_local(&server.folder);
    let mut wire = crate::tls::connect(&config, port, "localhost").expect("TCP is served");
    wire.send(format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    let head = wire.head().expect("a response");
    assert!(head[0].contains("200"), "{head:?}");
    assert_eq!(crate::wire::field(&head, "alt-svc"), None, "{head:?}");
    drop(taken);
}
