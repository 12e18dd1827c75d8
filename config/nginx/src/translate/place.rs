//! A server or a location while it is translated, and what is known of it.

use super::text::{Facts, expanded};
use crate::lower::level::Level;
use crate::tree::Directive;

/// What is the same for all locations of a server.
pub struct Site<'g> {
    /// The groups of upstreams.
    pub groups: &'g [&'g Directive],
    /// What texts may name.
    pub facts: Facts,
}

/// A place, and what is known of it.
pub struct Place<'p, 'l> {
    /// What holds in it.
    pub level: &'p Level<'l>,
    /// Its server.
    pub site: &'p Site<'p>,
    /// What texts may name.
    pub facts: &'p Facts,
    /// Modifier and path of its location.
    pub of: Option<(&'p str, &'p str)>,
    /// The pattern whose groups texts may name.
    pub groups: Option<&'p str>,
}

impl Place<'_, '_> {
    /// A text with its variables as placeholders; none where one of them has no counterpart.
    pub(super) fn text(&self, text: &str) -> Option<String> {
        expanded(text, self.facts, self.groups)
    }

    /// The path of a location that compares from the left.
    pub(super) fn prefix(&self) -> Option<&str> {
        self.of
            .filter(|(modifier, path)| {
                matches!(*modifier, "" | "^~" | "=") && path.starts_with('/')
            })
            .map(|(_, path)| path)
    }

    /// The folder of its files, and how much of the path that stands in for.
    pub(super) fn folder(&self) -> Option<(String, Option<&str>)> {
        match self.level.own("alias").next().and_then(|line| line.arg(0)) {
            Some(alias) => Some((self.text(alias)?, Some(self.prefix()?))),
            None => Some((self.text(self.level.word("root")?)?, None)),
        }
    }
}
