//! Collects the ClientHello from CRYPTO frames: with post-quantum key shares it spans several of them.

use quinn_proto::{TransportError, TransportErrorCode};
use rustls::server::{Accepted, Acceptor};

use super::alert::crypto_error;
use crate::limits::CLIENT_HELLO_BYTES_MAX;

/// The ClientHello as far as it has arrived.
#[derive(Default)]
pub(super) struct Hello {
    bytes: Vec<u8>,
}

/// The type of a ClientHello (RFC 8446, section 4), and the head of a handshake message.
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEAD_BYTES: usize = 4;

/// The head of a TLS record with a handshake message, without its length (RFC 8446, section 5.1).
const RECORD: [u8; 3] = [22, 3, 1];

/// The largest record.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Alerts (RFC 8446, section 6).
const UNEXPECTED_MESSAGE: u8 = 10;
const HANDSHAKE_FAILURE: u8 = 40;

impl Hello {
    /// Takes bytes; returns the ClientHello once it is whole.
    ///
    /// # Errors
    ///
    /// It is something else, too long or malformed.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Accepted>, TransportError> {
        self.bytes.extend_from_slice(bytes);
        let [kind, length @ ..] = match self.bytes.first_chunk::<MESSAGE_HEAD_BYTES>() {
            Some(head) => *head,
            None => return Ok(None),
        };
        if kind != CLIENT_HELLO {
            return Err(crypto_error(UNEXPECTED_MESSAGE, "no ClientHello"));
        }
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        if length > CLIENT_HELLO_BYTES_MAX {
            return Err(TransportError {
                code: TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                frame: None,
                reason: "ClientHello is too long".into(),
            });
        }
        let Some(message) = self.bytes.get(..MESSAGE_HEAD_BYTES + length) else {
            return Ok(None);
        };
        read(message).map(Some)
    }

    /// All bytes received.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a ClientHello by the interface for records, the only one that rustls has for it.
fn read(message: &[u8]) -> Result<Accepted, TransportError> {
    let mut records = Vec::with_capacity(message.len() + 2 * (RECORD.len() + 2));
    for piece in message.chunks(RECORD_BYTES_MAX) {
        records.extend_from_slice(&RECORD);
        records.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        records.extend_from_slice(piece);
    }
    let mut acceptor = Acceptor::default();
    let mut rest = &records[..];
    while !rest.is_empty() {
        match acceptor.read_tls(&mut rest) {
            Ok(count) if count > 0 => {}
            Ok(_) | Err(_) => break,
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => return Ok(accepted),
            Err((error, _)) => return Err(crypto_error(HANDSHAKE_FAILURE, &error.to_string())),
        }
    }
    Err(crypto_error(HANDSHAKE_FAILURE, "incomplete ClientHello"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::quic::{ClientConnection, Version};
    use rustls::version::TLS13;
    use rustls::{ClientConfig, RootCertStore};

    use super::*;

    /// The ClientHello of a client for `a.test`.
    fn hello() -> Vec<u8> {
        let config = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("a.test").expect("a name");
        let client = ClientConnection::new(Arc::new(config), Version::V1, name, Vec::new());
        let mut bytes = Vec::new();
        client.expect("a client").write_hs(&mut bytes);
        bytes
    }

    #[test]
    fn it_is_there_once_all_its_pieces_are() {
        let bytes = hello();
        for size in [1, 3, 100, bytes.len()] {
            let mut hello = Hello::default();
            let (last, first) = {
                let mut pieces: Vec<_> = bytes.chunks(size).collect();
                (pieces.pop().expect("a piece"), pieces)
            };
            for piece in first {
                assert!(hello.receive(piece).expect("no error").is_none(), "{size}");
            }
            let accepted = hello
                .receive(last)
                .expect("no error")
                .expect("a ClientHello");
            assert_eq!(accepted.client_hello().server_name(), Some("a.test"));
            assert_eq!(hello.bytes(), bytes);
        }
    }

    #[test]
    fn one_that_is_too_long_is_refused_before_it_arrives() {
        let head = |length: usize| {
            let [_, length @ ..] = (length as u32).to_be_bytes();
            [&[CLIENT_HELLO][..], &length].concat()
        };
        let mut hello = Hello::default();
        let received = hello.receive(&head(CLIENT_HELLO_BYTES_MAX));
        assert!(received.expect("it may be as long").is_none());
        let mut hello = Hello::default();
        let received = hello.receive(&head(CLIENT_HELLO_BYTES_MAX + 1));
        let code = received.err().map(|error| error.code);
        assert_eq!(code, Some(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED));
    }

    #[test]
    fn other_messages_and_noise_are_refused() {
        let code = |bytes: &[u8]| {
            Hello::default()
                .receive(bytes)
                .err()
                .map(|error| error.code)
        };
        // A ServerHello.
        let other = crypto_error(UNEXPECTED_MESSAGE, "").code;
        assert_eq!(code(&[2, 0, 0, 1]), Some(other));
        let mut noise = vec![CLIENT_HELLO, 0, 0, 40];
        noise.extend([0xff; 40]);
        assert_eq!(code(&noise), Some(crypto_error(HANDSHAKE_FAILURE, "").code));
    }
}
