//! Path patterns with `%`, which are compared with the path as sent: `%2F` matches only an encoded slash, `%*` spans
//! encoded slashes. Patterns without `%` are in `path`.

use alloc::vec::Vec;

use sluice_message::hex::hex_pair;

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
    /// That character, however it was sent.
    Plain(u8),
    /// `?` or a class.
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
                    match token.as_bytes() {
                        [b'\\'] => return Err(GlobError::EndsInBackslash),
                        // A character beyond ASCII is compared byte by byte, as the path is.
                        [b'\\', letter @ ..] => {
                            tokens.extend(letter.iter().copied().map(Token::Plain))
                        }
                        [b'?' | b'[', ..] => tokens.push(Token::One(Glob::parse(token)?)),
                        letter => tokens.extend(letter.iter().copied().map(Token::Plain)),
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
        // Most paths differ before the first star.
        let mut units = units(path);
        let mut tokens = self.tokens.as_slice();
        while let Some((token, rest)) = tokens.split_first().filter(|(token, _)| !token.is_star()) {
            if !units.next().is_some_and(|unit| token.takes(unit)) {
                return false;
            }
            tokens = rest;
        }
        if tokens.is_empty() {
            return units.next().is_none();
        }
        matches_from(tokens, &units.collect::<Vec<Unit>>())
    }
}

impl Token {
    fn is_star(&self) -> bool {
        matches!(self, Token::Any | Token::AnyRaw)
    }

    /// Whether the token can stand for `unit`, or for a run that holds it.
    fn takes(&self, unit: Unit) -> bool {
        match self {
            Token::AnyRaw => unit.escape.is_some() || unit.byte != b'/',
            Token::Any => unit.byte != b'/',
            Token::Escape(byte) => unit.escape == Some(*byte),
            Token::Plain(byte) => unit.byte == *byte,
            Token::One(glob) => glob.matches(&[unit.byte]),
        }
    }
}

/// Goes through the tokens from the last to the first and notes from which places on they match:
/// the cost is the product of both lengths, whatever the stars. (Returning to the latest star alone
/// would not do, since the two kinds of stars stop at different slashes.)
fn matches_from(tokens: &[Token], units: &[Unit]) -> bool {
    let mut ends: Vec<bool> = (0..=units.len()).map(|at| at == units.len()).collect();
    for token in tokens.iter().rev() {
        // Whether the tokens after this one, and from this one on, match from the place after `at`.
        let (mut rest_after, mut all_after) = (false, false);
        for at in (0..=units.len()).rev() {
            let takes = units.get(at).is_some_and(|unit| token.takes(*unit));
            let rest = ends[at];
            ends[at] = if token.is_star() {
                rest || takes && all_after
            } else {
                takes && rest_after
            };
            (rest_after, all_after) = (rest, ends[at]);
        }
    }
    ends[0]
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

fn units(path: &[u8]) -> impl Iterator<Item = Unit> {
    let mut rest = path;
    core::iter::from_fn(move || {
        let (&byte, tail) = rest.split_first()?;
        match hex_pair(tail).filter(|_| byte == b'%') {
            Some(code) => {
                rest = &tail[2..];
                Some(Unit {
                    byte: code.to_ascii_lowercase(),
                    escape: Some(code),
                })
            }
            None => {
                rest = tail;
                Some(Unit { byte, escape: None })
            }
        }
    })
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
            ("/%*/*z", "/a%2f/b/cz", false),
            ("/%*/b/*z", "/a%2f/b/cz", true),
            ("/*x%*z", "/ax%2fx/bz", false),
            ("/*x%*z", "/axx%2fbz", true),
            ("/%*", "/", true),
            ("%*a", "%2fa", true),
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
