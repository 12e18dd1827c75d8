//! Concurrent requests for the same missing response: one fetches it, and the others wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluice_message::Moment;

use super::{Digest, Store, lock};
use crate::limits::{FLIGHTS_MAX, WAITERS_MAX};

/// The cache entries being filled, with the requests waiting for each. Shared by all workers.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Digest, Arc<Flight>>>);

struct Flight(Mutex<State>);

enum State {
    UnderWay { since: Moment, wakers: Vec<Waker> },
    Landed(Outcome),
}

/// What waiting requests do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Look the response up again.
    Look,
    /// The response is not cacheable: each waiting request goes to the upstream itself.
    Pass,
}

/// Which request fills a cache entry.
pub enum Turn {
    /// This one.
    Lead(Lead),
    /// Another request, which can be waited for.
    Wait(Wait),
    /// Too many requests wait, or too many entries are being filled: this request goes to the upstream without caching.
    Full,
}

/// The right to fill a cache entry. When it is dropped, one of the waiting requests takes over.
pub struct Lead {
    store: Arc<Store>,
    digest: Digest,
    flight: Arc<Flight>,
}

/// Waits for the request that fills the entry.
pub struct Wait {
    flight: Arc<Flight>,
    place: Option<usize>,
    since: Moment,
}

impl Flights {
    pub(super) fn turn(
        &self,
        store: &Arc<Store>,
        digest: Digest,
        age_max: Duration,
        now: Moment,
    ) -> Turn {
        let mut flights = lock(&self.0);
        let is_full = flights.len() >= FLIGHTS_MAX;
        let flight = match flights.get(&digest) {
            None if is_full => return Turn::Full,
            None => {
                let state = State::UnderWay {
                    since: now,
                    wakers: Vec::new(),
                };
                let flight = Arc::new(Flight(Mutex::new(state)));
                flights.insert(digest, flight.clone());
                flight
            }
            Some(flight) => {
                let mut state = lock(&flight.0);
                match &mut *state {
                    // The fetch has exceeded `age_max`, so one more request may try.
                    State::UnderWay { since, .. } if now.since(*since) >= age_max => *since = now,
                    State::UnderWay { wakers, .. } if wakers.len() >= WAITERS_MAX => {
                        return Turn::Full;
                    }
                    State::UnderWay { since, .. } => {
                        return Turn::Wait(Wait {
                            flight: flight.clone(),
                            place: None,
                            since: *since,
                        });
                    }
                    State::Landed(_) => {
                        return Turn::Wait(Wait {
                            flight: flight.clone(),
                            place: None,
                            since: now,
                        });
                    }
                }
                drop(state);
                flight.clone()
            }
        };
        Turn::Lead(Lead {
            store: store.clone(),
            digest,
            flight,
        })
    }
}

impl Lead {
    /// Releases the waiting requests: the response is not cacheable.
    pub fn pass(self) {
        self.land(Outcome::Pass);
    }

    fn land(&self, outcome: Outcome) {
        let mut flights = lock(&self.store.flights.0);
        if flights
            .get(&self.digest)
            .is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
        {
            flights.remove(&self.digest);
        }
        drop(flights);
        let mut state = lock(&self.flight.0);
        if let State::UnderWay { wakers, .. } = &mut *state {
            let wakers = std::mem::take(wakers);
            *state = State::Landed(outcome);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.land(Outcome::Look);
    }
}

impl Wait {
    /// When the other request began.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// Ready when the other request has finished.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match (&mut *lock(&self.flight.0), self.place) {
            (State::Landed(outcome), _) => return Poll::Ready(*outcome),
            (State::UnderWay { wakers, .. }, Some(at)) => wakers[at].clone_from(cx.waker()),
            (State::UnderWay { wakers, .. }, None) => {
                self.place = Some(wakers.len());
                wakers.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }
}
