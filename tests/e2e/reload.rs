//! Configuration reloads: by signal, by watching the file, in great number, and with invalid files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sluice_net::sys::process::Signal;

use crate::client::{Client, ask, exchange};
use crate::harness::{MEMORY_STEPS, Server, Setup, eventually, free_port};
use crate::upstream::Upstream;

fn saying(word: &str) -> String {
    format!("{{\n\tadmin off\n}}\n:{{port}} {{\n\trespond \"{word}\"\n}}\n")
}

#[test]
fn signals_reload_without_dropping_a_connection() {
    for signal in [Signal::Hangup, Signal::User1] {
        let server = Server::start(&saying("one"));
        let mut client = Client::connect(server.port);
        assert_eq!(client.get("/").text(), "one");
        server.write(&saying("two"));
        server.signal(signal);
        server.wait_for_words("configuration loaded");
        assert_eq!(
            client.get("/").text(),
            "two",
            "an open connection sees the new configuration"
        );
        assert_eq!(server.ask("/").text(), "two");
    }
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let server = Server::start(&saying("one"));
    let other = free_port();
    for bad in [
        // A syntax error.
        format!(":{other} {{\n\trespnd two\n}}\n"),
        // Not text at all.
        "{".to_owned(),
        // A port that is in use by this test.
        format!("{{\n\tadmin off\n}}\n:{{port}} {{\n\trespond two\n}}\n:{} {{\n}}\n", taken_port()),
        // A log file that cannot be opened.
        "{\n\tadmin off\n}\n:{port} {\n\tlog {\n\t\toutput file /proc/nothing/a.log\n\t}\n\trespond two\n}\n".to_owned(),
    ] {
        let before = server.stderr().matches("configuration rejected").count();
        server.write(&bad);
        server.signal(Signal::Hangup);
        eventually(
            "the refusal",
            || server.stderr().matches("configuration rejected").count() > before,
            || format!("{bad}\n{}", server.stderr()),
        );
        assert_eq!(server.ask("/").text(), "one", "{bad}");
    }
    assert!(std::net::TcpStream::connect(("127.0.0.1", other)).is_err());
}

/// A port that is occupied for as long as the tests run.
fn taken_port() -> u16 {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::mem::forget(listener);
    port
}

#[test]
fn listeners_come_and_go_with_the_configuration() {
    let server = Server::start(&saying("one"));
    let second = free_port();
    server.write(&format!(
        "{}:{second} {{\n\trespond more\n}}\n",
        saying("one")
    ));
    server.signal(Signal::Hangup);
    eventually(
        "the second port",
        || std::net::TcpStream::connect(("127.0.0.1", second)).is_ok(),
        || server.stderr(),
    );
    assert_eq!(ask(second, "/").text(), "more");
    server.write(&saying("one"));
    server.signal(Signal::Hangup);
    eventually(
        "the second port to close",
        || std::net::TcpStream::connect(("127.0.0.1", second)).is_err(),
        || server.stderr(),
    );
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn watched_files_are_reloaded_with_those_they_import() {
    let setup = Setup::new("{\n\tadmin off\n}\n:{port} {\n\timport word.conf\n}\n");
    setup.folder().write("word.conf", "respond one\n");
    let server = setup.args(&["--watch"]).start();
    assert_eq!(server.ask("/").text(), "one");
    for word in ["two", "three"] {
        server
            .folder
            .write("word.conf", format!("respond {word}\n"));
        eventually(word, || server.ask("/").text() == word, || server.stderr());
    }
    server.folder.write("word.conf", "respnd four\n");
    server.wait_for_words("configuration rejected");
    assert_eq!(server.ask("/").text(), "three");
}

#[test]
fn many_reloads_leave_nothing_behind() {
    const RELOADS: usize = 1_000;
    let with_admin = |word: &str| saying(word).replace("admin off", "admin localhost:{admin}");
    let server = Server::start(&with_admin("word-0"));
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    // One client with a persistent connection and one that reconnects, both busy all the time.
    let clients: Vec<_> = [true, false]
        .map(|keeps| {
            let (stop, served, port) = (stop.clone(), served.clone(), server.port);
            thread::spawn(move || {
                let mut kept = Client::connect(port);
                while !stop.load(Ordering::Relaxed) {
                    let response = if keeps { kept.get("/") } else { ask(port, "/") };
                    assert_eq!(response.status, 200);
                    assert!(response.text().starts_with("word-"), "{response:?}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .into();
    // The response arrives when the configuration is active, so there is nothing to wait for.
    let reload = |number: usize| {
        let word = format!("word-{number}");
        let (admin, port) = (server.admin.to_string(), server.port.to_string());
        let text = with_admin(&word).replace("{admin}", &admin);
        let text = text.replace("{port}", &port);
        let response = exchange(
            server.admin,
            format!(
                "POST /load HTTP/1.1\r\nHost: localhost:{admin}\r\nContent-Type: text/caddyfile\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            ),
        );
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(server.ask("/").text(), word);
    };
    (1..=40).for_each(reload);
    // A thread that a reload has ended may still be there, which the fewest after several reloads do not count.
    let threads = (41..=50).map(|number| {
        reload(number);
        server.status("Threads")
    });
    let threads = threads.min().expect("there were reloads");
    let (files, memory) = (server.open_files(), server.status("VmRSS"));
    (51..=RELOADS).for_each(reload);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    assert!(served.load(Ordering::Relaxed) > 100);
    // The clients' own connections vary.
    assert!(
        server.open_files() <= files + 4,
        "{files} files became {}",
        server.open_files()
    );
    let are_as_before = || server.status("Threads") == threads;
    eventually("the threads to end", are_as_before, || server.stderr());
    let grown = server.status("VmRSS").saturating_sub(memory);
    assert!(
        grown < 4 * 1024 + MEMORY_STEPS,
        "{memory} KiB grew by {grown} KiB"
    );
}

/// As in nginx, `worker_shutdown_timeout` limits how long requests outlive a replaced configuration. Those of the new one
/// and idle connections are not affected.
#[test]
fn requests_of_a_replaced_configuration_end_in_time() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let upstream = Upstream::start(move |mut wire| {
        if wire.head().is_some() {
            let _ = wire.try_send("HTTP/1.1 200 OK\r\n\r\nfirst");
            let _ = released.lock().unwrap().recv();
            let _ = wire.try_send("second");
        }
    });
    let conf = |text: &str| {
        format!(
            "worker_shutdown_timeout 300ms;\nevents {{}}\nhttp {{ server {{ listen 127.0.0.1:{{port}};\n\
             location / {{ return 200 {text}; }}\n\
             location /slow {{ proxy_buffering off; proxy_pass http://127.0.0.1:{}; }} }} }}\n",
            upstream.port
        )
    };
    // One worker: each takes the new configuration at its own time.
    let setup = Setup::bare()
        .args(&["--config", "nginx.conf"])
        .env("SLUICE_WORKERS", "1");
    setup.folder().write("nginx.conf", setup.fill(&conf("old")));
    let server = setup.start();
    let mut idle = Client::connect(server.port);
    assert_eq!(idle.get("/").text(), "old");
    let mut old = Client::connect(server.port);
    old.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(old.head().unwrap().starts_with("HTTP/1.1 200"));
    let text = conf("new").replace("{port}", &server.port.to_string());
    server.folder.write("nginx.conf", text);
    server.signal(Signal::Hangup);
    eventually(
        "the new configuration",
        || ask(server.port, "/").text() == "new",
        || server.stderr(),
    );
    // This request began with the new configuration, and goes on after the time of the old one.
    let mut new = Client::connect(server.port);
    new.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(new.head().unwrap().starts_with("HTTP/1.1 200"));
    while old.byte().is_ok() {}
    for _ in 0..2 {
        let _ = release.send(());
    }
    let mut rest = Vec::new();
    let mut end = None;
    while end.is_none() && !rest.ends_with(b"second") {
        match new.byte() {
            Ok(byte) => rest.push(byte),
            Err(error) => end = Some(error),
        }
    }
    assert!(
        end.is_none(),
        "{end:?} after {:?}",
        String::from_utf8_lossy(&rest)
    );
}
