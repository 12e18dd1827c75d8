//! Splits text into words: quotes, escapes, comments, continued lines and heredocs.
//!
//! `lines` decides which words form a line, and what braces mean.

mod heredoc;

use std::ops::Range;

use sluice_diag::{Diagnostic, ImportId, Report, Span, shown};

use crate::substitute::{FindingKind, Substituted};
use crate::tree::{Quote, Token};

/// A word and whether it is the first one of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme {
    pub token: Token,
    pub starts_line: bool,
}

/// The words of a text.
#[derive(Debug)]
pub(crate) struct Lexed {
    pub lexemes: Vec<Lexeme>,
    /// Where the comments stand in the text, without their line ends.
    pub comments: Vec<Range<usize>>,
    /// False if a part without an end was left out, and perhaps closing braces with it.
    pub complete: bool,
}

/// Splits a text into words. What cannot be read is reported; a word stands in its place, so that
/// nothing seems to be missing there. `import` is what brought the text in.
pub(crate) fn lex(text: &Substituted, import: Option<ImportId>, report: &mut Report) -> Lexed {
    let mut lexer = Lexer {
        text,
        at: if text.text.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        },
        starts_line: true,
        lexemes: Vec::new(),
        comments: Vec::new(),
        first_wrapped_quote: None,
        complete: true,
        import,
        report,
    };
    while lexer.skip_blank() {
        lexer.word();
    }
    lexer.report_variables();
    Lexed {
        lexemes: lexer.lexemes,
        comments: lexer.comments,
        complete: lexer.complete,
    }
}

struct Lexer<'a> {
    text: &'a Substituted,
    at: usize,
    /// Whether a line has begun since the last word.
    starts_line: bool,
    lexemes: Vec<Lexeme>,
    comments: Vec<Range<usize>>,
    /// The opening of the first quoted word that runs over a line end: the likely culprit when a
    /// later quote has no partner.
    first_wrapped_quote: Option<Span>,
    complete: bool,
    import: Option<ImportId>,
    report: &'a mut Report,
}

impl Lexer<'_> {
    /// Moves to the next word; false at the end of the text.
    fn skip_blank(&mut self) -> bool {
        let mut continued = false;
        while let Some(c) = self.peek() {
            match c {
                '\n' if continued => continued = false,
                '\n' => self.starts_line = true,
                '\\' if self.continues_line() => continued = true,
                '#' => {
                    self.comment();
                    continue;
                }
                c if c.is_whitespace() => {}
                _ => return true,
            }
            self.at += c.len_utf8();
        }
        false
    }

    /// Whether nothing stands between the backslash here and the end of the line. A comment may.
    fn continues_line(&self) -> bool {
        let behind = self.text.text[self.at + 1..].trim_start_matches(is_space_in_line);
        matches!(behind.chars().next(), None | Some('\n' | '#'))
    }

    fn comment(&mut self) {
        let start = self.at;
        self.at = self.line_end(start);
        self.comments.push(start..self.at);
    }

    fn word(&mut self) {
        let start = self.at;
        let is_escaped = self.peek() == Some('\\');
        if is_escaped {
            // As in Caddy it escapes the beginning of the word, however far away that is.
            let behind = self.rest()[1..].trim_start_matches(is_space_in_line);
            self.at = self.text.text.len() - behind.len();
        }
        match self.peek() {
            Some('"') => self.quoted(start, '"', Quote::Double),
            Some('`') => self.quoted(start, '`', Quote::Backtick),
            _ if is_escaped => self.escaped(start),
            _ if self.rest().starts_with("<<") && self.opens_heredoc() => self.heredoc(start),
            _ => self.bare(start, String::new()),
        }
    }

    /// `"…"`, where `\"` is a quote and every other backslash is kept; or `` `…` ``, kept as it is.
    /// The word starts in front of the quote if a backslash stands there, which counts as if it
    /// stood behind it.
    fn quoted(&mut self, start: usize, end: char, quote: Quote) {
        let mut value = String::new();
        let opening = self.at;
        self.at += 1;
        if start < opening && quote == Quote::Double {
            self.escape_in_quotes(&mut value);
        }
        while let Some(c) = self.next() {
            match c {
                c if c == end => {
                    if value.contains('\n') {
                        let opening = self.text.span(opening..opening + 1);
                        self.first_wrapped_quote.get_or_insert(opening);
                    }
                    self.push(value, start, quote);
                    return self.check_space(opening);
                }
                '\\' if quote == Quote::Double => self.escape_in_quotes(&mut value),
                c => value.push(c),
            }
        }
        self.unterminated(start, opening, quote);
    }

    /// What a backslash in double quotes makes of the character behind it, where the lexer stands.
    fn escape_in_quotes(&mut self, value: &mut String) {
        match self.peek() {
            Some('"') => value.extend(self.next()),
            Some('\\') => {
                value.push('\\');
                value.extend(self.next());
            }
            _ => value.push('\\'),
        }
    }

    /// Warns of a word right behind a closing quote: it is a word of its own, and the quote was
    /// often meant to close another text.
    fn check_space(&mut self, opening: usize) {
        let Some(c) = self.peek().filter(|c| !c.is_whitespace()) else {
            return;
        };
        let closing = self.text.span(self.at - 1..self.at + c.len_utf8());
        let found = Diagnostic::warning("quote-needs-space", "a word touches a closing quote")
            .at(closing, "read as two words")
            .help("put a space after the closing quote, or write \\\" for a quote in the text");
        let opening = self.text.span(opening..opening + 1);
        let found = match self.first_wrapped_quote {
            Some(wrapped) if wrapped == opening => {
                found.also(opening, "the quoted text starts here")
            }
            _ => found,
        };
        self.say(found);
    }

    /// Reports a quote without its partner, and goes on behind its line.
    fn unterminated(&mut self, start: usize, quote_at: usize, quote: Quote) {
        let (kind, end) = match quote {
            Quote::Backtick => ("backticks", '`'),
            Quote::None | Quote::Double | Quote::Heredoc => ("double quotes", '"'),
        };
        let opening = self.text.span(quote_at..quote_at + 1);
        let mut found = Diagnostic::error(
            "unterminated-quote",
            format!("a text in {kind} is not closed"),
        )
        .at(opening, "opened here, and never closed")
        .help(format!("add the closing {end}"));
        if let Some(suspect) = self
            .first_wrapped_quote
            .filter(|suspect| *suspect != opening)
        {
            found = found.also(
                suspect,
                "or the closing quote is missing here: this text ends several lines below",
            );
        }
        self.say(found);
        self.silence_rest(start);
        self.at = self.line_end(quote_at);
        self.push(self.text.text[quote_at + 1..self.at].into(), start, quote);
    }

    /// A word without quotes behind a backslash, from the first character that is not white space.
    fn escaped(&mut self, start: usize) {
        let mut value = String::new();
        match self.peek() {
            Some('<') => {}
            Some('\\') => {
                value.push_str("\\\\");
                self.at += 1;
            }
            _ => value.push('\\'),
        }
        self.bare(start, value);
    }

    /// A word without quotes: up to white space, which is the only thing that ends it. `value` is
    /// what there is of it already.
    fn bare(&mut self, start: usize, mut value: String) {
        while let Some(c) = self.peek() {
            let behind = &self.rest()[c.len_utf8()..];
            match c {
                '\r' | '\\' if ends_word(behind) => break,
                // Inside a word CR counts for nothing, as other systems end lines with it.
                '\r' => {}
                '\\' => self.escape(&mut value),
                c if c.is_whitespace() => break,
                c => value.push(c),
            }
            self.at += c.len_utf8();
        }
        self.push(value, start, Quote::None);
        self.report_malformed(start);
        // A word that ends in a backslash at the very end of its line goes on with the next line.
        if self.peek() == Some('\\') {
            self.at += 1;
            let behind = self.rest().trim_start_matches('\r');
            if behind.starts_with('\n') {
                self.at = self.text.text.len() - behind.len() + 1;
            }
        }
    }

    /// A backslash inside a bare word, where the lexer stands. It is kept before every character
    /// but `<`, which it keeps from opening a heredoc; a second one does not escape anything.
    fn escape(&mut self, value: &mut String) {
        match self.rest()[1..].chars().next() {
            Some('<') => {}
            Some('\\') => {
                self.at += 1;
                value.push_str("\\\\");
            }
            _ => value.push('\\'),
        }
    }

    fn push(&mut self, text: String, start: usize, quote: Quote) {
        let span = self.text.span(start..self.at);
        let token = Token {
            text,
            span,
            quote,
            import: self.import,
        };
        self.lexemes.push(Lexeme {
            token,
            starts_line: self.starts_line,
        });
        self.starts_line = false;
    }

    fn say(&mut self, found: Diagnostic) {
        self.report.push(found.imported(self.import));
    }

    /// Reports a `{$` in the word from `start` that no `}` follows.
    fn report_malformed(&mut self, start: usize) {
        let findings = &self.text.findings;
        let first = findings.partition_point(|finding| finding.at < start);
        let mut inside = findings[first..]
            .iter()
            .take_while(|finding| finding.at < self.at);
        let malformed = inside.find(|finding| finding.kind == FindingKind::Malformed);
        if let Some(finding) = malformed {
            let title = "an environment variable is not closed on its line";
            let found = Diagnostic::error("malformed-variable", title)
                .at(finding.span, "no `}` follows")
                .help("write {$NAME} or {$NAME:default}");
            self.say(found);
            self.report.silence(self.text.span(start..self.at));
        }
    }

    /// Reports what is to be said about variables outside comments.
    fn report_variables(&mut self) {
        for finding in &self.text.findings {
            let behind = self
                .comments
                .partition_point(|comment| comment.start <= finding.at);
            if behind > 0 && finding.at <= self.comments[behind - 1].end {
                continue;
            }
            let found = match &finding.kind {
                FindingKind::Malformed => continue,
                FindingKind::Unset(name) => {
                    let name = shown(name);
                    let title = format!("environment variable `{name}` is not set");
                    Diagnostic::warning("unset-variable", title)
                        .at(finding.span, "expands to nothing")
                        .help(format!("set {name}, or write {{${name}:default}}"))
                }
                FindingKind::TooLarge => {
                    let title = "environment variables make this file too large";
                    Diagnostic::error("file-too-large", title)
                        .at(finding.span, "this value is omitted")
                        .help("put long texts into files")
                }
            };
            self.say(found);
        }
    }

    /// Silences what would be said about the text from `start` on, whose end is missing.
    fn silence_rest(&mut self, start: usize) {
        self.complete = false;
        let rest = self.text.span(start..self.text.text.len());
        self.report.silence(rest);
    }

    fn rest(&self) -> &str {
        &self.text.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Where the line that holds `at` ends, before its newline.
    fn line_end(&self, at: usize) -> usize {
        self.text.text[at..]
            .find('\n')
            .map_or(self.text.text.len(), |newline| at + newline)
    }
}

/// Whether a character is white space that ends no line.
fn is_space_in_line(c: char) -> bool {
    c != '\n' && c.is_whitespace()
}

/// Whether a word ends in front of `rest`.
fn ends_word(rest: &str) -> bool {
    let behind = rest.trim_start_matches('\r');
    behind.chars().next().is_none_or(char::is_whitespace)
}

#[cfg(test)]
mod tests;
