//! Writes JSON incrementally, for log lines. Arbitrary bytes result in a valid line.

use std::time::Duration;

use sluice_message::FieldId;
use sluice_message::decimal::{padded, push_integer};

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

    /// Continues compact text inside an object; `is_first` if it has no members yet.
    pub fn go_on(out: &'a mut Vec<u8>, is_first: bool) -> Self {
        JsonWriter {
            out,
            spaced: false,
            comma: !is_first,
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
        debug_assert!(is_plain(name.as_bytes()), "{name}");
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.end_key();
    }

    /// Writes text that is the same in every line: keys, and punctuation as in JSON without spaces. Commas and colons
    /// stand between values only.
    #[inline(always)]
    pub fn fixed(&mut self, text: &'static str) {
        match self.spaced {
            false => self.out.extend_from_slice(text.as_bytes()),
            true => self.fixed_with_spaces(text),
        }
    }

    #[cold]
    fn fixed_with_spaces(&mut self, text: &str) {
        for byte in text.bytes() {
            self.out.push(byte);
            if matches!(byte, b',' | b':') {
                self.out.push(b' ');
            }
        }
    }

    /// As [`JsonWriter::fixed`], where a comma may be needed before it.
    #[inline(always)]
    pub fn fixed_member(&mut self, text: &'static str) {
        self.separate();
        self.fixed(text);
    }

    /// Writes what `write` appends, between texts written by [`JsonWriter::fixed`].
    #[inline]
    pub fn bare(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.out);
    }

    /// Writes arbitrary bytes inside a string.
    #[inline]
    pub fn escaped(&mut self, value: &[u8]) {
        push_escaped(self.out, value);
    }

    /// Writes the name of a header as the key of a list of strings, up to the first string. It is spelled as in Go:
    /// `x-FOO-bar` becomes `X-Foo-Bar`.
    pub fn list_name(&mut self, id: FieldId, name: &[u8]) {
        if let Some((text, length)) = LIST_NAMES.get(id as usize)
            && *length > 0
            && !self.spaced
        {
            let end = self.out.len() + usize::from(*length);
            // A length that the compiler knows needs no call.
            self.out.extend_from_slice(text);
            self.out.truncate(end);
            return;
        }
        self.out.push(b'"');
        push_canonical(self.out, name);
        self.fixed("\":[\"");
    }

    /// Ends an object whose members each end with a comma.
    pub fn end_members(&mut self) {
        if self.spaced && self.out.last() == Some(&b' ') {
            self.out.pop();
        }
        match self.out.last_mut() {
            Some(last) if *last == b',' => *last = b'}',
            _ => self.out.push(b'}'),
        }
        self.comma = true;
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

/// Appends `time` as a decimal number of seconds without trailing zeros.
pub fn push_seconds(out: &mut Vec<u8>, time: Duration) {
    push_integer(out, time.as_secs());
    if time.subsec_nanos() > 0 {
        out.push(b'.');
        let digits = padded::<9>(u64::from(time.subsec_nanos()));
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
        let end = out.len() + digits.len() - zeros.count();
        out.extend_from_slice(&digits);
        out.truncate(end);
    }
}

/// Appends a string with quotes. Invalid UTF-8 is replaced by U+FFFD; characters that could end the line, control a
/// terminal or end a JavaScript line are escaped (controls, DEL, C1, U+2028, U+2029).
pub fn push_string(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    push_escaped(out, value);
    out.push(b'"');
}

#[inline]
fn push_escaped(out: &mut Vec<u8>, value: &[u8]) {
    match is_plain(value) {
        true => out.extend_from_slice(value),
        false => push_mixed(out, value),
    }
}

#[cold]
fn push_mixed(out: &mut Vec<u8>, value: &[u8]) {
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

/// Appends the name of a header, spelled as in Go.
fn push_canonical(out: &mut Vec<u8>, name: &[u8]) {
    let from = out.len();
    let mut is_first = true;
    out.extend(name.iter().map(|byte| {
        let was_first = std::mem::replace(&mut is_first, *byte == b'-');
        match was_first {
            true => byte.to_ascii_uppercase(),
            false => byte.to_ascii_lowercase(),
        }
    }));
    // The names of requests are tokens, unless the configuration lets others through.
    if !is_plain(name) {
        let canonical = out.split_off(from);
        push_mixed(out, &canonical);
    }
}

/// For each known header what [`JsonWriter::list_name`] writes, and its length.
static LIST_NAMES: [([u8; LIST_NAME_BYTES], u8); FieldId::ALL.len() + 1] = {
    let mut names = [([0; LIST_NAME_BYTES], 0); FieldId::ALL.len() + 1];
    let mut at = 0;
    while at < FieldId::ALL.len() {
        let id = FieldId::ALL[at];
        names[id as usize] = list_name(id.as_str().as_bytes());
        at += 1;
    }
    names
};

/// Enough for the longest known name, `Access-Control-Allow-Origin`.
const LIST_NAME_BYTES: usize = 32;

const fn list_name(name: &[u8]) -> ([u8; LIST_NAME_BYTES], u8) {
    const AFTER: &[u8; 4] = b"\":[\"";
    let mut text = [0; LIST_NAME_BYTES];
    text[0] = b'"';
    let mut at = 1;
    while at <= name.len() {
        text[at] = name[at - 1];
        at += 1;
    }
    let mut more = 0;
    while more < AFTER.len() {
        text[at + more] = AFTER[more];
        more += 1;
    }
    (text, (at + more) as u8)
}

/// How many bytes at the beginning of `value` need no escaping.
fn plain_length(value: &[u8]) -> usize {
    let blocks = value.chunks_exact(BLOCK);
    let plain = BLOCK * blocks.take_while(|block| is_plain_block(block)).count();
    let rest = value[plain..].iter();
    plain + rest.take_while(|byte| is_plain(&[**byte])).count()
}

/// Whether no byte of `value` needs escaping. Most strings are short: those are looked at in one or two words, which
/// overlap.
fn is_plain(value: &[u8]) -> bool {
    if let Some(last) = value.last_chunk::<BLOCK>() {
        return value.chunks_exact(BLOCK).all(is_plain_block) && is_plain_block(last);
    }
    if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        return is_plain_word(u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (value.first_chunk(), value.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let word = u64::from(first) | u64::from(last) << 32;
        return is_plain_word(word, word);
    }
    let word = match *value {
        [] => return true,
        [only] => [only; 3],
        [first, last] => [first, last, last],
        [first, .., last] => [first, value[1], last],
    };
    let [first, middle, last] = word.map(u64::from);
    let word = first | middle << 8 | last << 16 | PLAIN_REST;
    is_plain_word(word, word)
}

/// Bytes that need no escaping, for those of a word beyond the first three.
const PLAIN_REST: u64 = 0x2020_2020_2000_0000;

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Whether none of the bytes of two words needs escaping.
#[inline]
fn is_plain_word(first: u64, last: u64) -> bool {
    // The upper bit of a byte is set if the byte or an earlier one needs escaping.
    let special = |word: u64| {
        let control = word.wrapping_sub(0x20 * ONES);
        let delete = word.wrapping_add(ONES);
        let quote = (word ^ (u64::from(b'"') * ONES)).wrapping_sub(ONES);
        let backslash = (word ^ (u64::from(b'\\') * ONES)).wrapping_sub(ONES);
        word | control | delete | quote | backslash
    };
    (special(first) | special(last)) & (0x80 * ONES) == 0
}

/// How many bytes are looked at together, which the compiler does with few instructions.
const BLOCK: usize = 16;

fn is_plain_block(block: &[u8]) -> bool {
    let special = |byte: u8| byte.wrapping_sub(0x20) >= 0x5f || byte == b'"' || byte == b'\\';
    !block
        .iter()
        .fold(false, |found, byte| found | special(*byte))
}

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

    /// Whether a byte needs no escaping in a JSON string.
    fn is_plain_byte(byte: u8) -> bool {
        matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b'\\'
    }

    #[test]
    fn strings_of_any_length_agree_on_what_is_plain() {
        for length in 0..=50 {
            let mut value = vec![b'a'; length];
            assert!(is_plain(&value), "{length}");
            assert_eq!(plain_length(&value), length);
            for at in 0..length {
                for byte in 0..=255u8 {
                    value[at] = byte;
                    let expected = is_plain_byte(byte);
                    assert_eq!(is_plain(&value), expected, "{byte} at {at} of {length}");
                    let plain = if expected { length } else { at };
                    assert_eq!(plain_length(&value), plain, "{byte} at {at} of {length}");
                }
                value[at] = b'a';
            }
        }
    }

    #[test]
    fn every_pair_of_bytes_agrees_on_what_is_plain() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let plain = is_plain_byte(first) && is_plain_byte(second);
                for length in [2, 5, 9, 17] {
                    let mut value = vec![b'~'; length];
                    (value[length - 2], value[length - 1]) = (first, second);
                    assert_eq!(is_plain(&value), plain, "{value:?}");
                    let found = plain_length(&value) == length;
                    assert_eq!(found, plain, "{value:?}");
                }
            }
        }
    }

    #[test]
    fn names_of_fields_are_spelled_as_in_go() {
        let name = |name: &[u8], spaced| {
            let mut out = Vec::new();
            JsonWriter::new(&mut out, spaced).list_name(FieldId::of(name), name);
            String::from_utf8(out).expect("a JSON string is UTF-8")
        };
        assert_eq!(name(b"x-FOO-bar", false), "\"X-Foo-Bar\":[\"");
        assert_eq!(name(b"x\"\x01\\y", false), r#""X\"\u0001\\y":[""#);
        assert_eq!(name(b"", false), "\"\":[\"");
        for id in FieldId::ALL {
            let mut canonical = Vec::new();
            push_canonical(&mut canonical, id.as_str().to_lowercase().as_bytes());
            assert_eq!(canonical, id.as_str().as_bytes());
            let text = name(id.as_str().to_uppercase().as_bytes(), false);
            assert_eq!(text, format!("\"{}\":[\"", id.as_str()));
            let spaced = name(id.as_str().as_bytes(), true);
            assert_eq!(spaced, format!("\"{}\": [\"", id.as_str()));
        }
    }

    #[test]
    fn fixed_text_is_spaced_like_other_members() {
        for (spaced, expected) in [
            (false, r#"{"a":{"b":["x"],"c":["y"]},"d":{},"e":1}"#),
            (true, r#"{"a": {"b": ["x"], "c": ["y"]}, "d": {}, "e": 1}"#),
        ] {
            let mut out = Vec::new();
            let mut json = JsonWriter::new(&mut out, spaced);
            json.begin_object();
            json.fixed_member("\"a\":{");
            for (name, value) in [("\"b\":[\"", b"x"), ("\"c\":[\"", b"y")] {
                json.fixed(name);
                json.escaped(value);
                json.fixed("\"],");
            }
            json.end_members();
            json.fixed_member("\"d\":{");
            json.end_members();
            json.key(b"e");
            json.integer(1);
            json.end_object();
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
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
            (1, "0.000000001"),
            (166_951, "0.000166951"),
            (1_500_000_000, "1.5"),
            (90_000_000_000, "90"),
        ] {
            let mut out = Vec::new();
            push_seconds(&mut out, Duration::from_nanos(nanos));
            assert_eq!(out, text.as_bytes());
        }
    }
}
