//! Parses the head of a CGI response (RFC 3875, section 6.3), as FastCGI, SCGI and uwsgi use it. The body is up to the
//! caller.

use core::fmt;

use memchr::{memchr, memchr_iter};
use sluice_message::name::{is_token_byte, is_value_byte};
use sluice_message::{FieldId, Fields, ResponseHead, Status, Version};

use crate::h1::{FieldFault, FramingFault, Limits, Progress, parse_length};

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadError {
    /// What was wrong.
    pub fault: HeadFault,
    /// Bytes from the start of the head to the fault, or to the line that has it.
    pub offset: usize,
}

/// What was wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// It is longer than the limit.
    TooLarge,
    /// A line is malformed.
    Field(FieldFault),
    /// Status, or the status line, has no number of three digits from 200 up.
    Status,
    /// Status stands there more than once.
    StatusRepeated,
    /// The length of the body is malformed or told twice.
    Framing(FramingFault),
    /// Transfer-Encoding: how the body is framed is the affair of records, not of the application.
    Coded,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            HeadFault::TooLarge => f.write_str("head too large")?,
            HeadFault::Field(fault) => fault.fmt(f)?,
            HeadFault::Status => f.write_str("malformed status")?,
            HeadFault::StatusRepeated => f.write_str("status is repeated")?,
            HeadFault::Framing(fault) => fault.fmt(f)?,
            HeadFault::Coded => f.write_str("transfer-encoding in a CGI response")?,
        }
        write!(f, " (at byte {})", self.offset)
    }
}

impl core::error::Error for HeadError {}

/// Parses the head of one response.
#[derive(Clone, Debug)]
pub struct HeadDecoder {
    limits: Limits,
    status_line: StatusLine,
    /// The lines before this are complete and not empty.
    line_at: usize,
    /// No line ends between `line_at` and here.
    scanned: usize,
}

/// Whether the first line may be one of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusLine {
    Refused,
    Taken,
}

impl HeadDecoder {
    /// A decoder at the first byte of a response.
    pub fn new(limits: Limits) -> HeadDecoder {
        HeadDecoder {
            limits,
            status_line: StatusLine::Refused,
            line_at: 0,
            scanned: 0,
        }
    }

    /// A decoder that also accepts an HTTP status line, which uWSGI sends in each of its protocols. A `Status` header
    /// after such a line is an ordinary header.
    pub fn with_status_line(limits: Limits) -> HeadDecoder {
        HeadDecoder {
            status_line: StatusLine::Taken,
            ..HeadDecoder::new(limits)
        }
    }

    /// Parses a head from the start of `buf`, which holds all content of the response received so far. `head` is
    /// cleared, and filled only when the head is complete. Returns the body length that the head declares.
    ///
    /// The result does not depend on how the bytes arrive, in one piece or one by one: errors are reported once the
    /// whole head is there.
    pub fn decode(
        &mut self,
        buf: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Progress<Option<u64>>, HeadError> {
        head.clear();
        let window = &buf[..buf.len().min(self.limits.head_bytes_max)];
        if self.scanned == 0 {
            // As nearly always, all of it is here: it is read without looking for its end first.
            if let Ok(Some((consumed, value))) = self.read(window, head) {
                return Ok(Progress::Complete { consumed, value });
            }
            head.clear();
        }
        let Some(end) = self.find_end(window) else {
            if window.len() == self.limits.head_bytes_max {
                return Err(error(HeadFault::TooLarge, window.len()));
            }
            return Ok(Progress::Incomplete);
        };
        match self.read(&window[..end], head) {
            Ok(Some((consumed, value))) => Ok(Progress::Complete { consumed, value }),
            Ok(None) => Ok(Progress::Incomplete),
            Err(error) => {
                head.clear();
                Err(error)
            }
        }
    }

    /// Where the content begins: after the first empty line. Lines end in LF or CR LF (RFC 3875, section 6.3.5).
    fn find_end(&mut self, window: &[u8]) -> Option<usize> {
        for at in memchr_iter(b'\n', &window[self.scanned..]) {
            let at = self.scanned + at;
            let line = &window[self.line_at..at];
            if matches!(line, b"" | b"\r") {
                return Some(at + 1);
            }
            self.line_at = at + 1;
        }
        self.scanned = window.len();
        None
    }

    /// Reads the lines up to the first empty one. Returns where the content begins, and the declared length of the body;
    /// `None` if no line is empty.
    fn read(
        &self,
        bytes: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Option<(usize, Option<u64>)>, HeadError> {
        let mut status = None;
        let mut has_line = false;
        let mut has_end = false;
        let mut at = 0;
        for end in memchr_iter(b'\n', bytes) {
            let (line_at, line) = (at, &bytes[at..end]);
            let field = line.strip_suffix(b"\r").unwrap_or(line);
            at = end + 1;
            if field.is_empty() {
                has_end = true;
                break;
            }
            if line_at == 0
                && self.status_line == StatusLine::Taken
                && let Some(after) = field.strip_prefix(b"HTTP/")
            {
                status = Some(read_line(after).ok_or(error(HeadFault::Status, 0))?);
                has_line = true;
                continue;
            }
            let Line { id, name, value } = self
                .split(field)
                .map_err(|(fault, place)| error(HeadFault::Field(fault), line_at + place))?;
            let fail = |fault| Err(error(fault, line_at));
            if !has_line && name.eq_ignore_ascii_case(b"status") {
                if status.is_some() {
                    return fail(HeadFault::StatusRepeated);
                }
                match read_status(value) {
                    Some(read) => status = Some(read),
                    None => return fail(HeadFault::Status),
                }
                continue;
            }
            if id == FieldId::TransferEncoding {
                return fail(HeadFault::Coded);
            }
            if head.fields.len() == self.limits.fields_max {
                return fail(HeadFault::Field(FieldFault::TooMany));
            }
            head.fields.push_clean(id, name, value);
        }
        if !has_end {
            return Ok(None);
        }
        head.version = Version::Http11;
        head.status = status.unwrap_or(if head.fields.has(FieldId::Location) {
            // RFC 3875, section 6.2.3. With a local path (section 6.2.2), the server is asked to respond with that page
            // itself. sluice redirects the client instead, because an application must not reach resources that only
            // the server may serve.
            Status::FOUND
        } else {
            Status::OK
        });
        match length(&head.fields) {
            Ok(length) => Ok(Some((at, length))),
            Err(fault) => Err(error(HeadFault::Framing(fault), 0)),
        }
    }

    /// The parts of a line, or its fault and where it is.
    fn split<'a>(&self, line: &'a [u8]) -> Result<Line<'a>, (FieldFault, usize)> {
        let (id, end) = match self.known_name(line) {
            Some(known) => known,
            None => self.other_name(line)?,
        };
        let value = &line[end + 1..];
        // All bytes are looked at without a way out, which compiles to vector comparisons.
        let is_clean = value
            .iter()
            .fold(true, |clean, byte| clean & is_value_byte(*byte));
        if !is_clean && let Some(at) = value.iter().position(|byte| !is_value_byte(*byte)) {
            return Err((FieldFault::ValueByte(value[at]), end + 1 + at));
        }
        Ok(Line {
            id,
            name: &line[..end],
            value: value.trim_ascii(),
        })
    }

    /// A known name before the first colon, and where that is. Its bytes need no check.
    fn known_name(&self, line: &[u8]) -> Option<(FieldId, usize)> {
        let end = memchr(b':', line)?;
        let id = FieldId::of(&line[..end]);
        (id != FieldId::Other && end <= self.limits.name_bytes_max).then_some((id, end))
    }

    /// Any name, and where its colon is.
    fn other_name(&self, line: &[u8]) -> Result<(FieldId, usize), (FieldFault, usize)> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        if is_blank(&line[0]) {
            return Err((FieldFault::Folded, 0));
        }
        let Some(end) = line.iter().position(|byte| !is_token_byte(*byte)) else {
            return Err((FieldFault::NoColon, 0));
        };
        match line[end] {
            b':' if end == 0 => Err((FieldFault::EmptyName, 0)),
            b':' if end > self.limits.name_bytes_max => Err((FieldFault::NameTooLong, 0)),
            b':' => Ok((FieldId::of(&line[..end]), end)),
            byte => {
                let after = line[end..].iter().find(|byte| !is_blank(byte));
                let fault = if is_blank(&byte) && after == Some(&b':') {
                    FieldFault::SpaceBeforeColon
                } else {
                    FieldFault::NameByte(byte)
                };
                Err((fault, end))
            }
        }
    }
}

/// A header line.
struct Line<'a> {
    id: FieldId,
    name: &'a [u8],
    value: &'a [u8],
}

fn error(fault: HeadFault, offset: usize) -> HeadError {
    HeadError { fault, offset }
}

/// A status line behind `HTTP/` (RFC 9112, section 4). Which version it names says nothing: the connection is none of
/// HTTP.
fn read_line(after: &[u8]) -> Option<Status> {
    let (version, rest) = after.split_first_chunk::<4>()?;
    match version {
        [major, b'.', minor, b' '] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            read_status(rest)
        }
        _ => None,
    }
}

/// RFC 3875, section 6.3.3. Interim responses are generated by the server only.
fn read_status(value: &[u8]) -> Option<Status> {
    let digits = match value {
        [a, b, c] | [a, b, c, b' ', ..] => [*a, *b, *c],
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits
        .iter()
        .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    Status::new(number).filter(|status| !status.is_informational())
}

fn length(fields: &Fields) -> Result<Option<u64>, FramingFault> {
    let mut values = fields.all(FieldId::ContentLength);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(FramingFault::LengthRepeated),
        (Some(value), None) => parse_length(value)
            .map(Some)
            .ok_or(FramingFault::LengthInvalid),
    }
}
