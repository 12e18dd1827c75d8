//! The PROXY protocol, versions 1 and 2: a header in which a proxy describes the connection it accepted, sent before
//! the client's first byte. The caller decides which proxies to trust; `sluice-net` reads and writes sockets.

mod extensions;
mod v1;
mod v2;

pub use extensions::{find, ssl_verify};

use core::fmt;
use core::net::SocketAddr;

/// The longest header that is read. Version 1 has 107 bytes at most; version 2 carries extensions, of which
/// certificates' names are the longest: load balancers of clouds send 100 to 400 bytes.
pub const HEADER_BYTES_MAX: usize = 2048;

/// Both ends of the connection that the proxy accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
}

/// What the beginning of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// More bytes are needed to tell.
    Incomplete,
    /// No header: the client itself speaks.
    Absent,
    /// A header.
    Header {
        /// Its length.
        length: usize,
        /// What it tells; `None` where the proxy speaks for itself or does not know.
        ends: Option<Ends>,
        /// Where its extensions begin, which end with it.
        extensions: usize,
    },
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// A line of version 1 that is not as it should be.
    BadLine,
    /// An unknown version or command of version 2.
    BadVersion,
    /// An unknown family of addresses or transport.
    BadFamily,
    /// Too short for its addresses.
    TooShort,
    /// Longer than [`HEADER_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeaderError::BadLine => "a malformed line of version 1",
            HeaderError::BadVersion => "an unknown version or command",
            HeaderError::BadFamily => "an unknown family of addresses",
            HeaderError::TooShort => "a header too short for its addresses",
            HeaderError::TooLong => "a header that is too long",
        })
    }
}

impl core::error::Error for HeaderError {}

/// Reads the beginning of a connection. Nothing is kept: it is called with more bytes until it is complete.
pub fn decode(bytes: &[u8]) -> Result<Beginning, HeaderError> {
    if begins_like(bytes, v2::SIGNATURE) {
        v2::decode(bytes)
    } else if begins_like(bytes, v1::SIGNATURE) {
        v1::decode(bytes)
    } else {
        Ok(Beginning::Absent)
    }
}

/// Whether `bytes` begin with `signature`, as far as they go.
fn begins_like(bytes: &[u8], signature: &[u8]) -> bool {
    let common = bytes.len().min(signature.len());
    bytes[..common] == signature[..common]
}
