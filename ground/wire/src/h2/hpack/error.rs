//! What makes a header block undecodable.

use core::fmt;

/// Why a block cannot be decoded. The two ends no longer have the same table, so the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// A number that no length or index has.
    IntegerTooLarge,
    /// There is no entry with this number.
    Index,
    /// The end of strings within a string.
    HuffmanEos,
    /// A string whose last byte is filled up by something else than fewer than eight ones.
    HuffmanPadding,
    /// A table size after the first field (RFC 7541, section 4.2).
    SizeLate,
    /// A table size above the one we allowed.
    SizeTooLarge,
    /// We allowed less than before, and the block does not begin with a new size.
    SizeMissing,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HpackError::Truncated => "block ends within a field",
            HpackError::IntegerTooLarge => "number too large",
            HpackError::Index => "no such table entry",
            HpackError::HuffmanEos => "end of string within a string",
            HpackError::HuffmanPadding => "wrong padding of a string",
            HpackError::SizeLate => "table size after a field",
            HpackError::SizeTooLarge => "table size above its limit",
            HpackError::SizeMissing => "table size missing",
        })
    }
}

impl core::error::Error for HpackError {}
