//! Expands the arguments of an import in the imported lines: `{args[0]}`, `{args[1:]}`, `{block}`, `{blocks.name}`.
//!
//! `import` finds the lines.

use std::borrow::Cow;
use std::ops::Range;

use sluice_diag::{Diagnostic, ImportId, Report, shown};

use crate::limits::{BLOCK_DEPTH_MAX, WORD_BYTES};
use crate::lines::{Body, Line, Start};
use crate::tree::{Quote, Token};

/// What one import gives to the lines it brings.
pub(crate) struct Arguments<'a> {
    pub words: &'a [Token],
    pub block: &'a [Line],
    /// How many blocks the innermost line of `block` is in.
    pub block_depth: usize,
    pub import: ImportId,
}

/// What imports have come to.
pub(crate) struct Growth<'a> {
    /// Words that the whole configuration may still grow by.
    pub words_left: &'a mut usize,
    pub report: &'a mut Report,
}

/// Why lines could not be brought in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The configuration would have too many words.
    TooManyWords,
    /// The lines would stand in too many blocks.
    TooDeep,
}

impl Growth<'_> {
    /// Takes a word of `bytes` from what is left.
    fn spend(&mut self, bytes: usize) -> Result<(), Refused> {
        let words = 1 + bytes / WORD_BYTES;
        let left = self.words_left.checked_sub(words);
        *self.words_left = left.ok_or(Refused::TooManyWords)?;
        Ok(())
    }

    fn spend_lines(&mut self, lines: &[Line]) -> Result<(), Refused> {
        for line in lines {
            line.words
                .iter()
                .try_for_each(|word| self.spend(word.text.len()))?;
            if let Some(body) = &line.block {
                self.spend_lines(&body.lines)?;
            }
        }
        Ok(())
    }
}

impl Arguments<'_> {
    /// A copy of `lines` with the arguments put in.
    pub fn instantiate(
        &self,
        lines: &[Line],
        growth: &mut Growth<'_>,
    ) -> Result<Vec<Line>, Refused> {
        self.lines(lines, 0, growth)
    }

    /// The lines that are to stand in `depth` blocks.
    fn lines(
        &self,
        lines: &[Line],
        depth: usize,
        growth: &mut Growth<'_>,
    ) -> Result<Vec<Line>, Refused> {
        let mut out = Vec::with_capacity(lines.len());
        for line in lines {
            self.line(line, depth, growth, &mut out)?;
        }
        Ok(out)
    }

    /// One line becomes several where lines of a block stand in it.
    fn line(
        &self,
        line: &Line,
        depth: usize,
        growth: &mut Growth<'_>,
        out: &mut Vec<Line>,
    ) -> Result<(), Refused> {
        let mut current = Line {
            words: Vec::new(),
            block: None,
            start: line.start,
        };
        for word in &line.words {
            if let Some(block) = self.block_lines(word) {
                if depth + self.block_depth > BLOCK_DEPTH_MAX {
                    return Err(Refused::TooDeep);
                }
                growth.spend_lines(&block)?;
                if !block.is_empty() && !current.words.is_empty() {
                    out.push(std::mem::replace(&mut current, empty_line()));
                }
                out.extend(block.into_owned());
            } else if let Some(range) = self.variadic(word, growth.report) {
                for arg in &self.words[range] {
                    growth.spend(arg.text.len())?;
                    current.words.push(self.put(word, &arg.text));
                }
            } else {
                let text = self.replace(word, growth)?;
                growth.spend(text.len())?;
                current.words.push(self.put(word, &text));
            }
        }
        if let Some(body) = &line.block {
            let lines = self.lines(&body.lines, depth + 1, growth)?;
            let opening = self.put(&body.opening, &body.opening.text);
            current.block = Some(Body {
                lines,
                opening,
                ..*body
            });
        }
        // Without arguments `{args[:]}` leaves nothing, not even an empty line.
        if !current.words.is_empty() || current.block.is_some() {
            out.push(current);
        }
        Ok(())
    }

    fn put(&self, word: &Token, text: &str) -> Token {
        Token {
            text: text.into(),
            import: Some(self.import),
            ..*word
        }
    }

    /// The lines that `{block}` and `{blocks.name}` stand for.
    fn block_lines(&self, word: &Token) -> Option<Cow<'_, [Line]>> {
        match block_placeholder(word)? {
            "" => Some(Cow::Borrowed(self.block)),
            key => {
                let named = |line: &&Line| line.words.first().is_some_and(|w| w.text == key);
                Some(
                    self.block
                        .iter()
                        .rfind(named)
                        .map_or(Cow::Borrowed(&[]), content),
                )
            }
        }
    }

    /// The arguments that a word such as `{args[1:]}` stands for.
    fn variadic(&self, word: &Token, report: &mut Report) -> Option<Range<usize>> {
        let inner = word.text.strip_prefix("{args[")?.strip_suffix("]}")?;
        let (from, to) = inner.split_once(':')?;
        let len = self.words.len();
        let bound = |text: &str, open: usize| match text {
            "" => Some(open),
            text => text.parse::<usize>().ok(),
        };
        let (Some(from), Some(to)) = (bound(from, 0), bound(to, len)) else {
            // `replace` reports it.
            return None;
        };
        if from <= to && to <= len {
            return Some(from..to);
        }
        report.push(self.out_of_range(word, &word.text));
        None
    }

    /// The text of a word with single arguments put in. `\{` and `\}` lose their backslash, so
    /// that a snippet can write `\{args[0]}` for the text itself.
    fn replace(&self, word: &Token, growth: &mut Growth<'_>) -> Result<String, Refused> {
        let text = word.text.as_str();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(found) = text[at..].find(['{', '\\']) {
            out.push_str(&text[at..at + found]);
            at += found;
            let rest = &text[at..];
            if let Some(brace) = ["{", "}"].iter().find(|b| rest[1..].starts_with(**b))
                && rest.starts_with('\\')
            {
                out.push_str(brace);
                at += 2;
                continue;
            }
            match self.argument(word, rest, growth.report) {
                Some((value, len)) => {
                    out.push_str(value);
                    at += len;
                    if out.len() / WORD_BYTES > *growth.words_left {
                        return Err(Refused::TooManyWords);
                    }
                }
                None => {
                    out.push_str(&rest[..1]);
                    at += 1;
                }
            }
        }
        out.push_str(&text[at..]);
        Ok(out)
    }

    /// The argument that `rest` begins with, and the length of its placeholder.
    fn argument(&self, word: &Token, rest: &str, report: &mut Report) -> Option<(&str, usize)> {
        let inner = rest.strip_prefix("{args")?;
        let placeholder = &rest[..=rest.find('}')?];
        let index = if let Some(dotted) = inner.strip_prefix('.') {
            let index = &dotted[..dotted.find('}')?];
            if index.parse::<usize>().is_ok() {
                let title = format!("`{}` is an old form", shown(placeholder));
                let found = word.warning("args-deprecated", title, "deprecated, but supported");
                report.push(
                    found
                        .help(format!("write `{{args[{index}]}}`"))
                        .imported(Some(self.import)),
                );
            }
            index
        } else {
            inner.strip_prefix('[')?.split_once("]}")?.0
        };
        let Ok(number) = index.parse::<usize>() else {
            if word.text != placeholder || !in_range_form(index) {
                report.push(self.not_understood(word, placeholder, index));
            }
            return None;
        };
        let Some(value) = self.words.get(number) else {
            report.push(self.out_of_range(word, placeholder));
            return None;
        };
        Some((&value.text, placeholder.len()))
    }

    fn out_of_range(&self, word: &Token, placeholder: &str) -> Diagnostic {
        let count = self.words.len();
        let plural = if count == 1 { "" } else { "s" };
        let title = format!(
            "`{}` refers to an argument that does not exist",
            shown(placeholder)
        );
        let label = format!("the import has {count} argument{plural}, counted from 0");
        word.warning("args-out-of-range", title, label)
            .imported(Some(self.import))
            .note("it stays in the configuration as text")
            .help("give the import another argument, or use a smaller number")
    }

    fn not_understood(&self, word: &Token, placeholder: &str, index: &str) -> Diagnostic {
        let title = format!(
            "`{}` is not a valid argument placeholder",
            shown(placeholder)
        );
        let (label, help) = if in_range_form(index) {
            (
                "a range of arguments must be a word of its own",
                "put spaces around it",
            )
        } else {
            ("not a number", "write {args[0]}, {args[1:]} or {args[:]}")
        };
        word.warning("args-syntax", title, label)
            .imported(Some(self.import))
            .note("it stays in the configuration as text")
            .help(help)
    }
}

/// What `{block}` (then empty) or `{blocks.key}` names.
pub(crate) fn block_placeholder(word: &Token) -> Option<&str> {
    if word.quote != Quote::None {
        return None;
    }
    match word.text.as_str() {
        "{block}" => Some(""),
        text => {
            let key = text.strip_prefix("{blocks.")?.strip_suffix('}')?;
            (!key.is_empty() && !key.contains(['{', '}'])).then_some(key)
        }
    }
}

/// What stands behind the first word of a line.
fn content(line: &Line) -> Cow<'_, [Line]> {
    match (&line.words[1..], &line.block) {
        ([], Some(body)) => Cow::Borrowed(&body.lines),
        ([], None) => Cow::Borrowed(&[]),
        (words, block) => {
            let start = Start::OfLine;
            Cow::Owned(vec![Line {
                words: words.to_vec(),
                block: block.clone(),
                start,
            }])
        }
    }
}

/// Whether an index looks like `1:`, `:2` or `1:2`.
fn in_range_form(index: &str) -> bool {
    let number = |text: &str| text.is_empty() || text.parse::<usize>().is_ok();
    index
        .split_once(':')
        .is_some_and(|(from, to)| number(from) && number(to))
}

fn empty_line() -> Line {
    Line {
        words: Vec::new(),
        block: None,
        start: Start::OfLine,
    }
}
