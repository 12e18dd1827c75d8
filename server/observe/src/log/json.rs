//! Writes JSON incrementally, for log lines. Arbitrary bytes result in a valid line.

use sluice_message::decimal::{push_integer, push_padded};

/// Writes members and elements to a buffer, including commas.
pub struct JsonWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Whether to put a space after each comma and colon, for readability in the console format.
    spaced: bool,
    /// Whether the next member or element needs a comma before it.
    comma: bool,
}

impl<'a> JsonWriter<'a> {
    /// Continues the text in `out`; the next item is the first one.
    pub fn new(out: &'a mut Vec<u8>, spaced: bool) -> Self {
        JsonWriter {
            out,
            spaced,
            comma: false,
        }
    }

    /// Starts an object.
    pub fn begin_object(&mut self) {
        self.separate();
        self.out.push(b'{');
        self.comma = false;
    }

    /// Ends an object.
    pub fn end_object(&mut self) {
        self.out.push(b'}');
        self.comma = true;
    }

    /// Starts an array.
    pub fn begin_array(&mut self) {
        self.separate();
        self.out.push(b'[');
        self.comma = false;
    }

    /// Ends an array.
    pub fn end_array(&mut self) {
        self.out.push(b']');
        self.comma = true;
    }

    /// Writes the key of the next member.
    pub fn key(&mut self, name: &[u8]) {
        self.separate();
        self.out.push(b'"');
        push_escaped(self.out, name);
        self.end_key();
    }

    /// Writes the key of the next member, which needs no escaping.
    pub fn plain_key(&mut self, name: &'static str) {
        debug_assert_eq!(plain_length(name.as_bytes()), name.len(), "{name}");
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.end_key();
    }

    /// Writes the name of a field as the key of the next member, spelled as in Go: `x-FOO-bar` becomes `X-Foo-Bar`.
    pub fn field_name(&mut self, name: &[u8]) {
        self.separate();
        self.out.push(b'"');
        let from = self.out.len();
        let mut is_first = true;
        self.out.extend(name.iter().map(|byte| {
            let was_first = std::mem::replace(&mut is_first, *byte == b'-');
            match was_first {
                true => byte.to_ascii_uppercase(),
                false => byte.to_ascii_lowercase(),
            }
        }));
        // The names of requests are tokens, unless the configuration lets others through.
        if plain_length(&self.out[from..]) < name.len() {
            let canonical = self.out.split_off(from);
            push_escaped(self.out, &canonical);
        }
        self.end_key();
    }

    /// Writes a string of arbitrary bytes.
    pub fn text(&mut self, value: &[u8]) {
        self.separate();
        push_string(self.out, value);
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: u64) {
        self.separate();
        push_integer(self.out, value);
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    /// Writes text that is JSON.
    pub fn raw(&mut self, json: &[u8]) {
        self.separate();
        self.out.extend_from_slice(json);
    }

    /// Writes a value that `write` appends as JSON.
    pub fn value(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.separate();
        write(self.out);
    }

    fn separate(&mut self) {
        match (self.comma, self.spaced) {
            (false, _) => {}
            (true, false) => self.out.push(b','),
            (true, true) => self.out.extend_from_slice(b", "),
        }
        self.comma = true;
    }

    fn end_key(&mut self) {
        match self.spaced {
            true => self.out.extend_from_slice(b"\": "),
            false => self.out.extend_from_slice(b"\":"),
        }
        self.comma = false;
    }
}

/// Appends `nanos` as a decimal number of seconds without trailing zeros.
pub fn push_seconds(out: &mut Vec<u8>, nanos: u128) {
    let fraction = (nanos % 1_000_000_000) as u64;
    push_integer(
        out,
        u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX),
    );
    if fraction > 0 {
        out.push(b'.');
        push_padded(out, fraction, 9);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends a string with quotes. Invalid UTF-8 is replaced by U+FFFD; characters that could end the line, control a
/// terminal or end a JavaScript line are escaped (controls, DEL, C1, U+2028, U+2029).
pub fn push_string(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    push_escaped(out, value);
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        if special.is_empty() {
            return;
        }
        rest = push_special(out, special);
    }
}

/// How many bytes at the beginning of `value` need no escaping.
fn plain_length(value: &[u8]) -> usize {
    let is_plain = |byte: &u8| PLAIN[usize::from(*byte)];
    let blocks = value.chunks_exact(BLOCK);
    let plain = BLOCK * blocks.take_while(|block| is_plain_block(block)).count();
    plain
        + value[plain..]
            .iter()
            .take_while(|byte| is_plain(byte))
            .count()
}

/// How many bytes are looked at together, which the compiler does with few instructions.
const BLOCK: usize = 16;

fn is_plain_block(block: &[u8]) -> bool {
    let special = |byte: u8| byte.wrapping_sub(0x20) >= 0x5f || byte == b'"' || byte == b'\\';
    !block
        .iter()
        .fold(false, |found, byte| found | special(*byte))
}

/// Bytes that need no escaping in a JSON string.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Appends the first character of `rest`, which needs escaping, and returns what follows it.
fn push_special<'a>(out: &mut Vec<u8>, rest: &'a [u8]) -> &'a [u8] {
    match rest[0] {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        byte if byte < 0x80 => push_escape(out, u32::from(byte)),
        _ => return push_wide(out, rest),
    }
    &rest[1..]
}

fn push_wide<'a>(out: &mut Vec<u8>, rest: &'a [u8]) -> &'a [u8] {
    let longest = &rest[..rest.len().min(4)];
    let valid = match std::str::from_utf8(longest) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&longest[..error.valid_up_to()])
            .expect("UTF-8 is valid up to where it is said to be"),
    };
    let Some(character) = valid.chars().next() else {
        out.extend_from_slice(b"\\ufffd");
        return &rest[1..];
    };
    let length = character.len_utf8();
    match character as u32 {
        code @ (0x80..=0x9f | 0x2028 | 0x2029) => push_escape(out, code),
        _ => out.extend_from_slice(&rest[..length]),
    }
    &rest[length..]
}

fn push_escape(out: &mut Vec<u8>, code: u32) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(HEX[(code >> shift) as usize & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &[u8]) -> String {
        let mut out = Vec::new();
        push_string(&mut out, value);
        String::from_utf8(out).expect("a JSON string is UTF-8")
    }

    #[test]
    fn blocks_and_single_bytes_agree_on_what_is_plain() {
        for byte in 0..=255u8 {
            let mut block = [b'a'; BLOCK];
            for at in [0, 7, BLOCK - 1] {
                block[at] = byte;
                assert_eq!(is_plain_block(&block), PLAIN[usize::from(byte)], "{byte}");
                let expected = match PLAIN[usize::from(byte)] {
                    true => BLOCK,
                    false => at,
                };
                assert_eq!(plain_length(&block), expected, "{byte} at {at}");
                block[at] = b'a';
            }
        }
        assert_eq!(plain_length(&[b'a'; 40]), 40);
    }

    #[test]
    fn names_of_fields_are_spelled_as_in_go() {
        let name = |name: &[u8]| {
            let mut out = Vec::new();
            JsonWriter::new(&mut out, false).field_name(name);
            String::from_utf8(out).expect("a JSON string is UTF-8")
        };
        assert_eq!(name(b"x-FOO-bar"), "\"X-Foo-Bar\":");
        assert_eq!(name(b"x\"\x01\\y"), r#""X\"\u0001\\y":"#);
    }

    #[test]
    fn every_byte_makes_a_valid_string_on_one_line() {
        for first in 0..=255u8 {
            for second in [0u8, b'a', b'"', 0x80, 0xa8, 0xff] {
                let text = string(&[first, second, 0xe2, 0x80, 0xa8]);
                assert!(
                    !text.contains(['\n', '\r', '\u{1b}', '\u{85}', '\u{2028}']),
                    "{text:?}"
                );
                let read: String = serde_json::from_str(&text).expect("a reader takes it");
                assert_eq!(
                    read,
                    String::from_utf8_lossy_like(&[first, second, 0xe2, 0x80, 0xa8])
                );
            }
        }
    }

    trait LossyLike {
        fn from_utf8_lossy_like(bytes: &[u8]) -> String;
    }

    impl LossyLike for String {
        /// One replacement character per invalid byte, as in Go.
        fn from_utf8_lossy_like(bytes: &[u8]) -> String {
            let mut out = String::new();
            let mut rest = bytes;
            while !rest.is_empty() {
                let length =
                    (1..=rest.len().min(4)).find(|n| std::str::from_utf8(&rest[..*n]).is_ok());
                match length {
                    Some(n) => out.push_str(std::str::from_utf8(&rest[..n]).expect("just checked")),
                    None => out.push('\u{fffd}'),
                }
                rest = &rest[length.unwrap_or(1)..];
            }
            out
        }
    }

    #[test]
    fn members_are_separated_and_nested() {
        let mut out = Vec::new();
        let mut json = JsonWriter::new(&mut out, false);
        json.begin_object();
        json.key(b"a");
        json.integer(1);
        json.key(b"b");
        json.begin_array();
        json.text(b"x");
        json.boolean(true);
        json.end_array();
        json.key(b"c");
        json.begin_object();
        json.end_object();
        json.end_object();
        assert_eq!(out, br#"{"a":1,"b":["x",true],"c":{}}"#);
    }

    #[test]
    fn seconds_carry_no_trailing_zeros() {
        for (nanos, text) in [
            (0, "0"),
            (166_951, "0.000166951"),
            (1_500_000_000, "1.5"),
            (90_000_000_000, "90"),
        ] {
            let mut out = Vec::new();
            push_seconds(&mut out, nanos);
            assert_eq!(out, text.as_bytes());
        }
    }
}
