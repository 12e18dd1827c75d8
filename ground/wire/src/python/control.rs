//! Frames of the control channel. Their payloads are JSON, which `sluice-python` reads and writes.

use alloc::vec::Vec;

use super::frame::{Fault, Header, Kind};
use super::reader::{Piece, Reader, Side};

/// Appends a frame of the control channel to `out`.
pub fn encode_control(kind: Kind, small: u16, payload: &[u8], out: &mut Vec<u8>) {
    let mut header = Header::new(kind, 0, payload.len());
    header.small = small;
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
}

/// A frame with its payload.
pub type Payload<'a> = (Header, &'a [u8]);

/// Reads the frames of a worker on its control channel.
#[derive(Debug)]
pub struct ControlReader(Reader);

impl ControlReader {
    /// A reader that expects the first frame.
    pub fn new() -> ControlReader {
        ControlReader(Reader::new(Side::Control))
    }

    /// Reads the start of `input`, the bytes that follow those already consumed. Returns how many were consumed, and a
    /// frame with its payload; without one, all of `input` was consumed.
    ///
    /// # Errors
    ///
    /// The fault of a frame header; nothing can be read after it.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Payload<'a>>), Fault> {
        let (consumed, piece) = self.0.read(input)?;
        let frame = match piece {
            Some(Piece::Frame { header, payload }) => Some((header, payload)),
            // Only frames of lanes have bodies, and the reader has refused those.
            Some(Piece::Body { .. }) | None => None,
        };
        Ok((consumed, frame))
    }
}

impl Default for ControlReader {
    fn default() -> Self {
        ControlReader::new()
    }
}
