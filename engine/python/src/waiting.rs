//! A request's wait for a place in a process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_net::timeout::within;
use sluice_net::worker::Worker;

use crate::failure::Refusal;
use crate::group::Group;
use crate::process::Counted;
use crate::queue::{Grant, Standing};

/// Waits in the queue of `group`, for at most its `queue_timeout`.
///
/// # Errors
///
/// The queue is full, it took too long, or the group has failed.
pub(crate) async fn wait_for_place(worker: &Worker, group: &Arc<Group>) -> Result<Grant, Refusal> {
    let waiting = Waiting {
        group,
        ticket: None,
    };
    let waited = within(worker, group.settings.queue_timeout, waiting).await;
    waited.unwrap_or_else(|| {
        group.queue.note_late();
        Err(Refusal::QueueTimeout)
    })
}

/// A place in the queue; dropping it gives it to the next.
struct Waiting<'a> {
    group: &'a Arc<Group>,
    ticket: Option<u64>,
}

impl Future for Waiting<'_> {
    type Output = Result<Grant, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = &self.group.queue;
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => {
                let ticket = queue.join(cx.waker())?;
                // A place that became free before the request was in the queue is found here; later ones are given to it.
                self.group.serve_queue();
                self.group.watch_stalls();
                self.ticket = Some(ticket);
                ticket
            }
        };
        match self.group.queue.look(ticket, cx.waker()) {
            Standing::Waiting => Poll::Pending,
            Standing::Decided(decision) => {
                self.ticket = None;
                Poll::Ready(decision)
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket
            && let Some(grant) = self.group.queue.leave(ticket)
        {
            let Grant { process, seat } = &grant;
            self.group.release(process, *seat, 1, Counted::No);
        }
    }
}
