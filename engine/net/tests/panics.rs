//! A service that panics, in each of its steps: this costs the request its response, and its connection or stream, and
//! affects nothing else.

#![allow(clippy::unwrap_used)] // doubles and readers here are outside of test functions

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::service::{
    ClientLimits, Completion, Exchange, Protocols, Refused, Response, Service, Settings,
};
use sluice_net::{Body, ConnectionLimit, Listen, ListenAddr, Workers};
use sluice_wire::{h1, h2};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Responds with a greeting, but panics at the step that the path names.
struct Fragile(Settings);

impl Service for Fragile {
    type Context = ();
    type Outcome = bool;

    fn reset(&self, _: &mut ()) {}

    fn serve<'a>(&'a self, x: &'a mut Exchange<()>) -> Response<'a, bool> {
        match x.req.uri.path() {
            b"/serve" => panic!("in serve"),
            b"/later" => Response::Later(Box::pin(async { panic!("in a future") })),
            b"/resume" => Response::Later(Box::pin(async { true })),
            _ => {
                x.inline.extend_from_slice(b"hello");
                Response::Ready(Body::Inline)
            }
        }
    }

    fn resume<'a>(&'a self, _: &'a mut Exchange<()>, panics: bool) -> Response<'a, bool> {
        assert!(!panics, "in resume");
        Response::Ready(Body::Empty)
    }

    fn refuse<'a>(&'a self, _: &'a mut Exchange<()>, _: &Refused<'_>) -> Response<'a, bool> {
        Response::Ready(Body::Empty)
    }

    fn record(&self, _: &mut Exchange<()>, _: &Completion) {}

    fn settings(&self) -> &Settings {
        &self.0
    }
}

fn settings() -> Settings {
    Settings {
        h1: h1::Limits::default(),
        h2: h2::Limits::SERVER,
        h3: sluice_net::Http3::default(),
        head_timeout: TIMEOUT,
        first_byte_timeout: TIMEOUT,
        client: ClientLimits::patient(TIMEOUT),
        handshake_timeout: TIMEOUT,
        exact_times: false,
        times_stages: false,
        sockets: Default::default(),
        probes: None,
    }
}

/// Runs `test` against one worker that serves [`Fragile`] on a Unix socket; returns how many panics were counted.
fn panics_during(name: &str, test: impl FnOnce(&dyn Fn() -> UnixStream)) -> u64 {
    let path: PathBuf = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
    let mut workers = Workers::start(1, ConnectionLimit::new(16)).unwrap();
    let listen = Listen {
        addr: ListenAddr::Unix {
            path: path.clone(),
            mode: None,
        },
        service: Arc::new(Fragile(settings())),
        tls: None,
        wrapper: None,
        datagrams: None,
        protocols: Protocols {
            h1: true,
            h2: true,
            h2c: true,
            h3: false,
        },
    };
    workers.apply(vec![listen]).unwrap();
    test(&|| {
        let socket = UnixStream::connect(&path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    });
    let counters = workers.counters();
    workers.drain(TIMEOUT);
    let _ = std::fs::remove_file(&path);
    counters[0].panics.value()
}

fn ask(socket: &mut UnixStream, path: &str) {
    write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
}

#[test]
fn over_http1_it_ends_its_connection_and_no_other() {
    let panics = panics_during("panics-h1", |connect| {
        let mut other = connect();
        for path in ["/serve", "/later", "/resume"] {
            let (mut socket, mut response) = (connect(), String::new());
            ask(&mut socket, path);
            socket.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 500 "), "{path}: {response}");

            ask(&mut other, "/");
            let mut bytes = [0; 1024];
            let mut seen = Vec::new();
            while !seen.ends_with(b"hello") {
                let count = other.read(&mut bytes).unwrap();
                assert!(count > 0, "the other connection goes on");
                seen.extend_from_slice(&bytes[..count]);
            }
        }
    });
    assert_eq!(panics, 3);
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, content.len() as u8, kind, flags, 0, 0, 0, stream];
    bytes.extend_from_slice(content);
    bytes
}

/// HEADERS with END_STREAM: GET of `path` from `a`.
fn head(stream: u8, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(&[0x01, 1, b'a']);
    frame(1, 5, stream, &block)
}

/// Reads frames until `streams` have ended; returns the types of the frames that ended them.
fn ends_of(socket: &mut UnixStream, streams: [u8; 2]) -> [u8; 2] {
    let mut kinds = [None; 2];
    while kinds.contains(&None) {
        let mut head = [0; 9];
        socket.read_exact(&mut head).expect("the streams end first");
        let mut content = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        socket.read_exact(&mut content).unwrap();
        let (kind, flags) = (head[3], head[4]);
        let is_end = kind == RST_STREAM || kind <= HEADERS && flags & 1 != 0;
        if let Some(at) = streams
            .iter()
            .position(|stream| is_end && *stream == head[8])
        {
            kinds[at] = Some(kind);
        }
    }
    kinds.map(|kind| kind.expect("the loop ends when both are known"))
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

fn greet(socket: &mut UnixStream) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    socket.write_all(preface).unwrap();
    socket.write_all(&frame(4, 0, 0, &[])).unwrap();
}

/// The connection is also drained, once the other streams have ended.
#[test]
fn over_http2_it_ends_its_stream_and_no_other() {
    let panics = panics_during("panics-h2", |connect| {
        let mut other = connect();
        greet(&mut other);
        for (turn, path) in ["/serve", "/later", "/resume"].into_iter().enumerate() {
            let mut socket = connect();
            greet(&mut socket);
            let both = [head(1, path), head(3, "/")].concat();
            socket.write_all(&both).unwrap();
            let [panicked, served] = ends_of(&mut socket, [1, 3]);
            assert_ne!(panicked, DATA, "{path} has no content");
            assert_eq!(served, DATA, "beside {path}");

            let first = turn as u8 * 4 + 1;
            let both = [head(first, "/"), head(first + 2, "/")].concat();
            other.write_all(&both).unwrap();
            assert_eq!(ends_of(&mut other, [first, first + 2]), [DATA, DATA]);
        }
    });
    assert_eq!(panics, 3);
}
