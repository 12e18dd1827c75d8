//! Parses the arguments of a line: how many there must be, and what each must look like. Every error names the word,
//! lists what is accepted and shows the usage of the line.

use std::str::FromStr;

use sluice_diag::{Diagnostic, closest};
use sluice_model::{Duration, WeakString};

use super::Lowering;
use super::definition::Refused;
use super::size::parse_size;
use crate::registry::plugins::{PluginWord, plugin_word};
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    /// How a line is written, if its definition is known.
    fn usage(&self, line: &Directive) -> Option<String> {
        let usage = self.place.usage(&line.name.text);
        usage.map(|usage| format!("write it as `{usage}`"))
    }

    fn with_usage(&self, diagnostic: Diagnostic, line: &Directive) -> Diagnostic {
        match self.usage(line) {
            Some(usage) => diagnostic.help(usage),
            None => diagnostic,
        }
    }

    /// Refuses a line because of words that are missing or too many.
    pub(super) fn missing<T>(&mut self, line: &Directive, what: &str) -> Option<T> {
        let last = line.args.last().unwrap_or(&line.name);
        let diagnostic = last.error(
            "missing-argument",
            format!("`{}` needs {what}", line.name.text),
            "nothing follows",
        );
        let diagnostic = self.with_usage(diagnostic, line);
        self.refuse(diagnostic)
    }

    /// Refuses a line because of a word that has no meaning where it stands.
    pub(super) fn surplus<T>(&mut self, line: &Directive, word: &Token) -> Option<T> {
        let diagnostic = word.error(
            "unexpected-argument",
            format!(
                "unexpected argument `{}` for `{}`",
                word.text, line.name.text
            ),
            "one argument too many",
        );
        let diagnostic = self.with_usage(diagnostic, line);
        self.refuse(diagnostic)
    }

    /// Reads every line, going on after a refused one; `None` if any was refused.
    pub(super) fn each<'t>(
        &mut self,
        lines: &'t [Directive],
        mut read: impl FnMut(&mut Self, &'t Directive) -> Option<()>,
    ) -> Option<()> {
        let place = self.place;
        let mut whole = true;
        for line in lines {
            self.subject.clone_from(&line.name.text);
            whole &= read(self, line).is_some();
            self.place = place;
        }
        whole.then_some(())
    }

    /// Checks how many words there are.
    pub(super) fn between(
        &mut self,
        line: &Directive,
        args: &[Token],
        min: usize,
        max: usize,
    ) -> Option<()> {
        if args.len() < min {
            let what = match (min, min == max) {
                (1, true) => "an argument".to_string(),
                (1, false) => "at least one argument".to_string(),
                (_, true) => format!("{min} arguments, found {}", args.len()),
                (_, false) => format!("at least {min} arguments, found {}", args.len()),
            };
            return self.missing(line, &what);
        }
        match args.get(max) {
            Some(word) => self.surplus(line, word),
            None => Some(()),
        }
    }

    /// Exactly so many words.
    pub(super) fn exact<'t, const N: usize>(
        &mut self,
        line: &Directive,
        args: &'t [Token],
    ) -> Option<&'t [Token; N]> {
        self.between(line, args, N, N)?;
        args.try_into().ok()
    }

    /// The one word of a line without a block.
    pub(super) fn single<'t>(&mut self, line: &'t Directive) -> Option<&'t Token> {
        self.no_block(line)?;
        let [word] = self.exact::<1>(line, &line.args)?;
        Some(word)
    }

    /// The text of the one word of a line without a block.
    pub(super) fn single_text(&mut self, line: &Directive) -> Option<String> {
        self.single(line).map(|word| word.text.clone())
    }

    /// A line that is only its name.
    pub(super) fn flag(&mut self, line: &Directive) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 0, 0)
    }

    /// One word or more, as texts.
    pub(super) fn texts(&mut self, line: &Directive) -> Option<Vec<String>> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, usize::MAX)?;
        Some(texts(&line.args))
    }

    /// Refuses a block with lines in it.
    pub(super) fn no_block(&mut self, line: &Directive) -> Option<()> {
        let Some(first) = line.lines().first() else {
            return Some(());
        };
        let diagnostic = first.name.error(
            "unexpected-block",
            format!("`{}` does not take a block", line.name.text),
            "not expected here",
        );
        let diagnostic = self.with_usage(diagnostic, line);
        self.refuse(diagnostic)
    }

    /// A duration such as `5s`, at least zero.
    pub(super) fn duration(&mut self, word: &Token) -> Option<Duration> {
        match Duration::parse(&word.text) {
            Ok(duration) => Some(duration),
            Err(error) => self.refuse(
                word.error(
                    "invalid-duration",
                    format!("invalid duration `{}`{}", word.text, self.about()),
                    error.to_string(),
                )
                .help("write a number and a unit: `500ms`, `10s`, `5m`, `1h`, `2d`"),
            ),
        }
    }

    /// The duration that is the one word of a line.
    pub(super) fn single_duration(&mut self, line: &Directive) -> Option<Duration> {
        let word = self.single(line)?;
        self.duration(word)
    }

    /// A size such as `10MB`, in bytes.
    pub(super) fn size(&mut self, word: &Token) -> Option<i64> {
        match parse_size(&word.text) {
            Some(size) => Some(size),
            None => self.refuse(
                word.error(
                    "invalid-size",
                    format!("invalid size `{}`{}", word.text, self.about()),
                    "not a number of bytes",
                )
                .help("write a number and a unit: `512`, `64KiB`, `10MB`, `1GiB`"),
            ),
        }
    }

    /// The size that is the one word of a line.
    pub(super) fn single_size(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        self.size(word)
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&mut self, word: &Token, expected: &str) -> Option<T> {
        match word.text.parse() {
            Ok(number) => Some(number),
            Err(_) => self.refuse(word.error(
                "invalid-number",
                format!("invalid number `{}`{}", word.text, self.about()),
                format!("expected {expected}"),
            )),
        }
    }

    /// The number that is the one word of a line.
    pub(super) fn single_number<T: FromStr>(
        &mut self,
        line: &Directive,
        expected: &str,
    ) -> Option<T> {
        let word = self.single(line)?;
        self.number(word, expected)
    }

    /// A port.
    pub(super) fn port(&mut self, word: &Token) -> Option<u16> {
        self.number(word, "a port from 0 to 65535")
    }

    /// A status code, or a placeholder for one.
    pub(super) fn status(&mut self, word: &Token) -> Option<WeakString> {
        let fits = word.text.parse::<u16>().is_ok_and(|code| code <= 999);
        if fits || word.text.contains('{') {
            return Some(word.text.as_str().into());
        }
        let title = format!("invalid status `{}`{}", word.text, self.about());
        let diagnostic = word.error("invalid-status", title, "not a status code");
        self.refuse(diagnostic.help("quote the text if it has several words"))
    }

    /// One of a few words.
    pub(super) fn one_of(&mut self, word: &Token, accepted: &[&str]) -> Option<String> {
        if accepted.contains(&word.text.as_str()) {
            return Some(word.text.clone());
        }
        self.invalid_value(word, accepted)
    }

    /// Refuses a word that is none of the accepted ones.
    pub(super) fn invalid_value<T>(&mut self, word: &Token, accepted: &[&str]) -> Option<T> {
        let title = format!("invalid value `{}`{}", word.text, self.about());
        let label = match accepted.len() > OPTIONS_LISTED_MAX {
            true => "not a known name".to_string(),
            false => format!("expected {}", listed(accepted)),
        };
        let diagnostic = word
            .error("invalid-value", title, label)
            .did_you_mean(closest(&word.text, accepted.iter().copied()));
        self.refuse(diagnostic)
    }

    /// Names the line that is being read, behind a title.
    pub(super) fn about(&self) -> String {
        match self.subject.is_empty() {
            true => String::new(),
            false => format!(" for `{}`", self.subject),
        }
    }

    /// Refuses a setting that was given before.
    pub(super) fn duplicate<T>(&mut self, line: &Directive) -> Option<T> {
        let diagnostic = line.name.error(
            "duplicate-option",
            format!("`{}` is given twice", line.name.text),
            "was set before",
        );
        self.refuse(diagnostic.help("keep one of the two"))
    }

    /// Refuses a line that the directive or option being read does not have.
    pub(super) fn unknown_option<T>(&mut self, line: &Directive) -> Option<T> {
        let name = line.name.text.as_str();
        let place = self.place.name();
        let what = match place == GLOBAL {
            true => format!("global option `{name}`"),
            false => format!("option `{name}` of `{place}`"),
        };
        let known = self.place.find(name);
        let refused = known.and_then(|entry| entry.verdict.refused());
        if let Some(Refused { why, instead }) = refused {
            let title = format!("{what} is not supported");
            let diagnostic = line.name.error("unsupported-option", title, why);
            return self.refuse(diagnostic.help(instead));
        }
        if known.is_some() {
            // The table is that of several blocks, of which this one lacks the option.
            let title = format!("{what} is not allowed here");
            let diagnostic = line
                .name
                .error("unknown-option", title, "not in this block");
            return self.refuse(diagnostic);
        }
        if let Some(word) = plugin_word(name).filter(|_| place == GLOBAL) {
            let title = format!("{what} is not built in");
            return self.refuse_plugin_word(&line.name, "unsupported-option", title, word);
        }
        let names: Vec<&str> = self.place.lowered_names().collect();
        let guess = closest(name, names.iter().copied());
        let mut diagnostic = line
            .name
            .error(
                "unknown-option",
                format!("unknown {what}"),
                "not an option here",
            )
            .did_you_mean(guess);
        if guess.is_none() && !names.is_empty() && names.len() <= OPTIONS_LISTED_MAX {
            diagnostic = diagnostic.help(format!("`{place}` has {}", listed(&names)));
        }
        self.refuse(diagnostic)
    }

    /// Refuses a word that a plugin defines.
    pub(super) fn refuse_plugin_word<T>(
        &mut self,
        written: &Token,
        slug: &'static str,
        title: String,
        word: &PluginWord,
    ) -> Option<T> {
        let label = format!("defined by the Caddy plugin {}", word.plugin);
        self.refuse(written.error(slug, title, label).help(word.instead))
    }

    /// Refuses a module that does not exist or is not built.
    pub(super) fn unknown_module<T>(
        &mut self,
        word: &Token,
        what: &str,
        accepted: &[&str],
    ) -> Option<T> {
        if let Some(defined) = plugin_word(&word.text) {
            let title = format!("{what} `{}` is not built in", word.text);
            return self.refuse_plugin_word(word, "unsupported-option", title, defined);
        }
        let diagnostic = word
            .error(
                "unknown-module",
                format!("unknown {what} `{}`", word.text),
                format!("expected {}", listed(accepted)),
            )
            .did_you_mean(closest(&word.text, accepted.iter().copied()));
        self.refuse(diagnostic)
    }
}

/// Names as a message has them.
fn listed(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The place of options that stand in the global block.
pub(super) const GLOBAL: &str = "global options";

/// Longer lists help nobody.
const OPTIONS_LISTED_MAX: usize = 12;

/// The texts of words.
pub(super) fn texts(args: &[Token]) -> Vec<String> {
    args.iter().map(|word| word.text.clone()).collect()
}
