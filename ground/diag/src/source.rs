//! Source texts, spans into them, and the imports through which they were reached.
//!
//! The caller reads the files.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Names one text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

/// Names one step of an import chain in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(u32);

/// Bytes `start..end` of one source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

/// One expansion: what stands at `at` was replaced by the text that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportStep {
    /// The importing words.
    pub at: Span,
    /// What was imported, as a message names it: ``snippet `logging` `` or ``file `a.conf` ``.
    pub what: String,
    /// The import that brought in the importing words themselves.
    pub parent: Option<ImportId>,
}

/// A place as editors count it: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Character within the line, from 1; a tab is one character.
    pub column: u32,
}

/// One text with the name that messages give it.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: Arc<str>,
    line_starts: Vec<u32>,
}

/// All texts that one run has read, and the imports between them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    sources: Vec<Source>,
    imports: Vec<ImportStep>,
}

impl Span {
    /// Bytes `start..end` of `source`.
    pub fn new(source: SourceId, start: u32, end: u32) -> Self {
        Span {
            source,
            start,
            end: end.max(start),
        }
    }

    /// The span from the start of `self` to the end of `last`, or `self` if `last` is elsewhere.
    pub fn to(self, last: Span) -> Span {
        if last.source != self.source || last.end < self.start {
            return self;
        }
        Span {
            end: last.end,
            ..self
        }
    }

    /// Whether `other` lies inside.
    pub fn contains(self, other: Span) -> bool {
        self.source == other.source && self.start <= other.start && other.end <= self.end
    }
}

impl Source {
    fn new(name: String, text: Arc<str>) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let line_starts = core::iter::once(0)
            .chain(newlines.map(|(i, _)| offset(i + 1)))
            .collect();
        Source {
            name,
            text,
            line_starts,
        }
    }

    /// What messages call this text, usually its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text, shared.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Line and column of a byte offset; offsets behind the end stand for the end.
    pub fn position(&self, at: u32) -> Position {
        let at = self.floor(at);
        let index = self.line_index(at);
        let before = &self.text[self.line_starts[index] as usize..at as usize];
        Position {
            line: offset(index + 1),
            column: offset(before.chars().count() + 1),
        }
    }

    /// The line that holds a byte offset: its number from 1, its first offset, and its text
    /// without the line ending.
    pub fn line(&self, at: u32) -> (u32, u32, &str) {
        let index = self.line_index(self.floor(at));
        let start = self.line_starts[index];
        let end = self
            .line_starts
            .get(index + 1)
            .map_or(self.text.len(), |next| *next as usize);
        let line = &self.text[start as usize..end];
        let line = line.strip_suffix('\n').unwrap_or(line);
        (
            offset(index + 1),
            start,
            line.strip_suffix('\r').unwrap_or(line),
        )
    }

    fn line_index(&self, at: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= at) - 1
    }

    /// The nearest character boundary at or before `at`.
    fn floor(&self, at: u32) -> u32 {
        let mut at = (at as usize).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        offset(at)
    }
}

impl Sources {
    /// No texts yet.
    pub fn new() -> Self {
        Sources::default()
    }

    /// Adds a text. The same file may be added again; each reading has its own id.
    ///
    /// Texts of 4 GiB and more are cut there, since offsets are 32 bits wide; readers refuse such
    /// files long before.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let mut text = text.into();
        if text.len() >= u32::MAX as usize {
            let mut end = u32::MAX as usize - 1;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text = Arc::from(&text[..end]);
        }
        self.sources.push(Source::new(name.into(), text));
        SourceId(offset(self.sources.len() - 1))
    }

    /// The text that `add` named so.
    pub fn source(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }

    /// All texts, in the order in which they were added.
    pub fn all(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }

    /// The characters of a span; empty where the span does not lie on character boundaries.
    pub fn text(&self, span: Span) -> &str {
        let text: &str = self.source(span.source).text();
        text.get(span.start as usize..span.end as usize)
            .unwrap_or("")
    }

    /// Notes an expansion and names it for the tokens it brings in.
    pub fn add_import(&mut self, step: ImportStep) -> ImportId {
        self.imports.push(step);
        ImportId(offset(self.imports.len() - 1))
    }

    /// The steps of a chain, innermost first.
    pub fn import_chain(&self, innermost: Option<ImportId>) -> impl Iterator<Item = &ImportStep> {
        let step = |id: Option<ImportId>| id.map(|id| &self.imports[id.0 as usize]);
        core::iter::successors(step(innermost), move |found| step(found.parent))
    }

    /// `name:line:column` of where a span starts.
    pub fn place(&self, span: Span) -> String {
        let source = self.source(span.source);
        let Position { line, column } = source.position(span.start);
        alloc::format!("{}:{line}:{column}", source.name)
    }
}

/// `Sources::add` keeps every text below 4 GiB, and so every offset and count.
fn offset(value: usize) -> u32 {
    u32::try_from(value).expect("texts are shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("t".into(), Arc::from(text))
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let text = source("é\tx\r\nyß!");
        assert_eq!(text.position(3), Position { line: 1, column: 3 });
        assert_eq!(text.position(7), Position { line: 2, column: 2 });
        assert_eq!(text.position(99), Position { line: 2, column: 4 });
    }

    #[test]
    fn an_offset_inside_a_character_stands_for_its_start() {
        assert_eq!(source("aé").position(2), Position { line: 1, column: 2 });
    }

    #[test]
    fn lines_come_without_their_ending() {
        let text = source("one\r\ntwo\n");
        assert_eq!(text.line(1), (1, 0, "one"));
        assert_eq!(text.line(5), (2, 5, "two"));
        assert_eq!(text.line(9), (3, 9, ""));
        assert_eq!(source("").line(0), (1, 0, ""));
    }

    #[test]
    fn chains_are_walked_from_the_inside() {
        let mut sources = Sources::new();
        let id = sources.add("a", "import b");
        let step = |what: &str, parent| ImportStep {
            at: Span::new(id, 0, 6),
            what: what.into(),
            parent,
        };
        let outer = sources.add_import(step("outer", None));
        let inner = sources.add_import(step("inner", Some(outer)));
        let names: Vec<_> = sources
            .import_chain(Some(inner))
            .map(|s| s.what.as_str())
            .collect();
        assert_eq!(names, ["inner", "outer"]);
        assert_eq!(sources.import_chain(None).count(), 0);
    }
}
