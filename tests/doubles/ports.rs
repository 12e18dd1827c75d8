//! Ports for what tests start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port on which nobody listens. Below the kernel's own range, so that no client gets it meanwhile, and handed out
/// once in this process.
pub fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < COUNT, "there is a free port among so many");
        let port = FIRST + (std::process::id().wrapping_mul(97) + step) % COUNT;
        let port = u16::try_from(port).expect("the range ends below 65,536");
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}
