//! Formats a Caddyfile in the customary layout: tabs, one space between words, braces at line ends.
//!
//! Changes white space and the position of braces, never a word, so a formatted file means the same as before. The
//! command line reads and writes the files.

use std::ops::Range;

use sluice_diag::{Diagnostic, Report, shown};

use crate::lex::{Lexed, Lexeme, lex};
use crate::limits::FILE_BYTES_MAX;
use crate::lines::{Brace, braces};
use crate::substitute::{Substituted, variables};
use crate::tree::Quote;

/// Newlines kept between two lines: at most one blank line.
const NEWLINES_MAX: usize = 2;

/// Newlines kept after a comment. `caddy fmt` leaves one more there, and a check of files with it should show no
/// difference.
const NEWLINES_BEHIND_COMMENT_MAX: usize = 3;

/// The text in its customary layout, or the mistakes that prevent it from being split into words.
pub fn format(name: &str, text: &str) -> Result<String, Box<Report>> {
    let mut report = Report::new();
    let source = report.sources.add(name, text);
    if text.len() > FILE_BYTES_MAX {
        let title = format!(
            "`{}` is larger than {} MiB",
            shown(name),
            FILE_BYTES_MAX >> 20
        );
        report.push(Diagnostic::error("file-too-large", title));
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
        continues: false,
    };
    for item in items(lexed, text) {
        printer.item(&item);
    }
    printer.out.push('\n');
    if printer.out.starts_with('\u{feff}') {
        // At the very beginning the first word would lose it as a byte order mark.
        printer.out.insert(0, '\n');
    }
    Ok(printer.out)
}

/// A piece of the text that is kept as it is.
struct Item<'a> {
    kind: Kind,
    text: &'a str,
    /// The white space in front, with the backslashes of continued lines.
    gap: &'a str,
    /// Whether a backslash where the gap begins belongs to the word before, which has no quotes.
    /// There it continues the line at its very end only.
    is_behind_bare: bool,
    /// Whether one line end follows that may count, so that a backslash in front of a comment still
    /// continues its line behind it.
    ends_one_line: bool,
    /// Whether an ordinary word would become a heredoc by coming to stand at the end of a line.
    needs_escape: bool,
    /// Whether an opening brace begins a block of its own: behind an import, whose block it would
    /// become on the same line.
    own_line: bool,
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

/// A piece by its bytes, before the gaps between pieces are looked at.
struct Piece {
    kind: Kind,
    range: Range<usize>,
    /// Whether it would be a heredoc at the end of a line.
    resembles_heredoc: bool,
    is_bare: bool,
    /// See [`Item`].
    own_line: bool,
}

/// Where the text has variables.
struct Variables(Vec<Range<usize>>);

impl Variables {
    /// Whether the byte lies inside a variable, behind its opening brace.
    fn contain(&self, at: usize) -> bool {
        let begun = self.0.partition_point(|variable| variable.start < at);
        begun > 0 && at < self.0[begun - 1].end
    }
}

/// The words, braces and comments of a text in order.
fn items(lexed: Lexed, text: &str) -> Vec<Item<'_>> {
    let variables = Variables(variables(text).map(|found| found.whole).collect());
    let mut pieces = pieces(&lexed.lexemes, text, &variables);
    pieces.extend(lexed.comments.into_iter().map(|range| Piece {
        kind: Kind::Comment,
        range,
        resembles_heredoc: false,
        is_bare: false,
        own_line: false,
    }));
    pieces.sort_by_key(|piece| piece.range.start);
    let mut end = 0;
    let mut is_behind_bare = false;
    let mut items = Vec::with_capacity(pieces.len());
    let mut pieces = pieces.into_iter().peekable();
    while let Some(piece) = pieces.next() {
        let Piece { kind, range, .. } = piece;
        let next = pieces.peek();
        let ends_line = next.is_none_or(|next| next.kind == Kind::Closing);
        let behind = next.map_or("", |next| &text[range.end..next.range.start]);
        let gap = &text[end..range.start];
        items.push(Item {
            kind,
            text: text[range.clone()].trim_end_matches('\r'),
            gap,
            is_behind_bare,
            ends_one_line: is_one_line_end(behind),
            needs_escape: ends_line && piece.resembles_heredoc && kind == Kind::Word,
            own_line: piece.own_line,
            inside_variable: !gap.is_empty()
                && variables.contain(end)
                && variables.contain(range.start),
        });
        end = range.end;
        is_behind_bare = piece.is_bare;
    }
    items
}

/// The words and braces of a text, those that touch taken apart.
fn pieces(lexemes: &[Lexeme], text: &str, variables: &Variables) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(lexemes.len());
    let mut before = Brace::Opening;
    let mut is_import = false;
    for (Lexeme { token, starts_line }, brace) in lexemes.iter().zip(braces(lexemes)) {
        let own_line = *starts_line && is_import && brace == Brace::Opening;
        if *starts_line || before.begins_line() {
            is_import = token.is_bare("import");
        }
        before = brace;
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        let written = &text[start..end];
        let resembles_heredoc = token.quote == Quote::None && written.starts_with("<<");
        let mut push = |kind, range| {
            pieces.push(Piece {
                kind,
                range,
                resembles_heredoc,
                is_bare: token.quote == Quote::None,
                own_line,
            });
        };
        // Braces in the default of a variable stay where they are, and so do those in words
        // that hold line endings of other systems.
        let is_kept = token.text != written;
        match brace {
            Brace::Opening if !is_kept && !variables.contain(start) => {
                push(Kind::Opening, start..end);
            }
            Brace::Closing if !is_kept && !variables.contain(start) => {
                push(Kind::Closing, start..end);
            }
            Brace::GluedOpening if !is_kept && !variables.contain(end - 1) => {
                push(Kind::Word, start..end - 1);
                push(Kind::Opening, end - 1..end);
            }
            Brace::GluedClosing
                if !variables.contain(start) && written.trim_matches('}').is_empty() =>
            {
                (start..end).for_each(|at| push(Kind::Closing, at..at + 1));
            }
            Brace::None
            | Brace::Empty
            | Brace::Opening
            | Brace::Closing
            | Brace::GluedOpening
            | Brace::GluedClosing => push(Kind::Word, start..end),
        }
    }
    pieces
}

struct Printer {
    out: String,
    depth: usize,
    before: Option<Kind>,
    /// Whether the comment before has a backslash in front that continues its line.
    continues: bool,
}

impl Printer {
    fn item(&mut self, item: &Item<'_>) {
        let continued = std::mem::take(&mut self.continues);
        match item.kind {
            Kind::Word | Kind::Comment if item.inside_variable => self.out.push_str(item.gap),
            Kind::Word | Kind::Comment => self.separate(item, continued),
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

    /// Writes the separator between the previous item and a word or comment. If the previous item is a comment,
    /// `continued` says whether its line continues after it.
    fn separate(&mut self, item: &Item<'_>, continued: bool) {
        let newlines = item.gap.matches('\n').count();
        match self.before {
            None => {}
            Some(Kind::Opening) => self.lines(1),
            Some(Kind::Closing) if newlines > 0 => self.lines(newlines.min(NEWLINES_MAX)),
            // A comment stays with the block it belongs to, as far away as `caddy fmt` puts it.
            Some(Kind::Closing) if item.kind == Kind::Comment && self.depth > 0 => self.lines(0),
            Some(Kind::Closing) => self.lines(if self.depth == 0 { 2 } else { 1 }),
            Some(Kind::Comment) if continued => self.lines(1),
            Some(Kind::Comment) => self.lines(newlines.min(NEWLINES_BEHIND_COMMENT_MAX)),
            Some(Kind::Word) => self.behind_word(item),
        }
    }

    /// What stands between a word and the opening brace of its line, wherever that was put.
    fn before_opening(&mut self, item: &Item<'_>) {
        match self.before {
            None => {}
            Some(Kind::Word) if item.own_line => {
                self.lines(item.gap.matches('\n').count().clamp(1, NEWLINES_MAX));
            }
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
        self.continues = continuations.ends_with('\\');
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

/// Whether of the line ends in a gap only the first may count, the others being continued.
fn is_one_line_end(gap: &str) -> bool {
    let Some((_, behind)) = gap.split_once('\n') else {
        return false;
    };
    let ends = behind.rsplit_once('\n').map(|(ends, _)| ends);
    ends.is_none_or(|ends| ends.split('\n').all(|line| line.contains('\\')))
}

/// The line ends behind a word that continue its line, with their backslashes, and the rest of the
/// gap. In front of a comment the backslash alone continues the line.
fn continuations<'a>(item: &Item<'a>) -> (String, &'a str) {
    let gap = item.gap;
    let mut found = String::new();
    let mut rest = gap;
    if let Some(glued) = gap.strip_prefix('\\').filter(|_| item.is_behind_bare) {
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
