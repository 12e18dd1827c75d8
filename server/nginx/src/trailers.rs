//! `nginx_trailers`: response trailers. Their values are evaluated when the response begins.

use std::task::{Context, Poll};

use sluice_message::{FieldId, FieldName, Fields, Method};
use sluice_model::nginx::Trailers as Config;
use sluice_net::{Body, BodyStream, Failure};
use sluice_route::Template;

use super::expires::is_good;
use crate::state::NginxContext;
use sluice_handlers::filters::encode::Source;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::text::clean_value;
use sluice_pipeline::values::expanded;

struct Settings {
    fields: Vec<Trailer>,
}

struct Trailer {
    name: FieldName,
    value: Template,
    /// Whether error responses get it, too.
    always: bool,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let fields = config.fields.iter().map(|field| {
        let name = FieldName::new(&field.name);
        Ok(Trailer {
            name: name.ok_or_else(|| {
                Refusal::new(format!("`{}` is not a valid header name", field.name))
            })?,
            value: builder.template(&field.value)?,
            always: field.always,
        })
    });
    Ok(Filtering::boxed(Settings {
        fields: fields.collect::<Result<_, Refusal>>()?,
    }))
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_good = is_good(exchange.res.status);
        let has_none = exchange.res.status.is_bodiless()
            || exchange.req.method == Method::Head
            || exchange.context.nginx().is_subrequest()
            || !(is_good || self.fields.iter().any(|field| field.always));
        if has_none {
            return body;
        }
        let mut fields = Fields::new();
        for field in self.fields.iter().filter(|field| is_good || field.always) {
            let mut value = expanded(&field.value, exchange);
            clean_value(&mut value);
            if !value.is_empty() {
                fields.push_name(&field.name, &value);
            }
        }
        exchange
            .context
            .occasional_mut()
            .trailers
            .clone_from(&fields);
        let source = match Source::of(exchange, body) {
            Ok(source) => Some(source),
            Err(Body::Empty) => None,
            Err(other) => return other,
        };
        // Trailers need a body without `Content-Length`.
        exchange.res.fields.remove(FieldId::ContentLength);
        Body::Stream(Box::new(Followed { source, fields }))
    }
}

/// A body followed by trailers.
struct Followed {
    /// `None` for an empty body.
    source: Option<Source>,
    fields: Fields,
}

impl BodyStream for Followed {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.source {
            Some(source) => source.poll_ahead(cx),
            None => Poll::Pending,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        match &mut self.source {
            Some(source) => source.poll_piece(cx),
            None => Poll::Ready(Ok(&[])),
        }
    }

    fn consume(&mut self, count: usize) {
        if let Some(source) = &mut self.source {
            source.take(count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        let given = self.source.as_mut().and_then(Source::trailers);
        let mut fields = given.unwrap_or_default();
        fields.append(&self.fields);
        Some(fields)
    }
}
