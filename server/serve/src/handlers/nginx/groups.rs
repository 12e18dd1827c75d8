//! Patterns whose groups requests remember: by number until the next match, those with names as variables.

use std::sync::Arc;

use sluice_route::placeholder::nginx::variable_name;
use sluice_route::regexp::Regexp;

use crate::context::Exchange;

/// A pattern, and what its groups are called.
#[derive(Debug)]
pub struct Pattern {
    regexp: Regexp,
    /// The groups with names, by number.
    named: Vec<(u8, Arc<str>)>,
    /// Whether it has groups at all.
    has_groups: bool,
}

impl Pattern {
    /// Looks at the groups of `regexp`.
    pub fn new(regexp: Regexp) -> Pattern {
        let groups: Vec<Option<&str>> = regexp.group_names().collect();
        let named = groups.iter().enumerate().filter_map(|(index, name)| {
            let name = variable_name(&name.as_ref()?.to_ascii_lowercase());
            Some((u8::try_from(index).ok()?, name.into()))
        });
        Pattern {
            named: named.collect(),
            has_groups: groups.len() > 1,
            regexp,
        }
    }

    /// Whether `text` has a match, whose groups are then remembered.
    pub fn matches(&self, x: &mut Exchange, text: &[u8]) -> bool {
        if !self.has_groups {
            let matches = self.regexp.is_match(text);
            if matches {
                x.context.captures.clear();
            }
            return matches;
        }
        let find = |text: &[u8], groups: &mut Vec<_>| self.regexp.groups(text, groups);
        if !x.context.captures.keep(text, find) {
            return false;
        }
        for (group, name) in &self.named {
            let value = x.context.captures.group(*group);
            x.context.vars.slot(name).extend_from_slice(value);
        }
        true
    }
}
