//! A TLS session on a socket. Certificates, protocol versions and cryptography are left to the session.
//!
//! System calls dominate the cost, so ciphertext is received directly into the caller's buffer, where the plaintext
//! then replaces it, and everything encrypted by one write leaves in one call. An idle connection holds no buffer here.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use sluice_message::{Early, TlsInfo};

use super::session::{Session, SessionError};
use crate::limits::TLS_HANDSHAKE_READ_BYTES;
use crate::stream::Stream;

/// A TLS session on a socket.
pub struct TlsStream {
    /// `None` once it was taken.
    socket: Option<Stream>,
    session: Box<dyn Session>,
    end: End,
    stage: Stage,
    read_side: ReadSide,
    /// Whether pending output may wait for more: session tickets are sent with the response to a request that has
    /// already arrived.
    output_waits: bool,
    /// Set while the client sends early data before the end of its handshake; nearly always `None`.
    early: Option<Early>,
}

/// Our role in the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Server,
    Client,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    /// Our close_notify was passed to the session.
    Closing,
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadSide {
    Open,
    /// The socket has ended, whether or not the session has.
    Ended,
}

/// Why a handshake failed.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client speaks plain HTTP; the socket can still be used to respond, see [`TlsStream::take_socket`].
    PlainHttp,
    /// The peer closed the connection before the end of the handshake.
    Closed,
    /// The peer took too long. The stream itself has no clock: this is for its users.
    Timeout,
    /// The handshake was rejected by one side.
    Refused(Box<dyn Error + Send + Sync>),
    /// A system call failed.
    Io(io::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::PlainHttp => f.write_str("plain HTTP where TLS was expected"),
            HandshakeError::Closed => f.write_str("connection closed during the TLS handshake"),
            HandshakeError::Timeout => f.write_str("TLS handshake took too long"),
            HandshakeError::Refused(source) => write!(f, "TLS handshake refused: {source}"),
            HandshakeError::Io(source) => write!(f, "TLS handshake: {source}"),
        }
    }
}

impl Error for HandshakeError {}

impl From<SessionError> for HandshakeError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::PlainHttp => HandshakeError::PlainHttp,
            SessionError::Tls(source) => HandshakeError::Refused(source),
        }
    }
}

impl From<HandshakeError> for io::Error {
    fn from(error: HandshakeError) -> io::Error {
        let kind = match error {
            HandshakeError::Io(error) => return error,
            HandshakeError::Closed => ErrorKind::UnexpectedEof,
            HandshakeError::Timeout => ErrorKind::TimedOut,
            HandshakeError::PlainHttp | HandshakeError::Refused(_) => ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

impl TlsStream {
    /// A server-side stream on a newly accepted connection.
    pub fn server(socket: Stream, session: Box<dyn Session>) -> Self {
        Self::new(socket, session, End::Server)
    }

    /// A client-side stream on a newly established connection. Nothing may have been read from `socket`, as there is no
    /// way to provide it: any data before the server's handshake ends the connection.
    pub fn client(socket: Stream, session: Box<dyn Session>) -> Self {
        Self::new(socket, session, End::Client)
    }

    fn new(socket: Stream, session: Box<dyn Session>, end: End) -> Self {
        TlsStream {
            socket: Some(socket),
            session,
            end,
            stage: Stage::Handshake,
            read_side: ReadSide::Open,
            output_waits: false,
            early: None,
        }
    }

    /// Takes the underlying socket, without the session. Afterwards the stream cannot be used.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn take_socket(&mut self) -> Stream {
        self.stage = Stage::Failed;
        self.socket
            .take()
            .expect("the socket is taken once, by the owner that gives the stream up")
    }

    /// The underlying socket, for its addresses and options; `None` once it was taken.
    pub fn socket(&self) -> Option<&Stream> {
        self.socket.as_ref()
    }

    /// The local address of the underlying socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.as_ref().and_then(Stream::local_addr)
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.socket.as_ref().and_then(Stream::peer_addr)
    }

    /// The protocol negotiated by ALPN (RFC 7301); empty if none was.
    pub fn alpn(&self) -> Vec<u8> {
        self.session.info().alpn
    }

    /// Whether the handshake waits for this server rather than for the peer.
    pub fn is_preparing(&self) -> bool {
        self.session.is_preparing()
    }

    /// Ready when [`TlsStream::poll_handshake`] may make progress. Makes no system call; false positives are possible.
    pub fn poll_handshake_input(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let awaits_input = self.stage == Stage::Handshake
            && !self.session.is_preparing()
            && !self.session.has_output();
        match &mut self.socket {
            // Socket errors are reported by reading.
            Some(socket) if awaits_input => socket.poll_readable(cx).map(|_| ()),
            Some(_) | None => Poll::Ready(()),
        }
    }

    /// Continues the handshake; ready with its result. Later calls return the same result.
    pub fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<TlsInfo, HandshakeError>> {
        match self.stage {
            Stage::Handshake => {}
            Stage::Open | Stage::Closing => return Poll::Ready(Ok(self.info())),
            Stage::Failed => return Poll::Ready(Err(HandshakeError::Io(not_connected()))),
        }
        let done = ready!(self.poll_handshake_steps(cx));
        self.stage = if done.is_ok() {
            Stage::Open
        } else {
            Stage::Failed
        };
        if done.is_ok() && self.session.is_early() {
            self.early = Some(Early::begun());
        }
        Poll::Ready(done.map(|()| self.info()))
    }

    fn info(&self) -> TlsInfo {
        TlsInfo {
            early: self.early.clone(),
            ..self.session.info()
        }
    }

    /// Notifies the users of early data that the handshake has ended.
    fn note_end_of_early(&mut self) {
        if let Some(early) = &self.early
            && !self.session.is_handshaking()
        {
            early.end();
            self.early = None;
        }
    }

    fn poll_handshake_steps(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        let mut input = Vec::new();
        loop {
            if let Err(error) = ready!(self.session.poll_prepared(cx)) {
                self.send_alert(cx);
                return Poll::Ready(Err(error.into()));
            }
            if !self.session.is_handshaking() && self.session.may_output_wait() {
                return Poll::Ready(self.finish_handshake(cx));
            }
            let speaks = self.session.has_output();
            ready!(self.poll_transmit(cx)).map_err(HandshakeError::Io)?;
            if !self.session.is_handshaking() {
                if !speaks {
                    self.acknowledge();
                }
                return Poll::Ready(Ok(()));
            }
            if self.session.is_early() {
                return Poll::Ready(Ok(()));
            }
            input.clear();
            input.reserve(TLS_HANDSHAKE_READ_BYTES);
            let socket = self
                .socket
                .as_mut()
                .ok_or_else(|| HandshakeError::Io(not_connected()))?;
            if ready!(socket.poll_read(cx, &mut input)).map_err(HandshakeError::Io)? == 0 {
                self.read_side = ReadSide::Ended;
                return Poll::Ready(Err(HandshakeError::Closed));
            }
            let mut rest = &input[..];
            while !rest.is_empty() {
                match self.session.receive(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(error) => {
                        self.send_alert(cx);
                        return Poll::Ready(Err(error.into()));
                    }
                }
            }
        }
    }

    /// Sends the session tickets, unless a request has already arrived and they can leave with its response.
    ///
    /// A client that does not set TCP_NODELAY holds back its request until the last part of its handshake is
    /// acknowledged (RFC 896), which the kernel delays by 40 ms if nothing is sent. So something is sent immediately.
    fn finish_handshake(&mut self, cx: &mut Context<'_>) -> Result<(), HandshakeError> {
        self.output_waits = self.session.has_output();
        if self.end == End::Client || self.session.has_plaintext() {
            return Ok(());
        }
        if !self.output_waits {
            self.acknowledge();
            return Ok(());
        }
        match self.poll_transmit(cx) {
            Poll::Ready(sent) => sent.map_err(HandshakeError::Io),
            // What the socket does not accept now leaves with the first response.
            Poll::Pending => Ok(()),
        }
    }

    /// Makes the kernel acknowledge received data if no output does: see [`TlsStream::finish_handshake`].
    fn acknowledge(&self) {
        if let Some(socket) = self.socket.as_ref().filter(|_| self.end == End::Server)
            && !self.session.has_plaintext()
        {
            socket.acknowledge();
        }
    }

    /// Like `Stream::poll_read`; finishes the handshake first. An end of the socket without the peer's close_notify is
    /// an error of kind `UnexpectedEof`.
    ///
    /// Each call receives at most the spare capacity: a small one leads to many system calls.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?;
        let start = buf.len();
        if self.session.has_plaintext() {
            let room = buf.capacity() - start;
            // Little is left over between calls, so zeroing all of a large buffer would be wasteful.
            buf.resize(start + room.min(LEFTOVER_READ_BYTES), 0);
            let count = self.session.read(&mut buf[start..]);
            buf.truncate(start + count);
            return Poll::Ready(Ok(count));
        }
        loop {
            if self.session.has_peer_closed() {
                return Poll::Ready(Ok(0));
            }
            if self.read_side == ReadSide::Ended {
                return Poll::Ready(Err(truncated()));
            }
            let socket = self.socket.as_mut().ok_or_else(not_connected)?;
            let received = ready!(socket.poll_read(cx, buf))?;
            if received == 0 {
                self.read_side = ReadSide::Ended;
                continue;
            }
            let made = match open_in_place(&mut *self.session, &mut buf[start..]) {
                Ok(made) => made,
                Err(error) => {
                    buf.truncate(start);
                    self.stage = Stage::Failed;
                    self.send_alert(cx);
                    return Poll::Ready(Err(error.into()));
                }
            };
            buf.truncate(start + made);
            self.note_end_of_early();
            if self.session.has_output() && !self.output_waits {
                // The protocol has a reply to send, such as to a key update. If the socket is full, it leaves later.
                let _ = self.poll_transmit(cx)?;
            }
            if made > 0 {
                return Poll::Ready(Ok(made));
            }
        }
    }

    /// Like `Stream::poll_readable`.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let known = self.session.has_plaintext()
            || self.session.has_peer_closed()
            || self.read_side == ReadSide::Ended;
        if known {
            return Poll::Ready(Ok(()));
        }
        let socket = self.socket.as_mut().ok_or_else(not_connected)?;
        let readable = socket.poll_readable(cx);
        if readable.is_pending() {
            // A caller that waits like this has freed its own buffer, too.
            self.session.trim();
        }
        readable
    }

    /// Like `Stream::poll_write`. Accepted data is encrypted immediately and sent as far as the socket accepts it; more
    /// is accepted only when all of it was sent.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?;
        if !self.output_waits {
            ready!(self.poll_transmit(cx))?;
        }
        let count = self.session.write(slices)?;
        match self.poll_transmit(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // What the socket does not accept now leaves with the next call.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    /// Like `Stream::poll_flush`.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?;
        self.poll_transmit(cx)
    }

    /// Like `Stream::poll_shutdown`: sends close_notify, then shuts down the sending direction of the socket.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stage {
            Stage::Open => {
                self.session.close();
                self.stage = Stage::Closing;
            }
            // Without an established session, no close_notify is sent.
            Stage::Handshake | Stage::Closing | Stage::Failed => {}
        }
        if self.stage == Stage::Closing {
            ready!(self.poll_transmit(cx))?;
        }
        self.socket
            .as_mut()
            .ok_or_else(not_connected)?
            .poll_shutdown(cx)
    }

    /// Finishes the handshake.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stage {
            Stage::Open | Stage::Closing => Poll::Ready(Ok(())),
            Stage::Handshake => self
                .poll_handshake(cx)
                .map(|done| done.map(|_| ()).map_err(Into::into)),
            Stage::Failed => Poll::Ready(Err(not_connected())),
        }
    }

    /// Sends the session's pending output.
    fn poll_transmit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.has_output() {
            let socket = self.socket.as_mut().ok_or_else(not_connected)?;
            match self.session.transmit(&mut Sink { socket, cx }) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.output_waits = false;
        Poll::Ready(Ok(()))
    }

    /// Sends the alert that explains the failure, if the socket accepts it immediately.
    fn send_alert(&mut self, cx: &mut Context<'_>) {
        // The session's own error is reported; a failure to send the alert adds nothing.
        let _ = self.poll_transmit(cx);
    }
}

/// Maximum read when plaintext is left over from an earlier call: a full record.
const LEFTOVER_READ_BYTES: usize = 16 * 1024;

/// Decrypts `bytes` in place; returns the length of the plaintext at the beginning. The plaintext returned so far is
/// never longer than the input consumed so far, so unread input is not overwritten; the rest stays in the session.
fn open_in_place(session: &mut dyn Session, bytes: &mut [u8]) -> Result<usize, SessionError> {
    let (mut taken, mut made) = (0, 0);
    while taken < bytes.len() {
        taken += session.receive(&bytes[taken..])?;
        made += session.read(&mut bytes[made..taken]);
    }
    Ok(made)
}

/// The socket as a sink for the session's `transmit`.
struct Sink<'a, 'c, 'w> {
    socket: &'a mut Stream,
    cx: &'c mut Context<'w>,
}

impl Write for Sink<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.socket.poll_write(self.cx, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn not_connected() -> io::Error {
    ErrorKind::NotConnected.into()
}

fn truncated() -> io::Error {
    io::Error::new(
        ErrorKind::UnexpectedEof,
        "the peer ended the connection without close_notify",
    )
}
