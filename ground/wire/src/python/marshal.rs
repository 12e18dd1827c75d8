//! Python's marshal format, version 4, of which only the codes `{ 0 z a u s i ) [ N T F` are written: Python 3.4 to 3.14
//! and PyPy read them. The format is not promised to stay the same, so each worker compares a sample first.

use alloc::vec::Vec;

use sluice_message::FieldId;

use super::names::{PREFIX, key_byte, key_of, lower_of};
use super::value::{Values, one};

/// Writes values in marshal.
#[derive(Debug)]
pub struct Marshal<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Marshal<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Marshal<'a> {
        Marshal { out }
    }

    /// An ASCII text of at most 255 bytes: `z`.
    fn short(&mut self, text: &[u8]) {
        debug_assert!(text.is_ascii() && text.len() < 256);
        self.out.extend_from_slice(&[b'z', text.len() as u8]);
        self.out.extend_from_slice(text);
    }

    /// A code with a length of 32 bits. Lengths are bounded by those of heads.
    fn long(&mut self, code: u8, length: usize) {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.out.push(code);
        self.out.extend_from_slice(&length.to_le_bytes());
    }
}

impl Values for Marshal<'_> {
    fn open_dict(&mut self) {
        self.out.push(b'{');
    }

    fn close_dict(&mut self) {
        self.out.push(b'0');
    }

    fn open_tuple(&mut self, count: u8) {
        self.out.extend_from_slice(&[b')', count]);
    }

    fn close_tuple(&mut self) {}

    fn open_list(&mut self, count: u32) {
        self.out.push(b'[');
        self.out.extend_from_slice(&count.to_le_bytes());
    }

    fn close_list(&mut self) {}

    fn key(&mut self, key: &str) {
        self.short(key.as_bytes());
    }

    fn header_key(&mut self, id: FieldId, name: &[u8]) {
        match key_of(id) {
            [] if name.len() + PREFIX.len() < 256 => {
                let length = (name.len() + PREFIX.len()) as u8;
                self.out.extend_from_slice(&[b'z', length]);
                self.out.extend_from_slice(PREFIX);
                self.out.extend(name.iter().map(|byte| key_byte(*byte)));
            }
            [] => {
                self.long(b'a', name.len() + PREFIX.len());
                self.out.extend_from_slice(PREFIX);
                self.out.extend(name.iter().map(|byte| key_byte(*byte)));
            }
            key => self.short(key),
        }
    }

    fn latin1<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]> + Clone) {
        let mut length = 0;
        let mut is_ascii = true;
        for part in parts.clone() {
            length += part.len();
            is_ascii &= part.is_ascii();
        }
        match (is_ascii, length) {
            (true, ..256) => self.out.extend_from_slice(&[b'z', length as u8]),
            (true, _) => self.long(b'a', length),
            (false, _) => {
                let high = parts.clone().flatten().filter(|byte| !byte.is_ascii());
                self.long(b'u', length + high.count());
                for byte in parts.flatten() {
                    let mut utf8 = [0; 2];
                    let encoded = char::from(*byte).encode_utf8(&mut utf8);
                    self.out.extend_from_slice(encoded.as_bytes());
                }
                return;
            }
        }
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }

    fn text(&mut self, text: &str) {
        if text.is_ascii() {
            return self.latin1(one(text.as_bytes()));
        }
        self.long(b'u', text.len());
        self.out.extend_from_slice(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.long(b's', bytes.len());
        self.out.extend_from_slice(bytes);
    }

    fn header_name(&mut self, id: FieldId, name: &[u8]) {
        self.long(b's', name.len());
        match lower_of(id) {
            [] => self.out.extend(name.iter().map(u8::to_ascii_lowercase)),
            lower => self.out.extend_from_slice(lower),
        }
    }

    fn integer(&mut self, value: i32) {
        self.out.push(b'i');
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn none(&mut self) {
        self.out.push(b'N');
    }

    fn boolean(&mut self, value: bool) {
        self.out.push(match value {
            true => b'T',
            false => b'F',
        });
    }
}
