//! Changes of an encoded path or query that keep the URI valid. The other modules decide what to change.

use alloc::vec::Vec;

use sluice_message::Uri;
use sluice_message::hex::push_escape;
use sluice_message::uri::{decode_percent, encode_path_as_go};

use crate::limits::REWRITTEN_URI_BYTES_MAX;
use crate::path::{Slashes, clean_into};

/// Sets the query; an empty one goes with its question mark. Bytes that may not stand in a request
/// target are encoded, so that no value can end the request line.
pub(super) fn set_query(uri: &mut Uri, query: &[u8]) {
    if query.is_empty() {
        return uri.set_query(None);
    }
    let mut safe = Vec::with_capacity(query.len());
    for &byte in query {
        if byte <= b' ' || byte >= 0x7f || byte == b'#' {
            push_escape(&mut safe, byte);
        } else {
            safe.push(byte);
        }
    }
    uri.set_query(Some(&safe));
}

/// Sets the path to the result of `edit` on its encoded form. A result that is not a well-formed path is decoded as far
/// as possible and encoded again.
pub(super) fn change_path(uri: &mut Uri, edit: &dyn Fn(&[u8]) -> Vec<u8>) {
    let encoded = edit(uri.path_raw());
    // The target `*` and that of CONNECT are not paths, and stay unchanged.
    if encoded == uri.path_raw() {
        return;
    }
    if encoded
        .iter()
        .all(|&byte| is_path_byte(byte) && byte != b'%')
    {
        return set_encoded(uri, &encoded);
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    if !decode_percent(&encoded, &mut decoded) {
        let decoded = edit(uri.path());
        return set_decoded(uri, &decoded);
    }
    if encoded.iter().all(|&byte| is_path_byte(byte)) {
        set_encoded(uri, &encoded);
    } else {
        set_decoded(uri, &decoded);
    }
}

/// Sets the path to `encoded`. A path begins with a slash (RFC 9112, section 3.2.1); one is added
/// where it is missing.
fn set_encoded(uri: &mut Uri, encoded: &[u8]) {
    match encoded.first() {
        Some(b'/') => uri.set_path_raw(encoded),
        _ => uri.set_path_raw(&[b"/", encoded].concat()),
    }
}

/// Sets the path to `decoded`, encoded as needed, with a slash added where it is missing.
pub(super) fn set_decoded(uri: &mut Uri, decoded: &[u8]) {
    let mut encoded = Vec::with_capacity(decoded.len() + 1);
    if decoded.first() != Some(&b'/') {
        encoded.push(b'/');
    }
    encode_path_as_go(decoded, &mut encoded);
    uri.set_path_raw(&encoded);
}

/// Whether `byte` may stand in an encoded path (RFC 3986, section 3.3, and brackets, which clients
/// send).
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte)
}

/// Slashes are merged unless the text of the configuration has a doubled one.
pub(super) fn slashes_of(text: &[u8]) -> Slashes {
    match memchr::memmem::find(text, b"//") {
        Some(_) => Slashes::Keep,
        None => Slashes::Merge,
    }
}

pub(super) fn cleaned(path: &[u8], slashes: Slashes) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    clean_into(path, slashes, &mut out);
    out
}
/// `text` with each `find` in it replaced, at most `limit` times (0 for any number of times), and no more once the result
/// has outgrown [`REWRITTEN_URI_BYTES_MAX`]. An empty `find` changes nothing.
pub fn replace_text(text: &[u8], find: &[u8], replace: &[u8], limit: usize) -> Vec<u8> {
    if find.is_empty() {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    while limit == 0 || count < limit {
        let Some(found) = memchr::memmem::find(&text[at..], find) else {
            break;
        };
        out.extend_from_slice(&text[at..at + found]);
        out.extend_from_slice(replace);
        at += found + find.len();
        count += 1;
        if out.len() > REWRITTEN_URI_BYTES_MAX {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Which end of a path is stripped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Start,
    End,
}

/// The cleaned `path` without `affix` at that end, or as it is if it has none.
pub(super) fn strip(path: &[u8], affix: &[u8], end: End) -> Vec<u8> {
    let mut path = cleaned(path, slashes_of(affix));
    if let Some(width) = affix_width(&path, affix, end) {
        match end {
            End::Start => drop(path.drain(..width)),
            End::End => path.truncate(path.len() - width),
        }
    }
    path
}

/// How many bytes of `path` the `affix` at that end takes; `None` if it is not there.
fn affix_width(path: &[u8], affix: &[u8], end: End) -> Option<usize> {
    if memchr::memchr(b'%', path)
        .or(memchr::memchr(b'%', affix))
        .is_none()
    {
        let (rest, width) = (path.len().checked_sub(affix.len())?, affix.len());
        let found = match end {
            End::Start => &path[..width],
            End::End => &path[rest..],
        };
        return found.eq_ignore_ascii_case(affix).then_some(width);
    }
    let mut found: Vec<&[u8]> = units(path).collect();
    let mut wanted: Vec<&[u8]> = units(affix).collect();
    if end == End::End {
        found.reverse();
        wanted.reverse();
    }
    let found = found.get(..wanted.len())?;
    let fits = wanted
        .iter()
        .zip(found)
        .all(|(wanted, found)| is_same(wanted, found));
    fits.then(|| found.iter().map(|unit| unit.len()).sum())
}

/// The characters of an encoded text: single bytes and whole escapes.
fn units(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let escape = rest.first() == Some(&b'%')
            && rest
                .get(1..3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let (unit, tail) = rest.split_at_checked(if escape { 3 } else { 1 })?;
        rest = tail;
        Some(unit)
    })
}

/// Whether a character of a path is the one wanted: an escape only that escape, any other either
/// form.
fn is_same(wanted: &[u8], found: &[u8]) -> bool {
    if wanted.len() == found.len() {
        return wanted.eq_ignore_ascii_case(found);
    }
    let mut decoded = Vec::new();
    wanted.len() == 1 && decode_percent(found, &mut decoded) && decoded.eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_replaced_everywhere_or_so_many_times() {
        assert_eq!(replace_text(b"a-b-c", b"-", b"++", 0), b"a++b++c");
        assert_eq!(replace_text(b"a-b-c", b"-", b"", 1), b"ab-c");
        assert_eq!(replace_text(b"abc", b"", b"x", 0), b"abc");
    }
}
