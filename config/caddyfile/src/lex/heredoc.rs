//! Heredocs: `<<END`, the text, and `END` alone at the start of the last line.
//!
//! The lexer continues after the closing marker, because more words may follow on its line.

use sluice_diag::{Diagnostic, shown};

use super::Lexer;
use crate::tree::Quote;

impl Lexer<'_> {
    /// Whether the `<<` here opens a heredoc: nothing but the marker stands on the rest of the
    /// line. `<<END more` is an ordinary word.
    pub(super) fn opens_heredoc(&self) -> bool {
        let line = &self.text.text[self.at..self.line_end(self.at)];
        !line.trim_end().contains(' ')
    }

    /// Reads a heredoc whose `<<` starts at `start`.
    pub(super) fn heredoc(&mut self, start: usize) {
        let opening_end = self.line_end(start);
        let opening = self.text.text[start..opening_end].trim_end_matches('\r');
        let marker = &opening[2..];
        if let Some((label, help)) = marker_mistake(marker) {
            let title = match marker {
                "" => "a heredoc has no marker".into(),
                marker => format!(
                    "heredoc marker `{}` cannot be used",
                    shown(marker.trim_end())
                ),
            };
            let span = self.text.span(start..start + opening.trim_end().len());
            let found = Diagnostic::error("heredoc-marker", title)
                .at(span, label)
                .help(help);
            self.say(found);
            return self.skip_heredoc(start, opening_end, marker.trim_matches(['<', ' ', '\t']));
        }
        let Some(closing) = self.closing_line(opening_end + 1, marker) else {
            let title = format!("the heredoc `<<{marker}` is not closed");
            let found = Diagnostic::error("unterminated-heredoc", title)
                .at(self.text.span(start..start + opening.len()), "opened here")
                .help(format!("write {marker} alone on the line after the text"));
            self.say(found);
            self.silence_rest(start);
            self.at = self.text.text.len();
            return self.push(String::new(), start, Quote::Heredoc);
        };
        let closing_line = &self.text.text[closing..];
        let padding = &closing_line[..closing_line.len() - closing_line.trim_start().len()];
        let value = self.strip(start, opening_end + 1..closing, padding);
        self.at = closing + padding.len() + marker.len();
        self.push(value, start, Quote::Heredoc);
    }

    /// The text between the markers without the padding of the closing one.
    fn strip(&mut self, start: usize, lines: std::ops::Range<usize>, padding: &str) -> String {
        let mut value = String::new();
        let mut at = lines.start;
        let mut reported = false;
        for line in self.text.text[lines].split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            match content.strip_prefix(padding) {
                Some(content) => value.extend(content.chars().filter(|c| *c != '\r')),
                None if content.is_empty() => {}
                // One line is enough: the others are usually indented alike.
                None if reported => {}
                None => {
                    let indent = content.len() - content.trim_start().len();
                    let title = "a heredoc line is indented less than its closing marker";
                    let opening = self.text.span(start..self.line_end(start));
                    let found = Diagnostic::error("heredoc-indent", title)
                        .at(
                            self.text.span(at..at + indent.max(1)),
                            seen(&content[..indent]),
                        )
                        .also(opening, "in this heredoc")
                        .note(format!(
                            "the closing marker is indented by {}",
                            count(padding)
                        ))
                        .help("indent every line at least like the closing marker, the same way");
                    self.say(found);
                    reported = true;
                }
            }
            value.push('\n');
            at += line.len();
        }
        value.pop();
        value
    }

    /// The start of the first line from `from` on that begins with the marker.
    fn closing_line(&self, from: usize, marker: &str) -> Option<usize> {
        let mut at = from;
        for line in self.text.text.get(from..)?.split_inclusive('\n') {
            let behind = line.trim_start_matches([' ', '\t']).strip_prefix(marker);
            if behind.is_some_and(|b| b.is_empty() || b.starts_with(char::is_whitespace)) {
                return Some(at);
            }
            at += line.len();
        }
        None
    }

    /// Skips a heredoc whose marker is wrong: up to the closing marker that was meant.
    fn skip_heredoc(&mut self, start: usize, opening_end: usize, meant: &str) {
        let closing = match meant {
            "" => None,
            meant => self.closing_line(opening_end + 1, meant),
        };
        match closing {
            Some(closing) => self.at = self.line_end(closing),
            None => {
                // Without an end the rest may be text or configuration.
                self.silence_rest(start);
                self.at = self.text.text.len();
            }
        }
        self.push(String::new(), start, Quote::Heredoc);
        self.report.silence(self.text.span(start..self.at));
    }
}

/// What is wrong with a marker, and what to type.
fn marker_mistake(marker: &str) -> Option<(&'static str, &'static str)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if marker.is_empty() {
        Some((
            "no marker follows",
            "name the end marker, for example <<END",
        ))
    } else if marker.starts_with('<') {
        Some(("more than two `<`", "write two, for example <<END"))
    } else if marker.trim_end() != marker {
        Some(("white space follows", "end the line right after the marker"))
    } else if !marker.chars().all(allowed) {
        Some((
            "other than letters, digits, `-` and `_`",
            "use a plain name, for example <<END",
        ))
    } else {
        None
    }
}

fn seen(indent: &str) -> String {
    format!("indented by {}", count(indent))
}

/// White space in words, since it cannot be seen.
fn count(indent: &str) -> String {
    let tabs = indent.matches('\t').count();
    let spaces = indent.chars().count() - tabs;
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    match (tabs, spaces) {
        (0, 0) => "nothing".into(),
        (0, spaces) => plural(spaces, "space"),
        (tabs, 0) => plural(tabs, "tab"),
        (tabs, spaces) => format!("{} and {}", plural(tabs, "tab"), plural(spaces, "space")),
    }
}
