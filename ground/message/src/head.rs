//! The heads of requests and responses, independent of the HTTP version. `sluice-wire` frames their bodies.

use alloc::vec::Vec;

use crate::fields::Fields;
use crate::method::Method;
use crate::status::Status;
use crate::uri::Uri;

/// The HTTP version of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl Version {
    /// The version as Caddy's `{http.request.proto}` spells it: `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0`, `HTTP/3.0`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

/// The scheme of the connection a request arrived on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The head of a request: method, target and fields. `clear` keeps the memory for the next one.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method; `method` and `rewrite` directives change it.
    pub method: Method,
    /// The version that carried the request.
    pub version: Version,
    /// Path and query, which rewrites change. For `OPTIONS *` and CONNECT the path is `*` and empty.
    pub uri: Uri,
    /// The request target as it was sent, never changed.
    pub target: Vec<u8>,
    /// Host and optional port as sent: the authority part of an absolute target, else the `Host` header, else empty.
    pub authority: Vec<u8>,
    /// The host of `authority`: lower case, without port, IPv6 without brackets.
    pub host: Vec<u8>,
    /// The port of `authority`, if it names one.
    pub port: Option<u16>,
    /// The field lines, hop-by-hop ones included.
    pub fields: Fields,
}

impl RequestHead {
    /// Memory held for the texts of the head, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        let texts = self.target.capacity() + self.authority.capacity() + self.host.capacity();
        self.uri.capacity_bytes() + texts + self.fields.capacity_bytes()
    }

    /// Empties the head and keeps its memory.
    pub fn clear(&mut self) {
        self.method = Method::Get;
        self.version = Version::Http11;
        self.uri.clear();
        self.target.clear();
        self.authority.clear();
        self.host.clear();
        self.port = None;
        self.fields.clear();
    }

    /// Takes `authority` (already validated: host, optional `:port`) and derives `host` and `port` from it.
    pub fn set_authority(&mut self, authority: &[u8]) {
        self.authority.clear();
        self.authority.extend_from_slice(authority);
        let (host, port) = split_port(authority);
        self.host.clear();
        self.host.extend_from_slice(host);
        self.host.make_ascii_lowercase();
        self.port = port;
    }
}

/// Splits `host:port`; brackets around an IPv6 address are removed. A port that is not a number below 65,536 is
/// dropped.
pub fn split_port(authority: &[u8]) -> (&[u8], Option<u16>) {
    if let Some(rest) = authority.strip_prefix(b"[")
        && let Some(end) = memchr::memchr(b']', rest)
    {
        let port = rest
            .get(end + 1..)
            .and_then(|after| after.strip_prefix(b":"))
            .and_then(parse_port);
        return (&rest[..end], port);
    }
    match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) => (&authority[..colon], parse_port(&authority[colon + 1..])),
        None => (authority, None),
    }
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    let mut port: u32 = 0;
    for digit in digits {
        port = (port * 10).checked_add(u32::from(digit.checked_sub(b'0').filter(|d| *d < 10)?))?;
        if port > u32::from(u16::MAX) {
            return None;
        }
    }
    if digits.is_empty() {
        None
    } else {
        u16::try_from(port).ok()
    }
}

/// The head of a response. `clear` keeps the memory for the next one.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The status; the reason phrase is always the registered one.
    pub status: Status,
    /// The version of a received response; ignored when sending.
    pub version: Version,
    /// The field lines. Framing fields and Date are added by the codec when sending.
    pub fields: Fields,
    /// How the end of a body of unknown length is shown over HTTP/1.1, when sending.
    pub unknown_length: UnknownLength,
}

/// How the end of a body of unknown length is shown over HTTP/1.1 (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownLength {
    /// By the last chunk.
    #[default]
    Chunked,
    /// By the end of the connection, for clients that cannot read chunks.
    UntilClose,
}

impl ResponseHead {
    /// Empties the head and keeps its memory.
    pub fn clear(&mut self) {
        self.status = Status::OK;
        self.version = Version::Http11;
        self.fields.clear();
        self.unknown_length = UnknownLength::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_is_split_into_host_and_port() {
        for (text, host, port) in [
            (&b"Example.COM:80"[..], &b"Example.COM"[..], Some(80)),
            (b"a", b"a", None),
            (b"[::1]:8080", b"::1", Some(8080)),
            (b"[::1]", b"::1", None),
            (b"a:99999", b"a", None),
            (b"a:", b"a", None),
        ] {
            assert_eq!(split_port(text), (host, port));
        }
    }
}
