//! The customary layout of a Caddyfile: tabs, one space between words, braces at line ends.
//!
//! Changes white space and the place of braces, never a word: what a formatted file means is what
//! it meant before. Reading files and writing them back is left to the command line.

use std::collections::HashSet;
use std::ops::Range;

use sluice_diag::Report;

use crate::lex::{Lexed, Lexeme, lex};
use crate::limits::FILE_BYTES_MAX;
use crate::lines::{Brace, braces};
use crate::substitute::{Substituted, variables};
use crate::tree::Quote;

/// Newlines kept between two lines: at most one blank line.
const NEWLINES_MAX: usize = 2;

/// Newlines kept behind a comment. `caddy fmt` leaves one more there, and whoever checks files with
/// it should see no difference.
const NEWLINES_BEHIND_COMMENT_MAX: usize = 3;

/// The text in its customary layout, or the mistakes that keep its words from being told apart.
pub fn format(name: &str, text: &str) -> Result<String, Box<Report>> {
    let mut report = Report::new();
    let source = report.sources.add(name, text);
    if text.len() > FILE_BYTES_MAX {
        let title = format!("`{name}` is larger than {} MiB", FILE_BYTES_MAX >> 20);
        report.push(sluice_diag::Diagnostic::error("file-too-large", title));
        return Err(Box::new(report));
    }
    let written = Substituted::unchanged(source, text);
    let lexed = lex(&written, None, &mut report);
    if report.has_errors() {
        return Err(Box::new(report));
    }
    let mut printer = Printer {
        out: String::with_capacity(text.len()),
        depth: 0,
        before: None,
    };
    for item in items(lexed, text) {
        printer.item(&item);
    }
    printer.out.push('\n');
    Ok(printer.out)
}

/// A piece of the text that is kept as it is.
struct Item<'a> {
    kind: Kind,
    text: &'a str,
    /// The white space in front, with the backslashes of continued lines.
    gap: &'a str,
    /// Whether exactly one line end follows, so that a backslash in front of a comment still
    /// continues its line behind it.
    ends_one_line: bool,
    /// Whether an ordinary word would become a heredoc by coming to stand at the end of a line.
    needs_escape: bool,
    /// Whether the gap belongs to the default of a variable, and so is kept as well.
    inside_variable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Comment,
    Opening,
    Closing,
}

/// Words, braces and comments in the order of the text.
fn items(lexed: Lexed, text: &str) -> Vec<Item<'_>> {
    let variables: Vec<Range<usize>> = variables(text).map(|found| found.whole).collect();
    let is_in_variable = |at: usize| {
        let begun = variables.partition_point(|variable| variable.start < at);
        begun > 0 && at < variables[begun - 1].end
    };
    let mut pieces: Vec<(Kind, Range<usize>)> = Vec::new();
    let mut near_heredocs = HashSet::new();
    for (Lexeme { token, .. }, brace) in lexed.lexemes.iter().zip(braces(&lexed.lexemes)) {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        if token.quote == Quote::None && text[start..].starts_with("<<") {
            near_heredocs.insert(start);
        }
        // Braces in the default of a variable stay where they are, and so do those in words
        // that hold line endings of other systems.
        let is_kept = token.text != text[start..end];
        match brace {
            Brace::Opening if !is_kept && !is_in_variable(start) => {
                pieces.push((Kind::Opening, start..end));
            }
            Brace::Closing if !is_kept && !is_in_variable(start) => {
                pieces.push((Kind::Closing, start..end));
            }
            Brace::GluedOpening if !is_kept && !is_in_variable(end - 1) => {
                pieces.push((Kind::Word, start..end - 1));
                pieces.push((Kind::Opening, end - 1..end));
            }
            Brace::GluedClosing
                if !is_in_variable(start) && text[start..end].trim_matches('}').is_empty() =>
            {
                pieces.extend((start..end).map(|at| (Kind::Closing, at..at + 1)));
            }
            Brace::None
            | Brace::Empty
            | Brace::Opening
            | Brace::Closing
            | Brace::GluedOpening
            | Brace::GluedClosing => pieces.push((Kind::Word, start..end)),
        }
    }
    pieces.extend(
        lexed
            .comments
            .into_iter()
            .map(|range| (Kind::Comment, range)),
    );
    pieces.sort_by_key(|(_, range)| range.start);
    let mut end = 0;
    let mut items: Vec<Item<'_>> = Vec::with_capacity(pieces.len());
    let mut pieces = pieces.into_iter().peekable();
    while let Some((kind, range)) = pieces.next() {
        let gap = &text[end..range.start];
        let inside_variable =
            range.start > end && is_in_variable(end) && is_in_variable(range.start);
        let ends_line = pieces.peek().is_none_or(|(next, _)| *next == Kind::Closing);
        let behind = pieces
            .peek()
            .map_or("", |(_, next)| &text[range.end..next.start]);
        let ends_one_line = behind.matches('\n').count() == 1;
        let needs_escape = ends_line && near_heredocs.contains(&range.start);
        end = range.end;
        let text = text[range].trim_end_matches('\r');
        items.push(Item {
            kind,
            text,
            gap,
            ends_one_line,
            needs_escape,
            inside_variable,
        });
    }
    items
}

struct Printer {
    out: String,
    depth: usize,
    before: Option<Kind>,
}

impl Printer {
    fn item(&mut self, item: &Item<'_>) {
        match item.kind {
            Kind::Word | Kind::Comment if item.inside_variable => self.out.push_str(item.gap),
            Kind::Word | Kind::Comment => self.separate(item),
            Kind::Opening => self.before_opening(item),
            Kind::Closing => {
                self.depth = self.depth.saturating_sub(1);
                if self.before.is_some() {
                    self.lines(1);
                }
            }
        }
        if item.needs_escape {
            self.out.push('\\');
        }
        self.out.push_str(item.text);
        self.before = Some(item.kind);
        if item.kind == Kind::Opening {
            self.depth += 1;
        }
    }

    /// What stands between the item before and a word or comment.
    fn separate(&mut self, item: &Item<'_>) {
        let newlines = item.gap.matches('\n').count();
        match self.before {
            None => {}
            Some(Kind::Opening) => self.lines(1),
            Some(Kind::Closing) if newlines > 0 => self.lines(newlines.min(NEWLINES_MAX)),
            Some(Kind::Closing) => self.lines(if self.depth == 0 { 2 } else { 1 }),
            Some(Kind::Comment) => self.lines(newlines.min(NEWLINES_BEHIND_COMMENT_MAX)),
            Some(Kind::Word) => self.behind_word(item),
        }
    }

    /// What stands between a word and the opening brace of its line, wherever that was put.
    fn before_opening(&mut self, item: &Item<'_>) {
        match self.before {
            None => {}
            Some(Kind::Word) if continuations(item).0.is_empty() => {
                self.out.push(' ');
            }
            Some(Kind::Word) => self.behind_word(item),
            Some(Kind::Closing) if self.depth == 0 => self.lines(2),
            Some(Kind::Closing | Kind::Opening | Kind::Comment) => self.lines(1),
        }
    }

    fn behind_word(&mut self, item: &Item<'_>) {
        let (continuations, rest) = continuations(item);
        self.out.push_str(&continuations);
        match rest.matches('\n').count() {
            // Words may touch behind quotes.
            0 if item.gap.is_empty() || item.gap.ends_with('\n') => {}
            0 => self.out.push(' '),
            newlines => self.lines(newlines.min(NEWLINES_MAX)),
        }
    }

    fn lines(&mut self, newlines: usize) {
        self.out.extend(std::iter::repeat_n('\n', newlines));
        self.out.extend(std::iter::repeat_n('\t', self.depth));
    }
}

/// The line ends behind a word that continue its line, with their backslashes, and the rest of the
/// gap. In front of a comment the backslash alone continues the line.
fn continuations<'a>(item: &Item<'a>) -> (String, &'a str) {
    let gap = item.gap;
    let mut found = String::new();
    let mut rest = gap;
    if let Some(glued) = gap.strip_prefix('\\') {
        rest = glued;
        if let Some(next) = glued.trim_start_matches('\r').strip_prefix('\n') {
            found.push_str("\\\n");
            rest = next;
        }
    }
    // A backslash behind a line end that counts begins the next line, where it does nothing.
    while let Some((line, next)) = rest
        .split_once('\n')
        .filter(|(line, _)| line.contains('\\'))
    {
        debug_assert!(
            line.trim_end().ends_with('\\'),
            "only white space may follow it"
        );
        found.push_str(" \\\n");
        rest = next;
    }
    let continues = item.kind == Kind::Comment && item.ends_one_line;
    if continues && !rest.contains('\n') && rest.contains('\\') {
        found.push_str(" \\");
    }
    (found, rest)
}
