//! Integers with a prefix of some bits (RFC 7541, section 5.1).

use alloc::vec::Vec;

use super::error::HpackError;

/// The largest integer taken: far above every length and index of use, far below overflow.
const INTEGER_MAX: u32 = 1 << 24;

/// Reads an integer whose first byte, at the front of `rest`, has `prefix` bits for it.
#[inline]
pub(crate) fn decode(rest: &mut &[u8], prefix: u32) -> Result<u32, HpackError> {
    let (first, after) = rest.split_first().ok_or(HpackError::Truncated)?;
    *rest = after;
    let mask = (1u32 << prefix) - 1;
    let start = u32::from(*first) & mask;
    if start < mask {
        return Ok(start);
    }
    decode_rest(rest, mask)
}

fn decode_rest(rest: &mut &[u8], mask: u32) -> Result<u32, HpackError> {
    let mut value = mask;
    // Four bytes hold more than the largest integer taken; zeros may not go on for ever either.
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first().ok_or(HpackError::Truncated)?;
        *rest = after;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value > INTEGER_MAX {
                Err(HpackError::IntegerTooLarge)
            } else {
                Ok(value)
            };
        }
    }
    Err(HpackError::IntegerTooLarge)
}

/// Appends `value` with a prefix of `prefix` bits; the other bits of the first byte are those of `pattern`.
#[inline]
pub(crate) fn encode(value: usize, prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | rest as u8 & 0x7f);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn examples_of_the_standard() {
        for (value, prefix, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b0000_1010]),
            (42, 8, &[0b0010_1010]),
        ] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, bytes);
            let mut rest = bytes;
            assert_eq!(decode(&mut rest, prefix), Ok(value as u32));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn integers_come_back_and_large_or_endless_ones_are_refused() {
        for prefix in 4..=8 {
            for value in (0..70_000).chain([INTEGER_MAX as usize]) {
                let mut out = Vec::new();
                encode(value, prefix, 0, &mut out);
                assert_eq!(decode(&mut &out[..], prefix), Ok(value as u32));
                assert_eq!(
                    decode(&mut &out[..out.len() - 1], prefix),
                    Err(HpackError::Truncated)
                );
            }
        }
        let mut out = Vec::new();
        encode(INTEGER_MAX as usize + 1, 5, 0, &mut out);
        assert_eq!(decode(&mut &out[..], 5), Err(HpackError::IntegerTooLarge));
        let endless = [0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
        assert_eq!(
            decode(&mut &endless[..], 5),
            Err(HpackError::IntegerTooLarge)
        );
        let largest = [0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(
            decode(&mut &largest[..], 5),
            Err(HpackError::IntegerTooLarge)
        );
    }
}
