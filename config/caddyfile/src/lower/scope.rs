//! The named matchers in scope. A block sees its own and those of the enclosing blocks.

use std::collections::BTreeMap;

use sluice_diag::{Place, Span, closest};
use sluice_model::{Matcher, MatcherSet};

use super::Lowering;
use crate::tree::{Directive, Quote, Token};

/// The named matchers in force, innermost block last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<BTreeMap<String, Defined>>);

/// A named matcher; the set is absent when its definition was refused.
#[derive(Debug)]
struct Defined {
    set: Option<MatcherSet>,
    span: Span,
    conditions: Vec<(String, Place)>,
}

impl Lowering<'_> {
    /// Reads the matcher definitions among some lines and puts them in force until
    /// [`Lowering::leave_scope`].
    pub(super) fn enter_scope(&mut self, lines: &[Directive]) {
        self.scopes.0.push(BTreeMap::new());
        for line in lines.iter().filter(|line| line.name.text.starts_with('@')) {
            let set = self.matcher_definition(line);
            let name = &line.name.text;
            let earlier = self.scopes.0.iter().rev().find_map(|scope| scope.get(name));
            if let Some(first) = earlier.map(|defined| defined.span) {
                self.report.push(
                    line.name
                        .error(
                            "duplicate-matcher",
                            format!("matcher `{name}` is defined twice"),
                            "second definition",
                        )
                        .also(first, "first definition")
                        .help("give one of them another name, or put both into one block"),
                );
                continue;
            }
            let defined = Defined {
                set,
                span: line.name.span,
                conditions: definition(line),
            };
            if let Some(scope) = self.scopes.0.last_mut() {
                scope.insert(name.clone(), defined);
            }
        }
    }

    /// Whether the line that is being read stands in the site itself, not in a block of it.
    pub(super) fn is_site_level(&self) -> bool {
        self.scopes.0.len() <= 1
    }

    /// Forgets the matchers of the innermost block.
    pub(super) fn leave_scope(&mut self) {
        self.scopes.0.pop();
    }

    /// The matcher that a directive's first word is, and the words behind it. The matcher is empty
    /// when there is none, or when it is `*`.
    pub(super) fn matched<'t>(
        &mut self,
        line: &'t Directive,
    ) -> Option<(Vec<MatcherSet>, &'t [Token])> {
        let Some((first, rest)) = line.args.split_first() else {
            return Some((Vec::new(), &[]));
        };
        if first.text == "*" {
            return Some((Vec::new(), rest));
        }
        if first.text.starts_with('/') {
            let path = Matcher::Path(vec![first.text.clone()]);
            return Some((vec![MatcherSet::of(path)], rest));
        }
        if first.text.starts_with('@') {
            return self.named_matcher(first).map(|set| (vec![set], rest));
        }
        Some((Vec::new(), &line.args))
    }

    /// The matcher and the words after it; a single word is not a matcher, whatever it looks like.
    pub(super) fn lone_or_matched<'t>(
        &mut self,
        line: &'t Directive,
    ) -> Option<(Vec<MatcherSet>, &'t [Token])> {
        match line.args.len() {
            1 => Some((Vec::new(), &line.args)),
            _ => self.matched(line),
        }
    }

    /// Where the conditions of the matcher with this name were written.
    pub(super) fn conditions_of(&self, name: &str) -> Vec<(String, Place)> {
        let mut scopes = self.scopes.0.iter().rev();
        let found = scopes.find_map(|scope| scope.get(name));
        found.map_or_else(Vec::new, |defined| defined.conditions.clone())
    }

    /// The matcher behind a name.
    pub(super) fn named_matcher(&mut self, word: &Token) -> Option<MatcherSet> {
        let found = self
            .scopes
            .0
            .iter()
            .rev()
            .find_map(|scope| scope.get(&word.text));
        if let Some(defined) = found {
            // A refused definition was reported where it stands.
            return defined.set.clone();
        }
        let names = self.scopes.0.iter().rev().flat_map(|scope| scope.keys());
        let guess = closest(&word.text, names.map(String::as_str)).map(str::to_string);
        let mut diagnostic = word
            .error(
                "undefined-matcher",
                format!("undefined matcher `{}`", word.text),
                "not defined in this site",
            )
            .did_you_mean(guess.as_deref());
        if guess.is_none() {
            diagnostic = diagnostic.help(format!("define it: `{} path /example*`", word.text));
        }
        self.refuse(diagnostic)
    }
}

/// The conditions of a definition, each with its line.
fn definition(line: &Directive) -> Vec<(String, Place)> {
    match line.args.as_slice() {
        [only] if only.quote != Quote::None => vec![("expression".to_owned(), only.place())],
        [] => {
            let lines = line.lines().iter();
            lines
                .map(|line| (line.name.text.clone(), line.place()))
                .collect()
        }
        [name, rest @ ..] => {
            let span = rest.iter().fold(name.span, |span, arg| span.to(arg.span));
            let place = Place {
                span,
                import: name.import,
            };
            vec![(name.text.clone(), place)]
        }
    }
}
