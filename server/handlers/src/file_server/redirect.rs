//! Redirects to the canonical form of a path: folders end with a slash, files do not, so that relative links on a page
//! work.

use std::borrow::Cow;

use sluice_message::uri::{decode_percent, encode_path};
use sluice_message::{FieldId, Method, Status, path};
use sluice_net::Body;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::Step;

/// Redirects to the path with a trailing slash, if it lacks one.
pub(super) fn with_slash(exchange: &mut Exchange) -> Option<Step> {
    let original = original_path(exchange);
    if original.ends_with(b"/") || !names_the_same(exchange, &original) {
        return None;
    }
    let original = original.into_owned();
    Some(to(exchange, &original, End::Slash))
}

/// Redirects to the path without a trailing slash, if it has one.
pub(super) fn without_slash(exchange: &mut Exchange) -> Option<Step> {
    // Fast path: neither the current nor the original path ends with a slash.
    if !exchange.req.uri.path().ends_with(b"/")
        && exchange.req.uri.as_bytes() == &exchange.req.target[..]
    {
        return None;
    }
    let original = original_path(exchange);
    if !original.ends_with(b"/") || !names_the_same(exchange, &original) {
        return None;
    }
    let original = original.into_owned();
    Some(to(exchange, &original, End::Name))
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Slash,
    Name,
}

/// Whether rewrites left the last segment unchanged: the client does not know about others.
fn names_the_same(exchange: &Exchange, original: &[u8]) -> bool {
    path::base_name(original) == path::base_name(exchange.req.uri.path())
}

/// The path as sent by the client, decoded.
pub(super) fn original_path(exchange: &Exchange) -> Cow<'_, [u8]> {
    let (sent, _) = split(&exchange.req.target);
    if !sent.contains(&b'%') {
        return Cow::Borrowed(sent);
    }
    let mut decoded = Vec::new();
    decode_percent(sent, &mut decoded);
    Cow::Owned(decoded)
}

/// Path and query of a request target in origin-form or absolute-form (RFC 9112, section 3.2).
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let query_at = memchr::memchr(b'?', target);
    let (before, query) = match query_at {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    if before.starts_with(b"/") {
        return (before, query);
    }
    let authority_at = memchr::memmem::find(before, b"://").map_or(0, |at| at + 3);
    let path_at = memchr::memchr(b'/', &before[authority_at..]);
    (
        path_at.map_or(&b"/"[..], |at| &before[authority_at + at..]),
        query,
    )
}

fn to(exchange: &mut Exchange, original: &[u8], end: End) -> Step {
    // Normalization leaves one leading slash and encoding escapes backslashes, so the target cannot be another host:
    // browsers treat `//host` and `/\host` as one.
    let (mut clean, mut location) = (Vec::new(), Vec::new());
    path::clean(original, &mut clean);
    match end {
        End::Slash if !clean.ends_with(b"/") => clean.push(b'/'),
        End::Name if clean.len() > 1 && clean.ends_with(b"/") => {
            clean.pop();
        }
        End::Slash | End::Name => {}
    }
    encode_path(&clean, &mut location);
    if let (_, Some(query)) = split(&exchange.req.target) {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    exchange.res.status = Status::PERMANENT_REDIRECT;
    exchange.res.fields.set(FieldId::Location, &location);
    // Other methods do not expect a page; the redirect makes clients repeat them unchanged.
    if !matches!(exchange.req.method, Method::Get | Method::Head) {
        return Step::Done(Body::Empty);
    }
    exchange
        .res
        .fields
        .set(FieldId::ContentType, b"text/html; charset=utf-8");
    exchange.inline.clear();
    exchange.inline.extend_from_slice(b"<a href=\"");
    super::escape::escape(&location, &mut exchange.inline);
    exchange
        .inline
        .extend_from_slice(b"\">Permanent Redirect</a>.\n\n");
    Step::Done(Body::Inline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_into_path_and_query() {
        assert_eq!(split(b"/a?b?c"), (&b"/a"[..], Some(&b"b?c"[..])));
        assert_eq!(split(b"http://h/a/?"), (&b"/a/"[..], Some(&b""[..])));
        assert_eq!(split(b"http://h"), (&b"/"[..], None));
        assert_eq!(split(b"*"), (&b"/"[..], None));
    }
}
