//! `nginx_content`: `stub_status` and `empty_gif`; `status_api` has `api`.

use std::sync::Arc;

use sluice_message::{FieldId, Method, Status, date};
use sluice_model::nginx::OwnContent as Config;
use sluice_net::Body;

use super::state::set_status;
use super::status_api;
use sluice_observe::Recorder;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

/// A transparent 1x1 pixel (GIF89a): header, palette of two colors, graphic control extension that makes the first
/// transparent, image data, trailer.
const GIF: &[u8; 43] = b"GIF89a\x01\0\x01\0\x80\x01\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\x01\0,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;";

/// The `Last-Modified` of the image, as in nginx: long ago, so that caches keep it.
const GIF_MODIFIED: &[u8] = b"Mon, 28 Sep 1970 06:00:00 GMT";

enum Content {
    /// The counters; `None` if the configuration is only checked.
    Status(Option<Arc<Recorder>>),
    Gif,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(match config.what.as_str() {
        "stub_status" => Content::Status(builder.recorder.cloned()),
        "api" => return Ok(status_api::build(builder)),
        "empty_gif" => Content::Gif,
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is not a built-in response"
            )));
        }
    }))
}

impl Handler for Content {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if !matches!(exchange.req.method, Method::Get | Method::Head) {
            let status = Status::METHOD_NOT_ALLOWED;
            return Step::Fail(Fault::new(status, "it is only read"));
        }
        exchange.res.status = Status::OK;
        set_status(exchange);
        match self {
            Content::Status(recorder) => {
                let text = counts(recorder.as_deref());
                exchange
                    .res
                    .fields
                    .push(FieldId::ContentType, b"text/plain");
                response(exchange, text.as_bytes())
            }
            Content::Gif => {
                exchange
                    .res
                    .fields
                    .push(FieldId::LastModified, GIF_MODIFIED);
                let now = exchange.worker.clock.unix_seconds();
                let known = exchange.req.fields.first(FieldId::IfModifiedSince);
                let is_known = known.and_then(|value| date::parse_http(value, now))
                    == date::parse_http(GIF_MODIFIED, now);
                if is_known && exchange.res.status == Status::OK {
                    exchange.res.status = Status::NOT_MODIFIED;
                    return Step::Done(Body::Empty);
                }
                exchange.res.fields.push(FieldId::ContentType, b"image/gif");
                response(exchange, GIF)
            }
        }
    }
}

fn response(exchange: &mut Exchange, content: &[u8]) -> Step {
    exchange.inline.clear();
    exchange.inline.extend_from_slice(content);
    Step::Done(Body::Inline)
}

/// The text of `stub_status`. `Reading` is not counted: connections that send a request head are among the waiting
/// ones.
fn counts(recorder: Option<&Recorder>) -> String {
    let (mut accepted, mut open, mut requests, mut writing) = (0, 0, 0, 0);
    if let Some(recorder) = recorder {
        (accepted, open) = recorder.hub().connections();
        let totals = recorder.totals();
        (requests, writing) = (totals.started, totals.in_flight());
    }
    let waiting = open.saturating_sub(writing);
    format!(
        "Active connections: {open} \nserver accepts handled requests\n {accepted} {accepted} {requests} \n\
         Reading: 0 Writing: {writing} Waiting: {waiting} \n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_one() {
        assert_eq!(&GIF[..6], b"GIF89a");
        assert_eq!(
            (GIF[6], GIF[8], GIF.last()),
            (1, 1, Some(&b';')),
            "one point wide and high"
        );
    }

    #[test]
    fn the_counts_are_laid_out_as_by_nginx() {
        let text = counts(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Active connections: 0 ",
                "server accepts handled requests",
                " 0 0 0 ",
                "Reading: 0 Writing: 0 Waiting: 0 "
            ]
        );
    }
}
