//! Decodes bodies: which bytes of the input are content, and where the body ends (RFC 9112, sections 6 and 7). The
//! caller stores the content; only trailers are copied.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use sluice_message::name::is_token_byte;
use sluice_message::name::is_value_byte;
use sluice_message::{FieldId, Fields, Status};

use super::field_line::{FieldFault, Section, Seen, check_line, read_section};
use super::framing::BodyFraming;
use crate::limits::Limits;

/// Why a body was refused. The connection cannot be used any more, and what arrived is not the whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// This byte cannot stand in a chunk size, or ends a size without digits.
    SizeByte(u8),
    /// A chunk size has more than 16 digits or is above 2^63.
    SizeTooLarge,
    /// This byte cannot stand where it stands in a chunk extension.
    ExtensionByte(u8),
    /// A chunk line is longer than the limit.
    ChunkLineTooLong,
    /// Chunk lines outweigh the content by more than the limit.
    ChunkLinesOutweigh,
    /// A line end is not CR LF.
    LineEnd,
    /// The content of a chunk is not followed by CR LF.
    ChunkEnd,
    /// A trailer field is malformed.
    Trailer(FieldFault),
    /// The trailer section is longer than the limit.
    TrailersTooLarge,
    /// The connection ended before the body.
    Truncated,
}

impl BodyError {
    /// The status to send before closing, if no response was started.
    pub fn status(&self) -> Status {
        match self {
            BodyError::TrailersTooLarge
            | BodyError::Trailer(FieldFault::TooMany | FieldFault::NameTooLong) => {
                Status::HEADERS_TOO_LARGE
            }
            BodyError::SizeByte(_)
            | BodyError::SizeTooLarge
            | BodyError::ExtensionByte(_)
            | BodyError::ChunkLineTooLong
            | BodyError::ChunkLinesOutweigh
            | BodyError::LineEnd
            | BodyError::ChunkEnd
            | BodyError::Trailer(_)
            | BodyError::Truncated => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::SizeByte(byte) => write!(f, "byte 0x{byte:02x} in chunk size"),
            BodyError::SizeTooLarge => f.write_str("chunk size too large"),
            BodyError::ExtensionByte(byte) => write!(f, "byte 0x{byte:02x} in chunk extension"),
            BodyError::ChunkLineTooLong => f.write_str("chunk line too long"),
            BodyError::ChunkLinesOutweigh => f.write_str("chunk lines outweigh the content"),
            BodyError::LineEnd => f.write_str("line end is not CR LF"),
            BodyError::ChunkEnd => f.write_str("chunk content is not followed by CR LF"),
            BodyError::Trailer(fault) => write!(f, "trailer: {fault}"),
            BodyError::TrailersTooLarge => f.write_str("trailer section too large"),
            BodyError::Truncated => f.write_str("body ends early"),
        }
    }
}

impl core::error::Error for BodyError {}

/// What the next bytes of the input are. Ranges and counts are of the buffer that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStep {
    /// The bytes from `start` to `end` are content, never none; all up to `end` is consumed.
    Data {
        /// The first byte of content.
        start: usize,
        /// The byte after the last one.
        end: usize,
    },
    /// These bytes were framing, and all are consumed; more are needed.
    NeedMore {
        /// The length of the input.
        consumed: usize,
    },
    /// The body is complete after these bytes of framing. What follows belongs to the next message.
    End {
        /// The bytes that belong to the body.
        consumed: usize,
    },
}

/// A run of content out of [`BodyDecoder::decode_merged`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedStep {
    /// Where the content stands in the buffer; empty if there is none yet.
    pub content: Range<usize>,
    /// The bytes of the buffer that were taken; those outside of `content` mean nothing any more.
    pub consumed: usize,
    /// Whether the body is complete.
    pub ended: bool,
}

/// Reads one body. It holds no content, only how far it came.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    limits: BodyLimits,
    /// Bytes of the chunk line so far.
    line_bytes: usize,
    /// By how many bytes chunk lines outweigh content.
    surplus: usize,
    trailers: Option<Box<Trailers>>,
}

#[derive(Clone, Debug)]
struct BodyLimits {
    line_bytes_max: usize,
    surplus_bytes_max: usize,
    trailer_bytes_max: usize,
    fields_max: usize,
    name_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of a body of known length are to come.
    Counted(u64),
    UntilClose,
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        part: Extension,
    },
    SizeLf {
        size: u64,
    },
    Chunk {
        left: u64,
    },
    ChunkCr,
    ChunkLf,
    /// After the last chunk, before the first byte of the trailer section.
    TrailerStart,
    /// The section is empty but for its LF.
    TrailerlessLf,
    Trailer {
        line_at: usize,
    },
    Done,
}

/// Where in a chunk extension (RFC 9112, section 7.1.1) the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    NameStart,
    Name,
    ValueStart,
    Token,
    Quoted,
    QuotedPair,
    AfterQuoted,
}

#[derive(Clone, Debug, Default)]
struct Trailers {
    bytes: Vec<u8>,
    fields: Fields,
}

/// A chunk line of up to this many bytes is paid for by any content: 8 digits and CR LF.
const PLAIN_LINE_BYTES: usize = 10;

/// Chunks up to this size are moved together by `decode_merged`; larger ones are worth a step of their own.
const MERGE_BYTES_MAX: u64 = 4096;

impl BodyDecoder {
    /// A decoder at the first byte of a body.
    pub fn new(framing: BodyFraming, limits: &Limits) -> Self {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Counted(length),
            BodyFraming::Chunked => State::Size { size: 0, digits: 0 },
            BodyFraming::UntilClose => State::UntilClose,
        };
        let limits = BodyLimits {
            line_bytes_max: limits.chunk_line_bytes_max,
            surplus_bytes_max: limits.chunk_surplus_bytes_max,
            trailer_bytes_max: limits.trailer_bytes_max,
            fields_max: limits.fields_max,
            name_bytes_max: limits.name_bytes_max,
        };
        BodyDecoder {
            state,
            limits,
            line_bytes: 0,
            surplus: 0,
            trailers: None,
        }
    }

    /// Reports what `buf`, the bytes that follow those already consumed, starts with.
    pub fn decode(&mut self, buf: &[u8]) -> Result<BodyStep, BodyError> {
        let start = self.skip_framing(buf)?;
        if self.state == State::Done {
            return Ok(BodyStep::End { consumed: start });
        }
        let end = start + self.take_content(buf.len() - start);
        if start == end {
            return Ok(BodyStep::NeedMore { consumed: start });
        }
        Ok(BodyStep::Data { start, end })
    }

    /// As [`BodyDecoder::decode`], but moves the content of small chunks together within `buf`, so that a peer
    /// who sends many tiny chunks does not make us write as many.
    pub fn decode_merged(&mut self, buf: &mut [u8]) -> Result<MergedStep, BodyError> {
        let mut step = MergedStep {
            content: 0..0,
            consumed: 0,
            ended: false,
        };
        loop {
            step.consumed += self.skip_framing(&buf[step.consumed..])?;
            step.ended = self.state == State::Done;
            let is_large = matches!(self.state, State::Chunk { left } if left > MERGE_BYTES_MAX);
            if step.ended || is_large && !step.content.is_empty() {
                return Ok(step);
            }
            let start = step.consumed;
            let length = self.take_content(buf.len() - start);
            if length == 0 {
                return Ok(step);
            }
            step.consumed += length;
            if step.content.is_empty() {
                step.content = start..start + length;
            } else {
                buf.copy_within(start..start + length, step.content.end);
                step.content.end += length;
            }
        }
    }

    /// The connection ended here. Only a body that lasts until then is complete.
    pub fn finish_at_eof(&self) -> Result<(), BodyError> {
        match self.state {
            State::UntilClose | State::Done => Ok(()),
            State::Counted(_)
            | State::Size { .. }
            | State::Extension { .. }
            | State::SizeLf { .. }
            | State::Chunk { .. }
            | State::ChunkCr
            | State::ChunkLf
            | State::TrailerStart
            | State::TrailerlessLf
            | State::Trailer { .. } => Err(BodyError::Truncated),
        }
    }

    /// Whether the whole body was read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes are still to come, where the framing says so.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Counted(left) => Some(left),
            State::Done => Some(0),
            State::UntilClose
            | State::Size { .. }
            | State::Extension { .. }
            | State::SizeLf { .. }
            | State::Chunk { .. }
            | State::ChunkCr
            | State::ChunkLf
            | State::TrailerStart
            | State::TrailerlessLf
            | State::Trailer { .. } => None,
        }
    }

    /// The trailer fields, once the end was reached. Those that may not be trailers are left out
    /// (RFC 9110, section 6.5.1).
    pub fn trailers(&self) -> Option<&Fields> {
        let trailers = self.trailers.as_deref().filter(|_| self.is_done());
        trailers.map(|trailers| &trailers.fields)
    }

    /// As [`BodyDecoder::trailers`], for keeping.
    pub fn take_trailers(&mut self) -> Option<Fields> {
        if !self.is_done() {
            return None;
        }
        self.trailers.take().map(|trailers| trailers.fields)
    }

    /// Consumes framing from the start of `buf` up to the next content, the end of the body or that of `buf`, and
    /// returns the number of bytes consumed.
    fn skip_framing(&mut self, buf: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while let Some(byte) = buf.get(at) {
            match self.state {
                State::Counted(_) | State::Chunk { .. } | State::UntilClose | State::Done => break,
                State::Trailer { line_at } => at += self.take_trailer(&buf[at..], line_at)?,
                State::Size { .. }
                | State::Extension { .. }
                | State::SizeLf { .. }
                | State::ChunkCr
                | State::ChunkLf
                | State::TrailerStart
                | State::TrailerlessLf => {
                    self.state = self.after_byte(*byte)?;
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// Consumes up to `available` bytes of content and returns how many; 0 if framing comes next.
    fn take_content(&mut self, available: usize) -> usize {
        let taken = |left: u64| left.min(available as u64);
        match self.state {
            State::Counted(left) => {
                let count = taken(left);
                self.state = if count == left {
                    State::Done
                } else {
                    State::Counted(left - count)
                };
                count as usize
            }
            State::Chunk { left } => {
                let count = taken(left);
                self.state = if count == left {
                    State::ChunkCr
                } else {
                    State::Chunk { left: left - count }
                };
                count as usize
            }
            State::UntilClose => available,
            State::Done
            | State::Size { .. }
            | State::Extension { .. }
            | State::SizeLf { .. }
            | State::ChunkCr
            | State::ChunkLf
            | State::TrailerStart
            | State::TrailerlessLf
            | State::Trailer { .. } => 0,
        }
    }

    /// The state after one byte of framing.
    fn after_byte(&mut self, byte: u8) -> Result<State, BodyError> {
        if let State::Size { .. } | State::Extension { .. } | State::SizeLf { .. } = self.state {
            self.line_bytes += 1;
            if self.line_bytes > self.limits.line_bytes_max {
                return Err(BodyError::ChunkLineTooLong);
            }
        }
        match self.state {
            State::Size { size, digits } => after_size_byte(size, digits, byte),
            State::Extension { size, part } => after_extension_byte(size, part, byte),
            State::SizeLf { size } if byte == b'\n' => self.start_chunk(size),
            State::ChunkCr if byte == b'\r' => Ok(State::ChunkLf),
            State::ChunkLf if byte == b'\n' => Ok(State::Size { size: 0, digits: 0 }),
            State::ChunkCr | State::ChunkLf => Err(BodyError::ChunkEnd),
            State::TrailerStart if byte == b'\r' => Ok(State::TrailerlessLf),
            State::TrailerStart => {
                let mut trailers = Box::new(Trailers::default());
                trailers.bytes.push(byte);
                self.trailers = Some(trailers);
                match byte {
                    b'\n' => Err(BodyError::LineEnd),
                    _ => Ok(State::Trailer { line_at: 0 }),
                }
            }
            State::TrailerlessLf if byte == b'\n' => Ok(State::Done),
            State::SizeLf { .. } | State::TrailerlessLf => Err(BodyError::LineEnd),
            State::Counted(_)
            | State::UntilClose
            | State::Chunk { .. }
            | State::Trailer { .. }
            | State::Done => unreachable!("these states do not read framing byte by byte"),
        }
    }

    /// A chunk line is complete; weighs it against the content.
    fn start_chunk(&mut self, size: u64) -> Result<State, BodyError> {
        let content = usize::try_from(size).unwrap_or(usize::MAX);
        let extra = core::mem::take(&mut self.line_bytes).saturating_sub(PLAIN_LINE_BYTES);
        self.surplus = (self.surplus + extra).saturating_sub(content);
        if self.surplus > self.limits.surplus_bytes_max {
            return Err(BodyError::ChunkLinesOutweigh);
        }
        Ok(if size == 0 {
            State::TrailerStart
        } else {
            State::Chunk { left: size }
        })
    }

    /// Consumes bytes of the trailer section up to its end or the end of `buf`, and returns how many. Each line is
    /// checked when it is complete.
    fn take_trailer(&mut self, buf: &[u8], line_at: usize) -> Result<usize, BodyError> {
        let limits = self.limits.of_fields();
        let trailers = self.trailers.get_or_insert_default();
        let length = memchr::memchr(b'\n', buf).map_or(buf.len(), |at| at + 1);
        let room = self
            .limits
            .trailer_bytes_max
            .saturating_sub(trailers.bytes.len());
        if length > room {
            return Err(BodyError::TrailersTooLarge);
        }
        trailers.bytes.extend_from_slice(&buf[..length]);
        if trailers.bytes.last() != Some(&b'\n') {
            return Ok(length);
        }
        if &trailers.bytes[line_at..] == b"\r\n" {
            trailers.finish(&limits)?;
            self.state = State::Done;
            return Ok(length);
        }
        check_line(&trailers.bytes, line_at, &limits)
            .map_err(|found| BodyError::Trailer(found.fault))?;
        self.state = State::Trailer {
            line_at: trailers.bytes.len(),
        };
        Ok(length)
    }
}

impl BodyLimits {
    fn of_fields(&self) -> Limits {
        Limits {
            fields_max: self.fields_max,
            name_bytes_max: self.name_bytes_max,
            ..Limits::DEFAULT
        }
    }
}

impl Trailers {
    /// Turns the whole section into fields.
    fn finish(&mut self, limits: &Limits) -> Result<(), BodyError> {
        let section = read_section(
            &self.bytes,
            0,
            limits,
            &mut self.fields,
            &mut Seen::default(),
        );
        match section {
            Ok(Section::End(_)) => {}
            Ok(Section::Unfinished(_)) => return Err(BodyError::LineEnd),
            Err(found) => return Err(BodyError::Trailer(found.fault)),
        }
        self.fields.adopt_marked(&self.bytes);
        self.bytes = Vec::new();
        self.fields.retain(|field| may_trail(field.id, field.name));
        Ok(())
    }
}

/// Whether a field may stand in a trailer section. RFC 9110, section 6.5.1 forbids those that frame, route,
/// authenticate, modify or describe the message; nearly every field that we know by number does, so of those
/// only ETag may, and of the others those of families that proxies and applications trust may not.
pub(crate) fn may_trail(id: FieldId, name: &[u8]) -> bool {
    const FAMILIES: [&[u8]; 8] = [
        b"content-",
        b"x-forwarded-",
        b"proxy-",
        b"if-",
        b"access-control-",
        b"sec-",
        b"x-real-",
        b"warning",
    ];
    let family = |prefix: &&[u8]| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    id == FieldId::Etag || id == FieldId::Other && !FAMILIES.iter().any(family)
}

/// RFC 9112, section 7.1: hexadecimal digits, then an extension or the line end. White space is refused, also
/// where old grammars allowed it: readers that skip it and readers that stop at it disagree about the size.
fn after_size_byte(size: u64, digits: u8, byte: u8) -> Result<State, BodyError> {
    if let Some(digit) = (byte as char).to_digit(16) {
        // Sixteen digits cannot overflow; leading zeros count as digits and so are bounded as well.
        if digits == 16 {
            return Err(BodyError::SizeTooLarge);
        }
        return Ok(State::Size {
            size: size << 4 | u64::from(digit),
            digits: digits + 1,
        });
    }
    if size > i64::MAX as u64 {
        return Err(BodyError::SizeTooLarge);
    }
    match byte {
        b'\r' if digits > 0 => Ok(State::SizeLf { size }),
        b';' if digits > 0 => Ok(State::Extension {
            size,
            part: Extension::NameStart,
        }),
        b'\n' if digits > 0 => Err(BodyError::LineEnd),
        _ => Err(BodyError::SizeByte(byte)),
    }
}

/// RFC 9112, section 7.1.1, without its "bad" white space.
fn after_extension_byte(size: u64, part: Extension, byte: u8) -> Result<State, BodyError> {
    use Extension::{AfterQuoted, Name, NameStart, Quoted, QuotedPair, Token, ValueStart};
    let next = match (part, byte) {
        (NameStart | Name, _) if is_token_byte(byte) => Name,
        (ValueStart | Token, _) if is_token_byte(byte) => Token,
        (Name, b'=') => ValueStart,
        (ValueStart, b'"') => Quoted,
        (Quoted, b'"') => AfterQuoted,
        (Quoted, b'\\') => QuotedPair,
        (Quoted | QuotedPair, _) if is_value_byte(byte) => Quoted,
        (Name | Token | AfterQuoted, b';') => NameStart,
        (Name | Token | AfterQuoted, b'\r') => return Ok(State::SizeLf { size }),
        (Name | Token | AfterQuoted, b'\n') => return Err(BodyError::LineEnd),
        (NameStart | Name | ValueStart | Token | Quoted | QuotedPair | AfterQuoted, _) => {
            return Err(BodyError::ExtensionByte(byte));
        }
    };
    Ok(State::Extension { size, part: next })
}
