//! Requests' dictionaries from marshal, as sluice writes it (`ground/wire/src/python`).
//!
//! Most values of a request are those of the request before: strings are remembered by their encoded bytes, and a
//! dictionary with the keys of the one before begins as its copy. What this module does not read is read by Python.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::limits::{DEPTH_MAX, EXAMPLE_BYTES_MAX, REMEMBERED, REMEMBERED_BYTES_MAX};

/// The bytes are not what sluice writes; Python says what is wrong with them.
pub struct Unreadable;

impl From<PyErr> for Unreadable {
    fn from(_: PyErr) -> Unreadable {
        Unreadable
    }
}

/// Reads dictionaries of requests, each beside the one before.
pub struct Decoder {
    memory: Memory,
    example: Option<Example>,
}

/// The request before.
struct Example {
    payload: Vec<u8>,
    /// What it said. Nobody else has this dictionary, nor its lists.
    dict: Py<PyDict>,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            memory: Memory::new(),
            example: None,
        }
    }

    /// The dictionary of a request, with the members of `more`.
    pub fn decode<'py>(
        &mut self,
        py: Python<'py>,
        payload: &[u8],
        more: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyDict>, Unreadable> {
        if let Some(example) = self.example.take_if(|_| payload.len() <= EXAMPLE_BYTES_MAX) {
            let dict = example.dict.bind(py);
            if let Some(copy) = self.vary(dict, &example.payload, payload)? {
                let mut bytes = example.payload;
                bytes.clear();
                bytes.extend_from_slice(payload);
                self.example = Some(Example {
                    payload: bytes,
                    dict: example.dict,
                });
                return Ok(copy);
            }
        }
        let mut cursor = Cursor {
            bytes: payload,
            at: 0,
        };
        let value = self.value(py, &mut cursor, DEPTH_MAX)?;
        let dict = value.cast_into::<PyDict>().map_err(|_| Unreadable)?;
        if let Some(more) = more {
            dict.update(more.as_mapping())?;
        }
        if payload.len() > EXAMPLE_BYTES_MAX {
            return Ok(dict);
        }
        let copy = dict.copy()?;
        for (key, value) in &dict {
            if let Ok(list) = value.cast_exact::<PyList>() {
                copy.set_item(key, list.get_slice(0, list.len()))?;
            }
        }
        self.example = Some(Example {
            payload: payload.to_vec(),
            dict: dict.unbind(),
        });
        Ok(copy)
    }

    /// Makes the example `dict` that of `payload` and returns its copy; `None` if the keys are others.
    fn vary<'py>(
        &mut self,
        dict: &Bound<'py, PyDict>,
        before: &[u8],
        payload: &[u8],
    ) -> Result<Option<Bound<'py, PyDict>>, Unreadable> {
        let py = dict.py();
        let mut old = Cursor {
            bytes: before,
            at: 0,
        };
        let mut new = Cursor {
            bytes: payload,
            at: 0,
        };
        if old.code()? != b'{' || new.code()? != b'{' {
            return Err(Unreadable);
        }
        // Values that an application may change: each request has its own.
        let mut own = Vec::new();
        loop {
            if new.peek() == Some(b'0') && old.peek() == Some(b'0') {
                break;
            }
            let key = new.skip(DEPTH_MAX)?;
            if old.skip(DEPTH_MAX)? != key {
                return Ok(None);
            }
            let kind = new.peek();
            let value = new.skip(DEPTH_MAX)?;
            let same = old.skip(DEPTH_MAX)? == value;
            match kind {
                Some(b'[') if is_flat(value) => {
                    let key = self.whole(py, key)?;
                    if !same {
                        dict.set_item(&key, self.whole(py, value)?)?;
                    }
                    let list = dict.get_item(&key)?.ok_or(Unreadable)?;
                    let list = list.cast_exact::<PyList>().map_err(|_| Unreadable)?;
                    own.push((key, list.get_slice(0, list.len()).into_any()));
                }
                Some(b'{' | b'[') => {
                    let key = self.whole(py, key)?;
                    own.push((key, self.whole(py, value)?));
                }
                _ if same => {}
                _ => dict.set_item(self.whole(py, key)?, self.whole(py, value)?)?,
            }
        }
        let copy = dict.copy()?;
        for (key, value) in own {
            copy.set_item(key, value)?;
        }
        Ok(Some(copy))
    }

    fn whole<'py>(
        &mut self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> Result<Bound<'py, PyAny>, Unreadable> {
        self.value(py, &mut Cursor { bytes, at: 0 }, DEPTH_MAX)
    }

    fn value<'py>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Unreadable> {
        let depth = depth.checked_sub(1).ok_or(Unreadable)?;
        match cursor.peek() {
            Some(b'{') => {
                cursor.code()?;
                let dict = PyDict::new(py);
                while cursor.peek() != Some(b'0') {
                    let key = self.value(py, cursor, depth)?;
                    dict.set_item(key, self.value(py, cursor, depth)?)?;
                }
                cursor.code()?;
                Ok(dict.into_any())
            }
            Some(b'[') => {
                cursor.code()?;
                let count = cursor.length()?;
                let list = PyList::empty(py);
                for _ in 0..count {
                    list.append(self.value(py, cursor, depth)?)?;
                }
                Ok(list.into_any())
            }
            _ => self.constant(py, cursor, depth),
        }
    }

    /// A value that cannot change.
    fn constant<'py>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Unreadable> {
        let bytes = cursor.skip(depth + 1)?;
        let slot = self.memory.slot(bytes);
        if let Some(value) = slot.and_then(|slot| self.memory.recall(slot, bytes)) {
            return Ok(value.clone_ref(py).into_bound(py));
        }
        let mut inner = Cursor { bytes, at: 0 };
        let value = match inner.code()? {
            b'N' => py.None().into_bound(py),
            b'T' => true
                .into_pyobject(py)
                .map_err(|_| Unreadable)?
                .to_owned()
                .into_any(),
            b'F' => false
                .into_pyobject(py)
                .map_err(|_| Unreadable)?
                .to_owned()
                .into_any(),
            b'i' => (inner.length()? as u32 as i32)
                .into_pyobject(py)
                .map_err(|_| Unreadable)?
                .into_any(),
            b's' => {
                inner.length()?;
                PyBytes::new(py, inner.rest()).into_any()
            }
            b')' => {
                let count = inner.code()?;
                let mut items = Vec::with_capacity(count.into());
                for _ in 0..count {
                    let mutable = matches!(inner.peek(), Some(b'[' | b'{'));
                    if mutable {
                        return Err(Unreadable);
                    }
                    items.push(self.constant(py, &mut inner, depth)?);
                }
                PyTuple::new(py, items)?.into_any()
            }
            code @ (b'z' | b'a' | b'u') => {
                match code {
                    b'z' => _ = inner.code()?,
                    _ => _ = inner.length()?,
                }
                let text = std::str::from_utf8(inner.rest()).map_err(|_| Unreadable)?;
                if code != b'u' && !text.is_ascii() {
                    return Err(Unreadable);
                }
                if INTERNED.contains(&text) {
                    PyString::intern(py, text).into_any()
                } else {
                    PyString::new(py, text).into_any()
                }
            }
            _ => return Err(Unreadable),
        };
        if let Some(slot) = slot {
            self.memory.remember(slot, bytes, &value);
        }
        Ok(value)
    }
}

/// Whether the items of a list cannot change, so that a copy of the list shares them.
fn is_flat(list: &[u8]) -> bool {
    let mut items = Cursor { bytes: list, at: 5 };
    while let Some(code) = items.peek() {
        if matches!(code, b'[' | b'{') || items.skip(DEPTH_MAX).is_err() {
            return false;
        }
    }
    true
}

/// Keys that programs name: interned, they are found in a dictionary by their address. Names that clients make up are
/// not interned, since Python 3.12 never frees an interned string.
const INTERNED: [&str; 36] = [
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_URI",
    "HTTPS",
    "HTTP_HOST",
    "HTTP_ACCEPT",
    "HTTP_ACCEPT_ENCODING",
    "HTTP_ACCEPT_LANGUAGE",
    "HTTP_AUTHORIZATION",
    "HTTP_COOKIE",
    "HTTP_USER_AGENT",
    "wsgi.url_scheme",
    "type",
    "http_version",
    "method",
    "scheme",
    "path",
    "raw_path",
    "query_string",
    "root_path",
    "headers",
    "client",
    "server",
    "extensions",
    "http",
    "https",
    "GET",
];

/// Encoded bytes and a position in them.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn code(&mut self) -> Result<u8, Unreadable> {
        let code = self.peek().ok_or(Unreadable)?;
        self.at += 1;
        Ok(code)
    }

    fn length(&mut self) -> Result<usize, Unreadable> {
        let four = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let length = u32::from_le_bytes(*four.ok_or(Unreadable)?);
        self.at += 4;
        usize::try_from(length).map_err(|_| Unreadable)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The bytes of the next value, which is passed over.
    fn skip(&mut self, depth: usize) -> Result<&'a [u8], Unreadable> {
        let depth = depth.checked_sub(1).ok_or(Unreadable)?;
        let begin = self.at;
        let more = match self.code()? {
            b'N' | b'T' | b'F' => 0,
            b'i' => 4,
            b'z' => self.code()?.into(),
            b'a' | b'u' | b's' => self.length()?,
            b')' => {
                for _ in 0..self.code()? {
                    self.skip(depth)?;
                }
                0
            }
            b'[' => {
                for _ in 0..self.length()? {
                    self.skip(depth)?;
                }
                0
            }
            b'{' => {
                while self.peek() != Some(b'0') {
                    self.skip(depth)?;
                    self.skip(depth)?;
                }
                1
            }
            _ => return Err(Unreadable),
        };
        self.at = self.at.checked_add(more).ok_or(Unreadable)?;
        self.bytes.get(begin..self.at).ok_or(Unreadable)
    }
}

/// Values by their encoded bytes. A slot holds the last value that fell on it.
struct Memory {
    slots: Vec<Slot>,
}

struct Slot {
    length: u8,
    bytes: [u8; REMEMBERED_BYTES_MAX],
    value: Option<Py<PyAny>>,
}

impl Memory {
    fn new() -> Memory {
        let empty = || Slot {
            length: 0,
            bytes: [0; REMEMBERED_BYTES_MAX],
            value: None,
        };
        Memory {
            slots: std::iter::repeat_with(empty).take(REMEMBERED).collect(),
        }
    }

    /// Where a value may be remembered; `None` if it is too long.
    fn slot(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.len() > REMEMBERED_BYTES_MAX {
            return None;
        }
        let mut hash = bytes.len() as u64;
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        Some((hash >> 32) as usize % self.slots.len())
    }

    fn recall(&self, slot: usize, bytes: &[u8]) -> Option<&Py<PyAny>> {
        let slot = &self.slots[slot];
        let same = slot.bytes.get(..slot.length.into()) == Some(bytes);
        slot.value.as_ref().filter(|_| same)
    }

    fn remember(&mut self, slot: usize, bytes: &[u8], value: &Bound<'_, PyAny>) {
        let slot = &mut self.slots[slot];
        if let (Some(target), Ok(length)) =
            (slot.bytes.get_mut(..bytes.len()), u8::try_from(bytes.len()))
        {
            target.copy_from_slice(bytes);
            slot.length = length;
            slot.value = Some(value.clone().unbind());
        }
    }
}
