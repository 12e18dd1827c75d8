//! Sends many datagrams with one system call (sendmmsg(2)), each to an address of its own.

use std::io;
use std::iter::zip;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::Domain;

use super::send::set_at;
use crate::limits::PACKETS_MAX;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Where it goes.
    pub destination: SocketAddr,
    /// The address it comes from; `None`: the one that the socket is bound to, or that the route has.
    pub source: Option<IpAddr>,
    /// Its two bits of explicit congestion notification (RFC 3168, section 5); `None`: those of the socket.
    pub ecn: Option<u8>,
    /// What it carries.
    pub bytes: &'a [u8],
}

/// Sends `packets` in their order, at most [`PACKETS_MAX`] of them. Returns how many were sent; it is the fault of the next
/// one if that is not all.
///
/// # Errors
///
/// The first packet cannot be sent: the kernel has no room ([`io::ErrorKind::WouldBlock`]), or it refuses this one.
pub fn send_packets<'a>(
    socket: BorrowedFd<'_>,
    packets: impl Iterator<Item = Packet<'a>>,
) -> io::Result<usize> {
    let mut messages = [Message::EMPTY; PACKETS_MAX];
    // SAFETY: these structures of integers and pointers may be zero.
    let mut parts: [libc::iovec; PACKETS_MAX] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; PACKETS_MAX] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    let places = zip(zip(&mut messages, &mut parts), &mut headers);
    for (packet, ((message, part), header)) in zip(packets, places) {
        message.describe(&packet);
        part.iov_base = packet.bytes.as_ptr().cast_mut().cast();
        part.iov_len = packet.bytes.len();
        let header = &mut header.msg_hdr;
        header.msg_name = message.name.as_mut_ptr().cast();
        header.msg_namelen = message.name_len as libc::socklen_t;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        if message.control_len > 0 {
            header.msg_control = message.control.as_mut_ptr().cast();
            header.msg_controllen = message.control_len as _;
        }
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: each of the first `count` headers points to a message, a part and, through it, bytes, which all live through
    // the call and are only read. The kernel writes the lengths it has sent to the headers.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            flags as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Gives the socket these two bits of explicit congestion notification, for packets without their own. Returns whether it
/// has them.
pub fn set_ecn(socket: BorrowedFd<'_>, ecn: u8) -> bool {
    let socket = socket2::SockRef::from(&socket);
    let is_v6 = socket.domain().is_ok_and(|domain| domain == Domain::IPV6);
    // A socket of IPv6 may send over IPv4 as well.
    let has_v6 = !is_v6 || socket.set_tclass_v6(ecn.into()).is_ok();
    has_v6 && socket.set_tos_v4(ecn.into()).is_ok()
}

/// Stops the kernel from reporting when each datagram arrived (`SO_TIMESTAMPNS`, socket(7)). quinn-udp asks for it, but what
/// it reserves for control messages has no room for it beside the others: the bits of congestion notification of datagrams
/// that the kernel has joined would be lost, and ECN with them (RFC 9000, section 13.4.2).
///
/// # Errors
///
/// That of the system call.
pub fn stop_timestamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_at(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0)
}

/// The bytes of a `sockaddr_in6`, the longer of both kinds.
const NAME_BYTES: usize = 28;

/// The bytes of control messages that a packet has at most: its source and its bits of congestion notification.
const CONTROL_BYTES: usize = 64;

/// The alignment of control messages, and of the parts of one (cmsg(3)).
const CONTROL_ALIGN: usize = size_of::<usize>();

/// A packet as the kernel wants it described.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Message {
    control: [u8; CONTROL_BYTES],
    name: [u8; NAME_BYTES],
    name_len: usize,
    control_len: usize,
}

impl Message {
    const EMPTY: Message = Message {
        control: [0; CONTROL_BYTES],
        name: [0; NAME_BYTES],
        name_len: 0,
        control_len: 0,
    };

    fn describe(&mut self, packet: &Packet<'_>) {
        self.name(packet.destination);
        match packet.source {
            // `in_pktinfo`: no interface, the source, nothing (ip(7)).
            Some(IpAddr::V4(ip)) => {
                let [a, b, c, d] = ip.octets();
                let info = [0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0];
                self.control(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // `in6_pktinfo`: the source, and no interface (ipv6(7)).
            Some(IpAddr::V6(ip)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                self.control(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(ecn) = packet.ecn {
            let is_v4 = packet.destination.ip().to_canonical().is_ipv4();
            let (level, kind) = match is_v4 {
                true => (libc::IPPROTO_IP, libc::IP_TOS),
                false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            self.control(level, kind, &i32::from(ecn).to_ne_bytes());
        }
    }

    /// `sockaddr_in` (ip(7)) or `sockaddr_in6` (ipv6(7)).
    fn name(&mut self, addr: SocketAddr) {
        let name = &mut self.name;
        let family = match addr {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        name[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        name[2..4].copy_from_slice(&addr.port().to_be_bytes());
        self.name_len = match addr {
            SocketAddr::V4(addr) => {
                name[4..8].copy_from_slice(&addr.ip().octets());
                16
            }
            SocketAddr::V6(addr) => {
                name[4..8].copy_from_slice(&addr.flowinfo().to_ne_bytes());
                name[8..24].copy_from_slice(&addr.ip().octets());
                name[24..28].copy_from_slice(&addr.scope_id().to_ne_bytes());
                NAME_BYTES
            }
        };
    }

    /// Adds a control message (cmsg(3)): its length without padding, level, type and data.
    fn control(&mut self, level: i32, kind: i32, data: &[u8]) {
        let head = size_of::<usize>() + 2 * size_of::<i32>();
        let (length, at) = (head + data.len(), self.control_len);
        let out = &mut self.control[at..];
        let (out_length, out) = out.split_at_mut(size_of::<usize>());
        out_length.copy_from_slice(&length.to_ne_bytes());
        out[..4].copy_from_slice(&level.to_ne_bytes());
        out[4..8].copy_from_slice(&kind.to_ne_bytes());
        out[8..8 + data.len()].copy_from_slice(data);
        self.control_len += length.next_multiple_of(CONTROL_ALIGN);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    fn packet(destination: SocketAddr, bytes: &[u8]) -> Packet<'_> {
        Packet {
            destination,
            source: None,
            ecn: None,
            bytes,
        }
    }

    fn received(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut bytes = [0; 64];
        let (count, from) = socket.recv_from(&mut bytes).unwrap();
        (bytes[..count].to_vec(), from)
    }

    #[test]
    fn one_call_reaches_many_addresses() {
        let sender = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let receivers = [(); 3].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let packets = receivers.iter().map(|receiver| Packet {
            source: Some(Ipv4Addr::new(127, 0, 0, 9).into()),
            ecn: Some(1),
            ..packet(receiver.local_addr().unwrap(), b"to one of many")
        });
        assert_eq!(send_packets(sender.as_fd(), packets).unwrap(), 3);
        for receiver in &receivers {
            let (bytes, from) = received(receiver);
            assert_eq!(bytes, b"to one of many");
            assert_eq!(from.ip(), IpAddr::from([127, 0, 0, 9]));
        }
    }

    #[test]
    fn a_socket_of_both_families_sends_to_both() {
        let Ok(sender) = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
            println!("skipped: no IPv6");
            return;
        };
        let v4 = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let v6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        let to_v4 = (mapped, v4.local_addr().unwrap().port()).into();
        let packets = [
            Packet {
                source: Some(mapped.into()),
                ecn: Some(2),
                ..packet(to_v4, b"four")
            },
            Packet {
                source: Some(Ipv6Addr::LOCALHOST.into()),
                ecn: Some(2),
                ..packet(v6.local_addr().unwrap(), b"six")
            },
            Packet {
                source: Some(Ipv4Addr::new(127, 0, 0, 8).into()),
                ..packet(to_v4, b"four again")
            },
        ];
        assert_eq!(
            send_packets(sender.as_fd(), packets.into_iter()).unwrap(),
            3
        );
        assert_eq!(received(&v4).0, b"four");
        assert_eq!(received(&v6).0, b"six");
        let (bytes, from) = received(&v4);
        assert_eq!(bytes, b"four again");
        assert_eq!(from.ip(), IpAddr::from([127, 0, 0, 8]));
    }

    #[test]
    fn a_packet_that_the_kernel_refuses_ends_the_call() {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = receiver.local_addr().unwrap();
        let nowhere = (Ipv4Addr::LOCALHOST, 0).into();
        let packets = [
            packet(addr, b"a"),
            packet(nowhere, b"b"),
            packet(addr, b"c"),
        ];
        let send = |from: usize| send_packets(sender.as_fd(), packets[from..].iter().copied());
        assert_eq!(send(0).unwrap(), 1);
        let error = send(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(send(2).unwrap(), 1);
        assert_eq!(received(&receiver).0, b"a");
        assert_eq!(received(&receiver).0, b"c");
    }

    #[test]
    fn a_call_takes_as_many_as_fit() {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = receiver.local_addr().unwrap();
        let packets = std::iter::repeat_n(packet(addr, b"x"), PACKETS_MAX + 1);
        assert_eq!(send_packets(sender.as_fd(), packets).unwrap(), PACKETS_MAX);
    }
}
