//! TLS sessions implemented with rustls. No other directory of this package refers to that library. Implementations of
//! [`ConfigChoice`] select certificates and configuration.

mod chains;
mod connector;
mod pem_certificates;
mod second_opinion;
mod server;
mod signatures;
pub mod signed;

use std::io::{self, IoSlice, Write};

use rustls::{CipherSuite, Connection, HandshakeKind, ProtocolVersion};
use sluice_message::{Offered, TlsInfo};

pub use chains::{ChainTrust, ChainTrustError, Doubt};
pub use connector::{
    ClientIdentity, Connector, ConnectorError, ConnectorOptions, Identity, Resumes, SendsName,
    ServerTrust, Versions, certificates_from_pem, is_key_of, revoked_from_pem, system_certificates,
    verifier as server_verifier,
};
pub use pem_certificates::certificates_in;
pub use second_opinion::{NameRule, SecondOpinion};
pub use server::{ConfigChoice, NoTickets, Preparation, RustlsAcceptor, offered};
pub use signatures::Signatures;

use super::session::{Session, SessionError};
use crate::limits::TLS_OUTPUT_BYTES_MAX;

/// What the identifier of a session is derived with. RFC 5705, section 4: labels with this prefix need no registration.
pub const SESSION_ID_LABEL: &[u8] = b"EXPERIMENTAL sluice session id";

/// Input up to this size leaves the session's buffer at its smallest.
const SMALL_INPUT_BYTES: usize = 4096;

/// A session with its final configuration: a client from the start, a server after the ClientHello.
struct Live {
    conn: Connection,
    /// Decrypted bytes that `read` has not returned yet.
    plaintext_bytes: usize,
    peer_closed: bool,
    /// Whether large input may have enlarged the session's buffer.
    has_grown: bool,
    /// Whether only the handshake is wanted: what follows is treated as the end of the stream.
    is_probe: bool,
    /// Early data of the client (0-RTT); nearly always `None`.
    early: Option<Box<EarlyBytes>>,
    /// What the client offered, if requested.
    offered: Option<Box<Offered>>,
}

/// Early data of the client, up to the size that the configuration allows.
#[derive(Default)]
struct EarlyBytes {
    bytes: Vec<u8>,
    /// How much of it was read.
    taken: usize,
}

impl EarlyBytes {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

impl Live {
    fn new(mut conn: Connection) -> Self {
        conn.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Live {
            conn,
            plaintext_bytes: 0,
            peer_closed: false,
            has_grown: false,
            is_probe: false,
            early: None,
            offered: None,
        }
    }

    /// Processes the records received so far.
    fn process(&mut self) -> Result<(), SessionError> {
        let was_handshaking = self.conn.is_handshaking();
        let state = self.conn.process_new_packets().map_err(tls_error)?;
        self.plaintext_bytes = state.plaintext_bytes_to_read();
        self.peer_closed = state.peer_has_closed();
        if self.is_probe && !self.conn.is_handshaking() {
            self.plaintext_bytes = 0;
            self.peer_closed = true;
        }
        if was_handshaking {
            self.take_early()?;
        }
        Ok(())
    }

    /// What the client offered, with an identifier of this session.
    fn offered(&self) -> Option<Box<Offered>> {
        let mut offered = self.offered.clone()?;
        let id = self
            .conn
            .export_keying_material([0; 32], SESSION_ID_LABEL, None);
        offered.id = id.unwrap_or_default();
        Some(offered)
    }

    /// Takes over the early data, which rustls does not return after the handshake.
    fn take_early(&mut self) -> Result<(), SessionError> {
        let Connection::Server(server) = &mut self.conn else {
            return Ok(());
        };
        if let Some(mut data) = server.early_data() {
            let early = self.early.get_or_insert_default();
            io::Read::read_to_end(&mut data, &mut early.bytes).map_err(tls_error)?;
        }
        Ok(())
    }
}

impl Session for Live {
    fn receive(&mut self, input: &[u8]) -> Result<usize, SessionError> {
        if self.peer_closed {
            // RFC 8446, section 6.1: data after a closure alert is ignored.
            return Ok(input.len());
        }
        self.has_grown |= input.len() > SMALL_INPUT_BYTES;
        let mut rest = input;
        let taken = self.conn.read_tls(&mut rest).map_err(tls_error)?;
        if taken == 0 && !input.is_empty() {
            return Err(SessionError::Tls(
                "TLS session accepts no more input".into(),
            ));
        }
        self.process()?;
        Ok(taken)
    }

    fn read(&mut self, out: &mut [u8]) -> usize {
        // Early data is read first.
        if let Some(early) = &mut self.early {
            let count = early.rest().len().min(out.len());
            if count > 0 {
                out[..count].copy_from_slice(&early.rest()[..count]);
                early.taken += count;
                return count;
            }
            if !self.conn.is_handshaking() {
                self.early = None;
            }
        }
        if self.plaintext_bytes == 0 {
            return 0;
        }
        // The only possible error is `WouldBlock`: `has_peer_closed` reports ends and truncation.
        let count = io::Read::read(&mut self.conn.reader(), out).unwrap_or(0);
        self.plaintext_bytes -= count;
        count
    }

    fn has_plaintext(&self) -> bool {
        let early = self.early.as_ref();
        self.plaintext_bytes > 0 || early.is_some_and(|early| !early.rest().is_empty())
    }

    fn has_peer_closed(&self) -> bool {
        self.peer_closed
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, SessionError> {
        self.conn.writer().write_vectored(slices).map_err(tls_error)
    }

    fn has_output(&self) -> bool {
        self.conn.wants_write()
    }

    fn transmit(&mut self, sink: &mut dyn Write) -> io::Result<usize> {
        self.conn.write_tls(sink)
    }

    fn is_handshaking(&self) -> bool {
        self.conn.is_handshaking()
    }

    fn is_early(&self) -> bool {
        self.early.is_some() && self.conn.is_handshaking()
    }

    fn may_output_wait(&self) -> bool {
        // In TLS 1.3, only session tickets (server) or our Finished (client) are left then, which the peer cannot use
        // before our next message. In TLS 1.2, the peer waits for our Finished.
        self.conn.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    fn info(&self) -> TlsInfo {
        let server_name = match &self.conn {
            Connection::Server(server) => server.server_name().unwrap_or_default().to_owned(),
            Connection::Client(_) => String::new(),
        };
        let certs = self.conn.peer_certificates().unwrap_or_default();
        TlsInfo {
            version: match self.conn.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "tls1.3",
                Some(ProtocolVersion::TLSv1_2) => "tls1.2",
                Some(_) | None => "",
            },
            cipher: self
                .conn
                .negotiated_cipher_suite()
                .map_or("", |suite| iana_name(suite.suite())),
            server_name,
            alpn: self.conn.alpn_protocol().unwrap_or_default().to_vec(),
            resumed: self.conn.handshake_kind() == Some(HandshakeKind::Resumed),
            client_certs: certs.iter().map(|cert| cert.to_vec()).collect(),
            early: None,
            group: self
                .conn
                .negotiated_key_exchange_group()
                .map_or(0, |group| group.name().into()),
            offered: self.offered(),
        }
    }

    fn close(&mut self) {
        self.conn.send_close_notify();
    }

    fn trim(&mut self) {
        if self.has_grown {
            // rustls sizes its buffer before each read, so a read that returns nothing shrinks it.
            let _ = self.conn.read_tls(&mut Nothing);
            self.has_grown = false;
        }
    }
}

/// A source without data.
struct Nothing;

impl io::Read for Nothing {
    fn read(&mut self, _buf: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// The suite's name in the IANA registry, which differs from rustls for TLS 1.3.
pub fn iana_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        older => older.as_str().unwrap_or_default(),
    }
}

fn tls_error(error: impl std::error::Error + Send + Sync + 'static) -> SessionError {
    SessionError::Tls(Box::new(error))
}
