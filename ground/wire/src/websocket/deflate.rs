//! permessage-deflate (RFC 7692) without context takeover: a message is compressed by itself, so that a connection keeps
//! no memory of earlier ones.

use alloc::vec::Vec;
use core::fmt;

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

use super::part::MessagePart;
use crate::limits::WEBSOCKET_DEFLATE_LEVEL;

/// The end of a flushed block, which is not sent behind the last one of a message (RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// The window of DEFLATE, in bits.
const WINDOW_BITS: u8 = 15;

/// Whether messages may be compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No extension was negotiated.
    #[default]
    Off,
    /// permessage-deflate without context takeover in either direction.
    Deflate {
        /// The window that the peer decompresses with, in bits: 8 to 15.
        window_bits: u8,
    },
}

/// Compresses messages. It remembers nothing between two calls, so that one of them serves all connections of a thread. It
/// takes 300 KB.
pub struct Deflater(Deflate);

impl Deflater {
    /// Allocates the memory.
    pub fn new() -> Deflater {
        Deflater(Deflate::new(WEBSOCKET_DEFLATE_LEVEL, false, WINDOW_BITS))
    }

    /// Appends `data`, compressed for this window, and [`TAIL`].
    fn push(&mut self, data: &[u8], window_bits: u8, out: &mut Vec<u8>) -> Result<(), Unable> {
        // References lead back to the start of a chunk at most, and so fit into the window.
        for chunk in data.chunks(1 << window_bits) {
            self.0.reset();
            self.push_chunk(chunk, out)?;
        }
        Ok(())
    }

    fn push_chunk(&mut self, mut chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Unable> {
        loop {
            let start = out.len();
            // What does not shrink is stored, with five bytes for each block.
            out.resize(start + chunk.len() + chunk.len() / 256 + 64, 0);
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let status = self
                .0
                .compress(chunk, &mut out[start..], DeflateFlush::SyncFlush);
            let written = (self.0.total_out() - before_out) as usize;
            let has_room = start + written < out.len();
            out.truncate(start + written);
            chunk = &chunk[(self.0.total_in() - before_in) as usize..];
            match status {
                Ok(_) if chunk.is_empty() && has_room => return Ok(()),
                Ok(_) if written > 0 => {}
                Ok(_) | Err(_) => return Err(Unable),
            }
        }
    }
}

impl Default for Deflater {
    fn default() -> Deflater {
        Deflater::new()
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// Nothing was compressed; this would be a fault of the library.
#[derive(Debug)]
struct Unable;

/// A piece of a compressed message; without a compressor it is stored in the same format.
pub(super) fn pack(
    deflater: Option<&mut Deflater>,
    data: &[u8],
    window_bits: u8,
    piece: MessagePart,
) -> Vec<u8> {
    let mut out = Vec::new();
    let packed = match deflater {
        Some(deflater) if !data.is_empty() => deflater.push(data, window_bits, &mut out),
        Some(_) | None => Err(Unable),
    };
    if packed.is_err() {
        out.clear();
        // Blocks without compression (RFC 1951, section 3.2.4), the last of them empty.
        for block in data.chunks(usize::from(u16::MAX)) {
            let length = block.len() as u16;
            out.push(0);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&(!length).to_le_bytes());
            out.extend_from_slice(block);
        }
        out.push(0);
        out.extend_from_slice(&TAIL);
    }
    if piece.is_last() {
        out.truncate(out.len() - TAIL.len());
    }
    out
}

/// Decompresses one message. It takes 50 KB.
pub(super) struct Inflater {
    inner: Inflate,
    /// How much of [`TAIL`] was decompressed.
    tail: usize,
}

/// What arrived is not DEFLATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotDeflate;

impl Inflater {
    pub(super) fn new() -> Inflater {
        Inflater::with_window(WINDOW_BITS)
    }

    fn with_window(bits: u8) -> Inflater {
        Inflater {
            inner: Inflate::new(false, bits),
            tail: 0,
        }
    }

    /// Appends what `input` decompresses to, up to `room` bytes; with no room left, there may be more, even without input.
    /// Returns how much of the input was taken: all of it, unless there was no room.
    pub(super) fn inflate(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<usize, NotDeflate> {
        let (mut taken, end) = (0, out.len() + room);
        loop {
            let start = out.len();
            if start == end {
                return Ok(taken);
            }
            out.resize(end, 0);
            let (before_in, before_out) = (self.inner.total_in(), self.inner.total_out());
            let flush = InflateFlush::SyncFlush;
            let status = self
                .inner
                .decompress(&input[taken..], &mut out[start..], flush);
            let (after_in, after_out) = (self.inner.total_in(), self.inner.total_out());
            out.truncate(start + (after_out - before_out) as usize);
            taken += (after_in - before_in) as usize;
            match status {
                // The last block of a stream; another stream may follow (RFC 7692, section 7.2.3.4).
                Ok(Status::StreamEnd) => self.inner.reset(false),
                Ok(Status::Ok | Status::BufError) => {}
                Err(_) => return Err(NotDeflate),
            }
            let is_stuck = after_in == before_in && after_out == before_out;
            if taken == input.len() && out.len() < end || is_stuck {
                return Ok(taken);
            }
        }
    }

    /// As [`Inflater::inflate`], for the bytes that are not sent at the end of a message. Returns whether all of the
    /// message was decompressed.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, NotDeflate> {
        let end = out.len() + room;
        self.tail += self.inflate(&TAIL[self.tail..], out, room)?;
        Ok(self.tail == TAIL.len() && out.len() < end)
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflated(bytes: &[u8], window_bits: u8) -> Result<Vec<u8>, NotDeflate> {
        let (mut inflater, mut out) = (Inflater::with_window(window_bits), Vec::new());
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = inflater.inflate(rest, &mut out, 100)?;
            rest = &rest[taken..];
        }
        while !inflater.finish(&mut out, 100)? {}
        Ok(out)
    }

    #[test]
    fn examples_of_the_rfc() {
        // Sections 7.2.3.1 to 7.2.3.6.
        for bytes in [
            &b"\xf2\x48\xcd\xc9\xc9\x07\x00"[..],
            b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00",
            b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00",
            b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00",
        ] {
            assert_eq!(
                inflated(bytes, 15).as_deref(),
                Ok(&b"Hello"[..]),
                "{bytes:x?}"
            );
        }
        assert_eq!(inflated(b"\x00", 15).as_deref(), Ok(&b""[..]));
        assert_eq!(inflated(b"\xff\xff", 15), Err(NotDeflate));
    }

    #[test]
    fn what_was_compressed_comes_back_and_fits_the_window() {
        let text: Vec<u8> = (0..200_000_u32)
            .map(|at| b"abcdefgh"[(at.wrapping_mul(at) >> 7) as usize % 8])
            .collect();
        let mut deflater = Deflater::new();
        for window_bits in [8, 9, 12, 15] {
            for length in [0, 1, 127, 300, 70_000, 200_000] {
                let data = &text[..length];
                let (first, second) = data.split_at(length / 3);
                let (second, third) = second.split_at(second.len() / 2);
                let out = [
                    pack(Some(&mut deflater), first, window_bits, MessagePart::More),
                    pack(None, second, window_bits, MessagePart::More),
                    pack(Some(&mut deflater), third, window_bits, MessagePart::Last),
                ]
                .concat();
                // No library has a window of 8 bits.
                assert_eq!(inflated(&out, window_bits.max(9)).as_deref(), Ok(data));
                if length == 200_000 && window_bits == 15 {
                    assert!(out.len() < length, "{} bytes", out.len());
                }
            }
        }
    }
}
