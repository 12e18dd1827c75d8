//! Revisions of a configuration.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// Bytes of the digest in a revision: 48 bits tell apart more texts than a fleet ever sees.
const DIGEST_BYTES: usize = 6;

/// The fewest digits that name a revision.
const DIGITS_MIN: usize = 4;

/// What identifies a text: the beginning of its SHA-256 digest in hexadecimal digits. Equal texts have the same revision
/// on every engine, in the history and in a local copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// The revision of a text.
    pub fn of(text: &str) -> Revision {
        let digest = digest(&SHA256, text.as_bytes());
        let bytes = digest.as_ref().iter().take(DIGEST_BYTES);
        Revision(bytes.map(|byte| format!("{byte:02x}")).collect())
    }

    /// A revision that was written down.
    pub fn named(text: &str) -> Revision {
        Revision(text.to_owned())
    }

    /// Whether `digits` name this revision: its first four or more.
    pub fn is_named_by(&self, digits: &str) -> bool {
        digits.len() >= DIGITS_MIN && self.0.starts_with(&digits.to_ascii_lowercase())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_the_beginning_of_the_digest() {
        // `printf abc | sha256sum`
        let revision = Revision::of("abc");
        assert_eq!(revision.as_str(), "ba7816bf8f01");
        assert!(revision.is_named_by("ba78"));
        assert!(revision.is_named_by("BA7816BF8F01"));
        assert!(!revision.is_named_by("ba7"));
        assert!(!revision.is_named_by("ba7816bf8f01cfea"));
        assert_ne!(Revision::of("abd"), revision);
    }
}
