//! Regular expressions in Go's syntax, as in Caddy, on bytes and in linear time. Matchers and rewrites choose the text
//! to match.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use crate::limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEX_DEPTH_MAX};

/// Why a text is not a valid regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegexpError {
    /// It is malformed or too large; the text says which.
    Refused(String),
    /// Its name has characters other than letters, digits and `_`.
    BadName(String),
}

impl fmt::Display for RegexpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegexpError::Refused(reason) => f.write_str(reason),
            RegexpError::BadName(name) => write!(f, "expression name `{name}` is not a word"),
        }
    }
}

impl core::error::Error for RegexpError {}

fn build(translated: &str, unicode: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(translated)
        .unicode(unicode)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .nest_limit(REGEX_DEPTH_MAX)
        .build()
}

/// A compiled regular expression.
///
/// It matches bytes: `.`, `\w` and classes without non-ASCII letters match one byte, so that no byte a client may send
/// escapes an expression. Only an expression that requires it (`\p{L}`, `[à-ü]`) matches characters; bytes that are not
/// valid UTF-8 then match nothing.
#[derive(Clone, Debug)]
pub struct Regexp {
    regex: Regex,
    pattern: Box<str>,
}

impl Regexp {
    /// Compiles `pattern`.
    pub fn new(pattern: &str) -> Result<Regexp, RegexpError> {
        let translated = translate(pattern);
        let regex = build(&translated, false).or_else(|_| build(&translated, true));
        Regexp::of(regex, pattern)
    }

    /// Compiles `pattern` so that it reads characters: for texts that people cut and change, where half a
    /// character would be none.
    pub fn of_characters(pattern: &str) -> Result<Regexp, RegexpError> {
        Regexp::of(build(&translate(pattern), true), pattern)
    }

    fn of(regex: Result<Regex, regex::Error>, pattern: &str) -> Result<Regexp, RegexpError> {
        Ok(Regexp {
            regex: regex.map_err(|error| RegexpError::Refused(error.to_string()))?,
            pattern: pattern.into(),
        })
    }

    /// Where the first match from `start` on begins and ends.
    pub fn find_at(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        let found = self.regex.find_at(text, start)?;
        Some((found.start(), found.end()))
    }

    /// The text this was compiled from.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether `text` contains a match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// The names of the groups in order, the whole match (without a name) first.
    pub fn group_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.regex.capture_names()
    }

    /// Finds the first match and writes where its groups begin and end, the whole match first; `into` is left as it
    /// was where there is none. Texts of 4 GiB and more match nothing.
    pub fn groups(&self, text: &[u8], into: &mut Vec<Option<(u32, u32)>>) -> bool {
        if u32::try_from(text.len()).is_err() {
            return false;
        }
        let Some(captures) = self.regex.captures(text) else {
            return false;
        };
        into.clear();
        into.extend(
            captures
                .iter()
                .map(|group| group.map(|group| (group.start() as u32, group.end() as u32))),
        );
        true
    }

    /// Memory for [`Regexp::read`].
    pub(crate) fn locations(&self) -> CaptureLocations {
        self.regex.capture_locations()
    }

    /// Finds the first match and writes where its groups are.
    pub(crate) fn read(&self, text: &[u8], into: &mut CaptureLocations) -> bool {
        self.regex.captures_read(into, text).is_some()
    }

    /// Replaces all matches in `text`; `$1`, `${1}` and `${name}` in `replacement` stand for groups
    /// and `$$` for a dollar sign.
    pub fn replace_all(&self, text: &[u8], replacement: &[u8]) -> Vec<u8> {
        self.regex.replace_all(text, replacement).into_owned()
    }

    /// What `template` gives for the first match in `text`, with groups as in [`Regexp::replace_all`]; nothing
    /// where there is no match.
    pub fn expand_first(&self, text: &[u8], template: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(captures) = self.regex.captures(text) {
            captures.expand(template, &mut out);
        }
        out
    }
}

/// Makes every `$` in `text`, from `start` on, plain for [`Regexp::replace_all`].
pub fn escape_replacement(text: &mut Vec<u8>, start: usize) {
    if memchr::memchr(b'$', &text[start..]).is_none() {
        return;
    }
    let tail = text.split_off(start);
    for byte in tail {
        text.extend(core::iter::repeat_n(byte, if byte == b'$' { 2 } else { 1 }));
    }
}

/// Rewrites what Go reads differently from the regex crate: `\Q…\E`, braces that repeat nothing,
/// and in classes a plain `[`, `&&`, `--` and `~~`; `\<` and `\>`, which are plain there.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut class = Class::Outside;
    while let Some(letter) = rest.chars().next() {
        let tail = &rest[letter.len_utf8()..];
        if letter == '\\' {
            rest = translate_escape(tail, &mut out);
            class = class.after(letter);
            continue;
        }
        match (class, letter) {
            (Class::Outside, '[') => out.push('['),
            (Class::Outside, '{') if !is_repetition(tail) => out.push_str("\\{"),
            (Class::Outside, _) => out.push(letter),
            // A bracket right after the opening one, or after its `^`, is plain in both languages.
            (Class::Start | Class::Negated, ']') => out.push_str("\\]"),
            (Class::Start | Class::Negated | Class::Inside, '[') if !tail.starts_with(':') => {
                out.push_str("\\[");
            }
            (Class::Start | Class::Negated | Class::Inside, '[') => {
                // A class by name, such as `[:alpha:]`, is copied up to its end.
                let end = tail.find(":]").map_or(0, |at| at + 2);
                out.push('[');
                out.push_str(&tail[..end]);
                rest = &tail[end..];
                class = Class::Inside;
                continue;
            }
            (Class::Start | Class::Negated | Class::Inside, '&' | '~') => {
                out.push('\\');
                out.push(letter);
            }
            (Class::Start | Class::Negated, '-') => out.push_str("\\-"),
            // The second of two hyphens is the end of a range, not part of an operator.
            (Class::Inside, '-') if out.ends_with('-') && !out.ends_with("\\-") => {
                out.push_str("\\-")
            }
            (Class::Start | Class::Negated | Class::Inside, _) => out.push(letter),
        }
        class = class.after(letter);
        rest = tail;
    }
    out
}

/// Where in a bracket expression the translation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Outside,
    Start,
    Negated,
    Inside,
}

impl Class {
    fn after(self, letter: char) -> Class {
        match (self, letter) {
            (Class::Outside, '[') => Class::Start,
            (Class::Outside, _) => Class::Outside,
            (Class::Start, '^') => Class::Negated,
            (Class::Inside, ']') => Class::Outside,
            (Class::Start | Class::Negated | Class::Inside, _) => Class::Inside,
        }
    }
}

/// Copies what stands after a backslash and returns what stands behind it.
fn translate_escape<'a>(tail: &'a str, out: &mut String) -> &'a str {
    if let Some(quoted) = tail.strip_prefix('Q') {
        let (plain, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        for letter in plain.chars() {
            if letter.is_ascii_punctuation() {
                out.push('\\');
            }
            out.push(letter);
        }
        return rest;
    }
    let Some(letter) = tail.chars().next() else {
        out.push('\\');
        return tail;
    };
    match letter {
        '<' | '>' => out.push(letter),
        'p' | 'P' if tail[1..].starts_with('{') => {
            let end = tail.find('}').map_or(tail.len(), |at| at + 1);
            out.push('\\');
            out.push_str(&tail[..end]);
            return &tail[end..];
        }
        'x' if tail[1..].starts_with('{') => {
            let end = tail.find('}').map_or(tail.len(), |at| at + 1);
            out.push('\\');
            out.push_str(&tail[..end]);
            return &tail[end..];
        }
        _ => {
            out.push('\\');
            out.push(letter);
        }
    }
    &tail[letter.len_utf8()..]
}

/// Whether what stands after a brace makes it a repetition: `3}`, `3,}` or `3,5}`.
fn is_repetition(tail: &str) -> bool {
    let Some((inside, _)) = tail.split_once('}') else {
        return false;
    };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match inside.split_once(',') {
        None => number(inside),
        Some((min, max)) => number(min) && (max.is_empty() || number(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_of_go_is_read() {
        for (pattern, text, expected) in [
            (r"^/a{2}$", "/aa", true),
            (r"^/a{,2}$", "/a{,2}", true),
            (r"^{x}$", "{x}", true),
            (r"\Qa.b\E$", "a.b", true),
            (r"\Qa.b\E$", "axb", false),
            (r"^[[]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[^]a]$", "b", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]+$", "+,-", true),
            (r"^[[:alpha:]_]+$", "a_", true),
            (r"^\<\>$", "<>", true),
            (r"^(?P<name>\w+)/(?<other>\d+)$", "ab/12", true),
            (r"^\/x\_y\-z$", "/x_y-z", true),
            (r"^(?i)ABC$", "abc", true),
            (r"^\x{41}\x42$", "AB", true),
        ] {
            let regexp = Regexp::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(
                regexp.is_match(text.as_bytes()),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn no_byte_slips_past_an_expression() {
        let regexp = Regexp::new(r"^/secret/[^/]+/.*$").unwrap();
        assert!(regexp.is_match(b"/secret/\xff\xfe/\x80"));
        assert!(Regexp::new(r"^\w$").unwrap().is_match(b"a"));
        assert!(
            !Regexp::new(r"^\w+$").unwrap().is_match("é".as_bytes()),
            "\\w is ASCII, as in Go"
        );
        assert!(
            Regexp::new(r"^[à-ü]\p{L}$")
                .unwrap()
                .is_match("éß".as_bytes())
        );
    }

    #[test]
    fn patterns_that_need_too_much_memory_are_refused() {
        assert!(matches!(
            Regexp::new(r"(((a{100}){100}){100})"),
            Err(RegexpError::Refused(_))
        ));
        assert!(Regexp::new(&"(".repeat(100_000)).is_err());
        assert!(Regexp::new("(").is_err());
    }

    #[test]
    fn replacements_name_groups_and_values_cannot() {
        let regexp = Regexp::new(r"/(\w+)/(?P<rest>.*)").unwrap();
        assert_eq!(regexp.replace_all(b"/a/b", b"/${rest}/$1$$"), b"/b/a$");
        let mut value = b"x$1".to_vec();
        escape_replacement(&mut value, 1);
        assert_eq!(regexp.replace_all(b"/a/b", &value), b"x$1");
    }
}
