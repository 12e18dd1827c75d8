//! `header` and `request_header`: change request and response headers.

use std::borrow::Cow;
use std::sync::Arc;

use sluice_message::name::is_value_byte;
use sluice_message::{FieldId, FieldName, Fields};
use sluice_model::handler::{HeaderOps, Headers as Config, Replacement};
use sluice_net::Body;
use sluice_route::Template;
use sluice_route::matcher::ResponseMatcher;
use sluice_route::placeholder::Unknown;
use sluice_route::regexp::{Regexp, escape_replacement};
use sluice_route::rewrite::replace_text;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Handler, Step};
use sluice_pipeline::odd_headers::{is_alias, is_odd};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::text::{clean_value, push_value};
use sluice_pipeline::values::{self, At};

/// Changes to headers, applied in this order: remove all, add, set, remove, replace.
#[derive(Default)]
pub struct Ops {
    delete_all: bool,
    /// Whether empty values are not added, and a header set to an empty value is removed.
    skips_empty: bool,
    add: Vec<(FieldName, Vec<Template>)>,
    set: Vec<(FieldName, Vec<Template>)>,
    delete: Vec<Pattern>,
    replace: Vec<Replace>,
    /// Names whose values only the configuration determines: those that are set or removed.
    owned: Vec<Box<[u8]>>,
}

/// A name, possibly with a `*` at either end.
struct Pattern {
    text: Box<[u8]>,
    kind: PatternKind,
}

#[derive(Clone, Copy)]
enum PatternKind {
    Exact,
    Prefix,
    Suffix,
    Contains,
}

struct Replace {
    /// `None` for all headers.
    name: Option<FieldName>,
    find: Find,
    with: Template,
}

enum Find {
    Text(Template),
    Pattern(Regexp),
}

/// Which headers of an exchange are changed.
#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    /// The request headers.
    Request,
    /// The response headers.
    Response,
}

impl Ops {
    /// Parses the changes.
    pub fn build(config: &HeaderOps, builder: &Builder<'_>) -> Result<Ops, Refusal> {
        let mut replace = Vec::new();
        for (name, replacements) in &config.replace {
            let field = if name == "*" {
                None
            } else {
                Some(field_name(name)?)
            };
            for replacement in replacements {
                replace.push(Replace::build(field.clone(), replacement, builder)?);
            }
        }
        let removed = config.delete.iter().filter(|name| !name.contains('*'));
        let owned = config.set.keys().chain(removed);
        Ok(Ops {
            owned: owned.map(|name| name.as_bytes().into()).collect(),
            delete_all: config.delete.iter().any(|name| name == "*"),
            skips_empty: false,
            add: templates(&config.add, builder)?,
            set: templates(&config.set, builder)?,
            delete: config
                .delete
                .iter()
                .filter(|n| *n != "*")
                .map(|n| Pattern::new(n))
                .collect(),
            replace,
        })
    }

    /// Skips or removes headers with empty values, as nginx does.
    pub fn skipping_empty(self) -> Ops {
        Ops {
            skips_empty: true,
            ..self
        }
    }

    /// Applies the changes.
    pub fn apply(&self, exchange: &mut Exchange, of: Of) {
        if self.delete_all {
            fields(exchange, of).clear();
        }
        if of == Of::Request {
            self.remove_aliases(&mut exchange.req.fields);
        }
        for (name, values) in &self.add {
            for value in values {
                with_value(value, exchange, of, |exchange, text| {
                    if !(self.skips_empty && text.is_empty()) {
                        fields(exchange, of).push_name(name, text);
                    }
                });
            }
        }
        for (name, values) in &self.set {
            self.apply_set(exchange, of, name, values);
        }
        for pattern in &self.delete {
            fields(exchange, of).retain(|field| !pattern.matches(field.name));
        }
        for replace in &self.replace {
            replace.apply(exchange, of);
        }
    }

    /// Removes headers that CGI-style applications would mistake for a header that is set or removed here:
    /// `Remote_User` for `Remote-User` (GHSA-f59h-q822-g45g). Only names with a character other than `-` are affected,
    /// and none that is set here.
    fn remove_aliases(&self, fields: &mut Fields) {
        let is_foreign = |id, name: &[u8]| {
            is_odd(id, name)
                && self.owned.iter().any(|owned| is_alias(name, owned))
                && !self
                    .owned
                    .iter()
                    .any(|owned| owned.eq_ignore_ascii_case(name))
        };
        if !self.owned.is_empty() && fields.iter().any(|field| is_foreign(field.id, field.name)) {
            fields.retain(|field| !is_foreign(field.id, field.name));
        }
    }

    fn apply_set(&self, exchange: &mut Exchange, of: Of, name: &FieldName, values: &[Template]) {
        let mut first = true;
        for value in values {
            with_value(value, exchange, of, |exchange, text| {
                match (std::mem::take(&mut first), of) {
                    // The host of a request is its `:authority`, however it was sent (RFC 9110, section 7.2).
                    (_, Of::Request) if name.id() == FieldId::Host => {
                        exchange.req.set_authority(text);
                        exchange.req.fields.set(FieldId::Host, text);
                    }
                    (true, _) if self.skips_empty && text.is_empty() => {
                        fields(exchange, of).remove_name(name.as_str().as_bytes());
                    }
                    (true, _) => fields(exchange, of).set_name(name, text),
                    (false, _) => fields(exchange, of).push_name(name, text),
                }
            });
        }
    }
}

fn fields(exchange: &mut Exchange, of: Of) -> &mut Fields {
    match of {
        Of::Request => &mut exchange.req.fields,
        Of::Response => &mut exchange.res.fields,
    }
}

/// Calls `f` with the value; one without placeholders is not copied.
///
/// In a response, control characters, which only placeholders can introduce, are replaced by spaces as in Caddy. A
/// request keeps them, but it is never sent to an upstream, because encoding it fails.
fn with_value(
    value: &Template,
    exchange: &mut Exchange,
    of: Of,
    f: impl FnOnce(&mut Exchange, &[u8]),
) {
    match (value.literal(), of) {
        (Some(text), _) => f(exchange, text),
        (None, Of::Request) => f(exchange, &values::expanded_or_kept(value, exchange)),
        (None, Of::Response) => {
            let mut text = Vec::new();
            push_value(value, Unknown::Keep, exchange, &mut text);
            f(exchange, &text);
        }
    }
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let inner = text.trim_matches('*').to_ascii_lowercase();
        let kind = match (text.starts_with('*'), text.ends_with('*')) {
            (false, false) => PatternKind::Exact,
            (false, true) => PatternKind::Prefix,
            (true, false) => PatternKind::Suffix,
            (true, true) => PatternKind::Contains,
        };
        Pattern {
            text: inner.into_bytes().into(),
            kind,
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        let text = &*self.text;
        let at = |part: Option<&[u8]>| part.is_some_and(|part| part.eq_ignore_ascii_case(text));
        match self.kind {
            PatternKind::Exact => name.eq_ignore_ascii_case(text),
            PatternKind::Prefix => at(name.get(..text.len())),
            PatternKind::Suffix => at(name.len().checked_sub(text.len()).map(|from| &name[from..])),
            PatternKind::Contains => {
                text.is_empty()
                    || name
                        .windows(text.len())
                        .any(|w| w.eq_ignore_ascii_case(text))
            }
        }
    }
}

impl Replace {
    fn build(
        name: Option<FieldName>,
        config: &Replacement,
        builder: &Builder<'_>,
    ) -> Result<Replace, Refusal> {
        let find = if config.search_regexp.is_empty() {
            Find::Text(builder.template(&config.search)?)
        } else {
            let regexp = Regexp::new(&config.search_regexp).map_err(|error| {
                Refusal::new(format!(
                    "regular expression `{}`: {error}",
                    config.search_regexp
                ))
            })?;
            Find::Pattern(regexp)
        };
        Ok(Replace {
            name,
            find,
            with: builder.template(&config.replace)?,
        })
    }

    fn apply(&self, exchange: &mut Exchange, of: Of) {
        for index in 0..fields(exchange, of).len() {
            let field = fields(exchange, of)
                .at(index)
                .expect("the index is below the length");
            if self.name.as_ref().is_some_and(|name| !name.is(field.name)) {
                continue;
            }
            let value = field.value.to_vec();
            let mut changed = match &self.find {
                Find::Text(find) => {
                    let find = values::expanded(find, exchange);
                    let mut with = Vec::new();
                    self.with.expand(&At(exchange), Unknown::Keep, &mut with);
                    replace_text(&value, &find, &with, 0)
                }
                Find::Pattern(regexp) => {
                    let mut with = Vec::new();
                    self.with.expand_each(
                        &At(exchange),
                        Unknown::Keep,
                        &mut with,
                        |_, out, start| {
                            escape_replacement(out, start);
                        },
                    );
                    regexp.replace_all(&value, &with)
                }
            };
            if changed != value {
                if of == Of::Response {
                    clean_value(&mut changed);
                }
                fields(exchange, of).replace_at(index, &changed);
            }
        }
    }
}

fn field_name(text: &str) -> Result<FieldName, Refusal> {
    FieldName::new(text).ok_or_else(|| Refusal::new(format!("`{text}` is not a valid header name")))
}

fn templates(
    config: &sluice_model::handler::FieldValues,
    builder: &Builder<'_>,
) -> Result<Vec<(FieldName, Vec<Template>)>, Refusal> {
    let mut built = Vec::with_capacity(config.len());
    for (name, values) in config {
        let values = values
            .iter()
            .map(|value| builder.template(&one_line(value)))
            .collect::<Result<Vec<_>, _>>()?;
        built.push((field_name(name)?, values));
    }
    Ok(built)
}

/// Configured values may span several lines, as long policies do; they are sent on one.
fn one_line(text: &str) -> Cow<'_, str> {
    match text.bytes().all(is_value_byte) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.replace(|c: char| c.is_ascii_control() && c != '\t', " ")),
    }
}

struct Headers {
    request: Option<Ops>,
    response: Option<Arc<ResponseOps>>,
}

struct ResponseOps {
    ops: Ops,
    require: Option<ResponseMatcher>,
    when: When,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    /// Before the next handler runs, which may change the headers again.
    Now,
    /// When the response is ready.
    AtEnd,
}

impl Handler for Headers {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if let Some(request) = &self.request {
            request.apply(exchange, Of::Request);
        }
        match &self.response {
            Some(response) if response.when == When::Now => {
                response.ops.apply(exchange, Of::Response)
            }
            Some(response) => exchange.context.filters.push(response.clone()),
            None => {}
        }
        Step::Next
    }
}

impl Filter for ResponseOps {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let required = self.require.as_ref();
        if required.is_none_or(|require| require.matches(&exchange.res, &exchange.context.scratch))
        {
            self.ops.apply(exchange, Of::Response);
        }
        body
    }
}

/// Builds `header` and `request_header`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let request = config
        .request
        .as_ref()
        .map(|ops| Ops::build(ops, builder))
        .transpose()?;
    let response = match &config.response {
        None => None,
        Some(response) => {
            let ops = HeaderOps {
                add: response.add.clone(),
                set: response.set.clone(),
                delete: response.delete.clone(),
                replace: response.replace.clone(),
            };
            let require = response
                .require
                .as_ref()
                .map(response_matcher)
                .transpose()?;
            let now = !response.deferred && require.is_none();
            let when = if now { When::Now } else { When::AtEnd };
            Some(Arc::new(ResponseOps {
                ops: match response.skip_empty {
                    true => Ops::build(&ops, builder)?.skipping_empty(),
                    false => Ops::build(&ops, builder)?,
                },
                require,
                when,
            }))
        }
    };
    Ok(Box::new(Headers { request, response }))
}

/// Compiles a response matcher.
pub fn response_matcher(
    config: &sluice_model::matcher::ResponseMatcher,
) -> Result<ResponseMatcher, Refusal> {
    let fields = config
        .headers
        .iter()
        .map(|(name, values)| (name.as_str(), values.as_deref()));
    ResponseMatcher::new(&config.status_code, fields)
        .map_err(|error| Refusal::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_with_wildcards_at_their_ends() {
        for (pattern, name, expected) in [
            ("X-A", "x-a", true),
            ("X-A", "x-ab", false),
            ("X-*", "x-ab", true),
            ("X-*", "y-ab", false),
            ("*-Id", "Request-ID", true),
            ("*-Id", "id", false),
            ("*ques*", "Request-ID", true),
            ("*nope*", "Request-ID", false),
        ] {
            let matches = Pattern::new(pattern).matches(name.as_bytes());
            assert_eq!(matches, expected, "{pattern} {name}");
        }
    }
}
