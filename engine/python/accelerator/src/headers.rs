//! Header blocks of responses, for headers without peculiarities. All others are examined by the worker, which words
//! the errors.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::limits::{TEXT_BYTES_MAX, TEXTS};

/// A header block, and the Content-Length in it.
pub struct Block {
    pub bytes: Vec<u8>,
    pub length: Option<usize>,
}

/// The block of headers that are pairs of `str` (WSGI); `None` if one of them is not plain.
pub fn text_block(headers: &Bound<'_, PyList>, texts: &mut Texts) -> Option<Block> {
    let mut block = Block::new(headers.len());
    for header in headers {
        let pair = header
            .cast_exact::<PyTuple>()
            .ok()
            .filter(|pair| pair.len() == 2)?;
        let meaning = block.name(texts.bytes(&pair.get_item(0).ok()?)?)?;
        block.value(meaning, texts.bytes(&pair.get_item(1).ok()?)?)?;
    }
    Some(block)
}

/// The block of headers that are pairs of `bytes` (ASGI); `None` if one of them is not plain.
pub fn bytes_block(headers: &Bound<'_, PyList>) -> Option<Block> {
    let mut block = Block::new(headers.len());
    for header in headers {
        let (name, value) = if let Ok(pair) = header.cast_exact::<PyTuple>() {
            (pair.get_item(0).ok()?, pair.get_item(1).ok()?)
        } else {
            let pair = header.cast_exact::<PyList>().ok()?;
            (pair.get_item(0).ok()?, pair.get_item(1).ok()?)
        };
        if header.len().ok()? != 2 {
            return None;
        }
        let meaning = block.name(name.cast_exact::<PyBytes>().ok()?.as_bytes())?;
        block.value(meaning, value.cast_exact::<PyBytes>().ok()?.as_bytes())?;
    }
    Some(block)
}

#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Plain,
    ContentLength,
}

impl Block {
    fn new(count: usize) -> Block {
        Block {
            bytes: Vec::with_capacity(count.min(64) * 48),
            length: None,
        }
    }

    fn name(&mut self, name: &[u8]) -> Option<Meaning> {
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let meaning = if name.eq_ignore_ascii_case(b"content-length") {
            Meaning::ContentLength
        } else if is_hop_by_hop(name) {
            return None;
        } else {
            Meaning::Plain
        };
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        Some(meaning)
    }

    fn value(&mut self, meaning: Meaning, value: &[u8]) -> Option<()> {
        if meaning == Meaning::ContentLength {
            if self.length.is_some() || value.is_empty() || value.len() > 15 {
                return None;
            }
            let mut length = 0;
            for byte in value {
                let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
                length = length * 10 + usize::from(digit);
            }
            self.length = Some(length);
        }
        if !value.iter().all(|&byte| is_text(byte)) {
            return None;
        }
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        Some(())
    }

    /// Adds a Content-Length.
    pub fn declare(&mut self, length: usize) {
        self.bytes
            .extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        self.length = Some(length);
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Anything but control characters; a tab may be in a value.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= 0x20 && byte != 0x7f
}

fn is_hop_by_hop(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 10] = [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The code of a status line such as `200 OK`; `None` if it is not plain.
pub fn status_code(line: &[u8]) -> Option<u16> {
    let (code, reason) = line.split_at_checked(3)?;
    let reason = reason.strip_prefix(b" ")?;
    let mut number = 0;
    for byte in code {
        number = number * 10 + u16::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    (number >= 200 && reason.iter().all(|&byte| is_text(byte))).then_some(number)
}

/// The bytes of ASCII texts, which are remembered by the address of the text: applications use the same objects again,
/// and the stable ABI of Python 3.9 has no way to look into a `str` without a copy.
pub struct Texts {
    slots: Vec<Option<(Py<PyAny>, Vec<u8>)>>,
    /// One that is not remembered.
    other: Vec<u8>,
}

impl Texts {
    pub fn new() -> Texts {
        Texts {
            slots: std::iter::repeat_with(|| None).take(TEXTS).collect(),
            other: Vec::new(),
        }
    }

    /// The bytes of a text; `None` if it is not a `str`, or not ASCII.
    pub fn bytes(&mut self, text: &Bound<'_, PyAny>) -> Option<&[u8]> {
        let index = (text.as_ptr() as usize >> 4) % self.slots.len();
        // The slot owns the object, so that no other can have its address.
        let known = self.slots[index]
            .as_ref()
            .is_some_and(|(known, _)| known.is(text));
        if !known {
            let string = text.cast_exact::<PyString>().ok()?;
            let bytes = string.to_cow().ok().filter(|text| text.is_ascii())?;
            if bytes.len() > TEXT_BYTES_MAX {
                self.other.clear();
                self.other.extend_from_slice(bytes.as_bytes());
                return Some(&self.other);
            }
            self.slots[index] = Some((text.clone().unbind(), bytes.as_bytes().to_vec()));
        }
        self.slots[index].as_ref().map(|(_, bytes)| &bytes[..])
    }
}
