//! Why streams and connections over HTTP/3 are gone, and the failures to report.

use quinn_proto::{ConnectionError, TransportErrorCode};
use sluice_wire::h3::Code;

use crate::failures::{refused, timed_out};
use crate::streams::Ending;
use sluice_net::failure::{Failure, FailureKind, Retry, Side};

/// Why a response is missing or incomplete.
pub type Gone = crate::streams::Gone<Ended>;

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The upstream closed it with this code.
    Left(Code),
    /// QUIC or TLS ended it.
    Broke(TransportErrorCode),
    /// The upstream was silent for too long.
    Silent,
    /// The upstream violated the protocol of the connection.
    Faulty(Code),
}

impl Ending for Ended {
    type Code = Code;

    const PROTOCOL: &'static str = "HTTP/3";

    const REFUSED_BY: &'static str = "GOAWAY, or H3_REQUEST_REJECTED";

    fn failure(self) -> Failure {
        let failure = |kind| Failure::new(Side::Upstream, kind);
        match self {
            Ended::Left(code) => {
                failure(FailureKind::Closed).because(format!("it closed the connection ({code})"))
            }
            Ended::Broke(code) => failure(FailureKind::Closed).because(code.to_string()),
            Ended::Silent => failure(FailureKind::Closed).because("it sends no packets any more"),
            Ended::Faulty(code) => {
                failure(FailureKind::Protocol).because(format!("it violated the protocol ({code})"))
            }
        }
    }
}

/// What becomes of the streams of a connection whose protocol the upstream violated.
pub(super) fn faulty(code: Code) -> Gone {
    Gone::Ended(Ended::Faulty(code))
}

/// What becomes of the streams of a connection that was lost.
pub(super) fn lost(reason: &ConnectionError) -> Gone {
    match reason {
        ConnectionError::ApplicationClosed(close) => {
            Gone::Ended(Ended::Left(Code(close.error_code.into_inner())))
        }
        ConnectionError::ConnectionClosed(close) => Gone::Ended(Ended::Broke(close.error_code)),
        ConnectionError::TransportError(error) => Gone::Ended(Ended::Broke(error.code)),
        ConnectionError::TimedOut => Gone::Ended(Ended::Silent),
        ConnectionError::VersionMismatch
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => Gone::Closed,
    }
}

/// The failure of a handshake. Nothing of a request was sent.
pub(super) fn unshaken(reason: ConnectionError) -> Failure {
    let is_tls = match &reason {
        ConnectionError::TransportError(error) => is_alert(error.code),
        ConnectionError::ConnectionClosed(close) => is_alert(close.error_code),
        ConnectionError::TimedOut => return timed_out(),
        ConnectionError::ApplicationClosed(_)
        | ConnectionError::VersionMismatch
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => false,
    };
    match is_tls {
        true => not_secured(reason),
        false => refused(reason.into()),
    }
}

/// TLS with the upstream is not possible.
pub(super) fn not_secured(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Tls)
        .with_retry(Retry::Always)
        .because(error)
}

/// Whether a code is that of a TLS alert (RFC 9001, section 4.8).
fn is_alert(code: TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}
