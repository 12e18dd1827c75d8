//! UDP sockets beside the TCP sockets of a listener, one for each worker. What serves them comes from above: the
//! transport (QUIC) is not known here.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::DATAGRAM_BUFFER_BYTES;
use crate::listener::{Families, ListenAddr, is_family_missing};
use crate::multiplexed::host::Host;
use crate::service::Service;
use crate::sys;

/// Serves the datagrams of one socket until the listener is removed and its connections have ended.
pub type ServeDatagrams<S> = fn(Receiver, Host<S>) -> Pin<Box<dyn Future<Output = ()>>>;

/// A UDP socket of a listener.
pub struct Receiver {
    /// The socket, which does not block.
    pub socket: UdpSocket,
    /// Its number in the group of the address: the first byte of connection IDs that lead to it.
    pub index: u8,
    /// The whole group. Closing a socket would move the last one to its number, so all of them stay open until none is
    /// served.
    pub(crate) _group: Group,
}

/// The sockets of an address in the order of their numbers, as duplicates.
pub(crate) type Group = Arc<Vec<Socket>>;

/// The receivers for the sockets of a group.
///
/// # Errors
///
/// There are no more file descriptors.
pub(crate) fn receivers(sockets: Vec<Socket>) -> io::Result<(Vec<Receiver>, Group)> {
    let group: Group = Arc::new(sockets);
    Ok((receivers_of(&group)?, group))
}

/// More receivers for the sockets of a group.
///
/// # Errors
///
/// There are no more file descriptors.
pub(crate) fn receivers_of(group: &Group) -> io::Result<Vec<Receiver>> {
    let numbered = (0..=u8::MAX).zip(group.iter());
    let receivers = numbered.map(|(index, socket)| {
        Ok(Receiver {
            socket: socket.try_clone()?.into(),
            index,
            _group: group.clone(),
        })
    });
    receivers.collect()
}

/// The datagram side of a listener.
pub struct Datagrams<S: Service> {
    /// Serves its sockets.
    pub serve: ServeDatagrams<S>,
    /// Whether the sockets are bound, for those who announce the service.
    pub bound: Bound,
}

impl<S: Service> Clone for Datagrams<S> {
    fn clone(&self) -> Self {
        Datagrams {
            serve: self.serve,
            bound: self.bound.clone(),
        }
    }
}

/// Whether the UDP sockets of a listener are bound; known to all workers.
#[derive(Clone, Debug, Default)]
pub struct Bound(Arc<AtomicBool>);

impl Bound {
    /// Whether they are.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, is_bound: bool) {
        self.0.store(is_bound, Ordering::Relaxed);
    }
}

/// Why datagrams of a listener are not served, or not as well as they could be.
#[derive(Debug)]
pub struct DatagramProblem {
    /// The address.
    pub addr: ListenAddr,
    /// What is wrong.
    pub what: DatagramTrouble,
}

/// A problem with UDP sockets.
#[derive(Debug)]
pub enum DatagramTrouble {
    /// They could not be bound.
    Bind(io::Error),
    /// The kernel limits their receive buffers to this size in bytes (`net.core.rmem_max`).
    SmallBuffers(usize),
}

/// Binds UDP sockets for `count` workers to `addr`. The first byte of a connection ID selects the socket. `Ok(None)`: it
/// is not an address of a network.
///
/// # Errors
///
/// The address cannot be bound, or more sockets are wanted than a byte can name.
pub(crate) fn bind(addr: &ListenAddr, count: usize) -> io::Result<Option<Vec<Socket>>> {
    let (addr, families) = match addr {
        ListenAddr::AnyTcp(port) => {
            let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
            match bind_group(v6, count, Families::Both) {
                Err(error) if is_family_missing(&error) => (
                    SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
                    Families::One,
                ),
                other => return other.map(Some),
            }
        }
        ListenAddr::AnyTcp6(port) => (
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)),
            Families::One,
        ),
        ListenAddr::Tcp(addr) if addr.ip().is_unspecified() => (*addr, Families::Both),
        ListenAddr::Tcp(addr) => (*addr, Families::One),
        ListenAddr::Unix { .. } | ListenAddr::Inherited(_) => return Ok(None),
    };
    bind_group(addr, count, families).map(Some)
}

/// Binds in the order of the workers: the kernel numbers the sockets of a group in this order.
fn bind_group(addr: SocketAddr, count: usize, families: Families) -> io::Result<Vec<Socket>> {
    if count > usize::from(u8::MAX) {
        return Err(io::Error::other("HTTP/3 serves at most 255 workers"));
    }
    // As for TCP: another process would silently share the port.
    drop(socket(addr, families, Shared::No)?);
    let sockets: Vec<Socket> = (0..count)
        .map(|_| socket(addr, families, Shared::Yes))
        .collect::<io::Result<_>>()?;
    if let Some(first) = sockets.first() {
        sys::datagrams::route_by_connection_id(first.as_fd())?;
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq)]
enum Shared {
    Yes,
    No,
}

fn socket(addr: SocketAddr, families: Families, shared: Shared) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if shared == Shared::Yes {
        socket.set_reuse_port(true)?;
    }
    if addr.is_ipv6() {
        socket.set_only_v6(families == Families::One)?;
    }
    // The kernel grants what its limits allow.
    let _ = socket.set_recv_buffer_size(DATAGRAM_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(DATAGRAM_BUFFER_BYTES);
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// The size of the receive buffer, if it is smaller than wanted.
pub(crate) fn small_buffer(socket: &Socket) -> Option<usize> {
    // The kernel reports twice the size that it was asked for (socket(7)).
    let granted = socket.recv_buffer_size().ok()? / 2;
    (granted < DATAGRAM_BUFFER_BYTES).then_some(granted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::free_port;

    fn group(count: usize) -> (SocketAddr, Vec<UdpSocket>) {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let sockets = bind(&ListenAddr::Tcp(addr), count).unwrap().unwrap();
        (addr, sockets.into_iter().map(UdpSocket::from).collect())
    }

    #[test]
    fn the_first_byte_of_a_connection_id_selects_the_socket() {
        let (addr, sockets) = group(3);
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for index in [2u8, 0, 1] {
            for datagram in [
                vec![0x40, index, 1, 2, 3],
                vec![0xc0, 0, 0, 0, 1, 8, index, 7, 7],
            ] {
                client.send_to(&datagram, addr).unwrap();
                let socket = &sockets[usize::from(index)];
                socket.set_nonblocking(false).unwrap();
                let mut buf = [0; 64];
                let (count, _) = socket.recv_from(&mut buf).unwrap();
                assert_eq!(&buf[..count], &datagram[..]);
            }
        }
    }

    #[test]
    fn a_port_of_another_process_is_not_shared() {
        let (addr, _sockets) = group(2);
        let error = bind(&ListenAddr::Tcp(addr), 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
