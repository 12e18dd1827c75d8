//! Listening sockets inherited from the previous process, or retained from before the workers stopped listening.
//! Connections in the kernel's accept queue are preserved.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{SockRef, Socket, Type};

use crate::listener::ListenAddr;

/// Listening sockets on which nothing accepts.
#[derive(Debug, Default)]
pub(crate) struct Handed(Vec<Socket>);

impl Handed {
    pub(crate) fn new(sockets: Vec<Socket>) -> Handed {
        Handed(sockets)
    }

    /// Duplicates of the sockets listening on `addr`, for each of `workers` workers; `None` if there are none.
    ///
    /// Every socket is assigned to at least one worker, because the kernel distributes connections to all of them; if
    /// there are fewer sockets than workers, workers share them.
    pub(crate) fn for_workers(
        &self,
        addr: &ListenAddr,
        workers: usize,
    ) -> io::Result<Option<Vec<Vec<Socket>>>> {
        let is_meant = |socket: &&Socket| is_of(socket, Type::STREAM) && is_at(socket, addr);
        let found: Vec<&Socket> = self.0.iter().filter(is_meant).collect();
        if found.is_empty() {
            return Ok(None);
        }
        let mut shares: Vec<Vec<Socket>> = (0..workers).map(|_| Vec::new()).collect();
        for turn in 0..found.len().max(workers) {
            let copy = found[turn % found.len()].try_clone()?;
            copy.set_nonblocking(true)?;
            shares[turn % workers].push(copy);
        }
        Ok(Some(shares))
    }
}

impl Handed {
    /// Duplicates of the UDP sockets bound to `addr`, in the order of their group; `None` if there are none.
    pub(crate) fn datagrams(&self, addr: &ListenAddr) -> io::Result<Option<Vec<Socket>>> {
        let is_meant = |socket: &&Socket| is_of(socket, Type::DGRAM) && is_at(socket, addr);
        let found: Vec<&Socket> = self.0.iter().filter(is_meant).collect();
        let copies = found.iter().map(|socket| socket.try_clone());
        match found.is_empty() {
            true => Ok(None),
            false => copies.collect::<io::Result<_>>().map(Some),
        }
    }
}

fn is_of(socket: &Socket, kind: Type) -> bool {
    socket.r#type().is_ok_and(|found| found == kind)
}

/// Whether a socket is bound to exactly this address.
fn is_at(socket: &Socket, addr: &ListenAddr) -> bool {
    let Ok(local) = SockRef::from(socket).local_addr() else {
        return false;
    };
    match addr {
        ListenAddr::Tcp(addr) => local.as_socket() == Some(*addr),
        ListenAddr::AnyTcp(port) => {
            let any = [
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
            ];
            local.as_socket().is_some_and(|local| any.contains(&local))
        }
        ListenAddr::AnyTcp6(port) => {
            let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
            local.as_socket() == Some(any) && SockRef::from(socket).only_v6().unwrap_or(false)
        }
        ListenAddr::Unix { path, .. } => local.as_pathname() == Some(path.as_path()),
        // Identified by its descriptor instead.
        ListenAddr::Inherited(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Bound;
    use crate::ports::free_port;

    fn bound(workers: usize) -> (ListenAddr, Handed) {
        let addr = ListenAddr::Tcp((Ipv4Addr::LOCALHOST, free_port()).into());
        let sockets = Bound::bind(&addr, workers, &[]).unwrap().into_sockets();
        (addr, Handed::new(sockets))
    }

    #[test]
    fn no_socket_is_left_alone_and_no_worker_without_one() {
        for (sockets, workers, expected) in [
            (2, 2, vec![1, 1]),
            (4, 2, vec![2, 2]),
            (3, 2, vec![2, 1]),
            (1, 3, vec![1, 1, 1]),
            (2, 3, vec![1, 1, 1]),
        ] {
            let (addr, handed) = bound(sockets);
            let shares = handed.for_workers(&addr, workers).unwrap().unwrap();
            let counts: Vec<usize> = shares.iter().map(Vec::len).collect();
            assert_eq!(counts, expected, "{sockets} sockets, {workers} workers");
        }
    }

    #[test]
    fn sockets_of_other_addresses_are_left() {
        let (addr, handed) = bound(1);
        let ListenAddr::Tcp(other) = addr else {
            unreachable!("bound so above")
        };
        let other = ListenAddr::AnyTcp(other.port());
        assert!(handed.for_workers(&other, 1).unwrap().is_none());
    }
}
