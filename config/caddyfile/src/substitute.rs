//! Substitutes environment variables in a text before it is parsed: `{$NAME}` and `{$NAME:default}`.
//!
//! Remembers where each byte came from, so that messages point into the original text. `lex` decides whether a variable
//! is inside a comment.

use std::ops::Range;

use sluice_diag::{SourceId, Span};

use crate::limits::SUBSTITUTED_BYTES_MAX;
use crate::loader::Loader;

/// A text with its variables filled in.
#[derive(Debug)]
pub(crate) struct Substituted {
    /// The text that is lexed.
    pub text: String,
    /// What is to be said about variables, unless they stand in a comment.
    pub findings: Vec<Finding>,
    source: SourceId,
    /// Replacements in order.
    replaced: Vec<Replaced>,
}

/// Something about one variable that the author should know.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Where it is in the substituted text.
    pub at: usize,
    /// Where it is written.
    pub span: Span,
    /// What it is.
    pub kind: FindingKind,
}

/// See [`Finding`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FindingKind {
    /// The variable is not set and has no default, so it stands for nothing.
    Unset(String),
    /// `{$` without a `}` on its line. It stays as it is.
    Malformed,
    /// The value is left out because the text would become too large.
    TooLarge,
}

#[derive(Debug)]
struct Replaced {
    /// In the substituted text.
    to: Range<usize>,
    /// In the text as written.
    from: Range<usize>,
}

/// Fills in the variables of `text`. Values are not searched for variables again.
pub(crate) fn substitute(source: SourceId, text: &str, loader: &dyn Loader) -> Substituted {
    let mut out = Substituted {
        text: String::with_capacity(text.len()),
        findings: Vec::new(),
        source,
        replaced: Vec::new(),
    };
    let mut done = 0;
    for Variable { whole, inner } in variables(text) {
        out.text.push_str(&text[done..whole.start]);
        done = whole.end;
        match inner {
            Some(inner) => out.put(whole, &text[inner], loader),
            None => {
                out.find(whole.clone(), FindingKind::Malformed);
                out.text.push_str(&text[whole]);
            }
        }
    }
    out.text.push_str(&text[done..]);
    out
}

/// Where a variable stands in a text.
pub(crate) struct Variable {
    /// From `{$` to `}`, or only `{$` if no `}` follows on its line.
    pub whole: Range<usize>,
    /// The name, and the default if there is one.
    pub inner: Option<Range<usize>>,
}

/// The variables of a text, in order.
pub(crate) fn variables(text: &str) -> impl Iterator<Item = Variable> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let open = done + text[done..].find("{$")?;
        let line = text[open..].split('\n').next().unwrap_or("");
        let inner = line.find('}').map(|close| open + 2..open + close);
        done = inner.as_ref().map_or(open + 2, |inner| inner.end + 1);
        Some(Variable {
            whole: open..done,
            inner,
        })
    })
}

impl Substituted {
    /// The text as written, variables and all.
    pub fn unchanged(source: SourceId, text: &str) -> Self {
        Substituted {
            text: text.into(),
            findings: Vec::new(),
            source,
            replaced: Vec::new(),
        }
    }

    /// The bytes as written that the range of the substituted text came from.
    pub fn span(&self, range: Range<usize>) -> Span {
        let start = self.origin(range.start, false);
        let end = self.origin(range.end, true);
        Span::new(self.source, small(start), small(end.max(start)))
    }

    fn put(&mut self, from: Range<usize>, inner: &str, loader: &dyn Loader) {
        if inner.is_empty() {
            // Without a name and a default `{$}` is text.
            return self.text.push_str("{$}");
        }
        let (name, default) = match inner.split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let value = loader.variable(name);
        if value.is_none() && default.is_none() {
            self.find(from.clone(), FindingKind::Unset(name.into()));
        }
        let value = value.or(default.map(String::from)).unwrap_or_default();
        let start = self.text.len();
        if start + value.len() > SUBSTITUTED_BYTES_MAX {
            self.find(from.clone(), FindingKind::TooLarge);
        } else {
            self.text.push_str(&value);
        }
        self.replaced.push(Replaced {
            to: start..self.text.len(),
            from,
        });
    }

    fn find(&mut self, from: Range<usize>, kind: FindingKind) {
        let span = Span::new(self.source, small(from.start), small(from.end));
        self.findings.push(Finding {
            at: self.text.len(),
            span,
            kind,
        });
    }

    /// Where a position came from; inside a value, where its variable starts or ends.
    fn origin(&self, at: usize, is_end: bool) -> usize {
        // A start belongs to the value it begins, an end to the value it closes.
        let before = |r: &Replaced| r.to.start < at || (r.to.start == at && !is_end);
        let count = self.replaced.partition_point(before);
        match count.checked_sub(1).map(|last| &self.replaced[last]) {
            None => at,
            Some(last) if at < last.to.end && !is_end => last.from.start,
            Some(last) if at <= last.to.end && is_end => last.from.end,
            Some(last) => last.from.end + (at - last.to.end),
        }
    }
}

/// `Sources` keeps every text below 4 GiB.
fn small(at: usize) -> u32 {
    u32::try_from(at).expect("texts are shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::MemoryLoader;
    use sluice_diag::Sources;

    fn run(text: &str) -> (Substituted, Sources) {
        let mut sources = Sources::new();
        let id = sources.add("t", text);
        let mut loader = MemoryLoader::default();
        loader.variables.insert("A".into(), "value of a".into());
        loader.variables.insert("EMPTY".into(), String::new());
        (substitute(id, text, &loader), sources)
    }

    /// The written text behind `word` of the substituted one.
    fn written(text: &str, word: &str) -> String {
        let (out, sources) = run(text);
        let start = out.text.find(word).unwrap();
        sources.text(out.span(start..start + word.len())).into()
    }

    #[test]
    fn values_and_defaults_are_filled_in() {
        assert_eq!(run("x{$A}y").0.text, "xvalue of ay");
        assert_eq!(
            run("{$B:a:b}|{$B:}|{$EMPTY:no}|{$B:{x}}").0.text,
            "a:b|||{x}"
        );
    }

    #[test]
    fn what_is_odd_is_noted_and_kept() {
        let (out, _) = run("{$B}{$}{$A\n}");
        assert_eq!(out.text, "{$}{$A\n}");
        let kinds: Vec<_> = out
            .findings
            .into_iter()
            .map(|finding| finding.kind)
            .collect();
        let unset = FindingKind::Unset("B".into());
        assert_eq!(kinds, [unset, FindingKind::Malformed]);
    }

    #[test]
    fn spans_lead_back_to_what_was_written() {
        assert_eq!(written("ab {$A} cd {$A} ef", "ab"), "ab");
        assert_eq!(written("ab {$A} cd {$A} ef", "cd"), "cd");
        assert_eq!(written("ab {$A} cd {$A} ef", "ef"), "ef");
        assert_eq!(written("ab {$A} cd", "of"), "{$A}");
        assert_eq!(written("ab{$A}cd", "abvalue of acd"), "ab{$A}cd");
        assert_eq!(written("x {$EMPTY}cd", "cd"), "cd");
    }

    #[test]
    fn large_values_do_not_fill_memory() {
        struct Large;
        impl Loader for Large {
            fn read(&self, _: &str) -> std::io::Result<Vec<u8>> {
                unreachable!()
            }
            fn glob(&self, _: &str) -> std::io::Result<Vec<String>> {
                unreachable!()
            }
            fn variable(&self, _: &str) -> Option<String> {
                Some("x".repeat(1 << 20))
            }
        }
        let mut sources = Sources::new();
        let text = "{$A}".repeat(100);
        let id = sources.add("t", text.as_str());
        let out = substitute(id, &text, &Large);
        assert!(out.text.len() <= SUBSTITUTED_BYTES_MAX);
        assert!(
            out.findings
                .iter()
                .any(|finding| finding.kind == FindingKind::TooLarge)
        );
    }
}
