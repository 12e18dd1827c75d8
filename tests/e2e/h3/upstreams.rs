//! Upstreams over HTTP/3: sluice behind sluice, with an upstream of HTTP/1.1 behind both.

use std::io::BufRead;
use std::sync::{Mutex, mpsc};

use quinn_proto::Dir;
use sluice_net::sys::process::Signal;
use sluice_wire::sections::End;

use super::peer::{Peer, data, head, request};
use super::serving::{pattern, site};
use crate::client::{Client, ask};
use crate::h2::tunnels::websocket;
use crate::handshakes::ClientCa;
use crate::harness::{Server, Setup, TIMEOUT, eventually};
use crate::ports::free_port;
use crate::upstream::Upstream;

const CONNECTIONS: &str = "sluice_http3_upstream_connections_total";

/// `reverse_proxy` over HTTP/3 to a server that [`site`] configures, whose local CA is trusted; `more` stands in the
/// transport, `beside` behind it.
fn to(upstream: &Server, more: &str, beside: &str) -> String {
    let folder = upstream.folder.path().display();
    let trust = format!("tls_trust_pool file {folder}/data/sluice/pki/authorities/local/root.crt");
    over_http3(&[upstream.port], &format!("{trust}\n{more}"), beside)
}

/// `reverse_proxy` over HTTP/3 to these ports. On a busy machine a handshake may take longer than usual.
pub fn over_http3(ports: &[u16], transport: &str, beside: &str) -> String {
    let to: Vec<String> = ports
        .iter()
        .map(|port| format!("https://localhost:{port}"))
        .collect();
    format!(
        "reverse_proxy {} {{\n\ttransport http {{\n\tversions 3\n\tdial_timeout {}s\n{transport}\n\t}}\n{beside}\n}}",
        to.join(" "),
        TIMEOUT.as_secs()
    )
}

/// A server over plain HTTP with these directives.
fn serving(directives: &str) -> Server {
    Server::start(&plain(directives))
}

pub fn plain(directives: &str) -> String {
    format!("{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n{directives}\n}}\n")
}

/// A server over HTTP/3 that forwards to an upstream of HTTP/1.1.
fn before(upstream: &Upstream) -> Server {
    let lines = format!("reverse_proxy localhost:{}", upstream.port);
    Server::start(&site("", &lines))
}

#[test]
fn requests_arrive_over_http3_and_share_a_connection() {
    let facts = "respond \"{http.request.proto} {method} {uri} {host} {header.x-forwarded-proto}\"";
    let upstream = Server::start(&site("", facts));
    let server = serving(&to(&upstream, "", ""));
    let mut client = Client::connect(server.port);
    for path in ["/", "/a?b=c", "/again"] {
        let response = client.get(path);
        let expected = format!("HTTP/3.0 GET {path} localhost http");
        assert_eq!((response.status, response.text()), (200, expected));
    }
    client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let facts = "HTTP/3.0 HEAD / localhost http";
    let length = format!("Content-Length: {}\r\n", facts.len());
    assert!(head.contains(&length), "{head}");
    // The connection goes on behind what has no body.
    assert_eq!(client.get("/last").status, 200);
    assert_eq!(server.metric(CONNECTIONS), 1);
    server.metric("sluice_quic_upstream_lost_packets_total");
}

#[test]
fn large_bodies_pass_both_ways() {
    let echo = Upstream::echo();
    let upstream = before(&echo);
    let server = serving(&to(&upstream, "", ""));
    let sent = pattern(10_000_000);
    let mut client = Client::connect(server.port);
    let length = sent.len();
    client.send(format!(
        "POST /large HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    ));
    client.send(&sent);
    let response = client.response();
    assert_eq!(response.status, 200);
    assert!(response.body.starts_with(b"POST /large HTTP/1.1\n"));
    assert!(response.body.ends_with(&sent), "the echo differs");
}

#[test]
fn trailers_pass_both_ways() {
    let backend = Upstream::start(|mut wire| {
        let Some(_) = wire.head() else { return };
        let mut line = String::new();
        while line.trim_end() != "x-up: yes" {
            line.clear();
            match wire.reader.read_line(&mut line) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
        wire.send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-down\r\n\r\n\
             5\r\nhello\r\n0\r\nx-down: yes\r\n\r\n",
        );
    });
    let upstream = before(&backend);
    let server = Server::start(&site("", &to(&upstream, "", "")));
    let mut peer = Peer::connect(server.port);
    let mut fields = request("POST", "/");
    fields.extend([("te", "trailers"), ("trailer", "x-up")]);
    let id = peer.open(Dir::Bi, &head(&fields), End::Later);
    peer.send(id, &data(b"body"), End::Later);
    peer.send(id, &head(&[("x-up", "yes")]), End::Here);
    let response = peer.response(id);
    assert_eq!(
        (response.status, response.text()),
        (200, "hello".to_owned())
    );
    assert_eq!(response.trailers, [("x-down".to_owned(), "yes".to_owned())]);
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let backend = Upstream::responding(
        "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let upstream = before(&backend);
    let server = serving(&to(&upstream, "", ""));
    let mut client = Client::connect(server.port);
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let hints = client.head().expect("a head");
    assert!(hints.starts_with("HTTP/1.1 103 "), "{hints}");
    assert_eq!(client.response().text(), "ok");
}

#[test]
fn a_client_that_leaves_ends_its_request_and_no_other() {
    let (asking, asked) = mpsc::channel();
    let (closing, closed) = mpsc::channel();
    let backend = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if head[0].contains("/left") {
                // The head, and the beginning of a body that never ends.
                wire.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun");
                let _ = asking.send(());
                if wire.head().is_none() {
                    let _ = closing.send(());
                }
                return;
            }
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let upstream = before(&backend);
    let server = serving(&to(&upstream, "", ""));
    for _ in 0..2 {
        let mut client = Client::connect(server.port);
        client.send("GET /left HTTP/1.1\r\nHost: localhost\r\n\r\n");
        asked.recv_timeout(TIMEOUT).expect("the request arrives");
        let head = client.head().expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        drop(client);
        closed.recv_timeout(TIMEOUT).expect("its stream is reset");
    }
    assert_eq!(ask(server.port, "/").text(), "ok");
}

#[test]
fn an_upstream_that_is_killed_gives_502_until_it_is_back() {
    let port = free_port();
    let text = site("", "respond up").replace("{port}", &port.to_string());
    let mut upstream = Server::start(&text);
    let server = serving(&over_http3(&[port], "tls_insecure_skip_verify", ""));
    let mut client = Client::connect(server.port);
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "up");
        upstream.kill();
        // The kernel reports that nobody listens, on the connection that was kept and on a new one.
        assert_eq!(client.get("/").status, 502);
        upstream = Server::start(&text);
        assert_eq!(client.get("/").text(), "up");
    }
    server.wait_for_words("refused");
}

#[test]
fn requests_go_elsewhere_when_an_upstream_goes_away() {
    let mut first = Server::start(&site("", "respond first"));
    let second = Server::start(&site("", "respond second"));
    let ports = [first.port, second.port];
    let beside = "lb_policy first\nlb_retries 1";
    let server = serving(&over_http3(&ports, "tls_insecure_skip_verify", beside));
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/").text(), "first");
    first.signal(Signal::Terminate);
    eventually(
        "the second one",
        || {
            let response = client.get("/");
            assert_eq!(response.status, 200);
            response.text() == "second"
        },
        || server.stderr(),
    );
    first.wait_for_end();
}

#[test]
fn a_request_in_flight_outlives_a_reload() {
    let (permitting, permitted) = mpsc::channel::<()>();
    let permitted = Mutex::new(permitted);
    let backend = Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
            if head[0].contains("/slow") {
                let permitted = permitted.lock().expect("nobody panics");
                permitted.recv_timeout(TIMEOUT).expect("the reload");
            }
            wire.send("ended");
        }
    });
    let upstream = before(&backend);
    let lines = |header: &str| format!("header x-round {header}\n{}", to(&upstream, "", ""));
    let server = serving(&lines("old"));
    let mut slow = Client::connect(server.port);
    slow.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = slow.head().expect("a head");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("x-round: old"), "{head}");
    server.write(&plain(&lines("new")));
    server.signal(Signal::Hangup);
    let mut client = Client::connect(server.port);
    eventually(
        "the new configuration",
        || {
            let response = client.get("/");
            assert_eq!(response.text(), "begunended");
            response.field("x-round") == Some("new")
        },
        || server.stderr(),
    );
    permitting.send(()).expect("the upstream waits");
    for expected in b"begunended" {
        assert_eq!(slow.byte().expect("the body"), *expected);
    }
    assert_eq!(slow.get("/").field("x-round"), Some("new"));
}

#[test]
fn upstreams_have_to_be_trusted() {
    let upstream = Server::start(&site("", "respond hello"));
    let port = upstream.port;
    // The system's store does not have the upstream's local CA.
    let server = serving(&over_http3(&[port], "", ""));
    assert_eq!(server.ask("/").status, 502);
    server.wait_for_words("invalid peer certificate");
    // The certificate is for another name.
    let server = serving(&to(&upstream, "tls_server_name other.test", ""));
    assert_eq!(server.ask("/").status, 502);
    let server = serving(&to(&upstream, "tls_server_name localhost", ""));
    assert_eq!(server.ask("/").text(), "hello");
}

#[test]
fn client_certificates_are_presented() {
    let ca = ClientCa::new();
    let text = site("", "respond {tls_client_subject}").replace(
        "tls internal",
        "tls internal {\n\t\tclient_auth {\n\t\t\ttrust_pool file {folder}/ca.pem\n\t\t}\n\t}",
    );
    let setup = Setup::new(&text);
    setup.folder().write("ca.pem", ca.pem());
    let upstream = setup.start();
    let without = serving(&to(&upstream, "", ""));
    // Its handshake ends before the upstream has seen that there is none.
    assert_eq!(without.ask("/").status, 502);
    let (cert, key) = ca.issue_pem(|params| {
        let name = rcgen::DnType::CommonName;
        params.distinguished_name.push(name, "known to the CA");
    });
    let options = "tls_client_auth {folder}/cert.pem {folder}/key.pem";
    let setup = Setup::new(&plain(&to(&upstream, options, "")));
    setup.folder().write("cert.pem", cert);
    setup.folder().write("key.pem", key);
    let server = setup.start();
    assert_eq!(server.ask("/").text(), "CN=known to the CA");
}

#[test]
fn health_checks_go_over_http3() {
    let mut upstream = Server::start(&site("", "respond {http.request.proto}"));
    let beside = "health_uri /\nhealth_interval 50ms\nhealth_body HTTP/3.0";
    let server = serving(&to(&upstream, "", beside));
    eventually(
        "a healthy upstream",
        || server.ask("/").text() == "HTTP/3.0",
        || server.stderr(),
    );
    upstream.kill();
    eventually(
        "an unhealthy upstream",
        || server.ask("/").status == 503,
        || server.stderr(),
    );
}

#[test]
fn websockets_go_over_http1() {
    let chat = websocket();
    let upstream = before(&chat);
    let server = serving(&to(&upstream, "", ""));
    let mut client = Client::connect(server.port);
    client.send(
        "GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = client.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(server.metric(CONNECTIONS), 0);
}

#[test]
fn what_http3_has_no_place_for_is_refused() {
    let plain_upstream = "reverse_proxy localhost:1 {\n\ttransport http {\n\t\tversions 3\n\t}\n}";
    let unix =
        "reverse_proxy unix//tmp/none {\n\ttransport http {\n\t\tversions 3\n\t\ttls\n\t}\n}";
    for (directives, said) in [
        (plain_upstream, "an upstream without TLS with `versions 3`"),
        (unix, "the unix socket `unix//tmp/none` with `versions 3`"),
    ] {
        let setup = Setup::new(&plain(directives));
        let output = crate::harness::run_to_end(setup.folder(), &["validate"]);
        let complained = crate::harness::text(&output.stderr);
        assert!(
            !output.status.success() && complained.contains(said),
            "{complained}"
        );
    }
}
