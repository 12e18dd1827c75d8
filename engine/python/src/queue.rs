//! The requests of one application that wait for a worker, across all threads of sluice, in the order in which they came.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::failure::Refusal;
use crate::process::Process;

/// A place for a request in a process.
#[derive(Debug)]
pub(crate) struct Grant {
    pub process: Arc<Process>,
    pub seat: usize,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of waiting requests, to be read without the lock.
    waiting: AtomicUsize,
    places: Mutex<Places>,
    size: usize,
    refused_full: AtomicU64,
    refused_late: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    /// The ticket of the next request.
    next: u64,
    waiting: BTreeMap<u64, Waker>,
    /// What became of requests that have not noticed it yet.
    decided: HashMap<u64, Result<Grant, Refusal>>,
    /// Why requests are refused from now on.
    closed: Option<Refusal>,
}

/// How a waiting request stands.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It still waits.
    Waiting,
    /// It waits no more.
    Decided(Result<Grant, Refusal>),
}

impl Queue {
    /// A queue for at most `size` requests.
    pub fn new(size: usize) -> Queue {
        Queue {
            waiting: AtomicUsize::new(0),
            places: Mutex::default(),
            size,
            refused_full: AtomicU64::new(0),
            refused_late: AtomicU64::new(0),
        }
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Requests refused because the queue was full, and because they waited too long.
    pub fn refused(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.refused_full), count(&self.refused_late))
    }

    /// Adds a request, whose task is woken when it is decided; returns its ticket.
    pub fn join(&self, waker: &Waker) -> Result<u64, Refusal> {
        let mut places = self.places();
        if let Some(refusal) = places.closed {
            return Err(refusal);
        }
        if places.waiting.len() >= self.size {
            self.refused_full.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::QueueFull);
        }
        let ticket = places.next;
        places.next += 1;
        places.waiting.insert(ticket, waker.clone());
        self.note_length(&places);
        Ok(ticket)
    }

    /// Whether a request was decided; otherwise its task is woken when it is.
    pub fn look(&self, ticket: u64, waker: &Waker) -> Standing {
        let mut places = self.places();
        if let Some(decision) = places.decided.remove(&ticket) {
            return Standing::Decided(decision);
        }
        match places.waiting.get_mut(&ticket) {
            Some(known) => {
                known.clone_from(waker);
                Standing::Waiting
            }
            None => Standing::Decided(Err(Refusal::Stopped)),
        }
    }

    /// A request leaves; a place that it was given meanwhile is returned.
    pub fn leave(&self, ticket: u64) -> Option<Grant> {
        let mut places = self.places();
        let decision = places.decided.remove(&ticket);
        if places.waiting.remove(&ticket).is_some() {
            self.note_length(&places);
        }
        decision?.ok()
    }

    /// Counts a request that left because it waited too long.
    pub fn note_late(&self) {
        self.refused_late.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives places to the requests that have waited longest, as long as `place` has some.
    pub fn serve(&self, mut place: impl FnMut() -> Option<Grant>) {
        let mut woken = Vec::new();
        {
            let mut places = self.places();
            while !places.waiting.is_empty() {
                let Some(grant) = place() else {
                    break;
                };
                if let Some((ticket, waker)) = places.waiting.pop_first() {
                    places.decided.insert(ticket, Ok(grant));
                    woken.push(waker);
                }
            }
            self.note_length(&places);
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Refuses all requests that wait, and those to come until [`Queue::reopen`].
    pub fn close(&self, refusal: Refusal) {
        let waiting = {
            let mut places = self.places();
            places.closed = Some(refusal);
            let waiting = std::mem::take(&mut places.waiting);
            for ticket in waiting.keys() {
                places.decided.insert(*ticket, Err(refusal));
            }
            self.note_length(&places);
            waiting
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Accepts requests again.
    pub fn reopen(&self) {
        self.places().closed = None;
    }

    fn note_length(&self, places: &Places) {
        self.waiting.store(places.waiting.len(), Ordering::SeqCst);
    }

    /// No code that holds the lock can panic half-way.
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;
    use crate::settings::{Interface, Settings};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn grant() -> Grant {
        let settings = Settings::new("test", Interface::Asgi, "app:app");
        Grant {
            process: Arc::new(Process::new(1, 0, u64::MAX, &settings)),
            seat: 0,
        }
    }

    #[test]
    fn the_longest_waiting_request_is_served_first() {
        let queue = Queue::new(10);
        let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counts.iter().map(|count| count.clone().into()).collect();
        let tickets: Vec<u64> = wakers.iter().map(|w| queue.join(w).unwrap()).collect();
        let mut free = 2;
        queue.serve(|| {
            free -= 1;
            (free >= 0).then(grant)
        });
        let woken: Vec<usize> = counts.iter().map(|c| c.0.load(Ordering::SeqCst)).collect();
        assert_eq!((woken, queue.len()), (vec![1, 1, 0], 1));
        for ticket in &tickets[..2] {
            let standing = queue.look(*ticket, &wakers[0]);
            assert!(matches!(standing, Standing::Decided(Ok(_))));
        }
        assert!(matches!(
            queue.look(tickets[2], &wakers[2]),
            Standing::Waiting
        ));
    }

    #[test]
    fn a_full_queue_refuses_and_one_that_leaves_makes_room() {
        let queue = Queue::new(2);
        let waker = Waker::noop();
        let first = queue.join(waker).unwrap();
        queue.join(waker).unwrap();
        assert_eq!(queue.join(waker), Err(Refusal::QueueFull));
        assert!(queue.leave(first).is_none());
        assert_eq!(queue.len(), 1);
        assert!(queue.join(waker).is_ok());
        assert_eq!(queue.refused(), (1, 0));
    }

    #[test]
    fn a_place_given_to_one_that_left_comes_back() {
        let queue = Queue::new(2);
        let ticket = queue.join(Waker::noop()).unwrap();
        let mut free = Some(grant());
        queue.serve(|| free.take());
        assert!(queue.leave(ticket).is_some());
        assert!(queue.leave(ticket).is_none());
    }

    #[test]
    fn a_closed_queue_refuses_all_who_wait() {
        let queue = Queue::new(2);
        let ticket = queue.join(Waker::noop()).unwrap();
        queue.close(Refusal::Failed);
        let standing = queue.look(ticket, Waker::noop());
        assert!(matches!(standing, Standing::Decided(Err(Refusal::Failed))));
        assert_eq!(queue.join(Waker::noop()), Err(Refusal::Failed));
        queue.reopen();
        assert!(queue.join(Waker::noop()).is_ok());
    }
}
