//! Runs the service for one request, independent of the HTTP version. The connection sends the response.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluice_message::Status;

use crate::body::Body;
use crate::clock;
use crate::failure::Failure;
use crate::interims::Interim;
use crate::service::{Exchange, Refused, Response, Service};
use crate::sys::prefetch::Lines;
use crate::worker::Worker;

/// The recipient of a response: an HTTP/1 connection or an HTTP/2 stream.
pub(crate) trait Asker {
    /// Sends an interim response.
    fn send_interim(&self, interim: &Interim);

    /// Polled whenever the service is pending: ready once the client no longer waits for the response.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Failure>;
}

/// Runs the service to produce a response or to refuse the request. A panic in it ends this request with 500.
pub(crate) async fn response<S: Service>(
    service: &S,
    exchange: &mut Exchange<S::Context>,
    refused: Option<&Refused<'_>>,
    worker: &Worker,
    asker: &impl Asker,
) -> Result<Body, Failure> {
    let mut outcome = None;
    let body = loop {
        let lines = Lines::of(&*exchange);
        // Reborrowed for each step: a step borrows the exchange until it ends.
        let again = &mut *exchange;
        let step = guarded(move || match (outcome, refused) {
            (None, None) => service.serve(again),
            (None, Some(refused)) => service.refuse(again, refused),
            (Some(outcome), _) => service.resume(again, outcome),
        });
        let mut future = match step {
            Some(Response::Ready(body)) => break Some(body),
            Some(Response::Later(future)) => future,
            None => break None,
        };
        let mut is_new = true;
        // It owns the future: beside it nothing is kept while the step lasts.
        let polled = poll_fn(move |cx| {
            // With thousands of connections, the data of this one has left the CPU caches when it is woken.
            // Prefetching all of it overlaps the misses with the system call that reads from the socket. A new
            // future was written just now.
            if !std::mem::take(&mut is_new) {
                Lines::of(&*future).fetch();
                lines.fetch();
            }
            poll_step(cx, future.as_mut(), worker, asker)
        });
        match polled.await? {
            Some(step) => outcome = Some(step),
            None => break None,
        }
    };
    if service.settings().times_stages {
        exchange.came.responded = Some(clock::now());
    }
    if let Some(body) = body {
        return Ok(final_response(exchange, body));
    }
    worker.counters.panics.up();
    exchange.res.clear();
    exchange.res.status = Status::INTERNAL_SERVER_ERROR;
    exchange.close = true;
    Ok(Body::Empty)
}

/// A status below 200 cannot be final (RFC 9110, section 15.2) unless it switches protocols: the client would wait for
/// another response. A configuration may ask for such a status, directly or through a placeholder that the client
/// controls.
fn final_response<C>(exchange: &mut Exchange<C>, body: Body) -> Body {
    if !exchange.res.status.is_informational() || matches!(body, Body::Tunnel(_) | Body::Abort) {
        return body;
    }
    exchange.res.clear();
    exchange.res.status = Status::INTERNAL_SERVER_ERROR;
    Body::Empty
}

/// Polls a step of the service and watches for a client that disconnects. `None` means that the step panicked.
fn poll_step<T>(
    cx: &mut Context<'_>,
    future: Pin<&mut (dyn Future<Output = T> + '_)>,
    worker: &Worker,
    asker: &impl Asker,
) -> Poll<Result<Option<T>, Failure>> {
    let (polled, left) = worker.interims.during(|| guarded(|| future.poll(cx)));
    left.iter().for_each(|interim| asker.send_interim(interim));
    let stays = worker.stays.take();
    match polled {
        // Interim responses not yet sent go before the head of the response.
        Some(Poll::Ready(outcome)) => Poll::Ready(Ok(Some(outcome))),
        Some(Poll::Pending) if stays => Poll::Pending,
        Some(Poll::Pending) => asker.poll_gone(cx).map(Err),
        None => Poll::Ready(Ok(None)),
    }
}

/// Runs a step of the service; `None` if it panicked. The exchange is then discarded, or only its head is reused, so a
/// partial change is never visible.
pub(super) fn guarded<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}
