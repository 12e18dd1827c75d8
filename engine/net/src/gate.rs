//! A concurrency limit on requests, across all workers, with a queue. Both are bounded: a request that would wait in
//! vain is rejected immediately and can be sent elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::timeout::within;
use crate::worker::Worker;

/// A concurrency limit.
pub struct Gate {
    free: Arc<Semaphore>,
    max: usize,
    waiting: AtomicUsize,
    queue_max: usize,
}

/// A request in progress; dropping it frees its slot.
pub struct Pass(#[expect(dead_code, reason = "held, never looked at")] OwnedSemaphorePermit);

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// The queue is full.
    QueueFull,
    /// No slot became free in time.
    TooLong,
}

impl Shut {
    /// A description of the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Shut::QueueFull => "the queue is full",
            Shut::TooLong => "timed out in the queue",
        }
    }
}

impl Gate {
    /// A limit of `max` concurrent requests, with a queue for `queue_max` more.
    pub fn new(max: usize, queue_max: usize) -> Gate {
        let max = max.min(Semaphore::MAX_PERMITS);
        Gate {
            free: Arc::new(Semaphore::new(max)),
            max,
            waiting: AtomicUsize::new(0),
            queue_max,
        }
    }

    /// Requests in progress.
    pub fn in_flight(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }

    /// Requests that wait for a slot.
    pub fn waiting(&self) -> usize {
        // One that finds the queue full counts for a moment.
        self.waiting.load(Ordering::Relaxed).min(self.queue_max)
    }

    /// Takes a slot if one is free and no request is queued.
    pub fn try_enter(&self) -> Option<Pass> {
        self.free.clone().try_acquire_owned().ok().map(Pass)
    }

    /// Waits for a slot, in first-come order and for at most `limit`, if the queue has room.
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

/// A position in the queue.
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
