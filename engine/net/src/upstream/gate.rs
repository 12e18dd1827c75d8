//! The limit on requests in progress at one upstream, all workers together, and the queue before it. Both are bounded:
//! whoever would wait in vain is told at once, and can be sent elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, FailureKind, Retry, Side};
use crate::upstream::dial::within;
use crate::upstream::limits::QUEUE_MAX;
use crate::worker::Worker;

/// Lets as many requests through at a time as an upstream may have.
pub(super) struct Gate {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Gate {
    /// A gate for `max` requests at a time.
    pub fn new(max: usize) -> Gate {
        Gate {
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for a place, if there is one in the queue and for no longer than `limit`.
    pub async fn enter(
        &self,
        worker: &Worker,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _place = Place::take(&self.waiting).ok_or_else(|| full("the queue is full"))?;
        let waited = within(worker, limit, self.free.clone().acquire_owned());
        match waited.await {
            Some(Ok(permit)) => Ok(permit),
            Some(Err(_)) | None => Err(full("no request in progress has ended in time")),
        }
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<Place<'a>> {
        let place = Place(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        (before < QUEUE_MAX).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn full(why: &'static str) -> Failure {
    Failure::new(Side::Upstream, FailureKind::Limit)
        .with_retry(Retry::Always)
        .because(why)
}
