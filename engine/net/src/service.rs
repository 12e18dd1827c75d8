//! The interface to the layer above: a request goes in, a response comes out. Nothing here knows about directives.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{ConnInfo, Moment, RequestHead, ResponseHead, Status};
use sluice_policy::MinDataRate;
use sluice_wire::{h1, h2, h3};

use crate::body::{Body, RequestBody};
use crate::failure::Failure;
use crate::probes::Probes;
use crate::sockets::SocketSettings;
use crate::worker::Worker;

/// Serves the requests of one listener.
///
/// A response that is ready immediately costs no allocation: `serve` returns [`Response::Ready`]. Otherwise it returns a
/// boxed future; its value goes to `resume`, which continues where `serve` stopped. All state in between lives in
/// [`Exchange::context`].
pub trait Service: Send + Sync + 'static {
    /// Per-request state of the service; reset by [`Service::reset`] before the next request.
    type Context: Default + 'static;
    /// The result of an awaited step, passed to `resume`.
    type Outcome: 'static;

    /// Prepares a used context for the next request, retaining its memory.
    fn reset(&self, context: &mut Self::Context);

    /// Starts producing the response.
    fn serve<'a>(
        &'a self,
        exchange: &'a mut Exchange<Self::Context>,
    ) -> Response<'a, Self::Outcome>;

    /// Continues after an awaited step.
    fn resume<'a>(
        &'a self,
        exchange: &'a mut Exchange<Self::Context>,
        outcome: Self::Outcome,
    ) -> Response<'a, Self::Outcome>;

    /// Responds to a request whose head was rejected by the codec or did not arrive in time; `exchange.req` is empty. In
    /// HTTP/1 the connection is closed afterwards.
    fn refuse<'a>(
        &'a self,
        exchange: &'a mut Exchange<Self::Context>,
        refused: &Refused<'_>,
    ) -> Response<'a, Self::Outcome>;

    /// Called exactly once for each request, when its response has ended in any way.
    fn record(&self, exchange: &mut Exchange<Self::Context>, completion: &Completion);

    /// The deadline for sending the response, in addition to [`ClientLimits::write_idle_timeout`]; `None` for no
    /// deadline.
    fn write_until(&self, _x: &Exchange<Self::Context>) -> Option<Moment> {
        None
    }

    /// The limits of connections served by this service.
    fn settings(&self) -> &Settings;

    /// Like [`Service::settings`], after a handshake may have selected the host. Called for every request head.
    fn settings_for(&self, _conn: &ConnInfo) -> &Settings {
        self.settings()
    }

    /// The limits for the client of a request, once its handler is known.
    fn client_limits<'x>(&'x self, _x: &'x Exchange<Self::Context>) -> &'x ClientLimits {
        &self.settings().client
    }
}

/// A response, now or later. Its head is in [`Exchange::res`].
pub enum Response<'a, T> {
    /// The response is ready, with this body.
    Ready(Body),
    /// A step has to be awaited first.
    Later(Pin<Box<dyn Future<Output = T> + 'a>>),
}

/// A request with an invalid or incomplete head.
pub struct Refused<'r> {
    /// The status to respond with; 408 if the head did not arrive in time.
    pub status: Status,
    /// The reason.
    pub why: &'r dyn fmt::Display,
    /// The request line in HTTP/1, as far as it was received and inspected.
    pub line: &'r [u8],
}

/// How a request was received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    /// Whether the request arrived before the previous response had ended. HTTP/1 only.
    pub is_pipelined: bool,
    /// Time from the first byte to the end of the head, if it did not arrive at once. HTTP/1 only.
    pub head_time: Duration,
    /// Size of the head in bytes; 0 if unknown.
    pub head_bytes: usize,
    /// Whether the client announced that it sends nothing after it. HTTP/1 only.
    pub is_last: bool,
    /// Time from the end of the previous response, or from the beginning of the connection, to the first byte. HTTP/1
    /// only.
    pub idle: Duration,
    /// When the response was ready to be sent; `None` unless [`Settings::times_stages`].
    pub responded: Option<Moment>,
}

/// A request and its response in progress.
pub struct Exchange<C> {
    /// The request head.
    pub req: RequestHead,
    /// The request body.
    pub body: RequestBody,
    /// The response head.
    pub res: ResponseHead,
    /// The response body, if it is [`Body::Inline`].
    pub inline: Vec<u8>,
    /// The connection that the request arrived on.
    pub conn: Rc<ConnInfo>,
    /// The worker that serves it.
    pub worker: Rc<Worker>,
    /// When the first byte was read; exact only if [`Settings::exact_times`].
    pub started: Moment,
    /// How the request was received.
    pub came: Came,
    /// Whether to close the connection after the response (set by either side).
    pub close: bool,
    /// Which version the status line of a response to HTTP/1.0 names (set by the service).
    pub status_line: StatusLine,
    /// The reason phrases of HTTP/1 (set by the service).
    pub reasons: h1::ReasonPhrases,
    /// The state of the service.
    pub context: C,
}

impl<C: Default> Exchange<C> {
    /// Creates an exchange for the first request of a connection.
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
            status_line: StatusLine::default(),
            reasons: Status::reason,
            context: C::default(),
        }
    }
}

/// Which version the status line of a response to HTTP/1.0 names. What HTTP/1.0 lacks is not used either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusLine {
    /// That of the request, as Go does.
    #[default]
    OfRequest,
    /// HTTP/1.1, which is that of the server (RFC 9110, section 2.5).
    OfServer,
}

/// How an exchange ended.
#[derive(Debug)]
pub enum Ending {
    /// The complete response was written to the kernel.
    Complete,
    /// The service sent no response ([`Body::Abort`]).
    Aborted,
    /// The client disconnected or was too slow, or the response body failed midway.
    Failed(Failure),
}

/// The facts about a completed exchange.
#[derive(Debug)]
pub struct Completion {
    /// How it ended.
    pub ending: Ending,
    /// Bytes of the response body written to the kernel, without framing.
    pub body_bytes_sent: u64,
    /// Bytes of the response written to the kernel, before encryption; 0 if unknown.
    pub bytes_sent: u64,
    /// The part of these bytes that is the head.
    pub head_bytes_sent: u64,
    /// Bytes of the request body that were read.
    pub body_bytes_read: u64,
    /// From the first byte of the request to the last byte of the response; exact only if [`Settings::exact_times`].
    pub duration: Duration,
}

/// The limits of a listener's connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Limits of the HTTP/1 codec.
    pub h1: h1::Limits,
    /// Limits of the HTTP/2 codec.
    pub h2: h2::Limits,
    /// Limits of HTTP/3 and of QUIC under it.
    pub h3: Http3,
    /// Maximum time for a complete request head, from its first byte.
    pub head_timeout: Duration,
    /// How long a new connection may wait before its first byte.
    pub first_byte_timeout: Duration,
    /// The limits for clients, unless [`Service::client_limits`] returns others.
    pub client: ClientLimits,
    /// Maximum duration of a TLS handshake.
    pub handshake_timeout: Duration,
    /// Whether to read the exact time for each request (access log, latency metrics) instead of the coarse one.
    pub exact_times: bool,
    /// Whether to record when responses are ready.
    pub times_stages: bool,
    /// Options of the listening sockets.
    pub sockets: SocketSettings,
    /// TCP keep-alive probes; `None` to disable them.
    pub probes: Option<Probes>,
}

/// Limits of HTTP/3 connections, beside those of heads, which are the same as in HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http3 {
    /// The codec.
    pub codec: h3::Limits,
    /// Concurrent requests on one connection, at most 128.
    pub streams_max: u8,
    /// What a stream may send before it is read.
    pub stream_window_bytes: u32,
    /// What all streams of a connection may send before they are read.
    pub window_bytes: u32,
    /// What is sent to a client and not acknowledged, per connection: kept in memory for retransmission.
    pub unacknowledged_bytes_max: u32,
    /// When clients have to prove their address before anything is computed for them.
    pub address_validation: AddressValidation,
    /// Whether clients that come back may send requests before the end of the handshake.
    pub early_data: EarlyData,
    /// The algorithm of congestion control.
    pub congestion: Congestion,
    /// Whether the kernel splits one large datagram into packets (GSO).
    pub segmentation: Segmentation,
    /// The secret of stateless resets and address tokens; that of the process if `None`.
    pub host_key: Option<Arc<[u8]>>,
}

/// When clients have to prove their address (RFC 9000, section 8.1.2), which costs them a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressValidation {
    /// When many handshakes begin at once.
    #[default]
    UnderLoad,
    /// Always.
    Always,
}

/// Whether clients may send requests before the end of the handshake (0-RTT), which others can replay (RFC 8446, section
/// 8; RFC 8470).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// As over TCP, where the TLS configuration decides.
    #[default]
    AsOverTcp,
    /// They may.
    Accepted,
    /// They may not.
    Refused,
}

/// Algorithms of congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR, which does not take every loss for congestion.
    Bbr,
}

/// Who splits what is sent into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// The kernel or the network card.
    #[default]
    Offloaded,
    /// This program.
    Own,
}

impl Default for Http3 {
    fn default() -> Self {
        Http3 {
            codec: h3::Limits::SERVER,
            streams_max: 100,
            stream_window_bytes: 256 * 1024,
            window_bytes: 256 * 1024,
            unacknowledged_bytes_max: 2 * 1024 * 1024,
            address_validation: AddressValidation::default(),
            early_data: EarlyData::default(),
            congestion: Congestion::default(),
            segmentation: Segmentation::default(),
            host_key: None,
        }
    }
}

/// The limits for a client while its request is served, and for its connection afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Maximum pause between two reads of a request body.
    pub body_idle_timeout: Duration,
    /// Maximum pause between two successful writes.
    pub write_idle_timeout: Duration,
    /// Minimum data rate of request bodies; `None` for no minimum.
    pub min_rate: Option<MinDataRate>,
    /// Minimum data rate at which a client takes a response; `None` for no minimum.
    pub write_min_rate: Option<MinDataRate>,
    /// How long a connection may wait for its next request; zero disables keep-alive.
    pub keep_alive_timeout: Duration,
    /// The part of that time that is guaranteed: the connection is not closed earlier to make room or because the
    /// process drains.
    pub keep_alive_min: Duration,
    /// The timeout announced to HTTP/1 clients (`Keep-Alive: timeout=`), in seconds; 0 to announce none.
    pub keep_alive_announced: u32,
    /// Maximum number of requests per connection; the last response announces the close.
    pub requests_max: u64,
    /// The age of a connection after which it accepts no further request.
    pub age_max: Duration,
    /// How to close a connection whose client may still be sending.
    pub linger: Linger,
    /// Whether to reset the connection of a client that is too slow, so that the kernel discards its buffers, or to
    /// close it normally. HTTP/1 only: an HTTP/2 connection has other streams, too.
    pub slow: Slow,
}

/// What to do with the connection of a client that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Close it normally.
    Close,
    /// Reset it.
    Reset,
}

/// Lingering close: reads and discards what the client still sends, because closing a socket with unread input resets
/// the connection, and the reset discards data that the client has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// When to linger.
    pub when: Lingering,
    /// Maximum duration.
    pub time: Duration,
    /// Maximum pause between two reads.
    pub pause: Duration,
    /// Maximum number of bytes read.
    pub bytes_max: u64,
}

/// When to wait for data that the client still sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lingering {
    /// Never.
    Never,
    /// If the client has sent data that is still unread.
    Unread,
    /// Unless the client announced that it sends nothing more, and its request has no content.
    Unannounced,
    /// Always.
    Always,
}

impl Default for Linger {
    fn default() -> Self {
        Linger {
            when: Lingering::Unannounced,
            time: crate::limits::LINGER,
            pause: crate::limits::LINGER,
            bytes_max: crate::limits::LINGER_BYTES_MAX,
        }
    }
}

impl ClientLimits {
    /// The same timeout for everything, and no other limit.
    pub fn patient(timeouts: Duration) -> ClientLimits {
        ClientLimits {
            body_idle_timeout: timeouts,
            write_idle_timeout: timeouts,
            min_rate: None,
            write_min_rate: None,
            keep_alive_timeout: timeouts,
            keep_alive_min: Duration::ZERO,
            keep_alive_announced: 0,
            requests_max: u64::MAX,
            age_max: Duration::MAX,
            linger: Linger::default(),
            slow: Slow::Close,
        }
    }

    /// Whether the connection should close after the current request.
    pub(crate) fn ends(&self, conn: &ConnInfo, now: Moment) -> bool {
        self.keep_alive_timeout.is_zero()
            || conn.facts.requests.get() >= self.requests_max
            || now.since(conn.facts.began) > self.age_max
    }
}

/// A set of enabled HTTP versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocols {
    /// HTTP/1.
    pub h1: bool,
    /// HTTP/2 over TLS.
    pub h2: bool,
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113, section 3.3).
    pub h2c: bool,
    /// HTTP/3, over TLS by nature.
    pub h3: bool,
}

impl Protocols {
    /// Whether any version uses connections of TCP or a unix socket.
    pub fn uses_connections(self) -> bool {
        self.h1 || self.h2 || self.h2c
    }
}

impl Default for Protocols {
    /// Caddy's default for TCP: no HTTP/2 without TLS.
    fn default() -> Self {
        Protocols {
            h1: true,
            h2: true,
            h2c: false,
            h3: false,
        }
    }
}
