//! Texts with placeholders, parsed once when the configuration is built. Implementations of [`Values`] provide the
//! values.

mod file_path;
mod key;
pub mod nginx;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use file_path::{Provenance, UnfitPath};
pub use key::{
    ClientCertKey, ErrorKey, FileKey, HeaderKey, Key, ProxyKey, SanKind, SystemKey, TimeKey, TlsKey,
};
pub use nginx::NginxKey;

use crate::limits::PLACEHOLDERS_MAX;

/// Whether a source of values knows a key. A known key may have an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The value, possibly empty, was appended.
    Known,
    /// Nothing was appended.
    Unknown,
}

/// What a value is, for those who compare values rather than texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Integer,
    /// A number that may have a fraction.
    Float,
    /// `true` or `false`.
    Flag,
    /// A length of time, such as `1.5ms`.
    Duration,
    /// A point in time.
    Moment,
    /// Nothing was set: the text is empty.
    Null,
}

/// A source of values for placeholders.
pub trait Values {
    /// Appends the value of `key` to `out` and returns whether the key is known. An unknown key appends nothing.
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found;

    /// What the value of `key` is, where it is known.
    fn kind(&self, key: &Key) -> Kind {
        key.kind()
    }

    /// Where the value of `key` comes from: what it may contribute to the path of a file.
    fn provenance(&self, key: &Key) -> Provenance {
        key.provenance()
    }
}

/// A source that knows no key.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoValues;

impl Values for NoValues {
    fn value(&self, _key: &Key, _out: &mut Vec<u8>) -> Found {
        Found::Unknown
    }
}

/// What becomes of placeholders whose key is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They vanish: what rewrites, redirects, roots and matchers do.
    Empty,
    /// Unknown placeholders stay as written, as in the bodies of static responses, so that JSON and CSS survive there,
    /// and in headers and error messages.
    Keep,
}

/// Why a text is not a valid template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// It holds more placeholders than [`PLACEHOLDERS_MAX`].
    TooManyPlaceholders,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::TooManyPlaceholders => {
                write!(f, "more than {PLACEHOLDERS_MAX} placeholders in one text")
            }
        }
    }
}

impl core::error::Error for TemplateError {}

/// A text with placeholders.
///
/// `{key}` is a placeholder, `\{` and `\}` are plain braces, and a brace that nothing closes is
/// plain too. Values are inserted once and never read for placeholders again, so what a client
/// sends stays data.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Placeholder(Placeholder),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placeholder {
    /// The text with its braces, for where it is kept because its key is unknown.
    text: Vec<u8>,
    key: Key,
    /// For a text like `{"a": "{key}`, whose first brace opens no known key: the innermost brace,
    /// with its place in `text`.
    inner: Option<(usize, Key)>,
}

impl Template {
    /// Parses `text`.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut parts = Parts::default();
        for piece in Pieces::of(text) {
            match piece {
                Piece::Byte(byte) => parts.literal.push(byte),
                Piece::Placeholder(text) => parts.push_placeholder(text)?,
            }
        }
        parts.end_literal();
        Ok(Template {
            source: text.into(),
            parts: parts.list,
        })
    }

    /// The template of one placeholder, `name` without its braces.
    pub fn of_placeholder(name: &str) -> Template {
        let source = alloc::format!("{{{name}}}");
        let placeholder = Placeholder {
            text: source.as_bytes().into(),
            key: Key::parse(name),
            inner: None,
        };
        Template {
            source,
            parts: [Part::Placeholder(placeholder)].into(),
        }
    }

    /// A template that is `text` as it stands, braces included.
    pub fn from_literal(text: &str) -> Template {
        let parts = if text.is_empty() {
            Vec::new()
        } else {
            [Part::Literal(text.into())].into()
        };
        Template {
            source: text.into(),
            parts,
        }
    }

    /// The text this was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The whole text, if it holds no placeholder.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The key, if the text is one placeholder and nothing else.
    pub fn single(&self) -> Option<&Key> {
        match self.parts.as_slice() {
            [Part::Placeholder(placeholder)] if placeholder.inner.is_none() => {
                Some(&placeholder.key)
            }
            _ => None,
        }
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Placeholder(placeholder) => Some(&placeholder.key),
        })
    }

    /// The plain bytes of the text, without its placeholders.
    pub fn plain_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.parts
            .iter()
            .flat_map(|part| match part {
                Part::Literal(text) => text.as_slice(),
                Part::Placeholder(_) => &[],
            })
            .copied()
    }

    /// Appends the text with its placeholders replaced to `out`.
    pub fn expand(&self, values: &dyn Values, unknown: Unknown, out: &mut Vec<u8>) {
        self.expand_each(values, unknown, out, |_, _, _| ());
    }

    /// As [`Template::expand`], but calls `edit(key, out, start)` after each value; it may change
    /// what stands in `out` from `start` on, and nothing else.
    pub fn expand_each(
        &self,
        values: &dyn Values,
        unknown: Unknown,
        out: &mut Vec<u8>,
        mut edit: impl FnMut(&Key, &mut Vec<u8>, usize),
    ) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Placeholder(placeholder) => {
                    placeholder.expand(values, unknown, out, &mut edit)
                }
            }
        }
    }

    /// The text with its placeholders replaced: borrowed where there are none, else written into
    /// the empty `buf`.
    pub fn resolve<'a>(&'a self, values: &dyn Values, buf: &'a mut Vec<u8>) -> &'a [u8] {
        match self.literal() {
            Some(text) => text,
            None => {
                buf.clear();
                self.expand(values, Unknown::Empty, buf);
                buf
            }
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl Placeholder {
    /// Parses `text`, a placeholder with its braces.
    fn parse(text: &str) -> Placeholder {
        let name = &text[1..text.len() - 1];
        let mut kept = Vec::with_capacity(text.len());
        let mut inner = None;
        for (at, byte) in text.bytes().enumerate() {
            let braced = at > 1 && text.as_bytes()[at - 1] == b'\\' && matches!(byte, b'{' | b'}');
            if braced {
                kept.pop();
            } else if at > 0 && byte == b'{' {
                inner = Some((kept.len(), at));
            }
            kept.push(byte);
        }
        let inner = inner.map(|(kept_at, at)| (kept_at, Key::parse(&name[at..])));
        Placeholder {
            text: kept,
            key: Key::parse(name),
            inner,
        }
    }

    fn expand(
        &self,
        values: &dyn Values,
        unknown: Unknown,
        out: &mut Vec<u8>,
        edit: &mut impl FnMut(&Key, &mut Vec<u8>, usize),
    ) {
        let start = out.len();
        if values.value(&self.key, out) == Found::Known {
            return edit(&self.key, out, start);
        }
        debug_assert_eq!(out.len(), start, "an unknown key appends nothing");
        if unknown == Unknown::Empty {
            return;
        }
        if let Some((at, key)) = &self.inner {
            out.extend_from_slice(&self.text[..*at]);
            let value_at = out.len();
            if values.value(key, out) == Found::Known {
                return edit(key, out, value_at);
            }
            out.truncate(start);
        }
        out.extend_from_slice(&self.text);
    }
}

/// Calls `visit` with the key of each placeholder in `text`, however many there are, and with the innermost keys of
/// texts like `{"a": "{key}`. For those who only need to know what a text refers to.
pub fn each_key(text: &str, mut visit: impl FnMut(&Key)) {
    for piece in Pieces::of(text) {
        match piece {
            Piece::Byte(_) => {}
            Piece::Placeholder(text) => {
                let placeholder = Placeholder::parse(text);
                visit(&placeholder.key);
                placeholder.inner.iter().for_each(|(_, key)| visit(key));
            }
        }
    }
}

/// The pieces of a text, from the start.
struct Pieces<'t> {
    text: &'t str,
    at: usize,
    /// The first closing brace from `at` on. Looked for only once it is passed, so that braces which nothing closes cost
    /// no search each.
    close: Option<usize>,
}

enum Piece<'t> {
    /// A byte outside of placeholders.
    Byte(u8),
    /// A placeholder with its braces.
    Placeholder(&'t str),
}

impl<'t> Pieces<'t> {
    fn of(text: &'t str) -> Pieces<'t> {
        Pieces {
            text,
            at: 0,
            close: closing_brace(text.as_bytes(), 0),
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let (bytes, at) = (self.text.as_bytes(), self.at);
        let byte = *bytes.get(at)?;
        if byte == b'\\'
            && let Some(escaped @ (b'{' | b'}')) = bytes.get(at + 1)
        {
            self.at += 2;
            return Some(Piece::Byte(*escaped));
        }
        if self.close.is_some_and(|close| close < at) {
            self.close = closing_brace(bytes, at);
        }
        match self.close.filter(|_| byte == b'{') {
            Some(end) => {
                self.at = end + 1;
                Some(Piece::Placeholder(&self.text[at..=end]))
            }
            None => {
                self.at += 1;
                Some(Piece::Byte(byte))
            }
        }
    }
}

/// The first closing brace from `from` on that no backslash stands before.
fn closing_brace(bytes: &[u8], from: usize) -> Option<usize> {
    let unescaped = |&at: &usize| at == 0 || bytes[at - 1] != b'\\';
    memchr::memchr_iter(b'}', &bytes[from..])
        .map(|at| from + at)
        .find(unescaped)
}

#[derive(Default)]
struct Parts {
    list: Vec<Part>,
    literal: Vec<u8>,
    placeholders: usize,
}

impl Parts {
    fn end_literal(&mut self) {
        if !self.literal.is_empty() {
            self.list
                .push(Part::Literal(core::mem::take(&mut self.literal)));
        }
    }

    /// Takes `text`, a placeholder with its braces.
    fn push_placeholder(&mut self, text: &str) -> Result<(), TemplateError> {
        self.end_literal();
        self.placeholders += 1;
        if self.placeholders > PLACEHOLDERS_MAX {
            return Err(TemplateError::TooManyPlaceholders);
        }
        self.list.push(Part::Placeholder(Placeholder::parse(text)));
        Ok(())
    }
}
