//! The interface to a TLS library: bytes in, bytes out. `stream` moves them to and from a socket.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::net::IpAddr;
use std::task::{Context, Poll};

use std::sync::Arc;

use sluice_message::TlsInfo;

use super::ConfigChoice;

/// Creates sessions for accepted connections.
pub trait Acceptor: Send + Sync {
    /// Starts a session in the server role.
    fn accept(&self) -> Box<dyn Session>;

    /// Like `accept`, for a connection between these addresses: the local one selects the certificate for clients
    /// without SNI.
    fn accept_at(&self, ends: Ends) -> Box<dyn Session> {
        let _ = ends;
        self.accept()
    }

    /// What selects the configuration of a session, for QUIC, which has no records; `None` if it cannot be had.
    fn config_choice(&self) -> Option<Arc<dyn ConfigChoice>> {
        None
    }
}

/// The IP addresses of a connection, if it has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The local address.
    pub local: Option<IpAddr>,
    /// The client's address.
    pub remote: Option<IpAddr>,
}

/// One TLS connection without its socket.
///
/// Received ciphertext goes into `receive` and comes out of `read` as plaintext; plaintext goes into `write` and comes
/// out of `transmit` as ciphertext. Messages of the protocol itself leave by `transmit` as well.
pub trait Session {
    /// Consumes the beginning of `input`, at least one byte unless it is empty, and returns how much. After an error,
    /// only `transmit` may be called: it may hold the alert for the peer.
    fn receive(&mut self, input: &[u8]) -> Result<usize, SessionError>;

    /// Moves received plaintext into `out`; 0 if there is none yet.
    fn read(&mut self, out: &mut [u8]) -> usize;

    /// Whether `read` has data.
    fn has_plaintext(&self) -> bool;

    /// Whether the peer has closed its direction (close_notify).
    fn has_peer_closed(&self) -> bool;

    /// Encrypts from `slices` in order, in records as full as possible, and returns the number of bytes accepted: 0 if
    /// too much ciphertext is waiting.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, SessionError>;

    /// Whether `transmit` has data.
    fn has_output(&self) -> bool;

    /// Writes waiting ciphertext to `sink` in one call and returns how much it accepted.
    fn transmit(&mut self, sink: &mut dyn Write) -> io::Result<usize>;

    /// Whether the handshake waits for this server, for example for a certificate to be issued.
    fn is_preparing(&self) -> bool {
        false
    }

    /// Ready when the handshake does not wait for this server, or no longer. No input need be received meanwhile.
    fn poll_prepared(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        Poll::Ready(Ok(()))
    }

    /// Whether the handshake is still in progress.
    fn is_handshaking(&self) -> bool;

    /// Whether data may be exchanged although the handshake is in progress: the client's early data may be a replay
    /// (RFC 8446, section 8).
    fn is_early(&self) -> bool {
        false
    }

    /// Whether output waiting right after the handshake may be delayed until the first response.
    fn may_output_wait(&self) -> bool;

    /// The result of the handshake.
    fn info(&self) -> TlsInfo;

    /// Closes our direction (close_notify) with the next `transmit`.
    fn close(&mut self);

    /// Frees memory that an idle session does not need.
    fn trim(&mut self);
}

/// Why a session failed.
#[derive(Debug)]
pub enum SessionError {
    /// The client's first bytes are a plain HTTP request.
    PlainHttp,
    /// The peer violated the protocol, was rejected, or rejected us.
    Tls(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::PlainHttp => f.write_str("plain HTTP where TLS was expected"),
            SessionError::Tls(source) => write!(f, "{source}"),
        }
    }
}

impl Error for SessionError {}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}
