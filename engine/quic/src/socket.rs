//! The UDP socket of an endpoint: trains of datagrams in, with the address they were sent to, and packets out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker, ready};

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use sluice_net::room::Room;
use sluice_net::sys::packets::{Packet, send_packets, set_ecn, stop_timestamps};
use sluice_net::sys::readiness::register;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::{DATAGRAM_BYTES_MAX, RECEIVE_BATCH, SEGMENTS_MAX};
use crate::outbox::Outbox;

/// A socket that is registered with the runtime of its worker.
pub(crate) struct Socket {
    io: AsyncFd<UdpSocket>,
    room: Room,
    state: UdpSocketState,
    /// The tasks of connections that wait until it can be written to, by the numbers of the connections: tokio remembers only
    /// the last one that asks.
    writers: RefCell<HashMap<usize, Waker>>,
    /// The task that reads, and wakes them.
    reader: RefCell<Waker>,
    /// What connections send in this round.
    outbox: RefCell<Outbox>,
    /// Whether it is bound to a single address: all packets are sent from there.
    has_one_address: bool,
    /// What packets carry that do not say otherwise.
    ecn: Option<EcnCodepoint>,
}

/// Buffers for one call.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    each: usize,
    metas: [RecvMeta; RECEIVE_BATCH],
    filled: usize,
}

impl Batch {
    /// Buffers for `socket`.
    pub(crate) fn new(socket: &Socket) -> Batch {
        let each = usize::from(DATAGRAM_BYTES_MAX) * socket.state.gro_segments().max(1);
        Batch {
            bytes: vec![0; each * RECEIVE_BATCH],
            each,
            metas: [RecvMeta::default(); RECEIVE_BATCH],
            filled: 0,
        }
    }

    /// The datagrams received, each with its facts.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (&RecvMeta, &[u8])> {
        let metas = self.metas[..self.filled].iter();
        let trains = metas.zip(self.bytes.chunks(self.each));
        trains.flat_map(|(meta, bytes)| {
            let train = &bytes[..meta.len];
            train
                .chunks(meta.stride.max(1))
                .map(move |datagram| (meta, datagram))
        })
    }
}

impl Socket {
    /// Registers a socket.
    ///
    /// # Errors
    ///
    /// The kernel refuses it.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Socket> {
        let state = UdpSocketState::new((&socket).into())?;
        stop_timestamps(socket.as_fd())?;
        let local = socket.local_addr()?;
        // That of almost all packets, which then need not say so (RFC 9000, section 13.4).
        let ecn = EcnCodepoint::Ect0;
        let has_ecn = set_ecn(socket.as_fd(), ecn as u8);
        Ok(Socket {
            has_one_address: !local.ip().is_unspecified(),
            ecn: has_ecn.then_some(ecn),
            outbox: RefCell::default(),
            io: register(socket, Interest::READABLE)?,
            room: Room::default(),
            state,
            writers: RefCell::default(),
            reader: RefCell::new(Waker::noop().clone()),
        })
    }

    /// The address that it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// Whether the kernel may send datagrams in fragments: then the path MTU cannot be found.
    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// How many packets one call can send.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments().min(SEGMENTS_MAX)
    }

    /// Receives once.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.io.poll_read_ready(cx))?;
            let Batch {
                bytes, each, metas, ..
            } = batch;
            let mut chunks = bytes.chunks_mut(*each).map(IoSliceMut::new);
            let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] =
                std::array::from_fn(|_| chunks.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            let received =
                guard.try_io(|io| self.state.recv(io.get_ref().into(), &mut slices, metas));
            let Ok(received) = received else { continue };
            if received.as_ref().is_ok_and(|count| *count < RECEIVE_BATCH) {
                // The socket is empty: saves the call that would only find that. What arrives before the next look at
                // readiness is an event of its own.
                guard.clear_ready();
            }
            batch.filled = received?;
            return Poll::Ready(Ok(()));
        }
    }

    /// Calls `write`, unless the kernel's buffer is still full.
    fn write<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.room.write(self.io.get_ref().as_fd(), write)
    }

    /// Sends the packets in `bytes` at once.
    pub(crate) fn send(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
        let ecn = transmit.ecn.map(|ecn| ecn as u8);
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: ecn.and_then(quinn_udp::EcnCodepoint::from_bits),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        self.write(|| self.state.try_send(self.io.get_ref().into(), &transmit))
    }

    /// Sends the packets in `bytes`: a single one with those of other connections in the same round. If the kernel's
    /// buffer is full, the waiting task, of a connection with this number, is woken when it may have room.
    ///
    /// # Errors
    ///
    /// The kernel's buffer is full ([`ErrorKind::WouldBlock`]).
    pub(crate) fn post(
        &self,
        transmit: &Transmit,
        bytes: &[u8],
        (number, waker): (usize, &Waker),
    ) -> io::Result<()> {
        let posted = self.try_post(transmit, bytes);
        if posted.as_ref().is_err_and(is_full) {
            self.writers.borrow_mut().insert(number, waker.clone());
            self.wake_reader();
        }
        posted
    }

    fn try_post(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<()> {
        let mut outbox = self.outbox.borrow_mut();
        let is_single = transmit.segment_size.is_none();
        if !is_single || outbox.is_full() {
            // What was sent before goes before.
            self.flush(&mut outbox)?;
        }
        if !is_single {
            return self.send(transmit, bytes);
        }
        let is_first = outbox.push(&Packet {
            destination: transmit.destination,
            source: transmit.src_ip.filter(|_| !self.has_one_address),
            ecn: match transmit.ecn == self.ecn {
                true => None,
                false => Some(transmit.ecn.map_or(0, |ecn| ecn as u8)),
            },
            bytes: &bytes[..transmit.size],
        });
        if outbox.is_due() {
            // What does not fit waits with the reader.
            if self.flush(&mut outbox).is_err() {
                self.wake_reader();
            }
        } else if is_first {
            self.wake_reader();
        }
        Ok(())
    }

    /// Sends what waits in the outbox.
    fn flush(&self, outbox: &mut Outbox) -> io::Result<()> {
        outbox.flush(|outbox, from| {
            self.write(|| send_packets(self.io.get_ref().as_fd(), outbox.packets_from(from)))
        })
    }

    /// Each of these datagrams, received just now, may lead to a packet.
    pub(crate) fn expect(&self, datagrams: usize) {
        self.outbox.borrow_mut().expect(datagrams);
    }

    /// Wakes the task that reads.
    pub(crate) fn wake_reader(&self) {
        self.reader.borrow().wake_by_ref();
    }

    /// Ends a round: sends what connections have sent in it, and wakes those who wait for room when there is some.
    pub(crate) fn poll_writers(&self, cx: &mut Context<'_>) {
        self.reader.borrow_mut().clone_from(cx.waker());
        let mut outbox = self.outbox.borrow_mut();
        outbox.end_round();
        if !outbox.is_blocked() {
            let _ = self.flush(&mut outbox);
        }
        while outbox.is_blocked() || !self.writers.borrow().is_empty() {
            if self.room.poll(cx).is_pending() {
                return;
            }
            if self.flush(&mut outbox).is_ok() {
                self.writers.take().into_values().for_each(Waker::wake);
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Nobody else sends what still waits. What does not fit is like lost packets.
        let _ = self.flush(&mut self.outbox.borrow_mut());
    }
}

/// Whether the kernel had no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn bound(ip: impl Into<std::net::IpAddr>) -> UdpSocket {
        let socket = UdpSocket::bind((ip.into(), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    /// A sender, and a receiver with its address.
    fn pair(sender: UdpSocket) -> (Socket, Socket, SocketAddr) {
        let receiver = Socket::new(bound(Ipv4Addr::LOCALHOST)).unwrap();
        let addr = receiver.local_addr().unwrap();
        (Socket::new(sender).unwrap(), receiver, addr)
    }

    fn transmit(destination: SocketAddr, size: usize) -> Transmit {
        Transmit {
            destination,
            ecn: Some(EcnCodepoint::Ect0),
            size,
            segment_size: None,
            src_ip: None,
        }
    }

    fn post(socket: &Socket, transmit: &Transmit, bytes: &[u8]) {
        socket.post(transmit, bytes, (0, Waker::noop())).unwrap();
    }

    /// The datagrams of the next calls, until there are `count`: text, ECN and the address they come from.
    async fn received(socket: &Socket, count: usize) -> Vec<(String, u8, SocketAddr)> {
        let mut batch = Batch::new(socket);
        let mut datagrams = Vec::new();
        while datagrams.len() < count {
            poll_fn(|cx| socket.poll_receive(cx, &mut batch))
                .await
                .unwrap();
            for (meta, bytes) in batch.datagrams() {
                let text = String::from_utf8_lossy(bytes).into_owned();
                datagrams.push((text, meta.ecn.map_or(0, |ecn| ecn as u8), meta.addr));
            }
        }
        datagrams
    }

    fn texts(datagrams: &[(String, u8, SocketAddr)]) -> Vec<&str> {
        datagrams.iter().map(|(text, ..)| text.as_str()).collect()
    }

    #[test]
    fn packets_carry_their_own_marks() {
        run(async {
            for ip in ["127.0.0.1", "0.0.0.0", "::"] {
                let ip: std::net::IpAddr = ip.parse().unwrap();
                let (sender, receiver, addr) = pair(bound(ip));
                let to = match ip.is_ipv4() {
                    true => addr,
                    false => (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), addr.port()).into(),
                };
                let mut expected = Vec::new();
                for ecn in [Some(EcnCodepoint::Ect0), None, Some(EcnCodepoint::Ect1)] {
                    let from = std::net::IpAddr::from([127, 0, 0, 5]);
                    post(
                        &sender,
                        &Transmit {
                            ecn,
                            src_ip: Some(from),
                            ..transmit(to, 2)
                        },
                        b"ab",
                    );
                    expected.push(ecn.map_or(0, |ecn| ecn as u8));
                }
                let datagrams = received(&receiver, 3).await;
                let marks: Vec<u8> = datagrams.iter().map(|(_, ecn, _)| *ecn).collect();
                assert_eq!(marks, expected, "from {ip}");
                let last = if ip.is_unspecified() { 5 } else { 1 };
                for (_, _, from) in datagrams {
                    assert_eq!(
                        from.ip(),
                        std::net::IpAddr::from([127, 0, 0, last]),
                        "from {ip}"
                    );
                }
            }
        });
    }

    #[test]
    fn trains_of_packets_keep_their_marks() {
        run(async {
            for ip in ["127.0.0.1", "::ffff:127.0.0.1", "::1"] {
                let ip: std::net::IpAddr = ip.parse().unwrap();
                let any = match ip.is_ipv4() {
                    true => std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    false => std::net::IpAddr::from(Ipv6Addr::UNSPECIFIED),
                };
                if UdpSocket::bind((ip, 0)).is_err() && ip.to_canonical().is_ipv6() {
                    println!("skipped in part: no IPv6");
                    continue;
                }
                let receiver = Socket::new(bound(any)).unwrap();
                let sender = Socket::new(bound(any)).unwrap();
                let to = (ip, receiver.local_addr().unwrap().port()).into();
                let train = Transmit {
                    segment_size: Some(2),
                    ..transmit(to, 6)
                };
                post(&sender, &train, b"aabbcc");
                let datagrams = received(&receiver, 3).await;
                assert_eq!(texts(&datagrams), ["aa", "bb", "cc"], "to {ip}");
                for (_, ecn, _) in datagrams {
                    assert_eq!(ecn, EcnCodepoint::Ect0 as u8, "to {ip}");
                }
            }
        });
    }

    #[test]
    fn packets_of_a_round_go_together_and_in_order() {
        run(async {
            let (sender, receiver, addr) = pair(bound(Ipv4Addr::LOCALHOST));
            sender.expect(3);
            post(&sender, &transmit(addr, 3), b"one");
            post(&sender, &transmit(addr, 3), b"two");
            let mut batch = Batch::new(&receiver);
            let early = poll_fn(|cx| Poll::Ready(receiver.poll_receive(cx, &mut batch))).await;
            assert!(early.is_pending());
            // A train is not put together with other packets, and does not overtake them.
            let train = Transmit {
                segment_size: Some(2),
                ..transmit(addr, 4)
            };
            post(&sender, &train, b"3344");
            let datagrams = received(&receiver, 4).await;
            assert_eq!(texts(&datagrams), ["one", "two", "33", "44"]);
        });
    }

    #[test]
    fn the_reader_ends_a_round() {
        run(async {
            let (sender, receiver, addr) = pair(bound(Ipv4Addr::LOCALHOST));
            sender.expect(2);
            post(&sender, &transmit(addr, 3), b"one");
            sender.poll_writers(&mut Context::from_waker(Waker::noop()));
            assert_eq!(texts(&received(&receiver, 1).await), ["one"]);
        });
    }

    #[test]
    fn a_socket_that_is_closed_sends_what_waits() {
        run(async {
            let (sender, receiver, addr) = pair(bound(Ipv4Addr::LOCALHOST));
            sender.expect(2);
            post(&sender, &transmit(addr, 4), b"last");
            drop(sender);
            assert_eq!(texts(&received(&receiver, 1).await), ["last"]);
        });
    }

    #[test]
    fn a_source_of_ipv6_is_kept() {
        let Ok(socket) = std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
            println!("skipped: no IPv6");
            return;
        };
        socket.set_nonblocking(true).unwrap();
        run(async {
            let receiver = Socket::new(bound(Ipv6Addr::LOCALHOST)).unwrap();
            let sender = Socket::new(socket).unwrap();
            let addr = receiver.local_addr().unwrap();
            let src_ip = Some(Ipv6Addr::LOCALHOST.into());
            post(
                &sender,
                &Transmit {
                    src_ip,
                    ..transmit(addr, 3)
                },
                b"six",
            );
            let datagrams = received(&receiver, 1).await;
            assert_eq!(datagrams[0].0, "six");
            assert_eq!(datagrams[0].1, EcnCodepoint::Ect0 as u8);
            assert_eq!(datagrams[0].2.ip(), Ipv6Addr::LOCALHOST);
        });
    }

    #[test]
    fn a_packet_without_room_waits_for_it() {
        struct Woken(AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        run(async {
            let (sender, receiver, addr) = pair(bound(Ipv4Addr::LOCALHOST));
            let full = || Err::<(), _>(ErrorKind::WouldBlock.into());
            assert!(is_full(&sender.write(full).unwrap_err()));
            // The runtime has not reported yet that there is room.
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            let posted = sender.post(&transmit(addr, 3), b"one", (7, &woken.clone().into()));
            assert!(sender.room.is_awaited());
            let early = poll_fn(|cx| Poll::Ready(sender.room.poll(cx).is_ready())).await;
            assert!(!early);
            poll_fn(|cx| sender.room.poll(cx)).await.unwrap();
            sender.poll_writers(&mut Context::from_waker(Waker::noop()));
            assert_eq!(texts(&received(&receiver, 1).await), ["one"]);
            assert!(!sender.room.is_awaited());
            // It was kept, so its connection has nothing to wait for.
            assert!(posted.is_ok() && !woken.0.load(Ordering::Relaxed));
            // A train is not kept.
            assert!(is_full(&sender.write(full).unwrap_err()));
            let train = Transmit {
                segment_size: Some(2),
                ..transmit(addr, 4)
            };
            let waiting = (7, &woken.clone().into());
            assert!(is_full(&sender.post(&train, b"2233", waiting).unwrap_err()));
            poll_fn(|cx| sender.room.poll(cx)).await.unwrap();
            sender.poll_writers(&mut Context::from_waker(Waker::noop()));
            assert!(woken.0.load(Ordering::Relaxed));
        });
    }
}
