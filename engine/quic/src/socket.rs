//! The UDP socket of an endpoint: trains of datagrams in, with the address they were sent to, and packets out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, Waker, ready};

use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::limits::{DATAGRAM_BYTES_MAX, RECEIVE_BATCH, SEGMENTS_MAX};

/// A socket that is registered with the runtime of its worker.
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    /// The tasks of connections that wait until it can be written to, by the numbers of the connections: tokio remembers only
    /// the last one that asks.
    writers: RefCell<HashMap<usize, Waker>>,
    /// The task that reads, and wakes them.
    reader: RefCell<Waker>,
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
    pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Socket> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Socket {
            io: UdpSocket::from_std(socket)?,
            state,
            writers: RefCell::default(),
            reader: RefCell::new(Waker::noop().clone()),
        })
    }

    /// The address that it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.io.local_addr()
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
            ready!(self.io.poll_recv_ready(cx))?;
            let Batch {
                bytes, each, metas, ..
            } = batch;
            let mut chunks = bytes.chunks_mut(*each).map(IoSliceMut::new);
            let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] =
                std::array::from_fn(|_| chunks.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            let received = self.io.try_io(Interest::READABLE, || {
                self.state.recv((&self.io).into(), &mut slices, metas)
            });
            match received {
                Ok(count) => {
                    batch.filled = count;
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends the packets in `bytes`. If the kernel has no room, the waiting task, of a connection with a number, is woken when
    /// it may have.
    pub(crate) fn send(
        &self,
        transmit: &quinn_proto::Transmit,
        bytes: &[u8],
        waiting: Option<(usize, &Waker)>,
    ) -> io::Result<()> {
        let sent = self.state.try_send(
            (&self.io).into(),
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
        if let (Err(error), Some((number, waker))) = (&sent, waiting)
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.writers.borrow_mut().insert(number, waker.clone());
            self.reader.borrow().wake_by_ref();
        }
        sent
    }

    /// Wakes the task that reads.
    pub(crate) fn wake_reader(&self) {
        self.reader.borrow().wake_by_ref();
    }

    /// Wakes those who wait for room, when there is some.
    pub(crate) fn poll_writers(&self, cx: &mut Context<'_>) {
        self.reader.borrow_mut().clone_from(cx.waker());
        if self.writers.borrow().is_empty() {
            return;
        }
        // Clears the readiness that the failed call has disproved.
        let _ = self.io.try_io(Interest::WRITABLE, || {
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        });
        if self.io.poll_send_ready(cx).is_ready() {
            self.writers.take().into_values().for_each(Waker::wake);
        }
    }
}
