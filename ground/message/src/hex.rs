//! Hexadecimal encoding, both plain and as percent-encoding (RFC 3986, section 2.1). The caller decides which bytes to
//! escape.

use alloc::string::String;
use alloc::vec::Vec;

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Appends two lower-case digits for each byte.
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| digits(*byte, LOWER)));
}

/// Two lower-case digits for each byte.
pub fn hex_text(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| digits(*byte, LOWER));
    digits.map(char::from).collect()
}

/// Appends two upper-case digits for each byte.
pub fn push_hex_upper(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| digits(*byte, UPPER)));
}

/// Appends `%2F` for a slash, and so on.
#[inline]
pub fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let [high, low] = digits(byte, UPPER);
    out.extend_from_slice(&[b'%', high, low]);
}

/// Appends `text` with all escaped but ASCII letters, digits and the bytes in `plain`.
pub fn push_escaped(out: &mut Vec<u8>, text: &[u8], plain: &[u8]) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(byte);
        } else {
            push_escape(out, byte);
        }
    }
}

/// The byte that two digits of either case at the start of `text` spell.
#[inline]
pub fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(*text.first()?)? * 16 + digit(*text.get(1)?)?) as u8)
}

#[inline]
const fn digits(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[(byte >> 4) as usize], digits[(byte & 15) as usize]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back() {
        for byte in 0..=255 {
            let (mut lower, mut upper, mut escape) = (Vec::new(), Vec::new(), Vec::new());
            push_hex(&mut lower, &[byte]);
            push_hex_upper(&mut upper, &[byte]);
            push_escape(&mut escape, byte);
            assert_eq!(hex_pair(&lower), Some(byte));
            assert_eq!(hex_pair(&escape[1..]), Some(byte));
            assert_eq!(upper, lower.to_ascii_uppercase());
            assert_eq!(hex_text(&[byte]).as_bytes(), lower);
        }
        assert_eq!(hex_text(&[0, 0xaf, 0x5e]), "00af5e");
        for wrong in ["", "a", "g0", "0g", "+1", "é"] {
            assert_eq!(hex_pair(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn only_what_is_plain_stays() {
        let mut out = Vec::new();
        push_escaped(&mut out, "a/b c-é".as_bytes(), b"-/");
        assert_eq!(out, b"a/b%20c-%C3%A9");
    }
}
