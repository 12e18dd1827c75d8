//! Ports for what tests start.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the kernel's own range, so that no client gets one of them meanwhile.
const FIRST: u16 = 12_000;

/// Ports that a process takes together, and how often there are so many.
const BLOCK: u16 = 100;
const BLOCKS: u16 = 200;

/// The ports of this process that were not handed out yet, and what says that they are its own.
struct Blocks {
    next: u16,
    end: u16,
    names: Vec<UnixListener>,
}

static OURS: Mutex<Blocks> = Mutex::new(Blocks {
    next: 0,
    end: 0,
    names: Vec::new(),
});

/// A port on which nobody listens, and that no other test gets as long as this process lives: not those of this process
/// and not those of others that run at the same time.
pub fn free_port() -> u16 {
    let mut ours = OURS.lock().expect("nobody panics with it");
    loop {
        if ours.next == ours.end {
            ours.take_block();
        }
        let port = ours.next;
        ours.next += 1;
        // Other programs do not ask.
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}

impl Blocks {
    /// Takes the first block whose name nobody has. A name is free again when its process ends, however it ends.
    fn take_block(&mut self) {
        let start = (std::process::id() % u32::from(BLOCKS)) as u16;
        let (block, name) = (0..BLOCKS)
            .map(|step| (start + step) % BLOCKS)
            .find_map(|block| {
                let name = SocketAddr::from_abstract_name(format!("sluice-test-ports-{block}"));
                let name = name.expect("a short name");
                Some((block, UnixListener::bind_addr(&name).ok()?))
            })
            .expect("there are blocks for all tests that run");
        self.names.push(name);
        self.next = FIRST + block * BLOCK;
        self.end = self.next + BLOCK;
    }
}
