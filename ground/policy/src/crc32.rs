//! CRC-32 as in zlib, gzip and nginx (ISO 3309). It distributes keys and is not a cryptographic hash.

/// The reversed polynomial of ISO 3309.
const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = value & 1;
            value >>= 1;
            if carry == 1 {
                value ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// A sum under way.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// Of nothing.
    pub const fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// With `bytes` added.
    pub fn with(self, bytes: &[u8]) -> Crc32 {
        let add =
            |sum: u32, byte: &u8| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
        Crc32(bytes.iter().fold(self.0, add))
    }

    /// The sum.
    pub fn sum(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(Crc32::new().sum(), 0);
        assert_eq!(Crc32::new().with(b"123456789").sum(), 0xcbf4_3926);
        assert_eq!(Crc32::new().with(b"1234").with(b"56789").sum(), 0xcbf4_3926);
    }
}
