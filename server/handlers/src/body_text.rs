//! Reads the request body before a handler that uses `{http.request.body}`, because placeholders cannot await. The body
//! remains available to later handlers.

use sluice_net::RequestBody;

use crate::limits::BODY_TEXT_BYTES_MAX;
use sluice_pipeline::collect::collect_some;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step, Waiting};

struct WithBody {
    inner: Box<dyn Handler>,
}

/// Wraps a handler so that the body is read first.
pub fn before(inner: Box<dyn Handler>) -> Box<dyn Handler> {
    Box::new(WithBody { inner })
}

/// Reads the body for placeholders, unless that has been done.
///
/// # Errors
///
/// The body is incomplete or exceeds its limit. While an error is being handled this is not reported, because it may be
/// the cause of that error.
pub async fn read(exchange: &mut Exchange) -> Result<(), Fault> {
    if exchange.context.body_text().is_some() {
        return Ok(());
    }
    let RequestBody::Stream(stream) = exchange.body.take() else {
        return Ok(());
    };
    let (collected, failure) = collect_some(stream, BODY_TEXT_BYTES_MAX).await;
    let text = collected.bytes().into();
    exchange.context.aside.get_or_insert_default().body_text = Some(text);
    exchange.body = RequestBody::Stream(Box::new(collected));
    match failure {
        Some(failure) if exchange.context.error.is_none() => Err(failure.into()),
        Some(_) | None => Ok(()),
    }
}

impl Handler for WithBody {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.body.is_empty() || exchange.context.body_text().is_some() {
            self.inner.serve(exchange)
        } else {
            Step::Later
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async {
            // The inner handler itself may wait, and be called again by the pipeline.
            if exchange.context.body_text().is_some() || exchange.body.is_empty() {
                return self.inner.wait(exchange).await;
            }
            if let Err(fault) = read(exchange).await {
                return Step::Fail(fault);
            }
            match self.inner.serve(exchange) {
                Step::Later => self.inner.wait(exchange).await,
                step => step,
            }
        })
    }
}
