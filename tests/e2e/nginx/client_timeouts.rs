//! Client timeouts and keep-alive, configured per server and location.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustls::version::TLS13;
use sluice_net::sys::process::Signal;

use super::{setup, site, start};
use crate::client::Client;
use crate::h2::peer::{GOAWAY, Peer};
use crate::harness::{Server, eventually};
use crate::tls;
use crate::upstream::Upstream;

/// An incomplete request for `path`.
fn begun(server: &Server, path: &str) -> Client {
    let mut client = Client::connect(server.port);
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    client.send(head);
    client
}

#[test]
fn a_body_may_pause_for_as_long_as_its_location_says() {
    let upstream = Upstream::echo();
    let lines = format!(
        "client_body_timeout 1h;\nproxy_pass_request_body on;\nlocation /patient {{ proxy_pass http://127.0.0.1:{0}; }}\n\
         location /quick {{ client_body_timeout 200ms; proxy_pass http://127.0.0.1:{0}; }}\n\
         location /sent-on {{ client_body_timeout 200ms; rewrite ^ /patient/x last; }}",
        upstream.port
    );
    let server = start(&lines, &[]);
    let mut patient = begun(&server, "/patient");
    let mut sent_on = begun(&server, "/sent-on");
    let mut quick = begun(&server, "/quick");
    assert!(quick.is_closed(), "nothing is said");
    for client in [&mut patient, &mut sent_on] {
        client.send("cd");
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn connections_wait_for_another_request_as_their_location_says() {
    let lines = "keepalive_timeout 1h;\n\
                 location /long { return 200 a; }\n\
                 location /told { keepalive_timeout 1h 20s; return 200 a; }\n\
                 location /short { keepalive_timeout 200ms; return 200 a; }\n\
                 location /none { keepalive_timeout 0; return 200 a; }\n\
                 location /two { keepalive_requests 2; return 200 a; }\n\
                 location /old { keepalive_time 1ms; return 200 a; }\n\
                 location /safari { keepalive_disable safari; return 200 a; }";
    let server = start(lines, &[]);
    let mut long = Client::connect(server.port);
    assert_eq!(long.get("/long").field("connection"), None);
    let mut short = Client::connect(server.port);
    assert_eq!(short.get("/short").field("connection"), None);
    assert!(short.is_closed());
    let response = long.get("/told");
    assert_eq!(response.field("keep-alive"), Some("timeout=20"));
    assert_eq!(response.field("connection"), Some("keep-alive"));
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/none").field("connection"), Some("close"));
    assert!(client.is_closed());
    let mut client = Client::connect(server.port);
    assert_eq!(client.get("/two").field("connection"), None);
    assert_eq!(client.get("/two").field("connection"), Some("close"));
    assert!(client.is_closed());
    // The connection is kept alive until it exceeds its maximum age.
    let mut client = Client::connect(server.port);
    while client.get("/old").field("connection").is_none() {}
    assert!(client.is_closed());
    for (agent, expected) in [
        (
            "(Macintosh; Intel Mac OS X 10_15) Safari/605",
            Some("close"),
        ),
        (
            "(Macintosh; Intel Mac OS X 10_15) Chrome/9 Safari/537",
            None,
        ),
    ] {
        let mut client = Client::connect(server.port);
        client.send(format!(
            "GET /safari HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"
        ));
        assert_eq!(client.response().field("connection"), expected, "{agent}");
    }
    let post = "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nUser-Agent: x (compatible; MSIE 6.0; y)\r\n\r\n";
    long.send(post);
    assert_eq!(long.response().field("connection"), Some("close"));
}

/// A client that does not read has the location's timeout; with `reset_timedout_connection` it does not get what was
/// already sent either.
#[test]
fn a_client_that_takes_nothing_is_left_as_its_location_says() {
    let lines = "send_timeout 1h;\naccess_log {folder}/access.log;\n\
                 location /a/ { alias {folder}/www/; send_timeout 200ms; }\n\
                 location /r/ { alias {folder}/www/; send_timeout 200ms; reset_timedout_connection on; }";
    let setup = site(lines);
    setup.folder().write("www/big", vec![b'x'; 32 << 20]);
    let server = setup.start();
    let log = || server.folder.read("access.log");
    for (path, expected) in [
        ("/a/big", None),
        ("/r/big", Some(io::ErrorKind::ConnectionReset)),
    ] {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).expect("it is sent");
        eventually("its line", || log().contains(path), log);
        let mut taken = Vec::new();
        let ended = client.read_to_end(&mut taken);
        assert_eq!(ended.err().map(|error| error.kind()), expected, "{path}");
        assert!(taken.len() < 32 << 20);
    }
}

const TLS: &str = "events {}\nhttp {\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
    server { listen 127.0.0.1:{tls} ssl; server_name other.test; return 200 other; }\n\
    server { listen 127.0.0.1:{tls} ssl; server_name quick.test; client_header_timeout 200ms; return 200 quick; }\n\
    server { listen 127.0.0.1:{tls} ssl; server_name ~^patient; client_header_timeout 1h; return 200 patient; }\n\
    server { listen 127.0.0.1:{port}; return 200 a; }\n}\n";

/// The server selected by the handshake sets the timeout of request heads.
#[test]
fn heads_may_take_as_long_as_the_server_of_the_handshake_says() {
    let port = crate::harness::free_port();
    let setup = setup(&TLS.replace("{tls}", &port.to_string()));
    let names = ["quick.test", "patient.test"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    setup.folder().write("site.pem", made.cert.pem());
    let key = made.signing_key.serialize_pem();
    setup.folder().write("site.key", key);
    let _server = setup.start();
    let trusting = tls::trusting(made.cert.der().clone(), &[&TLS13]);
    let connect = |name: &str| tls::connect(&trusting, port, name).expect("a handshake");
    let (mut patient, mut quick) = (connect("patient.test"), connect("quick.test"));
    patient.send("GET / HTTP/1.1\r\n");
    quick.send("GET / HTTP/1.1\r\n");
    assert!(quick.head().is_none(), "nothing is said");
    patient.send("Host: patient.test\r\n\r\n");
    let head = patient.head().expect("an answer");
    assert!(head[0].starts_with("HTTP/1.1 200"), "{head:?}");
}

/// In HTTP/2 the server's setting applies, and GOAWAY announces the end.
#[test]
fn an_http2_connection_brings_as_many_requests_as_its_server_says() {
    let server = start("http2 on;\nkeepalive_requests 2;\nreturn 200 a;", &[]);
    let mut peer = Peer::connect(server.port);
    assert_eq!(peer.fetch("/").text(), "a");
    peer.get("/");
    assert!(peer.frame_of(GOAWAY).is_some());
}

/// A connection within `keepalive_min_timeout` accepts another request while the process shuts down.
#[test]
fn a_connection_is_not_closed_within_its_least_time() {
    let lines = "location /kept { keepalive_timeout 1h; keepalive_min_timeout 1h; return 200 a; }\n\
                 location / { return 200 a; }";
    let mut server = start(lines, &[]);
    let (mut kept, mut other) = (Client::connect(server.port), Client::connect(server.port));
    assert_eq!(kept.get("/kept").status, 200);
    assert_eq!(other.get("/").status, 200);
    server.signal(Signal::Terminate);
    assert!(other.is_closed());
    // The worker of this connection may be notified later than that of the other one.
    while kept.get("/kept").field("connection") != Some("close") {}
    assert!(kept.is_closed());
    drop((kept, other));
    assert!(server.wait_for_end().success());
}

/// Whether the peer of a connection whose response has ended still accepts bytes.
fn is_taken(client: &mut TcpStream) -> bool {
    client.write_all(b"x").is_ok()
}

#[test]
fn connections_linger_as_their_location_says() {
    let lines = "lingering_timeout 1h; lingering_time 1h;\n\
                 location /off { lingering_close off; return 200 a; }\n\
                 location /on { return 200 a; }\n\
                 location /always { lingering_close always; return 200 a; }\n\
                 location /brief { lingering_close always; lingering_timeout 100ms; return 200 a; }\n\
                 location /in-all { lingering_close always; lingering_time 1s; return 200 a; }";
    let server = start(lines, &[]);
    let ended = |path: &str| {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        client.set_nodelay(true).expect("it can be set");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).expect("it is sent");
        let mut response = Vec::new();
        client.read_to_end(&mut response).expect("an answer");
        assert!(response.starts_with(b"HTTP/1.1 200"), "{path}");
        client
    };
    let mut always = ended("/always");
    for path in ["/off", "/on", "/brief", "/in-all"] {
        let client = std::cell::RefCell::new(ended(path));
        if path == "/brief" {
            // Each arrival within the lingering timeout restarts it: this client is silent until it has expired.
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_over = || !is_taken(&mut client.borrow_mut());
        eventually("the end", is_over, || path.to_owned());
    }
    for _ in 0..3 {
        assert!(is_taken(&mut always));
    }
    always.shutdown(Shutdown::Both).expect("it is open");
}

/// As in nginx a header with an invalid name is dropped, unless it could be mistaken for one that frames the message.
#[test]
fn fields_with_odd_names_are_left_out() {
    let upstream = Upstream::echo();
    let lines = |more: &str| {
        let pass = format!("proxy_pass http://127.0.0.1:{};", upstream.port);
        format!("{more}\nlocation / {{ {pass} }}")
    };
    let server = start(&lines(""), &[]);
    let asked = |server: &Server, field: &[u8]| {
        let mut client = Client::connect(server.port);
        let head = [
            b"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n",
            field,
            b"\r\nX-B: 2\r\n\r\n",
        ];
        client.send(head.concat());
        client.response()
    };
    let odd = [
        &b"X[1]: y"[..],
        b"X\xc3\xa4: y",
        b"X.y: y",
        b"x_y: y",
        b"{: y",
    ];
    for field in odd {
        let response = asked(&server, field);
        assert_eq!(response.status, 200);
        let seen = response.text();
        assert!(
            seen.contains("X-A: 1") && seen.contains("X-B: 2") && !seen.contains(": y"),
            "{seen}"
        );
    }
    let refused = [
        &b"X y: z"[..],
        b"X : z",
        b"X\x01: z",
        b": z",
        b"x[",
        b"Content-Length\xa0: 3",
        b"Transfer[-]Encoding: chunked",
        b"(Host): b",
        b"X[1]: a\0b",
    ];
    for field in refused {
        assert_eq!(asked(&server, field).status, 400, "{field:?}");
    }
    let server = start(&lines("ignore_invalid_headers off;"), &[]);
    for field in [&b"X.y: z"[..], b"x_y: z"] {
        assert!(asked(&server, field).text().contains(": z"), "{field:?}");
    }
}
