//! The names of CGI variables (RFC 3875, section 4.1) as FastCGI, SCGI and uwsgi carry them. Which variables a request
//! has, and their values, is left to the layers above.

use alloc::vec::Vec;

use memchr::memchr;

/// The name of a variable. It is written where it has to stand, so that the name of a header needs no memory of its own.
#[derive(Clone, Copy, Debug)]
pub enum VariableName<'a> {
    /// This name.
    Plain(&'a [u8]),
    /// The variable of the request header with this name (RFC 3875, section 4.1.18): upper case, with `_` for `-`, after
    /// [`HEADER_PREFIX`].
    OfHeader(&'a [u8]),
}

/// The beginning of the names of all variables for request headers.
pub const HEADER_PREFIX: &[u8] = b"HTTP_";

impl<'a> VariableName<'a> {
    /// Its length in bytes.
    pub fn length(self) -> usize {
        match self {
            VariableName::Plain(name) => name.len(),
            VariableName::OfHeader(name) => HEADER_PREFIX.len() + name.len(),
        }
    }

    /// Appends it to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            VariableName::Plain(name) => out.extend_from_slice(name),
            VariableName::OfHeader(name) => {
                out.extend_from_slice(HEADER_PREFIX);
                out.extend(name.iter().map(|byte| IN_VARIABLES[usize::from(*byte)]));
            }
        }
    }

    /// Whether it is `other`, as written.
    pub fn is(self, other: &[u8]) -> bool {
        match self {
            VariableName::Plain(name) => name == other,
            VariableName::OfHeader(name) => {
                let written = name.iter().map(|byte| IN_VARIABLES[usize::from(*byte)]);
                other.strip_prefix(HEADER_PREFIX).is_some_and(|rest| {
                    rest.len() == name.len() && written.eq(rest.iter().copied())
                })
            }
        }
    }
}

impl<'a> From<&'a [u8]> for VariableName<'a> {
    fn from(name: &'a [u8]) -> VariableName<'a> {
        VariableName::Plain(name)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for VariableName<'a> {
    fn from(name: &'a [u8; N]) -> VariableName<'a> {
        VariableName::Plain(name)
    }
}

/// Whether a byte of `text` is zero. Most names and values are so short that a search would cost more to start than to
/// run.
#[inline]
pub(crate) fn has_zero(text: &[u8]) -> bool {
    const SHORT_BYTES_MAX: usize = 64;
    if text.len() > SHORT_BYTES_MAX {
        return memchr(0, text).is_some();
    }
    // The last word overlaps the one before it.
    if let Some(last) = text.last_chunk() {
        let (words, _) = text.as_chunks();
        let of_words = words.iter().fold(0, |found, word| found | zeros(*word));
        return of_words | zeros(*last) != 0;
    }
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => zeros(halves(*first, *last)) != 0,
        _ => text.iter().fold(false, |found, byte| found | (*byte == 0)),
    }
}

/// Bits that are 0 if no byte of `word` is.
fn zeros(word: [u8; 8]) -> u64 {
    const LOW_BITS: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Subtracting 1 from a byte sets a high bit that was not set only if the byte is zero, or follows one that is.
    let word = u64::from_ne_bytes(word);
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

fn halves(first: [u8; 4], last: [u8; 4]) -> [u8; 8] {
    let [first, last] = [first, last].map(u32::from_ne_bytes).map(u64::from);
    (first << 32 | last).to_ne_bytes()
}

/// What stands in the name of a variable for each byte of the name of a header.
const IN_VARIABLES: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let byte = at as u8;
        table[at] = match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        };
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: VariableName<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        name.write(&mut out);
        assert_eq!(out.len(), name.length());
        assert!(name.is(&out));
        out
    }

    #[test]
    fn headers_have_variables_of_their_own() {
        let name = VariableName::OfHeader(b"X-Real_ip.2~");
        assert_eq!(written(name), b"HTTP_X_REAL_IP.2~");
        for other in [
            &b"HTTP_X_REAL_IP.2"[..],
            b"HTTP_X_REAL_IP.2~~",
            b"HTTP_X-REAL_IP.2~",
            b"HTTP_x_REAL_IP.2~",
            b"X_REAL_IP.2~",
            b"",
        ] {
            assert!(!name.is(other), "{other:?}");
        }
        assert_eq!(written(VariableName::OfHeader(b"")), b"HTTP_");
    }

    #[test]
    fn a_zero_byte_is_found_wherever_it_stands() {
        for length in 0..100 {
            for other in [1, 0x7f, 0x80, 0x81, 0xff] {
                let mut text = alloc::vec![other; length];
                assert!(!has_zero(&text), "{length} of {other}");
                for at in 0..length {
                    text[at] = 0;
                    assert!(has_zero(&text), "{at} of {length}");
                    text[at] = other;
                }
            }
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        assert_eq!(written(b"Path-Info".into()), b"Path-Info");
        assert!(!VariableName::Plain(b"A").is(b"a"));
    }
}
