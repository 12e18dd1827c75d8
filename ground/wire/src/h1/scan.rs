//! Finds the first byte that is not allowed in a part of a head, eight bytes at a time. The callers interpret that
//! byte.

/// The same byte in all eight places of a word.
const fn all(byte: u8) -> u64 {
    0x0101_0101_0101_0101 * byte as u64
}

const HIGH_BITS: u64 = all(0x80);

/// A word whose high bits mark the bytes of `word` below `bound` (at most 0x80). Above the first marked byte
/// there may be false marks, since the subtraction borrows; the first one is always right.
const fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(all(bound)) & !word
}

/// As [`below`] for the bytes equal to `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ all(byte), 1)
}

/// The first position at or after `from` whose byte satisfies `stops`, or the length of `bytes`. `marks` evaluates the
/// same condition for a whole word and sets the high bit of each matching byte.
///
/// Blocks of sixteen bytes are first tested for any such byte, which compiles to vector comparisons; the position is
/// then found word by word.
#[inline(always)]
fn find(
    bytes: &[u8],
    from: usize,
    marks: impl Fn(u64) -> u64,
    stops: impl Fn(u8) -> bool,
) -> usize {
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<16>) {
        if block.iter().fold(false, |any, byte| any | stops(*byte)) {
            let word = u128::from_le_bytes(*block);
            let low = marks(word as u64) & HIGH_BITS;
            if low != 0 {
                return at + (low.trailing_zeros() / 8) as usize;
            }
            let high = marks((word >> 64) as u64) & HIGH_BITS;
            return at + 8 + (high.trailing_zeros() / 8) as usize;
        }
        at += 16;
    }
    while let Some(byte) = bytes.get(at) {
        if stops(*byte) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// The end of a field value that starts at `from`: its first control character other than a tab.
#[inline]
pub fn value_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = find(
            bytes,
            at,
            |word| below(word, 0x20) | equal(word, 0x7f),
            |byte| byte < 0x20 || byte == 0x7f,
        );
        if bytes.get(at) != Some(&b'\t') {
            return at;
        }
        at += 1;
    }
}

/// The end of a request target that starts at `from`: the first byte that is not a visible ASCII character, or a `#`,
/// because a fragment is never sent in a request (RFC 9112, section 3.2).
#[inline]
pub fn target_end(bytes: &[u8], from: usize) -> usize {
    find(
        bytes,
        from,
        |word| below(word, 0x21) | equal(word, 0x7f) | equal(word, b'#') | word,
        |byte| !(0x21..0x7f).contains(&byte) || byte == b'#',
    )
}

/// The end of a request target that may have bytes from 0x80 and a fragment: the first space or control character.
#[inline]
pub fn raw_target_end(bytes: &[u8], from: usize) -> usize {
    find(
        bytes,
        from,
        |word| below(word, 0x21) | equal(word, 0x7f),
        |byte| byte < 0x21 || byte == 0x7f,
    )
}

/// The first colon at or after `from`, or the length of `bytes`.
#[inline]
pub fn colon(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, |word| equal(word, b':'), |byte| byte == b':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Each byte at each place, among bytes that make the words borrow.
    #[test]
    fn words_and_bytes_agree() {
        for filler in [b'a', 0x21, 0x7e, 0x80, 0xff] {
            for length in 0..20 {
                for at in 0..length {
                    for byte in 0..=255 {
                        let mut text = vec![filler; length];
                        text[at] = byte;
                        let value = |b: &u8| *b != b'\t' && (*b < 0x20 || *b == 0x7f);
                        let target = |b: &u8| *b <= 0x20 || *b >= 0x7f || *b == b'#';
                        let first = |stops: &dyn Fn(&u8) -> bool| {
                            text.iter().position(stops).unwrap_or(length)
                        };
                        assert_eq!(value_end(&text, 0), first(&value));
                        assert_eq!(target_end(&text, 0), first(&target));
                        let raw = |b: &u8| *b <= 0x20 || *b == 0x7f;
                        assert_eq!(raw_target_end(&text, 0), first(&raw));
                        assert_eq!(colon(&text, 0), first(&|b| *b == b':'));
                    }
                }
            }
        }
    }
}
