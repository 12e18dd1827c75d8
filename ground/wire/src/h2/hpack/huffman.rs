//! The Huffman code of header compression (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: among codes of one length, the greater symbol has the greater code. The lengths are therefore
//! all that needs to be listed here; codes and tables are computed from them at compile time.

use alloc::vec::Vec;

use super::error::HpackError;

/// The length in bits of each symbol's code; the last symbol ends a string and never occurs in one.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const EOS: u16 = 256;
const LENGTH_MAX: usize = 30;

/// What the codes of one length are.
#[derive(Clone, Copy)]
struct Run {
    /// The first code.
    first: u32,
    /// How many there are.
    count: u32,
    /// Where their symbols stand in [`SYMBOLS`].
    at: u32,
}

/// The codes by their lengths.
const RUNS: [Run; LENGTH_MAX + 1] = {
    let none = Run {
        first: 0,
        count: 0,
        at: 0,
    };
    let mut runs = [none; LENGTH_MAX + 1];
    let (mut length, mut next, mut at) = (1, 0, 0);
    while length <= LENGTH_MAX {
        let mut count = 0;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            count += (LENGTHS[symbol] as usize == length) as u32;
            symbol += 1;
        }
        next <<= 1;
        runs[length] = Run {
            first: next,
            count,
            at,
        };
        next += count;
        at += count;
        length += 1;
    }
    runs
};

/// The symbols in the order of their codes.
static SYMBOLS: [u16; 257] = {
    let mut symbols = [0; 257];
    let (mut length, mut at) = (1, 0);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                symbols[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
};

/// Code and length of each symbol that can stand in a string.
static CODES: [(u32, u32); 256] = {
    let mut codes = [(0, 0); 256];
    let mut length = 1;
    while length <= LENGTH_MAX {
        let run = RUNS[length];
        let mut i = 0;
        while i < run.count {
            let symbol = SYMBOLS[(run.at + i) as usize];
            if symbol != EOS {
                codes[symbol as usize] = (run.first + i, length as u32);
            }
            i += 1;
        }
        length += 1;
    }
    codes
};

/// Codes up to this length are found by one look.
const FAST_BITS: u32 = 9;

/// By the next nine bits: symbol and length of the code they begin with; length 0 if it is longer.
static FAST: [(u8, u8); 1 << FAST_BITS] = {
    let mut fast = [(0, 0); 1 << FAST_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let (code, length) = CODES[symbol];
        if length <= FAST_BITS {
            let spare = FAST_BITS - length;
            let mut i = 0;
            while i < 1 << spare {
                fast[(code << spare | i) as usize] = (symbol as u8, length as u8);
                i += 1;
            }
        }
        symbol += 1;
    }
    fast
};

/// Appends the text that `input` stands for to `out`. At most 8 bytes come out for 5 that go in.
pub(super) fn decode(mut input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(input.len() * 8 / 5 + 1);
    // The next bits stand at the top of `window`; below the first `bits` of them are zeros.
    let (mut window, mut bits) = (0u64, 0u32);
    loop {
        refill(&mut input, &mut window, &mut bits);
        while bits >= LENGTH_MAX as u32 {
            let (symbol, length) = look_up(window)?;
            out.push(symbol);
            window <<= length;
            bits -= length;
        }
        if input.is_empty() {
            return decode_tail(window, bits, out);
        }
    }
}

#[inline]
fn refill(input: &mut &[u8], window: &mut u64, bits: &mut u32) {
    if let Some(word) = input.first_chunk::<8>() {
        let bytes = (63 - *bits) / 8;
        // Bits of a byte that is not taken as a whole come again.
        let filled = *bits + bytes * 8;
        *window |= u64::from_be_bytes(*word) >> *bits & !(u64::MAX >> filled);
        *bits = filled;
        *input = &input[bytes as usize..];
        return;
    }
    while *bits <= 56
        && let Some((byte, rest)) = input.split_first()
    {
        *window |= u64::from(*byte) << (56 - *bits);
        *bits += 8;
        *input = rest;
    }
}

/// The last bits: codes, then fewer than eight ones (RFC 7541, section 5.2).
fn decode_tail(mut window: u64, mut bits: u32, out: &mut Vec<u8>) -> Result<(), HpackError> {
    loop {
        let padding = u64::MAX.checked_shr(bits).unwrap_or(0);
        if window | padding == u64::MAX {
            return if bits < 8 {
                Ok(())
            } else {
                Err(HpackError::HuffmanPadding)
            };
        }
        let (symbol, length) = look_up(window | padding)?;
        if length > bits {
            return Err(HpackError::HuffmanPadding);
        }
        out.push(symbol);
        window <<= length;
        bits -= length;
    }
}

/// The symbol at the top of `window`, and the length of its code.
#[inline]
fn look_up(window: u64) -> Result<(u8, u32), HpackError> {
    let (symbol, length) = FAST[(window >> (64 - FAST_BITS)) as usize];
    if length != 0 {
        return Ok((symbol, u32::from(length)));
    }
    look_up_long(window)
}

fn look_up_long(window: u64) -> Result<(u8, u32), HpackError> {
    for length in FAST_BITS + 1..=LENGTH_MAX as u32 {
        let run = RUNS[length as usize];
        let offset = ((window >> (64 - length)) as u32).wrapping_sub(run.first);
        if offset < run.count {
            return match SYMBOLS[(run.at + offset) as usize] {
                EOS => Err(HpackError::HuffmanEos),
                symbol => Ok((symbol as u8, length)),
            };
        }
    }
    Err(HpackError::HuffmanEos)
}

/// The bytes that [`encode`] would append.
#[inline]
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|byte| LENGTHS[*byte as usize] as usize)
        .sum();
    bits.div_ceil(8)
}

/// Appends `text` in the code.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut bits) = (0u64, 0u32);
    for byte in text {
        let (code, length) = CODES[*byte as usize];
        window = window << length | u64::from(code);
        bits += length;
        if bits >= 32 {
            bits -= 32;
            out.extend_from_slice(&((window >> bits) as u32).to_be_bytes());
        }
    }
    // The padding is the beginning of the code that ends strings: ones.
    let spare = bits.next_multiple_of(8) - bits;
    window = window << spare | ((1 << spare) - 1);
    bits += spare;
    while bits > 0 {
        bits -= 8;
        out.push((window >> bits) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    /// Some codes as RFC 7541, appendix B prints them: the first and the last of their lengths, and the longest.
    #[test]
    fn codes_are_those_of_the_standard() {
        for (symbol, code, length) in [
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b' ', 0x14, 6),
            (b'u', 0x2d, 6),
            (b':', 0x5c, 7),
            (b'z', 0x7b, 7),
            (b'&', 0xf8, 8),
            (b'Z', 0xfd, 8),
            (b'!', 0x3f8, 10),
            (b'|', 0x7fc, 11),
            (0, 0x1ff8, 13),
            (b'\\', 0x7fff0, 19),
            (195, 0x7fff1, 19),
            (128, 0xfffe6, 20),
            (255, 0x3ff_ffee, 26),
            (203, 0x7ff_ffde, 27),
            (249, 0xfff_fffe, 28),
            (b'\n', 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
        ] {
            assert_eq!(CODES[symbol as usize], (code, length), "{symbol}");
        }
        let last = RUNS[LENGTH_MAX];
        assert_eq!(last.first + last.count - 1, 0x3fff_ffff);
    }

    #[test]
    fn all_pairs_and_runs_of_bytes_come_back() {
        let mut texts: Vec<Vec<u8>> = (0..=255u8)
            .flat_map(|a| (0..=255u8).map(move |b| alloc::vec![a, b]))
            .collect();
        texts.extend((0..=255u8).flat_map(|a| (0..40).map(move |n| alloc::vec![a; n])));
        for text in texts {
            let mut code = Vec::new();
            encode(&text, &mut code);
            assert_eq!(code.len(), encoded_len(&text));
            assert_eq!(decoded(&code).as_deref(), Ok(&text[..]));
        }
    }

    /// RFC 7541, section 5.2: padding of eight bits or more, padding with other bits, and the end symbol.
    #[test]
    fn faulty_ends_are_refused() {
        assert_eq!(decoded(b""), Ok(Vec::new()));
        assert_eq!(decoded(&[0x07]), Ok(b"0".to_vec()));
        assert_eq!(decoded(&[0x00]), Err(HpackError::HuffmanPadding));
        assert_eq!(decoded(&[0x06]), Err(HpackError::HuffmanPadding));
        assert_eq!(decoded(&[0xff]), Err(HpackError::HuffmanPadding));
        assert_eq!(decoded(&[0x07, 0xff]), Err(HpackError::HuffmanPadding));
        assert_eq!(decoded(&[0xff; 2]), Err(HpackError::HuffmanPadding));
        assert_eq!(decoded(&[0xff; 4]), Err(HpackError::HuffmanEos));
        assert_eq!(decoded(&[0xff; 40]), Err(HpackError::HuffmanEos));
        assert_eq!(
            decoded(&[0x07, 0xff, 0xff, 0xff, 0xff, 0x07]),
            Err(HpackError::HuffmanEos)
        );
    }
}
