//! A queue of requests that no server of a group can take at the moment. It is bounded, and so is the time in it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::limits::QUEUE_RECHECK;
use crate::timeout::within;
use crate::worker::Worker;

/// A queue, shared by all workers.
pub struct Queue {
    max: usize,
    timeout: Duration,
    waiting: AtomicUsize,
    /// Signalled at the end of each request to the group.
    ended: Arc<Notify>,
}

impl Queue {
    /// An empty queue for `max` requests, each of which waits for at most `timeout`.
    pub fn new(max: usize, timeout: Duration) -> Queue {
        Queue {
            max,
            timeout,
            waiting: AtomicUsize::new(0),
            ended: Arc::default(),
        }
    }

    /// What the end of a request signals.
    pub fn ended(&self) -> &Arc<Notify> {
        &self.ended
    }

    /// Whether nobody waits, so that a new request overtakes nobody.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Waits until `is_ready`, if there is room. Requests are woken in the order in which they came; a server whose
    /// failures are over is noticed as well, though no request ends then.
    pub async fn wait(&self, worker: &Worker, mut is_ready: impl FnMut() -> bool) {
        let Some(_place) = Place::take(&self.waiting, self.max) else {
            return;
        };
        let began = worker.clock.coarse();
        loop {
            let mut ended = pin!(self.ended.notified());
            // From here on no signal is lost.
            ended.as_mut().enable();
            if is_ready() {
                return;
            }
            let left = self
                .timeout
                .saturating_sub(worker.clock.coarse().since(began));
            if left.is_zero() {
                return;
            }
            within(worker, left.min(QUEUE_RECHECK), ended).await;
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
