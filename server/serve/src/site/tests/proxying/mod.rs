//! Tests the handler with raw sockets: a client and fake upstreams on free loopback ports.

#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../../../../tests/support/abilities.rs"]
mod abilities;
mod attacks;
mod choosing;
#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../../../../tests/support/dns.rs"]
mod dns;
mod dynamic;
mod failing;
mod fields;
mod framing;
mod intercepting;
mod interims;
#[path = "../../../../../../tests/support/ports.rs"]
mod ports;
mod protecting;
mod retrying;
mod sharing;
mod switching;
#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../../../../tests/support/wait.rs"]
mod wait;
mod ways;

use self::ports::free_port;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_net::Protocols;
use sluice_net::listener::ListenAddr;
use sluice_net::worker::ConnectionLimit;
use sluice_net::workers::{Listen, Workers};

use crate::site::{Rules, Site};
use sluice_observe::Recorder;
use sluice_observe::log::Log;
use sluice_pipeline::build::Slots;
use sluice_pipeline::settings::settings;

const HI: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A server with one `reverse_proxy`, on one worker.
struct Proxy {
    address: SocketAddr,
    workers: Option<Workers<Site>>,
}

impl Proxy {
    /// A server that proxies everything to `fakes`.
    fn to(fakes: &[&Fake]) -> Proxy {
        Proxy::with(fakes, json!({}))
    }

    /// The same with further settings of the directive.
    fn with(fakes: &[&Fake], settings: Value) -> Proxy {
        let dials: Vec<String> = fakes.iter().map(|fake| fake.address.to_string()).collect();
        Proxy::dialling(&dials, settings)
    }

    fn dialling(dials: &[String], mut directive: Value) -> Proxy {
        let upstreams: Vec<Value> = dials.iter().map(|dial| json!({ "dial": dial })).collect();
        directive["handler"] = json!("reverse_proxy");
        directive["upstreams"] = json!(upstreams);
        Proxy::serving(json!({ "routes": [{ "handle": [directive] }] }))
    }

    fn serving(server: Value) -> Proxy {
        Proxy::on_workers(1, server)
    }

    fn on_workers(count: usize, server: Value) -> Proxy {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut workers = Workers::start(count, ConnectionLimit::new(1000)).unwrap();
        workers.apply(vec![listen(address, server)]).unwrap();
        Proxy {
            address,
            workers: Some(workers),
        }
    }

    /// Replaces the configuration.
    fn replace(&mut self, fakes: &[&Fake]) {
        let upstreams = fakes
            .iter()
            .map(|fake| json!({ "dial": fake.address.to_string() }));
        let directive =
            json!({ "handler": "reverse_proxy", "upstreams": upstreams.collect::<Vec<_>>() });
        let server = json!({ "routes": [{ "handle": [directive] }] });
        let workers = self.workers.as_mut().unwrap();
        workers.apply(vec![listen(self.address, server)]).unwrap();
    }

    fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket.set_nodelay(true).unwrap();
        Client { socket }
    }

    /// Sends one request on a connection of its own.
    fn ask(&self, request: &str) -> Response {
        let mut client = self.connect();
        client.send(request);
        client.response()
    }
}

fn listen(address: SocketAddr, server: Value) -> Listen<Site> {
    let config: sluice_model::Server = serde_json::from_value(server).unwrap();
    let rules = Rules::build(&config, "", &[], &Slots::default(), None)
        .map_err(|refusals| refusals[0].to_string());
    let site = Site {
        rules: rules.unwrap().0,
        settings: settings(&config),
        per_server: None,
        access: None,
        recorder: Arc::new(Recorder::new(Log::silent(), 1)),
        challenges: Arc::default(),
        alt_svc: crate::alt_svc::AltSvc::default(),
    };
    Listen {
        addr: ListenAddr::Tcp(address),
        service: Arc::new(site),
        tls: None,
        wrapper: None,
        datagrams: None,
        protocols: Protocols::default(),
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.drain(Duration::ZERO);
        }
    }
}

struct Client {
    socket: TcpStream,
}

struct Response {
    head: String,
    body: Vec<u8>,
    /// The bytes after the body: the trailer section.
    trailer: String,
}

impl Response {
    fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    fn field(&self, name: &str) -> Option<String> {
        self.fields(name).into_iter().next()
    }

    fn fields(&self, name: &str) -> Vec<String> {
        lines_named(&self.head, name)
    }
}

/// The values of the header lines called `name` in a head.
fn lines_named(head: &str, name: &str) -> Vec<String> {
    let split = head.lines().filter_map(|line| line.split_once(": "));
    split
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.to_owned())
        .collect()
}

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    fn response(&mut self) -> Response {
        self.respond_to("GET")
            .expect("an answer before the end of the connection")
    }

    /// Reads one complete response; `None` if the connection ends early.
    fn respond_to(&mut self, method: &str) -> Option<Response> {
        let head = read_head(&mut self.socket)?;
        let mut response = Response {
            head,
            body: Vec::new(),
            trailer: String::new(),
        };
        let bodiless = method == "HEAD" || matches!(response.status(), 100..=199 | 204 | 304);
        if bodiless {
            return Some(response);
        }
        if response.field("Transfer-Encoding").is_some() {
            loop {
                let line = read_until(&mut self.socket, b"\r\n")?;
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                if size == 0 {
                    break;
                }
                let mut chunk = vec![0; size + 2];
                self.socket.read_exact(&mut chunk).ok()?;
                response.body.extend_from_slice(&chunk[..size]);
            }
            loop {
                let line = read_until(&mut self.socket, b"\r\n")?;
                if line == "\r\n" {
                    return Some(response);
                }
                response.trailer.push_str(&line);
            }
        }
        match response.field("Content-Length") {
            Some(length) => {
                response.body = vec![0; length.parse().unwrap()];
                self.socket.read_exact(&mut response.body).ok()?;
            }
            None => {
                self.socket.read_to_end(&mut response.body).ok()?;
            }
        }
        Some(response)
    }

    /// Everything up to the end of the connection.
    fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = self.socket.read_to_end(&mut all);
        all
    }
}

/// An upstream that runs `script` for each connection, each in a thread of its own.
struct Fake {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// The request heads that this upstream has read.
    seen: Arc<Mutex<Vec<String>>>,
}

/// One connection of an upstream.
struct Peer {
    socket: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    fn head(&mut self) -> Option<String> {
        let head = read_head(&mut self.socket)?;
        self.seen.lock().unwrap().push(head.clone());
        Some(head)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.socket.write_all(bytes.as_ref());
    }
}

impl Fake {
    fn new(script: impl Fn(Peer) + Send + Sync + 'static) -> Fake {
        Fake::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    fn on(listener: TcpListener, script: impl Fn(Peer) + Send + Sync + 'static) -> Fake {
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (count, heads, script) = (accepted.clone(), seen.clone(), Arc::new(script));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, seen, script) = (socket.unwrap(), heads.clone(), script.clone());
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || script(Peer { socket, seen }));
            }
        });
        Fake {
            address,
            accepted,
            seen,
        }
    }

    fn responding(response: &'static str) -> Fake {
        Fake::new(move |mut peer| {
            while peer.head().is_some() {
                peer.send(response);
            }
        })
    }

    /// An upstream that responds with its name.
    fn called(name: &'static str) -> Fake {
        Fake::new(Fake::naming(name))
    }

    fn naming(name: &'static str) -> impl Fn(Peer) + Send + Sync + 'static {
        move |mut peer| {
            while peer.head().is_some() {
                let length = name.len();
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}"
                ));
            }
        }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The heads received so far.
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The latest head received.
    fn last(&self) -> String {
        self.seen().pop().expect("the upstream got a request")
    }
}

/// Waits until a condition is true.
fn eventually(what: &str, is_true: impl FnMut() -> bool) {
    wait::eventually(what, is_true, String::new);
}

/// An address without a listener.
fn nobody() -> String {
    format!("127.0.0.1:{}", free_port())
}

fn read_head(socket: &mut impl Read) -> Option<String> {
    read_until(socket, b"\r\n\r\n")
}

/// Reads up to and including `end`, byte by byte in order not to read any further; `None` at the end of the connection.
fn read_until(socket: &mut impl Read, end: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end) {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    Some(String::from_utf8(text).unwrap())
}
