//! HTTP versions, and settings of HTTP/2: over TLS those of the server selected by the handshake.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::version::TLS13;

use super::{setup, start};
use crate::client::exchange;
use crate::h2::peer::{INITIAL_WINDOW, Peer, SETTINGS};
use crate::harness::{Server, free_port};
use crate::tls;

/// The identifier of SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, section 6.5.2).
const STREAMS_MAX: u16 = 3;

const CONF: &str = "events {}\nhttp {\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
    http2_max_concurrent_streams 7;\n\
    server { listen 127.0.0.1:{tls} ssl; server_name old.test; return 200 old; }\n\
    server { listen 127.0.0.1:{tls} ssl; server_name new.test; http2 on; http2_max_concurrent_streams 5; return 200 new; }\n\
    server { listen 127.0.0.1:{tls} ssl; server_name other.test; http2 on; http2_body_preread_size 128k; return 200 other; }\n\
    server { listen 127.0.0.1:{all} ssl http2; server_name all.test; return 200 all; }\n\
    server { listen 127.0.0.1:{port}; return 200 a; }\n}\n";

/// A server with these lines, its two TLS ports, and a client that trusts it and supports both versions.
fn serve() -> (Server, [u16; 2], Arc<ClientConfig>) {
    let ports = [free_port(), free_port()];
    let text = CONF.replace("{tls}", &ports[0].to_string());
    let setup = setup(&text.replace("{all}", &ports[1].to_string()));
    let names = [
        "old.test",
        "new.test",
        "other.test",
        "all.test",
        "nobody.test",
    ];
    let made = rcgen::generate_simple_self_signed(names.map(str::to_owned)).expect("a certificate");
    setup.folder().write("site.pem", made.cert.pem());
    let key = made.signing_key.serialize_pem();
    setup.folder().write("site.key", key);
    let mut client = (*tls::trusting(made.cert.der().clone(), &[&TLS13])).clone();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (setup.start(), ports, Arc::new(client))
}

/// The initial settings of a server.
fn settings(peer: &mut Peer<impl std::io::Read + std::io::Write>) -> Vec<(u16, u32)> {
    let frame = peer.frame_of(SETTINGS).expect("settings come first");
    let (entries, _) = frame.payload.as_chunks::<6>();
    let entry = |entry: &[u8; 6]| {
        let [a, b, c, d, e, f] = *entry;
        (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
    };
    entries.iter().map(entry).collect()
}

#[test]
fn the_server_of_the_handshake_decides_the_protocol() {
    let (_server, [tls_port, all_port], client) = serve();
    for (port, name, expected) in [
        (tls_port, "old.test", "http/1.1"),
        (tls_port, "new.test", "h2"),
        (tls_port, "other.test", "h2"),
        // An unknown name uses the default server.
        (tls_port, "nobody.test", "http/1.1"),
        (all_port, "all.test", "h2"),
    ] {
        let wire = tls::connect(&client, port, name).expect("a handshake");
        let chosen = wire.reader.get_ref().conn.alpn_protocol();
        assert_eq!(chosen, Some(expected.as_bytes()), "{name}");
    }
}

#[test]
fn the_server_of_the_handshake_says_how_many_streams_there_may_be() {
    let (_server, [tls_port, all_port], client) = serve();
    for (port, name, streams, window) in [
        (tls_port, "new.test", 5, None),
        (tls_port, "other.test", 7, Some(128 * 1024)),
        (all_port, "all.test", 7, None),
    ] {
        let wire = tls::connect(&client, port, name).expect("a handshake");
        let mut peer = Peer::begin(wire.reader.into_inner(), &[]);
        let settings = settings(&mut peer);
        let of = |number: u16| {
            let mut found = settings.iter().filter(|(known, _)| *known == number);
            found.next().map(|(_, value)| *value)
        };
        assert_eq!(of(STREAMS_MAX), Some(streams), "{name}");
        assert_eq!(of(INITIAL_WINDOW), window, "{name}");
    }
    // Without TLS the default server's setting applies, up to the program's limit.
    let server = start(
        "http2 on;\nhttp2_max_concurrent_streams 1000;\nreturn 200 a;",
        &[],
    );
    let seen = settings(&mut Peer::connect(server.port));
    assert!(seen.contains(&(STREAMS_MAX, 128)), "{seen:?}");
}

#[test]
fn tcpinfo_variables_exist_over_tcp_only() {
    let text = "\"$tcpinfo_rtt $tcpinfo_rttvar $tcpinfo_snd_cwnd $tcpinfo_rcv_space\"";
    let setup = super::site(&format!(
        "listen unix:{{folder}}/socket;\nreturn 200 {text};"
    ));
    let server = setup.start();
    let response = server.ask("/").text();
    let numbers: Vec<u64> = response
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    // A window of zero would block everything, and a round trip takes time.
    assert_eq!(numbers.len(), 4, "{response}");
    assert!(
        numbers[0] > 0 && numbers[2] > 0 && numbers[3] > 0,
        "{response}"
    );
    let socket = server.folder.path().join("socket");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("it is there");
    let said = std::io::read_to_string(stream).expect("an answer");
    assert!(said.ends_with("\r\n\r\n   "), "{said}");
}

/// Variables that nginx has since 1.25 and 1.29, as its documentation describes them.
#[test]
fn ports_of_requests_and_http_3_are_variables() {
    let server = start(
        "return 200 \"[$http3][$request_port][$is_request_port]\";",
        &[],
    );
    for (head, expected) in [
        ("GET / HTTP/1.1\r\nHost: a.test:8080\r\n", "[][8080][:]"),
        ("GET / HTTP/1.1\r\nHost: a.test\r\n", "[][][]"),
        (
            "GET http://a.test:81/ HTTP/1.1\r\nHost: a.test:82\r\n",
            "[][81][:]",
        ),
    ] {
        let response = exchange(server.port, format!("{head}Connection: close\r\n\r\n"));
        assert_eq!(response.text(), expected, "{head}");
    }
}
