//! Ports for servers started by tests.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below the kernel's ephemeral range, so that client connections do not take them.
const FIRST: u16 = 12_000;

/// Number of consecutive ports that a process reserves.
const BLOCK: u16 = 100;
const BLOCKS: u16 = 200;

/// The reserved ports of this process that are still unused, and the handle that reserves them.
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

/// A port that is free, and that no other test gets as long as this process lives, neither in this process nor in one
/// that runs at the same time.
pub fn free_port() -> u16 {
    let mut ours = OURS.lock().expect("nobody panics with it");
    loop {
        if ours.next == ours.end {
            ours.take_block();
        }
        let port = ours.next;
        ours.next += 1;
        // Other programs do not take part in the reservation. HTTP/3 uses the UDP port of the same number.
        let address = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}

impl Blocks {
    /// Reserves the first block whose name is free. The name is released when the process ends, however it ends.
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
