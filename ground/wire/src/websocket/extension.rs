//! The negotiation of permessage-deflate (RFC 7692, section 7.1), the server's side.

use core::str;

use alloc::format;
use alloc::string::String;

use sluice_message::{FieldId, Fields};

use super::deflate::Compression;

/// An offer of permessage-deflate that the server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflate {
    /// The window that the client limits the server to, if it does.
    server_bits: Option<u8>,
}

impl Deflate {
    /// The first acceptable offer in the `Sec-WebSocket-Extensions` of a request. One with a parameter that is unknown,
    /// repeated or has an invalid value is declined, as is any other extension.
    pub fn offered(fields: &Fields) -> Option<Deflate> {
        let lines = fields.all(FieldId::SecWebsocketExtensions);
        lines
            .flat_map(|line| line.split(|byte| *byte == b','))
            .find_map(offer)
    }

    /// The value of `Sec-WebSocket-Extensions` in the response. Neither side takes a context over, whatever was offered.
    pub fn response(self) -> String {
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        match self.server_bits {
            None => both.into(),
            Some(bits) => format!("{both}; server_max_window_bits={bits}"),
        }
    }

    /// How messages are compressed.
    pub fn compression(self) -> Compression {
        Compression::Deflate {
            window_bits: self.server_bits.unwrap_or(15),
        }
    }
}

/// One element of the header, if it is an acceptable offer.
fn offer(element: &[u8]) -> Option<Deflate> {
    let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    if !parts.next()?.eq_ignore_ascii_case(b"permessage-deflate") {
        return None;
    }
    let mut server_bits = None;
    let mut seen = [false; 4];
    for part in parts {
        let mut sides = part.splitn(2, |byte| *byte == b'=');
        let name = sides.next()?.trim_ascii();
        let value = sides.next().map(unquoted);
        let index = match name {
            b"server_no_context_takeover" if value.is_none() => 0,
            b"client_no_context_takeover" if value.is_none() => 1,
            b"server_max_window_bits" => {
                server_bits = Some(bits(value?)?);
                2
            }
            b"client_max_window_bits" => {
                // The server takes any window, so there is nothing to limit.
                if let Some(value) = value {
                    bits(value)?;
                }
                3
            }
            _ => return None,
        };
        if core::mem::replace(&mut seen[index], true) {
            return None;
        }
    }
    Some(Deflate { server_bits })
}

/// A value without its quotes (RFC 6455, section 9.1).
fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

/// A window from 8 to 15 bits, without leading zeros.
fn bits(value: &[u8]) -> Option<u8> {
    let text = str::from_utf8(value).ok()?;
    (8..=15).find(|bits| format!("{bits}") == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(offers: &[&str]) -> Option<String> {
        let mut fields = Fields::new();
        for offer in offers {
            fields.push(FieldId::SecWebsocketExtensions, offer.as_bytes());
        }
        Deflate::offered(&fields).map(Deflate::response)
    }

    #[test]
    fn offers_of_clients() {
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let accepted = |offers: &[&str]| assert_eq!(response(offers).as_deref(), Some(both));
        // Browsers; `websockets`; a client that wants all that the server wants.
        accepted(&["permessage-deflate; client_max_window_bits"]);
        accepted(&["permessage-deflate"]);
        accepted(&[
            "Permessage-Deflate;server_no_context_takeover ; client_no_context_takeover;client_max_window_bits=\"10\"",
        ]);
        accepted(&["x-webkit-deflate-frame", "permessage-deflate"]);
        accepted(&["permessage-deflate; unknown, permessage-deflate"]);
        assert_eq!(
            response(&["permessage-deflate; server_max_window_bits=10, permessage-deflate"]),
            Some(format!("{both}; server_max_window_bits=10"))
        );
        let declined = |offer: &str| assert_eq!(response(&[offer]), None, "{offer}");
        declined("");
        declined("permessage-bzip2");
        for parameter in [
            "unknown",
            "server_max_window_bits",
            "server_max_window_bits=7",
            "server_max_window_bits=16",
            "server_max_window_bits=010",
            "client_max_window_bits=x",
            "client_max_window_bits=",
            "server_no_context_takeover=1",
            "client_max_window_bits; client_max_window_bits",
            "",
        ] {
            declined(&format!("permessage-deflate; {parameter}"));
        }
    }
}
