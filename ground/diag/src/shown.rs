//! Escapes text from a source so that it can be part of a message.
//!
//! A configuration may come from elsewhere, so nothing in it may move the cursor, colour the terminal or change the
//! writing direction.

use alloc::string::String;

use crate::limits::SHOWN_CHARS_MAX;

/// `text` on one line, at most 80 characters, with invisible characters made visible.
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(visible).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// The picture of a control character, or the character itself.
pub(crate) fn visible(c: char) -> char {
    match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        // Marks that turn the direction of writing or show nothing can make a line read as
        // something it is not.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' => '\u{fffd}',
        '\u{feff}' => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_invisible_text_is_tamed() {
        assert_eq!(shown("a\n\u{1b}[31m"), "a␊␛[31m");
        assert_eq!(shown(&"x".repeat(81)).chars().count(), 81);
        assert!(shown(&"x".repeat(500)).ends_with("x…"));
    }
}
