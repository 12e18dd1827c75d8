//! A minimal DER (X.690) reader and writer, for structures that no library supports.

/// An element: its tag, its content, and its complete encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The tag, in one byte.
    pub tag: u8,
    /// The content, without tag and length.
    pub content: &'a [u8],
    /// The complete encoding.
    pub whole: &'a [u8],
}

/// The tag of a SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// The tag of a INTEGER.
pub const INTEGER: u8 = 0x02;
/// The tag of a BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// The tag of a OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of a NULL.
pub const NULL: u8 = 0x05;
/// The tag of a OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
/// The tag of a ENUMERATED.
pub const ENUMERATED: u8 = 0x0a;
/// The tag of a GeneralizedTime.
pub const GENERALIZED_TIME: u8 = 0x18;

/// Reads elements in sequence; holds the bytes that are left.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element; `None` at the end or if it is malformed.
    pub fn any(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // 0x80 is not DER, and more than four length bytes are never needed.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some(Element {
            tag,
            content,
            whole,
        })
    }

    /// Reads the next element if it has this tag; otherwise leaves it.
    pub fn take(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut ahead = Reader(self.0);
        let found = ahead.any().filter(|found| found.tag == tag)?;
        self.0 = ahead.0;
        Some(found)
    }
}

/// Encodes an element with this content.
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut out = vec![tag];
    match content.len() {
        length @ 0..=0x7f => out.push(length as u8),
        length => {
            let bytes = length.to_be_bytes();
            let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
            out.push(0x80 | (bytes.len() - first) as u8);
            out.extend(&bytes[first..]);
        }
    }
    out.extend(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_ends_early_is_not() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let bytes = element(OCTET_STRING, &[&content]);
            let mut reader = Reader(&bytes);
            assert!(reader.take(SEQUENCE).is_none());
            let found = reader.any().unwrap();
            assert_eq!((found.tag, found.content.len()), (OCTET_STRING, length));
            assert_eq!(found.whole, bytes);
            assert!(reader.any().is_none());
            assert!(Reader(&bytes[..bytes.len() - 1]).any().is_none());
        }
        assert!(Reader(&[4, 0x80, 0, 0]).any().is_none());
        assert!(Reader(&[4, 0x85, 0, 0, 0, 0, 0]).any().is_none());
    }
}
