//! Quoted strings in Go's syntax: the `%q` of `printf` and the function `quote`.

use alloc::format;
use alloc::vec::Vec;

/// Which letters stand for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    /// All that can be seen.
    All,
    /// Those of ASCII.
    Ascii,
}

/// Appends `text` in double quotes, with escapes for what is not printable.
pub(crate) fn quote(text: &[u8], letters: Letters, out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '"' {
                out.extend_from_slice(b"\\\"");
            } else {
                write_letter(letter, letters, out);
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
    out.push(b'"');
}

/// Appends `letter` in single quotes.
pub(crate) fn quote_letter(letter: char, letters: Letters, out: &mut Vec<u8>) {
    out.push(b'\'');
    if letter == '\'' {
        out.extend_from_slice(b"\\'");
    } else {
        write_letter(letter, letters, out);
    }
    out.push(b'\'');
}

fn write_letter(letter: char, letters: Letters, out: &mut Vec<u8>) {
    let escape: &[u8] = match letter {
        '\\' => b"\\\\",
        '\x07' => b"\\a",
        '\x08' => b"\\b",
        '\x0c' => b"\\f",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        '\x0b' => b"\\v",
        _ => b"",
    };
    if !escape.is_empty() {
        out.extend_from_slice(escape);
    } else if letter.is_ascii_control() {
        out.extend_from_slice(format!("\\x{:02x}", u32::from(letter)).as_bytes());
    } else if is_hidden(letter) || (letters == Letters::Ascii && !letter.is_ascii()) {
        let code = u32::from(letter);
        let text = if code > 0xffff {
            format!("\\U{code:08x}")
        } else {
            format!("\\u{code:04x}")
        };
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Whether a character shows nothing: controls, spaces other than the plain one, marks of direction.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        let mut out = Vec::new();
        quote("a\"b\\\n\u{1}é\u{2028}".as_bytes(), Letters::All, &mut out);
        quote(b"\xff", Letters::Ascii, &mut out);
        assert_eq!(out, "\"a\\\"b\\\\\\n\\x01é\\u2028\"\"\\xff\"".as_bytes());
    }
}
