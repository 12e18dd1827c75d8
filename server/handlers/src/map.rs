//! `map`: sets placeholders from a table.

use std::sync::Arc;

use serde_json::Value;
use sluice_model::handler::Map as Config;
use sluice_model::placeholder_name;
use sluice_route::regexp::Regexp;
use sluice_route::{Provenance, Template};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;
use sluice_pipeline::vars::Vars;

struct Map {
    source: Template,
    destinations: Vec<Destination>,
    rows: Vec<Row>,
    defaults: Vec<Template>,
}

/// What a column of the table sets.
enum Destination {
    /// A placeholder with a name of its own.
    Placeholder(Arc<str>),
    /// `{vars.NAME}`
    Var(Arc<str>),
}

/// A row of the table. With an output of `None` the column is determined by the rows below, and finally by its default.
enum Row {
    Exact {
        input: Vec<u8>,
        outputs: Vec<Option<Template>>,
    },
    /// A regular expression; `$1` and `${1}` in outputs refer to captures. As in Caddy, placeholders are not expanded
    /// in outputs, because `${1}` would be ambiguous.
    Pattern {
        input: Regexp,
        outputs: Vec<Option<Vec<u8>>>,
    },
}

impl Handler for Map {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let source = values::expanded(&self.source, exchange);
        for (column, destination) in self.destinations.iter().enumerate() {
            let value = self
                .rows
                .iter()
                .find_map(|row| row.output(&source, column, exchange));
            let (value, provenance) = value.unwrap_or_else(|| match self.defaults.get(column) {
                Some(default) => values::expanded_traced(default, exchange),
                None => (Vec::new(), Provenance::Configured),
            });
            destination
                .slot(
                    &mut exchange.context.vars,
                    &mut exchange.context.mapped,
                    provenance,
                )
                .extend_from_slice(&value);
        }
        Step::Next
    }
}

impl Row {
    /// The output for a column, if the row matches and has one.
    fn output(
        &self,
        source: &[u8],
        column: usize,
        exchange: &Exchange,
    ) -> Option<(Vec<u8>, Provenance)> {
        match self {
            Row::Exact { input, outputs } if input == source => Some(values::expanded_traced(
                outputs.get(column)?.as_ref()?,
                exchange,
            )),
            Row::Pattern { input, outputs } if input.is_match(source) => {
                let output = outputs.get(column)?.as_ref()?;
                let value = input.expand_first(source, output);
                let provenance = provenance(output, source, &value);
                Some((value, provenance))
            }
            Row::Exact { .. } | Row::Pattern { .. } => None,
        }
    }
}

/// The provenance of `value`, which results from `output` with captures of `source`.
fn provenance(output: &[u8], source: &[u8], value: &[u8]) -> Provenance {
    if memchr::memchr(b'$', output).is_none() {
        return Provenance::Configured;
    }
    if memchr::memchr2(b'/', 0, source).is_some() {
        return Provenance::Name;
    }
    let climbs = |part: &[u8]| matches!(part, b"." | b"..");
    let lost = |text: &[u8]| {
        text.split(|byte| *byte == b'/')
            .filter(|part| part.is_empty())
            .count()
    };
    match value.split(|byte| *byte == b'/').any(climbs) || lost(value) > lost(output) {
        true => Provenance::Unfit,
        false => Provenance::Path,
    }
}

impl Destination {
    fn slot<'v>(
        &self,
        vars: &'v mut Vars,
        mapped: &'v mut Vars,
        provenance: Provenance,
    ) -> &'v mut Vec<u8> {
        match self {
            Destination::Placeholder(name) => mapped.slot_from(name, provenance),
            Destination::Var(name) => vars.slot_from(name, provenance),
        }
    }
}

/// Builds `map`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let destination = |text: &String| {
        let name = placeholder_name(text).ok_or_else(|| {
            let message = format!("`map` cannot set `{text}`: it is not a placeholder");
            Refusal::new(message).with_help("write one placeholder: `{name}`")
        })?;
        Ok(match name.strip_prefix("http.vars.") {
            Some(var) => Destination::Var(var.into()),
            None => Destination::Placeholder(name.into()),
        })
    };
    let destinations = config.destinations.iter().map(destination);
    let destinations = destinations.collect::<Result<Vec<_>, Refusal>>()?;
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut rows = Vec::with_capacity(config.mappings.len());
    for mapping in &config.mappings {
        let outputs = mapping.outputs.iter().map(text);
        rows.push(if mapping.input_regexp.is_empty() {
            let template =
                |text: Option<String>| text.map(|text| builder.template(&text)).transpose();
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
        source: builder.template(&config.source)?,
        destinations,
        rows,
        defaults: config
            .defaults
            .iter()
            .map(|d| builder.template(d))
            .collect::<Result<Vec<_>, _>>()?,
    }))
}
