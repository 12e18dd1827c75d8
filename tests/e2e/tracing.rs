//! Spans as received by a collector and an upstream.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use pki_types::PrivateKeyDer;
use pki_types::pem::PemObject;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::client::exchange;
use crate::harness::{Folder, Server, Setup, TIMEOUT, eventually};

/// A server that reads complete requests, responds to each with `answer` and returns their bytes.
pub fn listener(response: &'static str) -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            let request = read_request(stream, response);
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

fn read_request(mut stream: impl Read + Write, response: &str) -> Vec<u8> {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).map_or(0, |rest| {
                rest.lines().next().unwrap_or_default().parse().unwrap_or(0)
            });
            let head = request.windows(4).position(|window| window == b"\r\n\r\n");
            if request.len() >= head.expect("it was found") + 4 + length {
                break;
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
            _ => break,
        }
    }
    let _ = stream.write_all(response.as_bytes());
    request
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

const SITE: &str = ":{port} {\n\tlog {\n\t\toutput file {folder}/access.log\n\t}\n\ttracing {\n\
                    \t\tspan \"name {http.request.method}\"\n\t\tspan_attributes {\n\t\t\tshop {http.request.host}\n\t\t}\n\t}\n\
                    \trespond /own \"{http.vars.trace_id} {http.vars.span_id} {http.request.header.traceparent}\"\n\
                    \treverse_proxy 127.0.0.1:UPSTREAM\n}\n";

fn start(site: &str, collector: u16) -> Server {
    Setup::new(site)
        .env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &format!("http://127.0.0.1:{collector}"),
        )
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
        .env("OTEL_SERVICE_NAME", "shop-front")
        .start()
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: shop.test\r\n{fields}Connection: close\r\n\r\n")
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_trace_goes_from_the_client_to_the_upstream_and_to_the_collector() {
    let (upstream, asked) = listener(EMPTY);
    let (collector, spans) = listener(EMPTY);
    let server = start(&SITE.replace("UPSTREAM", &upstream.to_string()), collector);
    let fields = format!("traceparent: {PARENT}\r\ntracestate: a=b\r\nbaggage: k=v\r\n");
    assert_eq!(exchange(server.port, get("/p?q=1", &fields)).status, 200);
    let request = asked.recv_timeout(TIMEOUT).expect("the upstream is asked");
    let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let line = request
        .lines()
        .find(|line| line.starts_with("traceparent: "));
    let handed_on = line
        .expect("the trace goes on")
        .trim_start_matches("traceparent: ");
    let parts: Vec<&str> = handed_on.split('-').collect();
    assert_eq!(
        (parts[0], parts[1], parts[3]),
        ("00", "0af7651916cd43dd8448eb211c80319c", "01")
    );
    assert_ne!(parts[2], "b7ad6b7169203331", "a span of its own");
    assert_eq!(request.matches("traceparent").count(), 1);
    assert!(request.contains("tracestate: a=b") && request.contains("baggage: k=v"));

    let message = spans.recv_timeout(TIMEOUT).expect("the collector is told");
    assert!(message.starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
    let head = message
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a head");
    let body = &message[head + 4..];
    let holds = |part: &[u8]| body.windows(part.len()).any(|window| window == part);
    let id = |text: &str| -> Vec<u8> {
        let digits = text
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).expect("hex"));
        digits
            .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
            .collect()
    };
    // Field 1 of a span, 16 bytes; field 2, 8 bytes; field 4, the parent.
    assert!(holds(&[&[0x0a, 16], &id(parts[1])[..]].concat()));
    assert!(holds(&[&[0x12, 8], &id(parts[2])[..]].concat()));
    assert!(holds(&[&[0x22, 8], &id("b7ad6b7169203331")[..]].concat()));
    for text in [
        "service.name",
        "shop-front",
        "name GET",
        "url.path",
        "/p",
        "q=1",
        "shop.test",
        "a=b",
    ] {
        assert!(holds(text.as_bytes()), "{text}");
    }
    eventually(
        "the line",
        || server.folder.read("access.log").contains("spanID"),
        || server.stderr(),
    );
    let line: serde_json::Value =
        serde_json::from_str(&server.folder.read("access.log")).expect("JSON");
    assert_eq!(line["traceID"], parts[1]);
    assert_eq!(line["spanID"], parts[2]);
}

/// A collector with a certificate of its own, which is written to `collector.pem`; returns the requests.
fn secure_listener(folder: &Folder) -> (u16, Receiver<Vec<u8>>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    folder.write("collector.pem", made.cert.pem());
    let pem = made.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    let config = Arc::new(config.expect("a key that fits"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            let session = ServerConnection::new(config.clone()).expect("a session");
            let request = read_request(StreamOwned::new(session, stream), EMPTY);
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

#[test]
fn a_collector_is_reached_over_tls_if_its_certificate_is_trusted() {
    let folder = Folder::new();
    let (collector, spans) = secure_listener(&folder);
    let start = |roots: &str| {
        Setup::new(&SITE.replace("UPSTREAM", "1"))
            .env(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                &format!("https://127.0.0.1:{collector}"),
            )
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
            .env("SSL_CERT_FILE", roots)
            .start()
    };
    let other =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    folder.write("other.pem", other.cert.pem());
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (roots, is_trusted) in [("collector.pem", true), ("other.pem", false)] {
        let server = start(&path(roots));
        assert_eq!(exchange(server.port, get("/own", "")).status, 200);
        let message = spans
            .recv_timeout(TIMEOUT)
            .expect("the collector is reached");
        let is_post = message.starts_with(b"POST /v1/traces HTTP/1.1\r\n");
        assert_eq!(is_post, is_trusted, "{roots}");
    }
}

#[test]
fn a_proxy_of_the_environment_leads_to_collectors_with_tls_only() {
    let (proxy, asked) = listener("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
    let (collector, spans) = listener(EMPTY);
    let start = |endpoint: &str| {
        Setup::new(&SITE.replace("UPSTREAM", "1"))
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
            .env("ALL_PROXY", &format!("http://127.0.0.1:{proxy}"))
            .env("NO_PROXY", "")
            .env("no_proxy", "")
            .start()
    };
    let direct = start(&format!("http://127.0.0.1:{collector}"));
    assert_eq!(exchange(direct.port, get("/own", "")).status, 200);
    let message = spans.recv_timeout(TIMEOUT).expect("it is reached");
    assert!(message.starts_with(b"POST /v1/traces HTTP/1.1\r\n"));
    assert!(asked.try_recv().is_err(), "it is reached directly");
    let through = start("https://collector.invalid:4318");
    assert_eq!(exchange(through.port, get("/own", "")).status, 200);
    let message = asked.recv_timeout(TIMEOUT).expect("the proxy is asked");
    let text = String::from_utf8_lossy(&message);
    assert!(
        text.starts_with("CONNECT collector.invalid:4318 HTTP/1.1\r\n"),
        "{text}"
    );
}

#[test]
fn a_request_without_a_trace_begins_one() {
    let (collector, spans) = listener(EMPTY);
    let server = start(&SITE.replace("UPSTREAM", "1"), collector);
    let response = exchange(server.port, get("/own", "traceparent: nonsense\r\n"));
    let body = String::from_utf8(response.body).expect("text");
    let parts: Vec<&str> = body.split(' ').collect();
    assert_eq!((parts[0].len(), parts[1].len()), (32, 16), "{body}");
    assert_eq!(parts[2], format!("00-{}-{}-01", parts[0], parts[1]));
    assert!(spans.recv_timeout(TIMEOUT).is_ok());
}

#[test]
fn unsampled_traces_of_the_client_are_not_recorded() {
    let (collector, spans) = listener(EMPTY);
    let server = start(&SITE.replace("UPSTREAM", "1"), collector);
    let fields = format!("traceparent: {}\r\n", PARENT.replace("-01", "-00"));
    let response = exchange(server.port, get("/own", &fields));
    assert!(response.body.ends_with(b"-00"), "upstreams hear of it");
    assert!(
        spans
            .recv_timeout(std::time::Duration::from_millis(500))
            .is_err()
    );
}

#[test]
fn a_dead_collector_slows_no_request() {
    // It accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("bound").port();
    let server = start(&SITE.replace("UPSTREAM", "1"), port);
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(exchange(server.port, get("/own", "")).status, 200);
    }
    assert!(began.elapsed() < TIMEOUT / 2);
}

#[test]
fn an_environment_that_cannot_be_followed_is_refused() {
    let setup = Setup::new(":{port} {\n\ttracing\n}\n");
    let mut command = crate::harness::sluice(setup.folder());
    let output = crate::harness::finish(
        command
            .args(["validate"])
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    );
    let said = crate::harness::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("use http/protobuf"), "{said}");
}

#[test]
fn handlers_log_their_calls_if_the_server_traces() {
    let server = Server::start(
        "{\n\tadmin off\n\tlog {\n\t\tlevel DEBUG\n\t}\n\tservers {\n\t\ttrace\n\t}\n}\n:{port} {\n\trespond hello\n}\n",
    );
    exchange(server.port, get("/", ""));
    let is_logged = || {
        server.stderr().contains(
            r#""logger":"http.log.trace","msg":"static_response","module":{"body":"hello"}"#,
        )
    };
    eventually("the entry", is_logged, || server.stderr());
}
