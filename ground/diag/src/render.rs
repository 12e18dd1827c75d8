//! Renders diagnostics for people on a terminal, and as single lines for editors.
//!
//! The format for scripts is in `json`; the command line writes to the terminal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::excerpt::Excerpt;
use crate::limits::{DIAGNOSTICS_SHOWN_MAX, IMPORT_STEPS_SHOWN_MAX};
use crate::report::Report;
use crate::shown::visible;
use crate::source::Sources;

/// Whether rendered text carries terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escape sequences.
    Always,
}

/// What a piece of the rendered text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A mistake.
    Error,
    /// Something to know.
    Warning,
    /// What a message says first.
    Title,
    /// The frame around source lines.
    Frame,
    /// What begins a remark.
    Help,
    /// Something that is as it should be.
    Good,
    /// Something of little weight.
    Faint,
}

impl Colour {
    /// `text` in the colour of its role.
    pub fn paint(self, role: Role, text: &str) -> String {
        let code = match (self, role) {
            (Colour::Never, _) => return text.into(),
            (Colour::Always, Role::Error) => "1;31",
            (Colour::Always, Role::Warning) => "1;33",
            (Colour::Always, Role::Title) => "1",
            (Colour::Always, Role::Frame) => "1;34",
            (Colour::Always, Role::Help) => "1;36",
            (Colour::Always, Role::Good) => "1;32",
            (Colour::Always, Role::Faint) => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

impl Report {
    /// The diagnostics with their source lines, as a person reads them.
    pub fn human(&self, colour: Colour) -> String {
        let mut out = String::new();
        for (index, diagnostic) in self.sorted().iter().take(DIAGNOSTICS_SHOWN_MAX).enumerate() {
            if index > 0 {
                out.push('\n');
            }
            Human {
                sources: &self.sources,
                colour,
            }
            .diagnostic(diagnostic, &mut out);
        }
        if let Some(more) = self.more() {
            out.push_str(&format!("\n… and {more} more\n"));
        }
        out
    }

    /// One line for each diagnostic: `file:line:column: error[slug]: title`.
    pub fn short(&self) -> String {
        let mut out = String::new();
        for diagnostic in self.sorted().iter().take(DIAGNOSTICS_SHOWN_MAX) {
            if let Some(label) = &diagnostic.primary {
                out.push_str(&line_of(&self.sources.place(label.span)));
                out.push_str(": ");
            }
            let Diagnostic {
                severity,
                slug,
                title,
                ..
            } = diagnostic;
            out.push_str(&format!(
                "{}[{slug}]: {}\n",
                severity.word(),
                line_of(title)
            ));
        }
        if let Some(more) = self.more() {
            out.push_str(&format!("… and {more} more\n"));
        }
        out
    }

    /// How many diagnostics the renderers leave out, if any.
    pub(crate) fn more(&self) -> Option<usize> {
        let all = self.error_count() + self.warning_count();
        all.checked_sub(DIAGNOSTICS_SHOWN_MAX)
            .filter(|more| *more > 0)
    }
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }

    fn role(self) -> Role {
        match self {
            Severity::Error => Role::Error,
            Severity::Warning => Role::Warning,
        }
    }
}

struct Human<'a> {
    sources: &'a Sources,
    colour: Colour,
}

impl Human<'_> {
    fn diagnostic(&self, diagnostic: &Diagnostic, out: &mut String) {
        let Diagnostic {
            severity,
            slug,
            title,
            ..
        } = diagnostic;
        let head = self.paint(severity.role(), &format!("{}[{slug}]", severity.word()));
        out.push_str(&head);
        out.push_str(&self.paint(Role::Title, &format!(": {}", line_of(title))));
        out.push('\n');
        if let Some(primary) = &diagnostic.primary {
            self.snippets(primary, diagnostic, out);
        }
        self.import_chain(diagnostic, out);
        for note in &diagnostic.notes {
            self.remark("note", note, out);
        }
        for help in &diagnostic.help {
            self.remark("help", help, out);
        }
    }

    /// The primary place with the other places of its file, then one frame for each other file.
    fn snippets(&self, primary: &Label, diagnostic: &Diagnostic, out: &mut String) {
        let role = diagnostic.severity.role();
        let mut frames = Vec::from([Vec::from([Mark {
            label: primary,
            sign: '^',
            role,
        }])]);
        for label in &diagnostic.secondary {
            let mark = Mark {
                label,
                sign: '-',
                role: Role::Frame,
            };
            let same = |frame: &&mut Vec<Mark<'_>>| frame[0].label.span.source == label.span.source;
            match frames.iter_mut().find(same) {
                Some(frame) => frame.push(mark),
                None => frames.push(Vec::from([mark])),
            }
        }
        let last_line = |frame: &Vec<Mark<'_>>| frame.iter().map(|mark| self.line(mark)).max();
        let digits = frames
            .iter()
            .filter_map(last_line)
            .max()
            .unwrap_or(1)
            .to_string()
            .len();
        for (index, frame) in frames.iter_mut().enumerate() {
            let arrow = if index == 0 { "-->" } else { ":::" };
            let place = line_of(&self.sources.place(frame[0].label.span));
            let indent = " ".repeat(digits);
            out.push_str(&format!(
                "{indent}{} {place}\n",
                self.paint(Role::Frame, arrow)
            ));
            frame.sort_by_key(|mark| mark.label.span.start);
            self.frame(frame, digits, out);
        }
        out.push_str(&self.gutter("", digits, ""));
    }

    fn frame(&self, marks: &[Mark<'_>], digits: usize, out: &mut String) {
        out.push_str(&self.gutter("", digits, ""));
        let mut last: Option<u32> = None;
        for mark in marks {
            let Label { span, text } = mark.label;
            let (number, start, line) = self.sources.source(span.source).line(span.start);
            let excerpt = Excerpt::new(line, span.start - start, span.end - start);
            // A cut line shows the part around one span, so it is shown again for the next.
            if last != Some(number) || excerpt.cut {
                if last.is_some_and(|last| number > last + 1) {
                    out.push_str("...\n");
                }
                out.push_str(&self.gutter(&number.to_string(), digits, &excerpt.text));
                last = Some(number);
            }
            let signs = mark.sign.to_string().repeat(excerpt.width);
            let text = line_of(text);
            let under = format!("{signs} {text}");
            let under = self.paint(mark.role, under.trim_end());
            let pad = " ".repeat(excerpt.before);
            out.push_str(&self.gutter("", digits, &format!("{pad}{under}")));
        }
    }

    /// One line behind the column of line numbers.
    fn gutter(&self, number: &str, digits: usize, text: &str) -> String {
        let frame = self.paint(Role::Frame, &format!("{number:>digits$} |"));
        if text.is_empty() {
            format!("{frame}\n")
        } else {
            format!("{frame} {text}\n")
        }
    }

    fn import_chain(&self, diagnostic: &Diagnostic, out: &mut String) {
        let mut steps = self.sources.import_chain(diagnostic.import);
        for step in steps.by_ref().take(IMPORT_STEPS_SHOWN_MAX) {
            let place = self.sources.place(step.at);
            self.remark(
                "note",
                &format!("in {}, imported at {place}", step.what),
                out,
            );
        }
        let deeper = steps.count();
        if deeper > 0 {
            self.remark("note", &format!("and {deeper} more imports around it"), out);
        }
    }

    fn remark(&self, word: &str, text: &str, out: &mut String) {
        let mut lines = text.lines();
        let first = line_of(lines.next().unwrap_or(""));
        out.push_str(&format!(
            "{} {first}\n",
            self.paint(Role::Help, &format!("{word}:"))
        ));
        for line in lines {
            out.push_str(&format!("      {}\n", line_of(line)));
        }
    }

    fn line(&self, mark: &Mark<'_>) -> u32 {
        let span = mark.label.span;
        self.sources.source(span.source).position(span.start).line
    }

    fn paint(&self, role: Role, text: &str) -> String {
        self.colour.paint(role, text)
    }
}

/// A label and how it is underlined.
struct Mark<'a> {
    label: &'a Label,
    sign: char,
    role: Role,
}

/// `text` on one line, with invisible characters made visible.
pub(crate) fn line_of(text: &str) -> String {
    text.chars().map(visible).collect()
}

#[cfg(test)]
mod tests;
