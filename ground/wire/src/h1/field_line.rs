//! Parses the field lines of heads and trailer sections (RFC 9112, section 5) in one pass and without copying.
//! `framing` and the layers above interpret them.

use core::fmt;

use memchr::memchr;
use sluice_message::name::is_token_byte;
use sluice_message::{FieldId, Fields};

use super::scan;
use crate::limits::{Limits, LineEnds, OddNames};

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
    /// The line is longer than the limit.
    LineTooLong,
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
            FieldFault::LineTooLong => f.write_str("field line too long"),
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
    /// Whether a line ended with LF alone.
    pub line_ends: LineEnds,
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

    /// Notes how a line ended.
    pub fn note_end(&mut self, ends: LineEnds) {
        if ends == LineEnds::LfToo {
            self.line_ends = ends;
        }
    }

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
    let read = read_lines(bytes, start, limits, fields, seen);
    let (seen_bytes, last) = match &read {
        Ok(Section::End(end)) => (&bytes[..*end], *end),
        Ok(Section::Unfinished(at)) => (bytes, *at),
        Err(found) => (bytes, found.offset),
    };
    // A section that is shorter than a line may be has no line that is too long.
    if seen_bytes.len() - start > limits.line_bytes_max {
        refuse_long_line(seen_bytes, start, last, limits)?;
    }
    read
}

fn read_lines(
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
        let line = match read_plain(bytes, at, limits) {
            Some(line) => line,
            None => match read_rare(bytes, at, limits)? {
                Rare::Unfinished => return Ok(Section::Unfinished(at)),
                Rare::End(next) => {
                    seen.note_end(LineEnds::LfToo);
                    return Ok(Section::End(next));
                }
                Rare::PassedOver(next, ends) => {
                    seen.note_end(ends);
                    at = next;
                    continue;
                }
                Rare::Line(line) => {
                    seen.note_end(LineEnds::LfToo);
                    line
                }
            },
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

/// Refuses the first line from `start` that is longer than the limit and does not begin after `last`. Of the faults of a
/// head the first counts, and of those of a line this one, however the bytes are cut.
#[cold]
fn refuse_long_line(
    bytes: &[u8],
    start: usize,
    last: usize,
    limits: &Limits,
) -> Result<(), Located<FieldFault>> {
    let mut at = start;
    for line in bytes[start..].split_inclusive(|byte| *byte == b'\n') {
        if at > last {
            break;
        }
        if line.len() > limits.line_bytes_max {
            return Err(Located::new(FieldFault::LineTooLong, at));
        }
        at += line.len();
    }
    Ok(())
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

/// What [`read_plain`] does not read.
enum Rare {
    /// The line is not complete.
    Unfinished,
    /// The field of the line does not count; here the next line starts.
    PassedOver(usize, LineEnds),
    /// A field line that ends with LF alone.
    Line(Line),
    /// An empty line that is LF alone; here the content starts.
    End(usize),
}

/// Rejects the line that starts at `at` if it is complete and malformed. Only complete lines are checked, so that the
/// result does not depend on how the bytes were split. Returns whether the line counts, as opposed to being skipped.
pub(crate) fn check_line(
    bytes: &[u8],
    at: usize,
    limits: &Limits,
) -> Result<bool, Located<FieldFault>> {
    if bytes.len() - at > limits.line_bytes_max {
        return Err(Located::new(FieldFault::LineTooLong, at));
    }
    match read_plain(bytes, at, limits) {
        Some(_) => Ok(true),
        None => match read_rare(bytes, at, limits)? {
            Rare::Unfinished | Rare::Line(_) => Ok(true),
            Rare::PassedOver(..) | Rare::End(_) => Ok(false),
        },
    }
}

/// Reads a line that is complete and right; `None` otherwise. In line with its caller, because the way of six
/// numbers through memory took as long as finding them.
#[inline(always)]
fn read_plain(bytes: &[u8], at: usize, limits: &Limits) -> Option<Line> {
    read_ended(bytes, at, limits, b"\r\n")
}

/// Reads a line that is complete, right and ends so.
#[inline(always)]
fn read_ended(bytes: &[u8], at: usize, limits: &Limits, line_end: &[u8]) -> Option<Line> {
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
    if bytes.get(end..end + line_end.len()) != Some(line_end) {
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
        next: end + line_end.len(),
    })
}

/// Says why [`read_plain`] gave up: the line is not complete, it is passed over, it ends with LF alone and may, or it has
/// a fault.
#[cold]
fn read_rare(bytes: &[u8], at: usize, limits: &Limits) -> Result<Rare, Located<FieldFault>> {
    let Some(length) = memchr(b'\n', &bytes[at..]) else {
        return Ok(Rare::Unfinished);
    };
    let line = &bytes[at..at + length + 1];
    let next = at + line.len();
    let ends = match limits.leniency.line_ends {
        LineEnds::LfToo if !line.ends_with(b"\r\n") => LineEnds::LfToo,
        LineEnds::LfToo | LineEnds::CrLf => LineEnds::CrLf,
    };
    if ends == LineEnds::LfToo {
        if line == b"\n" {
            return Ok(Rare::End(next));
        }
        if let Some(line) = read_ended(bytes, at, limits, b"\n") {
            return Ok(Rare::Line(line));
        }
    }
    let (fault, place) = fault_in(line, limits);
    match limits.odd_names {
        OddNames::PassOver if is_odd(line, limits, ends) => Ok(Rare::PassedOver(next, ends)),
        OddNames::PassOver | OddNames::Refuse => Err(Located::new(fault, at + place)),
    }
}

/// Whether nothing is wrong with a complete line but its name, which every reader takes for a name and none for a known
/// one: it has printable bytes only, or such of other alphabets.
fn is_odd(line: &[u8], limits: &Limits, ends: LineEnds) -> bool {
    let name_end = line
        .iter()
        .position(|byte| matches!(byte, b':' | 0x7f | 0..=b' '));
    let Some(name_end) = name_end.filter(|end| (1..=limits.name_bytes_max).contains(end)) else {
        return false;
    };
    let line_end: &[u8] = match ends {
        LineEnds::CrLf => b"\r\n",
        LineEnds::LfToo => b"\n",
    };
    line[name_end] == b':'
        && &line[scan::value_end(line, name_end + 1)..] == line_end
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
