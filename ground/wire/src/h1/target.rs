//! The four forms of a request target (RFC 9112, section 3.2). The router interprets the target.

use sluice_message::Method;

use super::authority::{is_authority, is_authority_with_port};

/// A request target, taken apart.
pub(crate) enum Target<'a> {
    /// A path with an optional query.
    Origin(&'a [u8]),
    /// A whole URL; `rest` is empty or starts with `/` or `?`.
    Absolute { authority: &'a [u8], rest: &'a [u8] },
    /// Host and port, for CONNECT.
    Authority(&'a [u8]),
    /// `*`, for OPTIONS.
    Asterisk,
}

impl<'a> Target<'a> {
    /// The form of `text`, whose bytes were checked; `None` if it has none, or one that `method` does not allow.
    pub fn of(method: &Method, text: &'a [u8]) -> Option<Target<'a>> {
        if *method == Method::Connect {
            return is_authority_with_port(text).then_some(Target::Authority(text));
        }
        if text.first() == Some(&b'/') {
            return Some(Target::Origin(text));
        }
        if text == b"*" {
            return (*method == Method::Options).then_some(Target::Asterisk);
        }
        let url = strip_scheme(text, b"http://").or_else(|| strip_scheme(text, b"https://"))?;
        let end = url
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(url.len());
        let (authority, rest) = url.split_at(end);
        is_authority(authority).then_some(Target::Absolute { authority, rest })
    }
}

fn strip_scheme<'a>(text: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}
