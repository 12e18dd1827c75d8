//! Derives from the headers how the body is framed and whether the connection persists (RFC 9112, sections 6 and 9).
//! `body` decodes the body.

use core::fmt;

use sluice_message::{FieldId, Fields, Version};

use super::field_line::Seen;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunks, the last one empty.
    Chunked,
    /// Everything until the connection closes. Only responses have this.
    UntilClose,
}

/// Whether the connection can carry another message after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// It can.
    Reuse,
    /// It ends with this message.
    Close,
}

/// Why the framing fields were refused. Each of these lets two readers see two different messages, so none is
/// repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingFault {
    /// Content-Length is not one plain decimal number below 2^63.
    LengthInvalid,
    /// Content-Length stands there more than once, even if with the same number.
    LengthRepeated,
    /// Content-Length and Transfer-Encoding together.
    LengthAndCoding,
    /// Transfer-Encoding in HTTP/1.0.
    CodingInHttp10,
    /// Transfer-Encoding does not end in `chunked`, or names it twice.
    CodingInvalid,
    /// A transfer coding before `chunked`, of which we know none.
    CodingUnknown,
}

impl fmt::Display for FramingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FramingFault::LengthInvalid => "content-length is not a number",
            FramingFault::LengthRepeated => "content-length is repeated",
            FramingFault::LengthAndCoding => "content-length beside transfer-encoding",
            FramingFault::CodingInHttp10 => "transfer-encoding in HTTP/1.0",
            FramingFault::CodingInvalid => "transfer-encoding is not chunked once and last",
            FramingFault::CodingUnknown => "unknown transfer coding",
        })
    }
}

/// What Content-Length and Transfer-Encoding say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

/// Reads Content-Length and Transfer-Encoding.
pub(crate) fn declared(
    fields: &Fields,
    seen: Seen,
    version: Version,
) -> Result<Declared, FramingFault> {
    if seen.has(Seen::CODING) {
        return read_coding(fields, seen, version);
    }
    if !seen.has(Seen::LENGTH) {
        return Ok(Declared::Nothing);
    }
    if seen.repeated(Seen::LENGTH) {
        return Err(FramingFault::LengthRepeated);
    }
    let value = fields.first(FieldId::ContentLength).unwrap_or_default();
    parse_length(value)
        .map(Declared::Length)
        .ok_or(FramingFault::LengthInvalid)
}

fn read_coding(fields: &Fields, seen: Seen, version: Version) -> Result<Declared, FramingFault> {
    // RFC 9112, section 6.1: a message with both is an attempt to smuggle, and HTTP/1.0 knows no codings.
    if seen.has(Seen::LENGTH) {
        return Err(FramingFault::LengthAndCoding);
    }
    if version == Version::Http10 {
        return Err(FramingFault::CodingInHttp10);
    }
    let (mut codings, mut chunked, mut chunked_is_last) = (0, 0, false);
    for value in fields.all(FieldId::TransferEncoding) {
        for coding in items(value) {
            if coding.is_empty() {
                // RFC 9110, section 5.6.1 lets lists hold empty items; here they only serve to hide a coding.
                return Err(FramingFault::CodingInvalid);
            }
            chunked_is_last = coding.eq_ignore_ascii_case(b"chunked");
            codings += 1;
            chunked += u32::from(chunked_is_last);
        }
    }
    match (chunked_is_last, chunked, codings) {
        (true, 1, 1) => Ok(Declared::Chunked),
        (true, 1, _) => Err(FramingFault::CodingUnknown),
        _ => Err(FramingFault::CodingInvalid),
    }
}

/// Digits only (RFC 9110, section 8.6): no sign, no space, no list. Numbers from 2^63 are refused, so that sums
/// cannot overflow.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    let mut length: u64 = 0;
    for byte in value {
        if !byte.is_ascii_digit() {
            return None;
        }
        length = length * 10 + u64::from(byte - b'0');
    }
    (length <= i64::MAX as u64).then_some(length)
}

/// What the Connection fields ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    close: bool,
    keep_alive: bool,
    /// Whether `upgrade` is among the options.
    pub upgrade: bool,
}

impl Options {
    /// Reads all Connection fields.
    pub fn read(fields: &Fields, seen: Seen) -> Options {
        let mut options = Options::default();
        if seen.has(Seen::CONNECTION) {
            for value in fields.all(FieldId::Connection) {
                options.add(value);
            }
        }
        options
    }

    fn add(&mut self, value: &[u8]) {
        for item in items(value) {
            match item.len() {
                5 => self.close |= item.eq_ignore_ascii_case(b"close"),
                7 => self.upgrade |= item.eq_ignore_ascii_case(b"upgrade"),
                10 => self.keep_alive |= item.eq_ignore_ascii_case(b"keep-alive"),
                _ => {}
            }
        }
    }

    /// RFC 9112, section 9.3.
    pub fn keep_alive(self, version: Version) -> KeepAlive {
        let reuse = !self.close && (version != Version::Http10 || self.keep_alive);
        if reuse {
            KeepAlive::Reuse
        } else {
            KeepAlive::Close
        }
    }
}

/// The items of a comma-separated list, without the white space around them; empty ones are given as such.
pub(crate) fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
