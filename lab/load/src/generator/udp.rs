//! Links that carry datagrams, each for one QUIC connection: datagrams in, trains of packets out. The peer of a socket is
//! fixed, so the kernel reports when nobody listens there.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::limits::{RECEIVE_BATCH, SEGMENTS_MAX, UDP_BUFFER_BYTES};
use super::link::{Fault, Layer, Link, connect_fault};

/// What became of packets that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The kernel has them, or they are lost as packets may be.
    On,
    /// The kernel has no room.
    Full,
}

impl Link {
    /// A link for datagrams to and from `to`. `source` is the local address to send from.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn of_datagrams(to: SocketAddr, source: Option<Ipv4Addr>) -> Result<Link, Fault> {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let open = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
            if let Some(ip) = source {
                net::bind(&socket, &SocketAddrV4::new(ip, 0))?;
            }
            net::connect(&socket, &to)?;
            Ok(socket)
        };
        let socket = open().map_err(connect_fault)?;
        // More than the system allows is cut to that.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER_BYTES);
        let state = UdpSocketState::new((&socket).into());
        let state = state.map_err(|error| io_fault(&error))?;
        // They would take the room of the congestion notification (see `stop_timestamps` of the server).
        setsockopt(&socket, ReceiveTimestampns, &false).map_err(|errno| io_fault(&errno.into()))?;
        Ok(Link {
            socket,
            layer: Layer::Datagrams(Box::new(state)),
        })
    }

    /// Receives what one system call gives, and passes each datagram on. Returns their bytes: 0 when there were none, or the
    /// link has none.
    ///
    /// # Errors
    /// The kernel reports a failure of the path, such as that nobody listens.
    pub fn receive(
        &self,
        buf: &mut [u8],
        mut each: impl FnMut(Option<EcnCodepoint>, &[u8]),
    ) -> Result<usize, Fault> {
        let Layer::Datagrams(state) = &self.layer else {
            return Ok(0);
        };
        let size = buf.len() / RECEIVE_BATCH;
        let mut metas = [RecvMeta::default(); RECEIVE_BATCH];
        let mut chunks = buf.chunks_mut(size).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] =
            std::array::from_fn(|_| chunks.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let received = state.recv((&self.socket).into(), &mut slices, &mut metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(io_fault(&error)),
        };
        let mut bytes = 0;
        for (meta, train) in metas[..count].iter().zip(buf.chunks(size)) {
            bytes += meta.len;
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            for datagram in train[..meta.len].chunks(meta.stride.max(1)) {
                each(ecn, datagram);
            }
        }
        Ok(bytes)
    }

    /// Sends packets. Failures other than a full buffer are those of single packets, which QUIC repairs.
    pub fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Passed {
        let Layer::Datagrams(state) = &self.layer else {
            return Passed::On;
        };
        let sent = state.try_send(
            (&self.socket).into(),
            &quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit
                    .ecn
                    .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &bytes[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            },
        );
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Passed::Full,
            Ok(()) | Err(_) => Passed::On,
        }
    }

    /// How many packets one call can send.
    pub fn segments_max(&self) -> usize {
        match &self.layer {
            Layer::Datagrams(state) => state.max_gso_segments().clamp(1, SEGMENTS_MAX),
            Layer::Plain | Layer::Tls(_) => 1,
        }
    }

    /// Whether the path MTU can be found: the kernel sends no packet in fragments.
    pub fn allows_mtu_discovery(&self) -> bool {
        match &self.layer {
            Layer::Datagrams(state) => !state.may_fragment(),
            Layer::Plain | Layer::Tls(_) => false,
        }
    }
}

fn io_fault(error: &io::Error) -> Fault {
    connect_fault(Errno::from_io_error(error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn trains_of_packets_keep_their_marks() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let link = Link::of_datagrams(addr, None).unwrap();
        let client = net::getsockname(&link.socket).unwrap().try_into().unwrap();
        let state = UdpSocketState::new((&server).into()).unwrap();
        let train = quinn_udp::Transmit {
            destination: client,
            ecn: Some(quinn_udp::EcnCodepoint::Ect0),
            contents: b"aabbcc",
            segment_size: Some(2),
            src_ip: None,
        };
        state.try_send((&server).into(), &train).unwrap();
        let mut buf = vec![0; RECEIVE_BATCH * 64];
        let mut datagrams = Vec::new();
        while datagrams.len() < 3 {
            let each = |ecn, bytes: &[u8]| datagrams.push((ecn, bytes.to_vec()));
            link.receive(&mut buf, each).unwrap();
        }
        let expected = [b"aa", b"bb", b"cc"].map(|two| (Some(EcnCodepoint::Ect0), two.to_vec()));
        assert_eq!(datagrams, expected);
    }
}
