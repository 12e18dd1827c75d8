//! Facts about the connection a request came by, which matchers, placeholders and logs use. Sockets are left to
//! `sluice-net`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::head::Scheme;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// An IPv4 or IPv6 peer. IPv4-mapped IPv6 addresses arrive here as IPv4.
    Ip(SocketAddr),
    /// A peer of a unix socket, which has no address.
    Unix,
}

/// What is known of one client connection. It does not change while the connection lives.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The client, or whoever the PROXY protocol says it is.
    pub remote: Remote,
    /// Our own end; `None` on a unix socket.
    pub local: Option<SocketAddr>,
    /// The TLS session; `None` on a plain connection.
    pub tls: Option<Box<TlsInfo>>,
}

impl ConnInfo {
    /// `https` where there is TLS.
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }
}

/// What the TLS handshake settled.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    /// `tls1.2` or `tls1.3`.
    pub version: &'static str,
    /// The cipher suite in IANA spelling.
    pub cipher: &'static str,
    /// The server name the client asked for, lower case; empty if none.
    pub server_name: String,
    /// The protocol chosen by ALPN (`h2`, `http/1.1`), empty if none.
    pub alpn: Vec<u8>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The client's certificate chain in DER, its own first; empty if it sent none.
    pub client_certs: Vec<Vec<u8>>,
}
