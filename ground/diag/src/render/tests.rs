//! Tests of the output for people.

use super::*;
use crate::source::{ImportStep, SourceId, Span};

fn report(name: &str, text: &str) -> (Report, SourceId) {
    let mut report = Report::new();
    let id = report.sources.add(name, text);
    (report, id)
}

/// The span of the first occurrence of `word`.
fn find(report: &Report, id: SourceId, word: &str) -> Span {
    let start = report.sources.source(id).text().find(word).unwrap() as u32;
    Span::new(id, start, start + word.len() as u32)
}

fn plain(report: &Report) -> String {
    report.human(Colour::Never)
}

#[test]
fn the_shape_is_the_one_of_the_house_plan() {
    let text = ":80 {\n\tlog\n\treverse_prxy localhost:9000 {\n\t}\n}\n";
    let (mut report, id) = report("Caddyfile", text);
    let span = find(&report, id, "reverse_prxy");
    let title = "unknown directive `reverse_prxy`";
    report.push(
        Diagnostic::error("unknown-directive", title)
            .at(span, "not a directive")
            .did_you_mean(Some("reverse_proxy")),
    );
    let expected = "\
error[unknown-directive]: unknown directive `reverse_prxy`
 --> Caddyfile:3:2
  |
3 |     reverse_prxy localhost:9000 {
  |     ^^^^^^^^^^^^ not a directive
  |
help: did you mean `reverse_proxy`?
";
    assert_eq!(plain(&report), expected);
    let short = "Caddyfile:3:2: error[unknown-directive]: unknown directive `reverse_prxy`\n";
    assert_eq!(report.short(), short);
}

#[test]
fn other_places_and_the_import_chain_are_shown() {
    let (mut report, id) = report("Caddyfile", "(a) {\n}\n\n# between\n(a) {\n}\nimport b\n");
    let other = report.sources.add("b", "x y\r\n");
    let import = report.sources.add_import(ImportStep {
        at: find(&report, id, "import b"),
        what: "file `b`".into(),
        parent: None,
    });
    let first = Span::new(id, 0, 3);
    let second = Span::new(id, 19, 22);
    report.push(
        Diagnostic::warning("w", "twice")
            .at(second, "again")
            .also(first, "first")
            .also(Span::new(other, 2, 3), "elsewhere")
            .imported(Some(import))
            .note("a fact"),
    );
    let expected = "\
warning[w]: twice
 --> Caddyfile:5:1
  |
1 | (a) {
  | --- first
...
5 | (a) {
  | ^^^ again
 ::: b:1:3
  |
1 | x y
  |   - elsewhere
  |
note: in file `b`, imported at Caddyfile:7:1
note: a fact
";
    assert_eq!(plain(&report), expected);
}

#[test]
fn empty_files_and_ends_can_be_pointed_at() {
    let (mut report, id) = report("empty", "");
    report.push(Diagnostic::error("e", "nothing").at(Span::new(id, 0, 0), "here"));
    assert!(plain(&report).contains(" --> empty:1:1\n  |\n1 |\n  | ^ here\n"));

    let (mut report, id) = self::report("f", "ab\r\n");
    report.push(Diagnostic::error("e", "end").at(Span::new(id, 4, 4), ""));
    assert!(plain(&report).contains(" --> f:2:1\n  |\n2 |\n  | ^\n"));
}

#[test]
fn wide_characters_keep_the_underline_in_place() {
    let (mut report, id) = report("f", "日本 x");
    let span = find(&report, id, "x");
    report.push(Diagnostic::error("e", "t").at(span, ""));
    assert!(plain(&report).contains("f:1:4\n"));
    assert!(plain(&report).contains("| 日本 x\n  |      ^\n"));
}

#[test]
fn long_lines_are_cut_around_the_span() {
    let text = format!("{} needle {}", "a".repeat(5_000), "b".repeat(5_000));
    let (mut report, id) = report("f", &text);
    let span = find(&report, id, "needle");
    report.push(Diagnostic::error("e", "t").at(span, "here"));
    let out = plain(&report);
    assert!(out.lines().all(|line| line.chars().count() < 140), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    let at = lines[4].chars().position(|c| c == '^').unwrap();
    let under: String = lines[3].chars().skip(at).take(6).collect();
    assert_eq!(under, "needle");
}

#[test]
fn a_span_over_several_lines_is_marked_to_the_end_of_its_first() {
    let (mut report, id) = report("f", "ab cd\nef\n");
    report.push(Diagnostic::error("e", "t").at(Span::new(id, 3, 8), ""));
    assert!(plain(&report).contains("1 | ab cd\n  |    ^^\n"));
}

#[test]
fn nothing_in_a_source_reaches_the_terminal_as_a_command() {
    let (mut report, id) = report("f\u{1b}", "\u{1b}[31m \u{202e}");
    let diagnostic = Diagnostic::error("e", "t\u{1b}\n").at(Span::new(id, 0, 1), "l\u{7}");
    report.push(diagnostic.help("h\u{1b}"));
    let rendered = [plain(&report), report.short()].concat();
    assert!(
        !rendered.contains(|c: char| c.is_control() && c != '\n'),
        "{rendered:?}"
    );
    assert!(!rendered.contains('\u{202e}'));
}

#[test]
fn only_the_first_twenty_are_shown() {
    let (mut report, id) = report("f", &"x\n".repeat(30));
    for line in (0..25).rev() {
        let title = format!("number {line}");
        report.push(Diagnostic::error("e", title).at(Span::new(id, line * 2, line * 2 + 1), ""));
    }
    let out = plain(&report);
    assert!(
        out.contains("number 0\n") && out.contains("number 19\n") && !out.contains("number 20")
    );
    assert!(out.ends_with("\n… and 5 more\n"));
    assert_eq!(report.short().lines().count(), 21);
}

#[test]
fn colours_only_wrap_the_same_text() {
    let (mut report, id) = report("f", "x");
    report.push(
        Diagnostic::error("e", "t")
            .at(Span::new(id, 0, 1), "l")
            .help("h"),
    );
    let mut stripped = String::new();
    let coloured = report.human(Colour::Always);
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    stripped.push_str(rest);
    assert_ne!(coloured, stripped);
    assert_eq!(stripped, plain(&report));
}
