//! The text of an expression before it is parsed: placeholders become calls of `ph`, which CEL can read, and places
//! in the new text are led back to the old one. What the calls give is left to `values`.

/// What a placeholder becomes.
pub(super) const PLACEHOLDER_FUNCTION: &str = "ph";

/// What stands for the request in calls of `ph`; nothing else can be asked of it.
pub(super) const REQUEST: &str = "req";

/// A text whose placeholders are calls.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    /// Where pieces of the text came from, ascending.
    pieces: Vec<Piece>,
}

/// A piece of the text: where it begins in the new and in the old one, and whether it is the same in both.
#[derive(Clone, Copy, Debug)]
struct Piece {
    new: usize,
    old: usize,
    same: bool,
}

impl Source {
    /// Writes each `{name}` as `ph(req, "name")`, and `\{name}` as `{name}`. As in Caddy this does not look whether a
    /// placeholder stands inside of quotes.
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
        while let Some(found) = original[at..].find('{') {
            let brace = at + found;
            source.text.push_str(&original[at..brace]);
            let escaped = original[..brace].ends_with('\\');
            match name_length(&original[brace + 1..]) {
                Some(length) => {
                    let name = &original[brace + 1..brace + 1 + length];
                    let end = brace + length + 2;
                    if escaped {
                        source.text.pop();
                        source.text.push_str(&original[brace..end]);
                    } else {
                        source.push_piece(brace, false);
                        source
                            .text
                            .push_str(&format!("{PLACEHOLDER_FUNCTION}({REQUEST}, \"{name}\")"));
                    }
                    source.push_piece(end, true);
                    at = end;
                }
                None => {
                    source.text.push('{');
                    at = brace + 1;
                }
            }
        }
        source.text.push_str(&original[at..]);
        source
    }

    fn push_piece(&mut self, old: usize, same: bool) {
        let new = self.text.len();
        self.pieces.push(Piece { new, old, same });
    }

    /// The place in the old text of a place in the new one; the beginning of a placeholder for what was written in
    /// its stead.
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

/// The length of the placeholder's name that a text begins with, if a brace closes it.
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
