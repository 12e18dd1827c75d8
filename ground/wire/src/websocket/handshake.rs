//! The opening handshake (RFC 6455, section 4.2; over HTTP/2 RFC 8441, section 5), the server's side.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use sluice_message::{FieldId, Fields, Method, RequestHead, Status};

/// Appended to every key (section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The length of a `Sec-WebSocket-Accept`: 20 bytes in base64.
const ACCEPT_BYTES: usize = 28;

/// What the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// HTTP/1.1: the response confirms a key.
    Http1,
    /// A stream of HTTP/2 or later, which needs no key.
    Stream,
}

/// Why a handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The method is not GET (section 4.2.1, item 1).
    Method,
    /// `Sec-WebSocket-Version` is missing or not 13; the response names the version (section 4.2.2, item 4).
    Version,
    /// `Sec-WebSocket-Key` is missing, repeated or not 16 bytes in base64 (section 4.2.1, item 5).
    Key,
}

impl Refused {
    /// The status of the response. With 426 goes `Sec-WebSocket-Version: 13`.
    pub fn status(self) -> Status {
        match self {
            Refused::Version => Status::UPGRADE_REQUIRED,
            Refused::Method | Refused::Key => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Method => "WebSocket handshake with another method than GET",
            Refused::Version => "WebSocket version other than 13",
            Refused::Key => "invalid Sec-WebSocket-Key",
        })
    }
}

impl core::error::Error for Refused {}

/// A handshake that may be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The value of `Sec-WebSocket-Accept`; `None` where the carrier needs none.
    pub accept: Option<[u8; ACCEPT_BYTES]>,
}

/// Whether a request asks for a WebSocket: `Upgrade: websocket`, and `Connection: Upgrade`. A stream of HTTP/2 with
/// `:protocol: websocket` has both headers when it reaches a handler.
pub fn is_requested(fields: &Fields) -> bool {
    has_token(fields, FieldId::Upgrade, b"websocket")
        && has_token(fields, FieldId::Connection, b"upgrade")
}

impl Handshake {
    /// Checks the rest of a request for which [`is_requested`] is true.
    ///
    /// # Errors
    ///
    /// The rule that the request breaks.
    pub fn check(head: &RequestHead, carrier: Carrier) -> Result<Handshake, Refused> {
        if head.method != Method::Get {
            return Err(Refused::Method);
        }
        let version = single(&head.fields, FieldId::SecWebsocketVersion);
        if version.map(<[u8]>::trim_ascii) != Some(b"13") {
            return Err(Refused::Version);
        }
        let accept = match carrier {
            Carrier::Stream => None,
            Carrier::Http1 => {
                let key = single(&head.fields, FieldId::SecWebsocketKey).ok_or(Refused::Key)?;
                let key = key.trim_ascii();
                if !is_key(key) {
                    return Err(Refused::Key);
                }
                Some(accept(key))
            }
        };
        Ok(Handshake { accept })
    }
}

/// The application protocols that a client offers, in its order of preference.
pub fn subprotocols(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let tokens = fields.all(FieldId::SecWebsocketProtocol).flat_map(tokens);
    tokens.filter(|token| !token.is_empty())
}

fn is_key(key: &[u8]) -> bool {
    let mut bytes = [0; 18];
    key.len() == 24 && matches!(STANDARD.decode_slice(key, &mut bytes), Ok(16))
}

fn accept(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let sum = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut text = [0; ACCEPT_BYTES];
    let written = STANDARD.encode_slice(sum, &mut text);
    debug_assert_eq!(written, Ok(ACCEPT_BYTES));
    text
}

/// The value of a header that stands alone.
fn single(fields: &Fields, id: FieldId) -> Option<&[u8]> {
    let mut values = fields.all(id);
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn has_token(fields: &Fields, id: FieldId, token: &[u8]) -> bool {
    fields
        .all(id)
        .any(|value| tokens(value).any(|item| item.eq_ignore_ascii_case(token)))
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::default();
        for (name, value) in lines {
            let id = FieldId::of(name.as_bytes());
            head.fields.push_raw(id, name.as_bytes(), value.as_bytes());
        }
        head
    }

    const KEY: (&str, &str) = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    const VERSION: (&str, &str) = ("Sec-WebSocket-Version", "13");

    #[test]
    fn the_example_of_the_rfc() {
        let handshake = Handshake::check(&head(&[KEY, VERSION]), Carrier::Http1).unwrap();
        assert_eq!(&handshake.accept.unwrap(), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let handshake = Handshake::check(&head(&[VERSION]), Carrier::Stream).unwrap();
        assert_eq!(handshake.accept, None);
    }

    #[test]
    fn handshakes_without_what_they_need() {
        let check = |lines: &[_]| Handshake::check(&head(lines), Carrier::Http1);
        assert_eq!(check(&[KEY]), Err(Refused::Version));
        assert_eq!(
            check(&[KEY, ("Sec-WebSocket-Version", "8")]),
            Err(Refused::Version)
        );
        assert_eq!(check(&[KEY, VERSION, VERSION]), Err(Refused::Version));
        assert_eq!(check(&[VERSION]), Err(Refused::Key));
        assert_eq!(check(&[VERSION, KEY, KEY]), Err(Refused::Key));
        for key in [
            "",
            "YQ==",
            "dGhlIHNhbXBsZSBub25jZQ=",
            "dGhlIHNhbXBsZSBub25jZWFhYWFh",
        ] {
            assert_eq!(
                check(&[VERSION, ("Sec-WebSocket-Key", key)]),
                Err(Refused::Key)
            );
        }
        let mut post = head(&[KEY, VERSION]);
        post.method = Method::Post;
        assert_eq!(
            Handshake::check(&post, Carrier::Http1),
            Err(Refused::Method)
        );
        assert_eq!(Refused::Version.status(), Status::UPGRADE_REQUIRED);
    }

    #[test]
    fn what_asks_for_a_websocket() {
        for (upgrade, connection, expected) in [
            ("websocket", "Upgrade", true),
            ("h2c, WebSocket", "keep-alive, upgrade", true),
            ("h2c", "Upgrade", false),
            ("websocket", "keep-alive", false),
            ("websockets", "upgrade", false),
        ] {
            let head = head(&[("Upgrade", upgrade), ("Connection", connection)]);
            assert_eq!(
                is_requested(&head.fields),
                expected,
                "{upgrade} {connection}"
            );
        }
    }

    #[test]
    fn subprotocols_are_those_of_all_lines() {
        let head = head(&[
            ("Sec-WebSocket-Protocol", "chat, superchat"),
            ("Sec-WebSocket-Protocol", ",last"),
        ]);
        let offered: alloc::vec::Vec<_> = subprotocols(&head.fields).collect();
        assert_eq!(offered, [&b"chat"[..], b"superchat", b"last"]);
    }
}
