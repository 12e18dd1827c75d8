//! Ports for the servers of a run.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use sluice_load::machine;

/// Free ports below the kernel's ephemeral range. Each is reserved for this run by an abstract name that other labs try
/// to take as well: a server does not listen all the time, and two concurrent runs would sometimes choose the same
/// port.
pub fn free_ports(count: usize) -> std::io::Result<(Vec<u16>, Vec<UnixListener>)> {
    let (first, _) = machine::local_ports();
    let seed = u64::from(std::process::id());
    let mut candidates: Vec<u16> = (10_000.min(first / 2)..first).collect();
    sluice_load::random::Random::new(seed).shuffle(&mut candidates);
    let hold = |port: u16| {
        let name = format!("sluice-lab-port-{port}");
        let name = SocketAddr::from_abstract_name(name).ok()?;
        let hold = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind(("0.0.0.0", port)).ok()?;
        Some((port, hold))
    };
    let found: (Vec<u16>, Vec<UnixListener>) =
        candidates.into_iter().filter_map(hold).take(count).unzip();
    if found.0.len() == count {
        return Ok(found);
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::AddrInUse,
        "no free ports",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_held_while_a_run_goes_on() {
        // The same process shuffles identically, so without reserving them both would get the same ports.
        let (one, holds) = free_ports(5).unwrap();
        let (other, _others) = free_ports(5).unwrap();
        assert!(
            one.iter().all(|port| !other.contains(port)),
            "{one:?} {other:?}"
        );
        drop(holds);
        let (again, _again) = free_ports(5).unwrap();
        assert_eq!(again.len(), 5);
    }
}
