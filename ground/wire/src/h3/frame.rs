//! Frames (RFC 9114, section 7): a kind, a length and a payload, one behind the other on a stream.

use alloc::vec::Vec;

use super::varint::{decode_varint, encode_varint};

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind(pub u64);

impl FrameKind {
    /// Content.
    pub const DATA: FrameKind = FrameKind(0x0);
    /// A field section: a head, or trailers.
    pub const HEADERS: FrameKind = FrameKind(0x1);
    /// A push is of no use any more.
    pub const CANCEL_PUSH: FrameKind = FrameKind(0x3);
    /// The settings of an end.
    pub const SETTINGS: FrameKind = FrameKind(0x4);
    /// The announcement of a push.
    pub const PUSH_PROMISE: FrameKind = FrameKind(0x5);
    /// An end takes no more requests or pushes.
    pub const GOAWAY: FrameKind = FrameKind(0x7);
    /// How many pushes a client takes.
    pub const MAX_PUSH_ID: FrameKind = FrameKind(0xd);
    /// The priority of a request (RFC 9218, section 7.2).
    pub const PRIORITY_UPDATE: FrameKind = FrameKind(0xf0700);
    /// The priority of a push.
    pub const PRIORITY_UPDATE_OF_PUSH: FrameKind = FrameKind(0xf0701);

    /// Whether it is a kind of HTTP/2 that must not be used (RFC 9114, section 7.2.8).
    pub(super) fn is_of_http2(self) -> bool {
        matches!(self.0, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Appends the head of a frame.
pub fn encode_frame_head(kind: FrameKind, length: u64, out: &mut Vec<u8>) {
    encode_varint(kind.0, out);
    encode_varint(length, out);
}

/// A part of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Its head.
    Head {
        /// Its kind.
        kind: FrameKind,
        /// The bytes of its payload.
        length: u64,
    },
    /// A piece of its payload; empty only if the whole payload is.
    Payload {
        /// The kind of the frame.
        kind: FrameKind,
        /// The piece.
        bytes: &'a [u8],
        /// Whether it is the last one.
        is_last: bool,
    },
}

/// The longest head: two integers of eight bytes.
const HEAD_BYTES_MAX: usize = 16;

/// Splits the bytes of a stream into frames.
#[derive(Debug)]
pub(super) struct FrameSplitter {
    head: [u8; HEAD_BYTES_MAX],
    filled: u8,
    /// The frame whose payload comes, and the bytes of it that are left.
    open: Option<(FrameKind, u64)>,
}

impl FrameSplitter {
    pub fn new() -> FrameSplitter {
        FrameSplitter {
            head: [0; HEAD_BYTES_MAX],
            filled: 0,
            open: None,
        }
    }

    /// Whether no frame has begun that has not ended.
    pub fn is_between_frames(&self) -> bool {
        self.filled == 0 && self.open.is_none()
    }

    /// Takes the next piece from the front of `input`; `None` if that is all for now.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Piece<'a>> {
        let Some((kind, left)) = self.open else {
            return self.next_head(input);
        };
        if input.is_empty() && left > 0 {
            return None;
        }
        let count = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        let (bytes, rest) = input.split_at(count);
        *input = rest;
        let left = left - count as u64;
        self.open = (left > 0).then_some((kind, left));
        Some(Piece::Payload {
            kind,
            bytes,
            is_last: left == 0,
        })
    }

    fn next_head<'a>(&mut self, input: &mut &'a [u8]) -> Option<Piece<'a>> {
        let filled = usize::from(self.filled);
        let count = input.len().min(HEAD_BYTES_MAX - filled);
        self.head[filled..filled + count].copy_from_slice(&input[..count]);
        let known = &self.head[..filled + count];
        let head = decode_varint(known).and_then(|(kind, at)| {
            let (length, more) = decode_varint(&known[at..])?;
            Some((FrameKind(kind), length, at + more))
        });
        let Some((kind, length, end)) = head else {
            // Sixteen bytes always are a head.
            self.filled = known.len() as u8;
            *input = &input[count..];
            return None;
        };
        *input = &input[end - filled..];
        self.filled = 0;
        self.open = Some((kind, length));
        Some(Piece::Head { kind, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn pieces(splitter: &mut FrameSplitter, mut input: &[u8]) -> Vec<(FrameKind, Vec<u8>, bool)> {
        let mut all = Vec::new();
        while let Some(piece) = splitter.next(&mut input) {
            match piece {
                Piece::Head { .. } => {}
                Piece::Payload {
                    kind,
                    bytes,
                    is_last,
                } => all.push((kind, bytes.to_vec(), is_last)),
            }
        }
        assert!(input.is_empty());
        all
    }

    #[test]
    fn frames_come_back_however_the_bytes_are_cut() {
        let mut stream = Vec::new();
        for (kind, payload) in [
            (0u64, &b"content"[..]),
            (0x21 + 0x1f * 70_000, b""),
            (1, b"x"),
        ] {
            encode_frame_head(FrameKind(kind), payload.len() as u64, &mut stream);
            stream.extend_from_slice(payload);
        }
        for cut in 0..=stream.len() {
            let mut splitter = FrameSplitter::new();
            let mut all = pieces(&mut splitter, &stream[..cut]);
            all.extend(pieces(&mut splitter, &stream[cut..]));
            assert!(splitter.is_between_frames());
            let mut payloads = vec![Vec::new()];
            for (_, bytes, is_last) in all {
                payloads.last_mut().unwrap().extend(bytes);
                if is_last {
                    payloads.push(Vec::new());
                }
            }
            assert_eq!(payloads, [&b"content"[..], b"", b"x", b""]);
        }
    }

    #[test]
    fn a_frame_may_be_as_long_as_integers_go() {
        let mut splitter = FrameSplitter::new();
        let mut head = Vec::new();
        encode_frame_head(FrameKind::DATA, u64::MAX, &mut head);
        assert!(pieces(&mut splitter, &head).is_empty());
        let all = pieces(&mut splitter, b"some");
        assert_eq!(all, [(FrameKind::DATA, b"some".to_vec(), false)]);
        assert!(!splitter.is_between_frames());
    }
}
