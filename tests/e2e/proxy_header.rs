//! The PROXY protocol from proxies in front, and plain HTTP on a TLS port.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::harness::{Server, eventually};
use crate::tls::trusting_local;

const GET: &[u8] = b"GET /x?y HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n";
const V1: &[u8] = b"PROXY TCP4 192.0.2.9 192.0.2.1 1234 443\r\n";
const V1_UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\xc0\0\x02\x01\x04\xd2\x01\xbb";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn start(wrapper: &str) -> Server {
    let file = format!(
        "{{\n\tadmin off\n\tservers {{\n\t\tlistener_wrappers {{\n{wrapper}\n\t\t}}\n\t}}\n}}\n\
         :{{port}} {{\n\tlog {{\n\t\toutput file access.log\n\t}}\n\
         \trespond \"{{remote_host}} {{client_ip}} {{http.request.local.host}}\"\n}}\n"
    );
    Server::start(&file)
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout can be set");
    socket
}

/// The response to `parts`, each sent separately.
fn ask(port: u16, parts: &[&[u8]]) -> String {
    let mut socket = connect(port);
    socket.set_nodelay(true).expect("it can be set");
    for part in parts {
        let _ = socket.write_all(part);
        // Usually enough for the server to read each part by itself; if not, the test is easier, not wrong.
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut all = Vec::new();
    let _ = socket.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

const CLIENT: &str = "192.0.2.9 192.0.2.9 192.0.2.1";
const PEER: &str = "127.0.0.1 127.0.0.1 127.0.0.1";

#[test]
fn an_allowed_proxy_supplies_the_client_address() {
    let server = start("proxy_protocol {\nallow 127.0.0.0/8\n}");
    for (header, expected) in [
        (V1, CLIENT),
        (V2, CLIENT),
        (V1_UNKNOWN, PEER),
        (V2_LOCAL, PEER),
        (b"", PEER),
    ] {
        let response = ask(server.port, &[header, GET]);
        assert!(response.ends_with(expected), "{header:?}: {response}");
        let response = ask(server.port, &[&[header, GET].concat()]);
        assert!(
            response.ends_with(expected),
            "{header:?} in one piece: {response}"
        );
        let bytes: Vec<&[u8]> = header.chunks(1).chain([GET]).collect();
        let response = ask(server.port, &bytes);
        assert!(
            response.ends_with(expected),
            "{header:?} byte by byte: {response}"
        );
    }
    eventually(
        "the log names the client",
        || {
            server
                .folder
                .read("access.log")
                .contains("\"remote_ip\":\"192.0.2.9\"")
        },
        || server.folder.read("access.log"),
    );
    assert_eq!(ask(server.port, &[b"PROXY TCP4 x\r\n", GET]), "");
}

#[test]
fn headers_are_ignored_required_refused_or_not_looked_for() {
    for (wrapper, with, without) in [
        ("proxy_protocol", Some(PEER), Some(PEER)),
        (
            "proxy_protocol {\nfallback_policy require\n}",
            Some(CLIENT),
            None,
        ),
        (
            "proxy_protocol {\nfallback_policy use\n}",
            Some(CLIENT),
            Some(PEER),
        ),
        ("proxy_protocol {\ndeny 127.0.0.1\n}", None, Some(PEER)),
        (
            "proxy_protocol {\nfallback_policy skip\n}",
            Some("400 Bad Request"),
            Some(PEER),
        ),
    ] {
        let server = start(wrapper);
        for (header, expected) in [(V1, with), (V2, with), (b"", without)] {
            let response = ask(server.port, &[header, GET]);
            match expected {
                Some(text) => assert!(response.contains(text), "{wrapper} {header:?}: {response}"),
                None => assert_eq!(response, "", "{wrapper} {header:?}"),
            }
        }
    }
}

#[test]
fn half_a_header_is_not_waited_for_long() {
    let server = start("proxy_protocol {\ntimeout 300ms\nallow 127.0.0.1\n}");
    let began = Instant::now();
    assert_eq!(ask(server.port, &[&V2[..20]]), "");
    let took = began.elapsed();
    assert!((200..3000).contains(&took.as_millis()), "{took:?}");
    // What only starts like a PROXY header is a request.
    let propfind = b"PROPFIND / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert!(ask(server.port, &[&propfind[..4], &propfind[4..]]).ends_with(PEER));
}

fn secure(file: &str) -> (Server, Arc<ClientConfig>) {
    let server = Server::start(file);
    let config = trusting_local(&server.folder);
    (server, config)
}

#[test]
fn the_header_comes_before_the_handshake_and_reaches_upstreams() {
    let (server, config) = secure(
        "{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n\
         \tskip_install_trust\n\tservers :{port} {\n\t\tlistener_wrappers {\n\
         \t\t\tproxy_protocol {\n\t\t\t\tallow 127.0.0.1\n\t\t\t}\n\t\t\ttls\n\t\t}\n\t}\n}\n\
         localhost {\n\ttls internal\n\treverse_proxy unix/app.sock\n}\n\
         http:// {\n\tbind unix/app.sock\n\trespond \"for {header.X-Forwarded-For}\"\n}\n",
    );
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(config, name).unwrap();
    let mut socket = connect(server.port);
    socket.write_all(V2).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    assert!(response.ends_with("for 192.0.2.9"), "{response}");
}

#[test]
fn plain_http_is_redirected_to_https_if_configured() {
    let (server, config) = secure(
        "{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port {port}\n\
         \tskip_install_trust\n\tservers {\n\t\tlistener_wrappers {\n\
         \t\t\thttp_redirect\n\t\t\ttls\n\t\t}\n\t}\n}\n\
         localhost {\n\ttls internal\n\trespond secure\n}\n",
    );
    let port = server.port;
    let request = format!("GET /x?y=1 HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    for parts in [
        &[request.as_bytes()][..],
        &[&request.as_bytes()[..9], &request.as_bytes()[9..]],
    ] {
        let response = ask(port, parts);
        assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
        let location = format!("\r\nLocation: https://localhost:{port}/x?y=1\r\n");
        assert!(response.contains(&location), "{response}");
    }
    for bad in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
    ] {
        let response = ask(port, &[bad.as_bytes()]);
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    }
    let connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, connect(port));
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    assert!(response.ends_with("secure"), "{response}");
}
