//! A TLS session on a socket. Certificates and protocol versions are left to the session.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// A TLS session on a socket.
pub struct TlsStream;

impl TlsStream {
    /// As `Stream::poll_read`; finishes the handshake first.
    pub fn poll_read(&mut self, _cx: &mut Context<'_>, _buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        unimplemented!("brief tls")
    }
    /// As `Stream::poll_readable`.
    pub fn poll_readable(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        unimplemented!("brief tls")
    }
    /// As `Stream::poll_writable`.
    pub fn poll_writable(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        unimplemented!("brief tls")
    }
    /// As `Stream::poll_write`.
    pub fn poll_write(&mut self, _cx: &mut Context<'_>, _slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        unimplemented!("brief tls")
    }
    /// As `Stream::poll_flush`.
    pub fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        unimplemented!("brief tls")
    }
    /// As `Stream::poll_shutdown`.
    pub fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        unimplemented!("brief tls")
    }
}
