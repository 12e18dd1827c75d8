//! JSON, for workers whose Python does not read our marshal. Byte strings are latin-1 text, tuples are lists.

use alloc::vec::Vec;

use sluice_message::FieldId;
use sluice_message::decimal::push_integer;

use super::names::{PREFIX, key_byte};
use super::value::{Values, one};

/// Writes values in JSON.
#[derive(Debug)]
pub struct Json<'a> {
    out: &'a mut Vec<u8>,
    /// Where the text begins.
    start: usize,
}

impl<'a> Json<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Json<'a> {
        Json {
            start: out.len(),
            out,
        }
    }

    /// Separates a value or key from what stands before it.
    fn separate(&mut self) {
        if !matches!(
            self.out[self.start..].last(),
            None | Some(b'{' | b'[' | b':')
        ) {
            self.out.push(b',');
        }
    }

    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
    }

    fn string(&mut self, bytes: impl Iterator<Item = u8>) {
        self.separate();
        self.out.push(b'"');
        bytes.for_each(|byte| self.character(char::from(byte)));
        self.out.push(b'"');
    }

    fn character(&mut self, character: char) {
        match character {
            '"' | '\\' => self.out.extend_from_slice(&[b'\\', character as u8]),
            '\0'..='\x1f' => {
                let digits = b"0123456789abcdef";
                let byte = character as usize;
                self.out.extend_from_slice(b"\\u00");
                self.out
                    .extend_from_slice(&[digits[byte >> 4], digits[byte & 15]]);
            }
            character => {
                let mut utf8 = [0; 4];
                let encoded = character.encode_utf8(&mut utf8);
                self.out.extend_from_slice(encoded.as_bytes());
            }
        }
    }
}

impl Values for Json<'_> {
    fn open_dict(&mut self) {
        self.separate();
        self.out.push(b'{');
    }

    fn close_dict(&mut self) {
        self.close(b'}');
    }

    fn open_tuple(&mut self, _count: u8) {
        self.separate();
        self.out.push(b'[');
    }

    fn close_tuple(&mut self) {
        self.close(b']');
    }

    fn open_list(&mut self, _count: u32) {
        self.separate();
        self.out.push(b'[');
    }

    fn close_list(&mut self) {
        self.close(b']');
    }

    fn key(&mut self, key: &str) {
        self.text(key);
        self.out.push(b':');
    }

    fn header_key(&mut self, _id: FieldId, name: &[u8]) {
        let name = name.iter().map(|byte| key_byte(*byte));
        self.string(PREFIX.iter().copied().chain(name));
        self.out.push(b':');
    }

    fn latin1<'p>(&mut self, parts: impl Iterator<Item = &'p [u8]> + Clone) {
        self.string(parts.flatten().copied());
    }

    fn text(&mut self, text: &str) {
        self.separate();
        self.out.push(b'"');
        text.chars().for_each(|character| self.character(character));
        self.out.push(b'"');
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.latin1(one(bytes));
    }

    fn header_name(&mut self, _id: FieldId, name: &[u8]) {
        self.string(name.iter().map(u8::to_ascii_lowercase));
    }

    fn integer(&mut self, value: i32) {
        self.separate();
        if value < 0 {
            self.out.push(b'-');
        }
        push_integer(self.out, u64::from(value.unsigned_abs()));
    }

    fn none(&mut self) {
        self.separate();
        self.out.extend_from_slice(b"null");
    }

    fn boolean(&mut self, value: bool) {
        self.separate();
        self.out.extend_from_slice(match value {
            true => b"true",
            false => b"false",
        });
    }
}
