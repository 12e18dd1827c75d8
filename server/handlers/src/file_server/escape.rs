//! Escaping for HTML.

/// Appends `text` escaped for HTML, both for text and for attributes.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for letter in String::from_utf8_lossy(text).chars() {
        match letter {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '"' => out.extend_from_slice(b"&#34;"),
            '\'' => out.extend_from_slice(b"&#39;"),
            _ => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}
