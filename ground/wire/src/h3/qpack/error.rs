//! What makes field sections and instructions undecodable.

use core::fmt;

use crate::h2::hpack::HpackError;

/// Why a field section or an instruction cannot be decoded. The two ends no longer have the same table, so the
/// connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpackError {
    /// A number or a string is malformed, or cut off.
    Text(HpackError),
    /// The prefix of a section has a count or a base that does not exist.
    Prefix,
    /// No entry has this number, or its entry was dropped.
    Index,
    /// A section refers to an entry that its prefix does not announce.
    Unannounced,
    /// More requests wait than were allowed.
    TooManyBlocked,
    /// A table size above the one that was allowed.
    Capacity,
    /// An entry that is larger than the table.
    EntryTooLarge,
}

impl From<HpackError> for QpackError {
    fn from(error: HpackError) -> QpackError {
        QpackError::Text(error)
    }
}

impl fmt::Display for QpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpackError::Text(error) => return error.fmt(f),
            QpackError::Prefix => "count or base does not exist",
            QpackError::Index => "no such table entry",
            QpackError::Unannounced => "entry beyond the announced count",
            QpackError::TooManyBlocked => "too many requests wait for the table",
            QpackError::Capacity => "table size above its limit",
            QpackError::EntryTooLarge => "entry larger than the table",
        })
    }
}

impl core::error::Error for QpackError {}
