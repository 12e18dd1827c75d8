//! Variable-length integers (RFC 9000, section 16).

use alloc::vec::Vec;

/// The largest integer.
pub(super) const VARINT_MAX: u64 = (1 << 62) - 1;

/// Reads an integer at the front of `bytes`; gives it and its length, or `None` if it is not complete.
#[inline]
pub fn decode_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let start = u64::from(first & 0x3f);
    let value = rest
        .iter()
        .fold(start, |value, byte| value << 8 | u64::from(*byte));
    Some((value, length))
}

/// Appends an integer in its shortest form. Integers from 2^62 on do not exist, and are written as the largest one.
#[inline]
pub fn encode_varint(value: u64, out: &mut Vec<u8>) {
    match value.min(VARINT_MAX) {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | value as u16).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(0x8000_0000 | value as u32).to_be_bytes()),
        value => out.extend_from_slice(&(0xc000_0000_0000_0000 | value).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.1.
    #[test]
    fn examples_of_the_standard() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(decode_varint(bytes), Some((value, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(decode_varint(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn integers_come_back_in_their_shortest_form() {
        for (value, length) in [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            (VARINT_MAX, 8),
        ] {
            let mut out = Vec::new();
            encode_varint(value, &mut out);
            assert_eq!(
                (out.len(), decode_varint(&out)),
                (length, Some((value, length)))
            );
        }
        let mut out = Vec::new();
        encode_varint(u64::MAX, &mut out);
        assert_eq!(decode_varint(&out), Some((VARINT_MAX, 8)));
    }
}
