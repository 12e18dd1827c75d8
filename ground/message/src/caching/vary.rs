//! The `Vary` header: which request headers select a cached response (RFC 9111, section 4.1).

use alloc::vec::Vec;

use crate::fields::Fields;
use crate::limits::VARY_NAMES_MAX;
use crate::name::FieldId;

/// What a response varies by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Nothing: it matches every request for its target.
    Nothing,
    /// `*`, or more headers than the cache compares: it matches no other request.
    Everything,
    /// Request headers: their names in lower case, sorted, each followed by a comma.
    Names(Vec<u8>),
}

/// What a response with these headers varies by.
pub fn vary(fields: &Fields) -> Vary {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for name in items(fields.all(FieldId::Vary)) {
        if name == b"*" || names.len() > VARY_NAMES_MAX {
            return Vary::Everything;
        }
        names.push(name.to_ascii_lowercase());
    }
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => Vary::Nothing,
        1..=VARY_NAMES_MAX => Vary::Names(listed(names.iter().map(Vec::as_slice))),
        _ => Vary::Everything,
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    names.fold(Vec::new(), |mut all, name| {
        all.extend_from_slice(name);
        all.push(b',');
        all
    })
}

/// Two lists of names as one, each name once. They are as in [`Vary::Names`].
pub fn joined(names: Vec<u8>, more: &[u8]) -> Vec<u8> {
    if more.is_empty() {
        return names;
    }
    let mut all: Vec<&[u8]> = items([&names[..], more].into_iter()).collect();
    all.sort_unstable();
    all.dedup();
    listed(all.into_iter())
}

/// Whether a list of names has all of another one. They are as in [`Vary::Names`].
pub fn names_all(names: &[u8], wanted: &[u8]) -> bool {
    let mut wanted = items([wanted].into_iter());
    wanted.all(|name| items([names].into_iter()).any(|known| known == name))
}

/// Appends the part of the cache key that distinguishes variants of a response that varies by `names` (as in
/// [`Vary::Names`]): the values of those request headers, with lines joined and white space between items removed.
pub fn variant(names: &[u8], request: &Fields, out: &mut Vec<u8>) {
    for name in names
        .split(|byte| *byte == b',')
        .filter(|name| !name.is_empty())
    {
        let mut is_first = true;
        for item in items(request.find(name)) {
            // No value holds either of these two bytes, so no two requests can look alike that are not.
            out.push(if is_first { 0x01 } else { b',' });
            out.extend_from_slice(item);
            is_first = false;
        }
        out.push(0x02);
    }
}

fn items<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    lines
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}
