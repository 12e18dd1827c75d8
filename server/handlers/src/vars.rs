//! `vars` and `root`: set variables for later matchers, placeholders and handlers. Three names control the access log
//! instead: `log_skip`, `log_level`, and `access_logger_names`, which `log_name` sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_observe::log::Level;
use sluice_route::{Kind, Template};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;

struct Vars {
    entries: Vec<(Arc<str>, Kind, Template)>,
    /// Whether to skip the access log, if set.
    skip: Option<bool>,
    /// The level of the access log entry, if set.
    level: Option<Level>,
    /// Loggers for the request instead of the site's.
    loggers: Vec<Arc<str>>,
}

impl Handler for Vars {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        for (name, kind, value) in &self.entries {
            match value.literal() {
                Some(text) => exchange
                    .context
                    .vars
                    .slot_of(name, *kind)
                    .extend_from_slice(text),
                None => {
                    let (text, provenance) = values::expanded_traced(value, exchange);
                    let slot = exchange.context.vars.slot_from(name, provenance);
                    slot.extend_from_slice(&text);
                }
            }
        }
        if let Some(skip) = self.skip {
            exchange.context.log.skip = skip;
        }
        if self.level.is_some() {
            exchange.context.log.level = self.level;
        }
        if !self.loggers.is_empty() {
            exchange.context.log.names.clone_from(&self.loggers);
        }
        Step::Next
    }
}

/// Builds `vars`.
pub fn build(
    config: &BTreeMap<String, Value>,
    builder: &mut Builder<'_>,
) -> Result<Box<dyn Handler>, Refusal> {
    let mut entries = Vec::with_capacity(config.len());
    let mut skip = None;
    let mut level = None;
    let mut loggers = Vec::new();
    for (name, value) in config {
        match (name.as_str(), value) {
            ("log_skip", Value::Bool(said)) => skip = Some(*said),
            ("log_level", Value::String(name)) => level = Level::from_name(name).or(level),
            ("access_logger_names", Value::Array(names)) => {
                loggers.extend(names.iter().filter_map(Value::as_str).map(Arc::from));
                continue;
            }
            ("fs", Value::String(name)) => sluice_pipeline::files::check_file_system(name)?,
            _ => {}
        }
        let (kind, text) = match value {
            Value::String(text) => (Kind::Text, text.clone()),
            Value::Number(number) => (Kind::Float, number.to_string()),
            Value::Bool(said) => (Kind::Flag, said.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => (Kind::Text, value.to_string()),
        };
        entries.push((Arc::from(name.as_str()), kind, builder.template(&text)?));
    }
    Ok(Box::new(Vars {
        entries,
        skip,
        level,
        loggers,
    }))
}
