//! The `header`, `query` and `vars` matchers, which compare texts with allowed values.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use sluice_message::{FieldId, Fields, RequestHead};

use super::{Input, MatcherError};
use crate::placeholder::{Found, Key, NoValues, Template, Values};
use crate::query;
use crate::scratch::Scratch;

/// Fields with the values that each may have; all of them have to match.
#[derive(Clone, Debug)]
pub struct HeaderMatcher {
    fields: Vec<(Box<str>, Presence)>,
}

#[derive(Clone, Debug)]
enum Presence {
    Absent,
    Any,
    OneOf(Vec<Allowed>),
}

/// A value that is allowed, with stars at its ends taken off.
#[derive(Clone, Debug)]
struct Allowed {
    stars: Stars,
    text: Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stars {
    None,
    Any,
    Before,
    After,
    Both,
}

impl HeaderMatcher {
    /// Compiles names with their values; `None` where the field must be absent, an empty list where
    /// any value will do. Values may begin and end with `*`.
    pub fn new<'a, V>(fields: V) -> Result<HeaderMatcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, Option<&'a [String]>)>,
    {
        let compile = |(name, values): (&str, Option<&[String]>)| {
            let presence = match values {
                None => Presence::Absent,
                Some([]) => Presence::Any,
                Some(values) => Presence::OneOf(
                    values
                        .iter()
                        .map(|v| Allowed::new(v))
                        .collect::<Result<_, _>>()?,
                ),
            };
            Ok((name.into(), presence))
        };
        Ok(HeaderMatcher {
            fields: fields.into_iter().map(compile).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the request's headers match. `Host` is the authority part of the request target, or else the `Host`
    /// header.
    pub fn matches(&self, input: &Input<'_>) -> bool {
        self.fields.iter().all(|(name, presence)| {
            let values = header_values(input.head, name.as_bytes());
            presence.matches(values, input.values, input.scratch)
        })
    }

    /// Whether the fields of a response match; values hold no placeholders there.
    pub(super) fn matches_fields(&self, fields: &Fields, scratch: &Scratch) -> bool {
        self.fields.iter().all(|(name, presence)| {
            presence.matches(fields.find(name.as_bytes()), &NoValues, scratch)
        })
    }
}

impl Presence {
    fn matches<'a>(
        &self,
        mut found: impl Iterator<Item = &'a [u8]>,
        values: &dyn Values,
        scratch: &Scratch,
    ) -> bool {
        match self {
            Presence::Absent => found.next().is_none(),
            Presence::Any => found.next().is_some(),
            Presence::OneOf(allowed) => found.any(|value| {
                allowed
                    .iter()
                    .any(|allowed| allowed.matches(value, values, scratch))
            }),
        }
    }
}

impl Allowed {
    fn new(text: &str) -> Result<Allowed, MatcherError> {
        let (stars, trimmed) = match (text.strip_prefix('*'), text.strip_suffix('*')) {
            _ if text == "*" => (Stars::Any, ""),
            (Some(_), Some(_)) => (Stars::Both, &text[1..text.len() - 1]),
            (Some(rest), None) => (Stars::Before, rest),
            (None, Some(rest)) => (Stars::After, rest),
            (None, None) => (Stars::None, text),
        };
        Ok(Allowed {
            stars,
            text: parse(trimmed)?,
        })
    }

    fn matches(&self, value: &[u8], values: &dyn Values, scratch: &Scratch) -> bool {
        scratch.with_buf(|buf| {
            let text = self.text.resolve(values, buf);
            match self.stars {
                Stars::None => value == text,
                Stars::Any => true,
                Stars::Before => value.ends_with(text),
                Stars::After => value.starts_with(text),
                Stars::Both => memchr::memmem::find(value, text).is_some(),
            }
        })
    }
}

/// The values of the headers called `name`; for `Host`, the host and port of the request, from the header or the
/// target.
pub(super) fn header_values<'a>(
    head: &'a RequestHead,
    name: &'a [u8],
) -> impl Iterator<Item = &'a [u8]> {
    let authority = (FieldId::of(name) == FieldId::Host && !head.authority.is_empty())
        .then_some(head.authority.as_slice());
    let lines = authority.is_none().then(|| head.fields.find(name));
    authority.into_iter().chain(lines.into_iter().flatten())
}

/// Parameters with the values that each may have; all of them have to match.
#[derive(Clone, Debug)]
pub struct QueryMatcher {
    params: Vec<(Template, Vec<Template>)>,
}

impl QueryMatcher {
    /// Compiles names with their values; `*` allows any.
    pub fn new<'a, V>(params: V) -> Result<QueryMatcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a [String])>,
    {
        let compile = |(name, values): (&str, &[String])| Ok((parse(name)?, parse_all(values)?));
        Ok(QueryMatcher {
            params: params.into_iter().map(compile).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the request's query matches. A malformed query matches no parameters.
    pub fn matches(&self, input: &Input<'_>) -> bool {
        let query = input.head.uri.query().unwrap_or_default();
        if self.params.is_empty() {
            return query::pairs(query).next().is_none();
        }
        query::is_well_formed(query)
            && self.params.iter().all(|(name, allowed)| {
                input.scratch.with_buf(|name_buf| {
                    let name = name.resolve(input.values, name_buf);
                    query::pairs(query)
                        .filter(|(found, _)| found.as_ref() == name)
                        .any(|(_, value)| {
                            allowed.iter().any(|allowed| {
                                allowed.source() == "*" || equals(allowed, &value, input)
                            })
                        })
                })
            })
    }
}

/// Variables and placeholders with the values that each may have; one has to match.
#[derive(Clone, Debug)]
pub struct VarMatcher {
    vars: Vec<(Key, Vec<Template>)>,
}

impl VarMatcher {
    /// Compiles variable names, or placeholders in braces, with their values.
    pub fn new<'a, V>(vars: V) -> Result<VarMatcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, &'a [String])>,
    {
        let compile = |(name, values): (&str, &[String])| Ok((var_key(name), parse_all(values)?));
        Ok(VarMatcher {
            vars: vars.into_iter().map(compile).collect::<Result<_, _>>()?,
        })
    }

    /// Whether a variable has an allowed value. One that is not set counts as empty.
    pub fn matches(&self, input: &Input<'_>) -> bool {
        self.vars.is_empty()
            || self.vars.iter().any(|(key, allowed)| {
                input.scratch.with_buf(|value| {
                    let _: Found = input.values.value(key, value);
                    allowed.iter().any(|allowed| equals(allowed, value, input))
                })
            })
    }
}

/// The key that `name` means: a placeholder in braces, else a variable.
pub(super) fn var_key(name: &str) -> Key {
    let inner = name
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    match inner.filter(|inner| !inner.contains('{')) {
        Some(inner) => Key::parse(inner),
        None => Key::Var(name.into()),
    }
}

fn equals(template: &Template, value: &[u8], input: &Input<'_>) -> bool {
    input
        .scratch
        .with_buf(|buf| template.resolve(input.values, buf) == value)
}

fn parse(text: &str) -> Result<Template, MatcherError> {
    Template::parse(text).map_err(|error| MatcherError::Template(text.into(), error))
}

fn parse_all(texts: &[String]) -> Result<Vec<Template>, MatcherError> {
    texts.iter().map(|text| parse(text)).collect()
}
