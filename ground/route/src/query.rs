//! The parameters of a query, decoded. `rewrite` changes them.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use sluice_message::uri::{decode_percent, encode_query};

use crate::limits::QUERY_PAIRS_MAX;

/// One pair of a query, decoded.
pub type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The well-formed pairs of `query`, in order. As in Go, a pair with a `;` or a malformed escape is
/// left out, because programs disagree about what it means.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    raw_pairs(query)
        .take(QUERY_PAIRS_MAX)
        .filter_map(decode_pair)
}

/// Whether all pairs of `query` are well-formed.
pub fn is_well_formed(query: &[u8]) -> bool {
    memchr::memchr_iter(b'&', query).count() < QUERY_PAIRS_MAX
        && raw_pairs(query).all(|pair| decode_pair(pair).is_some())
}

/// Appends the values of `name` to `out`, joined by commas.
pub fn join_values(query: &[u8], name: &[u8], out: &mut Vec<u8>) {
    let mut first = true;
    for (_, value) in pairs(query).filter(|(found, _)| found.as_ref() == name) {
        if !first {
            out.push(b',');
        }
        first = false;
        out.extend_from_slice(&value);
    }
}

/// Appends `pairs` to `out`, encoded.
pub fn encode_pairs<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    let start = out.len();
    for (name, value) in pairs {
        if out.len() > start {
            out.push(b'&');
        }
        encode_query(name, out);
        out.push(b'=');
        encode_query(value, out);
    }
}

fn raw_pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query
        .split(|&byte| byte == b'&')
        .filter(|pair| !pair.is_empty())
}

fn decode_pair(pair: &[u8]) -> Option<Pair<'_>> {
    if memchr::memchr(b';', pair).is_some() {
        return None;
    }
    let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
    let value = pair.get(equals + 1..).unwrap_or_default();
    Some((decode(&pair[..equals])?, decode(value)?))
}

fn decode(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let spaced: Vec<u8> = text
        .iter()
        .map(|&byte| if byte == b'+' { b' ' } else { byte })
        .collect();
    let mut decoded = Vec::with_capacity(spaced.len());
    decode_percent(&spaced, &mut decoded).then_some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_ambiguous_ones_left_out() {
        let list: Vec<_> = pairs(b"a=1&&b&c=%41+b&d=%zz&e=1;f=2&=x").collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"a", b"1"), (b"b", b""), (b"c", b"A b"), (b"", b"x")];
        assert_eq!(list.len(), expected.len());
        for ((name, value), (expected_name, expected_value)) in list.iter().zip(expected) {
            assert_eq!(
                (name.as_ref(), value.as_ref()),
                (expected_name, expected_value)
            );
        }
        assert!(is_well_formed(b"a=1&&b"));
        assert!(!is_well_formed(b"a=1;b"));
        assert!(!is_well_formed(b"a=%g1"));
    }

    #[test]
    fn values_of_a_name_are_joined() {
        let mut out = Vec::new();
        join_values(b"a=1&b=2&a=%2c", b"a", &mut out);
        assert_eq!(out, b"1,,");
    }

    #[test]
    fn pairs_beyond_the_limit_make_a_query_malformed() {
        let query = b"a&".repeat(QUERY_PAIRS_MAX + 1);
        assert!(!is_well_formed(&query));
        assert_eq!(pairs(&query).count(), QUERY_PAIRS_MAX);
    }
}
