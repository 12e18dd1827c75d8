//! `copy_response` and `copy_response_headers`: send the upstream's response, or some of its headers, from the routes
//! of `handle_response`.

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Status};
use sluice_model::handler::{CopyResponse, CopyResponseHeaders};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::{Exchange, Held};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::status::StatusText;

struct Copy {
    /// The status that replaces the upstream's.
    status: Option<StatusText>,
}

impl Handler for Copy {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let aside = exchange.context.aside.as_mut();
        let Some(response) = aside.and_then(|aside| aside.of_upstream.take()) else {
            return outside("copy_response");
        };
        let Held { head, body, inline } = response;
        exchange.res.status = match &self.status {
            None => head.status,
            Some(status) => match status.resolve(exchange) {
                Some(status) => status,
                None => return Step::Fail(no_number()),
            },
        };
        // It is the upstream's response, so its `Server` header applies.
        exchange.res.fields.remove(FieldId::Server);
        exchange.res.fields.append(&head.fields);
        exchange.inline = inline;
        Step::Done(body)
    }
}

fn no_number() -> Fault {
    Fault::new(
        Status::INTERNAL_SERVER_ERROR,
        "the status of copy_response is not a number",
    )
}

fn outside(directive: &str) -> Step {
    let reason = format!("{directive} has no upstream response to copy");
    Step::Fail(Fault::new(Status::INTERNAL_SERVER_ERROR, reason))
}

struct CopyFields {
    only: Vec<String>,
    but: Vec<String>,
}

impl Handler for CopyFields {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.context.upstream.status.is_none() {
            return outside("copy_response_headers");
        }
        let mut fields = exchange.context.upstream.fields.clone();
        // Drop headers about the connection to the upstream and about its body.
        strip_hop_by_hop(&mut fields);
        fields.remove(FieldId::ContentLength);
        let among = |names: &[String], name: &[u8]| {
            let mut names = names.iter();
            names.any(|one| one.as_bytes().eq_ignore_ascii_case(name))
        };
        fields.retain(|field| {
            (self.only.is_empty() || among(&self.only, field.name)) && !among(&self.but, field.name)
        });
        exchange.res.fields.append(&fields);
        Step::Next
    }
}

/// Builds `copy_response`.
pub fn build(
    config: &CopyResponse,
    builder: &mut Builder<'_>,
) -> Result<Box<dyn Handler>, Refusal> {
    let status = StatusText::build(config.status_code.as_str(), builder)?;
    Ok(Box::new(Copy { status }))
}

/// Builds `copy_response_headers`.
pub fn build_headers(config: &CopyResponseHeaders) -> Box<dyn Handler> {
    Box::new(CopyFields {
        only: config.include.clone(),
        but: config.exclude.clone(),
    })
}
