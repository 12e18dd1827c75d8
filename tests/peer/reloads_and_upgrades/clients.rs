//! Clients of a server that is being replaced: keep-alive connections, new connections, WebSockets, and a slow download.
//! They count what they lose, and go on.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::{Client, Response};
use crate::harness::eventually;
use crate::proxy::WEBSOCKET_KEY;
use crate::support::wire::Wire;

/// Clients with a keep-alive connection, and the threads that they share.
pub const KEPT: usize = 200;
const THREADS: usize = 4;

/// How long sluice serves idle connections after an upgrade (`docs/reference/upgrade.md`). A connection that was idle for longer
/// may be closed while its next request is on the way, as by any server (RFC 9112, section 9.3.1): on a slow machine a client's
/// turn may come so late.
const IDLE_SERVED: Duration = Duration::from_secs(2);

/// Bytes of the download that its client reads in each step.
const SIP: u64 = 16 * 1024;

/// What the clients have got and lost.
#[derive(Default)]
pub struct Counts {
    served: AtomicU64,
    /// Requests on a keep-alive connection that got no response although the connection had just been used.
    lost_kept: AtomicU64,
    /// Connections that were refused, and requests on new connections that got no response.
    lost_new: AtomicU64,
    /// Connections that the server closed between two requests.
    closed_idle: AtomicU64,
    first: Mutex<Option<String>>,
}

impl Counts {
    fn lose(&self, counter: &AtomicU64, what: &str) {
        counter.fetch_add(1, Ordering::AcqRel);
        let mut first = self.first.lock().expect("nobody panics with it");
        first.get_or_insert_with(|| what.to_owned());
    }

    /// Counts the outcome of a request. Whether it was successful.
    fn note(&self, outcome: std::io::Result<Response>, counter: &AtomicU64) -> bool {
        match outcome {
            Ok(response) if response.status == 200 && response.text().starts_with("word-") => {
                self.served.fetch_add(1, Ordering::AcqRel);
                return true;
            }
            Ok(response) => self.lose(counter, &format!("{response:?}")),
            Err(error) => self.lose(counter, &error.to_string()),
        }
        false
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::Acquire)
    }
}

/// The clients of short requests, in threads of their own.
pub struct Clients {
    stop: Arc<AtomicBool>,
    pub counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// [`KEPT`] clients with keep-alive connections, and one with a connection for each request.
    pub fn start(port: u16) -> Clients {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let threads = (0..=THREADS).map(|thread| {
            let (stop, counts) = (stop.clone(), counts.clone());
            thread::spawn(move || match thread {
                THREADS => come_anew(port, &stop, &counts),
                _ => stay(port, &stop, &counts),
            })
        });
        Clients {
            threads: threads.collect(),
            stop,
            counts,
        }
    }

    /// Waits until so many more requests have got a response.
    pub fn go_on(&self, more: u64) {
        let target = self.counts.served() + more;
        let are_served = || self.counts.served() >= target;
        eventually("responses", are_served, || self.counts.served().to_string());
    }

    pub fn end(mut self) -> Arc<Counts> {
        self.stop.store(true, Ordering::Release);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().expect("the clients do not panic");
        }
        self.counts.clone()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn come_anew(port: u16, stop: &AtomicBool, counts: &Counts) {
    while !stop.load(Ordering::Acquire) {
        let outcome = Client::try_connect(port).and_then(|mut client| {
            client.try_send("GET /word HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
            client.try_response()
        });
        counts.note(outcome, &counts.lost_new);
    }
}

/// A client between two requests.
struct Kept {
    client: Option<Client>,
    used: Instant,
}

fn stay(port: u16, stop: &AtomicBool, counts: &Counts) {
    let mut all: Vec<Kept> = (0..KEPT / THREADS)
        .map(|_| Kept {
            client: None,
            used: Instant::now(),
        })
        .collect();
    while !stop.load(Ordering::Acquire) {
        for kept in &mut all {
            kept.ask(port, counts);
        }
    }
}

impl Kept {
    fn ask(&mut self, port: u16, counts: &Counts) {
        if self.client.as_ref().is_some_and(Client::was_closed) {
            counts.closed_idle.fetch_add(1, Ordering::AcqRel);
            self.client = None;
        }
        let (mut client, counter) = match self.client.take() {
            Some(client) => (client, &counts.lost_kept),
            None => match Client::try_connect(port) {
                Ok(client) => (client, &counts.lost_new),
                Err(error) => return counts.lose(&counts.lost_new, &error.to_string()),
            },
        };
        let idle = self.used.elapsed();
        let sent = client.try_send("GET /word HTTP/1.1\r\nHost: a\r\n\r\n");
        let outcome = sent.and_then(|()| client.try_response());
        let was_idle = std::ptr::eq(counter, &counts.lost_kept) && idle >= IDLE_SERVED;
        if outcome.is_err() && was_idle {
            counts.closed_idle.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let closes = (outcome.as_ref()).map_or(true, |response| {
            response.field("Connection") == Some("close")
        });
        if counts.note(outcome, counter) && !closes {
            self.client = Some(client);
            self.used = Instant::now();
        }
    }
}

/// The long ones: WebSockets whose upstream echoes, and a download.
pub struct Long {
    port: u16,
    content: Arc<Vec<u8>>,
    sockets: Vec<Wire>,
    /// A download, and how much of it has been read.
    download: Option<(Wire, usize)>,
    lost_sockets: u64,
    lost_downloads: u64,
}

impl Long {
    /// `count` WebSockets and a download of `/large`, which has this content.
    pub fn begin(port: u16, count: usize, content: Arc<Vec<u8>>) -> Long {
        let mut long = Long {
            port,
            content,
            sockets: Vec::new(),
            download: None,
            lost_sockets: 0,
            lost_downloads: 0,
        };
        (0..count).for_each(|_| long.open_socket());
        long.open_download();
        long
    }

    /// One more WebSocket.
    pub fn open_socket(&mut self) {
        let mut socket = Wire::connect(self.port);
        let request = format!(
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
        );
        let sent = socket.try_send(request).is_ok();
        let head = socket.head().filter(|_| sent).unwrap_or_default();
        match head.first().is_some_and(|line| line.contains(" 101 ")) {
            true => self.sockets.push(socket),
            false => self.lost_sockets += 1,
        }
    }

    fn open_download(&mut self) {
        let mut wire = Wire::connect(self.port);
        let request = "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let sent = wire.try_send(request).is_ok();
        let head = wire.head().filter(|_| sent).unwrap_or_default();
        match head.first().is_some_and(|line| line.contains(" 200 ")) {
            true => self.download = Some((wire, 0)),
            false => self.lost_downloads += 1,
        }
    }

    /// Sends a message over each WebSocket, and reads a little of the download. Those that are lost are replaced.
    pub fn step(&mut self, number: usize) {
        let message = format!("message {number:05}\n");
        let before = self.sockets.len();
        self.sockets.retain_mut(|socket| {
            let sent = socket.try_send(&message).is_ok();
            sent && socket.take(message.len() as u64) == message.as_bytes()
        });
        for _ in self.sockets.len()..before {
            self.lost_sockets += 1;
            self.open_socket();
        }
        self.read(SIP);
    }

    /// Reads up to `count` bytes of the download.
    fn read(&mut self, count: u64) {
        let Some((wire, at)) = &mut self.download else {
            return self.open_download();
        };
        let wanted = count.min((self.content.len() - *at) as u64);
        let got = wire.take(wanted);
        let right = got.len() as u64 == wanted && self.content[*at..].starts_with(&got);
        *at += got.len();
        if !right {
            self.lost_downloads += 1;
            self.open_download();
        }
    }

    /// Reads the rest of the download, which nothing follows; returns how many WebSockets and downloads were lost.
    pub fn end(mut self) -> [u64; 2] {
        self.read(u64::MAX);
        if let Some((mut wire, _)) = self.download.take()
            && wire.reader.read(&mut [0]).is_ok_and(|count| count > 0)
        {
            self.lost_downloads += 1;
        }
        [self.lost_sockets, self.lost_downloads]
    }
}

/// The figures of one server in one phase.
pub struct Outcome {
    pub served: u64,
    pub lost_kept: u64,
    pub lost_new: u64,
    pub closed_idle: u64,
    pub lost_sockets: u64,
    pub lost_downloads: u64,
    /// The first request that was lost.
    pub first: Option<String>,
}

impl Outcome {
    pub fn of(counts: &Counts, [lost_sockets, lost_downloads]: [u64; 2]) -> Outcome {
        let first = counts.first.lock().expect("nobody panics with it");
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        Outcome {
            served: counts.served(),
            lost_kept: read(&counts.lost_kept),
            lost_new: read(&counts.lost_new),
            closed_idle: read(&counts.closed_idle),
            lost_sockets,
            lost_downloads,
            first: first.clone(),
        }
    }

    /// Requests, WebSockets and downloads that failed.
    pub fn failed(&self) -> u64 {
        self.lost_kept + self.lost_new + self.lost_sockets + self.lost_downloads
    }
}
