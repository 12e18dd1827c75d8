//! Field names. The common ones have a number, so that comparing them on the way of a request is one integer
//! comparison. What a field means is left to the other modules.

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
    /// The number of `name`, whatever its case.
    pub fn of(name: &[u8]) -> FieldId {
        let candidates: &[(&[u8], FieldId)] = match name.len() {
            2 => &[(b"te", FieldId::Te)],
            3 => &[(b"age", FieldId::Age), (b"via", FieldId::Via)],
            4 => &[(b"date", FieldId::Date), (b"etag", FieldId::Etag), (b"from", FieldId::From), (b"host", FieldId::Host), (b"link", FieldId::Link), (b"vary", FieldId::Vary)],
            5 => &[(b"allow", FieldId::Allow), (b"range", FieldId::Range)],
            6 => &[(b"accept", FieldId::Accept), (b"cookie", FieldId::Cookie), (b"expect", FieldId::Expect), (b"origin", FieldId::Origin), (b"pragma", FieldId::Pragma), (b"server", FieldId::Server)],
            7 => &[(b"alt-svc", FieldId::AltSvc), (b"expires", FieldId::Expires), (b"referer", FieldId::Referer), (b"trailer", FieldId::Trailer), (b"upgrade", FieldId::Upgrade)],
            8 => &[(b"if-match", FieldId::IfMatch), (b"if-range", FieldId::IfRange), (b"location", FieldId::Location)],
            9 => &[(b"forwarded", FieldId::Forwarded), (b"x-real-ip", FieldId::XRealIp)],
            10 => &[(b"connection", FieldId::Connection), (b"keep-alive", FieldId::KeepAlive), (b"set-cookie", FieldId::SetCookie), (b"user-agent", FieldId::UserAgent)],
            11 => &[(b"retry-after", FieldId::RetryAfter)],
            12 => &[(b"content-type", FieldId::ContentType), (b"max-forwards", FieldId::MaxForwards)],
            13 => &[(b"accept-ranges", FieldId::AcceptRanges), (b"authorization", FieldId::Authorization), (b"cache-control", FieldId::CacheControl), (b"content-range", FieldId::ContentRange), (b"if-none-match", FieldId::IfNoneMatch), (b"last-modified", FieldId::LastModified)],
            14 => &[(b"accept-charset", FieldId::AcceptCharset), (b"content-length", FieldId::ContentLength)],
            15 => &[(b"accept-encoding", FieldId::AcceptEncoding), (b"accept-language", FieldId::AcceptLanguage), (b"x-forwarded-for", FieldId::XForwardedFor)],
            16 => &[(b"content-encoding", FieldId::ContentEncoding), (b"content-language", FieldId::ContentLanguage), (b"content-location", FieldId::ContentLocation), (b"proxy-connection", FieldId::ProxyConnection), (b"www-authenticate", FieldId::WwwAuthenticate), (b"x-forwarded-host", FieldId::XForwardedHost)],
            17 => &[(b"if-modified-since", FieldId::IfModifiedSince), (b"sec-websocket-key", FieldId::SecWebsocketKey), (b"transfer-encoding", FieldId::TransferEncoding), (b"x-forwarded-proto", FieldId::XForwardedProto)],
            18 => &[(b"proxy-authenticate", FieldId::ProxyAuthenticate)],
            19 => &[(b"content-disposition", FieldId::ContentDisposition), (b"if-unmodified-since", FieldId::IfUnmodifiedSince), (b"proxy-authorization", FieldId::ProxyAuthorization)],
            20 => &[(b"sec-websocket-accept", FieldId::SecWebsocketAccept)],
            21 => &[(b"sec-websocket-version", FieldId::SecWebsocketVersion)],
            22 => &[(b"sec-websocket-protocol", FieldId::SecWebsocketProtocol)],
            23 => &[(b"content-security-policy", FieldId::ContentSecurityPolicy)],
            24 => &[(b"sec-websocket-extensions", FieldId::SecWebsocketExtensions)],
            25 => &[(b"strict-transport-security", FieldId::StrictTransportSecurity)],
            27 => &[(b"access-control-allow-origin", FieldId::AccessControlAllowOrigin)],
            _ => &[],
        };
        for (text, id) in candidates {
            if text.eq_ignore_ascii_case(name) {
                return *id;
            }
        }
        FieldId::Other
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
        valid.then(|| FieldName { id: FieldId::of(text.as_bytes()), text: text.into() })
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
            || matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_')
            || matches!(b, b'`' | b'|' | b'~');
        i += 1;
    }
    table
};
