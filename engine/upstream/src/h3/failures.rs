//! Why streams and connections over HTTP/3 are gone, and the failures to report.

use quinn_proto::{ConnectionError, TransportErrorCode};
use sluice_wire::h3::Code;
use sluice_wire::sections::HeadFault;

use crate::failures::{refused, timed_out};
use crate::streams::Lost;
use sluice_net::failure::{Failure, FailureKind, Retry, Side};

/// Why a response is missing or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The upstream has not processed the request (RFC 9114, section 4.1.1).
    Refused,
    /// The upstream has reset the stream.
    Reset(Code),
    /// The response violated the protocol; with the fault if it was in a head.
    Broken(Option<HeadFault>),
    /// The upstream sent too many interim responses.
    Babbled,
    /// The connection was closed, or nobody listens any more.
    Closed,
    /// The upstream closed the connection with this code.
    Left(Code),
    /// QUIC or TLS ended the connection.
    Broke(TransportErrorCode),
    /// The upstream was silent for too long.
    Silent,
    /// The upstream violated the protocol of the connection.
    Faulty(Code),
}

impl Lost for Gone {
    const REFUSED: Gone = Gone::Refused;

    fn is_refused(self) -> bool {
        self == Gone::Refused
    }

    fn is_reset(self) -> bool {
        matches!(self, Gone::Reset(_))
    }

    fn failure(self) -> Failure {
        let failure = |kind| Failure::new(Side::Upstream, kind);
        match self {
            Gone::Refused => failure(FailureKind::Closed)
                .with_retry(Retry::Always)
                .because("it did not process the request (GOAWAY, or H3_REQUEST_REJECTED)"),
            Gone::Reset(code) => {
                failure(FailureKind::Closed).because(format!("it reset the stream ({code})"))
            }
            Gone::Broken(None) => {
                failure(FailureKind::Protocol).because("its response violates HTTP/3")
            }
            Gone::Broken(Some(fault)) => failure(FailureKind::Protocol).because(fault.to_string()),
            Gone::Babbled => failure(FailureKind::Protocol).because("too many interim responses"),
            Gone::Closed => failure(FailureKind::Closed),
            Gone::Left(code) => {
                failure(FailureKind::Closed).because(format!("it closed the connection ({code})"))
            }
            Gone::Broke(code) => failure(FailureKind::Closed).because(code.to_string()),
            Gone::Silent => failure(FailureKind::Closed).because("it sends no packets any more"),
            Gone::Faulty(code) => {
                failure(FailureKind::Protocol).because(format!("it violated the protocol ({code})"))
            }
        }
    }
}

impl Gone {
    /// What becomes of the streams of a connection that was lost.
    pub(super) fn with(reason: &ConnectionError) -> Gone {
        match reason {
            ConnectionError::ApplicationClosed(close) => {
                Gone::Left(Code(close.error_code.into_inner()))
            }
            ConnectionError::ConnectionClosed(close) => Gone::Broke(close.error_code),
            ConnectionError::TransportError(error) => Gone::Broke(error.code),
            ConnectionError::TimedOut => Gone::Silent,
            ConnectionError::VersionMismatch
            | ConnectionError::Reset
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted => Gone::Closed,
        }
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
