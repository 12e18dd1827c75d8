//! Encodes fields as field sections (RFC 9204, section 4.5) with the static table alone. The caller chooses the fields.

use alloc::vec::Vec;

use sluice_message::{FieldId, Status};

use super::fixed::{FIXED, FIXED_NAMES, NO_NAME};
use crate::h2::hpack::{Keep, integer, text};
use crate::h3::limits::LINE_VALUE_BYTES_MAX;

/// The encoding end of a connection. What it writes does not depend on what it has written, so connections may share one.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    lower: Vec<u8>,
    /// The line that was written last for each name of the fixed table: servers give most fields one value again and again,
    /// and finding and compressing it costs more than comparing it.
    lines: Vec<Line>,
}

/// A field line.
#[derive(Clone, Debug, Default)]
struct Line {
    value: Vec<u8>,
    /// Empty until there is one.
    encoded: Vec<u8>,
}

/// A field line that is an entry of the fixed table.
const INDEXED: u8 = 0xc0;
/// A field line whose name is that of an entry of the fixed table.
const NAME_INDEXED: u8 = 0x50;
/// Beside [`NAME_INDEXED`]: no hop may put it into a table.
const NAME_INDEXED_NEVER: u8 = 0x20;
/// A field line with a name of its own.
const LITERAL: u8 = 0x20;
/// Beside [`LITERAL`]: no hop may put it into a table.
const LITERAL_NEVER: u8 = 0x10;

impl Encoder {
    /// Appends the prefix of a section: it refers to no entry of the dynamic table (RFC 9204, section 4.5.1).
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0]);
    }

    /// Appends `:status`.
    pub fn status(&mut self, status: Status, out: &mut Vec<u8>) {
        let index = match status.code() {
            103 => 24,
            200 => 25,
            304 => 26,
            404 => 27,
            503 => 28,
            100 => 63,
            204 => 64,
            206 => 65,
            302 => 66,
            400 => 67,
            403 => 68,
            421 => 69,
            425 => 70,
            500 => 71,
            code => {
                let digit = |value: u16| b'0' + (value % 10) as u8;
                let text = [digit(code / 100), digit(code / 10), digit(code)];
                return named(24, &text, Keep::Allowed, out);
            }
        };
        integer::encode(index, 6, INDEXED, out);
    }

    /// Appends `:method`.
    pub fn method(&mut self, method: &str, out: &mut Vec<u8>) {
        let methods = 15..22;
        let found = methods.into_iter().find(|at| FIXED[*at].2 == method);
        match found {
            Some(index) => integer::encode(index, 6, INDEXED, out),
            None => named(15, method.as_bytes(), Keep::Allowed, out),
        }
    }

    /// Appends `:scheme`.
    pub fn scheme(&mut self, https: bool, out: &mut Vec<u8>) {
        integer::encode(if https { 23 } else { 22 }, 6, INDEXED, out);
    }

    /// Appends `:path`.
    pub fn path(&mut self, path: &[u8], out: &mut Vec<u8>) {
        match path {
            b"/" => integer::encode(1, 6, INDEXED, out),
            _ => named(1, path, Keep::Allowed, out),
        }
    }

    /// Appends `:authority`.
    pub fn authority(&mut self, authority: &[u8], out: &mut Vec<u8>) {
        named(0, authority, Keep::Allowed, out);
    }

    /// Appends `:protocol`, which the fixed table does not have.
    pub fn protocol(&mut self, protocol: &[u8], out: &mut Vec<u8>) {
        text::encode(b":protocol", 3, LITERAL, out);
        text::encode(protocol, 7, 0, out);
    }

    /// Appends a field with a checked name, whose letters become small, and a checked value.
    pub fn field(&mut self, id: FieldId, name: &[u8], value: &[u8], keep: Keep, out: &mut Vec<u8>) {
        let first = FIXED_NAMES[id as usize];
        if first != NO_NAME {
            let index = usize::from(first);
            return match keep {
                Keep::Allowed if value.len() <= LINE_VALUE_BYTES_MAX => {
                    self.line(id, index, value, out);
                }
                Keep::Allowed => public(index, value, out),
                Keep::Never => named(index, value, keep, out),
            };
        }
        self.lower.clear();
        self.lower.extend_from_slice(name);
        self.lower.make_ascii_lowercase();
        let never = match keep {
            Keep::Allowed => 0,
            Keep::Never => LITERAL_NEVER,
        };
        text::encode(&self.lower, 3, LITERAL | never, out);
        text::encode(value, 7, 0, out);
    }

    /// Appends a field whose name is that of entry `index`, as it was written before if it has the same value.
    fn line(&mut self, id: FieldId, index: usize, value: &[u8], out: &mut Vec<u8>) {
        let at = id as usize;
        if self.lines.len() <= at {
            self.lines.resize_with(at + 1, Line::default);
        }
        let line = &mut self.lines[at];
        if line.encoded.is_empty() || line.value != value {
            line.value.clear();
            line.value.extend_from_slice(value);
            line.encoded.clear();
            public(index, value, &mut line.encoded);
        }
        out.extend_from_slice(&line.encoded);
    }
}

/// Appends a field that may be in tables, and whose name is that of entry `index`.
fn public(index: usize, value: &[u8], out: &mut Vec<u8>) {
    match find(index, value) {
        Some(index) => integer::encode(index, 6, INDEXED, out),
        None => named(index, value, Keep::Allowed, out),
    }
}

/// The entry with this value among those with the name of entry `first`, which mostly stand together.
fn find(first: usize, value: &[u8]) -> Option<usize> {
    let (_, name, _) = FIXED[first];
    let same_name = FIXED[first..]
        .iter()
        .take_while(|(_, other, _)| *other == name);
    let at = same_name
        .into_iter()
        .position(|(_, _, known)| known.as_bytes() == value)?;
    Some(first + at)
}

fn named(index: usize, value: &[u8], keep: Keep, out: &mut Vec<u8>) {
    let never = match keep {
        Keep::Allowed => 0,
        Keep::Never => NAME_INDEXED_NEVER,
    };
    integer::encode(index, 4, NAME_INDEXED | never, out);
    text::encode(value, 7, 0, out);
}
