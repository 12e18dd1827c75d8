//! The kinds of unidirectional streams (RFC 9114, section 6.2; RFC 9204, section 4.2).

use super::varint::decode_varint;

/// What a unidirectional stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Frames about the connection.
    Control,
    /// A push, which only servers send.
    Push,
    /// Entries for the dynamic table.
    Encoder,
    /// What became of them.
    Decoder,
    /// Nothing that is known: the peer is to be asked to stop.
    Unknown,
}

impl StreamKind {
    /// The number at the beginning of streams of our own; `None` for kinds that are never opened.
    pub fn number(self) -> Option<u8> {
        match self {
            StreamKind::Control => Some(0x0),
            StreamKind::Encoder => Some(0x2),
            StreamKind::Decoder => Some(0x3),
            StreamKind::Push | StreamKind::Unknown => None,
        }
    }

    fn of(number: u64) -> StreamKind {
        match number {
            0x0 => StreamKind::Control,
            0x1 => StreamKind::Push,
            0x2 => StreamKind::Encoder,
            0x3 => StreamKind::Decoder,
            _ => StreamKind::Unknown,
        }
    }
}

/// Reads the kind at the beginning of a unidirectional stream.
#[derive(Debug, Default)]
pub struct StreamKindReader {
    bytes: [u8; 8],
    filled: u8,
}

impl StreamKindReader {
    /// Takes bytes from the front of `input`; `None` if the kind is not complete. The rest belongs to the stream's own
    /// machine.
    pub fn receive(&mut self, input: &mut &[u8]) -> Option<StreamKind> {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            self.bytes[usize::from(self.filled)] = *byte;
            self.filled += 1;
            if let Some((number, _)) = decode_varint(&self.bytes[..usize::from(self.filled)]) {
                self.filled = 0;
                return Some(StreamKind::of(number));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_byte_by_byte() {
        for (bytes, kind) in [
            (&[0][..], StreamKind::Control),
            (&[1], StreamKind::Push),
            (&[0x40, 2], StreamKind::Encoder),
            (&[0x80, 0, 0, 3], StreamKind::Decoder),
            (&[0xff; 8], StreamKind::Unknown),
        ] {
            let mut reader = StreamKindReader::default();
            let (last, first) = bytes.split_last().unwrap();
            assert_eq!(reader.receive(&mut &first[..]), None);
            let rest = [*last, b'r'];
            let mut input = &rest[..];
            assert_eq!(reader.receive(&mut input), Some(kind));
            assert_eq!(input, b"r");
        }
    }
}
