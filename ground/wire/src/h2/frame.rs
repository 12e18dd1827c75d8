//! The nine-byte header of a frame (RFC 9113, section 4.1). `reader` parses the payloads.

use alloc::vec::Vec;

/// The bytes of a frame's head.
pub const FRAME_HEAD_LEN: usize = 9;

/// A kind of frame. Kinds without a name are kept as they are and ignored (RFC 9113, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// Content.
    pub const DATA: FrameKind = FrameKind(0x0);
    /// The beginning of a header block.
    pub const HEADERS: FrameKind = FrameKind(0x1);
    /// Priorities of RFC 7540, which nobody follows any more.
    pub const PRIORITY: FrameKind = FrameKind(0x2);
    /// The end of a stream before its time.
    pub const RST_STREAM: FrameKind = FrameKind(0x3);
    /// Settings, or that they were applied.
    pub const SETTINGS: FrameKind = FrameKind(0x4);
    /// A request that the server makes by itself. We neither send nor take it.
    pub const PUSH_PROMISE: FrameKind = FrameKind(0x5);
    /// A liveness check, or its acknowledgement.
    pub const PING: FrameKind = FrameKind(0x6);
    /// The end of the connection.
    pub const GOAWAY: FrameKind = FrameKind(0x7);
    /// Window given back.
    pub const WINDOW_UPDATE: FrameKind = FrameKind(0x8);
    /// More of a header block.
    pub const CONTINUATION: FrameKind = FrameKind(0x9);
    /// Another priority of a stream (RFC 9218, section 7.1).
    pub const PRIORITY_UPDATE: FrameKind = FrameKind(0x10);
}

/// The flags of frames. Which of them count depends on the kind.
pub(crate) mod flags {
    /// SETTINGS and PING: an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// DATA and HEADERS: the last of the stream, but for CONTINUATION.
    pub const END_STREAM: u8 = 0x1;
    /// HEADERS and CONTINUATION: the end of the block.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA and HEADERS: padding follows, and its length comes first.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: a priority of RFC 7540 comes before the block.
    pub const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The bytes after the head, below 2^24.
    pub len: u32,
    /// What it is.
    pub kind: FrameKind,
    /// The flags.
    pub flags: u8,
    /// The stream's number; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head. The reserved bit is ignored, as RFC 9113, section 4.1 demands.
    pub const fn decode(bytes: &[u8; FRAME_HEAD_LEN]) -> FrameHead {
        FrameHead {
            len: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: FrameKind(bytes[3]),
            flags: bytes[4],
            stream: number([bytes[5], bytes[6], bytes[7], bytes[8]]),
        }
    }

    /// The head as bytes.
    pub const fn to_bytes(self) -> [u8; FRAME_HEAD_LEN] {
        let len = self.len.to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [
            len[1],
            len[2],
            len[3],
            self.kind.0,
            self.flags,
            stream[0],
            stream[1],
            stream[2],
            stream[3],
        ]
    }

    /// Appends the head to `out`.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Whether `flag` is set.
    pub(crate) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of 31 bits, whose first bit is ignored: streams and window increments.
pub(crate) const fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Appends a whole frame with four bytes of content: RST_STREAM and WINDOW_UPDATE.
pub(crate) fn encode_word(kind: FrameKind, stream: u32, word: u32, out: &mut Vec<u8>) {
    let head = FrameHead {
        len: 4,
        kind,
        flags: 0,
        stream,
    };
    let mut frame = [0; FRAME_HEAD_LEN + 4];
    frame[..FRAME_HEAD_LEN].copy_from_slice(&head.to_bytes());
    frame[FRAME_HEAD_LEN..].copy_from_slice(&word.to_be_bytes());
    out.extend_from_slice(&frame);
}

/// Appends a whole PING frame.
pub(crate) fn encode_ping(flags: u8, opaque: [u8; 8], out: &mut Vec<u8>) {
    let head = FrameHead {
        len: 8,
        kind: FrameKind::PING,
        flags,
        stream: 0,
    };
    head.encode(out);
    out.extend_from_slice(&opaque);
}

/// Appends a whole GOAWAY frame without debug data.
pub(crate) fn encode_goaway(last: u32, code: u32, out: &mut Vec<u8>) {
    let head = FrameHead {
        len: 8,
        kind: FrameKind::GOAWAY,
        flags: 0,
        stream: 0,
    };
    head.encode(out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_the_reserved_bit_is_ignored() {
        let head = FrameHead {
            len: 0x0001_0203,
            kind: FrameKind::CONTINUATION,
            flags: 0x25,
            stream: 0x7fff_fffe,
        };
        let mut bytes = head.to_bytes();
        assert_eq!(bytes, [1, 2, 3, 9, 0x25, 0x7f, 0xff, 0xff, 0xfe]);
        bytes[5] |= 0x80;
        assert_eq!(FrameHead::decode(&bytes), head);
    }
}
