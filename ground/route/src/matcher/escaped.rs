//! Path patterns with `%`, which look at the path as it was sent: `%2F` matches only an encoded
//! slash, `%*` spans encoded slashes. Patterns without `%` are left to `path`.

use alloc::vec::Vec;

use crate::glob::{Glob, GlobError};

/// A compiled pattern. All but its escapes match decoded characters, as in other patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EscapedPattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// `%2f`: that escape and nothing else.
    Escape(u8),
    /// `%*`: any run without a plain slash.
    AnyRaw,
    /// `*`: any run without a slash, plain or encoded.
    Any,
    /// A character or class.
    One(Glob),
}

/// A byte of the path and whether it was sent as an escape.
#[derive(Clone, Copy)]
struct Unit {
    /// In lower case.
    byte: u8,
    /// The byte as the escape gives it.
    escape: Option<u8>,
}

impl EscapedPattern {
    /// Parses `pattern`, which is in lower case. A `%` that begins no escape is an ordinary
    /// character.
    pub(super) fn parse(pattern: &str) -> Result<EscapedPattern, GlobError> {
        let mut tokens = Vec::new();
        let mut rest = pattern;
        while !rest.is_empty() {
            let bytes = rest.as_bytes();
            let escape = bytes
                .get(1..)
                .and_then(hex_pair)
                .filter(|_| bytes[0] == b'%');
            let width = match bytes {
                [b'%', b'*', ..] => {
                    tokens.push(Token::AnyRaw);
                    2
                }
                _ if escape.is_some() => {
                    tokens.extend(escape.map(Token::Escape));
                    3
                }
                [b'*', ..] => {
                    tokens.push(Token::Any);
                    1
                }
                _ => {
                    let width = token_width(rest);
                    let token = &rest[..width];
                    if token.len() > 1 && !token.starts_with(['[', '\\']) {
                        // A character beyond ASCII is compared byte by byte, as the path is.
                        tokens.extend(token.bytes().map(plain));
                    } else {
                        tokens.push(Token::One(Glob::parse(token)?));
                    }
                    width
                }
            };
            rest = &rest[width..];
        }
        Ok(EscapedPattern { tokens })
    }

    /// Whether `path`, normalized but still encoded and in lower case, matches.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        let units = units(path);
        // Whether the tokens from a place on match the units from each place on, from the last
        // token to the first: the cost is the product of both lengths, whatever the stars.
        let mut ends: Vec<bool> = Vec::from_iter((0..=units.len()).map(|at| at == units.len()));
        for token in self.tokens.iter().rev() {
            let mut begins = Vec::from_iter(ends.iter().map(|_| false));
            for at in (0..=units.len()).rev() {
                let unit = units.get(at).copied();
                begins[at] = match token {
                    Token::AnyRaw => {
                        ends[at]
                            || unit.is_some_and(|u| u.escape.is_some() || u.byte != b'/')
                                && begins[at + 1]
                    }
                    Token::Any => {
                        ends[at] || unit.is_some_and(|u| u.byte != b'/') && begins[at + 1]
                    }
                    Token::Escape(byte) => {
                        unit.is_some_and(|u| u.escape == Some(*byte)) && ends[at + 1]
                    }
                    Token::One(glob) => {
                        unit.is_some_and(|u| glob.matches(&[u.byte])) && ends[at + 1]
                    }
                };
            }
            ends = begins;
        }
        ends[0]
    }
}

fn plain(byte: u8) -> Token {
    let mut glob = Glob::default();
    glob.push_plain(&[byte]);
    Token::One(glob)
}

/// The bytes of the first character, class or escaped character of `rest`.
fn token_width(rest: &str) -> usize {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    match rest.as_bytes()[0] {
        b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        b'[' => rest[1..].find(']').map_or(rest.len(), |at| at + 2),
        _ => first,
    }
}

fn units(path: &[u8]) -> Vec<Unit> {
    let mut units = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        match hex_pair(tail).filter(|_| byte == b'%') {
            Some(code) => {
                units.push(Unit {
                    byte: code.to_ascii_lowercase(),
                    escape: Some(code),
                });
                rest = &tail[2..];
            }
            None => {
                units.push(Unit { byte, escape: None });
                rest = tail;
            }
        }
    }
    units
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(*text.first()?)? * 16 + digit(*text.get(1)?)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_match_only_what_was_sent_escaped() {
        for (pattern, path, expected) in [
            ("/%2f%2fz", "/%2f%2fz", true),
            ("/%2f%2fz", "///z", false),
            ("/%2f", "/%2f", true),
            ("/q/%2a", "/q/*", false),
            ("/q/%2a", "/q/%2a", true),
            ("/%*/z", "/a%2fb/z", true),
            ("/%*/z", "/a/b/z", false),
            ("/%61/*", "/%61/b", true),
            ("/%61/*", "/%61/b%2fc", false),
            ("/%61/*", "/a/b", false),
            ("/%41b", "/%41%42", true),
            ("/%20é", "/%20%c3%a9", true),
            ("/%zz", "/%zz", true),
            ("/%41", "/%61", false),
            ("/%+f", "/%+f", true),
            ("/%20[a-c]?", "/%20bx", true),
            ("/%20\\*", "/%20*", true),
            ("/%20\\*", "/%20x", false),
        ] {
            let pattern_text = pattern;
            let pattern = EscapedPattern::parse(pattern).unwrap();
            assert_eq!(
                pattern.matches(path.as_bytes()),
                expected,
                "{pattern_text} {path}"
            );
        }
    }
}
