//! MD5 (RFC 1321) for the names of cache files. nginx uses the same names, so existing tools that find and purge such
//! files keep working. The digest is not relied on for security: keys are compared in full.

use md5::{Digest as _, Md5};
use sluice_message::hex::{hex_pair, hex_text};

/// The MD5 digest of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The first one in order.
    pub(crate) const FIRST: Digest = Digest([0; 16]);

    /// The digest of several parts as if they were concatenated.
    pub fn of(parts: &[&[u8]]) -> Digest {
        let mut sum = Md5::new();
        parts.iter().for_each(|part| sum.update(part));
        Digest(sum.finalize().into())
    }

    /// As 32 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        hex_text(&self.0)
    }

    /// Parses 32 lower-case hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        if text.len() != 32 || text.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            *byte = hex_pair(pair)?;
        }
        Some(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, appendix A.5.
    #[test]
    fn digests_are_those_of_the_standard() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            let digest = Digest::of(&[text.as_bytes()]);
            assert_eq!(digest.hex(), expected, "{text}");
            assert_eq!(Digest::parse(expected.as_bytes()), Some(digest));
            let (one, other) = text.as_bytes().split_at(text.len() / 3);
            assert_eq!(Digest::of(&[one, other]), digest);
        }
        assert_eq!(Digest::parse(b"d41d"), None);
        assert_eq!(Digest::parse(b"D41d8cd98f00b204e9800998ecf8427e"), None);
    }
}
