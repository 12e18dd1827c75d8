//! What a TLS library has to offer: bytes in, bytes out. Moving them to and from a socket is left to `stream`.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, Write};
use std::net::IpAddr;
use std::task::{Context, Poll};

use sluice_message::TlsInfo;

/// Makes sessions for accepted connections.
pub trait Acceptor: Send + Sync {
    /// A new session in the server's role.
    fn accept(&self) -> Box<dyn Session>;

    /// As `accept`, for a connection between these: our own decides about the certificate where a client names no
    /// host.
    fn accept_at(&self, ends: Ends) -> Box<dyn Session> {
        let _ = ends;
        self.accept()
    }
}

/// The addresses of a connection, as far as there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Our own.
    pub local: Option<IpAddr>,
    /// The client's.
    pub remote: Option<IpAddr>,
}

/// One TLS connection without its socket.
///
/// Received ciphertext goes in by `receive` and comes out of `read` as plaintext; plaintext goes in by `write`
/// and comes out of `transmit` as ciphertext. What the protocol itself has to say leaves by `transmit`, too.
pub trait Session {
    /// Takes a first part of `input`, at least one byte unless it is empty, and tells how much. After an
    /// error only `transmit` is of use: it may hold the alert that tells the peer.
    fn receive(&mut self, input: &[u8]) -> Result<usize, SessionError>;

    /// Moves received plaintext into `out`; 0 when there is none yet.
    fn read(&mut self, out: &mut [u8]) -> usize;

    /// Whether `read` has something.
    fn has_plaintext(&self) -> bool;

    /// Whether the peer has said that it sends no more (close_notify).
    fn has_peer_closed(&self) -> bool;

    /// Encrypts from `slices` in order, in records as full as possible, and tells how many bytes were taken: 0
    /// when too much waits to be transmitted.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, SessionError>;

    /// Whether `transmit` has something.
    fn has_output(&self) -> bool;

    /// Hands waiting ciphertext to `sink` in one call and tells how much it took.
    fn transmit(&mut self, sink: &mut dyn Write) -> io::Result<usize>;

    /// Whether the handshake waits for something of ours, such as a certificate that is being made.
    fn is_preparing(&self) -> bool {
        false
    }

    /// Ready when it does not or no longer does. Nothing need be received meanwhile.
    fn poll_prepared(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        Poll::Ready(Ok(()))
    }

    /// Whether the handshake is still going on.
    fn is_handshaking(&self) -> bool;

    /// Whether the client may be heard and answered although its handshake goes on: what it said before that may be a
    /// copy (RFC 8446, section 8).
    fn is_early(&self) -> bool {
        false
    }

    /// Whether what waits for `transmit` right after the handshake may wait for the first answer.
    fn may_output_wait(&self) -> bool;

    /// What the handshake settled.
    fn info(&self) -> TlsInfo;

    /// Says that we send no more (close_notify), by the next `transmit`.
    fn close(&mut self);

    /// Gives back memory that a quiet session does not need.
    fn trim(&mut self);
}

/// Why a session ended.
#[derive(Debug)]
pub enum SessionError {
    /// The client's first bytes are a plain HTTP request.
    PlainHttp,
    /// The peer broke the protocol, was refused, or refused us.
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
