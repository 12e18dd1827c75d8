//! The static table of QPACK (RFC 9204, appendix A).

use sluice_message::FieldId;

use crate::h2::hpack::{NameKind, Pseudo};

/// The fixed table, with what its names are; the first entry has the number 0.
#[rustfmt::skip]
pub(super) static FIXED: [(NameKind, &str, &str); 99] = {
    use FieldId::*;
    use NameKind::{Field as F, Pseudo as P};
    use Pseudo::{Authority, Method, Path, Scheme, Status};
    [
        (P(Authority), ":authority", ""),
        (P(Path), ":path", "/"),
        (F(Age), "age", "0"),
        (F(ContentDisposition), "content-disposition", ""),
        (F(ContentLength), "content-length", "0"),
        (F(Cookie), "cookie", ""),
        (F(Date), "date", ""),
        (F(Etag), "etag", ""),
        (F(IfModifiedSince), "if-modified-since", ""),
        (F(IfNoneMatch), "if-none-match", ""),
        (F(LastModified), "last-modified", ""),
        (F(Link), "link", ""),
        (F(Location), "location", ""),
        (F(Referer), "referer", ""),
        (F(SetCookie), "set-cookie", ""),
        (P(Method), ":method", "CONNECT"),
        (P(Method), ":method", "DELETE"),
        (P(Method), ":method", "GET"),
        (P(Method), ":method", "HEAD"),
        (P(Method), ":method", "OPTIONS"),
        (P(Method), ":method", "POST"),
        (P(Method), ":method", "PUT"),
        (P(Scheme), ":scheme", "http"),
        (P(Scheme), ":scheme", "https"),
        (P(Status), ":status", "103"),
        (P(Status), ":status", "200"),
        (P(Status), ":status", "304"),
        (P(Status), ":status", "404"),
        (P(Status), ":status", "503"),
        (F(Accept), "accept", "*/*"),
        (F(Accept), "accept", "application/dns-message"),
        (F(AcceptEncoding), "accept-encoding", "gzip, deflate, br"),
        (F(AcceptRanges), "accept-ranges", "bytes"),
        (F(Other), "access-control-allow-headers", "cache-control"),
        (F(Other), "access-control-allow-headers", "content-type"),
        (F(AccessControlAllowOrigin), "access-control-allow-origin", "*"),
        (F(CacheControl), "cache-control", "max-age=0"),
        (F(CacheControl), "cache-control", "max-age=2592000"),
        (F(CacheControl), "cache-control", "max-age=604800"),
        (F(CacheControl), "cache-control", "no-cache"),
        (F(CacheControl), "cache-control", "no-store"),
        (F(CacheControl), "cache-control", "public, max-age=31536000"),
        (F(ContentEncoding), "content-encoding", "br"),
        (F(ContentEncoding), "content-encoding", "gzip"),
        (F(ContentType), "content-type", "application/dns-message"),
        (F(ContentType), "content-type", "application/javascript"),
        (F(ContentType), "content-type", "application/json"),
        (F(ContentType), "content-type", "application/x-www-form-urlencoded"),
        (F(ContentType), "content-type", "image/gif"),
        (F(ContentType), "content-type", "image/jpeg"),
        (F(ContentType), "content-type", "image/png"),
        (F(ContentType), "content-type", "text/css"),
        (F(ContentType), "content-type", "text/html; charset=utf-8"),
        (F(ContentType), "content-type", "text/plain"),
        (F(ContentType), "content-type", "text/plain;charset=utf-8"),
        (F(Range), "range", "bytes=0-"),
        (F(StrictTransportSecurity), "strict-transport-security", "max-age=31536000"),
        (F(StrictTransportSecurity), "strict-transport-security", "max-age=31536000; includesubdomains"),
        (F(StrictTransportSecurity), "strict-transport-security", "max-age=31536000; includesubdomains; preload"),
        (F(Vary), "vary", "accept-encoding"),
        (F(Vary), "vary", "origin"),
        (F(Other), "x-content-type-options", "nosniff"),
        (F(Other), "x-xss-protection", "1; mode=block"),
        (P(Status), ":status", "100"),
        (P(Status), ":status", "204"),
        (P(Status), ":status", "206"),
        (P(Status), ":status", "302"),
        (P(Status), ":status", "400"),
        (P(Status), ":status", "403"),
        (P(Status), ":status", "421"),
        (P(Status), ":status", "425"),
        (P(Status), ":status", "500"),
        (F(AcceptLanguage), "accept-language", ""),
        (F(Other), "access-control-allow-credentials", "FALSE"),
        (F(Other), "access-control-allow-credentials", "TRUE"),
        (F(Other), "access-control-allow-headers", "*"),
        (F(Other), "access-control-allow-methods", "get"),
        (F(Other), "access-control-allow-methods", "get, post, options"),
        (F(Other), "access-control-allow-methods", "options"),
        (F(Other), "access-control-expose-headers", "content-length"),
        (F(Other), "access-control-request-headers", "content-type"),
        (F(Other), "access-control-request-method", "get"),
        (F(Other), "access-control-request-method", "post"),
        (F(AltSvc), "alt-svc", "clear"),
        (F(Authorization), "authorization", ""),
        (F(ContentSecurityPolicy), "content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
        (F(Other), "early-data", "1"),
        (F(Other), "expect-ct", ""),
        (F(Forwarded), "forwarded", ""),
        (F(IfRange), "if-range", ""),
        (F(Origin), "origin", ""),
        (F(Other), "purpose", "prefetch"),
        (F(Server), "server", ""),
        (F(Other), "timing-allow-origin", "*"),
        (F(Other), "upgrade-insecure-requests", "1"),
        (F(UserAgent), "user-agent", ""),
        (F(XForwardedFor), "x-forwarded-for", ""),
        (F(Other), "x-frame-options", "deny"),
        (F(Other), "x-frame-options", "sameorigin"),
    ]
};

/// The first fixed entry with each known name; [`NO_NAME`] where there is none.
pub(super) static FIXED_NAMES: [u8; 256] = {
    let mut numbers = [NO_NAME; 256];
    let mut i = FIXED.len();
    while i > 0 {
        i -= 1;
        if let NameKind::Field(id) = FIXED[i].0
            && !matches!(id, FieldId::Other)
        {
            numbers[id as usize] = i as u8;
        }
    }
    numbers
};

/// In [`FIXED_NAMES`]: the fixed table does not have the name.
pub(super) const NO_NAME: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_they_look_like() {
        for (kind, name, value) in FIXED {
            assert_eq!(kind, NameKind::look(name.as_bytes()), "{name}");
            assert!(value.is_ascii());
        }
        assert_eq!(FIXED_NAMES[FieldId::ContentType as usize], 44);
        assert_eq!(FIXED_NAMES[FieldId::Server as usize], 92);
        assert_eq!(FIXED_NAMES[FieldId::Via as usize], NO_NAME);
        assert_eq!(FIXED_NAMES[FieldId::Other as usize], NO_NAME);
    }
}
