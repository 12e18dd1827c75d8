//! What the end of a QUIC connection means.

use quinn_proto::{ConnectionError, TransportErrorCode};
use sluice_wire::h3::Code;

use crate::generator::talk::Lost;
use crate::result::FailureClass;

/// How a connection ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Whether the server closed it without an error.
    pub in_order: bool,
    /// The failure of a connection that was not established.
    pub handshake: Lost,
    /// The failure of requests in flight, unless it ended in order.
    pub requests: Lost,
}

/// What the end of a connection means.
pub fn ended(reason: &ConnectionError) -> Ended {
    let (handshake, requests) = (FailureClass::TlsHandshake, FailureClass::ConnectionLost);
    let (in_order, handshake, requests, text) = match reason {
        ConnectionError::VersionMismatch => (
            false,
            FailureClass::Downgrade,
            requests,
            "the server does not speak QUIC version 1".to_string(),
        ),
        ConnectionError::TransportError(error) => {
            let class = match alert(error.code) {
                Some(alert) if is_about_certificate(alert) => FailureClass::Certificate,
                Some(_) | None => handshake,
            };
            let text = with_reason(&transport_name(error.code), error.reason.as_bytes());
            (false, class, FailureClass::Malformed, text)
        }
        ConnectionError::ConnectionClosed(close) => {
            let class = match close.error_code {
                TransportErrorCode::CONNECTION_REFUSED => FailureClass::Refused,
                _ => handshake,
            };
            let name = transport_name(close.error_code);
            let text = format!(
                "closed by the server: {}",
                with_reason(&name, &close.reason)
            );
            let in_order = close.error_code == TransportErrorCode::NO_ERROR;
            (in_order, class, requests, text)
        }
        ConnectionError::ApplicationClosed(close) => {
            let code = Code(close.error_code.into_inner());
            let name = with_reason(&code.to_string(), &close.reason);
            let text = format!("closed by the server: {name}");
            (code == Code::NO_ERROR, handshake, requests, text)
        }
        ConnectionError::Reset => (
            false,
            handshake,
            requests,
            "the server does not know the connection (stateless reset)".to_string(),
        ),
        ConnectionError::TimedOut => (
            false,
            handshake,
            requests,
            "the server was silent until the idle timeout".to_string(),
        ),
        ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => {
            (false, handshake, requests, reason.to_string())
        }
    };
    Ended {
        in_order,
        handshake: Lost::new(handshake, text.clone()),
        requests: Lost::new(requests, text),
    }
}

fn with_reason(name: &str, reason: &[u8]) -> String {
    match reason.is_empty() {
        true => name.to_string(),
        false => format!("{name} ({})", String::from_utf8_lossy(reason)),
    }
}

/// The name of a code of QUIC itself (RFC 9000, section 20.1).
fn transport_name(code: TransportErrorCode) -> String {
    match alert(code) {
        Some(alert) => {
            let alert = rustls::AlertDescription::from(alert);
            format!("TLS alert {alert:?}")
        }
        None => format!("{code:?}"),
    }
}

/// The TLS alert that a code stands for (RFC 9001, section 4.8).
fn alert(code: TransportErrorCode) -> Option<u8> {
    let code = u64::from(code);
    (0x100..0x200).contains(&code).then_some(code as u8)
}

/// bad_certificate to unknown_ca without illegal_parameter, access_denied, and decrypt_error for a signature that does not
/// verify: how rustls reports certificates that it does not accept (RFC 8446, section 6.2).
fn is_about_certificate(alert: u8) -> bool {
    matches!(alert, 42..=46 | 48 | 49 | 51)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quinn_proto::{ApplicationClose, ConnectionClose, TransportError, VarInt};

    fn closed(code: TransportErrorCode) -> ConnectionError {
        ConnectionError::ConnectionClosed(ConnectionClose {
            error_code: code,
            frame_type: None,
            reason: Bytes::new(),
        })
    }

    fn by_application(code: Code, reason: &'static [u8]) -> ConnectionError {
        ConnectionError::ApplicationClosed(ApplicationClose {
            error_code: VarInt::from_u64(code.0).unwrap(),
            reason: Bytes::from_static(reason),
        })
    }

    fn detected(code: TransportErrorCode) -> ConnectionError {
        ConnectionError::TransportError(TransportError {
            code,
            frame: None,
            reason: "so it is".into(),
        })
    }

    /// Checks the classes of a handshake and of requests, and that both texts have the word.
    fn check(reason: ConnectionError, classes: [FailureClass; 2], word: &str) -> Ended {
        let ended = ended(&reason);
        let found = [ended.handshake.class, ended.requests.class];
        assert_eq!(found, classes, "{reason}");
        let text = &ended.requests.text;
        assert!(text.contains(word), "{text}");
        assert_eq!(text, &ended.handshake.text);
        ended
    }

    #[test]
    fn each_error_has_its_classes_and_the_name_of_its_code() {
        use FailureClass::{Certificate, ConnectionLost, Downgrade, Malformed, Refused};
        let tls = FailureClass::TlsHandshake;
        let alert = TransportErrorCode::crypto;
        let violation = TransportErrorCode::PROTOCOL_VIOLATION;
        let refused = TransportErrorCode::CONNECTION_REFUSED;
        let load = by_application(Code::EXCESSIVE_LOAD, b"enough");
        for (reason, handshake, requests, word) in [
            (detected(alert(48)), Certificate, Malformed, "UnknownCA"),
            (detected(alert(47)), tls, Malformed, "so it is"),
            (detected(violation), tls, Malformed, "PROTOCOL_VIOLATION"),
            (
                closed(refused),
                Refused,
                ConnectionLost,
                "CONNECTION_REFUSED",
            ),
            (
                closed(alert(120)),
                tls,
                ConnectionLost,
                "NoApplicationProtocol",
            ),
            (load, tls, ConnectionLost, "H3_EXCESSIVE_LOAD (enough)"),
        ] {
            assert!(!check(reason, [handshake, requests], word).in_order);
        }
        for (reason, handshake, word) in [
            (ConnectionError::VersionMismatch, Downgrade, "version 1"),
            (ConnectionError::Reset, tls, "stateless reset"),
            (ConnectionError::TimedOut, tls, "silent"),
        ] {
            assert!(!check(reason, [handshake, ConnectionLost], word).in_order);
        }
    }

    #[test]
    fn an_end_without_an_error_is_in_order() {
        let classes = [FailureClass::TlsHandshake, FailureClass::ConnectionLost];
        let no_error = closed(TransportErrorCode::NO_ERROR);
        assert!(check(no_error, classes, "NO_ERROR").in_order);
        let no_error = by_application(Code::NO_ERROR, b"");
        assert!(check(no_error, classes, "H3_NO_ERROR").in_order);
    }
}
