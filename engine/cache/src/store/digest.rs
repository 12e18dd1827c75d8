//! MD5 (RFC 1321), by which files of the cache are called: as nginx calls them, so that what people have to look for and
//! to purge such files goes on working. Nothing is kept safe by it: keys are compared in full.

/// What a key comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// That of several texts as if they were one.
    pub fn of(parts: &[&[u8]]) -> Digest {
        let mut state = State::default();
        parts.iter().for_each(|part| state.add(part));
        state.finish()
    }

    /// In 32 digits.
    pub fn hex(&self) -> [u8; 32] {
        let mut text = [0; 32];
        for (at, byte) in self.0.iter().enumerate() {
            text[at * 2] = DIGITS[usize::from(byte >> 4)];
            text[at * 2 + 1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }

    /// Reads 32 digits.
    pub fn parse(text: &[u8]) -> Option<Digest> {
        let digit = |byte: &u8| DIGITS.iter().position(|known| known == byte);
        if text.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            *byte = u8::try_from(digit(&pair[0])? * 16 + digit(&pair[1])?).ok()?;
        }
        Some(Digest(bytes))
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How far words are turned, by round and by step within each four.
const TURNS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

struct State {
    words: [u32; 4],
    block: [u8; 64],
    filled: usize,
    length: u64,
}

impl Default for State {
    fn default() -> Self {
        State {
            words: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            block: [0; 64],
            filled: 0,
            length: 0,
        }
    }
}

impl State {
    fn add(&mut self, mut text: &[u8]) {
        self.length = self.length.wrapping_add(text.len() as u64);
        while !text.is_empty() {
            let taken = text.len().min(64 - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&text[..taken]);
            self.filled += taken;
            text = &text[taken..];
            if self.filled == 64 {
                self.mix();
                self.filled = 0;
            }
        }
    }

    fn finish(mut self) -> Digest {
        let bits = self.length.wrapping_mul(8);
        self.add(&[0x80]);
        while self.filled != 56 {
            self.add(&[0]);
        }
        self.add(&bits.to_le_bytes());
        let mut bytes = [0; 16];
        for (place, word) in bytes.chunks_mut(4).zip(self.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Digest(bytes)
    }

    fn mix(&mut self) {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = self.words;
        for step in 0..64 {
            let round = step / 16;
            let (mixed, at) = match round {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(SINES[step])
                .wrapping_add(words[at]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(TURNS[round][step % 4]));
        }
        for (word, more) in self.words.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(more);
        }
    }
}

/// The whole parts of 2^32 times the absolute sine of 1 to 64 (RFC 1321, section 3.4).
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

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
            assert_eq!(digest.hex(), expected.as_bytes(), "{text}");
            assert_eq!(Digest::parse(expected.as_bytes()), Some(digest));
            let (one, other) = text.as_bytes().split_at(text.len() / 3);
            assert_eq!(Digest::of(&[one, other]), digest);
        }
        assert_eq!(Digest::parse(b"d41d"), None);
        assert_eq!(Digest::parse(b"D41d8cd98f00b204e9800998ecf8427e"), None);
    }
}
