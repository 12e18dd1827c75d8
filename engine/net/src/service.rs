//! The border to the floor above: a request goes in, an answer comes out. Nothing here knows a directive.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{ConnInfo, Moment, RequestHead, ResponseHead, Status};
use sluice_policy::MinDataRate;
use sluice_wire::{h1, h2};

use crate::body::{Body, RequestBody};
use crate::entrance::Entrance;
use crate::failure::Failure;
use crate::probes::Probes;
use crate::sockets::SocketSettings;
use crate::worker::Worker;

/// Answers the requests of one listener.
///
/// A request that can be answered at once costs no allocation: `serve` returns [`Answer::Ready`]. Otherwise it
/// returns one boxed future; its value goes to `resume`, which continues where `serve` stopped. All state in
/// between lives in [`Exchange::context`].
pub trait Service: Send + Sync + 'static {
    /// What the service keeps for one request; reset by [`Service::reset`] before the next.
    type Context: Default + 'static;
    /// What an awaited step gives back to `resume`.
    type Outcome: 'static;

    /// Prepares a used context for the next request, keeping its memory.
    fn reset(&self, context: &mut Self::Context);

    /// Starts answering.
    fn serve<'a>(&'a self, x: &'a mut Exchange<Self::Context>) -> Answer<'a, Self::Outcome>;

    /// Goes on after an awaited step.
    fn resume<'a>(
        &'a self,
        x: &'a mut Exchange<Self::Context>,
        outcome: Self::Outcome,
    ) -> Answer<'a, Self::Outcome>;

    /// Answers a request whose head was refused by the codec, or did not arrive in time; `x.req` is empty. In HTTP/1 the
    /// connection is closed after it.
    fn refuse<'a>(
        &'a self,
        x: &'a mut Exchange<Self::Context>,
        refused: &Refused<'_>,
    ) -> Answer<'a, Self::Outcome>;

    /// Called exactly once for each request, when its answer has ended in whatever way.
    fn record(&self, x: &mut Exchange<Self::Context>, completion: &Completion);

    /// When the answer has to be sent, beside what [`ClientLimits::write_idle_timeout`] says; `None` for no such time.
    fn write_until(&self, _x: &Exchange<Self::Context>) -> Option<Moment> {
        None
    }

    /// The limits of connections that this service answers.
    fn settings(&self) -> &Settings;

    /// As [`Service::settings`], once a handshake may have said which host is meant. Asked for with every head.
    fn settings_for(&self, _conn: &ConnInfo) -> &Settings {
        self.settings()
    }

    /// What holds for the client of a request, once it is known what answers it.
    fn client_limits(&self, _x: &Exchange<Self::Context>) -> &ClientLimits {
        &self.settings().client
    }
}

/// An answer, now or later. The answer's head is in [`Exchange::res`].
pub enum Answer<'a, T> {
    /// The body of the answer.
    Ready(Body),
    /// Something has to be awaited first.
    Later(Pin<Box<dyn Future<Output = T> + 'a>>),
}

/// A request whose head is none.
pub struct Refused<'r> {
    /// The status that says so; 408 where it did not arrive in time.
    pub status: Status,
    /// What is wrong with it.
    pub why: &'r dyn fmt::Display,
    /// Its first line in HTTP/1, as far as it came and was looked at.
    pub line: &'r [u8],
}

/// How a request came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    /// Whether it was here before the answer to the one before had ended. Of HTTP/1.
    pub is_pipelined: bool,
    /// How long its head took from its first byte, if it did not come at once. Of HTTP/1.
    pub head_time: Duration,
    /// The bytes of its head; 0 where that is not known.
    pub head_bytes: usize,
}

/// A request on its way and the answer taking shape.
pub struct Exchange<C> {
    /// The head of the request.
    pub req: RequestHead,
    /// Its body.
    pub body: RequestBody,
    /// The head of the answer.
    pub res: ResponseHead,
    /// Bytes of the answer, if its body is [`Body::Inline`].
    pub inline: Vec<u8>,
    /// The connection it came by.
    pub conn: Rc<ConnInfo>,
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// When its first byte was read; exact only if [`Settings::exact_times`].
    pub started: Moment,
    /// How it came.
    pub came: Came,
    /// Whether the answer must be the last on its connection (set by either side).
    pub close: bool,
    /// What the service keeps.
    pub context: C,
}

impl<C: Default> Exchange<C> {
    /// An exchange for the first request of a connection.
    pub fn new(conn: Rc<ConnInfo>, worker: Rc<Worker>) -> Exchange<C> {
        Exchange {
            req: RequestHead::default(),
            body: RequestBody::default(),
            res: ResponseHead::default(),
            inline: Vec::new(),
            conn,
            worker,
            started: Moment::START,
            came: Came::default(),
            close: false,
            context: C::default(),
        }
    }
}

/// How an exchange ended.
#[derive(Debug)]
pub enum Ending {
    /// The whole answer was handed to the kernel.
    Complete,
    /// The service refused to answer ([`Body::Abort`]).
    Aborted,
    /// The client went away or was too slow, or the body of the answer failed half-way.
    Failed(Failure),
}

/// What is known when an exchange has ended.
#[derive(Debug)]
pub struct Completion {
    /// How it ended.
    pub ending: Ending,
    /// Bytes of the answer's body handed to the kernel, framing not counted.
    pub body_bytes_sent: u64,
    /// Bytes of the answer handed to the kernel as they are sent, before they are encrypted; 0 where that is not known.
    pub bytes_sent: u64,
    /// How many of these are its head.
    pub head_bytes_sent: u64,
    /// Bytes of the request's body that were read.
    pub body_bytes_read: u64,
    /// From the first byte of the request to the last of the answer; exact only if [`Settings::exact_times`].
    pub duration: Duration,
}

/// The limits of a listener's connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Limits of the HTTP/1 codec.
    pub h1: h1::Limits,
    /// Limits of the HTTP/2 codec.
    pub h2: h2::Limits,
    /// The longest a whole request head may take to arrive, from its first byte.
    pub head_timeout: Duration,
    /// How long a new connection may wait for the first byte of its first head.
    pub first_byte_timeout: Duration,
    /// What holds for a client while its request is served and after it, unless [`Service::client_limits`] says else.
    pub client: ClientLimits,
    /// The longest a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// Whether to read the clock for each request (access log, latency metrics) instead of a coarse one.
    pub exact_times: bool,
    /// What listening sockets are set to.
    pub sockets: SocketSettings,
    /// How quiet TCP connections are probed; `None` leaves that to their timeouts.
    pub probes: Option<Probes>,
}

/// What holds for a client while its request is served, and for its connection after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The longest pause between two reads of a request body.
    pub body_idle_timeout: Duration,
    /// The longest pause between two successful writes.
    pub write_idle_timeout: Duration,
    /// The lowest rate at which a body may come, and an answer be taken; `None` for any.
    pub min_rate: Option<MinDataRate>,
    /// How long a connection may wait for its next request; there is none where it is zero.
    pub keep_alive_timeout: Duration,
    /// How much of that it may wait in any case: it is not closed before to make room, or because the process ends.
    pub keep_alive_min: Duration,
    /// What clients of HTTP/1 are told of that time (`Keep-Alive: timeout=`), in seconds; 0 where they are told nothing.
    pub keep_alive_told: u32,
    /// Requests that a connection may bring; its last answer says that it closes.
    pub requests_max: u64,
    /// How long after it was accepted a connection may bring another request.
    pub age_max: Duration,
    /// How a connection closes whose client may still be sending.
    pub linger: Linger,
    /// Whether the connection of a client that is too slow is reset, so that the kernel keeps nothing of it, or closed
    /// like others. Of HTTP/1 only: in HTTP/2 it is that of other streams, too.
    pub slow: Slow,
}

/// What becomes of the connection of a client that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// It is closed like others.
    Close,
    /// It is reset.
    Reset,
}

/// How a connection closes: what a client still sends is read and thrown away, as a socket that is closed over unread
/// input is reset, and a reset overtakes what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// When that is done.
    pub when: Lingering,
    /// The longest it is done.
    pub time: Duration,
    /// The longest pause between two reads.
    pub pause: Duration,
    /// The most that is read.
    pub bytes_max: u64,
}

/// When what a client still sends is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    /// Never.
    Never,
    /// Where something was sent that is not read.
    Unread,
    /// Always.
    Always,
}

impl Default for Linger {
    fn default() -> Self {
        Linger {
            when: Lingering::Always,
            time: crate::limits::LINGER,
            pause: crate::limits::LINGER,
            bytes_max: crate::limits::LINGER_BYTES_MAX,
        }
    }
}

impl ClientLimits {
    /// The same patience for everything, and no end to a connection but that.
    pub fn patient(patience: Duration) -> ClientLimits {
        ClientLimits {
            body_idle_timeout: patience,
            write_idle_timeout: patience,
            min_rate: None,
            keep_alive_timeout: patience,
            keep_alive_min: Duration::ZERO,
            keep_alive_told: 0,
            requests_max: u64::MAX,
            age_max: Duration::MAX,
            linger: Linger::default(),
            slow: Slow::Close,
        }
    }

    /// Whether a connection is to bring no more than the request at hand.
    pub(crate) fn ends(&self, conn: &ConnInfo, now: Moment) -> bool {
        self.keep_alive_timeout.is_zero()
            || conn.facts.requests.get() >= self.requests_max
            || now.since(conn.facts.began) > self.age_max
    }
}

/// What a listener needs to accept for a service.
pub struct Binding<S: Service> {
    /// Answers its requests.
    pub service: Arc<S>,
    /// Makes TLS sessions; `None` on a plain listener.
    pub tls: Option<Arc<dyn crate::tls::Acceptor>>,
    /// What comes before; `None` where nothing does.
    pub entrance: Option<Arc<Entrance>>,
    /// The versions of HTTP spoken on plain connections. On others the handshake chooses.
    pub protocols: Protocols,
}

/// Versions of HTTP that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocols {
    /// HTTP/1.
    pub h1: bool,
    /// HTTP/2 over TLS.
    pub h2: bool,
    /// HTTP/2 without TLS, where the client begins with it (RFC 9113, section 3.3).
    pub h2c: bool,
}

impl Default for Protocols {
    /// What Caddy speaks where nobody says: no HTTP/2 without TLS.
    fn default() -> Self {
        Protocols {
            h1: true,
            h2: true,
            h2c: false,
        }
    }
}
