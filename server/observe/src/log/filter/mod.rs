//! Field filters: redact or rename fields of log entries. Parses their configuration as well; URLs, cookies and
//! addresses have modules of their own.

mod addresses;
mod cookies;
mod query;

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use sluice_message::hex::hex_text;
use sluice_model::RawModule;

use super::node::Node;

pub use addresses::IpMask;

/// Filters by field name; objects have filters for their members.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    fields: HashMap<String, Place>,
}

#[derive(Clone, Debug)]
enum Place {
    /// The field itself.
    Field(Filter),
    /// Members of the object.
    Within(Filters),
}

/// A filter for one field.
#[derive(Clone, Debug)]
enum Filter {
    Delete,
    Rename(String),
    Replace(Node),
    /// Masks addresses.
    IpMask(IpMask),
    /// Changes URL query parameters.
    Query(Vec<Action>),
    Cookie(Vec<Action>),
    /// Replaces matches of each regular expression, in this order.
    Expressions(Vec<(Regex, String)>),
    Hash,
}

/// An action for one parameter or cookie.
#[derive(Clone, Debug)]
pub struct Action {
    name: String,
    kind: ActionKind,
}

#[derive(Clone, Debug)]
enum ActionKind {
    Delete,
    Replace(String),
    Hash,
}

impl Filters {
    /// Builds filters by path (`request>headers>Cookie`). The error has the path and the problem.
    pub fn build<'a>(
        fields: impl IntoIterator<Item = (&'a String, &'a RawModule)>,
    ) -> Result<Filters, (String, String)> {
        let mut filters = Filters::default();
        // Sorted by depth, so that filters below a filtered field are recognized as unreachable.
        let mut sorted: Vec<_> = fields.into_iter().collect();
        sorted.sort_by_key(|(path, _)| path.matches('>').count());
        for (path, module) in sorted {
            let filter = Filter::build(module).map_err(|problem| (path.clone(), problem))?;
            filters.insert(path, filter);
        }
        Ok(filters)
    }

    fn insert(&mut self, path: &str, filter: Filter) {
        let Some((first, rest)) = path.split_once('>') else {
            self.fields.insert(path.to_owned(), Place::Field(filter));
            return;
        };
        let within = || Place::Within(Filters::default());
        match self.fields.entry(first.to_owned()).or_insert_with(within) {
            Place::Within(inner) => inner.insert(rest, filter),
            // As in Caddy, a filter for the whole field takes precedence.
            Place::Field(_) => {}
        }
    }

    /// Applies the filters to the fields of an entry.
    pub fn apply(&self, members: &mut Vec<(String, Node)>) {
        members.retain_mut(|(name, value)| match self.fields.get(name) {
            None => true,
            Some(Place::Field(Filter::Delete)) => false,
            Some(Place::Field(Filter::Rename(new))) => {
                name.clone_from(new);
                true
            }
            Some(Place::Field(filter)) => {
                filter.apply(value);
                true
            }
            Some(Place::Within(filters)) => {
                if let Node::Object(members) = value {
                    filters.apply(members);
                }
                true
            }
        });
    }
}

impl Filter {
    fn apply(&self, value: &mut Node) {
        match self {
            Filter::Delete | Filter::Rename(_) => {
                unreachable!("what concerns the name is done where the name is")
            }
            Filter::Replace(new) => value.clone_from(new),
            Filter::IpMask(mask) => value.edit_texts(|text| mask.apply(text)),
            Filter::Query(actions) => value.edit_texts(|text| query::apply(actions, text)),
            Filter::Cookie(actions) => value.edit_texts(|text| cookies::apply(actions, text)),
            Filter::Expressions(list) => value.edit_texts(|text| {
                list.iter().fold(text.to_owned(), |text, (regex, new)| {
                    regex.replace_all(&text, new.as_str()).into_owned()
                })
            }),
            Filter::Hash => value.edit_texts(hash),
        }
    }

    fn build(module: &RawModule) -> Result<Filter, String> {
        let kind = module
            .get("filter")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Ok(match kind {
            "delete" => Filter::Delete,
            "rename" => Filter::Rename(read::<Rename>(module)?.name),
            "replace" => Filter::Replace(Node::Text(read::<Replace>(module)?.value)),
            "ip_mask" => Filter::IpMask(IpMask::build(read(module)?)?),
            "query" => Filter::Query(actions(read::<Actions>(module)?)?),
            "cookie" => Filter::Cookie(actions(read::<Actions>(module)?)?),
            "regexp" => Filter::Expressions(vec![read::<Expression>(module)?.build()?]),
            "multi_regexp" => {
                let operations = read::<Expressions>(module)?.operations;
                Filter::Expressions(
                    operations
                        .into_iter()
                        .map(Expression::build)
                        .collect::<Result<_, _>>()?,
                )
            }
            "hash" => Filter::Hash,
            other => {
                return Err(format!(
                    "`{other}` is none of delete, rename, replace, ip_mask, query, cookie, regexp, multi_regexp, \
                     hash"
                ));
            }
        })
    }
}

#[derive(Deserialize)]
struct Rename {
    name: String,
}

#[derive(Deserialize)]
struct Replace {
    value: String,
}

#[derive(Deserialize)]
struct Expression {
    regexp: String,
    #[serde(default)]
    value: String,
}

impl Expression {
    fn build(self) -> Result<(Regex, String), String> {
        let regex = Regex::new(&self.regexp)
            .map_err(|error| format!("`{}` is not a regular expression: {error}", self.regexp))?;
        Ok((regex, self.value))
    }
}

#[derive(Deserialize)]
struct Expressions {
    #[serde(default)]
    operations: Vec<Expression>,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(default)]
    actions: Vec<RawAction>,
}

#[derive(Deserialize)]
struct RawAction {
    r#type: String,
    /// Query filters use the name `parameter`, cookie filters `name`.
    #[serde(alias = "parameter")]
    name: String,
    #[serde(default)]
    value: String,
}

fn actions(raw: Actions) -> Result<Vec<Action>, String> {
    let action = |raw: RawAction| {
        let kind = match raw.r#type.as_str() {
            "delete" => ActionKind::Delete,
            "replace" => ActionKind::Replace(raw.value),
            "hash" => ActionKind::Hash,
            other => return Err(format!("`{other}` is none of replace, delete, hash")),
        };
        Ok(Action {
            name: raw.name,
            kind,
        })
    };
    raw.actions.into_iter().map(action).collect()
}

fn read<T: for<'de> Deserialize<'de>>(module: &RawModule) -> Result<T, String> {
    serde_json::from_value(Value::Object(module.clone())).map_err(|error| error.to_string())
}

impl ActionKind {
    /// The replacement for `value`; `None` to remove it.
    fn apply(&self, value: &str) -> Option<String> {
        match self {
            ActionKind::Delete => None,
            ActionKind::Replace(new) => Some(new.clone()),
            ActionKind::Hash => Some(hash(value)),
        }
    }
}

/// The first eight digits of SHA-256: enough to recognize equal values.
fn hash(text: &str) -> String {
    hex_text(&digest(&SHA256, text.as_bytes()).as_ref()[..4])
}

#[cfg(test)]
mod tests;
