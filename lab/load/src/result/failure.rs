//! The ways in which a request can fail. Each has its own count and latencies, which never mix with those of successful
//! requests.

use serde::{Deserialize, Serialize};

use super::Distribution;

/// Why a request did not get the expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The server's name could not be resolved.
    Resolve,
    /// The load generator ran out of ports, descriptors or memory. Not the server's failure: the run is unusable.
    NoLocalResource,
    /// The connection was refused.
    Refused,
    /// There is no route to the address, or the network reported it unreachable.
    Unreachable,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The TLS handshake failed or timed out.
    TlsHandshake,
    /// The certificate was not accepted.
    Certificate,
    /// The server negotiated another protocol, or responded in an older one, than was requested.
    Downgrade,
    /// Sending the request failed other than by a reset.
    Write,
    /// A new connection was reset before the first byte of the response.
    Reset,
    /// A new connection was closed before the first byte of the response.
    Closed,
    /// A reused connection was reset or closed before the first byte of this response: the server closed it while the
    /// request was in flight.
    Stale,
    /// The connection was closed or reset inside the response head.
    HeadCut,
    /// The connection was closed or reset inside the response body.
    BodyCut,
    /// The response head was not complete in time.
    HeadTimeout,
    /// The response body was not complete in time.
    BodyTimeout,
    /// The bytes received are not a response in the requested protocol.
    Malformed,
    /// HTTP/2 and HTTP/3: the server reset the stream.
    StreamReset,
    /// HTTP/2 and HTTP/3: the server refused the request with GOAWAY, with an error or until the request's timeout. One
    /// that it refuses without an error is sent again and counts once, with its last response.
    GoAway,
    /// HTTP/3: the connection ended with an error: the server closed it with a code, reset it as unknown, or was silent
    /// for too long.
    ConnectionLost,
    /// A complete response with an unexpected status.
    Status,
    /// A complete response of unexpected length.
    Length,
    /// A complete response of the expected length with another body.
    Body,
    /// A complete response without an expected header, or with another value.
    Field,
    /// Open loop: the request was due, and either no connection became free within its timeout or too many requests
    /// were waiting.
    Dropped,
}

impl FailureClass {
    /// All classes, in the order of a request's life.
    pub const ALL: [FailureClass; 25] = [
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
        FailureClass::GoAway,
        FailureClass::ConnectionLost,
        FailureClass::Status,
        FailureClass::Length,
        FailureClass::Body,
        FailureClass::Field,
        FailureClass::Dropped,
    ];

    /// Index in [`FailureClass::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// A short label for tables.
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
            FailureClass::Reset => "reset before the response",
            FailureClass::Closed => "closed before the response",
            FailureClass::Stale => "idle connection was closed",
            FailureClass::HeadCut => "cut inside the head",
            FailureClass::BodyCut => "cut inside the body",
            FailureClass::HeadTimeout => "head timed out",
            FailureClass::BodyTimeout => "body timed out",
            FailureClass::Malformed => "not HTTP",
            FailureClass::StreamReset => "stream reset",
            FailureClass::GoAway => "refused with GOAWAY",
            FailureClass::ConnectionLost => "connection lost",
            FailureClass::Status => "wrong status",
            FailureClass::Length => "wrong length",
            FailureClass::Body => "wrong body",
            FailureClass::Field => "wrong header",
            FailureClass::Dropped => "never sent",
        }
    }

    /// Whether the fault lies with the load generator, so that the run says nothing about the server.
    pub fn is_ours(self) -> bool {
        matches!(self, FailureClass::NoLocalResource | FailureClass::Resolve)
    }
}

/// Requests that failed in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// The class of the failure.
    pub class: FailureClass,
    /// How many.
    pub count: u64,
    /// For [`FailureClass::Status`]: pairs of status and count, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<(u16, u64)>,
    /// Time to failure of each request, from when it was due.
    pub latency: Distribution,
    /// The message of the first one, from the system or from the check.
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
