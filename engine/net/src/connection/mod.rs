//! One client connection: it owns socket and timers and moves bytes between them and the codec. Which answer is
//! given is left to the [`Service`].

mod ahead;
mod answer;
mod body;
mod entered;
mod h1;
mod h2;
mod head;
mod linger;
mod redirect;
mod send;

use sluice_message::{ConnFacts, ConnInfo, Moment, Remote, Told};
use sluice_wire::h1::RequestDecoder;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::failure::Failure;
use crate::handshakes::Handshake;
use crate::listener::Slot;
use crate::service::{Exchange, Service};
use crate::stream::Stream;
use crate::timer::Timer;
use crate::tls::{Ends, HandshakeError, TlsStream};
use crate::worker::{Shared, Worker};
use crate::workers::Open;

use ahead::Ahead;

pub(crate) use body::Unread;
pub(crate) use entered::enter;

/// The socket of a connection and what was received from it, shared with whoever reads a request body.
pub(crate) struct Link {
    pub(crate) stream: RefCell<Stream>,
    /// Received and not yet consumed. Holds no memory while the connection is idle.
    pub(crate) input: RefCell<Vec<u8>>,
    /// Where the current request body is.
    pub(crate) body: RefCell<BodyState>,
    pub(crate) body_bytes: Cell<u64>,
    /// What the client gets before its answer; nothing, nearly always.
    ahead: Ahead,
    pub(crate) timer: Timer,
    pub(crate) worker: Rc<Worker>,
}

/// Who has the current request body.
pub(crate) enum BodyState {
    /// Read to its end, or there was none: what follows is the next request.
    Finished,
    /// A handler reads it.
    Lent,
    /// Given up before its end.
    Unread(Box<Unread>),
    /// Its framing broke, or the client went away inside it.
    Broken,
}

impl Link {
    fn new(stream: Stream, worker: Rc<Worker>) -> Link {
        Link {
            stream: RefCell::new(stream),
            input: RefCell::new(Vec::new()),
            body: RefCell::new(BodyState::Finished),
            body_bytes: Cell::new(0),
            ahead: Ahead::default(),
            timer: worker.timers.timer(),
            worker,
        }
    }

    fn is_lent(&self) -> bool {
        matches!(*self.body.borrow(), BodyState::Lent)
    }

    /// Reads once into the input. 0 is the end of the stream. A buffer is taken only when there is something.
    fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let (mut stream, mut input) = (self.stream.borrow_mut(), self.input.borrow_mut());
        if input.capacity() == 0 {
            // Taken for the moment of the read only: asking first whether there is something costs more.
            *input = self.worker.buffers.small();
        } else if input.capacity() == input.len() {
            let more = input.capacity();
            input.reserve(more);
        }
        let read = stream.poll_read(cx, &mut input);
        if read.is_pending() && input.is_empty() {
            self.worker.buffers.give_back(std::mem::take(&mut *input));
        }
        read
    }

    /// Notices a client that goes away while its answer is made or stalls. What it sends meanwhile is kept, up to a limit. The
    /// kernel is asked only once the runtime has heard of something.
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

    /// Takes `count` bytes off the input.
    fn consume(&self, count: usize) {
        let mut input = self.input.borrow_mut();
        if count == input.len() {
            input.clear();
        } else {
            input.drain(..count);
        }
    }

    /// Gives the input's memory back while nothing is in it.
    fn rest(&self) {
        let mut input = self.input.borrow_mut();
        if input.is_empty() && input.capacity() > 0 {
            self.worker.buffers.give_back(std::mem::take(&mut *input));
        }
    }
}

/// A client connection at work.
pub(crate) struct Connection<S: Service> {
    link: Rc<Link>,
    slot: Rc<Slot<S>>,
    shared: Rc<Shared<S>>,
    info: Rc<ConnInfo>,
    decoder: RequestDecoder,
    head_wait: HeadWait,
    /// Whether nothing was served on it yet.
    is_new: bool,
    /// Requests answered without letting other connections have a turn.
    burst: u32,
    _open: Open,
}

/// What has come of the next head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadWait {
    /// Nothing: the connection is idle.
    Nothing,
    /// A part, since then; the time for the whole runs.
    Begun(Moment),
}

impl<S: Service> Connection<S> {
    /// A connection that was just accepted, and its ends; [`Connection::run`] serves it to its end. `open` is held as
    /// long.
    pub(crate) fn new(
        stream: Stream,
        (remote, local): (Remote, Option<SocketAddr>),
        slot: Rc<Slot<S>>,
        shared: Rc<Shared<S>>,
        open: Open,
    ) -> Self {
        let stream = match &slot.binding().tls {
            Some(acceptor) => Stream::Tls(Box::new(TlsStream::server(
                stream,
                acceptor.accept_at(Ends {
                    local: local.map(|addr| addr.ip()),
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

    /// As [`Connection::new`] without TLS, whatever is spoken at its address.
    pub(crate) fn plain(
        stream: Stream,
        (remote, local): (Remote, Option<SocketAddr>),
        slot: Rc<Slot<S>>,
        shared: Rc<Shared<S>>,
        open: Open,
    ) -> Self {
        let worker = shared.worker.clone();
        let info = ConnInfo {
            remote,
            local,
            tls: None,
            facts: ConnFacts {
                serial: worker.counters.accepted.value(),
                began: worker.clock.coarse(),
                socket: stream.tcp_socket(),
                ..ConnFacts::default()
            },
        };
        let link = Rc::new(Link::new(stream, worker));
        Connection {
            link,
            slot,
            shared,
            info: Rc::new(info),
            decoder: RequestDecoder::new(),
            head_wait: HeadWait::Nothing,
            is_new: true,
            burst: 0,
            _open: open,
        }
    }

    /// Notes what a proxy in front tells of the ends.
    pub(crate) fn note(&mut self, told: Told) {
        Rc::make_mut(&mut self.info).facts.told = Some(Box::new(told));
    }

    /// Whether no request after this one is wanted: the process ends, or its address is listened on no more.
    fn is_ending(&self) -> bool {
        self.link.worker.draining.get() || self.slot.is_retired()
    }

    /// Whether a connection on which nothing was asked is to be closed. Only to be looked at once nothing was there to be
    /// read: whoever closes then resets a request that has just come. Who has just connected is about to ask.
    fn is_unwanted(&self) -> bool {
        let timer = &self.link.timer;
        timer.has_expired() || (self.is_ending() && !self.is_new && !timer.is_kept())
    }

    /// Whether something has come at the very end, which the runtime will soon wake us for: whoever closes now resets it.
    fn has_just_asked(&self) -> bool {
        self.link.stream.borrow().has_arrived()
    }

    fn is_secure(&self) -> bool {
        matches!(*self.link.stream.borrow(), Stream::Tls(_))
    }

    /// Shakes hands; tells whether requests may come.
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
                // Nobody else has it before there are requests.
                let info = Rc::make_mut(&mut self.info);
                info.tls = Some(Box::new(tls));
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

/// Why a connection is not secure.
enum Unsecured {
    Failed(HandshakeError),
    /// Too many wait for their turn.
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
                // The client is not to blame for the time that we take.
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

/// A step of a handshake, once there is something to do and it has its turn.
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

/// A used or new exchange for the next request of a connection.
fn take_exchange<S: Service>(shared: &Shared<S>, info: &Rc<ConnInfo>) -> Box<Exchange<S::Context>> {
    if let Some(mut x) = shared.exchanges.borrow_mut().pop() {
        x.conn = info.clone();
        return x;
    }
    Box::new(Exchange::new(info.clone(), shared.worker.clone()))
}

/// How serving one request ended for its connection.
enum Next {
    /// The next request.
    Reuse,
    /// Close; the client may still be sending.
    Linger,
    /// Close at once.
    Drop,
    /// The same, and the kernel keeps nothing of it.
    Reset,
    /// HTTP/2 is spoken from here on; its first bytes are in the input.
    Http2,
    /// It became a tunnel.
    Tunnel(Box<crate::body::Tunnel>),
}

/// A failure on the client's side of a connection.
fn client_failure(error: std::io::Error) -> Failure {
    Failure::from_io(crate::failure::Side::Client, error)
}
