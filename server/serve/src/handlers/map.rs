//! `map`: sets placeholders from a table.

use std::sync::Arc;

use serde_json::Value;
use sluice_model::handler::Map as Config;
use sluice_route::Template;
use sluice_route::placeholder::Unknown;
use sluice_route::regexp::{Regexp, escape_replacement};

use crate::build::{Builder, Refusal};
use crate::context::{Exchange, Vars};
use crate::handler::{Handler, Step};
use crate::values::{self, At};

struct Map {
    source: Template,
    destinations: Vec<Destination>,
    rows: Vec<Row>,
    defaults: Vec<Template>,
}

/// What a column of the table sets.
enum Destination {
    /// A placeholder of its own name.
    Placeholder(Arc<str>),
    /// `{vars.NAME}`
    Var(Arc<str>),
}

struct Row {
    input: Input,
    /// `None` leaves the column to its default.
    outputs: Vec<Option<Template>>,
}

enum Input {
    Exact(Vec<u8>),
    Pattern(Regexp),
}

impl Handler for Map {
    fn serve(&self, x: &mut Exchange) -> Step {
        let source = values::expanded(&self.source, x);
        let row = self.rows.iter().find(|row| match &row.input {
            Input::Exact(text) => *text == source,
            Input::Pattern(regexp) => regexp.is_match(&source),
        });
        for (column, destination) in self.destinations.iter().enumerate() {
            let output = row.and_then(|row| row.outputs.get(column)?.as_ref().map(|o| (row, o)));
            let value = match output {
                Some((row, output)) => row.input.fill(&source, output, x),
                None => self.defaults.get(column).map_or_else(Vec::new, |d| values::expanded(d, x)),
            };
            destination.slot(&mut x.context.vars, &mut x.context.mapped).extend_from_slice(&value);
        }
        Step::Next
    }
}

impl Input {
    /// The text of a column. Groups of a pattern fill the output as written; values of placeholders stay data.
    fn fill(&self, source: &[u8], output: &Template, x: &Exchange) -> Vec<u8> {
        match self {
            Input::Exact(_) => values::expanded(output, x),
            Input::Pattern(regexp) => {
                let mut text = Vec::new();
                output.expand_each(&At(x), Unknown::Empty, &mut text, |_, out, start| {
                    escape_replacement(out, start);
                });
                regexp.expand_matches(source, &text)
            }
        }
    }
}

impl Destination {
    fn slot<'v>(&self, vars: &'v mut Vars, mapped: &'v mut Vars) -> &'v mut Vec<u8> {
        match self {
            Destination::Placeholder(name) => mapped.slot(name),
            Destination::Var(name) => vars.slot(name),
        }
    }
}

/// Builds `map`.
pub fn build(config: &Config, cx: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let destination = |text: &String| {
        let name = text.trim_start_matches('{').trim_end_matches('}');
        match name.strip_prefix("http.vars.") {
            Some(var) => Destination::Var(var.into()),
            None => Destination::Placeholder(name.into()),
        }
    };
    let mut rows = Vec::with_capacity(config.mappings.len());
    for mapping in &config.mappings {
        let input = if mapping.input_regexp.is_empty() {
            Input::Exact(mapping.input.clone().into_bytes())
        } else {
            let regexp = Regexp::new(&mapping.input_regexp).map_err(|error| {
                Refusal::new(format!("regular expression `{}`: {error}", mapping.input_regexp))
            })?;
            Input::Pattern(regexp)
        };
        let output = |value: &Value| match value {
            Value::Null => Ok(None),
            Value::String(text) => cx.template(text).map(Some),
            other => cx.template(&other.to_string()).map(Some),
        };
        let outputs = mapping.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        rows.push(Row { input, outputs });
    }
    Ok(Box::new(Map {
        source: cx.template(&config.source)?,
        destinations: config.destinations.iter().map(destination).collect(),
        rows,
        defaults: config.defaults.iter().map(|d| cx.template(d)).collect::<Result<Vec<_>, _>>()?,
    }))
}
