//! Scripted upstreams, good or bad.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::listen;
use super::wire::Wire;

/// A listening upstream. Its threads end with the test process.
pub struct Upstream {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Upstream {
    /// Calls `serve` for each connection, in a thread of its own.
    pub fn start(serve: impl Fn(Wire) + Send + Sync + 'static) -> Upstream {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let port = listen(move |wire| {
            counted.fetch_add(1, Ordering::Relaxed);
            serve(wire);
        });
        Upstream { port, connections }
    }

    /// Responds to every request with these bytes, on persistent connections.
    pub fn responding(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Upstream {
        Upstream::start(move |mut wire| while respond(&mut wire, bytes.as_ref()).is_some() {})
    }

    /// Responds to every request with an echo: request line, headers and body.
    pub fn echo() -> Upstream {
        Upstream::start(|mut wire| while echo(&mut wire).is_some() {})
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// An echo on a unix socket.
pub fn unix_echo(path: &Path) {
    let listener = UnixListener::bind(path).expect("the folder is writable");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut wire = Wire::new(stream);
                while echo(&mut wire).is_some() {}
            });
        }
    });
}

/// A fixed response to one request.
pub fn respond(wire: &mut Wire, bytes: &[u8]) -> Option<()> {
    let head = wire.head()?;
    wire.body(&head)?;
    wire.try_send(bytes).ok()
}

fn echo<S: Read + Write>(wire: &mut Wire<S>) -> Option<()> {
    let head = wire.head()?;
    let body = wire.body(&head)?;
    let mut text = head.join("\n").into_bytes();
    text.extend_from_slice(b"\n\n");
    text.extend_from_slice(&body);
    let length = text.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
    wire.try_send([head.as_bytes(), &text].concat()).ok()
}

/// A port on which nothing listens.
pub fn dead() -> u16 {
    super::ports::free_port()
}

/// Closes so that pending output is delivered before the end.
pub fn close(wire: &mut Wire) {
    let stream: &mut TcpStream = wire.stream();
    let _ = stream.shutdown(std::net::Shutdown::Write);
}
