//! Everything at once for a long time: there are no avoidable failures, and neither memory nor open files grow. Not
//! part of CI: `cargo xtask soak [minutes]` runs it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluice_net::sys::process::Signal;

use crate::client::Client;
use crate::harness::{Server, Setup, free_port};
use crate::limits::process;
use crate::proxy::{WEBSOCKET_KEY, frame, masked, websocket_echo};
use crate::support::fastcgi::{read_request, said};
use crate::upstream::Upstream;
use crate::wire::Wire;

/// Default duration.
const MINUTES: f64 = 10.0;

/// The size of large responses.
const LARGE: usize = 2 * 1024 * 1024;

/// The repeated event of an event stream.
const EVENT: &[u8] = b"data: 1\n\n";

/// Permitted memory growth from the first third to the last, in addition to a tenth of it.
const GROWTH_KIB: u64 = 8 * 1024;

/// The clients' results by kind: number of successes, and failures.
#[derive(Default)]
struct Journal {
    done: Mutex<BTreeMap<&'static str, u64>>,
    failed: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Journal {
    fn note(&self, kind: &'static str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                *self
                    .done
                    .lock()
                    .expect("unpoisoned")
                    .entry(kind)
                    .or_default() += 1
            }
            Err(why) => {
                let mut failed = self.failed.lock().expect("unpoisoned");
                // The first ones are enough.
                if failed.len() < 50 {
                    failed.push(format!("{kind}: {why}"));
                }
            }
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// An application that supports everything needed here.
fn origin() -> Upstream {
    Upstream::start(|mut wire| while serve(&mut wire).is_some() {})
}

fn serve(wire: &mut Wire) -> Option<()> {
    let head = wire.head()?;
    let path = head[0].split(' ').nth(1)?.to_owned();
    if path == "/socket" {
        websocket_echo(wire, &head)?;
        return None;
    }
    let body = wire.body(&head)?;
    match path.as_str() {
        "/large" => {
            wire.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"
            ))
            .ok()?;
            let block = vec![b'x'; 64 * 1024];
            (0..LARGE / block.len()).try_for_each(|_| wire.try_send(&block).ok())
        }
        "/events" => {
            wire.try_send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .ok()?;
            for _ in 0..20 {
                wire.try_send("9\r\ndata: 1\n\n\r\n").ok()?;
                // The pace of this client.
                thread::sleep(Duration::from_millis(20));
            }
            wire.try_send("0\r\n\r\n").ok()
        }
        _ => {
            let length = body.len();
            wire.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ))
            .ok()?;
            wire.try_send(&body).ok()
        }
    }
}

/// The configuration; `word` makes each different.
fn configuration(origin: u16, fastcgi: u16, dying: &[u16], word: &str) -> String {
    let dying: String = dying
        .iter()
        .map(|port| format!(" 127.0.0.1:{port}"))
        .collect();
    format!(
        "{{\n\tadmin off\n\tlog default {{\n\t\texclude http.log.error\n\t}}\n}}\n:{{port}} {{\n\theader X-Word {word}\n\tlog {{\n\t\toutput file {{folder}}/access.log {{\n\
         \t\t\troll_size 1MiB\n\t\t\troll_keep 1\n\t\t}}\n\t}}\n\
         \thandle /small {{\n\t\trespond small\n\t}}\n\thandle /files/* {{\n\t\troot {{folder}}\n\t\tencode gzip\n\
         \t\tfile_server\n\t}}\n\
         \thandle /dying {{\n\t\treverse_proxy{dying} {{\n\t\t\tlb_policy round_robin\n\t\t\tlb_retries 5\n\
         \t\t\tfail_duration 200ms\n\t\t\thealth_uri /\n\t\t\thealth_interval 1s\n\t\t}}\n\t}}\n\
         \thandle /app {{\n\t\treverse_proxy 127.0.0.1:{fastcgi} {{\n\t\t\ttransport fastcgi {{\n\t\t\t\troot /srv\n\
         \t\t\t}}\n\t\t}}\n\t}}\n\thandle {{\n\t\treverse_proxy 127.0.0.1:{origin}\n\t}}\n}}\n"
    )
}

/// Sends requests on one connection, occasionally a new one, and checks the responses.
fn ask(port: u16, journal: &Journal, kind: &'static str, request: &[u8], length: usize) {
    let mut client = Client::connect(port);
    let mut number = 0_u32;
    while journal.goes_on() {
        number += 1;
        if number.is_multiple_of(50) {
            client = Client::connect(port);
        }
        let response = client
            .try_send(request)
            .and_then(|()| client.try_response());
        let outcome = match response {
            Ok(response) if response.status == 200 && response.body.len() == length => Ok(()),
            Ok(response) => Err(format!(
                "{} with {} bytes",
                response.status,
                response.body.len()
            )),
            Err(error) => Err(error.to_string()),
        };
        if outcome.is_err() {
            client = Client::connect(port);
        }
        journal.note(kind, outcome);
        // The pace of this client.
        thread::sleep(Duration::from_millis(5));
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Sends messages over a WebSocket that lives for a while, even through reloads.
fn talk(port: u16, journal: &Journal) {
    while journal.goes_on() {
        let mut client = Wire::connect(port);
        client.send(format!(
            "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
        ));
        let mut talked = || {
            client.head()?;
            for number in 0..100_u8 {
                let content = vec![number; 1 + usize::from(number) * 100];
                client.try_send(masked(2, &content)).ok()?;
                (frame(&mut client)? == (2, content)).then_some(())?;
                // The pace of this client.
                thread::sleep(Duration::from_millis(20));
            }
            Some(())
        };
        let outcome = talked().ok_or_else(|| "the other side fell silent".to_owned());
        journal.note("WebSocket", outcome);
    }
}

/// Receives all events, and every second time only a few of them.
fn listen(port: u16, journal: &Journal) {
    let mut number = 0_u32;
    while journal.goes_on() {
        number += 1;
        let count = if number.is_multiple_of(2) { 3 } else { 20 };
        let mut client = Wire::connect(port);
        client.send(get("/events"));
        // Events available at once may arrive in one chunk.
        let mut text = Vec::new();
        if client.head().is_some() {
            while text.len() < count * EVENT.len()
                && let Some(chunk) = client.chunk().filter(|chunk| !chunk.is_empty())
            {
                text.extend_from_slice(&chunk);
            }
        }
        let events = text.chunks(EVENT.len());
        let heard = events
            .take_while(|event| *event == EVENT)
            .count()
            .min(count);
        let outcome = (heard == count)
            .then_some(())
            .ok_or_else(|| format!("{heard} of {count} events"));
        journal.note("event stream", outcome);
    }
}

/// Disconnects in the middle of a head, of a body, or of a response.
fn leave(port: u16, journal: &Journal) {
    let mut number = 0_u32;
    while journal.goes_on() {
        number += 1;
        let mut client = Wire::connect(port);
        match number % 4 {
            0 => client.send("GET /large HTT"),
            1 => {
                client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf")
            }
            2 => {
                client.send(get("/large"));
                let _ = client.take(100_000);
            }
            _ => {
                client.send(
                    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                );
                let _ = client.stream().flush();
            }
        }
        drop(client);
        journal.note("left", Ok(()));
        // The pace of this client.
        thread::sleep(Duration::from_millis(20));
    }
}

/// Memory in KiB and open files, measured at intervals.
#[derive(Clone, Copy)]
struct Size {
    memory: u64,
    files: u64,
}

fn mean(sizes: &[Size], part: fn(&Size) -> u64) -> u64 {
    sizes.iter().map(part).sum::<u64>() / sizes.len().max(1) as u64
}

fn clients(port: u16, journal: &Arc<Journal>) -> Vec<JoinHandle<()>> {
    let mut all = Vec::new();
    let mut add = |work: Box<dyn FnOnce(&Journal) + Send>| {
        let journal = journal.clone();
        all.push(thread::spawn(move || work(&journal)));
    };
    let body = vec![b'b'; 64 * 1024];
    let mut post = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n".to_vec();
    post.extend_from_slice(&body);
    let asked: [(&'static str, Vec<u8>, usize); 6] = [
        ("fixed answer", get("/small"), 5),
        ("file", get("/files/page.html"), 20_000),
        ("large answer", get("/large"), LARGE),
        ("POST", post, body.len()),
        ("GET of dying upstreams", get("/dying"), 2),
        ("FastCGI", get("/app"), 3),
    ];
    for (kind, request, length) in asked {
        for _ in 0..2 {
            let request = request.clone();
            add(Box::new(move |journal| {
                ask(port, journal, kind, &request, length);
            }));
        }
    }
    for _ in 0..4 {
        add(Box::new(move |journal| talk(port, journal)));
        add(Box::new(move |journal| listen(port, journal)));
    }
    add(Box::new(move |journal| leave(port, journal)));
    all
}

/// An upstream in a process of its own that is killed and restarted.
fn die(ports: [u16; 3], origin: u16, journal: &Journal) {
    let mut upstreams: Vec<Server> = ports.iter().map(|port| process(*port, origin)).collect();
    let mut number = 0;
    while journal.goes_on() {
        // Each upstream lives for a while,
        thread::sleep(Duration::from_millis(1500));
        let at = number % 3;
        // Drop sends SIGKILL.
        drop(upstreams.remove(at));
        // and is away for a while.
        thread::sleep(Duration::from_millis(300));
        upstreams.insert(at, process(ports[at], origin));
        number += 1;
        journal.note("killed", Ok(()));
    }
}

#[test]
#[ignore = "takes ten minutes: cargo xtask soak"]
fn nothing_fails_and_nothing_grows() {
    let minutes = std::env::var("SLUICE_SOAK_MINUTES").ok();
    let minutes = minutes.map_or(MINUTES, |text| text.parse().expect("a number of minutes"));
    let origin = origin();
    let plain = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let fastcgi = Upstream::start(|mut wire| {
        while read_request(&mut wire).is_some() {
            if wire
                .try_send(said(b"Content-Type: text/plain\r\n\r\napp"))
                .is_err()
            {
                return;
            }
        }
    });
    let dying = [free_port(), free_port(), free_port()];
    let text = |word: &str| configuration(origin.port, fastcgi.port, &dying, word);
    let setup = Setup::new(&text("first"));
    setup.folder().write("files/page.html", vec![b'p'; 20_000]);
    let server = setup.start();
    let journal = Arc::new(Journal::default());
    let killer = {
        let (journal, port) = (journal.clone(), plain.port);
        thread::spawn(move || die(dying, port, &journal))
    };
    dying.iter().for_each(|port| wait_for(*port));
    let clients = clients(server.port, &journal);
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let (mut sizes, mut number) = (Vec::new(), 0_u32);
    while Instant::now() < end {
        // One measurement a second.
        thread::sleep(Duration::from_secs(1));
        sizes.push(Size {
            memory: server.status("VmRSS"),
            files: server.open_files() as u64,
        });
        number += 1;
        if number.is_multiple_of(5) {
            server.write(&text(&format!("word{number}")));
            server.signal(Signal::Hangup);
            journal.note("reload", Ok(()));
        }
    }
    journal.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no client panics");
    }
    killer.join().expect("it ends");
    judge(&journal, &sizes, minutes);
    let stderr = server.stderr();
    assert!(!stderr.contains("panic"), "{stderr}");
}

fn wait_for(port: u16) {
    crate::harness::eventually(
        "an upstream",
        || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
        || port.to_string(),
    );
}

/// Prints and checks the results. The first third of the time shows what is needed, the last whether it has grown.
fn judge(journal: &Journal, sizes: &[Size], minutes: f64) {
    let done = journal.done.lock().expect("unpoisoned");
    let failed = journal.failed.lock().expect("unpoisoned");
    let third = sizes.len() / 3;
    let (first, last) = (&sizes[..third], &sizes[sizes.len() - third..]);
    let (memory, files) = (
        (
            mean(first, |size| size.memory),
            mean(last, |size| size.memory),
        ),
        (
            mean(first, |size| size.files),
            mean(last, |size| size.files),
        ),
    );
    println!("{minutes} minutes: {done:?}");
    println!(
        "memory {} -> {} KiB, open files {} -> {}, first and last third",
        memory.0, memory.1, files.0, files.1
    );
    assert!(failed.is_empty(), "{failed:#?}");
    for kind in [
        "fixed answer",
        "file",
        "large answer",
        "POST",
        "GET of dying upstreams",
        "FastCGI",
        "WebSocket",
        "event stream",
        "left",
        "killed",
        "reload",
    ] {
        assert!(done.contains_key(kind), "{kind} never came about: {done:?}");
    }
    assert!(
        memory.1 <= memory.0 + memory.0 / 10 + GROWTH_KIB,
        "memory grows from {} to {} KiB",
        memory.0,
        memory.1
    );
    assert!(
        files.1 <= files.0 + files.0 / 5 + 8,
        "open files grow from {} to {}",
        files.0,
        files.1
    );
}
