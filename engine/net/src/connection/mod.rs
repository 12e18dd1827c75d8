//! One client connection: it owns socket and timers and moves bytes between them and the codec. The [`Service`]
//! produces the responses.

mod body;
#[cfg(test)]
mod bulk_tests;
mod h1;
mod h2;
mod head;
mod interim_responses;
mod linger;
mod redirect;
mod send;
mod serve_response;
mod shared;
#[cfg(test)]
mod size_tests;
mod wrapped_connection;

use sluice_message::{ConnInfo, LocalEnd, Moment, ProxiedAddresses, Remote};
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::binding::Slot;
use crate::failure::Failure;
use crate::handshakes::Handshake;
use crate::retirement::{InProgress, Outliving};
use crate::service::{Exchange, Linger, Service};
use crate::stream::Stream;
use crate::timer::Timer;
use crate::tls::{Ends, HandshakeError, TlsStream};
use crate::worker::Worker;

use interim_responses::Ahead;

pub(crate) use body::Unread;
pub(crate) use head::start_of;
pub(crate) use send::SendTimeouts;
pub(crate) use serve_response::{Asker, response};
pub use shared::Open;
pub(crate) use shared::Shared;
pub(crate) use wrapped_connection::enter;

/// The socket of a connection and its input, shared with the reader of a request body.
pub(crate) struct Link {
    pub(crate) stream: RefCell<Stream>,
    /// Received and not yet consumed. Holds no memory while the connection is idle.
    pub(crate) input: RefCell<Vec<u8>>,
    /// The state of the current request body.
    pub(crate) body: RefCell<BodyState>,
    pub(crate) body_bytes: Cell<u64>,
    /// Whether the client has sent a body that did not fit into a small buffer: the next read is larger.
    sends_bulk: Cell<bool>,
    /// Interim responses to send before the response; nearly always empty.
    ahead: Ahead,
    pub(crate) timer: Timer,
    /// The requests in progress.
    pub(crate) requests: InProgress,
    /// Its number among the connections of the worker.
    number: Cell<u32>,
    pub(crate) worker: Rc<Worker>,
}

impl Outliving for Link {
    fn close_if_older(&self, generation: u32) {
        if self.requests.is_older(generation) {
            self.stream.borrow().shut_down();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.worker.retirement.remove(self.number.get());
    }
}

/// The state of the current request body.
pub(crate) enum BodyState {
    /// Read to its end, or absent: the input continues with the next request.
    Finished,
    /// A handler reads it.
    Lent,
    /// Dropped before its end.
    Unread(Box<Unread>),
    /// Its framing is invalid, or the client disconnected in the middle.
    Broken,
}

impl Link {
    fn new(stream: Stream, worker: Rc<Worker>) -> Rc<Link> {
        let link = Rc::new(Link {
            stream: RefCell::new(stream),
            input: RefCell::new(Vec::new()),
            body: RefCell::new(BodyState::Finished),
            body_bytes: Cell::new(0),
            sends_bulk: Cell::new(false),
            ahead: Ahead::default(),
            timer: worker.timers.timer(),
            requests: InProgress::default(),
            number: Cell::new(0),
            worker,
        });
        let weak: Weak<Link> = Rc::downgrade(&link);
        link.number.set(link.worker.retirement.add(weak));
        link
    }

    fn is_lent(&self) -> bool {
        matches!(*self.body.borrow(), BodyState::Lent)
    }

    /// Reads once into the input. 0 is the end of the stream. A buffer is allocated only when there is something to
    /// read.
    fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let (mut stream, mut input) = (self.stream.borrow_mut(), self.input.borrow_mut());
        if input.capacity() == 0 {
            // Allocated for the read only: checking for readability first would cost more.
            *input = match self.sends_bulk.get() {
                true => self.worker.buffers.bulk(),
                false => self.worker.buffers.small(),
            };
        } else if input.capacity() == input.len() {
            let more = input.capacity();
            input.reserve(more);
        }
        let read = stream.poll_read(cx, &mut input);
        if read.is_pending() && input.is_empty() {
            self.worker.buffers.give_back(std::mem::take(&mut *input));
        } else if read.is_pending() {
            self.worker.buffers.shrink(&mut input, 0);
        }
        read
    }

    /// Notices a client that disconnects while its response is produced or stalls. Input that arrives meanwhile is
    /// buffered, up to a limit. Makes no system call unless the runtime has reported readiness.
    fn poll_silence(&self, cx: &mut Context<'_>) -> Poll<Failure> {
        if self.is_lent() || self.input.borrow().len() >= crate::limits::PIPELINE_BYTES_MAX {
            return Poll::Pending;
        }
        match ready!(self.poll_fill(cx)) {
            Ok(0) => {
                let closed = crate::failure::FailureKind::Closed;
                Poll::Ready(Failure::new(crate::failure::Side::Client, closed))
            }
            Ok(_) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(client_failure(error)),
        }
    }

    /// Removes `count` bytes from the input.
    fn consume(&self, count: usize) {
        let mut input = self.input.borrow_mut();
        if count == input.len() {
            input.clear();
        } else {
            input.drain(..count);
        }
    }

    /// Notes that a request has ended, and how long to wait for the next one.
    fn rest_until_next(&self, most: Duration, least: Duration) {
        self.requests.end();
        self.timer.set_idle(&self.worker.clock, most, least);
    }

    /// Frees the input buffer with what it holds.
    fn give_back_input(&self) {
        self.input.borrow_mut().clear();
        self.rest();
    }

    /// Frees the input buffer while it is empty.
    fn rest(&self) {
        let mut input = self.input.borrow_mut();
        if input.is_empty() && input.capacity() > 0 {
            self.worker.buffers.give_back(std::mem::take(&mut *input));
        }
    }
}

/// A client connection.
pub(crate) struct Connection<S: Service> {
    link: Rc<Link>,
    slot: Rc<Slot<S>>,
    shared: Rc<Shared<S>>,
    info: Rc<ConnInfo>,
    /// How it closes after its last response; boxed, because it is set only then.
    linger: Option<Box<Linger>>,
    /// When the last response ended, or the connection began.
    rested_at: Moment,
    /// Requests served since the task last yielded to other connections.
    burst: u32,
    /// Whether no request was served on it yet.
    is_new: bool,
    _open: Open,
}

impl<S: Service> Connection<S> {
    /// A newly accepted connection with its two addresses; [`Connection::run`] serves it to its end and holds `open` as
    /// long.
    pub(crate) fn new(
        stream: Stream,
        (remote, local): (Remote, LocalEnd),
        slot: Rc<Slot<S>>,
        shared: Rc<Shared<S>>,
        open: Open,
    ) -> Self {
        let stream = match &slot.binding().tls {
            Some(acceptor) => Stream::Tls(Box::new(TlsStream::server(
                stream,
                acceptor.accept_at(Ends {
                    local: local.address().map(|addr| addr.ip()),
                    remote: match remote {
                        Remote::Ip(addr) => Some(addr.ip()),
                        Remote::Unix => None,
                    },
                }),
            ))),
            None => stream,
        };
        Connection::plain(stream, (remote, local), slot, shared, open)
    }

    /// Like [`Connection::new`] but without TLS, even on a TLS listener.
    pub(crate) fn plain(
        stream: Stream,
        (remote, local): (Remote, LocalEnd),
        slot: Rc<Slot<S>>,
        shared: Rc<Shared<S>>,
        open: Open,
    ) -> Self {
        let worker = shared.worker.clone();
        let mut info = worker.new_connection((remote, local));
        info.facts.socket = stream.tcp_socket().map(|socket| socket.as_raw_fd());
        let link = Link::new(stream, worker);
        Connection {
            link,
            slot,
            shared,
            rested_at: info.facts.began,
            info: Rc::new(info),
            linger: None,
            burst: 0,
            is_new: true,
            _open: open,
        }
    }

    /// Records the addresses from a PROXY protocol header that is not trusted.
    pub(crate) fn note(&mut self, addresses: ProxiedAddresses) {
        Rc::make_mut(&mut self.info).facts.proxied = Some(Box::new(addresses));
    }

    /// Whether the connection should close after the current request: the process drains, or the listener was removed.
    fn is_ending(&self) -> bool {
        self.link.worker.draining.get() || self.slot.is_retired()
    }

    /// Whether an idle connection should be closed. Check it only when there is no input: closing would reset a request
    /// that has just arrived. A new connection is about to send its first request and is left open, and all are
    /// for a while if another process takes over.
    fn is_unwanted(&self) -> bool {
        let timer = &self.link.timer;
        let is_left_open = self.is_new || timer.is_kept() || self.link.worker.lingers.get();
        timer.has_expired() || (self.is_ending() && !is_left_open)
    }

    /// Whether input has arrived in the last moment, before the runtime reports it: closing now would reset a request.
    fn has_just_asked(&self) -> bool {
        self.link.stream.borrow().has_arrived()
    }

    fn is_secure(&self) -> bool {
        matches!(*self.link.stream.borrow(), Stream::Tls(_))
    }

    /// Performs the TLS handshake; returns whether requests may follow.
    async fn secure(&mut self) -> bool {
        let binding = self.slot.binding();
        let timeout = binding.service.settings().handshake_timeout;
        drop(binding);
        let worker = &self.link.worker;
        let room = self.shared.limit.room();
        let Ok(handshake) = worker.handshakes.begin(self.info.remote, room) else {
            worker.counters.handshakes_shed.up();
            return false;
        };
        self.link.timer.set_yielding(&worker.clock, timeout);
        let shaken = shake_hands(&self.link, &handshake).await;
        if handshake.has_waited() {
            worker.counters.handshakes_waited.up();
        }
        drop(handshake);
        match shaken {
            Ok(tls) => {
                // Not shared before the first request.
                let info = Rc::make_mut(&mut self.info);
                info.tls = Some(Box::new(tls));
                self.rested_at = worker.clock.coarse();
                info.facts.handshake = self.rested_at.since(info.facts.began);
                return true;
            }
            Err(Unsecured::Failed(HandshakeError::PlainHttp)) => {
                linger::refuse_plain_http(&self.link).await;
            }
            Err(Unsecured::Failed(_)) => worker.counters.handshakes_failed.up(),
            Err(Unsecured::Shed) => worker.counters.handshakes_shed.up(),
        }
        false
    }
}

impl<S: Service> Drop for Connection<S> {
    fn drop(&mut self) {
        // Requests that continue without it, such as mirrored ones, may still ask.
        if Rc::strong_count(&self.info) > 1 {
            self.info.local.settle();
        }
    }
}

/// Why a handshake did not complete.
enum Unsecured {
    Failed(HandshakeError),
    /// Shed: too many handshakes wait for their turn.
    Shed,
}

async fn shake_hands(
    link: &Link,
    handshake: &Handshake,
) -> Result<sluice_message::TlsInfo, Unsecured> {
    let mut has_prepared = false;
    std::future::poll_fn(|cx| {
        if let Stream::Tls(tls) = &mut *link.stream.borrow_mut() {
            if let Poll::Ready(done) = poll_step(tls, handshake, cx) {
                return Poll::Ready(done);
            }
            if tls.is_preparing() && !has_prepared {
                // The time that we take does not count against the client.
                has_prepared = true;
                link.timer
                    .set(&link.worker.clock, crate::limits::TLS_PREPARATION_TIMEOUT);
            }
        }
        link.timer
            .poll_expired(cx)
            .map(|()| Err(Unsecured::Failed(HandshakeError::Timeout)))
    })
    .await
}

/// Performs a handshake step once there is input and it is this handshake's turn.
fn poll_step(
    tls: &mut TlsStream,
    handshake: &Handshake,
    cx: &mut Context<'_>,
) -> Poll<Result<sluice_message::TlsInfo, Unsecured>> {
    ready!(tls.poll_handshake_input(cx));
    if !tls.is_preparing() && ready!(handshake.poll_turn(cx)).is_err() {
        return Poll::Ready(Err(Unsecured::Shed));
    }
    tls.poll_handshake(cx)
        .map(|done| done.map_err(Unsecured::Failed))
}

/// A pooled or new exchange for the next request of a connection.
pub(crate) fn take_exchange<S: Service>(
    shared: &Shared<S>,
    info: &Rc<ConnInfo>,
) -> Box<Exchange<S::Context>> {
    if let Some(mut exchange) = shared.exchanges.borrow_mut().pop() {
        exchange.conn = info.clone();
        return exchange;
    }
    Box::new(Exchange::new(info.clone(), shared.worker.clone()))
}

/// What the connection does after a request.
enum Next {
    /// Serve the next request.
    Reuse,
    /// Close; the client may still be sending.
    Linger,
    /// Close immediately.
    Drop,
    /// Close immediately and reset, discarding data in the kernel's buffers.
    Reset,
    /// Switch to HTTP/2; its first bytes are in the input.
    Http2,
    /// Become a tunnel.
    Tunnel(Box<crate::tunnel::Tunnel>),
}

/// A failure on the client's side of a connection.
fn client_failure(error: std::io::Error) -> Failure {
    Failure::from_io(crate::failure::Side::Client, error)
}
