//! What went wrong while serving a request, as facts. Which status the client gets is decided in `server/serve`.

use std::error::Error;
use std::fmt;

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client sent something wrong, was too slow, or went away.
    Client,
    /// The server behind us did.
    Upstream,
    /// We did.
    Internal,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The bytes received break the protocol.
    Protocol,
    /// A named limit was reached.
    Limit,
    /// The peer closed or reset the connection before it had finished.
    Closed,
    /// The peer was silent for longer than the limit.
    Timeout,
    /// No connection could be made.
    Dial,
    /// The peer's certificate or handshake was refused.
    Tls,
    /// No upstream is available.
    Unavailable,
    /// An operation of the operating system failed.
    Io,
}

/// Whether the same request may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Bytes of the request may have had an effect.
    Never,
    /// The upstream answered nothing: an idempotent request may be repeated.
    IfIdempotent,
    /// Nothing was sent: any request may be repeated.
    Always,
}

/// A failure with its facts.
#[derive(Debug)]
pub struct Failure {
    /// Whose fault it is.
    pub side: Side,
    /// What happened.
    pub kind: FailureKind,
    /// Whether to try again; starts as [`Retry::Never`].
    pub retry: Retry,
    /// The cause, for the log only.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Whether a client was too slow.
    pub fn is_slow_client(&self) -> bool {
        self.side == Side::Client && self.kind == FailureKind::Timeout
    }

    /// A failure without a cause that must not be retried.
    pub fn new(side: Side, kind: FailureKind) -> Self {
        Failure {
            side,
            kind,
            retry: Retry::Never,
            source: None,
        }
    }

    /// The failure of a client that sends or takes less than the lowest rate allows.
    pub fn too_slow() -> Self {
        Failure::new(Side::Client, FailureKind::Timeout)
            .because("slower than `min_data_rate` allows")
    }

    /// Adds the cause.
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets whether to try again.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The failure that an error of the operating system on the connection of `side` means.
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
