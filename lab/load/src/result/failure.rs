//! The ways in which a request can fail. Each has its own count and its own latencies: none of them ever enters those of
//! good answers.

use serde::{Deserialize, Serialize};

use super::Distribution;

/// Why a request did not get the answer it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The name of the server could not be resolved.
    Resolve,
    /// This side ran out of ports, descriptors or memory. Not the server's failure: the run is not usable.
    NoLocalResource,
    /// The connection was refused.
    Refused,
    /// No route to the address, or the network said that it is not there.
    Unreachable,
    /// The connection was not open in time.
    ConnectTimeout,
    /// The TLS handshake failed or did not end in time.
    TlsHandshake,
    /// The certificate was not accepted.
    Certificate,
    /// The server agreed on another protocol, or answered in an older one, than was asked for.
    Downgrade,
    /// Sending the request failed other than by a reset.
    Write,
    /// The connection was reset before a byte of the answer came, on a connection that had answered nothing before.
    Reset,
    /// The connection ended before a byte of the answer came, on a connection that had answered nothing before.
    Closed,
    /// A connection that had answered before was reset or ended before a byte of this answer came: the server closed it
    /// while the request was under way.
    Stale,
    /// The answer ended, or the connection was reset, inside the head.
    HeadCut,
    /// The answer ended, or the connection was reset, inside the body.
    BodyCut,
    /// The head of the answer was not complete in time.
    HeadTimeout,
    /// The body of the answer was not complete in time.
    BodyTimeout,
    /// What came was no answer in the protocol that was asked for.
    Malformed,
    /// HTTP/2: the server reset the stream, or left it behind with GOAWAY.
    StreamReset,
    /// A complete answer with another status than expected.
    Status,
    /// A complete answer of another length than expected.
    Length,
    /// A complete answer of the expected length with another body.
    Body,
    /// A complete answer without a field that was expected, or with another value in it.
    Field,
    /// Open loop: the request was due, and no connection was free for it before its time limit, or too many waited.
    Dropped,
}

impl FailureClass {
    /// All of them, in the order of a request's life.
    pub const ALL: [FailureClass; 23] = [
        FailureClass::Resolve,
        FailureClass::NoLocalResource,
        FailureClass::Refused,
        FailureClass::Unreachable,
        FailureClass::ConnectTimeout,
        FailureClass::TlsHandshake,
        FailureClass::Certificate,
        FailureClass::Downgrade,
        FailureClass::Write,
        FailureClass::Reset,
        FailureClass::Closed,
        FailureClass::Stale,
        FailureClass::HeadCut,
        FailureClass::BodyCut,
        FailureClass::HeadTimeout,
        FailureClass::BodyTimeout,
        FailureClass::Malformed,
        FailureClass::StreamReset,
        FailureClass::Status,
        FailureClass::Length,
        FailureClass::Body,
        FailureClass::Field,
        FailureClass::Dropped,
    ];

    /// Its place in [`FailureClass::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// A few words for a table.
    pub fn words(self) -> &'static str {
        match self {
            FailureClass::Resolve => "name not resolved",
            FailureClass::NoLocalResource => "no local port or descriptor",
            FailureClass::Refused => "connection refused",
            FailureClass::Unreachable => "unreachable",
            FailureClass::ConnectTimeout => "connect timed out",
            FailureClass::TlsHandshake => "TLS handshake failed",
            FailureClass::Certificate => "certificate not accepted",
            FailureClass::Downgrade => "other protocol",
            FailureClass::Write => "sending failed",
            FailureClass::Reset => "reset before the answer",
            FailureClass::Closed => "closed before the answer",
            FailureClass::Stale => "kept connection was closed",
            FailureClass::HeadCut => "cut inside the head",
            FailureClass::BodyCut => "cut inside the body",
            FailureClass::HeadTimeout => "head timed out",
            FailureClass::BodyTimeout => "body timed out",
            FailureClass::Malformed => "not HTTP",
            FailureClass::StreamReset => "stream reset",
            FailureClass::Status => "wrong status",
            FailureClass::Length => "wrong length",
            FailureClass::Body => "wrong body",
            FailureClass::Field => "wrong field",
            FailureClass::Dropped => "never sent",
        }
    }

    /// Whether the fault lies on the measuring side, so that the run says nothing about the server.
    pub fn is_ours(self) -> bool {
        matches!(self, FailureClass::NoLocalResource | FailureClass::Resolve)
    }
}

/// Requests that failed in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// In which.
    pub class: FailureClass,
    /// How many.
    pub count: u64,
    /// Of [`FailureClass::Status`]: pairs of status and count, in rising order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<(u16, u64)>,
    /// How long each took to fail, from when it was due.
    pub latency: Distribution,
    /// The first of them in words, as the system or the check told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_know_their_places() {
        for (at, class) in FailureClass::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), at);
            assert!(!class.words().is_empty());
        }
    }
}
