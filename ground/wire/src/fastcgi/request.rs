//! Encodes a request as records: its begin record, its parameters, and the headers of records with content. The caller
//! writes the content itself next to those headers, without copying.

use alloc::vec::Vec;
use core::fmt;

use super::record::{CONTENT_BYTES_MAX, HEAD_BYTES, Kind, head};
use crate::cgi::{VariableName, has_zero};
use crate::scgi::ZeroByte;

/// The content that one record of a request's body can have.
pub const STDIN_BYTES_MAX: usize = CONTENT_BYTES_MAX;

/// The end of a request's body; also that of an empty one.
pub const STDIN_END: [u8; HEAD_BYTES] = head(Kind::Stdin, 0);

/// What the application does with the connection after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDone {
    /// It waits for the next request.
    Keep,
    /// It closes it.
    Close,
}

/// Begins a request in the role of a responder (FastCGI specification, section 5.1).
pub fn encode_begin(when_done: WhenDone, out: &mut Vec<u8>) {
    let keep = u8::from(when_done == WhenDone::Keep);
    out.extend_from_slice(&head(Kind::Begin, 8));
    out.extend_from_slice(&[0, 1, keep, 0, 0, 0, 0, 0]);
}

/// Writes the line before `length` bytes of the request's body.
pub fn encode_stdin_head(length: usize, out: &mut Vec<u8>) {
    let length = u16::try_from(length).expect("a record has at most 65,535 bytes of content");
    assert!(length > 0, "an empty record ends the body");
    out.extend_from_slice(&head(Kind::Stdin, length));
}

/// Writes the variables of a request (FastCGI specification, sections 3.4 and 5.2), after [`encode_begin`].
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    /// Where the first of their records begins.
    start: usize,
    fit: Result<(), ParamsRefused>,
}

/// Why variables cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamsRefused {
    /// One has a zero byte.
    ZeroByte(ZeroByte),
    /// A name or a value has 2 GiB or more, which its length cannot say.
    TooLong,
}

impl fmt::Display for ParamsRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamsRefused::ZeroByte(zero) => zero.fmt(f),
            ParamsRefused::TooLong => f.write_str("a variable of the request is too long"),
        }
    }
}

impl core::error::Error for ParamsRefused {}

impl<'a> Params<'a> {
    /// Begins the variables at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Params<'a> {
        let start = out.len();
        out.extend_from_slice(&head(Kind::Params, 0));
        Params {
            out,
            start,
            fit: Ok(()),
        }
    }

    /// Adds a variable.
    pub fn push<'n>(&mut self, name: impl Into<VariableName<'n>>, value: &[u8]) {
        let encoded = encode_param(name.into(), value, self.out);
        self.note(encoded);
    }

    /// Adds a variable with the value that `write` appends. It must not change what is there already.
    pub fn push_with<'n>(
        &mut self,
        name: impl Into<VariableName<'n>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let encoded = encode_param_with(name.into(), write, self.out);
        self.note(encoded);
    }

    /// Adds a variable whose name [`encode_name`] has encoded before.
    pub fn push_named(&mut self, name: &[u8], value: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(value);
        match u8::try_from(value.len()) {
            Ok(short @ 0..0x80) if !has_zero(value) => {
                self.out[start + length_bytes(name)] = short;
            }
            Ok(_) | Err(_) => self.end_unusual(name, value.len()),
        }
    }

    /// As [`Params::push_named`] with the value that `write` appends. It must not change what is there already.
    pub fn push_named_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(name);
        let value_at = self.out.len();
        write(self.out);
        let value = &self.out[value_at..];
        match u8::try_from(value.len()) {
            Ok(short @ 0..0x80) if !has_zero(value) => {
                self.out[start + length_bytes(name)] = short;
            }
            Ok(_) | Err(_) => self.end_unusual(name, self.out.len() - value_at),
        }
    }

    /// Ends a variable, the last `value_length` bytes of which are its value, that has a zero byte or whose length takes
    /// four bytes.
    #[cold]
    fn end_unusual(&mut self, name: &[u8], value_length: usize) {
        let value_at = self.out.len() - value_length;
        let length_at = value_at - name.len() + length_bytes(name);
        let encoded = match (without_zero(&self.out[value_at..]), length_of(value_length)) {
            (Ok(()), Ok(Length::Short(short))) => {
                self.out[length_at] = short;
                Ok(())
            }
            (Ok(()), Ok(Length::Long(long))) => {
                self.out.splice(length_at..length_at + 1, long);
                Ok(())
            }
            (Err(refused), _) | (Ok(()), Err(refused)) => Err(refused),
        };
        self.note(encoded);
    }

    /// Adds variables that [`encode_param`] has encoded before.
    pub fn push_encoded(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }

    fn note(&mut self, encoded: Result<(), ParamsRefused>) {
        if encoded.is_err() {
            self.fit = encoded;
        }
    }

    /// Ends the variables; where they cannot be sent `out` is as it was before.
    pub fn end(self) -> Result<(), ParamsRefused> {
        let Params { out, start, fit } = self;
        if fit.is_err() {
            out.truncate(start);
            return fit;
        }
        let content_at = start + HEAD_BYTES;
        let length = out.len() - content_at;
        match u16::try_from(length) {
            // An empty record ends the variables already.
            Ok(0) => return Ok(()),
            Ok(length) => out[start..content_at].copy_from_slice(&head(Kind::Params, length)),
            Err(_) => {
                // More than one record holds, as of a request with several long cookies.
                let content = out.split_off(content_at);
                out.truncate(start);
                for part in content.chunks(CONTENT_BYTES_MAX) {
                    out.extend_from_slice(&head(Kind::Params, part.len() as u16));
                    out.extend_from_slice(part);
                }
            }
        }
        out.extend_from_slice(&head(Kind::Params, 0));
        Ok(())
    }
}

/// Appends a variable in the form that it has among others (FastCGI specification, section 3.4); nothing if it cannot be
/// sent.
pub fn encode_param(
    name: VariableName<'_>,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ParamsRefused> {
    let start = out.len();
    let lengths = encode_length(name.length(), out).and_then(|()| encode_length(value.len(), out));
    let name_at = out.len();
    name.write(out);
    out.extend_from_slice(value);
    finish_param(
        start,
        lengths.and_then(|()| without_zero(&out[name_at..])),
        out,
    )
}

/// As [`encode_param`] with the value that `write` appends.
fn encode_param_with(
    name: VariableName<'_>,
    write: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), ParamsRefused> {
    let start = out.len();
    let mut lengths = encode_length(name.length(), out);
    // The lengths of nearly all values have one byte. Behind a longer length, name and value are moved.
    let length_at = out.len();
    out.push(0);
    let name_at = out.len();
    name.write(out);
    let value_at = out.len();
    write(out);
    let content = without_zero(&out[name_at..]);
    match length_of(out.len() - value_at) {
        Ok(Length::Short(short)) => out[length_at] = short,
        Ok(Length::Long(long)) => drop(out.splice(length_at..name_at, long)),
        Err(refused) => lengths = Err(refused),
    }
    finish_param(start, lengths.and(content), out)
}

/// Removes what was appended from `start` on if it cannot be sent.
fn finish_param(
    start: usize,
    fit: Result<(), ParamsRefused>,
    out: &mut Vec<u8>,
) -> Result<(), ParamsRefused> {
    if fit.is_err() {
        out.truncate(start);
    }
    fit
}

/// Appends the name of a variable in the form that it has before a value, for [`Params::push_named`]; nothing if it cannot
/// be sent.
pub fn encode_name(name: VariableName<'_>, out: &mut Vec<u8>) -> Result<(), ParamsRefused> {
    let start = out.len();
    let length = encode_length(name.length(), out);
    // Room for the length of the value.
    out.push(0);
    let name_at = out.len();
    name.write(out);
    finish_param(start, length.and(without_zero(&out[name_at..])), out)
}

/// The number of bytes that the length at the start of `encoded` has (FastCGI specification, section 3.4).
fn length_bytes(encoded: &[u8]) -> usize {
    match encoded.first() {
        Some(0x80..) => 4,
        Some(_) | None => 1,
    }
}

fn without_zero(content: &[u8]) -> Result<(), ParamsRefused> {
    match has_zero(content) {
        false => Ok(()),
        true => Err(ParamsRefused::ZeroByte(ZeroByte)),
    }
}

/// The length of a name or value, in one byte or in four.
enum Length {
    Short(u8),
    Long([u8; 4]),
}

fn length_of(length: usize) -> Result<Length, ParamsRefused> {
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => Ok(Length::Short(short)),
        Ok(_) | Err(_) => match u32::try_from(length) {
            Ok(long @ 0..0x8000_0000) => Ok(Length::Long((long | 1 << 31).to_be_bytes())),
            Ok(_) | Err(_) => Err(ParamsRefused::TooLong),
        },
    }
}

fn encode_length(length: usize, out: &mut Vec<u8>) -> Result<(), ParamsRefused> {
    match length_of(length)? {
        Length::Short(short) => out.push(short),
        Length::Long(long) => out.extend_from_slice(&long),
    }
    Ok(())
}
