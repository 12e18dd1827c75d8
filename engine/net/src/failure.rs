//! Failures while serving a request. `server/serve` maps them to a response status.

use std::error::Error;
use std::fmt;

/// The party responsible for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client sent something invalid, was too slow, or disconnected.
    Client,
    /// The upstream did.
    Upstream,
    /// This server.
    Internal,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Received bytes violate the protocol.
    Protocol,
    /// A configured limit was reached.
    Limit,
    /// The peer closed or reset the connection early.
    Closed,
    /// The peer was silent for longer than the timeout.
    Timeout,
    /// The connection could not be established.
    Dial,
    /// The peer's certificate or handshake was rejected.
    Tls,
    /// No upstream is available.
    Unavailable,
    /// A system call failed.
    Io,
}

/// Whether the same request may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the request may have had an effect.
    Never,
    /// The upstream sent no response: an idempotent request may be retried.
    IfIdempotent,
    /// Nothing was sent: any request may be retried.
    Always,
}

/// A failure.
#[derive(Debug)]
pub struct Failure {
    /// The responsible party.
    pub side: Side,
    /// The kind of failure.
    pub kind: FailureKind,
    /// Whether the request may be retried; initially [`Retry::Never`].
    pub retry: Retry,
    /// The cause, for the log only.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Whether the client was too slow.
    pub fn is_slow_client(&self) -> bool {
        self.side == Side::Client && self.kind == FailureKind::Timeout
    }

    /// A failure without a cause, not to be retried.
    pub fn new(side: Side, kind: FailureKind) -> Self {
        Failure {
            side,
            kind,
            retry: Retry::Never,
            source: None,
        }
    }

    /// The failure of a client that stays below the minimum data rate.
    pub fn too_slow() -> Self {
        Failure::new(Side::Client, FailureKind::Timeout)
            .because("slower than the minimum data rate allows")
    }

    /// Adds the cause.
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets whether the request may be retried.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The failure for a system error on the connection of `side`.
    pub fn from_io(side: Side, error: std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe | E::UnexpectedEof => {
                FailureKind::Closed
            }
            E::TimedOut => FailureKind::Timeout,
            _ => FailureKind::Io,
        };
        Failure::new(side, kind).because(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Client => "client",
            Side::Upstream => "upstream",
            Side::Internal => "internal",
        };
        let kind = match self.kind {
            FailureKind::Protocol => "protocol error",
            FailureKind::Limit => "limit reached",
            FailureKind::Closed => "connection closed early",
            FailureKind::Timeout => "timeout",
            FailureKind::Dial => "connecting failed",
            FailureKind::Tls => "TLS failed",
            FailureKind::Unavailable => "none available",
            FailureKind::Io => "input or output failed",
        };
        write!(f, "{side}: {kind}")?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error for Failure {}
