//! Processes that share their sockets during a binary upgrade. The kernel gives a datagram to one of them, and the generation
//! of the process in its connection ID says whose it is: it goes through a link to that one, or to the one between.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use quinn_proto::EcnCodepoint;
use sluice_net::Worker;
use sluice_net::worker::Stay;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::connection_ids;
use crate::limits::DATAGRAM_BYTES_MAX;

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) remote: SocketAddr,
    /// The address it was sent to.
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// The other processes.
#[derive(Default)]
pub(crate) struct Generations {
    /// The one that had the socket before.
    predecessor: RefCell<Option<Link>>,
    /// The one that it was passed to.
    successor: RefCell<Option<Link>>,
    /// Whether the successor reads from the socket.
    is_succeeded: Cell<bool>,
    /// Held between two others, so that the process does not end before one of them.
    stay: RefCell<Option<Stay>>,
    /// Notified when another process is gone.
    pub(crate) changed: Notify,
}

/// A process, seen from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Predecessor,
    Successor,
}

/// A message of a link.
pub(crate) enum Passed {
    /// The other process reads from the socket.
    Reads,
    /// A datagram, at the end of the buffer from this place on.
    Datagram(Origin, usize),
}

/// The message with which a process says that it reads from the socket.
const READS: [u8; 1] = [1];

/// Flags of a datagram in a link.
const HAS_LOCAL: u8 = 1;
const REMOTE_V4: u8 = 2;
const LOCAL_V4: u8 = 4;

/// The head of a datagram in a link: two addresses, a port, flags and ECN.
const HEAD_BYTES: usize = 16 + 2 + 16 + 1 + 1;

/// The largest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = HEAD_BYTES + DATAGRAM_BYTES_MAX as usize;

impl Generations {
    /// Follows the process at the other end of `link`.
    pub(crate) fn follow(&self, link: OwnedFd) {
        let link = Link::new(link).ok();
        if let Some(link) = &link {
            // If it is gone, nothing has to go back.
            let _ = link.write(&READS);
        }
        *self.predecessor.borrow_mut() = link;
    }

    /// The socket was passed to the process at the other end of `link`.
    pub(crate) fn precede(&self, link: OwnedFd, worker: &Worker) {
        *self.successor.borrow_mut() = Link::new(link).ok();
        if self.is_between() {
            *self.stay.borrow_mut() = Some(worker.stay());
        }
    }

    /// Whether this process stands between two others: what they pass to each other goes through it.
    pub(crate) fn is_between(&self) -> bool {
        self.predecessor.borrow().is_some() && self.successor.borrow().is_some()
    }

    /// Whether a successor reads from the socket.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.is_succeeded.get()
    }

    /// Whose connection a datagram belongs to, if it is not one of this process or a new one. New ones are for the
    /// successor if this process takes no more.
    pub(crate) fn owner(&self, index: u8, datagram: &[u8], takes_more: bool) -> Option<Other> {
        let Some(generation) = connection_ids::generation_of(index, datagram) else {
            let has_successor = !takes_more && self.successor.borrow().is_some();
            return has_successor.then_some(Other::Successor);
        };
        let ahead = generation.wrapping_sub(sluice_net::datagrams::generation()) as i8;
        match ahead {
            0 => None,
            1.. => Some(Other::Successor).filter(|_| self.successor.borrow().is_some()),
            _ => Some(Other::Predecessor).filter(|_| self.predecessor.borrow().is_some()),
        }
    }

    fn link(&self, other: Other) -> &RefCell<Option<Link>> {
        match other {
            Other::Predecessor => &self.predecessor,
            Other::Successor => &self.successor,
        }
    }

    /// Passes a datagram to another process. If its link is full, the datagram is lost, as it may be on the network.
    pub(crate) fn pass(&self, to: Other, origin: &Origin, datagram: &[u8], out: &mut Vec<u8>) {
        out.clear();
        write_head(origin, out);
        out.extend_from_slice(datagram);
        let link = self.link(to);
        let sent = link.borrow().as_ref().map(|link| link.write(out));
        if let Some(Err(error)) = sent
            && error.kind() != ErrorKind::WouldBlock
        {
            self.lose(to);
        }
    }

    /// The other process is gone.
    fn lose(&self, other: Other) {
        *self.link(other).borrow_mut() = None;
        *self.stay.borrow_mut() = None;
        self.changed.notify_waiters();
        if other == Other::Successor {
            self.is_succeeded.set(false);
        }
    }

    /// The next message of a link. Without a link it stays `Pending`.
    pub(crate) fn poll_passed(
        &self,
        from: Other,
        cx: &mut Context<'_>,
        buf: &mut [u8; MESSAGE_BYTES_MAX],
    ) -> Poll<(Passed, usize)> {
        loop {
            let read = {
                let link = self.link(from).borrow();
                let Some(link) = &*link else {
                    return Poll::Pending;
                };
                match ready!(link.reader.poll_read_ready(cx)) {
                    Ok(()) => link.reader.try_read(buf),
                    Err(error) => Err(error),
                }
            };
            match read {
                Ok(0) => self.lose(from),
                Ok(count) => match read_message(&buf[..count]) {
                    Some(passed) => {
                        if let Passed::Reads = passed {
                            self.is_succeeded.set(from == Other::Successor);
                        }
                        return Poll::Ready((passed, count));
                    }
                    None => continue,
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.lose(from),
            }
        }
    }
}

/// Our end of a link, which keeps messages apart.
struct Link {
    reader: UnixStream,
    /// The same socket: the runtime does not know at once that it can be written to.
    writer: std::os::unix::net::UnixStream,
}

impl Link {
    fn new(link: OwnedFd) -> io::Result<Link> {
        let writer = std::os::unix::net::UnixStream::from(link);
        writer.set_nonblocking(true)?;
        let reader = UnixStream::from_std(writer.try_clone()?)?;
        Ok(Link { reader, writer })
    }

    fn write(&self, message: &[u8]) -> io::Result<usize> {
        let mut writer = &self.writer;
        writer.write(message)
    }
}

fn write_head(origin: &Origin, out: &mut Vec<u8>) {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    out.extend_from_slice(&octets(origin.remote.ip()));
    out.extend_from_slice(&origin.remote.port().to_be_bytes());
    out.extend_from_slice(&origin.local_ip.map_or([0; 16], octets));
    let flags = [
        (HAS_LOCAL, origin.local_ip.is_some()),
        (REMOTE_V4, origin.remote.is_ipv4()),
        (LOCAL_V4, origin.local_ip.is_some_and(|ip| ip.is_ipv4())),
    ];
    let set = flags.iter().filter(|(_, is_set)| *is_set);
    out.push(set.map(|(flag, _)| flag).sum());
    out.push(origin.ecn.map_or(0, |ecn| ecn as u8));
}

fn read_message(message: &[u8]) -> Option<Passed> {
    if message == READS {
        return Some(Passed::Reads);
    }
    let head = message.first_chunk::<HEAD_BYTES>()?;
    let flags = head[34];
    // An address that was mapped into IPv6 by the kernel is another one for QUIC.
    let ip = |at: usize, v4: u8| {
        let octets: [u8; 16] = head[at..at + 16].try_into().ok()?;
        let ip = IpAddr::V6(Ipv6Addr::from(octets));
        Some(if flags & v4 == 0 {
            ip
        } else {
            ip.to_canonical()
        })
    };
    let port = u16::from_be_bytes([head[16], head[17]]);
    let local = ip(18, LOCAL_V4)?;
    let origin = Origin {
        remote: SocketAddr::new(ip(0, REMOTE_V4)?, port),
        local_ip: (flags & HAS_LOCAL != 0).then_some(local),
        ecn: EcnCodepoint::from_bits(head[35]),
    };
    Some(Passed::Datagram(origin, HEAD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_passed_as_it_came() {
        for (remote, local) in [
            ("[2001:db8::1]:4433", Some("2001:db8::2")),
            ("192.0.2.1:1", None),
            ("[::ffff:192.0.2.1]:1", Some("192.0.2.2")),
        ] {
            let origin = Origin {
                remote: remote.parse().unwrap(),
                local_ip: local.map(|ip| ip.parse().unwrap()),
                ecn: Some(EcnCodepoint::Ect0),
            };
            let mut message = Vec::new();
            write_head(&origin, &mut message);
            message.extend_from_slice(b"datagram");
            let Some(Passed::Datagram(found, at)) = read_message(&message) else {
                panic!("it is one");
            };
            assert_eq!(&message[at..], b"datagram");
            assert_eq!(found, origin);
        }
        assert!(matches!(read_message(&READS), Some(Passed::Reads)));
        assert!(read_message(&[0; 7]).is_none());
    }
}
