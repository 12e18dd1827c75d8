//! Rarely used options, each with its documented effect.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::{TLS12, TLS13};
use sluice_net::sys::process::Signal;

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, Setup, free_port, run_to_end, text};
use crate::tls::{client, connect, get};
use crate::tracing::listener;

const DONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_request_body_has_its_time_and_no_more() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\trequest_body {\n\t\tread_timeout 500ms\n\t}\n\
         \trespond \"got {http.request.body}\"\n}\n",
    );
    let whole = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwhole";
    assert_eq!(exchange(server.port, whole).text(), "got whole");
    let began = Instant::now();
    let mut slow = Client::connect(server.port);
    slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n");
    // Bytes that keep arriving do not extend it: it limits the total time.
    for _ in 0..3 {
        slow.send("x");
        thread::sleep(Duration::from_millis(100));
    }
    let response = slow.response();
    assert_eq!(response.status, 408);
    assert_eq!(response.field("Connection"), Some("close"));
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(450) && took < Duration::from_secs(10),
        "{took:?}"
    );
}

#[test]
fn a_response_must_finish_within_its_write_timeout() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\troot * {folder}/www\n\trequest_body {\n\t\t\
         write_timeout 700ms\n\t}\n\tfile_server\n}\n",
    );
    // More than the socket buffers of both ends hold.
    let content = vec![b'x'; 64 << 20];
    setup.folder().write("www/large.bin", &content);
    setup.folder().write("www/small.bin", &content[..1 << 16]);
    let server = setup.start();
    let request = "GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut reader = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    std::io::Write::write_all(&mut reader, request.as_bytes()).expect("it is sent");
    // The client reads nothing until the time of the response is over; nothing else tells it.
    thread::sleep(Duration::from_millis(1_500));
    let mut received = Vec::new();
    // The connection ends, cleanly or not, long before the response does.
    let _ = reader.read_to_end(&mut received);
    assert!(received.starts_with(b"HTTP/1.1 200 "));
    assert!(received.len() < content.len(), "{}", received.len());
    // One that fits is sent in time, however late it is read.
    let small = request.replace("large", "small");
    assert_eq!(exchange(server.port, &small).body.len(), 1 << 16);
}

#[test]
fn tls_secrets_are_logged_to_a_private_file_with_a_warning() {
    let server = Server::start(
        "{\n\tadmin off\n\tauto_https disable_redirects\n}\nlocalhost:{port} {\n\ttls {\n\t\t\
         insecure_secrets_log {folder}/secrets.log\n\t}\n\trespond ok\n}\n",
    );
    for version in [&TLS13, &TLS12] {
        let config = client(&server.folder, &[version]);
        let mut wire = connect(&config, server.port, "localhost").expect("a connection");
        assert_eq!(get(&mut wire, "localhost", "/").1, "ok");
    }
    let path = server.folder.path().join("secrets.log");
    let secrets = fs::read_to_string(&path).expect("it was written");
    for label in [
        "CLIENT_RANDOM ",
        "CLIENT_TRAFFIC_SECRET_0 ",
        "SERVER_TRAFFIC_SECRET_0 ",
    ] {
        assert!(secrets.contains(label), "{label} in {secrets}");
    }
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let log = server.stderr();
    assert!(log.contains("who reads it can read all traffic"), "{log}");
}

/// Three sites in one process: the first presents a certificate of the local CA to the second, which requires one; both
/// trust only the root of that CA.
#[test]
fn a_proxy_shows_the_certificate_of_a_name_and_trusts_our_own_authority() {
    let inner = free_port();
    let server = Server::start(
        &"{\n\tadmin off\n\tauto_https disable_redirects\n}\n\
         https://inner.localhost:INNER {\n\ttls {\n\t\tclient_auth {\n\t\t\tmode require_and_verify\n\t\t\t\
         trust_pool pki_root local\n\t\t}\n\t}\n\trespond \"{http.request.tls.client.san.dns_names.0}\"\n}\n\
         http://front.localhost:{port} {\n\treverse_proxy https://127.0.0.1:INNER {\n\t\ttransport http {\n\t\t\t\
         tls_server_name inner.localhost\n\t\t\ttls_trust_pool pki_root local\n\t\t\tIDENTITY\n\t\t}\n\t\t\
         header_up Host inner.localhost\n\t}\n}\n"
            .replace("INNER", &inner.to_string())
            .replace("IDENTITY", "tls_client_auth robot.localhost"),
    );
    let request = "GET / HTTP/1.1\r\nHost: front.localhost\r\nConnection: close\r\n\r\n";
    let response = exchange(server.port, request);
    assert_eq!(
        (response.status, response.text()),
        (200, "robot.localhost".to_owned())
    );
}

const POOL: &str = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n\
    localhost:{port} {\n\ttls {\n\t\tclient_auth {\n\t\t\tmode verify_if_given\n\t\t\t\
    trust_pool http http://127.0.0.1:PUBLISHER/ca.pem\n\t\t}\n\t}\n\trespond ok\n}\n";

#[test]
fn authorities_are_fetched_when_the_server_starts_or_it_does_not() {
    const AUTHORITY: &str = include_str!("../../server/tls/tests/authority.pem");
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{AUTHORITY}",
        AUTHORITY.len()
    );
    let (publisher, asked) = listener(Box::leak(response.into_boxed_str()));
    let server = Server::start(&POOL.replace("PUBLISHER", &publisher.to_string()));
    let config = client(&server.folder, &[&TLS13]);
    let mut wire = connect(&config, server.port, "localhost").expect("a connection");
    assert_eq!(get(&mut wire, "localhost", "/").1, "ok");
    let head = text(&asked.recv().expect("it was asked"));
    assert!(head.starts_with("GET /ca.pem HTTP/1.1\r\n"), "{head}");
    let (publisher, _asked) = listener(DONE);
    let folder = Folder::new();
    let file = POOL
        .replace("PUBLISHER", &publisher.to_string())
        .replace("{port}", &free_port().to_string());
    folder.write("Caddyfile", file);
    let refused = run_to_end(&folder, &["run"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    let expected = format!("certificates at `http://127.0.0.1:{publisher}/ca.pem`");
    assert!(said.contains(&expected), "{said}");
}

/// The JSON of a log enables source locations; a Caddyfile only names their members.
#[test]
fn logs_contain_the_caller_of_an_entry() {
    let setup = Setup::bare();
    let json = r#"{"admin":{"disabled":true},
        "logging":{"logs":{"default":{"with_caller":true,"with_stacktrace":"ERROR",
        "writer":{"output":"file","filename":"{folder}/all.log"},
        "encoder":{"format":"json","caller_key":"from"}}}},
        "apps":{"http":{"servers":{"a":{"listen":[":{port}"],"logs":{},"routes":[
        {"handle":[{"handler":"error","status_code":500}]}]}}}}}"#;
    setup.folder().write("a.json", setup.fill(json));
    let mut server = setup.args(&["--config", "a.json"]).start();
    let port = server.port;
    exchange(
        port,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    server.signal(Signal::Terminate);
    server.wait_for_end();
    let log = server.folder.read("all.log");
    let line = |words: &str| {
        let found = log.lines().find(|line| line.contains(words));
        found
            .unwrap_or_else(|| panic!("{words} in {log}"))
            .to_owned()
    };
    assert!(
        line("\"serving\"").contains(r#""from":"sluice/supervise/mod.rs:"#),
        "{log}"
    );
    let failed = line("handled request");
    assert!(
        failed.contains(r#""from":"observe/log/access.rs:"#),
        "{failed}"
    );
    assert!(failed.contains(r#""stacktrace":""#), "{failed}");
    assert!(!line("\"serving\"").contains("stacktrace"), "{log}");
}
