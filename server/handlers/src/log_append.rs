//! `log_append`: adds a field to the request's access log entry.

use std::sync::Arc;

use sluice_model::handler::LogAppend as Config;
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::{Exchange, Late};
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;

struct LogAppend {
    append: Arc<Append>,
    when: When,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    /// Evaluate before the request is handled.
    Now,
    /// Evaluate when the response has ended, even if it failed; the duration is available then.
    AtEnd,
}

#[derive(Debug)]
struct Append {
    key: Arc<str>,
    value: Template,
    /// The name, if the value is that of a variable.
    var: Option<String>,
}

impl Append {
    fn append(&self, exchange: &mut Exchange) {
        let var = self
            .var
            .as_deref()
            .and_then(|name| exchange.context.vars.find(name));
        let value = match var {
            Some(value) => value.to_vec(),
            None => values::expanded(&self.value, exchange),
        };
        let text = String::from_utf8_lossy(&value).into_owned();
        exchange.context.log.fields.push((self.key.clone(), text));
    }
}

impl Handler for LogAppend {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        match self.when {
            When::Now => self.append.append(exchange),
            When::AtEnd => exchange.context.log.late.push(self.append.clone()),
        }
        Step::Next
    }
}

impl Late for Append {
    fn add(&self, exchange: &mut Exchange) {
        self.append(exchange);
    }
}

/// Builds `log_append`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let value = builder.template(&config.value)?;
    let var = value.literal().map(|_| config.value.clone());
    let append = Arc::new(Append {
        key: config.key.as_str().into(),
        value,
        var,
    });
    let when = if config.early { When::Now } else { When::AtEnd };
    Ok(Box::new(LogAppend { append, when }))
}
