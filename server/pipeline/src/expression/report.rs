//! Reports errors in expressions with their position in the configuration.

use sluice_diag::{Diagnostic, ImportId, Report, Span};

use super::{Mistake, check};

/// Characters of an expression that a message shows if it cannot point at the source.
const SHOWN_CHARS: usize = 24;

/// Checks an expression that was written at `span`, and reports an error in it.
pub fn report(text: &str, span: Span, import: Option<ImportId>, report: &mut Report) {
    let Err(mistake) = check(text) else { return };
    let (span, label) = place(text, span, &mistake, report);
    let mut diagnostic = Diagnostic::error("invalid-expression", mistake.message)
        .at(span, label)
        .imported(import);
    if !mistake.help.is_empty() {
        diagnostic = diagnostic.help(mistake.help);
    }
    report.push(diagnostic);
}

fn place(text: &str, span: Span, mistake: &Mistake, report: &Report) -> (Span, String) {
    let rest = text.get(mistake.at..).unwrap_or_default();
    let Some(within) = place_in_words(report.sources.text(span), text, mistake.at) else {
        let shown: String = rest.chars().take(SHOWN_CHARS).collect();
        return (span, format!("at `{shown}`"));
    };
    let bound = |at: usize| u32::try_from(at).unwrap_or(u32::MAX).min(span.end);
    let start = span.start as usize + within;
    let length = rest.chars().next().map_or(0, char::len_utf8);
    let label = if rest.is_empty() {
        "more was expected here"
    } else {
        "here"
    };
    (
        Span::new(span.source, bound(start), bound(start + length)),
        label.to_owned(),
    )
}

/// Maps the offset `at` in an expression's text to the source `words` it was parsed from, which may have quotes around
/// them, escapes, other white space, and placeholder shorthands. `None` if the text does not correspond to the words.
fn place_in_words(words: &str, text: &str, at: usize) -> Option<usize> {
    let (words, text) = (words.as_bytes(), text.as_bytes());
    let (mut word, mut read) = (0, 0);
    if words.first() != text.first() && matches!(words.first(), Some(b'`' | b'"')) {
        word = 1;
    }
    // The latest opening brace in both.
    let mut brace = None;
    while read < at {
        let (from, to) = (*words.get(word)?, text[read]);
        if from == to {
            if to == b'{' {
                brace = Some((word, read));
            }
            (word, read) = (word + 1, read + 1);
        } else if is_left_out(words, word, to)
            || (read > 0 && text[read - 1] == b' ' && from.is_ascii_whitespace())
        {
            word += 1;
        } else if to == b' ' && from.is_ascii_whitespace() {
            (word, read) = (word + 1, read + 1);
        } else {
            let (brace_word, brace_read) = brace.take()?;
            let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'}');
            word = brace_word + end(&words[brace_word..])? + 1;
            read = brace_read + end(&text[brace_read..])? + 1;
            if at < read {
                return Some(brace_word);
            }
        }
    }
    while words.get(word).is_some_and(u8::is_ascii_whitespace)
        && text.get(at).is_some_and(|b| *b != words[word])
    {
        word += 1;
    }
    Some(word)
}

/// Whether the byte at `at` is a backslash that escapes `next`.
fn is_left_out(words: &[u8], at: usize, next: u8) -> bool {
    words[at] == b'\\' && words.get(at + 1) == Some(&next)
}

#[cfg(test)]
mod tests {
    use super::place_in_words;

    #[test]
    fn places_are_found_in_what_was_written() {
        for (words, text, found) in [
            ("`1 + X`", "1 + X", "X"),
            ("{method} == X", "{http.request.method} == X", "X"),
            (
                "`{method} == {path} X`",
                "{http.request.method} == {http.request.uri.path} X",
                "X",
            ),
            ("{method}   ==   X", "{http.request.method} == X", "X"),
            ("\"a == \\\"b\\\" X\"", "a == \"b\" X", "X"),
            ("path('/a')  X", "path('/a') X", "X"),
            ("`{method} ==`", "{http.request.method} ==", "`"),
        ] {
            let at = text.find('X').unwrap_or(text.len());
            assert_eq!(
                place_in_words(words, text, at),
                words.rfind(found),
                "{words}"
            );
        }
        assert_eq!(
            place_in_words("`{method} == 1`", "{http.request.method} == 1", 3),
            Some(1)
        );
        assert_eq!(place_in_words("{args[0]} X", "something X", 10), None);
    }
}
