//! Glob patterns with `*`, `?` and `[a-z]`, for the `path` matcher and for file names. A star never matches a slash (a
//! class may, as in Go). `matcher::path` handles the fast forms (`/prefix*`, `*.suffix`).

use alloc::vec::Vec;
use core::fmt;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Glob {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// One byte as it is.
    Byte(u8),
    /// `*`
    Any,
    /// `?`
    One,
    /// `[…]`
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Why a text is not a valid pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobError {
    /// A `[` without its `]`, an empty class or a range without its end.
    BadClass,
    /// A backslash at the end.
    EndsInBackslash,
}

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GlobError::BadClass => "bracket expression is not closed or empty",
            GlobError::EndsInBackslash => "backslash at the end of a pattern",
        })
    }
}

impl core::error::Error for GlobError {}

impl Glob {
    /// Parses `pattern`: `*` any run without slash, `?` one character, `[a-z]` and `[^a-z]`
    /// classes, `\` makes the next character plain.
    pub fn parse(pattern: &str) -> Result<Glob, GlobError> {
        let mut glob = Glob::default();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '*' => glob.push_any(),
                '?' => glob.tokens.push(Token::One),
                '[' => glob.tokens.push(parse_class(&mut letters)?),
                '\\' => glob.push_char(letters.next().ok_or(GlobError::EndsInBackslash)?),
                _ => glob.push_char(letter),
            }
        }
        Ok(glob)
    }

    /// Adds bytes that stand for themselves.
    pub fn push_plain(&mut self, plain: &[u8]) {
        self.tokens
            .extend(plain.iter().map(|&byte| Token::Byte(byte)));
    }

    /// Adds the tokens of `other`.
    pub fn append(&mut self, other: &Glob) {
        self.tokens.extend_from_slice(&other.tokens);
    }

    /// Whether `text` as a whole matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        matches(&self.tokens, text)
    }

    fn push_any(&mut self) {
        if self.tokens.last() != Some(&Token::Any) {
            self.tokens.push(Token::Any);
        }
    }

    fn push_char(&mut self, letter: char) {
        self.push_plain(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

fn parse_class(letters: &mut core::str::Chars<'_>) -> Result<Token, GlobError> {
    let mut ranges = Vec::new();
    let negated = letters.as_str().starts_with('^');
    if negated {
        letters.next();
    }
    loop {
        let Some(letter) = letters.next() else {
            return Err(GlobError::BadClass);
        };
        if letter == ']' {
            break;
        }
        let low = class_char(letter, letters)?;
        let mut high = low;
        if letters.as_str().starts_with('-') {
            letters.next();
            let end = letters
                .next()
                .filter(|&end| end != ']')
                .ok_or(GlobError::BadClass)?;
            high = class_char(end, letters)?;
        }
        ranges.push((low, high));
    }
    if ranges.is_empty() {
        Err(GlobError::BadClass)
    } else {
        Ok(Token::Class { negated, ranges })
    }
}

fn class_char(letter: char, letters: &mut core::str::Chars<'_>) -> Result<char, GlobError> {
    match letter {
        '\\' => letters.next().ok_or(GlobError::BadClass),
        '-' => Err(GlobError::BadClass),
        _ => Ok(letter),
    }
}

/// Matches with one point to return to, the latest star: a later star can do whatever an earlier
/// one could, since none of them crosses a slash. (Go decides likewise where a class matches a
/// slash.) So the cost is the product of the lengths at most.
fn matches(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token_at, mut at) = (0, 0);
    let mut resume: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(token_at) {
            None => (at == text.len()).then_some(0),
            Some(Token::Any) => {
                resume = Some((token_at, at));
                token_at += 1;
                continue;
            }
            Some(Token::Byte(byte)) => (text.get(at) == Some(byte)).then_some(1),
            Some(Token::One) => char_at(text, at)
                .filter(|&(_, letter)| letter != Some('/'))
                .map(|c| c.0),
            Some(Token::Class { negated, ranges }) => char_at(text, at)
                .filter(|&(_, letter)| in_class(letter, ranges) != *negated)
                .map(|c| c.0),
        };
        match (step, resume) {
            (Some(_), _) if token_at == tokens.len() => return true,
            (Some(width), _) => {
                token_at += 1;
                at += width;
            }
            (None, Some((star, from))) if text.get(from).is_some_and(|&byte| byte != b'/') => {
                resume = Some((star, from + 1));
                token_at = star + 1;
                at = from + 1;
            }
            (None, _) => return false,
        }
    }
}

fn in_class(letter: Option<char>, ranges: &[(char, char)]) -> bool {
    letter.is_some_and(|letter| {
        ranges
            .iter()
            .any(|&(low, high)| low <= letter && letter <= high)
    })
}

/// The width of the character at `at` and the character; a byte that is not valid UTF-8 has width 1 and no character.
fn char_at(text: &[u8], at: usize) -> Option<(usize, Option<char>)> {
    let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
    if rest[0] < 0x80 {
        return Some((1, Some(rest[0] as char)));
    }
    let rest = &rest[..rest.len().min(4)];
    let letter = rest
        .utf8_chunks()
        .next()
        .and_then(|chunk| chunk.valid().chars().next());
    Some((letter.map_or(1, char::len_utf8), letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stay_within_a_segment() {
        for (pattern, text, expected) in [
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("/a/*/c", "/a//c", true),
            ("/*a*b*", "/xaxbx", true),
            ("/*a*b*", "/xbxax", false),
            ("*", "", true),
            ("**", "ab", true),
            ("*", "a/b", false),
            ("/?", "/é", true),
            ("/?", "//", false),
            ("/?", "/", false),
            ("/[a-c]z", "/bz", true),
            ("/[^a-c]z", "/bz", false),
            ("/[^a-c]z", "/dz", true),
            ("/x[^a]y", "/x/y", true),
            ("/[^a]", "/é", true),
            ("/[à-ü]", "/é", true),
            ("/\\*", "/*", true),
            ("/\\*", "/a", false),
            ("/*x/*y", "/ax/by", true),
            ("/*x/*y", "/ax/b/y", false),
            ("", "", true),
            ("", "a", false),
        ] {
            let glob = Glob::parse(pattern).unwrap();
            assert_eq!(glob.matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn bytes_outside_utf8_match_wildcards() {
        let glob = Glob::parse("/?*[^a]").unwrap();
        assert!(glob.matches(b"/\xff\xfe\xfd"));
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["[", "[]", "[^]", "[a-]", "[-a]", "[a", "a\\", "[\\"] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let glob = Glob::parse(&"a*".repeat(40)).unwrap();
        assert!(!glob.matches("a".repeat(39).as_bytes()));
        assert!(
            !glob.matches(
                &[b'a'; 4000]
                    .iter()
                    .chain(b"/")
                    .copied()
                    .collect::<Vec<u8>>()
            )
        );
    }
}
