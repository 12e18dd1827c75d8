//! `tracing`: creates a span for each request, continues the client's trace and propagates it to upstreams.

use std::sync::Arc;

use sluice_message::FieldId;
use sluice_model::handler::Tracing as Config;
use sluice_route::Template;

use sluice_observe::tracing::limits::TRACE_STATE_BYTES_MAX;
use sluice_observe::tracing::{Exporter, Parent, Span};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;

struct Tracing {
    /// Exports spans; `None` if requests are only explained.
    exporter: Option<Arc<Exporter>>,
    name: Template,
    attributes: Vec<(Arc<str>, Template)>,
    names: Names,
}

/// Names that are set for each request.
struct Names {
    trace_var: Arc<str>,
    span_var: Arc<str>,
    trace_log: Arc<str>,
    span_log: Arc<str>,
}

/// The default span name.
const NAME_DEFAULT: &str = "handler";

impl Handler for Tracing {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let Some(exporter) = &self.exporter else {
            return Step::Next;
        };
        let propagates = exporter.settings().propagates;
        let outer = exchange.context.log.trace.take();
        let (parent, state) = if propagates && outer.is_none() {
            let parent = exchange
                .req
                .fields
                .find_first(b"traceparent")
                .and_then(Parent::parse);
            let state = exchange.req.fields.find_first(b"tracestate");
            let state =
                state.filter(|state| parent.is_some() && state.len() <= TRACE_STATE_BYTES_MAX);
            (parent, state.unwrap_or_default().to_vec())
        } else {
            (None, Vec::new())
        };
        let mut span = Span::begin(exporter, outer, parent, state);
        let (trace_id, span_id) = (span.trace_id(), span.span_id());
        let vars = &mut exchange.context.vars;
        vars.slot(&self.names.trace_var)
            .extend_from_slice(trace_id.as_bytes());
        vars.slot(&self.names.span_var)
            .extend_from_slice(span_id.as_bytes());
        let fields = &mut exchange.context.log.fields;
        fields.retain(|(key, _)| *key != self.names.trace_log && *key != self.names.span_log);
        fields.push((self.names.trace_log.clone(), trace_id));
        fields.push((self.names.span_log.clone(), span_id));
        if span.is_sampled() {
            span.set_name(values::expanded(&self.name, exchange));
            for (key, value) in &self.attributes {
                span.add(key, values::expanded(value, exchange));
            }
        }
        if propagates {
            let value = span.traceparent();
            let fields = &mut exchange.req.fields;
            fields.set_raw(FieldId::Other, b"Traceparent", value.as_bytes());
        }
        exchange.context.log.trace = Some(Box::new(span));
        Step::Next
    }
}

/// Builds `tracing`.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let exporter = builder.recorder.map(|recorder| recorder.exporter());
    let exporter = exporter.transpose().map_err(Refusal::new)?;
    let name = match config.span.as_str() {
        "" => NAME_DEFAULT,
        name => name,
    };
    let mut attributes = Vec::new();
    for (key, value) in &config.span_attributes {
        attributes.push((Arc::from(key.as_str()), builder.template(value)?));
    }
    Ok(Box::new(Tracing {
        exporter,
        name: builder.template(name)?,
        attributes,
        names: Names {
            trace_var: "trace_id".into(),
            span_var: "span_id".into(),
            trace_log: "traceID".into(),
            span_log: "spanID".into(),
        },
    }))
}
