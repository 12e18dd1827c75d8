//! The operations of `uri query`. `crate::query` parses and writes the parameters.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use sluice_message::Uri;

use super::edit::replace_text;
use super::{RewriteError, expand, regexp, template};
use crate::matcher::Input;
use crate::placeholder::{Template, Unknown};
use crate::query::{encode_pairs, pairs};
use crate::regexp::{Regexp, escape_replacement};

/// Operations on the parameters of a query, applied kind by kind: rename, set, add, replace,
/// delete.
#[derive(Clone, Debug, Default)]
pub struct QueryOps {
    rename: Vec<(Template, Template)>,
    set: Vec<(Template, Template)>,
    add: Vec<(Template, Template)>,
    replace: Vec<Replacement>,
    delete: Vec<Template>,
}

#[derive(Clone, Debug)]
struct Replacement {
    name: Template,
    search: Search,
    replace: Template,
}

#[derive(Clone, Debug)]
enum Search {
    Text(Template),
    Regexp(Regexp),
}

/// Parameters by name, each with its values in order.
type Params = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

impl QueryOps {
    /// No operation.
    pub fn new() -> QueryOps {
        QueryOps::default()
    }

    /// Gives the parameter `from` the name `to`, in place of one that has it.
    pub fn rename(mut self, from: &str, to: &str) -> Result<QueryOps, RewriteError> {
        self.rename.push((template(from)?, template(to)?));
        Ok(self)
    }

    /// Gives the parameter `name` one value.
    pub fn set(mut self, name: &str, value: &str) -> Result<QueryOps, RewriteError> {
        self.set.push((template(name)?, template(value)?));
        Ok(self)
    }

    /// Adds a value to the parameter `name`.
    pub fn add(mut self, name: &str, value: &str) -> Result<QueryOps, RewriteError> {
        self.add.push((template(name)?, template(value)?));
        Ok(self)
    }

    /// Replaces `search` in the values of `name`, or of all parameters if it is `*`.
    pub fn replace(
        mut self,
        name: &str,
        search: &str,
        replace: &str,
    ) -> Result<QueryOps, RewriteError> {
        let search = Search::Text(template(search)?);
        self.replace.push(Replacement {
            name: template(name)?,
            search,
            replace: template(replace)?,
        });
        Ok(self)
    }

    /// Replaces the matches of `pattern` in the values of `name`, or of all parameters if it is
    /// `*`.
    pub fn replace_regexp(
        mut self,
        name: &str,
        pattern: &str,
        replace: &str,
    ) -> Result<QueryOps, RewriteError> {
        let search = Search::Regexp(regexp(pattern)?);
        self.replace.push(Replacement {
            name: template(name)?,
            search,
            replace: template(replace)?,
        });
        Ok(self)
    }

    /// Removes the parameter `name`.
    pub fn delete(mut self, name: &str) -> Result<QueryOps, RewriteError> {
        self.delete.push(template(name)?);
        Ok(self)
    }

    pub(super) fn apply(&self, uri: &mut Uri, input: &Input<'_>) {
        let mut params = Params::new();
        for (name, value) in pairs(uri.query().unwrap_or_default()) {
            params
                .entry(name.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        for (from, to) in &self.rename {
            let (from, to) = (expand(from, input), expand(to, input));
            if !from.is_empty()
                && !to.is_empty()
                && from != to
                && let Some(values) = params.remove(&from)
            {
                params.insert(to, values);
            }
        }
        for (name, value) in &self.set {
            let name = expand(name, input);
            if !name.is_empty() {
                params.insert(name, Vec::from([expand(value, input)]));
            }
        }
        for (name, value) in &self.add {
            let name = expand(name, input);
            if !name.is_empty() {
                params.entry(name).or_default().push(expand(value, input));
            }
        }
        for replacement in &self.replace {
            replacement.apply(&mut params, input);
        }
        for name in &self.delete {
            params.remove(&expand(name, input));
        }
        let flat = params.iter().flat_map(|(name, values)| {
            values
                .iter()
                .map(|value| (name.as_slice(), value.as_slice()))
        });
        let mut query = Vec::new();
        encode_pairs(flat, &mut query);
        uri.set_query((!query.is_empty()).then_some(query.as_slice()));
    }
}

impl Replacement {
    fn apply(&self, params: &mut Params, input: &Input<'_>) {
        let name = expand(&self.name, input);
        let mut replace = Vec::new();
        let escape = matches!(self.search, Search::Regexp(_));
        self.replace.expand_each(
            input.values,
            Unknown::Keep,
            &mut replace,
            |_, out, start| {
                if escape {
                    escape_replacement(out, start);
                }
            },
        );
        let chosen = params
            .iter_mut()
            .filter(|(found, _)| name == b"*" || **found == name);
        for value in chosen.flat_map(|(_, values)| values) {
            *value = match &self.search {
                Search::Text(search) => {
                    let mut text = Vec::new();
                    search.expand(input.values, Unknown::Keep, &mut text);
                    if text.is_empty() {
                        return;
                    }
                    replace_text(value, &text, &replace, 0)
                }
                Search::Regexp(regexp) => regexp.replace_all(value, &replace),
            };
        }
    }
}
