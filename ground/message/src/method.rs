//! Request methods (RFC 9110, section 9). Handlers decide which methods a site accepts.

use alloc::boxed::Box;
use core::fmt;

use crate::name::is_token_byte;

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
    Other(MethodToken),
}

/// A method without a variant of its own. Only [`Method::from_token`] makes one, so it is a token wherever its text
/// came from: encoders have nothing to check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MethodToken(Box<str>);

impl Method {
    /// The method that `token` names; `None` if it is not a token (RFC 9110, section 5.6.2).
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
            [] => return None,
            _ if !token.iter().all(|byte| is_token_byte(*byte)) => return None,
            _ => Method::Other(MethodToken(core::str::from_utf8(token).ok()?.into())),
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
            Method::Other(token) => &token.0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_are_methods() {
        for byte in 0..=255_u8 {
            let method = Method::from_token(&[b'G', byte, b'x']);
            assert_eq!(method.is_some(), is_token_byte(byte), "{byte}");
        }
        assert_eq!(Method::from_token(b""), None);
        assert_eq!(Method::from_token(b"GET"), Some(Method::Get));
        let found = Method::from_token(b"Purge");
        assert_eq!(found.as_ref().map(Method::as_str), Some("Purge"));
    }
}
