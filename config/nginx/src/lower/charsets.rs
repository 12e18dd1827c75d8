//! The charsets that a configuration names, and the tables between them.

use std::collections::BTreeSet;

use sluice_model::nginx::CharsetMap;

use super::text::has_variables;
use crate::tree::Directive;

/// The encodings of a configuration.
#[derive(Debug, Default)]
pub struct Charsets {
    /// The names of all that it names anywhere, in lower case: upstreams may ask for these.
    pub names: BTreeSet<String>,
    /// The tables between them.
    pub maps: Vec<CharsetMap>,
    /// Pairs without a table that were already reported, because blocks inherit them.
    pub reported: BTreeSet<(String, String)>,
}

impl Charsets {
    /// Notes what these directives name.
    pub fn note(&mut self, directives: &[Directive]) {
        for directive in directives {
            if matches!(
                directive.name(),
                "charset" | "source_charset" | "charset_map"
            ) {
                let names = directive
                    .args
                    .iter()
                    .map(|word| word.text.to_ascii_lowercase());
                let is_name = |name: &String| name != "off" && !has_variables(name);
                self.names.extend(names.filter(is_name));
            }
            self.note(directive.body());
        }
    }

    /// Whether a table converts between these two, in either direction.
    pub fn has_table(&self, from: &str, to: &str) -> bool {
        let is = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let mut maps = self.maps.iter();
        maps.any(|map| {
            is(&map.from, from) && is(&map.to, to) || is(&map.from, to) && is(&map.to, from)
        })
    }
}
