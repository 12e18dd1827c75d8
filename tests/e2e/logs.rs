//! Logs as written to files and to standard error.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use serde_json::Value;

use crate::client::{Client, exchange};
use crate::harness::{Folder, Server, Setup, TIMEOUT, eventually, free_port, run_to_end, text};
use crate::upstream::{Upstream, dead};
use sluice_net::sys::process::Signal;

const LOGGED: &str = "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput file {folder}/access.log\n\t}\n\
                      \trespond /missing 404\n\tabort /abort\n\terror /broken 503\n\trespond \"hello\"\n}\n";

fn lines(server: &Server, count: usize) -> Vec<Value> {
    let read = || server.folder.read("access.log");
    eventually(
        "the lines",
        || read().lines().count() >= count,
        || read() + &server.stderr(),
    );
    let found: Vec<Value> = read()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    assert_eq!(found.len(), count, "one line for each request: {found:#?}");
    found
}

#[test]
fn each_request_makes_one_line_with_caddys_fields() {
    let server = Server::start(LOGGED);
    let mut client = Client::connect(server.port);
    client.send(
        "POST /q?x=1 HTTP/1.1\r\nHost: localhost\r\nCookie: secret=1\r\nAuthorization: Basic eA==\r\n\
         x-foo-BAR: 1\r\nX-Foo-Bar: 2\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(client.response().status, 200);
    assert_eq!(client.get("/missing").status, 404);
    assert_eq!(client.get("/broken").status, 503);
    client.send("GET /abort HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(client.try_response().is_err());
    let lines = lines(&server, 4);
    let request = &lines[0]["request"];
    assert_eq!(lines[0]["msg"], "handled request");
    assert_eq!(lines[0]["logger"], "http.log.access.log0");
    assert_eq!(request["method"], "POST");
    assert_eq!(request["uri"], "/q?x=1");
    assert_eq!(request["proto"], "HTTP/1.1");
    assert_eq!(request["remote_ip"], "127.0.0.1");
    assert_eq!(request["headers"]["Cookie"][0], "REDACTED");
    assert_eq!(request["headers"]["Authorization"][0], "REDACTED");
    assert_eq!(
        request["headers"]["X-Foo-Bar"],
        serde_json::json!(["1", "2"])
    );
    assert_eq!(lines[0]["size"], 5);
    assert!(
        lines[0]["duration"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0 && seconds < 10.0)
    );
    let statuses: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["status"].as_u64())
        .collect();
    assert_eq!(statuses, [200, 404, 503, 0]);
    assert_eq!(lines[2]["level"], "error");
}

#[test]
fn hostile_bytes_stay_inside_their_line() {
    let server = Server::start(LOGGED);
    let mut requests = 0;
    for byte in (1..=255u8).filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        let request = [
            &b"GET /%"[..],
            format!("{byte:02x}?").as_bytes(),
            b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Odd: a",
            &[byte],
            b"\"}\r\n\r\n",
        ]
        .concat();
        exchange(server.port, request);
        requests += 1;
    }
    let text = || server.folder.read("access.log");
    eventually("the lines", || text().lines().count() >= requests, text);
    for line in text().lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(value["status"].is_u64());
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert_eq!(text().lines().count(), requests);
}

#[test]
fn a_full_disk_does_not_stop_the_server() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput file /dev/full\n\t}\n\trespond hello\n}\n",
    );
    let mut client = Client::connect(server.port);
    for _ in 0..500 {
        assert_eq!(client.get("/").text(), "hello");
    }
    server.wait_for_words("lines could not be written");
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(
        server
            .stderr()
            .matches("lines could not be written")
            .count(),
        1,
        "it is told once"
    );
}

#[test]
fn a_stopped_reader_of_standard_error_does_not_stop_the_server() {
    use std::process::Stdio;
    let setup = crate::harness::Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput stderr\n\t}\n\trespond hello\n}\n",
    );
    let port: u16 = setup.fill("{port}").parse().expect("a port");
    // The pipe, which holds 64 KiB, is not read; the lines have about 300 bytes each.
    let mut child = crate::harness::sluice(setup.folder())
        .arg("run")
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let ready = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    eventually("the port", ready, String::new);
    let mut client = Client::connect(port);
    for _ in 0..2_000 {
        assert_eq!(client.get("/").text(), "hello");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn credentials_are_logged_only_when_asked_for() {
    let server = Server::start(
        "{\n\tadmin off\n\tservers {\n\t\tlog_credentials\n\t}\n}\n:{port} {\n\tlog {\n\
         \t\toutput file {folder}/access.log\n\t}\n\trespond hello\n}\n",
    );
    exchange(
        server.port,
        "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: a=b\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        lines(&server, 1)[0]["request"]["headers"]["Cookie"][0],
        "a=b"
    );
}

/// A request that is held at the upstream, and one that waits behind it, until the test lets both go.
#[test]
fn timings_show_where_a_request_spent_its_time() {
    let (arrived, arrival) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let upstream = Upstream::start(move |mut wire| {
        while wire.head().is_some() {
            arrived.send(()).expect("the test waits");
            released.lock().unwrap().recv().expect("the test goes on");
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n\tservers {{\n\t\tlog_timings\n\t}}\n}}\n:{{port}} {{\n\tlog {{\n\
         \t\toutput file {{folder}}/access.log\n\t}}\n\
         \thandle /plain {{\n\t\trespond plain\n\t}}\n\
         \thandle {{\n\t\toverload queue 1 {{\n\t\t\tname app\n\t\t\ttimeout 1m\n\t\t}}\n\
         \t\treverse_proxy localhost:{}\n\t}}\n}}\n",
        upstream.port
    ));
    let port = server.port;
    let ask = |path: &'static str| std::thread::spawn(move || Client::connect(port).get(path));
    let first = ask("/first");
    arrival.recv_timeout(TIMEOUT).expect("the first arrives");
    let held = Instant::now();
    let second = ask("/second");
    server.wait_for_sample("sluice_overload_waiting{name=\"app\"} 1");
    let waiting = Instant::now();
    // Time that the log must show: the clock has moved on by then.
    eventually(
        "a millisecond",
        || waiting.elapsed().as_millis() > 0,
        String::new,
    );
    let (held, waited) = (
        held.elapsed().as_secs_f64(),
        waiting.elapsed().as_secs_f64(),
    );
    release.send(()).expect("the upstream waits");
    assert_eq!(first.join().unwrap().text(), "ok");
    arrival.recv_timeout(TIMEOUT).expect("the second arrives");
    release.send(()).expect("the upstream waits");
    assert_eq!(second.join().unwrap().text(), "ok");
    assert_eq!(Client::connect(port).get("/plain").text(), "plain");

    let lines = lines(&server, 3);
    let line = |path: &str| {
        let found = lines.iter().find(|line| line["request"]["uri"] == path);
        found.unwrap_or_else(|| panic!("{path} is in {lines:#?}"))
    };
    let time = |path: &str, name: &str| {
        let time = &line(path)["timings"][name];
        time.as_f64()
            .unwrap_or_else(|| panic!("{name} of {path} is {time}"))
    };
    assert!(time("/first", "upstream_head") >= held);
    assert!(time("/first", "handling") >= time("/first", "upstream_head"));
    assert_eq!(time("/first", "queue"), 0.0);
    assert!(time("/second", "queue") >= waited);
    for path in ["/first", "/second", "/plain"] {
        let sum = time(path, "handling") + time(path, "sending");
        let duration = line(path)["duration"].as_f64().unwrap();
        assert!((sum - duration).abs() < 1e-6, "{path}: {sum} of {duration}");
        assert!(time(path, "idle") >= 0.0 && time(path, "head") >= 0.0);
    }
    assert!(time("/second", "upstream_body") >= 0.0 && time("/second", "connect") >= 0.0);
    let plain = &line("/plain")["timings"];
    for absent in ["tls_handshake", "connect", "upstream_head", "upstream_body"] {
        assert!(plain.get(absent).is_none(), "{absent}: {plain}");
    }
}

#[test]
fn malformed_requests_are_logged_too() {
    let server = Server::start(LOGGED);
    let response = exchange(server.port, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_eq!(response.status, 400);
    assert_eq!(lines(&server, 1)[0]["status"], 400);
}

#[test]
fn the_last_lines_are_written_before_the_end() {
    let mut server = Server::start(LOGGED);
    let mut client = Client::connect(server.port);
    for _ in 0..100 {
        client.get("/");
    }
    server.signal(Signal::Terminate);
    assert_eq!(server.wait_for_end().code(), Some(0));
    assert_eq!(server.folder.read("access.log").lines().count(), 100);
}

#[test]
fn process_logs_are_json_unless_on_a_terminal() {
    let server = Server::start(LOGGED);
    server.wait_for_words("serving");
    for line in server.stderr().lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(value["level"].is_string() && value["ts"].is_f64() && value["msg"].is_string());
    }
}

/// A log server that is down, starts, stops and starts again.
#[test]
fn a_dead_log_server_slows_no_request_and_gets_its_lines_later() {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\tlog {{\n\t\toutput net {address} {{\n\t\t\tsoft_start\n\t\t}}\n\t}}\n\
         \trespond hello\n}}\n"
    ));
    let began = Instant::now();
    for number in 0..50 {
        assert_eq!(
            exchange(server.port, get(&format!("/{number}"))).status,
            200
        );
    }
    assert!(began.elapsed() < TIMEOUT / 2, "requests wait for nobody");
    let listener = TcpListener::bind(address).expect("nobody took the port");
    let (stream, _) = listener.accept().expect("it is dialled again");
    let mut lines = BufReader::new(stream).lines();
    let uri = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line["request"]["uri"].as_str().map(String::from)
    };
    // Two workers write, so the order of lines may differ.
    let mut found: Vec<_> = (0..50)
        .map(|_| uri(&lines.next().expect("a line").expect("it is text")))
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 50, "none lost");
    drop(lines);
    // The first line after that may be lost with the connection; the following ones open a new one.
    listener.set_nonblocking(true).expect("ours");
    let until = Instant::now() + TIMEOUT;
    let (stream, _) = loop {
        exchange(server.port, get("/later"));
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(_) => assert!(
                Instant::now() < until,
                "waited in vain: {}",
                server.stderr()
            ),
        }
    };
    stream.set_nonblocking(false).expect("ours");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    assert!(line.contains("/later"), "{line}");
}

#[test]
fn a_log_server_that_has_to_be_there_refuses_the_configuration() {
    let setup = Setup::new(
        "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput net 127.0.0.1:{admin}\n\t}\n\trespond hello\n}\n",
    );
    let output = run_to_end(setup.folder(), &["run"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`soft_start` waits for it instead"), "{said}");
}

#[test]
fn packets_to_a_socket_carry_a_line_each() {
    let folder = Folder::new();
    let path = folder.path().join("log.sock");
    let socket = UnixDatagram::bind(&path).expect("the folder is writable");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\tlog {{\n\t\toutput net unixgram/{}\n\t\tformat journald\n\t}}\n\
         \trespond hello\n}}\n",
        path.display()
    ));
    for number in 0..3 {
        exchange(server.port, get(&format!("/{number}")));
    }
    let mut packet = [0; 4096];
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let count = socket.recv(&mut packet).expect("a packet");
        let line = text(&packet[..count]);
        let json = line.strip_prefix("<6>").expect("the priority comes first");
        let line: Value = serde_json::from_str(json).expect("a line is JSON");
        found.insert(line["request"]["uri"].to_string());
    }
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn errors_are_logged_under_the_name_of_the_sites_log() {
    let server = Server::start(
        "{\n\tadmin off\n\tlog errors {\n\t\toutput file {folder}/access.log\n\t\tinclude http.log.error.shop\n\t}\n}\n\
         http://a.test:{port} {\n\tlog shop\n\terror 503\n}\nhttp://b.test:{port} {\n\terror 503\n}\n",
    );
    for host in ["b.test", "a.test"] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(exchange(server.port, &request).status, 503);
    }
    let found = lines(&server, 1);
    assert_eq!(found[0]["logger"], "http.log.error.shop");
    assert_eq!(found[0]["request"]["host"], "a.test");
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

#[test]
fn a_certificate_that_is_not_obtained_is_what_the_message_says() {
    let (http, ca) = (free_port(), dead());
    let server = Setup::new(&format!(
        "{{\n\tadmin off\n\thttp_port {http}\n\thttps_port {{port}}\n\t\
         acme_ca https://127.0.0.1:{ca}/directory\n}}\na.test {{\n\trespond hello\n}}\n"
    ))
    .start();
    let message = "\"msg\":\"could not obtain a certificate; sluice tries again later\"";
    server.wait_for_words(message);
    let log = server.stderr();
    let line = log.lines().find(|line| line.contains(message));
    let line = line.expect("it was there");
    for field in [
        "\"subject\":\"a.test\"",
        "\"error\":\"",
        "\"retry_in\":",
        "\"what\":\"no certificate for `a.test` yet",
    ] {
        assert!(line.contains(field), "{line}");
    }
}
