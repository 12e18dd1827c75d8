//! Request methods (RFC 9110, section 9). Whether a site accepts one is left to its handlers.

use alloc::boxed::Box;
use core::fmt;

/// A request method. The registered ones of RFC 9110 and PATCH have a variant, so comparing costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH (RFC 5789)
    Patch,
    /// Any other token; methods are case-sensitive.
    Other(Box<str>),
}

impl Method {
    /// The method that `token` names. The caller has checked that it is a token of RFC 9110, section 5.6.2;
    /// anything that is not ASCII gives `None`.
    pub fn from_token(token: &[u8]) -> Option<Method> {
        Some(match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ if token.is_ascii() => Method::Other(core::str::from_utf8(token).ok()?.into()),
            _ => return None,
        })
    }

    /// The method as it stands on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(token) => token,
        }
    }

    /// Whether the method is safe: read-only by definition (RFC 9110, section 9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(
            self,
            Method::Get | Method::Head | Method::Options | Method::Trace
        )
    }

    /// Whether sending the request twice has the effect of sending it once (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
