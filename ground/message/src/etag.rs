//! Entity tags (RFC 9110, section 8.8.3): comparing them, parsing lists, and deriving one for a file. `condition`
//! decides when to compare.

/// The tag of a file, quotes included, kept without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTag {
    /// Two quotes, a hyphen, and two numbers of at most 13 digits.
    text: [u8; 29],
    len: u8,
}

impl FileTag {
    /// The tag that Caddy gives a file: its time of modification in nanoseconds since 1970 and its size, both in
    /// base 36, with a hyphen between them. The same files thus keep their tags when a site moves from there to here.
    pub fn new(modified_nanos: u64, size: u64) -> FileTag {
        let mut tag = FileTag {
            text: [0; 29],
            len: 0,
        };
        tag.push(b'"');
        tag.push_base36(modified_nanos);
        tag.push(b'-');
        tag.push_base36(size);
        tag.push(b'"');
        tag
    }

    /// The tag as it stands in a field.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.len)] = byte;
        self.len += 1;
    }

    fn push_base36(&mut self, mut value: u64) {
        let mut digits = [0; 13];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(value % 36) as usize];
            value /= 36;
            if value == 0 {
                break;
            }
        }
        digits[at..].iter().for_each(|&digit| self.push(digit));
    }
}

/// Whether two tags are the same and neither is weak (RFC 9110, section 8.8.3.2).
pub fn matches_strongly(a: &[u8], b: &[u8]) -> bool {
    a == b && a.starts_with(b"\"")
}

/// Whether two tags are the same but for weakness (RFC 9110, section 8.8.3.2).
pub fn matches_weakly(a: &[u8], b: &[u8]) -> bool {
    opaque(a) == opaque(b)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The first tag of `text`, and what follows it. `None` where no tag begins.
pub fn scan(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let quoted_at = if text.starts_with(b"W/") { 2 } else { 0 };
    let content = text.get(quoted_at..)?.strip_prefix(b"\"")?;
    // RFC 9110, section 8.8.3: no white space, no control bytes, no quotes; backslashes escape nothing.
    let content_len = content
        .iter()
        .position(|&b| b == b'"' || b < 0x21 || b == 0x7f)?;
    if content[content_len] != b'"' {
        return None;
    }
    Some(text.split_at(quoted_at + content_len + 2))
}

/// The tags of a header value like `"a", W/"b"`. Iteration ends at the first item that is not a tag.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    core::iter::from_fn(move || {
        // RFC 9110, section 5.6.1.2: empty elements of a list are ignored.
        let skipped = rest
            .iter()
            .take_while(|b| matches!(b, b',' | b' ' | b'\t'))
            .count();
        let (tag, after) = scan(&rest[skipped..])?;
        rest = after;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_tag_of_a_file_is_the_one_caddy_gives() {
        // A file of 1,492 bytes, modified at 1795295014.025628839; the tag is what Caddy 2.11.4 sent.
        let tag = FileTag::new(1_795_295_014_025_628_839, 1492);
        assert_eq!(tag.as_bytes(), b"\"dn16yvof85gn-15g\"");
        assert_eq!(FileTag::new(0, 0).as_bytes(), b"\"0-0\"");
        assert_eq!(FileTag::new(u64::MAX, u64::MAX).as_bytes().len(), 29);
    }

    #[test]
    fn weak_tags_never_match_strongly() {
        assert!(matches_strongly(b"\"1\"", b"\"1\""));
        assert!(!matches_strongly(b"W/\"1\"", b"W/\"1\""));
        assert!(!matches_strongly(b"W/\"1\"", b"\"1\""));
        assert!(matches_weakly(b"W/\"1\"", b"\"1\""));
        assert!(matches_weakly(b"W/\"1\"", b"W/\"1\""));
        assert!(!matches_weakly(b"W/\"1\"", b"\"2\""));
    }

    #[test]
    fn lists_of_tags_are_read_to_the_first_fault() {
        let tags = |text: &'static str| list(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            tags("\"a\", W/\"b,c\" ,,\"\""),
            [&b"\"a\""[..], b"W/\"b,c\"", b"\"\""]
        );
        assert_eq!(tags("\"a\", b, \"c\""), [b"\"a\""]);
        assert!(tags("\"a").is_empty());
        assert!(tags("W/").is_empty());
        assert!(tags("\"a b\"").is_empty());
        assert!(tags("").is_empty());
    }
}
