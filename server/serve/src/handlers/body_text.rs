//! Reads the body of a request before a handler that asks for `{http.request.body}`: placeholders cannot wait. The
//! body stays there for whoever comes after.

use sluice_net::RequestBody;

use super::reverse_proxy::buffering::collect;
use crate::context::Exchange;
use crate::handler::{Handler, Step, Waiting};
use crate::limits::BODY_TEXT_BYTES_MAX;

struct WithBody {
    inner: Box<dyn Handler>,
}

/// The handler with the body read before it.
pub fn before(inner: Box<dyn Handler>) -> Box<dyn Handler> {
    Box::new(WithBody { inner })
}

impl Handler for WithBody {
    fn serve(&self, x: &mut Exchange) -> Step {
        if x.body.is_empty() || x.context.body_text().is_some() {
            self.inner.serve(x)
        } else {
            Step::Later
        }
    }

    fn wait<'a>(&'a self, x: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async {
            // The inner handler may be what waits, and then comes here again by the walk.
            if x.context.body_text().is_none()
                && let RequestBody::Stream(stream) = x.body.take()
            {
                match collect(stream, BODY_TEXT_BYTES_MAX).await {
                    Ok(collected) => {
                        let text = collected.bytes().into();
                        x.context.aside.get_or_insert_default().body_text = Some(text);
                        x.body = RequestBody::Stream(Box::new(collected));
                    }
                    Err(failure) => return Step::Fail(failure.into()),
                }
                return match self.inner.serve(x) {
                    Step::Later => self.inner.wait(x).await,
                    step => step,
                };
            }
            self.inner.wait(x).await
        })
    }
}
