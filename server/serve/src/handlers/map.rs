//! `map`: sets placeholders from a table.

use std::sync::Arc;

use serde_json::Value;
use sluice_model::handler::Map as Config;
use sluice_route::Template;
use sluice_route::regexp::Regexp;

use crate::build::{Builder, Refusal};
use crate::context::{Exchange, Vars};
use crate::handler::{Handler, Step};
use crate::values;

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

/// A row of the table. An output of `None` leaves the column to the rows below, and then to its default.
enum Row {
    Exact {
        input: Vec<u8>,
        outputs: Vec<Option<Template>>,
    },
    /// Outputs in which `$1` and `${1}` stand for groups. Caddy expands no placeholders here, and could not tell
    /// `${1}` from a dollar sign before the placeholder `{1}`.
    Pattern {
        input: Regexp,
        outputs: Vec<Option<Vec<u8>>>,
    },
}

impl Handler for Map {
    fn serve(&self, x: &mut Exchange) -> Step {
        let source = values::expanded(&self.source, x);
        for (column, destination) in self.destinations.iter().enumerate() {
            let value = self
                .rows
                .iter()
                .find_map(|row| row.output(&source, column, x));
            let value = value.unwrap_or_else(|| {
                self.defaults
                    .get(column)
                    .map_or_else(Vec::new, |d| values::expanded(d, x))
            });
            destination
                .slot(&mut x.context.vars, &mut x.context.mapped)
                .extend_from_slice(&value);
        }
        Step::Next
    }
}

impl Row {
    /// The text of a column, if the row matches and has one.
    fn output(&self, source: &[u8], column: usize, x: &Exchange) -> Option<Vec<u8>> {
        match self {
            Row::Exact { input, outputs } if input == source => {
                Some(values::expanded(outputs.get(column)?.as_ref()?, x))
            }
            Row::Pattern { input, outputs } if input.is_match(source) => {
                Some(input.expand_first(source, outputs.get(column)?.as_ref()?))
            }
            Row::Exact { .. } | Row::Pattern { .. } => None,
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
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut rows = Vec::with_capacity(config.mappings.len());
    for mapping in &config.mappings {
        let outputs = mapping.outputs.iter().map(text);
        rows.push(if mapping.input_regexp.is_empty() {
            let template = |text: Option<String>| text.map(|text| cx.template(&text)).transpose();
            Row::Exact {
                input: mapping.input.clone().into_bytes(),
                outputs: outputs.map(template).collect::<Result<Vec<_>, _>>()?,
            }
        } else {
            let input = Regexp::new(&mapping.input_regexp).map_err(|error| {
                Refusal::new(format!(
                    "regular expression `{}`: {error}",
                    mapping.input_regexp
                ))
            })?;
            Row::Pattern {
                input,
                outputs: outputs.map(|o| o.map(String::into_bytes)).collect(),
            }
        });
    }
    Ok(Box::new(Map {
        source: cx.template(&config.source)?,
        destinations: config.destinations.iter().map(destination).collect(),
        rows,
        defaults: config
            .defaults
            .iter()
            .map(|d| cx.template(d))
            .collect::<Result<Vec<_>, _>>()?,
    }))
}
