//! `rate_limit`, `in_flight` and other limits between clients and upstreams, in the running server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;

use crate::client::{Client, exchange};
use crate::harness::{Server, Setup, TIMEOUT, eventually, free_port};
use crate::upstream::{Upstream, respond};
use crate::wire::field;

const LIMITED: &str = "{\n\tadmin off\n\tmetrics\n}\n:{port} {\n\thandle /metrics {\n\t\tmetrics\n\t}\n\trate_limit /api/* {\n\
    \t\tzone all {\n\t\t\tkey {header.X-Key}\n\t\t\tevents 50\n\t\t\twindow 1h\n\t\t}\n\
    \t\tzone logins {\n\t\t\tmatch {\n\t\t\t\tpath /api/login\n\t\t\t}\n\t\t\tevents 1\n\t\t\twindow 1h\n\t\t}\n\t}\n\
    \thandle_errors 429 {\n\t\trespond \"too much for {http.rate_limit.exceeded.name}\" 429\n\t}\n\trespond ok\n}\n";

fn get(path: &str, key: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\nConnection: close\r\n\r\n")
}

#[test]
fn requests_beyond_the_rate_are_refused_by_all_workers_together() {
    let server = Server::start(LIMITED);
    let port = server.port;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let ask = |_: &i32| exchange(port, get("/api/x", "me")).status == 200;
                (0..25).filter(ask).count()
            })
        })
        .collect();
    let passed: usize = clients
        .into_iter()
        .map(|client| client.join().expect("it ends"))
        .sum();
    assert_eq!(passed, 50);
    let refused = exchange(port, get("/api/x", "me"));
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (429, "too much for all")
    );
    let wait: u64 = refused
        .field("Retry-After")
        .expect("it is told")
        .parse()
        .expect("seconds");
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert_eq!(exchange(port, get("/api/x", "another")).status, 200);
    assert_eq!(server.ask("/elsewhere").status, 200);
    // The tightest zone is checked first, and what it rejects does not count in the others.
    assert_eq!(exchange(port, get("/api/login", "a")).status, 200);
    assert_eq!(
        exchange(port, get("/api/login", "b")).text(),
        "too much for logins"
    );
    let page = server.ask("/metrics").text();
    for line in [
        "caddy_rate_limit_requests_total{zone=\"all\"} 203",
        "caddy_rate_limit_declined_requests_total{zone=\"all\"} 151",
        "caddy_rate_limit_declined_requests_total{zone=\"logins\"} 1",
        "caddy_rate_limit_keys_total{zone=\"all\"} 3",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    // A reload does not reset the counters.
    server.write(&LIMITED.replace("respond ok", "respond new"));
    server.signal(Signal::Hangup);
    eventually(
        "the new configuration",
        || server.ask("/").text() == "new",
        || server.stderr(),
    );
    assert_eq!(exchange(port, get("/api/x", "me")).status, 429);
}

#[test]
fn fields_of_an_authentication_service_never_come_from_the_client() {
    let guard = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let behind = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\tforward_auth localhost:{} {{\n\t\turi /check\n\t\tcopy_headers Remote-User \
         Remote-Groups>Groups\n\t}}\n\treverse_proxy localhost:{}\n}}\n",
        guard.port, behind.port
    ));
    let said = exchange(
        server.port,
        "GET / HTTP/1.1\r\nHost: a\r\nRemote-User: root\r\nremote-user: root\r\nGroups: wheel\r\n\
         Connection: close\r\n\r\n",
    )
    .text()
    .to_ascii_lowercase();
    assert!(
        !said.contains("remote-user") && !said.contains("groups"),
        "{said}"
    );
}

/// Applications that name headers as CGI does cannot distinguish the aliases of a header (GHSA-f59h-q822-g45g): an
/// operator who allows underscores and dots does not let clients forge an identity with them.
#[test]
fn aliases_of_a_copied_header_never_come_from_the_client() {
    let guard =
        Upstream::responding("HTTP/1.1 200 OK\r\nRemote-User: ada\r\nContent-Length: 0\r\n\r\n");
    let behind = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n\tservers {{\n\t\texpected_underscore_headers remote_* app_id\n\t\t\
         expected_dot_headers remote.*\n\t}}\n}}\n:{{port}} {{\n\tforward_auth localhost:{} {{\n\t\turi /check\n\t\t\
         copy_headers Remote-User Remote-Groups\n\t}}\n\treverse_proxy localhost:{}\n}}\n",
        guard.port, behind.port
    ));
    let said = exchange(
        server.port,
        "GET / HTTP/1.1\r\nHost: a\r\nRemote_User: root\r\nREMOTE_USER: root\r\nRemote.User: root\r\n\
         Remote~User: root\r\nRemote_Groups: wheel\r\nRemote.Groups: wheel\r\napp_id: 7\r\nRemote_Port: 1\r\n\
         Connection: close\r\n\r\n",
    )
    .text();
    assert!(!said.contains("root") && !said.contains("wheel"), "{said}");
    for kept in ["app_id: 7", "Remote_Port: 1"] {
        assert!(said.contains(kept), "{said}");
    }
}

/// Requests that reached the origin behind the upstreams: how often each POST, by its name.
type Journal = Arc<Mutex<HashMap<String, u32>>>;

/// The origin behind all upstreams, which records its requests.
fn origin(journal: &Journal) -> Upstream {
    let journal = journal.clone();
    Upstream::start(move |mut wire| {
        while let Some(head) = wire.head() {
            if wire.body(&head).is_none() {
                return;
            }
            if let Some(name) = field(&head, "X-Name") {
                let mut journal = journal.lock().expect("nobody panics with it");
                *journal.entry(name.to_owned()).or_default() += 1;
            }
            if wire
                .try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .is_err()
            {
                return;
            }
        }
    })
}

/// An upstream in a process of its own.
pub fn process(port: u16, origin: u16) -> Server {
    let text = format!("{{\n\tadmin off\n}}\n:{port} {{\n\treverse_proxy 127.0.0.1:{origin}\n}}\n");

    Setup::new(&text).env("SLUICE_WORKERS", "1").start()
}

/// Sends requests without pause until told to stop; counts responses and those with a status other than 200.
struct Load {
    responses: AtomicUsize,
    failed: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Load {
    fn run(&self, port: u16, request: impl Fn(usize) -> String) {
        let mut client = Client::connect(port);
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            client.send(request(number));
            let response = client.try_response();
            self.responses.fetch_add(1, Ordering::Relaxed);
            let failure = match response {
                Ok(response) if response.status == 200 => continue,
                Ok(response) => response.status.to_string(),
                Err(error) => error.to_string(),
            };
            self.failed
                .lock()
                .expect("nobody panics with it")
                .push(failure);
            client = Client::connect(port);
        }
    }

    fn new() -> Arc<Load> {
        Arc::new(Load {
            responses: AtomicUsize::new(0),
            failed: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }
}

/// Three upstreams under constant load, one of which is killed repeatedly: no GET fails, and no POST arrives twice.
#[test]
fn killed_upstreams_fail_no_get_and_repeat_no_post() {
    const KILLS: usize = 20;
    let journal = Journal::default();
    let origin = origin(&journal);
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let mut upstreams: Vec<Server> = ports
        .iter()
        .map(|port| process(*port, origin.port))
        .collect();
    let to: String = ports
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy{to} {{\n\t\tlb_policy round_robin\n\t\tlb_retries 5\n\
         \t\tfail_duration 200ms\n\t}}\n}}\n"
    ));
    let (gets, posts) = (Load::new(), Load::new());
    let port = server.port;
    let mut clients = Vec::new();
    for client in 0..3 {
        let (gets, posts) = (gets.clone(), posts.clone());
        clients.push(thread::spawn(move || {
            gets.run(port, |_| "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned());
        }));
        clients.push(thread::spawn(move || {
            posts.run(port, |number| {
                format!("POST / HTTP/1.1\r\nHost: a\r\nX-Name: {client}-{number}\r\nContent-Length: 2\r\n\r\nab")
            });
        }));
    }
    for kill in 0..KILLS {
        // The load goes on meanwhile; how much of it does not matter.
        thread::sleep(Duration::from_millis(120));
        let at = kill % 3;
        // Drop sends SIGKILL.
        drop(upstreams.remove(at));
        // It is away for a while.
        thread::sleep(Duration::from_millis(60));
        upstreams.insert(at, process(ports[at], origin.port));
    }
    // The load goes on with all of them, too.
    thread::sleep(Duration::from_millis(200));
    for load in [&gets, &posts] {
        load.stop.store(true, Ordering::Relaxed);
    }
    for client in clients {
        client.join().expect("it ends");
    }
    let failed = gets.failed.lock().expect("nobody panics with it");
    let responses = gets.responses.load(Ordering::Relaxed);
    println!(
        "{responses} GETs, {} failed; {} POSTs, {} failed",
        failed.len(),
        posts.responses.load(Ordering::Relaxed),
        posts.failed.lock().expect("nobody panics with it").len()
    );
    assert!(responses > 1_000, "there was load: {responses}");
    assert!(failed.is_empty(), "{failed:?}");
    let journal = journal.lock().expect("nobody panics with it");
    let twice: Vec<_> = journal.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        journal.len() > 500 && twice.is_empty(),
        "{} POSTs, {twice:?}",
        journal.len()
    );
}

/// An upstream that sends a byte a second delays only its own client.
#[test]
fn an_upstream_of_a_byte_a_second_delays_no_other_request() {
    let slow = Upstream::start(|mut wire| {
        let _ = wire.head();
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" {
            if wire.try_send([*byte]).is_err() {
                return;
            }
            // An upstream that sends slowly.
            thread::sleep(Duration::from_secs(1));
        }
    });
    let quick = Upstream::start(|mut wire| {
        while respond(&mut wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_some() {}
    });
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy /slow localhost:{} {{\n\t\ttransport http {{\n\
         \t\t\tresponse_header_timeout 2s\n\t\t}}\n\t}}\n\treverse_proxy localhost:{}\n}}\n",
        slow.port, quick.port
    ));
    let port = server.port;
    let began = Instant::now();
    let clients: Vec<_> = (0..20)
        .map(|_| thread::spawn(move || crate::client::ask(port, "/slow").status))
        .collect();
    for _ in 0..200 {
        assert_eq!(server.ask("/").status, 200);
    }
    // Ten requests behind a slow one would take longer than this; a busy machine does not.
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    for client in clients {
        assert_eq!(client.join().expect("it ends"), 504);
    }
}

/// As many clients as one process on this machine can hold listen for events at once, each gets each event, and idle
/// streams cost little memory. Slow: `cargo test -p sluice --test e2e -- --ignored event_streams`.
#[test]
#[ignore = "takes twenty thousand open files and a minute"]
fn thousands_of_event_streams_get_every_event() {
    let count: usize = std::env::var("STREAMS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(9_800);
    let streams: Arc<Mutex<Vec<crate::wire::Wire>>> = Arc::default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let kept = streams.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut wire = crate::wire::Wire::with_timeout(stream);
            let _ = wire.head();
            let _ = wire.try_send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            kept.lock().expect("nobody panics with it").push(wire);
        }
    });
    let text = format!("{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy localhost:{port}\n}}\n");
    let server = Server::start(&text);
    let before = server.status("VmRSS");
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = crate::wire::Wire::connect(server.port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.reader = std::io::BufReader::with_capacity(512, client.reader.into_inner());
        // One after the other: the accept queue of this upstream is short.
        assert!(client.head().expect("an answer")[0].starts_with("HTTP/1.1 200"));
        clients.push(client);
    }
    let grown = server.status("VmRSS").saturating_sub(before);
    println!(
        "{count} streams: {} bytes each",
        grown * 1024 / count as u64
    );
    for event in 0..3 {
        let began = Instant::now();
        for wire in streams.lock().expect("nobody panics with it").iter_mut() {
            wire.send(format!("9\r\ndata: {event}\n\n\r\n"));
        }
        for client in &mut clients {
            let expected = format!("data: {event}\n\n");
            assert_eq!(client.chunk().as_deref(), Some(expected.as_bytes()));
        }
        println!("event {event} reached all in {:?}", began.elapsed());
    }
    assert!(grown * 1024 / (count as u64) < 24 * 1024, "{grown} KiB");
}

/// A request with a body in one chunk, or with a declared length.
fn post(path: &str, body: &str, is_chunked: bool) -> String {
    let (field, body) = match is_chunked {
        true => (
            "Transfer-Encoding: chunked".to_owned(),
            format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
        ),
        false => (format!("Content-Length: {}", body.len()), body.to_owned()),
    };
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{field}\r\nConnection: close\r\n\r\n{body}")
}

#[test]
fn no_reader_of_a_body_passes_its_limit() {
    let upstream = Upstream::echo();
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\trequest_body {{\n\t\tmax_size 10\n\t}}\n\
         \thandle /text {{\n\t\trespond `{{http.request.body}}`\n\t}}\n\
         \thandle /before {{\n\t\theader X-Body {{http.request.body}}\n\t\trespond ok\n\t}}\n\
         \thandle /template {{\n\t\ttemplates\n\
         \t\theader Content-Type text/html\n\t\trespond `{{{{placeholder \"http.request.body\"}}}}`\n\t}}\n\
         \thandle /upstream {{\n\t\treverse_proxy 127.0.0.1:{port}\n\t}}\n\
         \thandle /buffered {{\n\t\treverse_proxy 127.0.0.1:{port} {{\n\t\t\trequest_buffers 1MB\n\t\t}}\n\t}}\n\
         \thandle /php {{\n\t\treverse_proxy 127.0.0.1:{port} {{\n\t\t\ttransport fastcgi\n\t\t}}\n\t}}\n\
         \thandle /mapped {{\n\t\troute {{\n\t\t\tmap {{http.request.body}} {{x}} {{\n\t\t\t\tdefault 1\n\t\t\t}}\n\
         \t\t\trequest_body {{\n\t\t\t\tmax_size 10\n\t\t\t}}\n\t\t\trespond {{x}}\n\t\t}}\n\t}}\n\
         \thandle_errors {{\n\t\trespond \"{{err.status_code}} [{{http.request.body}}]\"\n\t}}\n}}\n",
        port = upstream.port
    ));
    let (within, beyond) = ("0123456789", "0123456789abcdef");
    for path in [
        "/text",
        "/before",
        "/template",
        "/mapped",
        "/upstream",
        "/buffered",
        "/php",
    ] {
        for is_chunked in [false, true] {
            let what = format!("{path} {is_chunked}");
            if path != "/php" {
                let response = exchange(server.port, post(path, within, is_chunked));
                assert_eq!(response.status, 200, "{what}: {response:?}");
            }
            let response = exchange(server.port, post(path, beyond, is_chunked));
            assert_eq!(response.status, 413, "{what}: {response:?}");
            let text = response.text();
            assert!(!text.contains("9a"), "{what}: {text}");
            assert!(text.starts_with("413 ["), "{what}: {text}");
        }
    }
}
