//! Header names as WSGI and ASGI spell them, computed by the compiler for names that are known.

use sluice_message::FieldId;

/// The longest known name, with `HTTP_` before it.
const NAME_BYTES_MAX: usize = 48;

/// A name.
#[derive(Clone, Copy)]
pub(super) struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl Name {
    const EMPTY: Name = Name {
        bytes: [0; NAME_BYTES_MAX],
        len: 0,
    };

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    const fn push(mut self, byte: u8) -> Name {
        self.bytes[self.len as usize] = byte;
        self.len += 1;
        self
    }
}

/// `HTTP_ACCEPT` for each known name.
static KEYS: [Name; FieldId::ALL.len() + 1] = {
    let mut table = [Name::EMPTY; FieldId::ALL.len() + 1];
    let mut i = 0;
    while i < FieldId::ALL.len() {
        let text = FieldId::ALL[i].as_str().as_bytes();
        let mut name = Name::EMPTY;
        let mut at = 0;
        while at < PREFIX.len() {
            name = name.push(PREFIX[at]);
            at += 1;
        }
        at = 0;
        while at < text.len() {
            name = name.push(key_byte(text[at]));
            at += 1;
        }
        table[FieldId::ALL[i] as usize] = name;
        i += 1;
    }
    table
};

/// `accept` for each known name.
static LOWER: [Name; FieldId::ALL.len() + 1] = {
    let mut table = [Name::EMPTY; FieldId::ALL.len() + 1];
    let mut i = 0;
    while i < FieldId::ALL.len() {
        let text = FieldId::ALL[i].as_str().as_bytes();
        let mut name = Name::EMPTY;
        let mut at = 0;
        while at < text.len() {
            name = name.push(text[at].to_ascii_lowercase());
            at += 1;
        }
        table[FieldId::ALL[i] as usize] = name;
        i += 1;
    }
    table
};

/// What stands before the names of headers in a WSGI environment.
pub(super) const PREFIX: &[u8] = b"HTTP_";

/// The key of a header with a known name; empty for others.
pub(super) fn key_of(id: FieldId) -> &'static [u8] {
    KEYS[id as usize].as_bytes()
}

/// A known name in lower case; empty for others.
pub(super) fn lower_of(id: FieldId) -> &'static [u8] {
    LOWER[id as usize].as_bytes()
}

/// A byte of a header name as it stands in a key.
pub(super) const fn key_byte(byte: u8) -> u8 {
    match byte {
        b'-' => b'_',
        byte => byte.to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_spelled_as_python_expects_them() {
        assert_eq!(key_of(FieldId::AcceptEncoding), b"HTTP_ACCEPT_ENCODING");
        assert_eq!(lower_of(FieldId::AcceptEncoding), b"accept-encoding");
        for id in FieldId::ALL {
            let name = id.as_str().as_bytes();
            let key: alloc::vec::Vec<u8> = name.iter().map(|byte| key_byte(*byte)).collect();
            assert_eq!(key_of(*id).strip_prefix(PREFIX), Some(&key[..]));
            assert_eq!(lower_of(*id), name.to_ascii_lowercase());
        }
        assert_eq!(key_of(FieldId::Other), b"");
    }
}
