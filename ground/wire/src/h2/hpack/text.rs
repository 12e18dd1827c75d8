//! Strings of header compression (RFC 7541, section 5.2; RFC 9204, section 4.1.2): plain, or in the Huffman code. A length
//! has some bits of the first byte, and the bit above them says which of the two follows.

use alloc::vec::Vec;
use core::ops::Range;

use super::error::HpackError;
use super::{huffman, integer};

/// Where a decoded string is.
#[derive(Clone)]
pub(crate) enum Text<'a> {
    /// In the input: it was plain.
    Input(&'a [u8]),
    /// In the buffer that it was decoded to.
    Scratch(Range<usize>),
}

impl Text<'_> {
    /// Its bytes; `scratch` is the buffer that was given to [`decode`].
    #[inline]
    pub fn bytes<'a>(&'a self, scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Input(bytes) => bytes,
            Text::Scratch(range) => &scratch[range.clone()],
        }
    }
}

/// Reads the string at the front of `rest`, whose length has `prefix` bits.
#[inline]
pub(crate) fn decode<'a>(
    rest: &mut &'a [u8],
    prefix: u32,
    scratch: &mut Vec<u8>,
) -> Result<Text<'a>, HpackError> {
    let is_coded = rest.first().ok_or(HpackError::Truncated)? & 1 << prefix != 0;
    let length = integer::decode(rest, prefix)? as usize;
    let (text, after) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = after;
    if !is_coded {
        return Ok(Text::Input(text));
    }
    let start = scratch.len();
    huffman::decode(text, scratch)?;
    Ok(Text::Scratch(start..scratch.len()))
}

/// Appends a string in the shorter of its two forms. The bits above that for the form are those of `pattern`.
pub(crate) fn encode(text: &[u8], prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(coded, prefix, pattern | 1 << prefix, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), prefix, pattern, out);
        out.extend_from_slice(text);
    }
}
