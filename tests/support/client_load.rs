//! Many concurrent clients of one server: which get a response, which wait for one, and which are turned away.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a client waits.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its response has begun, with this status.
    Responded(u16),
    /// Its request has reached the upstream.
    Waits,
    /// Its connection was closed.
    Gone,
}

/// An upstream that counts its requests, and delays all responses until it is freed.
#[derive(Clone, Default)]
pub struct Holding(Arc<Held>);

#[derive(Default)]
struct Held {
    waiting: AtomicUsize,
    is_free: Mutex<bool>,
    freed: Condvar,
}

impl Holding {
    /// Starts it; returns its port.
    pub fn start(&self) -> u16 {
        let held = self.0.clone();
        super::listen(move |mut wire| {
            while wire.head().is_some() {
                held.waiting.fetch_add(1, Ordering::AcqRel);
                let mut is_free = held.is_free.lock().expect("nobody panics with it");
                while !*is_free {
                    is_free = held.freed.wait(is_free).expect("nobody panics with it");
                }
                drop(is_free);
                let _ = wire.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        })
    }

    /// Number of requests received.
    pub fn count(&self) -> usize {
        self.0.waiting.load(Ordering::Acquire)
    }

    /// Sends all responses, also to later requests.
    pub fn free(&self) {
        *self.0.is_free.lock().expect("nobody panics with it") = true;
        self.0.freed.notify_all();
    }
}

/// Connects `count` clients one after the other; each requests `target` and keeps its connection. The next one connects
/// when the state of the previous one is known.
pub fn gather(
    port: u16,
    count: usize,
    target: &str,
    upstream: Option<&Holding>,
) -> Vec<(TcpStream, Fate)> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    (0..count)
        .map(|_| {
            let before = upstream.map_or(0, Holding::count);
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
            // A client that is turned away may notice while it sends.
            let _ = stream.write_all(request.as_bytes());
            let fate = fate(&mut stream, || {
                upstream.is_some_and(|upstream| upstream.count() > before)
            });
            (stream, fate)
        })
        .collect()
}

/// Determines the state of a client that has sent its request; `is_waiting` says whether the upstream has it.
pub fn fate(stream: &mut TcpStream, is_waiting: impl Fn() -> bool) -> Fate {
    stream.set_nonblocking(true).expect("it can be set");
    let deadline = Instant::now() + TIMEOUT;
    let mut status = [0; 12];
    loop {
        match stream.peek(&mut status) {
            Ok(count) if count == status.len() => {
                let _ = stream.read(&mut [0; 4096]);
                let code = std::str::from_utf8(&status[9..]).ok();
                return Fate::Responded(code.and_then(|code| code.parse().ok()).unwrap_or(0));
            }
            Ok(0) => return Fate::Gone,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if is_waiting() {
                    return Fate::Waits;
                }
            }
            Err(_) => return Fate::Gone,
        }
        assert!(Instant::now() < deadline, "a client waits for ever");
        // Two things may happen, and one of them is not seen at a descriptor.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many clients are in this state.
pub fn count(clients: &[(TcpStream, Fate)], wanted: Fate) -> usize {
    clients.iter().filter(|(_, fate)| *fate == wanted).count()
}
