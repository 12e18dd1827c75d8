//! `respond`: a fixed response. `failure` decides the status of errors.

use sluice_message::{FieldId, FieldName, FixedField, Status};
use sluice_model::handler::StaticResponse as Config;
use sluice_net::Body;
use sluice_route::Template;
use sluice_route::placeholder::Unknown;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::location;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;
use sluice_pipeline::text::push_value;
use sluice_pipeline::values::At;

struct StaticResponse {
    status: Option<StatusText>,
    headers: Vec<(FieldName, Vec<Template>)>,
    body: Template,
    /// The Content-Type to send if no header sets it; `None` if it depends on the body.
    content_type: Option<FixedField>,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// Keep the connection open.
    Reuse,
    /// Close the connection after the response.
    Close,
    /// Close the connection without a response.
    Abort,
}

impl Handler for StaticResponse {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if self.ending == Ending::Abort {
            return Step::Done(Body::Abort);
        }
        exchange.close |= self.ending == Ending::Close;
        let status = match &self.status {
            Some(status) => status.resolve(exchange),
            None => Some(
                exchange
                    .context
                    .error
                    .as_ref()
                    .map_or(Status::OK, |error| error.status),
            ),
        };
        let Some(status) = status else {
            return Step::Fail(Fault::new(
                Status::INTERNAL_SERVER_ERROR,
                "the status is not a number from 200 to 999",
            ));
        };
        exchange.res.status = status;
        self.set_headers(exchange);
        self.write_body(exchange);
        if exchange.inline.is_empty() {
            return Step::Done(Body::Empty);
        }
        if !exchange.res.fields.has(FieldId::ContentType) {
            match &self.content_type {
                Some(said) => exchange.res.fields.push_fixed(said),
                None => exchange
                    .res
                    .fields
                    .push(FieldId::ContentType, content_type_of(&exchange.inline)),
            }
        }
        Step::Done(Body::Inline)
    }
}

impl StaticResponse {
    fn set_headers(&self, exchange: &mut Exchange) {
        for (name, values) in &self.headers {
            exchange.res.fields.remove_name(name.as_str().as_bytes());
            for value in values {
                let text = match name.id() {
                    FieldId::Location => location::of(value, exchange),
                    _ => {
                        let mut text = Vec::new();
                        push_value(value, Unknown::Empty, exchange, &mut text);
                        text
                    }
                };
                exchange.res.fields.push_name(name, &text);
            }
        }
    }

    fn write_body(&self, exchange: &mut Exchange) {
        // Taken out, because expanding placeholders borrows the exchange.
        let mut body = std::mem::take(&mut exchange.inline);
        body.clear();
        match self.body.literal() {
            Some(text) => body.extend_from_slice(text),
            None => self.body.expand(&At(exchange), Unknown::Keep, &mut body),
        }
        exchange.inline = body;
    }
}

/// JSON or plain text, so that browsers and API clients need not guess.
fn content_type_of(body: &[u8]) -> &'static [u8] {
    let looks_like_json = matches!(body.first(), Some(b'{' | b'[' | b'"'));
    let json = looks_like_json && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    if json {
        b"application/json"
    } else {
        b"text/plain; charset=utf-8"
    }
}

/// Builds `respond`, `abort` and the fixed responses of other directives.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let body = builder.template(&config.body)?;
    let mut headers = Vec::with_capacity(config.headers.len());
    for (name, values) in &config.headers {
        let name = FieldName::new(name)
            .ok_or_else(|| Refusal::new(format!("`{name}` is not a valid header name")))?;
        let values = values
            .iter()
            .map(|v| builder.template(v))
            .collect::<Result<Vec<_>, _>>()?;
        headers.push((name, values));
    }
    let ending = match (config.abort, config.close) {
        (true, _) => Ending::Abort,
        (false, true) => Ending::Close,
        (false, false) => Ending::Reuse,
    };
    Ok(Box::new(StaticResponse {
        status: StatusText::build(config.status_code.as_str(), builder)?,
        headers,
        content_type: body
            .literal()
            .map(|text| FixedField::known(FieldId::ContentType, content_type_of(text))),
        body,
        ending,
    }))
}
