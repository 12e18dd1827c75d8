//! The literals that every match of a pattern contains, in order. Searching for them rules out most subjects that
//! cannot match before any step is tried. Only literals inside a match count: text seen by lookaround may be outside of
//! it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use memchr::memmem;

use super::tree::{ByteSet, Node};
use crate::limits::{PATTERN_LITERAL_BYTES_MAX, PATTERN_LITERALS_MAX};

/// One of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// In lower case, if case does not count.
    bytes: Box<[u8]>,
    /// Whether the case of letters does not count.
    folded: bool,
}

/// The texts of a pattern, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Required {
    literals: Vec<Literal>,
    /// Whether every match begins with the first of them.
    begins: bool,
}

impl Required {
    /// What every match of `node` has in it.
    pub fn of(node: &Node) -> Required {
        let mut reader = Reader {
            at_start: true,
            ..Reader::default()
        };
        reader.add(node);
        reader.flush();
        let mut required = reader.required;
        required.literals.truncate(PATTERN_LITERALS_MAX);
        required
    }

    /// The last position at which a match can begin; `None` if there is none.
    pub fn last_start(&self, text: &[u8]) -> Option<usize> {
        let mut end = text.len();
        for literal in self.literals.iter().rev() {
            end = literal.last_in(&text[..end])?;
        }
        Some(end)
    }

    /// The first position from `start` on at which a match can begin, which is not behind `last`.
    pub fn next_start(&self, text: &[u8], start: usize, last: usize) -> Option<usize> {
        if start > last {
            return None;
        }
        match self.literals.first().filter(|_| self.begins) {
            None => Some(start),
            Some(first) => {
                // It may reach beyond the last position at which it may begin.
                let end = (last + first.bytes.len()).min(text.len());
                Some(start + first.first_in(&text[start..end])?)
            }
        }
    }
}

impl Literal {
    fn first_in(&self, text: &[u8]) -> Option<usize> {
        match self.folded {
            false => memmem::find(text, &self.bytes),
            true => text
                .windows(self.bytes.len())
                .position(|here| here.eq_ignore_ascii_case(&self.bytes)),
        }
    }

    fn last_in(&self, text: &[u8]) -> Option<usize> {
        match self.folded {
            false => memmem::rfind(text, &self.bytes),
            true => text
                .windows(self.bytes.len())
                .rposition(|here| here.eq_ignore_ascii_case(&self.bytes)),
        }
    }
}

#[derive(Default)]
struct Reader {
    required: Required,
    bytes: Vec<u8>,
    folded: bool,
    /// Whether nothing that takes a byte came before `bytes`.
    at_start: bool,
}

impl Reader {
    fn add(&mut self, node: &Node) {
        match node {
            Node::Byte(byte) => self.bytes.push(*byte),
            Node::Set(set) => match (set.ranges().as_slice(), letter(set)) {
                (&[(first, last)], _) if first == last => self.bytes.push(first),
                (_, Some(letter)) => {
                    self.folded = true;
                    self.bytes.push(letter);
                }
                _ => self.pass(),
            },
            Node::Sequence(nodes) => nodes.iter().for_each(|node| self.add(node)),
            Node::Group(_, node) | Node::Atomic(node) => self.add(node),
            Node::Repeat { node, min, .. } => {
                // The first turn stands right behind what comes before it.
                if *min > 0 {
                    self.add(node);
                }
                self.pass();
            }
            Node::Choice(_) | Node::Back { .. } => self.pass(),
            // They take nothing: what stands before and behind them is one text.
            Node::Empty | Node::At(_) | Node::Look { .. } | Node::Keep => {}
        }
    }

    /// Something comes of which the text is not known.
    fn pass(&mut self) {
        self.flush();
        self.at_start = false;
    }

    fn flush(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let mut bytes = core::mem::take(&mut self.bytes);
        let folded = core::mem::take(&mut self.folded);
        if folded {
            bytes.make_ascii_lowercase();
        }
        if self.required.literals.is_empty() {
            self.required.begins = self.at_start;
        }
        self.at_start = false;
        // The beginning of a text that is required is required, too.
        bytes.truncate(PATTERN_LITERAL_BYTES_MAX);
        let bytes = bytes.into_boxed_slice();
        self.required.literals.push(Literal { bytes, folded });
    }
}

/// The letter of which a set has both cases and nothing else, in lower case.
fn letter(set: &ByteSet) -> Option<u8> {
    let letter = (b'a'..=b'z').find(|byte| set.has(*byte))?;
    let mut both = ByteSet::EMPTY;
    both.add(letter);
    (both.folded() == *set).then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn required(pattern: &str, folded: bool) -> Required {
        Required::of(&parse::parse(pattern.as_bytes(), folded).unwrap().node)
    }

    #[test]
    fn texts_that_every_match_has_are_found() {
        for (pattern, expected, begins) in [
            (r"/pg/.*(?<!\.min)\.js", &["/pg/", ".js"][..], true),
            (r"^/a(?!b)c/(\d+)x$", &["/ac/", "x"], true),
            (r"(?:ab)+c", &["ab", "c"], true),
            (r"(?:ab)*c", &["c"], false),
            (r"(?:ab|c)d", &["d"], false),
            (r"\w(?<=x)", &[], false),
            (r"(?=foo).*", &[], false),
            (r"a{0}b", &["b"], false),
            (r"a?b", &["b"], false),
            (r"(?!x)[.]js", &[".js"], true),
            (r"(ab)\1c", &["ab", "c"], true),
            (r"(?>ab)(?i)cd", &["abcd"], true),
        ] {
            let required = required(pattern, false);
            let texts: Vec<&[u8]> = required.literals.iter().map(|one| &*one.bytes).collect();
            let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(texts, expected, "{pattern}");
            assert_eq!(required.begins, begins, "{pattern}");
        }
    }

    #[test]
    fn a_match_begins_where_its_texts_have_room() {
        let required = required(r"/pg/.*(?!x)\.js", false);
        let text = b"/pg/a/pg/b.js/pg/";
        assert_eq!(required.last_start(text), Some(5));
        assert_eq!(required.next_start(text, 1, 5), Some(5));
        assert_eq!(required.next_start(text, 6, 5), None);
        assert_eq!(required.last_start(b"/a.js/pg/"), None);
        let folded = self::required(r"ADMIN.*(?!x)b", true);
        assert_eq!(folded.last_start(b"xaDmInB"), Some(1));
        assert_eq!(folded.next_start(b"xaDmInB", 0, 1), Some(1));
        assert_eq!(folded.last_start(b"xadmi.B"), None);
    }
}
