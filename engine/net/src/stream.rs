//! A connected socket of any kind: TCP or Unix, plain or TLS.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::LocalEnd;

use crate::sys;
use crate::tcp_socket::TcpSocket;
use crate::tls::TlsStream;
use crate::unix_socket::UnixSocket;

/// A connected socket.
pub enum Stream {
    /// TCP.
    Tcp(TcpSocket),
    /// A Unix socket; boxed, because it is twice as large as the others, and each connection has room for the largest.
    Unix(Box<UnixSocket>),
    /// TLS over one of the others.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// The local address; `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(socket) => socket.local_addr().ok().map(canonical),
            Stream::Unix(_) => None,
            Stream::Tls(tls) => tls.local_addr(),
        }
    }

    /// Our own end, which is asked for when it is needed.
    pub(crate) fn local_end(&self) -> LocalEnd {
        match self.tcp_socket() {
            Some(socket) => {
                LocalEnd::of_socket(socket.as_raw_fd(), sys::local_address::local_address)
            }
            None => LocalEnd::default(),
        }
    }

    /// The address of the other end; `None` for a Unix socket, and when it has disconnected.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(socket) => socket.peer_addr().ok().map(canonical),
            Stream::Unix(_) => None,
            Stream::Tls(tls) => tls.peer_addr(),
        }
    }

    /// Reads into the spare capacity of `buf`, which must not be zero; 0 is the end of the stream.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(buf.capacity() > buf.len(), "a read needs room");
        match self {
            Stream::Tcp(socket) => socket.poll_read(cx, buf),
            Stream::Unix(socket) => socket.poll_read(cx, buf),
            Stream::Tls(tls) => tls.poll_read(cx, buf),
        }
    }

    /// Reads what has arrived into the spare capacity of `buf`, even if the runtime has not reported it yet; 0 is the end
    /// of the stream. Always makes a system call.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if nothing has arrived, and always for TLS.
    pub fn read_arrived(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        debug_assert!(buf.capacity() > buf.len(), "a read needs room");
        match self {
            Stream::Tcp(socket) => match socket.descriptor() {
                Some(socket) => sys::receive::receive(socket, buf),
                None => Err(io::ErrorKind::NotConnected.into()),
            },
            Stream::Unix(socket) => sys::receive::receive(socket.as_fd(), buf),
            Stream::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Ready when a read may find something. Makes no system call; false positives are possible.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(socket) => socket.poll_read_ready(cx),
            Stream::Unix(socket) => socket.poll_read_ready(cx),
            Stream::Tls(tls) => tls.poll_readable(cx),
        }
    }

    /// Whether bytes have arrived that the runtime may not have reported yet. Makes a system call.
    pub fn has_arrived(&self) -> bool {
        let look = |socket| sys::peek::peek(socket, &mut [0]).is_ok_and(|count| count > 0);
        match self {
            Stream::Tcp(socket) => socket.descriptor().is_some_and(look),
            Stream::Unix(socket) => look(socket.as_fd()),
            Stream::Tls(tls) => tls.socket().is_some_and(Stream::has_arrived),
        }
    }

    /// The TCP socket, also below TLS.
    pub(crate) fn tcp_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Stream::Tcp(socket) => socket.descriptor(),
            Stream::Unix(_) => None,
            Stream::Tls(tls) => tls.socket().and_then(Stream::tcp_socket),
        }
    }

    /// Writes from `slices` in order and returns the number of bytes accepted.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(socket) => socket.poll_write(cx, slices),
            Stream::Unix(socket) => socket.poll_write(cx, slices),
            Stream::Tls(tls) => tls.poll_write(cx, slices),
        }
    }

    /// Limits unsent data in the kernel to about `bytes`. No effect on other kinds of sockets.
    pub fn limit_unsent(&self, bytes: u32) {
        if let Some(socket) = self.tcp_socket() {
            // If the kernel does not support it, urgent responses are merely delayed.
            let _ = sys::send::limit_unsent(socket, bytes);
        }
    }

    /// Makes the kernel acknowledge received data immediately, instead of with the next data sent or after 40 ms.
    pub fn acknowledge(&self) {
        if let Some(socket) = self.tcp_socket() {
            // Without it the peer only waits a little longer.
            let _ = socket2::SockRef::from(&socket).set_tcp_quickack(true);
        }
    }

    /// Makes the kernel discard unsent data and reset the connection when the socket is closed.
    pub fn reset_on_close(&self) {
        if let Some(socket) = self.tcp_socket() {
            // If the option cannot be set, the socket is closed normally.
            let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        }
    }

    /// Ends both directions at once, so that tasks waiting for the connection find it closed.
    pub fn shut_down(&self) {
        let end = |socket: BorrowedFd<'_>| {
            // If it fails, the connection is closed already.
            let _ = socket2::SockRef::from(&socket).shutdown(std::net::Shutdown::Both);
        };
        match self {
            Stream::Tcp(socket) => {
                if let Some(socket) = socket.descriptor() {
                    end(socket);
                }
            }
            Stream::Unix(socket) => end(socket.as_fd()),
            Stream::Tls(tls) => {
                if let Some(socket) = tls.socket() {
                    socket.shut_down();
                }
            }
        }
    }

    /// Writes all of `bytes`.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let slices = [IoSlice::new(bytes)];
            let sent = std::future::poll_fn(|cx| self.poll_write(cx, &slices)).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Writes all buffered data to the kernel; plain sockets do not buffer.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => tls.poll_flush(cx),
        }
    }

    /// Shuts down the sending direction (FIN, after a TLS close_notify).
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(socket) => Poll::Ready(socket.end()),
            Stream::Unix(socket) => Poll::Ready(socket.end()),
            Stream::Tls(tls) => tls.poll_shutdown(cx),
        }
    }
}

/// Converts the IPv4-mapped address of a peer on an IPv6 socket to IPv4, for matching and logging.
pub fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
