//! The futures of the streams of one connection, by slot, in allocations that the worker keeps for reuse.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Over, Ready};
use crate::limits::STREAMS_KEPT_MAX;
use crate::worker::Worker;

/// The futures of the streams of one connection.
pub struct Works<F> {
    worker: Rc<Worker>,
    places: Rc<Places<F>>,
    works: Vec<Work<F>>,
}

/// The work of one slot.
struct Work<F> {
    waker: Option<Waker>,
    future: Option<Place<F>>,
}

impl<F: Future<Output = Over> + 'static> Works<F> {
    /// None yet.
    pub fn new(worker: &Rc<Worker>) -> Works<F> {
        Works {
            worker: worker.clone(),
            places: worker.local(),
            works: Vec::new(),
        }
    }

    /// Puts the future of a new stream into its slot.
    pub fn put(&mut self, slot: usize, future: F) {
        while self.works.len() <= slot {
            self.works.push(Work {
                waker: None,
                future: None,
            });
        }
        self.works[slot].future = Some(self.places.fill(future));
    }

    /// Whether the slot has a future.
    pub fn has(&self, slot: usize) -> bool {
        let work = self.works.get(slot);
        work.is_some_and(|work| work.future.is_some())
    }

    /// Polls the future of a slot, if it has one, and removes it at its end. A panic ends this stream only.
    pub fn poll(&mut self, slot: usize, ready: &Arc<Ready>) -> Poll<Over> {
        let Some(work) = self.works.get_mut(slot) else {
            return Poll::Pending;
        };
        let Some(future) = &mut work.future else {
            return Poll::Pending;
        };
        let waker = work.waker.get_or_insert_with(|| ready.waker(slot));
        let mut cx = Context::from_waker(waker);
        let polled = catch_unwind(AssertUnwindSafe(|| match future.as_mut().as_pin_mut() {
            Some(future) => future.poll(&mut cx),
            None => Poll::Pending,
        }));
        let over = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(over)) => over,
            // The exchange is discarded, so a partial change is never visible.
            Err(_) => {
                self.worker.counters.panics.up();
                Over::Failed
            }
        };
        if let Some(place) = work.future.take() {
            self.places.give_back(place);
        }
        Poll::Ready(over)
    }

    /// Forgets the wakers, which belong to another task.
    pub fn forget_wakers(&mut self) {
        self.works.iter_mut().for_each(|work| work.waker = None);
    }

    /// Frees the memory for more than `kept` slots, while no slot has a future.
    pub fn shrink(&mut self, kept: usize) {
        if self.works.len() > kept {
            self.works = Vec::new();
        }
    }
}

/// A pool of allocations for stream futures.
struct Places<F>(RefCell<Vec<Place<F>>>);

/// An allocation for the future of a stream; empty while unused.
type Place<F> = Pin<Box<Option<F>>>;

impl<F> Default for Places<F> {
    fn default() -> Self {
        Places(RefCell::new(Vec::new()))
    }
}

impl<F: Future> Places<F> {
    /// Puts `future` into an allocation from the pool.
    fn fill(&self, future: F) -> Place<F> {
        match self.0.borrow_mut().pop() {
            Some(mut place) => {
                place.set(Some(future));
                place
            }
            None => Box::pin(Some(future)),
        }
    }

    /// Drops the future and returns the allocation to the pool.
    fn give_back(&self, mut place: Place<F>) {
        place.set(None);
        let mut kept = self.0.borrow_mut();
        if kept.len() < STREAMS_KEPT_MAX {
            kept.push(place);
        }
    }
}
