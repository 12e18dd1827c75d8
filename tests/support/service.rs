//! A service manager as the server sees it: receives what `systemd` would receive (sd_notify(3)).

use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Receives messages until it is dropped.
pub struct Listener {
    name: String,
    socket: UnixDatagram,
    heard: Arc<Heard>,
    hearing: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Listener {
    pub fn start() -> Listener {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-e2e-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        Listener::of(&address, format!("@{name}"))
    }

    /// At a path, for a server in another network namespace: abstract names belong to one of them.
    pub fn at(path: &Path) -> Listener {
        let address = SocketAddr::from_pathname(path).expect("a short path");
        Listener::of(&address, path.display().to_string())
    }

    fn of(address: &SocketAddr, name: String) -> Listener {
        let socket = UnixDatagram::bind_addr(address).expect("a name of our own");
        let heard = Arc::<Heard>::default();
        let hearing = {
            let (socket, heard) = (socket.try_clone().expect("a second handle"), heard.clone());
            thread::spawn(move || hear(&socket, &heard))
        };
        Listener {
            name,
            socket,
            heard,
            hearing: Some(hearing),
        }
    }

    /// The value of `$NOTIFY_SOCKET`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All lines so far.
    pub fn heard(&self) -> Vec<String> {
        self.heard
            .lines
            .lock()
            .expect("nobody panics with it")
            .clone()
    }

    /// Waits a limited time for this line; returns whether it arrived.
    pub fn hears_within(&self, line: &str, time: Duration) -> bool {
        let lines = self.heard.lines.lock().expect("nobody panics with it");
        let is_missing = |lines: &mut Vec<String>| !lines.iter().any(|heard| heard == line);
        let (_lines, waited) = (self.heard.more)
            .wait_timeout_while(lines, time, is_missing)
            .expect("nobody panics with it");
        !waited.timed_out()
    }
}

fn hear(socket: &UnixDatagram, heard: &Heard) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = socket.recv(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let mut lines = heard.lines.lock().expect("nobody panics with it");
        lines.extend(text.lines().map(str::to_owned));
        heard.more.notify_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(hearing) = self.hearing.take() {
            let _ = hearing.join();
        }
    }
}
