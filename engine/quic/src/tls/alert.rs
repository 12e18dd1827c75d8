//! TLS alerts as errors of QUIC.

use quinn_proto::{TransportError, TransportErrorCode};

/// A TLS alert as QUIC sends it (RFC 9001, section 4.8).
pub(super) fn crypto_error(alert: u8, reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(alert),
        frame: None,
        reason: reason.to_owned(),
    }
}
