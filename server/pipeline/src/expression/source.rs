//! Prepares the text of an expression for parsing: placeholders become calls of `ph`, which are valid CEL, and
//! positions in the new text map back to the original. `values` evaluates the calls.

/// The function that replaces a placeholder.
pub(super) const PLACEHOLDER_FUNCTION: &str = "ph";

/// The name of the request in calls of `ph`; it cannot be used otherwise.
pub(super) const REQUEST: &str = "req";

/// A text with placeholders replaced by calls.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    /// The origins of the pieces of the text, in ascending order.
    pieces: Vec<Piece>,
}

/// A piece of the text: its start in the new and in the original text, and whether both are the same.
#[derive(Clone, Copy, Debug)]
struct Piece {
    new: usize,
    old: usize,
    same: bool,
}

impl Source {
    /// Replaces each `{name}` by `ph(req, "name")`, and `\{name}` by `{name}`. As in Caddy this also applies inside
    /// string literals.
    pub(super) fn new(original: &str) -> Source {
        let mut source = Source {
            text: String::with_capacity(original.len() + 64),
            pieces: vec![Piece {
                new: 0,
                old: 0,
                same: true,
            }],
        };
        let mut at = 0;
        for Braced {
            brace,
            name,
            escaped,
        } in braced(original)
        {
            source.text.push_str(&original[at..brace]);
            at = brace + name.len() + 2;
            if escaped {
                source.text.pop();
                source.text.push_str(&original[brace..at]);
            } else {
                source.push_piece(brace, false);
                source
                    .text
                    .push_str(&format!("{PLACEHOLDER_FUNCTION}({REQUEST}, \"{name}\")"));
            }
            source.push_piece(at, true);
        }
        source.text.push_str(&original[at..]);
        source
    }

    fn push_piece(&mut self, old: usize, same: bool) {
        let new = self.text.len();
        self.pieces.push(Piece { new, old, same });
    }

    /// Maps a position in the new text to the original; a position in a replaced placeholder maps to its start.
    pub(super) fn original_place(&self, at: usize) -> usize {
        let after = self.pieces.partition_point(|piece| piece.new <= at);
        let piece = self.pieces[after - 1];
        if piece.same {
            piece.old + at - piece.new
        } else {
            piece.old
        }
    }

    /// The byte offset of a character, counted from 0.
    pub(super) fn offset_of_character(&self, index: usize) -> usize {
        let mut characters = self.text.char_indices();
        characters.nth(index).map_or(self.text.len(), |(at, _)| at)
    }
}

/// The names of the placeholders in an expression, in order.
pub fn placeholder_names(expression: &str) -> impl Iterator<Item = &str> {
    braced(expression)
        .filter(|braced| !braced.escaped)
        .map(|braced| braced.name)
}

/// A name in braces.
struct Braced<'t> {
    /// The position of the opening brace.
    brace: usize,
    name: &'t str,
    /// Whether a backslash stands before the brace.
    escaped: bool,
}

/// The names in braces in an expression, in order.
fn braced(text: &str) -> impl Iterator<Item = Braced<'_>> {
    text.match_indices('{').filter_map(|(brace, _)| {
        let rest = &text[brace + 1..];
        let name = &rest[..name_length(rest)?];
        let escaped = text[..brace].ends_with('\\');
        Some(Braced {
            brace,
            name,
            escaped,
        })
    })
}

/// The length of the placeholder name at the start of a text, if it ends with a closing brace.
fn name_length(text: &str) -> Option<usize> {
    let length = text
        .bytes()
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)))?;
    let whole = text.as_bytes()[length] == b'}' && length >= 2;
    (whole && text.as_bytes()[0].is_ascii_alphabetic()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_calls() {
        for (original, text) in [
            ("{a.b} == 'x'", "ph(req, \"a.b\") == 'x'"),
            ("path('/x') && {a.b-c}", "path('/x') && ph(req, \"a.b-c\")"),
            ("'{a.b}'", "'ph(req, \"a.b\")'"),
            ("'\\{a.b}'", "'{a.b}'"),
            ("{'a': 1}", "{'a': 1}"),
            ("{a b}", "{a b}"),
            ("{}", "{}"),
            ("{1a}", "{1a}"),
            ("{a", "{a"),
            ("", ""),
        ] {
            assert_eq!(Source::new(original).text, text);
        }
    }

    #[test]
    fn names_of_placeholders_are_listed() {
        let names = |text| placeholder_names(text).collect::<Vec<_>>();
        assert_eq!(
            names("{a.b} == '{c.d}' && {'e': 1} && '\\{f.g}'"),
            ["a.b", "c.d"]
        );
        assert!(names("true").is_empty());
    }

    #[test]
    fn places_lead_back() {
        let original = "ä {a.b} == '\\{c.d}' + x";
        let source = Source::new(original);
        for word in ["ä", "==", "' + x", "x"] {
            let at = source.text.find(word).unwrap();
            assert_eq!(
                source.original_place(at),
                original.find(word).unwrap(),
                "{word}"
            );
        }
        let inside = source.text.find("req").unwrap();
        assert_eq!(source.original_place(inside), original.find('{').unwrap());
        assert_eq!(source.original_place(source.text.len()), original.len());
    }
}
