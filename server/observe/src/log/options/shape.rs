//! Parses the line format settings. `encode` formats lines.

use serde_json::Value;
use sluice_model::RawModule;
use sluice_model::logging::{AppendEncoder, FilterEncoder, LineEncoder, Log, LogEncoder};

use super::super::encode::{DurationFormat, Encoder, Form, LevelFormat, Prefix};
use super::super::filter::Filters;
use super::super::layers::{Layer, Layers};
use super::super::node::Node;
use super::super::place::ConnectionSlots;
use super::super::syslog::Beginning;
use super::super::time_text::TimeFormat;
use super::super::zone::Zone;
use super::{Level, Place, PlanError};
use crate::process_values;

/// The line format of one log.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The encoder; `None` for the default: JSON, or the console format on a terminal.
    base: Option<Encoder>,
    prefix: Prefix,
    layers: Layers,
    places: ConnectionSlots,
}

impl Shape {
    /// The encoder; `usual` creates the default.
    pub fn encoder(&self, usual: impl FnOnce() -> Encoder) -> Encoder {
        Encoder {
            prefix: self.prefix.clone(),
            layers: self.layers.clone(),
            places: self.places,
            ..self.base.clone().unwrap_or_else(usual)
        }
    }

    pub(super) fn build(log: &Log, at: &Place) -> Result<Shape, PlanError> {
        let mut shape = Shape {
            places: places(log, at)?,
            ..Shape::default()
        };
        let mut next = log.encoder.as_ref();
        // Encoders may be nested, outermost first.
        while let Some(encoder) = next {
            next = match encoder {
                LogEncoder::Json(line) => {
                    shape.base = Some(with_settings(Encoder::json(), line, at)?);
                    None
                }
                LogEncoder::Console(line) => {
                    let console = Encoder::console(LevelFormat::Colour);
                    shape.base = Some(with_settings(console, line, at)?);
                    None
                }
                LogEncoder::Filter(filter) => {
                    shape.layers.push(Layer::Filter(filters(filter, at)?));
                    filter.wrap.as_deref()
                }
                LogEncoder::Append(append) => {
                    shape.layers.push(Layer::Append(appended(append, at)?));
                    append.wrap.as_deref()
                }
                LogEncoder::Journald(journald) => {
                    shape.prefix = Prefix::Priority;
                    journald.wrap.as_deref()
                }
                LogEncoder::Syslog(syslog) => {
                    let beginning = Beginning::build(syslog);
                    let beginning = beginning.map_err(|problem| at.wrong("encoder", problem))?;
                    shape.prefix = Prefix::Syslog(Box::new(beginning));
                    syslog.wrap.as_deref()
                }
                LogEncoder::Message(_) => {
                    shape.base = Some(Encoder {
                        form: Form::Message,
                        ..Encoder::json()
                    });
                    None
                }
                LogEncoder::Nginx(_) => {
                    shape.base = Some(Encoder {
                        form: Form::Nginx,
                        duration: DurationFormat::Text,
                        ..Encoder::json()
                    });
                    None
                }
                LogEncoder::Other(module) => return Err(unknown(module, at)),
            };
        }
        Ok(shape)
    }
}

/// Whether a log shows source locations. A Caddyfile can only set the names of these fields.
fn places(log: &Log, at: &Place) -> Result<ConnectionSlots, PlanError> {
    if log.with_caller_skip != 0 {
        return Err(at.unsupported("with_caller_skip", "the place shown is that of the entry"));
    }
    let stack_from = match log.with_stacktrace.as_str() {
        "" => None,
        name => Some(Level::from_name(name).ok_or_else(|| {
            let problem = format!("unknown level `{name}`; use DEBUG, INFO, WARN or ERROR");
            at.wrong("with_stacktrace", problem)
        })?),
    };
    Ok(ConnectionSlots {
        caller: log.with_caller,
        stack_from,
    })
}

fn unknown(module: &RawModule, at: &Place) -> PlanError {
    let name = module
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let problem = format!(
        "`{name}` is none of json, console, filter, append, journald, message, nginx, syslog"
    );
    at.wrong("encoder", problem)
}

fn filters(filter: &FilterEncoder, at: &Place) -> Result<Filters, PlanError> {
    Filters::build(&filter.fields)
        .map_err(|(path, problem)| at.wrong(&format!("encoder.fields.{path}"), problem))
}

/// Fields added to every line. Only placeholders of the process are available, because there is no request.
fn appended(append: &AppendEncoder, at: &Place) -> Result<Vec<(String, Node)>, PlanError> {
    let field = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => process_values::value(text)
                .map_err(|problem| at.wrong(&format!("encoder.fields.{name}"), problem))?,
            other => other.clone(),
        };
        Ok((name.clone(), Node::from(value)))
    };
    append.fields.iter().map(field).collect()
}

fn with_settings(
    mut encoder: Encoder,
    line: &LineEncoder,
    at: &Place,
) -> Result<Encoder, PlanError> {
    let keys = &mut encoder.keys;
    for (key, set) in [
        (&mut keys.message, &line.message_key),
        (&mut keys.level, &line.level_key),
        (&mut keys.time, &line.time_key),
        (&mut keys.name, &line.name_key),
        (&mut keys.caller, &line.caller_key),
        (&mut keys.stack, &line.stacktrace_key),
    ] {
        if let Some(text) = set {
            *key = text.as_str().into();
        }
    }
    if let Some(text) = line.line_ending.as_deref().filter(|text| !text.is_empty()) {
        encoder.line_ending = text.into();
    }
    if line.time_local {
        encoder.zone = Zone::Local;
    }
    if !line.time_format.is_empty() {
        encoder.time = TimeFormat::from_name(&line.time_format);
    }
    encoder.duration = DurationFormat::from_name(&line.duration_format).ok_or_else(|| {
        let problem = format!("`{}` is none of s, ms, ns, string", line.duration_format);
        at.wrong("encoder.duration_format", problem)
    })?;
    if !line.level_format.is_empty() {
        encoder.level = LevelFormat::from_name(&line.level_format).ok_or_else(|| {
            let problem = format!("`{}` is none of lower, upper, color", line.level_format);
            at.wrong("encoder.level_format", problem)
        })?;
    }
    Ok(encoder)
}
