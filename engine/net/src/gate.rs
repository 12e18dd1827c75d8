//! A limit on requests in progress, all workers together, and the queue before it. Both are bounded: whoever would wait
//! in vain is told at once, and can be sent elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::upstream::within;
use crate::worker::Worker;

/// Lets as many requests through at a time as there are places.
pub struct Gate {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue_max: usize,
}

/// A request in progress; dropping it frees its place.
pub struct Pass(#[expect(dead_code, reason = "held, never looked at")] OwnedSemaphorePermit);

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// As many wait already as may.
    QueueFull,
    /// No request in progress has ended in time.
    TooLong,
}

impl Shut {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Shut::QueueFull => "the queue is full",
            Shut::TooLong => "no request in progress has ended in time",
        }
    }
}

impl Gate {
    /// A gate for `max` requests at a time, before which `queue_max` more may wait.
    pub fn new(max: usize, queue_max: usize) -> Gate {
        Gate {
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            queue_max,
        }
    }

    /// A place, if one is free now and nobody waits for it.
    pub fn try_enter(&self) -> Option<Pass> {
        self.free.clone().try_acquire_owned().ok().map(Pass)
    }

    /// Waits for a place, if there is one in the queue and for no longer than `limit`. Who came first goes first.
    pub async fn enter(&self, worker: &Worker, limit: Duration) -> Result<Pass, Shut> {
        if let Some(pass) = self.try_enter() {
            return Ok(pass);
        }
        let _place = Place::take(&self.waiting, self.queue_max).ok_or(Shut::QueueFull)?;
        let waited = within(worker, limit, self.free.clone().acquire_owned());
        match waited.await {
            Some(Ok(permit)) => Ok(Pass(permit)),
            Some(Err(_)) | None => Err(Shut::TooLong),
        }
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, max: usize) -> Option<Place<'a>> {
        let place = Place(waiting);
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        (before < max).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
