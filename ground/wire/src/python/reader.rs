//! Splits received bytes into frames. Payloads whose meaning depends on all of their bytes are gathered; those of bodies
//! are returned as they arrive.

use alloc::vec::Vec;

use super::frame::{Fault, HEADER_BYTES, Header, Kind};
use crate::limits::PYTHON_PAYLOAD_BYTES_MAX;

/// Which frames are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of a worker on a lane.
    Lane,
    /// Those of a worker on its control channel.
    Control,
}

/// Reads the frames of one channel.
#[derive(Debug)]
pub struct Reader {
    side: Side,
    state: State,
    /// A payload that arrives in pieces.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// `have` bytes of a header.
    Head { bytes: [u8; HEADER_BYTES], have: u8 },
    /// A payload, or header block, that is gathered.
    Gather(Header),
    /// Bytes of a body.
    Body { header: Header, left: u32 },
}

const AWAIT_HEAD: State = State::Head {
    bytes: [0; HEADER_BYTES],
    have: 0,
};

/// A frame, or a part of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame with its whole payload. That of a response is its header block; if its frame has more
    /// ([`Piece::has_body`]), the rest follows as [`Piece::Body`].
    Frame {
        /// Its header.
        header: Header,
        /// The payload.
        payload: &'a [u8],
    },
    /// Bytes of a body; those of an empty body frame are empty.
    Body {
        /// The header of their frame.
        header: Header,
        /// The bytes.
        data: &'a [u8],
        /// Whether they are the last ones of their frame.
        is_last: bool,
    },
}

impl Piece<'_> {
    /// Whether bytes of a body follow in the same frame.
    pub fn has_body(&self) -> bool {
        match self {
            Piece::Frame { header, payload } => {
                header.kind == Kind::Response && header.length as usize > payload.len()
            }
            Piece::Body { is_last, .. } => !is_last,
        }
    }
}

impl Reader {
    /// A reader for the frames of a worker on this kind of channel.
    pub fn new(side: Side) -> Reader {
        Reader {
            side,
            state: AWAIT_HEAD,
            kept: Vec::new(),
        }
    }

    /// Reads the start of `input`, the bytes that follow those already consumed. Returns how many were consumed, and a
    /// piece; without one, all of `input` was consumed.
    ///
    /// # Errors
    ///
    /// The fault of a frame header; nothing can be read after it.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Piece<'a>>), Fault> {
        let mut at = 0;
        if let State::Head { mut bytes, have } = self.state {
            // The piece that was gathered has been seen.
            self.kept.clear();
            let missing = &mut bytes[usize::from(have)..];
            at = missing.len().min(input.len());
            missing[..at].copy_from_slice(&input[..at]);
            let have = usize::from(have) + at;
            if have < HEADER_BYTES {
                let have = have as u8;
                self.state = State::Head { bytes, have };
                return Ok((at, None));
            }
            self.enter(&bytes)?;
        }
        match self.state {
            State::Head { .. } => Ok((at, None)),
            State::Gather(header) => Ok(self.gather(header, input, at)),
            State::Body { header, left } => Ok(self.pass(header, left, input, at)),
        }
    }

    /// Checks a header.
    fn enter(&mut self, bytes: &[u8; HEADER_BYTES]) -> Result<(), Fault> {
        let header = Header::decode(bytes)?;
        let is_expected = match self.side {
            Side::Lane => header.kind.is_of_lane(),
            Side::Control => header.kind.is_of_control(),
        };
        if !is_expected {
            return Err(Fault::Kind(bytes[8]));
        }
        let gathered = gathered_length(&header);
        if gathered > header.kind.payload_max() || header.length > PYTHON_PAYLOAD_BYTES_MAX {
            let (kind, length) = (header.kind, header.length);
            return Err(Fault::Length { kind, length });
        }
        if gathered > header.length {
            return Err(Fault::Block);
        }
        self.state = match header.kind {
            Kind::ResponseBody => State::Body {
                header,
                left: header.length,
            },
            _ => State::Gather(header),
        };
        Ok(())
    }

    /// Waits for a whole payload; one that is in `input` is not copied.
    fn gather<'a>(
        &'a mut self,
        header: Header,
        input: &'a [u8],
        at: usize,
    ) -> (usize, Option<Piece<'a>>) {
        let length = gathered_length(&header) as usize;
        let missing = length - self.kept.len();
        let here = &input[at..];
        if here.len() < missing {
            self.kept.extend_from_slice(here);
            return (input.len(), None);
        }
        let left = header.length - gathered_length(&header);
        self.state = match left {
            0 => AWAIT_HEAD,
            left => State::Body { header, left },
        };
        let payload = if self.kept.is_empty() {
            &here[..length]
        } else {
            self.kept.extend_from_slice(&here[..missing]);
            &self.kept[..]
        };
        (at + missing, Some(Piece::Frame { header, payload }))
    }

    /// Returns bytes of a body.
    fn pass<'a>(
        &'a mut self,
        header: Header,
        left: u32,
        input: &'a [u8],
        at: usize,
    ) -> (usize, Option<Piece<'a>>) {
        self.kept.clear();
        let here = &input[at..];
        let count = here.len().min(left as usize);
        if count == 0 && left > 0 {
            return (at, None);
        }
        let left = left - count as u32;
        self.state = match left {
            0 => AWAIT_HEAD,
            left => State::Body { header, left },
        };
        let piece = Piece::Body {
            header,
            data: &here[..count],
            is_last: left == 0,
        };
        (at + count, Some(piece))
    }

    /// Frees the memory of a large payload.
    pub fn shrink(&mut self) {
        if let State::Head { .. } = self.state {
            self.kept = Vec::new();
        }
    }
}

/// How many bytes of the payload have to be seen together.
fn gathered_length(header: &Header) -> u32 {
    match header.kind {
        Kind::Response => header.large,
        Kind::ResponseBody => 0,
        _ => header.length,
    }
}
