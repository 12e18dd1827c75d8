//! Groups words into lines and blocks: which brace closes which.
//!
//! It processes one file at a time, so a file's braces must balance within it. `parse` interprets the lines, imports
//! included.

use sluice_diag::{Report, Span, shown};

use crate::lex::{Lexed, Lexeme};
use crate::limits::BLOCK_DEPTH_MAX;
use crate::tree::{Quote, Token};

/// One line, or the part of one that stands behind a brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The words; none if the line starts with its opening brace.
    pub words: Vec<Token>,
    /// What the brace at the end of the line opens.
    pub block: Option<Body>,
    /// Where on its line it begins.
    pub start: Start,
}

/// Where on its line a [`Line`] begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At its beginning, as it should.
    OfLine,
    /// Behind the opening brace of the block it is in.
    BehindOpening,
    /// Behind a closing brace.
    BehindClosing,
}

/// The lines between two braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub lines: Vec<Line>,
    pub opening: Token,
    /// Missing if the file ends first, which is reported already.
    pub closing: Option<Span>,
    /// Whether the closing brace shares its line with words of the block.
    pub closes_behind_words: bool,
}

impl Body {
    /// How many blocks the innermost line is in, this one included.
    pub fn depth(&self) -> usize {
        1 + depth(&self.lines)
    }
}

/// How many blocks the innermost of the lines is in.
pub(crate) fn depth(lines: &[Line]) -> usize {
    let blocks = lines.iter().filter_map(|line| line.block.as_ref());
    blocks.map(Body::depth).max().unwrap_or(0)
}

/// Groups the words of a file. Braces without a partner are reported.
pub(crate) fn lines(lexed: Lexed, report: &mut Report) -> Vec<Line> {
    let mut grouping = Grouping {
        open: Vec::new(),
        top: Level::default(),
        suspect: None,
        report,
    };
    let braces = braces(&lexed.lexemes);
    for (lexeme, brace) in lexed.lexemes.into_iter().zip(braces) {
        grouping.take(lexeme, brace);
    }
    grouping.finish(lexed.complete)
}

struct Grouping<'a> {
    /// Blocks that wait for their closing brace, outermost first.
    open: Vec<Open>,
    top: Level,
    /// The first closing brace that is indented unlike the line of its opening one.
    suspect: Option<(Token, Span)>,
    report: &'a mut Report,
}

struct Open {
    brace: Token,
    level: Level,
    /// Where the line of the opening brace begins.
    line_start: u32,
    /// Whether a line has begun since the opening brace.
    wrapped: bool,
}

/// The lines of one block so far; words go to the last line while it is unfinished.
struct Level {
    lines: Vec<Line>,
    unfinished: bool,
    next_start: Start,
}

impl Default for Level {
    fn default() -> Self {
        Level {
            lines: Vec::new(),
            unfinished: false,
            next_start: Start::OfLine,
        }
    }
}

impl Level {
    fn line(&mut self) -> &mut Line {
        if !self.unfinished || self.lines.is_empty() {
            self.unfinished = true;
            self.lines.push(Line {
                words: Vec::new(),
                block: None,
                start: self.next_start,
            });
        }
        self.lines
            .last_mut()
            .expect("a line was just pushed if there was none")
    }
}

impl Grouping<'_> {
    fn take(&mut self, lexeme: Lexeme, brace: Brace) {
        let Lexeme { token, starts_line } = lexeme;
        if starts_line {
            let level = self.level();
            level.unfinished = false;
            level.next_start = Start::OfLine;
            if let Some(open) = self.open.last_mut() {
                open.wrapped = true;
            }
        }
        match brace {
            Brace::None => self.level().line().words.push(token),
            Brace::Opening => {
                if starts_line {
                    self.rejoin(&token);
                }
                self.open(token);
            }
            Brace::Closing => self.close(token),
            Brace::Empty => self.empty_pair(token),
            Brace::GluedOpening => self.glued_opening(token),
            Brace::GluedClosing => self.glued_closing(token),
        }
    }

    fn level(&mut self) -> &mut Level {
        self.open
            .last_mut()
            .map_or(&mut self.top, |open| &mut open.level)
    }

    /// Lets a brace at the start of a line open the block of the line before. That is a mistake
    /// inside a block; at the top of a file it is left to `parse`, where sites may have it so.
    fn rejoin(&mut self, brace: &Token) {
        if self.open.is_empty() {
            return;
        }
        let level = self.level();
        let before = level.lines.last().filter(|line| line.block.is_none());
        if before.is_some_and(|line| !line.words[0].is_bare("import")) {
            level.unfinished = true;
            report_brace_on_new_line(brace, self.report);
        }
    }

    fn open(&mut self, brace: Token) {
        // Further ones inside it stay silent.
        if self.open.len() == BLOCK_DEPTH_MAX {
            report_too_deep(&brace, self.report);
        }
        let first = self.level().line().words.first();
        let line_start = first.map_or(brace.span, |word| word.span).start;
        let level = Level {
            next_start: Start::BehindOpening,
            ..Level::default()
        };
        self.open.push(Open {
            brace,
            level,
            line_start,
            wrapped: false,
        });
    }

    fn close(&mut self, brace: Token) {
        let Some(open) = self.open.pop() else {
            let found = brace.error("unexpected-brace", "unmatched `}`", "no block is open");
            return self
                .report
                .push(found.help("remove it, or add the `{` it belongs to"));
        };
        if open.wrapped && self.suspect.is_none() && self.is_indented_otherwise(&open, brace.span) {
            self.suspect = Some((open.brace.clone(), brace.span));
        }
        let closes_behind_words = open.level.unfinished && !open.level.lines.is_empty();
        self.put(open, Some(brace.span), closes_behind_words);
    }

    /// Whether a closing brace is indented unlike the line of its opening one.
    fn is_indented_otherwise(&self, open: &Open, closing: Span) -> bool {
        let source = self.report.sources.source(closing.source);
        source.position(open.line_start).column != source.position(closing.start).column
    }

    /// Hands a finished block to the line that opened it.
    fn put(&mut self, open: Open, closing: Option<Span>, closes_behind_words: bool) {
        let Open {
            brace: opening,
            level: inner,
            ..
        } = open;
        // Blocks deeper than allowed are reported; leaving them out bounds every later recursion.
        let too_deep = self.open.len() >= BLOCK_DEPTH_MAX;
        let lines = if too_deep { Vec::new() } else { inner.lines };
        let level = self.level();
        level.line().block = Some(Body {
            lines,
            opening,
            closing,
            closes_behind_words,
        });
        level.unfinished = false;
        level.next_start = Start::BehindClosing;
    }

    /// `{}` at the end of a line looks like an empty block, but is a word.
    fn empty_pair(&mut self, token: Token) {
        let title = "`{}` at the end of a line is not a block";
        let found = token.error("empty-braces", title, "one word instead of two braces");
        let help = "write `{` at the end of the line and `}` on the next one, or leave both out";
        self.report
            .push(found.help(help).help("write \"{}\" if you mean the text"));
        let span = token.span;
        self.open(token);
        if let Some(open) = self.open.pop() {
            self.put(open, Some(span), false);
        }
    }

    /// `handle{`: almost always a missing space.
    fn glued_opening(&mut self, mut token: Token) {
        let title = "an opening brace needs a space before it";
        let word = token.text[..token.text.len() - 1].to_owned();
        let found = token.error("brace-needs-space", title, "read as one word");
        self.report
            .push(found.help(format!("write `{} {{`", shown(&word))));
        let brace = Token {
            text: "{".into(),
            ..token.clone()
        };
        token.text = word;
        self.level().line().words.push(token);
        self.open(brace);
    }

    /// `}}` and `};`: each brace closes a block, but needs its own line; what follows is left out.
    fn glued_closing(&mut self, token: Token) {
        let title = "a closing brace must stand alone on its line";
        let found = token.error("brace-not-alone", title, "read as one word");
        self.report
            .push(found.help("put each `}` on a line of its own"));
        for _ in token.text.chars().take_while(|c| *c == '}') {
            if !self.open.is_empty() {
                self.close(Token {
                    text: "}".into(),
                    ..token.clone()
                });
            }
        }
    }

    fn finish(mut self, complete: bool) -> Vec<Line> {
        if complete {
            self.report_unclosed();
        }
        while let Some(open) = self.open.pop() {
            self.put(open, None, false);
        }
        self.top.lines
    }

    /// Reports blocks that the end of the file leaves open, and silences what follows from them:
    /// every line behind the likely culprit may stand in the wrong block.
    fn report_unclosed(&mut self) {
        let Some(last) = self.open.last() else {
            return;
        };
        let title = "a `{` is never closed";
        let mut found = last.brace.error("unclosed-brace", title, "no matching `}`");
        for open in self.open.iter().rev().skip(1).take(3) {
            found = found.also(open.brace.span, "no matching `}` here either");
        }
        let source = self.report.sources.source(last.brace.span.source);
        let mut from = last.brace.span.start;
        if let Some((opening, closing)) = &self.suspect {
            let line = source.position(opening.span.start).line;
            let label = format!("closes the block of line {line}, but is not indented like it");
            from = from.min(opening.span.start);
            found = found.also(opening.span, "or the `}` of this block is missing");
            found = found.also(*closing, label);
        }
        let end = u32::try_from(source.text().len()).expect("texts are shorter than 4 GiB");
        let rest = Span::new(last.brace.span.source, from, end);
        self.report
            .push(found.help("add the missing `}` on a line of its own"));
        self.report.silence(rest);
    }
}

/// Reports a block inside too many others.
pub(crate) fn report_too_deep(opening: &Token, report: &mut Report) {
    let title = format!("blocks are nested more than {BLOCK_DEPTH_MAX} levels deep");
    let found = opening.error("nesting-too-deep", title, "one argument too many");
    report.push(found.help("reduce the nesting of blocks"));
}

/// Reports an opening brace that starts a line inside a block.
pub(crate) fn report_brace_on_new_line(opening: &Token, report: &mut Report) {
    let title = "an opening brace starts a line";
    let found = opening.error("brace-on-new-line", title, "nothing stands before it");
    report.push(found.help("put the `{` at the end of the line before"));
}

/// What a word is among braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brace {
    /// An ordinary word.
    None,
    /// `{`
    Opening,
    /// `}`
    Closing,
    /// `{}` where a line ends.
    Empty,
    /// `handle{` where a line ends.
    GluedOpening,
    /// `}}` or `};` where a line begins.
    GluedClosing,
}

/// What each word is among braces.
///
/// Where lines begin and end counts only for mistakes. A brace begins and ends one too, wherever it
/// stands, so that putting it on its own line changes nothing.
pub(crate) fn braces(lexemes: &[Lexeme]) -> Vec<Brace> {
    let mut out = Vec::with_capacity(lexemes.len());
    let mut before = Brace::Opening;
    for (index, Lexeme { token, starts_line }) in lexemes.iter().enumerate() {
        let ends_line = || match lexemes.get(index + 1) {
            Some(next) => next.starts_line || may_close(&next.token),
            None => true,
        };
        before = match token.text.as_str() {
            _ if token.quote != Quote::None => Brace::None,
            "{" => Brace::Opening,
            "}" => Brace::Closing,
            "{}" if ends_line() => Brace::Empty,
            text if ends_in_opening(text) && ends_line() => Brace::GluedOpening,
            _ if may_close(token) && (*starts_line || before.begins_line()) => Brace::GluedClosing,
            _ => Brace::None,
        };
        out.push(before);
    }
    out
}

impl Brace {
    /// Whether what follows on the same line should stand on the next one.
    pub fn begins_line(self) -> bool {
        match self {
            Brace::None | Brace::Empty => false,
            Brace::Opening | Brace::Closing | Brace::GluedOpening | Brace::GluedClosing => true,
        }
    }
}

/// Whether a word has an opening brace too many at its end, as in `handle{` and `{args[0]}{`.
fn ends_in_opening(text: &str) -> bool {
    let count = |brace| text.matches(brace).count();
    text.ends_with('{') && !text.ends_with("\\{") && count('{') == count('}') + 1
}

/// Whether a word is a closing brace, perhaps with something attached.
fn may_close(token: &Token) -> bool {
    token.quote == Quote::None && token.text.starts_with('}') && !token.text.contains('{')
}
