//! Parses the response heads that upstreams send. `body` decodes their bodies; the caller counts interim responses.

use core::fmt;

use memchr::memchr;
use sluice_message::{FieldId, Method, ResponseHead, Status, Version};

use super::Progress;
use super::field_line::{FieldFault, Located, Section, Seen, read_section};
use super::framing::{BodyFraming, Declared, FramingFault, KeepAlive, Options, declared};
use super::head::{Resume, Stage};
use super::scan;
use crate::limits::{Limits, LineEnds};

/// What a response says about its body and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFraming {
    /// How the body ends.
    pub body: BodyFraming,
    /// Whether the connection can carry another request afterwards.
    pub keep_alive: KeepAlive,
    /// What follows the head.
    pub kind: ResponseKind,
}

/// What follows the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// A final response; its body follows.
    Final,
    /// Another response to the same request (1xx other than 101).
    Interim,
    /// A switch to another protocol: 101, or 2xx to CONNECT. The caller, who knows the request, checks whether it asked
    /// for a switch; until this response arrives, only HTTP may be sent.
    Switched,
}

/// Why a response was refused. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseError {
    /// What was wrong.
    pub fault: ResponseFault,
    /// Bytes from the start of the input to the fault, or to the line that has it.
    pub offset: usize,
}

/// What was wrong with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFault {
    /// The first bytes are not those of an HTTP/1 status line.
    NotHttp,
    /// The status line is malformed after its version.
    StatusLine,
    /// The status line ends in something else than CR LF.
    LineEnd,
    /// The head is longer than the limit.
    HeadTooLarge,
    /// A field line is malformed.
    Field(FieldFault),
    /// The fields that frame the body are malformed or contradict each other.
    Framing(FramingFault),
    /// 101 without `Connection: upgrade` and an Upgrade field.
    SwitchedToNothing,
}

impl ResponseError {
    fn new(fault: ResponseFault, offset: usize) -> Self {
        ResponseError { fault, offset }
    }
}

impl From<Located<FieldFault>> for ResponseError {
    fn from(at: Located<FieldFault>) -> Self {
        ResponseError::new(ResponseFault::Field(at.fault), at.offset)
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            ResponseFault::NotHttp => f.write_str("not an HTTP/1 response")?,
            ResponseFault::StatusLine => f.write_str("malformed status line")?,
            ResponseFault::LineEnd => f.write_str("status line does not end in CR LF")?,
            ResponseFault::HeadTooLarge => f.write_str("head too large")?,
            ResponseFault::Field(fault) => fault.fmt(f)?,
            ResponseFault::Framing(fault) => fault.fmt(f)?,
            ResponseFault::SwitchedToNothing => f.write_str("101 without upgrade")?,
        }
        write!(f, " (at byte {})", self.offset)
    }
}

impl core::error::Error for ResponseError {}

/// Reads the heads of the responses of one connection.
///
/// It is small: ten thousand connections have one each. The limits, which they share, are given with each call and
/// have to stay the same for one head.
#[derive(Clone, Debug, Default)]
pub struct ResponseDecoder {
    resume: Resume,
}

impl ResponseDecoder {
    /// A decoder that stands before its first response.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets an incomplete head. After a complete one the decoder is ready for the next by itself.
    pub fn reset(&mut self) {
        self.resume = Resume::default();
    }

    /// Parses a response head from the start of `buf`, which holds all bytes that were received and not consumed.
    /// `method` is that of the request. `head` is cleared, and filled only when the head is complete.
    ///
    /// The result, errors included, does not depend on how the bytes arrive, in one piece or one by one.
    pub fn decode(
        &mut self,
        limits: &Limits,
        buf: &[u8],
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Progress<ResponseFraming>, ResponseError> {
        head.clear();
        let window = &buf[..buf.len().min(limits.head_bytes_max)];
        let outcome = self.look(limits, window, method, head);
        if !matches!(outcome, Ok(Progress::Incomplete)) {
            self.reset();
        }
        if !matches!(outcome, Ok(Progress::Complete { .. })) {
            head.clear();
        }
        outcome
    }

    fn look(
        &mut self,
        limits: &Limits,
        window: &[u8],
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Progress<ResponseFraming>, ResponseError> {
        let resumed = self.resume.scanned > 0;
        if resumed && !self.advance(limits, window)? {
            return self.incomplete(limits, window);
        }
        match self.read(limits, window, method, head)? {
            Some((consumed, value)) => Ok(Progress::Complete { consumed, value }),
            None => self.incomplete(limits, window),
        }
    }

    /// Checks the lines that became complete since the last call and returns whether the head is complete.
    fn advance(&mut self, limits: &Limits, window: &[u8]) -> Result<bool, ResponseError> {
        if self.resume.stage == Stage::AwaitStartLine {
            check_prefix(window)?;
            if !self.resume.line_is_complete(window) {
                return Ok(false);
            }
            match read_status_line(window, limits)? {
                Some(line) => self.resume.enter_fields(line.next),
                None => return Ok(false),
            }
        }
        Ok(self.resume.advance(window, limits)?)
    }

    /// Reads the whole head, or `None` and notes where to go on.
    fn read(
        &mut self,
        limits: &Limits,
        window: &[u8],
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Option<(usize, ResponseFraming)>, ResponseError> {
        self.resume = Resume {
            scanned: window.len(),
            ..Resume::default()
        };
        check_prefix(window)?;
        let Some(line) = read_status_line(window, limits)? else {
            return Ok(None);
        };
        let mut seen = Seen::default();
        match read_section(window, line.next, limits, &mut head.fields, &mut seen)? {
            Section::Unfinished(at) => {
                let fields = head.fields.len();
                self.resume = Resume {
                    stage: Stage::AwaitField,
                    at,
                    scanned: window.len(),
                    fields,
                };
                Ok(None)
            }
            Section::End(end) => {
                head.fields.adopt_marked(&window[line.next..end]);
                head.status = line.status;
                head.version = line.version;
                seen.note_end(line.ends);
                let framing =
                    framing_of(head, seen, method).map_err(|fault| ResponseError::new(fault, 0))?;
                Ok(Some((end, framing)))
            }
        }
    }

    fn incomplete(
        &self,
        limits: &Limits,
        window: &[u8],
    ) -> Result<Progress<ResponseFraming>, ResponseError> {
        if window.len() == limits.head_bytes_max {
            return Err(ResponseError::new(
                ResponseFault::HeadTooLarge,
                window.len(),
            ));
        }
        Ok(Progress::Incomplete)
    }
}

const PREFIX: &[u8] = b"HTTP/1.";

/// Refuses what cannot become a status line as soon as that is plain, so that a peer that speaks something else
/// first is noticed without waiting for a line end that may never come.
fn check_prefix(bytes: &[u8]) -> Result<(), ResponseError> {
    let length = bytes.len().min(PREFIX.len());
    match (0..length).find(|at| bytes[*at] != PREFIX[*at]) {
        Some(at) => Err(ResponseError::new(ResponseFault::NotHttp, at)),
        None => Ok(()),
    }
}

struct StatusLine {
    version: Version,
    status: Status,
    /// How it ends.
    ends: LineEnds,
    /// Where the first field line starts.
    next: usize,
}

/// The status line (RFC 9112, section 4), whose first bytes were checked; `None` if it is not complete. The
/// space before an empty reason may be missing, as many servers leave it out.
fn read_status_line(bytes: &[u8], limits: &Limits) -> Result<Option<StatusLine>, ResponseError> {
    let fail = |fault, offset| Err(ResponseError::new(fault, offset));
    // The reason is what a field value may be; the head's limit bounds it.
    let end = scan::value_end(bytes, PREFIX.len());
    let (mut ends, mut next) = (LineEnds::CrLf, end + 2);
    if bytes.get(end) == Some(&b'\n') && limits.leniency.line_ends == LineEnds::LfToo {
        (ends, next) = (LineEnds::LfToo, end + 1);
    } else if bytes.get(end..next) != Some(b"\r\n") {
        let Some(length) = memchr(b'\n', bytes) else {
            return Ok(None);
        };
        return match bytes[end.min(length)] {
            b'\r' | b'\n' => fail(ResponseFault::LineEnd, end),
            _ => fail(ResponseFault::StatusLine, end),
        };
    }
    let line = &bytes[PREFIX.len()..end];
    let (minor, code) = match line {
        [minor, b' ', a, b, c] | [minor, b' ', a, b, c, b' ', ..] => (*minor, [*a, *b, *c]),
        _ => return fail(ResponseFault::StatusLine, PREFIX.len()),
    };
    if !minor.is_ascii_digit() || !code.iter().all(u8::is_ascii_digit) {
        return fail(ResponseFault::StatusLine, PREFIX.len());
    }
    let number = code
        .iter()
        .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    let Some(status) = Status::new(number) else {
        return fail(ResponseFault::StatusLine, PREFIX.len() + 2);
    };
    let version = if minor == b'0' {
        Version::Http10
    } else {
        Version::Http11
    };
    Ok(Some(StatusLine {
        version,
        status,
        ends,
        next,
    }))
}

/// RFC 9112, section 6.3, in its order.
fn framing_of(
    head: &ResponseHead,
    seen: Seen,
    method: &Method,
) -> Result<ResponseFraming, ResponseFault> {
    // Checked even if the response has no body: contradictory headers are just as bad a sign there.
    let declared = declared(&head.fields, seen, head.version).map_err(ResponseFault::Framing)?;
    let options = Options::read(&head.fields, seen);
    let keep_alive = match seen.line_ends {
        LineEnds::CrLf => options.keep_alive(head.version),
        // Another reader may see another end of such a head.
        LineEnds::LfToo => KeepAlive::Close,
    };
    let code = head.status.code();
    if code == 101 {
        let named = head
            .fields
            .first(FieldId::Upgrade)
            .is_some_and(|value| !value.is_empty());
        if !options.upgrade || !named {
            return Err(ResponseFault::SwitchedToNothing);
        }
    }
    if code == 101 || *method == Method::Connect && (200..300).contains(&code) {
        let (body, kind) = (BodyFraming::None, ResponseKind::Switched);
        return Ok(ResponseFraming {
            body,
            keep_alive: KeepAlive::Close,
            kind,
        });
    }
    let kind = if head.status.is_informational() {
        ResponseKind::Interim
    } else {
        ResponseKind::Final
    };
    if head.status.is_bodiless() || *method == Method::Head {
        // 1xx and 204 must not declare a body (RFC 9110, section 8.6). If one does, the peer may send it all the
        // same, and the next response on this connection would begin inside of it.
        let may_declare = *method == Method::Head || code == 304;
        let clean = may_declare || matches!(declared, Declared::Nothing | Declared::Length(0));
        let keep_alive = if clean { keep_alive } else { KeepAlive::Close };
        return Ok(ResponseFraming {
            body: BodyFraming::None,
            keep_alive,
            kind,
        });
    }
    let (body, keep_alive) = match declared {
        Declared::Length(length) => (BodyFraming::Length(length), keep_alive),
        Declared::Chunked => (BodyFraming::Chunked, keep_alive),
        Declared::Nothing => (BodyFraming::UntilClose, KeepAlive::Close),
    };
    Ok(ResponseFraming {
        body,
        keep_alive,
        kind,
    })
}
