//! Base64, base32 and checksums. The host provides cryptographic digests.

use alloc::format;
use alloc::vec::Vec;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::function;
use crate::function::Function;

pub(super) const FUNCTIONS: &[Function] = &[
    function("b64enc", 1, 1, |call| {
        let encoded = BASE64_STANDARD.encode(call.text(0)?.as_bytes());
        call.made(encoded)
    }),
    function("b64dec", 1, 1, |call| {
        // As in Sprig, the result is the error message.
        match BASE64_STANDARD.decode(call.text(0)?.as_bytes()) {
            Ok(decoded) => call.made(decoded),
            Err(_) => call.made("illegal base64 data"),
        }
    }),
    function("b32enc", 1, 1, |call| {
        let encoded = encode32(call.text(0)?.as_bytes());
        call.made(encoded)
    }),
    function("b32dec", 1, 1, |call| {
        match decode32(call.text(0)?.as_bytes()) {
            Some(decoded) => call.made(decoded),
            None => call.made("illegal base32 data"),
        }
    }),
    function("adler32sum", 1, 1, |call| {
        let sum = adler32(call.text(0)?.as_bytes());
        call.made(format!("{sum}"))
    }),
];

const ALPHABET32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// RFC 4648, section 6.
fn encode32(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut bits = 0_u64;
        for at in 0..5 {
            bits = bits << 8 | u64::from(group.get(at).copied().unwrap_or(0));
        }
        let letters = (group.len() * 8).div_ceil(5);
        for at in 0..8 {
            out.push(if at < letters {
                ALPHABET32[(bits >> (35 - 5 * at) & 31) as usize]
            } else {
                b'='
            });
        }
    }
    out
}

fn decode32(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(8) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    for (number, group) in text.chunks(8).enumerate() {
        let letters = group.iter().take_while(|byte| **byte != b'=').count();
        let padded = group[letters..].iter().all(|byte| *byte == b'=');
        let last = (number + 1) * 8 == text.len();
        if !padded || !(last || letters == 8) || !matches!(letters, 2 | 4 | 5 | 7 | 8) {
            return None;
        }
        let mut bits = 0_u64;
        for at in 0..8 {
            let value = match group.get(at).filter(|_| at < letters) {
                Some(byte) => ALPHABET32.iter().position(|known| known == byte)?,
                None => 0,
            };
            bits = bits << 5 | value as u64;
        }
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + letters * 5 / 8]);
    }
    Some(out)
}

/// RFC 1950, section 8.2.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_goes_there_and_back() {
        for (text, encoded) in [
            ("", ""),
            ("f", "MY======"),
            ("fo", "MZXQ===="),
            ("foo", "MZXW6==="),
            ("foob", "MZXW6YQ="),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI======"),
        ] {
            assert_eq!(encode32(text.as_bytes()), encoded.as_bytes());
            assert_eq!(
                decode32(encoded.as_bytes()).as_deref(),
                Some(text.as_bytes())
            );
        }
        for wrong in ["MY", "M=======", "my======", "MY======MY======"] {
            assert_eq!(decode32(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
