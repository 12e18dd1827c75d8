//! Tests of splitting a text into words.

use super::*;
use crate::loader::MemoryLoader;
use crate::substitute::substitute;

/// The words of each line, and the slugs of what was reported.
fn run(text: &str) -> (Vec<Vec<String>>, Vec<&'static str>) {
    let mut report = Report::new();
    let id = report.sources.add("t", text);
    let substituted = substitute(id, text, &MemoryLoader::default());
    let mut lines: Vec<Vec<String>> = Vec::new();
    for Lexeme { token, starts_line } in lex(&substituted, None, &mut report).lexemes {
        if starts_line {
            lines.push(Vec::new());
        }
        lines.last_mut().unwrap().push(token.text);
    }
    let slugs = report.sorted().iter().map(|found| found.slug).collect();
    (lines, slugs)
}

fn words(text: &str) -> Vec<String> {
    let (lines, slugs) = run(text);
    assert_eq!(slugs, [""; 0], "{text:?}");
    lines.concat()
}

#[test]
fn line_endings_and_marks_of_other_systems_are_not_text() {
    assert_eq!(
        run("\u{feff}a b\r\nc\\\r\n d\r\n").0,
        [vec!["a", "b"], vec!["c", "d"]]
    );
    assert_eq!(words("a\rb"), ["ab"]);
    assert_eq!(words("x <<E\r\n a\r\n\r\n b\r\n E\r\n"), ["x", "a\n\nb"]);
    assert_eq!(words("\"a\r\nb\""), ["a\r\nb"]);
}

#[test]
fn white_space_is_that_of_unicode() {
    assert_eq!(
        words("a\u{a0}b\u{2003}c\td\u{b}e"),
        ["a", "b", "c", "d", "e"]
    );
}

#[test]
fn words_may_touch_behind_quotes_only() {
    let (lines, slugs) = run("\"a\"b `c``d` e\"f");
    assert_eq!(lines, [["a", "b", "c", "d", "e\"f"]]);
    assert_eq!(slugs, ["quote-needs-space"; 2]);
}

#[test]
fn escapes_are_kept_where_they_mean_nothing() {
    assert_eq!(
        words(r#""a\n\\\"b" c\d e\\ `\` \ f\ "#),
        [r#"a\n\\"b"#, r"c\d", r"e\\", r"\", r"\f"]
    );
}

#[test]
fn a_backslash_alone_escapes_the_next_word_of_its_line() {
    assert_eq!(words(r"\ a \  \ b \ <<E"), [r"\a", r"\\", "b", "<<E"]);
    assert_eq!(
        words(r#"\ "a b" \ ""a" \ "\b" \ `c d`"#),
        [r"\a b", r#""a"#, r"\\b", "c d"]
    );
    assert_eq!(run(r#"a \ "b"#).1, ["unterminated-quote"]);
}

#[test]
fn a_backslash_continues_a_line_alone_or_at_the_end_of_a_word() {
    assert_eq!(run("a \\\nb\nc\\\nd \\ \n e \\ # x\nf").0.len(), 2);
    assert_eq!(run("a \\\n\nb").0.len(), 2);
    assert_eq!(run("a b\\").0, [["a", "b"]]);
    assert_eq!(run("a b\\\\\nc").0.len(), 2);
    assert_eq!(run("a b\\ \nc").0.len(), 2);
}

#[test]
fn a_backslash_behind_quotes_stands_alone() {
    for end in [
        "\\\n", "\\ \n", "\\ # x\n", "\\# x\n", " \\# x\n", "\\ \r\n",
    ] {
        for word in ["\"b\"", "`b`", "<<E\nb\nE "] {
            let text = format!("a {word}{end}c");
            assert_eq!(run(&text).0, [["a", "b", "c"]], "{text:?}");
        }
    }
}

#[test]
fn comments_start_at_a_word_and_end_with_the_line() {
    assert_eq!(run("a#b # c \\\nd#\n#e").0, [vec!["a#b"], vec!["d#"]]);
}

#[test]
fn heredocs_end_at_their_marker_on_its_own_line() {
    assert_eq!(
        words("x <<E\n  THE E\n   Ex\n\n  E y\nz"),
        ["x", "THE E\n Ex\n", "y", "z"]
    );
    assert_eq!(words("x <<E\nE\ny"), ["x", "", "y"]);
    assert_eq!(words("<<E x\n\\<<E\n<"), ["<<E", "x", "<<E", "<"]);
}

#[test]
fn every_text_has_words_or_a_report() {
    assert_eq!(run("").0.len(), 0);
    for (text, slug) in [
        ("a \"b", "unterminated-quote"),
        ("a <<\nb", "heredoc-marker"),
        ("a <<E \nb\nE", "heredoc-marker"),
        ("a <<E\nb", "unterminated-heredoc"),
        ("a <<E", "unterminated-heredoc"),
        ("a <<E\n b\n  E", "heredoc-indent"),
        ("a {$B", "malformed-variable"),
        ("a {$B}", "unset-variable"),
    ] {
        assert_eq!(run(text).1, [slug], "{text:?}");
    }
    assert_eq!(run("a # {$B} {$C").1, [""; 0]);
}
