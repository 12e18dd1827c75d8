//! Header names. Common names have a number, so that comparing them takes one integer comparison per header. The
//! meaning of each header is up to the other modules.

use alloc::boxed::Box;
use core::fmt;

/// A field name that sluice itself looks at, or [`FieldId::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FieldId {
    /// Any name without a number of its own.
    Other,
    /// `Accept`
    Accept,
    /// `Accept-Charset`
    AcceptCharset,
    /// `Accept-Encoding`
    AcceptEncoding,
    /// `Accept-Language`
    AcceptLanguage,
    /// `Accept-Ranges`
    AcceptRanges,
    /// `Access-Control-Allow-Origin`
    AccessControlAllowOrigin,
    /// `Age`
    Age,
    /// `Allow`
    Allow,
    /// `Alt-Svc`
    AltSvc,
    /// `Authorization`
    Authorization,
    /// `Cache-Control`
    CacheControl,
    /// `Connection`
    Connection,
    /// `Content-Disposition`
    ContentDisposition,
    /// `Content-Encoding`
    ContentEncoding,
    /// `Content-Language`
    ContentLanguage,
    /// `Content-Length`
    ContentLength,
    /// `Content-Location`
    ContentLocation,
    /// `Content-Range`
    ContentRange,
    /// `Content-Security-Policy`
    ContentSecurityPolicy,
    /// `Content-Type`
    ContentType,
    /// `Cookie`
    Cookie,
    /// `Date`
    Date,
    /// `Etag`
    Etag,
    /// `Expect`
    Expect,
    /// `Expires`
    Expires,
    /// `Forwarded`
    Forwarded,
    /// `From`
    From,
    /// `Host`
    Host,
    /// `If-Match`
    IfMatch,
    /// `If-Modified-Since`
    IfModifiedSince,
    /// `If-None-Match`
    IfNoneMatch,
    /// `If-Range`
    IfRange,
    /// `If-Unmodified-Since`
    IfUnmodifiedSince,
    /// `Keep-Alive`
    KeepAlive,
    /// `Last-Modified`
    LastModified,
    /// `Link`
    Link,
    /// `Location`
    Location,
    /// `Max-Forwards`
    MaxForwards,
    /// `Origin`
    Origin,
    /// `Pragma`
    Pragma,
    /// `Proxy-Authenticate`
    ProxyAuthenticate,
    /// `Proxy-Authorization`
    ProxyAuthorization,
    /// `Proxy-Connection`
    ProxyConnection,
    /// `Range`
    Range,
    /// `Referer`
    Referer,
    /// `Retry-After`
    RetryAfter,
    /// `Sec-Websocket-Accept`
    SecWebsocketAccept,
    /// `Sec-Websocket-Key`
    SecWebsocketKey,
    /// `Sec-Websocket-Protocol`
    SecWebsocketProtocol,
    /// `Sec-Websocket-Version`
    SecWebsocketVersion,
    /// `Sec-Websocket-Extensions`
    SecWebsocketExtensions,
    /// `Server`
    Server,
    /// `Set-Cookie`
    SetCookie,
    /// `Strict-Transport-Security`
    StrictTransportSecurity,
    /// `Te`
    Te,
    /// `Trailer`
    Trailer,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Upgrade`
    Upgrade,
    /// `User-Agent`
    UserAgent,
    /// `Vary`
    Vary,
    /// `Via`
    Via,
    /// `Www-Authenticate`
    WwwAuthenticate,
    /// `X-Forwarded-For`
    XForwardedFor,
    /// `X-Forwarded-Host`
    XForwardedHost,
    /// `X-Forwarded-Proto`
    XForwardedProto,
    /// `X-Real-Ip`
    XRealIp,
}

impl FieldId {
    /// Every name with a number, in the order of the numbers. A new variant is added here as well.
    pub const ALL: &[FieldId] = &[
        FieldId::Accept,
        FieldId::AcceptCharset,
        FieldId::AcceptEncoding,
        FieldId::AcceptLanguage,
        FieldId::AcceptRanges,
        FieldId::AccessControlAllowOrigin,
        FieldId::Age,
        FieldId::Allow,
        FieldId::AltSvc,
        FieldId::Authorization,
        FieldId::CacheControl,
        FieldId::Connection,
        FieldId::ContentDisposition,
        FieldId::ContentEncoding,
        FieldId::ContentLanguage,
        FieldId::ContentLength,
        FieldId::ContentLocation,
        FieldId::ContentRange,
        FieldId::ContentSecurityPolicy,
        FieldId::ContentType,
        FieldId::Cookie,
        FieldId::Date,
        FieldId::Etag,
        FieldId::Expect,
        FieldId::Expires,
        FieldId::Forwarded,
        FieldId::From,
        FieldId::Host,
        FieldId::IfMatch,
        FieldId::IfModifiedSince,
        FieldId::IfNoneMatch,
        FieldId::IfRange,
        FieldId::IfUnmodifiedSince,
        FieldId::KeepAlive,
        FieldId::LastModified,
        FieldId::Link,
        FieldId::Location,
        FieldId::MaxForwards,
        FieldId::Origin,
        FieldId::Pragma,
        FieldId::ProxyAuthenticate,
        FieldId::ProxyAuthorization,
        FieldId::ProxyConnection,
        FieldId::Range,
        FieldId::Referer,
        FieldId::RetryAfter,
        FieldId::SecWebsocketAccept,
        FieldId::SecWebsocketKey,
        FieldId::SecWebsocketProtocol,
        FieldId::SecWebsocketVersion,
        FieldId::SecWebsocketExtensions,
        FieldId::Server,
        FieldId::SetCookie,
        FieldId::StrictTransportSecurity,
        FieldId::Te,
        FieldId::Trailer,
        FieldId::TransferEncoding,
        FieldId::Upgrade,
        FieldId::UserAgent,
        FieldId::Vary,
        FieldId::Via,
        FieldId::WwwAuthenticate,
        FieldId::XForwardedFor,
        FieldId::XForwardedHost,
        FieldId::XForwardedProto,
        FieldId::XRealIp,
    ];

    /// The number of `name`, whatever its case.
    #[inline]
    pub fn of(name: &[u8]) -> FieldId {
        let Some(slot) = slot(name, MULTIPLIER) else {
            return FieldId::Other;
        };
        let known = &KNOWN[SLOTS[slot] as usize];
        if known.text.len() == name.len() && known.is(name) {
            known.id
        } else {
            FieldId::Other
        }
    }

    /// The name in the form that goes on the wire, empty for [`FieldId::Other`].
    pub const fn as_str(self) -> &'static str {
        match self {
            FieldId::Other => "",
            FieldId::Accept => "Accept",
            FieldId::AcceptCharset => "Accept-Charset",
            FieldId::AcceptEncoding => "Accept-Encoding",
            FieldId::AcceptLanguage => "Accept-Language",
            FieldId::AcceptRanges => "Accept-Ranges",
            FieldId::AccessControlAllowOrigin => "Access-Control-Allow-Origin",
            FieldId::Age => "Age",
            FieldId::Allow => "Allow",
            FieldId::AltSvc => "Alt-Svc",
            FieldId::Authorization => "Authorization",
            FieldId::CacheControl => "Cache-Control",
            FieldId::Connection => "Connection",
            FieldId::ContentDisposition => "Content-Disposition",
            FieldId::ContentEncoding => "Content-Encoding",
            FieldId::ContentLanguage => "Content-Language",
            FieldId::ContentLength => "Content-Length",
            FieldId::ContentLocation => "Content-Location",
            FieldId::ContentRange => "Content-Range",
            FieldId::ContentSecurityPolicy => "Content-Security-Policy",
            FieldId::ContentType => "Content-Type",
            FieldId::Cookie => "Cookie",
            FieldId::Date => "Date",
            FieldId::Etag => "Etag",
            FieldId::Expect => "Expect",
            FieldId::Expires => "Expires",
            FieldId::Forwarded => "Forwarded",
            FieldId::From => "From",
            FieldId::Host => "Host",
            FieldId::IfMatch => "If-Match",
            FieldId::IfModifiedSince => "If-Modified-Since",
            FieldId::IfNoneMatch => "If-None-Match",
            FieldId::IfRange => "If-Range",
            FieldId::IfUnmodifiedSince => "If-Unmodified-Since",
            FieldId::KeepAlive => "Keep-Alive",
            FieldId::LastModified => "Last-Modified",
            FieldId::Link => "Link",
            FieldId::Location => "Location",
            FieldId::MaxForwards => "Max-Forwards",
            FieldId::Origin => "Origin",
            FieldId::Pragma => "Pragma",
            FieldId::ProxyAuthenticate => "Proxy-Authenticate",
            FieldId::ProxyAuthorization => "Proxy-Authorization",
            FieldId::ProxyConnection => "Proxy-Connection",
            FieldId::Range => "Range",
            FieldId::Referer => "Referer",
            FieldId::RetryAfter => "Retry-After",
            FieldId::SecWebsocketAccept => "Sec-Websocket-Accept",
            FieldId::SecWebsocketKey => "Sec-Websocket-Key",
            FieldId::SecWebsocketProtocol => "Sec-Websocket-Protocol",
            FieldId::SecWebsocketVersion => "Sec-Websocket-Version",
            FieldId::SecWebsocketExtensions => "Sec-Websocket-Extensions",
            FieldId::Server => "Server",
            FieldId::SetCookie => "Set-Cookie",
            FieldId::StrictTransportSecurity => "Strict-Transport-Security",
            FieldId::Te => "Te",
            FieldId::Trailer => "Trailer",
            FieldId::TransferEncoding => "Transfer-Encoding",
            FieldId::Upgrade => "Upgrade",
            FieldId::UserAgent => "User-Agent",
            FieldId::Vary => "Vary",
            FieldId::Via => "Via",
            FieldId::WwwAuthenticate => "Www-Authenticate",
            FieldId::XForwardedFor => "X-Forwarded-For",
            FieldId::XForwardedHost => "X-Forwarded-Host",
            FieldId::XForwardedProto => "X-Forwarded-Proto",
            FieldId::XRealIp => "X-Real-Ip",
        }
    }
}

/// A field name that was checked once, when the configuration was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    id: FieldId,
    text: Box<str>,
}

impl FieldName {
    /// The name `text`, if it is a token (RFC 9110, section 5.6.2). Its spelling is kept.
    pub fn new(text: &str) -> Option<FieldName> {
        let valid = !text.is_empty() && text.bytes().all(is_token_byte);
        valid.then(|| FieldName {
            id: FieldId::of(text.as_bytes()),
            text: text.into(),
        })
    }

    /// Its number.
    pub fn id(&self) -> FieldId {
        self.id
    }

    /// Its spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `other` is the same name; case does not count.
    pub fn is(&self, other: &[u8]) -> bool {
        self.text.as_bytes().eq_ignore_ascii_case(other)
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether `byte` may stand in a token (RFC 9110, section 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether `byte` may stand in a field value: visible ASCII, space, tab and obs-text (RFC 9110, section 5.5).
pub const fn is_value_byte(byte: u8) -> bool {
    byte >= 0x20 && byte != 0x7f || byte == b'\t'
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        table[i] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
            )
            || matches!(b, b'`' | b'|' | b'~');
        i += 1;
    }
    table
};

/// The place of `name` in [`SLOTS`]: its length and three of its letters tell all known names apart. `None` for
/// the empty name.
#[inline]
const fn slot(name: &[u8], multiplier: u32) -> Option<usize> {
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return None;
    };
    let letters = [
        *first | 0x20,
        *last | 0x20,
        name[name.len() / 2] | 0x20,
        name.len() as u8,
    ];
    Some((u32::from_le_bytes(letters).wrapping_mul(multiplier) >> 23) as usize)
}

/// A factor for which no two known names share a slot. Searched by the compiler, so that adding a name needs no
/// work by hand.
const MULTIPLIER: u32 = {
    let mut candidate: u32 = 0x9e37_79b1;
    while !slots_differ(candidate) {
        candidate = candidate
            .wrapping_mul(0x0019_660d)
            .wrapping_add(0x3c6e_f35e)
            | 1;
    }
    candidate
};

const fn slots_differ(multiplier: u32) -> bool {
    let mut taken = [false; 512];
    let mut i = 0;
    while i < FieldId::ALL.len() {
        if let Some(at) = slot(FieldId::ALL[i].as_str().as_bytes(), multiplier) {
            if taken[at] {
                return false;
            }
            taken[at] = true;
        }
        i += 1;
    }
    true
}

/// A known name and its first and last eight bytes, which are compared at once.
#[derive(Clone, Copy)]
struct Known {
    text: &'static [u8],
    first: u64,
    last: u64,
    id: FieldId,
}

/// All known names by their numbers; the first has no text, for names that are not known.
static KNOWN: [Known; FieldId::ALL.len() + 1] = {
    let none = Known {
        text: b"",
        first: 0,
        last: 0,
        id: FieldId::Other,
    };
    let mut known = [none; FieldId::ALL.len() + 1];
    let mut i = 1;
    while i < known.len() {
        let id = FieldId::ALL[i - 1];
        assert!(id as usize == i, "ALL follows the order of the variants");
        let text = id.as_str().as_bytes();
        let (first, last) = ends(text);
        known[i] = Known {
            text,
            first,
            last,
            id,
        };
        i += 1;
    }
    known
};

/// The places of the known names in [`KNOWN`], by [`slot`].
static SLOTS: [u8; 512] = {
    let mut slots = [0; 512];
    let mut i = 0;
    while i < FieldId::ALL.len() {
        if let Some(at) = slot(FieldId::ALL[i].as_str().as_bytes(), MULTIPLIER) {
            slots[at] = i as u8 + 1;
        }
        i += 1;
    }
    slots
};

impl Known {
    /// Whether `name`, which has as many bytes, is this name but for the case of its letters.
    #[inline]
    fn is(&self, name: &[u8]) -> bool {
        let (first, last) = ends(name);
        let ends = differ(first, self.first) | differ(last, self.last);
        ends == 0
            && (name.len() <= 16
                || name[8..name.len() - 8].eq_ignore_ascii_case(&self.text[8..name.len() - 8]))
    }
}

/// The bits in which a word of a name differs from one of a known name, the case of letters aside. In a known
/// name a byte with bit 6 set is a letter, and only there bit 5, the case, may differ.
#[inline]
const fn differ(name: u64, known: u64) -> u64 {
    let case_bits = (known & 0x4040_4040_4040_4040) >> 1;
    (name ^ known) & !case_bits
}

/// The first and the last eight bytes of a name, or two words that hold all bytes of a shorter one.
#[inline]
const fn ends(name: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return (
            u32::from_le_bytes(*first) as u64,
            u32::from_le_bytes(*last) as u64,
        );
    }
    match *name {
        [a] => (a as u64, 0),
        [a, b] => (a as u64, b as u64),
        [a, b, c] => (a as u64 | (b as u64) << 8, c as u64),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for id in FieldId::ALL {
            let name = id.as_str();
            assert_eq!(FieldId::of(name.as_bytes()), *id);
            assert_eq!(FieldId::of(name.to_ascii_lowercase().as_bytes()), *id);
            assert_eq!(FieldId::of(name.to_ascii_uppercase().as_bytes()), *id);
        }
    }

    #[test]
    fn a_name_that_differs_in_one_bit_is_another_name() {
        for id in FieldId::ALL {
            for at in 0..id.as_str().len() {
                for bit in 0..8 {
                    let mut name: Vec<u8> = id.as_str().bytes().collect();
                    name[at] ^= 1 << bit;
                    let same = name.eq_ignore_ascii_case(id.as_str().as_bytes());
                    let found = FieldId::of(&name);
                    assert_eq!(found == *id, same, "{name:?}");
                    assert!(found == *id || !same);
                }
            }
        }
        assert_eq!(FieldId::of(b""), FieldId::Other);
        assert_eq!(FieldId::of(b"x-unknown"), FieldId::Other);
    }
}
