//! The UDP socket of one connection: moves datagrams between it and QUIC, and runs QUIC's timer. The peer of the socket is
//! fixed, so the kernel reports when nobody listens there.

use std::future::Future;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint,
    Endpoint, EndpointConfig, Transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::SockRef;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};
use tokio::time::Sleep;

use crate::limits::{
    QUIC_DATAGRAM_BYTES_MAX, QUIC_RECEIVE_TURNS, QUIC_SEGMENTS_MAX, QUIC_SENT_PER_TURN_MAX,
    QUIC_SENT_SEGMENTS_MAX, QUIC_SOCKET_BYTES,
};
use crate::pool::Pool;
use crate::race::Local;
use sluice_net::room::Room;
use sluice_net::sys::packets::stop_timestamps;
use sluice_net::sys::readiness::register;
use sluice_net::worker::Worker;

/// The version of QUIC (RFC 9000, section 15). quinn-proto would offer drafts as well.
const VERSIONS: [u32; 1] = [1];

/// A socket, and QUIC's endpoint for its only connection.
pub(super) struct Packets {
    io: Rc<AsyncFd<UdpSocket>>,
    room: Room,
    /// Ready when the kernel reports an error, which makes the socket neither readable nor writable.
    watch: Watch,
    state: UdpSocketState,
    peer: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    /// Packets that the kernel had no room for.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// Datagrams sent.
    sent: u64,
    /// QUIC's timer, made when it is first needed.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What waits for an error of a socket.
type Watch = Pin<Box<dyn Future<Output = io::Result<Ready>>>>;

/// Why a connection cannot begin.
pub(super) enum Unbegun {
    /// The system refuses the socket.
    Socket(io::Error),
    /// QUIC refuses the address or the name.
    Quic(ConnectError),
}

impl From<io::Error> for Unbegun {
    fn from(error: io::Error) -> Unbegun {
        Unbegun::Socket(error)
    }
}

impl Packets {
    /// A socket for a connection to `peer`, and the connection, of which nothing was sent yet.
    pub(super) fn begin(
        config: ClientConfig,
        name: &str,
        peer: SocketAddr,
        local: Local,
    ) -> Result<(Packets, Connection), Unbegun> {
        let socket = open(peer, local)?;
        let state = UdpSocketState::new((&socket).into())?;
        stop_timestamps(socket.as_fd())?;
        let mut endpoint_config = EndpointConfig::default();
        endpoint_config.supported_versions(VERSIONS.to_vec());
        let finds_mtu = !state.may_fragment();
        let mut endpoint = Endpoint::new(Arc::new(endpoint_config), None, finds_mtu, None);
        let begun = endpoint.connect(Instant::now(), config, peer, name);
        let (handle, quic) = begun.map_err(Unbegun::Quic)?;
        let io = Rc::new(register(socket, Interest::READABLE)?);
        let packets = Packets {
            watch: watch(&io),
            io,
            room: Room::default(),
            state,
            peer,
            endpoint,
            handle,
            unsent: None,
            sent: 0,
            sleep: None,
        };
        Ok((packets, quic))
    }

    /// Datagrams sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Receives, sends and runs the timer once. Returns whether anything happened; if not, the task is woken when something
    /// may.
    ///
    /// # Errors
    ///
    /// The kernel reports that the peer cannot be reached, or that nobody listens there.
    pub(super) fn exchange(
        &mut self,
        quic: &mut Connection,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        self.look(cx)?;
        let has_received = self.receive(quic, worker, cx)?;
        self.inform(quic);
        let has_sent = self.send(quic, worker, cx)?;
        // Last, as packets that were sent change what the timer waits for.
        Ok(has_received || has_sent || self.poll_timer(quic, cx))
    }

    /// Takes the errors that the kernel reports.
    fn look(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(looked) = self.watch.as_mut().poll(cx) {
            looked?;
            // Until the next one is reported.
            let seen = |_: &UdpSocket| Err::<(), _>(ErrorKind::WouldBlock.into());
            let _ = self.io.try_io(Interest::ERROR, seen);
            self.watch = watch(&self.io);
            match self.io.get_ref().take_error()? {
                Some(error) if is_unreachable(&error) => return Err(error),
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        quic: &mut Connection,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut buf = Pool::of(worker).datagrams.borrow_mut();
        buf.resize(QUIC_SEGMENTS_MAX * QUIC_DATAGRAM_BYTES_MAX, 0);
        for turn in 0..QUIC_RECEIVE_TURNS {
            let Poll::Ready(mut guard) = self.io.poll_read_ready(cx)? else {
                return Ok(turn > 0);
            };
            let mut metas = [RecvMeta::default()];
            let mut slices = [IoSliceMut::new(&mut buf)];
            let received = guard.try_io(|io| {
                self.state
                    .recv(io.get_ref().into(), &mut slices, &mut metas)
            });
            match received {
                Ok(Ok(_)) => self.hand_over(quic, &metas[0], &buf),
                Ok(Err(error)) if is_unreachable(&error) => return Err(error),
                // Looking again registers the task. Others are reports about single packets: that a probe was too large for the
                // path, for example.
                Err(_) | Ok(Err(_)) => {}
            }
        }
        Ok(true)
    }

    /// Hands a train of datagrams to QUIC.
    fn hand_over(&mut self, quic: &mut Connection, meta: &RecvMeta, buf: &[u8]) {
        let now = Instant::now();
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let mut response = Vec::new();
        for datagram in buf[..meta.len].chunks(meta.stride.max(1)) {
            let bytes = BytesMut::from(datagram);
            let event = self
                .endpoint
                .handle(now, self.peer, None, ecn, bytes, &mut response);
            // Packets that belong to no connection of ours get no response.
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                quic.handle_event(event);
            }
        }
    }

    /// Gives the endpoint the events of the connection, and the connection its replies.
    fn inform(&mut self, quic: &mut Connection) {
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(self.handle, event) {
                quic.handle_event(reply);
            }
        }
    }

    /// Sends packets as long as there are any, up to a limit. Returns whether some were sent.
    fn send(
        &mut self,
        quic: &mut Connection,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let segments_max = self.state.max_gso_segments().min(QUIC_SENT_SEGMENTS_MAX);
        let now = Instant::now();
        let mut bytes = 0;
        while bytes < QUIC_SENT_PER_TURN_MAX {
            let (transmit, out) = match self.unsent.take() {
                Some(unsent) => unsent,
                None => {
                    let mut out = worker.buffers.large();
                    match quic.poll_transmit(now, segments_max, &mut out) {
                        Some(transmit) => (transmit, out),
                        None => {
                            worker.buffers.give_back(out);
                            return Ok(bytes > 0);
                        }
                    }
                }
            };
            if !self.pass(&transmit, &out, cx)? {
                self.unsent = Some((transmit, out));
                return Ok(bytes > 0);
            }
            bytes += transmit.size;
            self.sent += 1;
            worker.buffers.give_back(out);
        }
        Ok(true)
    }

    /// Passes packets to the kernel; false if it has no room, and then the task is woken when it may have. Other failures
    /// than that of the peer are those of single packets, which QUIC repairs.
    fn pass(&self, transmit: &Transmit, bytes: &[u8], cx: &mut Context<'_>) -> io::Result<bool> {
        let ecn = transmit.ecn;
        let packets = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let socket = self.io.get_ref();
        while self.room.poll(cx)?.is_ready() {
            let send = || self.state.try_send(socket.into(), &packets);
            let sent = self.room.write(socket.as_fd(), send);
            match sent {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if is_unreachable(&error) => return Err(error),
                Ok(()) | Err(_) => return Ok(true),
            }
        }
        Ok(false)
    }

    fn poll_timer(&mut self, quic: &mut Connection, cx: &mut Context<'_>) -> bool {
        let Some(due) = quic.poll_timeout() else {
            return false;
        };
        let now = Instant::now();
        if due <= now {
            quic.handle_timeout(now);
            return true;
        }
        let due = tokio::time::Instant::from_std(due);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        // A timer that fires too early only looks again. Most are put off again and again.
        if sleep.deadline() > due || sleep.is_elapsed() {
            sleep.as_mut().reset(due);
        }
        matches!(sleep.as_mut().poll(cx), Poll::Ready(()))
    }
}

fn watch(io: &Rc<AsyncFd<UdpSocket>>) -> Watch {
    let io = io.clone();
    Box::pin(async move { Ok(io.ready(Interest::ERROR).await?.ready()) })
}

/// A socket from a local address to `peer`.
fn open(peer: SocketAddr, local: Local) -> io::Result<UdpSocket> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let from = local.address.unwrap_or(any);
    let socket = UdpSocket::bind(from)
        .map_err(|error| io::Error::new(error.kind(), format!("local address {from}: {error}")))?;
    let size = |bytes: Option<u32>| {
        bytes.map_or(QUIC_SOCKET_BYTES, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        })
    };
    // The kernel cuts what is more than the system allows.
    SockRef::from(&socket).set_recv_buffer_size(size(local.buffers.receive))?;
    SockRef::from(&socket).set_send_buffer_size(size(local.buffers.send))?;
    socket.connect(peer)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether an error is about the peer rather than about one packet, of which the kernel reports some on the next call, whatever
/// that does.
fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_is_too_large_does_not_end_the_connection() {
        let is_unreachable = |code| is_unreachable(&io::Error::from_raw_os_error(code));
        // EMSGSIZE, by which the kernel reports that a router had no room for a packet; EAGAIN.
        assert!(!is_unreachable(90) && !is_unreachable(11));
        // ECONNREFUSED, EHOSTUNREACH.
        assert!(is_unreachable(111) && is_unreachable(113));
    }
}
