//! Request and response buffering, so that slow clients do not occupy upstreams. With temporary files, a request is
//! received completely before it is sent to an upstream, and a response is read at the upstream's pace. Without them,
//! bodies larger than the limit are streamed after that many bytes.

mod ahead;
mod rules;
mod spooled;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use sluice_net::{BodyStream, Failure, RequestBody, Worker};
use sluice_policy::memory::Pressure;
use sluice_upstream::Response;
use sluice_wire::h1::BodyFraming;

use crate::limits::BUFFER_RESPONSE_BYTES_MIN;
pub use ahead::Ahead;
use ahead::Collected as Filled;
pub use rules::{Rules, temporary_folder};
use sluice_pipeline::collect::collect_while;

/// The buffering settings.
#[derive(Default)]
pub struct Buffering {
    /// Bytes of a request body to buffer before sending it, in memory only.
    pub request_bytes: usize,
    /// Bytes of a response body to buffer before sending it, in memory only.
    pub response_bytes: usize,
    /// Request buffering with temporary files.
    pub spooling: Option<Spooling>,
    /// How responses do.
    pub ahead: Option<ReadAhead>,
}

/// How requests wait.
pub struct Spooling {
    /// Where they wait.
    pub rules: Arc<Rules>,
    /// Whether to buffer all request bodies, or only those without `Content-Length` if the upstream needs the length.
    pub always: bool,
}

/// How responses wait.
pub struct ReadAhead {
    /// Where they wait.
    pub rules: Arc<Rules>,
    /// Whether to buffer responses without `X-Accel-Buffering`.
    pub usually: bool,
    /// Whether to respect `X-Accel-Buffering`.
    pub obeys: bool,
}

impl Buffering {
    /// Whether all requests are received completely before they are sent to an upstream.
    pub fn spools(&self) -> bool {
        self.spooling
            .as_ref()
            .is_some_and(|spooling| spooling.always)
    }

    /// Whether request bodies are collected before they are sent, as configured.
    pub fn collects_requests(&self) -> bool {
        self.request_bytes > 0 || self.spools()
    }

    /// Whether response bodies are collected before they are sent, as configured.
    pub fn collects_responses(&self) -> bool {
        self.response_bytes > 0 || self.ahead.as_ref().is_some_and(|ahead| ahead.usually)
    }

    /// Whether to receive a request completely first; `needs_length` if the upstream needs its length.
    pub fn is_to_spool(&self, body: &RequestBody, needs_length: bool) -> bool {
        let Some(spooling) = &self.spooling else {
            return false;
        };
        !body.is_none() && (spooling.always || needs_length && body.len().is_none())
    }

    /// Receives the complete body of a request. If it does not fit, the rest is streamed.
    pub async fn spool(
        &self,
        worker: &Rc<Worker>,
        body: RequestBody,
    ) -> Result<RequestBody, Failure> {
        let (Some(spooling), RequestBody::Stream(mut body)) = (&self.spooling, body) else {
            return Ok(RequestBody::None);
        };
        // The body usually arrives with its head; leave it where it is.
        if let Some(length) = body.len() {
            let shown = poll_fn(|cx| Poll::Ready(body.poll_data(cx).map_ok(<[u8]>::len))).await;
            match shown {
                Poll::Ready(Ok(here)) if here as u64 == length => {
                    return Ok(RequestBody::Stream(body));
                }
                Poll::Ready(Err(failure)) => return Err(failure),
                Poll::Ready(Ok(_)) | Poll::Pending => {}
            }
        }
        let mut ahead = Ahead::new(worker, &spooling.rules, body);
        let filled = poll_fn(|cx| ahead.poll_collect(cx)).await?;
        Ok(RequestBody::Stream(match filled {
            Filled::Whole => Box::new(ahead.into_spooled()),
            Filled::InPart => Box::new(ahead),
        }))
    }

    /// The buffering rules for `response`; `None` if it is not buffered.
    pub fn ahead(&self, response: &Response) -> Option<Arc<Rules>> {
        let ahead = self.ahead.as_ref()?;
        match response.framing.body {
            BodyFraming::None => return None,
            // Small enough for the socket's send buffer.
            BodyFraming::Length(length) if length <= BUFFER_RESPONSE_BYTES_MIN => return None,
            BodyFraming::Length(_) | BodyFraming::Chunked | BodyFraming::UntilClose => {}
        }
        let said = response.head.fields.find_first(b"X-Accel-Buffering");
        let waits = match said.filter(|_| ahead.obeys) {
            Some(word) if word.eq_ignore_ascii_case(b"yes") => true,
            Some(word) if word.eq_ignore_ascii_case(b"no") => false,
            Some(_) | None => ahead.usually,
        };
        waits.then(|| ahead.rules.clone())
    }

    /// Buffers the body of a request. While memory is scarce, the rest is streamed.
    pub async fn request(
        &self,
        worker: &Worker,
        body: RequestBody,
    ) -> Result<RequestBody, Failure> {
        match body {
            RequestBody::None => Ok(RequestBody::None),
            RequestBody::Stream(body) => Ok(RequestBody::Stream(Box::new(
                collect_while(body, self.request_bytes, has_memory(worker)).await?,
            ))),
        }
    }

    /// Buffers the body of a response. While memory is scarce, the rest is streamed.
    pub async fn response(
        &self,
        worker: &Worker,
        body: Box<dyn BodyStream>,
    ) -> Result<Box<dyn BodyStream>, Failure> {
        let bytes_max = self.response_bytes;
        let collected = collect_while(body, bytes_max, has_memory(worker)).await?;
        Ok(Box::new(collected))
    }
}

/// Whether more may be buffered after a piece of this size.
fn has_memory(worker: &Worker) -> impl Fn(usize) -> bool {
    |bytes| {
        worker.buffers.note_allocated(bytes);
        worker.memory.level() < Pressure::HoldBodies
    }
}
