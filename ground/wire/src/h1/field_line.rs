//! Parses the field lines of heads and trailer sections (RFC 9112, section 5) in one pass and without copying.
//! `framing` and the layers above interpret them.

use core::fmt;

use memchr::memchr;
use sluice_message::name::is_token_byte;
use sluice_message::{FieldId, Fields};

use super::scan;
use crate::limits::{Limits, OddNames};

/// Why a field line was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// A line ends in something else than CR LF, or holds a CR of its own.
    LineEnd,
    /// A line starts with white space: a folded line (RFC 9112, section 5.2).
    Folded,
    /// A line without a colon.
    NoColon,
    /// A line that starts with its colon.
    EmptyName,
    /// White space between name and colon (RFC 9112, section 5.1).
    SpaceBeforeColon,
    /// This byte cannot stand in a name.
    NameByte(u8),
    /// The name is longer than the limit.
    NameTooLong,
    /// This byte cannot stand in a value.
    ValueByte(u8),
    /// There are more lines than the limit.
    TooMany,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldFault::LineEnd => f.write_str("line end is not CR LF"),
            FieldFault::Folded => f.write_str("field line starts with white space"),
            FieldFault::NoColon => f.write_str("field line without colon"),
            FieldFault::EmptyName => f.write_str("field name is empty"),
            FieldFault::SpaceBeforeColon => f.write_str("white space before colon"),
            FieldFault::NameByte(byte) => write!(f, "byte 0x{byte:02x} in field name"),
            FieldFault::NameTooLong => f.write_str("field name too long"),
            FieldFault::ValueByte(byte) => write!(f, "byte 0x{byte:02x} in field value"),
            FieldFault::TooMany => f.write_str("too many fields"),
        }
    }
}

/// A fault of a line and the offset it was found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located<T> {
    /// What was wrong.
    pub fault: T,
    /// Bytes from the start of the input to the fault.
    pub offset: usize,
}

impl<T> Located<T> {
    pub fn new(fault: T, offset: usize) -> Self {
        Located { fault, offset }
    }
}

/// Which known fields a head has, and which of them more than once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    once: u8,
    twice: u8,
    /// Start and length of the last Host value.
    pub host: (usize, usize),
}

impl Seen {
    pub const HOST: u8 = 1;
    pub const LENGTH: u8 = 2;
    pub const CODING: u8 = 4;
    pub const CONNECTION: u8 = 8;
    pub const EXPECT: u8 = 16;
    pub const UPGRADE: u8 = 32;

    const BITS: [u8; 256] = {
        let mut bits = [0; 256];
        bits[FieldId::Host as usize] = Seen::HOST;
        bits[FieldId::ContentLength as usize] = Seen::LENGTH;
        bits[FieldId::TransferEncoding as usize] = Seen::CODING;
        bits[FieldId::Connection as usize] = Seen::CONNECTION;
        bits[FieldId::Expect as usize] = Seen::EXPECT;
        bits[FieldId::Upgrade as usize] = Seen::UPGRADE;
        bits
    };

    #[inline]
    fn note(&mut self, line: &Line) {
        let bit = Seen::BITS[line.id as usize];
        self.twice |= self.once & bit;
        self.once |= bit;
        if bit == Seen::HOST {
            self.host = (line.value_at, line.value_len);
        }
    }

    pub fn has(self, field: u8) -> bool {
        self.once & field != 0
    }

    pub fn repeated(self, field: u8) -> bool {
        self.twice & field != 0
    }
}

/// How far a run over field lines came.
pub(crate) enum Section {
    /// The empty line was found; the section ends here.
    End(usize),
    /// The line that starts here is not complete.
    Unfinished(usize),
}

/// Reads lines from `start` until the empty line and marks them in `fields`, with offsets that count from
/// `start`. The caller adopts the bytes once it has them all.
pub(crate) fn read_section(
    bytes: &[u8],
    start: usize,
    limits: &Limits,
    fields: &mut Fields,
    seen: &mut Seen,
) -> Result<Section, Located<FieldFault>> {
    let mut at = start;
    loop {
        if bytes.get(at) == Some(&b'\r') {
            match bytes.get(at + 1) {
                Some(b'\n') => return Ok(Section::End(at + 2)),
                None => return Ok(Section::Unfinished(at)),
                Some(_) => {}
            }
        }
        let Some(line) = read_plain(bytes, at, limits) else {
            match pass_over_if_complete(bytes, at, limits)? {
                Some(next) => at = next,
                None => return Ok(Section::Unfinished(at)),
            }
            continue;
        };
        if fields.len() == limits.fields_max {
            return Err(Located::new(FieldFault::TooMany, at));
        }
        seen.note(&line);
        fields.mark(
            line.id,
            (at - start) as u32,
            line.name_len,
            (line.value_at - start) as u32,
            line.value_len as u32,
        );
        at = line.next;
    }
}

/// One field line.
struct Line {
    id: FieldId,
    name_len: u16,
    value_at: usize,
    value_len: usize,
    /// Where the next line starts.
    next: usize,
}

/// Rejects the line that starts at `at` if it is complete and malformed. Only complete lines are checked, so that the
/// result does not depend on how the bytes were split. Returns whether the line counts, as opposed to being skipped.
pub(crate) fn check_line(
    bytes: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<bool, Located<FieldFault>> {
    match read_plain(bytes, at, limits) {
        Some(_) => Ok(true),
        None => pass_over_if_complete(bytes, at, limits).map(|passed| passed.is_none()),
    }
}

/// Reads a line that is complete and right; `None` otherwise. In line with its caller, because the way of six
/// numbers through memory took as long as finding them.
#[inline(always)]
fn read_plain(bytes: &[u8], at: usize, limits: &Limits) -> Option<Line> {
    let bound = bytes.len().min(at + limits.name_bytes_max + 1);
    let colon = scan::colon(&bytes[..bound], at);
    if colon == bound || colon == at {
        return None;
    }
    let name = &bytes[at..colon];
    let id = FieldId::of(name);
    // A known name is a token; any other is looked at byte by byte.
    if id == FieldId::Other && !name.iter().all(|byte| is_token_byte(*byte)) {
        return None;
    }
    let mut value_at = colon + 1;
    while matches!(bytes.get(value_at), Some(b' ' | b'\t')) {
        value_at += 1;
    }
    let end = scan::value_end(bytes, value_at);
    if bytes.get(end..end + 2) != Some(b"\r\n") {
        return None;
    }
    let mut value_end = end;
    while value_end > value_at && matches!(bytes[value_end - 1], b' ' | b'\t') {
        value_end -= 1;
    }
    Some(Line {
        id,
        name_len: name.len() as u16,
        value_at,
        value_len: value_end - value_at,
        next: end + 2,
    })
}

/// Says why [`read_plain`] gave up: the line is not complete, or it has a fault. Gives the end of one that is passed over.
#[cold]
fn pass_over_if_complete(
    bytes: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<Option<usize>, Located<FieldFault>> {
    let Some(length) = memchr(b'\n', &bytes[at..]) else {
        return Ok(None);
    };
    let line = &bytes[at..at + length + 1];
    let (fault, place) = fault_in(line, limits);
    match limits.odd_names {
        OddNames::PassOver if is_odd(line, limits) => Ok(Some(at + line.len())),
        OddNames::PassOver | OddNames::Refuse => Err(Located::new(fault, at + place)),
    }
}

/// Whether nothing is wrong with a complete line but its name, which every reader takes for a name and none for a known
/// one: it has printable bytes only, or such of other alphabets.
fn is_odd(line: &[u8], limits: &Limits) -> bool {
    let name_end = line
        .iter()
        .position(|byte| matches!(byte, b':' | 0x7f | 0..=b' '));
    let Some(name_end) = name_end.filter(|end| (1..=limits.name_bytes_max).contains(end)) else {
        return false;
    };
    line[name_end] == b':'
        && &line[scan::value_end(line, name_end + 1)..] == b"\r\n"
        && !FRAMING
            .iter()
            .any(|known| is_alike(&line[..name_end], known))
}

/// What decides where a message ends and whom it is for.
const FRAMING: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"host"];

/// Whether somebody may take `name` for one that is known: it has the same letters, and odd bytes beside them.
fn is_alike(name: &[u8], known: &[u8]) -> bool {
    let letters = name.iter().filter(|byte| is_token_byte(**byte));
    letters
        .map(u8::to_ascii_lowercase)
        .eq(known.iter().copied())
}

/// The first fault of a complete line, with its place.
fn fault_in(line: &[u8], limits: &Limits) -> (FieldFault, usize) {
    let place = |found: Option<usize>| found.unwrap_or(line.len() - 1);
    if matches!(line[0], b' ' | b'\t') {
        return (FieldFault::Folded, 0);
    }
    let name_end = place(line.iter().position(|byte| !is_token_byte(*byte)));
    if name_end > limits.name_bytes_max {
        return (FieldFault::NameTooLong, 0);
    }
    match line[name_end] {
        b':' if name_end == 0 => return (FieldFault::EmptyName, 0),
        b':' => {}
        b' ' | b'\t' => {
            let after = line[name_end..]
                .iter()
                .find(|byte| !matches!(byte, b' ' | b'\t'));
            return match after {
                Some(b':') => (FieldFault::SpaceBeforeColon, name_end),
                _ => (FieldFault::NameByte(line[name_end]), name_end),
            };
        }
        b'\r' if name_end + 2 == line.len() => return (FieldFault::NoColon, 0),
        b'\r' | b'\n' => return (FieldFault::LineEnd, name_end),
        byte => return (FieldFault::NameByte(byte), name_end),
    }
    let value_end = scan::value_end(line, name_end + 1);
    match line[value_end.min(line.len() - 1)] {
        b'\r' | b'\n' => (FieldFault::LineEnd, value_end),
        byte => (FieldFault::ValueByte(byte), value_end),
    }
}
