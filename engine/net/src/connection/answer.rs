//! Asking the service for the answer to one request, whatever version carried it. Sending it is left to the
//! connection.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluice_message::Status;

use crate::body::Body;
use crate::failure::Failure;
use crate::interims::Interim;
use crate::service::{Answer, Exchange, Refused, Service};
use crate::sys::prefetch::Lines;
use crate::worker::Worker;

/// Whoever waits for an answer.
pub(super) trait Asker {
    /// Gets an interim answer.
    fn tell(&self, interim: &Interim);

    /// Asked whenever the service waits: ready once nobody waits for the answer any more.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<Failure>;
}

/// Lets the service answer, or refuse. A panic in it ends this request with 500.
pub(super) async fn answer<S: Service>(
    service: &S,
    x: &mut Exchange<S::Context>,
    refused: Option<&Refused<'_>>,
    worker: &Worker,
    asker: &impl Asker,
) -> Result<Body, Failure> {
    let mut outcome = None;
    let exchange = Lines::of(x);
    let body = loop {
        // Borrowed anew for each step: a step keeps the exchange until it is over.
        let y = &mut *x;
        let step = guarded(move || match (outcome, refused) {
            (None, None) => service.serve(y),
            (None, Some(refused)) => service.refuse(y, refused),
            (Some(outcome), _) => service.resume(y, outcome),
        });
        let mut future = match step {
            Some(Answer::Ready(body)) => break Some(body),
            Some(Answer::Later(future)) => future,
            None => break None,
        };
        outcome = poll_fn(|cx| {
            // Among thousands of connections nothing of this one is left in the caches when it is woken. Asked for
            // together, it comes while the kernel is asked for the bytes.
            Lines::of(&*future).fetch();
            exchange.fetch();
            poll_step(cx, future.as_mut(), worker, asker)
        })
        .await?;
        if outcome.is_none() {
            break None;
        }
    };
    if let Some(body) = body {
        return Ok(final_response(x, body));
    }
    worker.counters.panics.up();
    x.res.clear();
    x.res.status = Status::INTERNAL_SERVER_ERROR;
    x.close = true;
    Ok(Body::Empty)
}

/// A response with a status below 200 is none that a request ends with (RFC 9110, section 15.2), unless it switches the
/// protocol: the client would wait for another one. A configuration can ask for such a status, and so can whoever fills
/// its placeholders.
fn final_response<C>(x: &mut Exchange<C>, body: Body) -> Body {
    if !x.res.status.is_informational() || matches!(body, Body::Tunnel(_) | Body::Abort) {
        return body;
    }
    x.res.clear();
    x.res.status = Status::INTERNAL_SERVER_ERROR;
    Body::Empty
}

/// Polls a step of the answer, and meanwhile notices a client that goes away. `None` is a panic.
fn poll_step<T>(
    cx: &mut Context<'_>,
    future: Pin<&mut (dyn Future<Output = T> + '_)>,
    worker: &Worker,
    asker: &impl Asker,
) -> Poll<Result<Option<T>, Failure>> {
    let (polled, left) = worker.interims.during(|| guarded(|| future.poll(cx)));
    left.iter().for_each(|interim| asker.tell(interim));
    let stays = worker.stays.take();
    match polled {
        // What was told and not sent goes before the head of the answer.
        Some(Poll::Ready(outcome)) => Poll::Ready(Ok(Some(outcome))),
        Some(Poll::Pending) if stays => Poll::Pending,
        Some(Poll::Pending) => asker.poll_gone(cx).map(Err),
        None => Poll::Ready(Ok(None)),
    }
}

/// Runs a step of the service; `None` if it panicked. The exchange is thrown away then, or only its head is
/// used again, so a half-made change cannot be seen.
pub(super) fn guarded<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}
