//! `vars` and `root`: named values for later matchers, placeholders and handlers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_route::Template;

use crate::build::{Builder, Refusal};
use crate::context::Exchange;
use crate::handler::{Handler, Step};
use crate::values;

struct Vars {
    entries: Vec<(Arc<str>, Template)>,
}

impl Handler for Vars {
    fn serve(&self, x: &mut Exchange) -> Step {
        for (name, value) in &self.entries {
            match value.literal() {
                Some(text) => x.context.vars.slot(name).extend_from_slice(text),
                None => {
                    let text = values::expanded(value, x);
                    x.context.vars.slot(name).extend_from_slice(&text);
                }
            }
        }
        Step::Next
    }
}

/// Builds `vars`.
pub fn build(
    config: &BTreeMap<String, Value>,
    cx: &mut Builder<'_>,
) -> Result<Box<dyn Handler>, Refusal> {
    let mut entries = Vec::with_capacity(config.len());
    for (name, value) in config {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        entries.push((Arc::from(name.as_str()), cx.template(&text)?));
    }
    Ok(Box::new(Vars { entries }))
}
