//! `api`: the status in the form of nginx Plus's API, read-only. `sluice-observe` makes the documents.

use std::sync::Arc;

use sluice_message::{FieldId, Method, Status};
use sluice_net::Body;
use sluice_observe::Recorder;
use sluice_observe::status::nginx_plus::{self, ApiResponse};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};

/// The handler, with the counters; `None` if requests are only explained.
struct StatusApi(Option<Arc<Recorder>>);

/// Builds the handler.
pub(crate) fn build(builder: &Builder<'_>) -> Box<dyn Handler> {
    Box::new(StatusApi(builder.recorder.cloned()))
}

impl Handler for StatusApi {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let is_read = matches!(exchange.req.method, Method::Get | Method::Head);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let response = match &self.0 {
            Some(recorder) if is_read => {
                let path = text(exchange.req.uri.path());
                let query = exchange.req.uri.query().map(text).unwrap_or_default();
                nginx_plus::respond(recorder, &path, &query)
            }
            Some(_) => ApiResponse::error(405, "method disabled", "MethodDisabled"),
            None => ApiResponse::error(404, "path not found", "PathNotFound"),
        };
        // Errors are documents as well, so no error page replaces them.
        exchange.res.status = Status::new(response.status).unwrap_or(Status::OK);
        let fields = &mut exchange.res.fields;
        if !is_read {
            fields.push(FieldId::Allow, b"GET, HEAD");
        }
        fields.push(FieldId::ContentType, b"application/json");
        fields.push(FieldId::CacheControl, b"no-cache");
        exchange.inline.clear();
        let body = response.body.to_string();
        exchange.inline.extend_from_slice(body.as_bytes());
        Step::Done(Body::Inline)
    }
}
