//! `GET /status/events`: snapshots as they are taken, within limits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use sluice_admin::limits::SUBSCRIBERS_MAX;
use sluice_net::sys::process::Signal;

use super::{admin, ask, site};
use crate::harness::{Server, TIMEOUT, eventually};

const SITE: &str = "{\n\tadmin localhost:{admin}\n}\nhttp://a.test:{port} {\n\trespond a\n}\n";

/// A reader of the stream.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn open(server: &Server) -> Reader {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.admin)).expect("it listens");
        stream
            .set_read_timeout(Some(TIMEOUT))
            .expect("it can be set");
        let mut reader = Reader(BufReader::new(stream));
        let host = format!("localhost:{}", server.admin);
        let request = format!("GET /status/events HTTP/1.1\r\nHost: {host}\r\n\r\n");
        reader
            .0
            .get_mut()
            .write_all(request.as_bytes())
            .expect("it is read");
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line
    }

    /// The next snapshot. Chunks end between lines of the stream.
    fn snapshot(&mut self) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).expect("it is JSON");
            }
        }
    }
}

#[test]
fn snapshots_arrive_across_reloads_until_the_server_stops() {
    let mut server = Server::start(SITE);
    let mut reader = Reader::open(&server);
    assert!(reader.line().starts_with("HTTP/1.1 200"));
    let first = reader.snapshot();
    assert_eq!(site(&first, "a.test")["requests"], 0);
    ask(&server, "a.test", "/");
    while site(&reader.snapshot(), "a.test")["requests"] != 1 {}
    server.write(&SITE.replace("respond a", "respond b"));
    server.signal(Signal::User1);
    let last = loop {
        let next = reader.snapshot();
        if next["reloads"]["succeeded"] == 1 {
            break next;
        }
    };
    assert!(last["at"].as_f64() > first["at"].as_f64());
    assert_eq!(ask(&server, "a.test", "/").text(), "b");
    server.signal(Signal::Terminate);
    let mut rest = String::new();
    reader
        .0
        .read_to_string(&mut rest)
        .expect("it ends by itself");
    assert!(rest.ends_with("0\r\n\r\n"), "not cut off");
    assert!(server.wait_for_end().success());
}

#[test]
fn readers_are_bounded_and_one_that_takes_nothing_is_dropped() {
    // Enough sites that the sockets hold only a few snapshots.
    let mut text = "{\n\tadmin localhost:{admin}\n}\n".to_owned();
    for number in 0..500 {
        let padding = "x".repeat(50);
        text.push_str(&format!(
            "http://s{number}.{padding}.test:{{port}} {{\n\trespond a\n}}\n"
        ));
    }
    let server = Server::start(&text);
    let readers: Vec<Reader> = (0..SUBSCRIBERS_MAX)
        .map(|_| Reader::open(&server))
        .collect();
    let status = || {
        let mut reader = Reader::open(&server);
        let line = reader.line();
        (line.get(9..12).map(str::to_owned), reader)
    };
    eventually(
        "all places to be taken",
        || status().0.as_deref() == Some("503"),
        || server.stderr(),
    );
    assert_eq!(
        admin(&server, "/status", "").status,
        200,
        "others are served"
    );
    // None of them reads, so each is dropped after the timeout of the server; its place is free then.
    crate::support::wait::until(
        Duration::from_secs(90),
        "a free place",
        || (status().0.as_deref() == Some("200")).then_some(()),
        || server.stderr(),
    );
    drop(readers);
}
