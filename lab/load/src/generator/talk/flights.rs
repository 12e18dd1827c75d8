//! What the protocols have in common about requests in flight: those that wait for a stream, how a late one fails, and how a
//! response is judged at its end.

use std::collections::VecDeque;

use super::{Done, Flight, Lost};
use crate::generator::clock::Ns;
use crate::generator::expect::Judge;
use crate::generator::request::Prepared;
use crate::result::FailureClass;

/// What the server says with GOAWAY.
const GOAWAY: &str = "the server accepts no more requests (GOAWAY)";

/// Requests that wait for a stream, while the server does not accept more.
#[derive(Debug, Default)]
pub struct Waiting(VecDeque<Flight>);

impl Waiting {
    /// Lets a request wait.
    pub fn push(&mut self, flight: Flight) {
        self.0.push_back(flight);
    }

    /// The request that has waited longest, as sent now.
    pub fn pop(&mut self, now: Ns) -> Option<Flight> {
        let flight = self.0.pop_front()?;
        Some(Flight {
            sent: now,
            ..flight
        })
    }

    /// All requests, which wait no longer.
    pub fn drain(&mut self) -> impl Iterator<Item = Flight> {
        self.0.drain(..)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails what was due at or before `before`: the server never saw that. Returns how many there were.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> usize {
        let count = self.0.len();
        let text = "the server allowed no further stream in time";
        let lost = Lost::new(FailureClass::Dropped, text);
        self.0.retain(|flight| {
            let late = flight.due <= before;
            if late {
                done.push(flight.end(Err(lost.clone())));
            }
            !late
        });
        count - self.0.len()
    }

    /// The oldest request, here or among those on streams.
    pub fn oldest(&self, open: impl Iterator<Item = Flight>) -> Option<Flight> {
        let flights = open.chain(self.0.iter().copied());
        flights.min_by_key(|flight| flight.due)
    }
}

/// How a request fails whose response is late, and has a head or not.
pub fn late(has_head: bool) -> Lost {
    match has_head {
        false => Lost::new(FailureClass::HeadTimeout, "no complete head in time"),
        true => Lost::new(FailureClass::BodyTimeout, "no complete body in time"),
    }
}

/// How a request fails that the server does not take any more.
pub fn by_goaway() -> Lost {
    Lost::new(FailureClass::GoAway, GOAWAY)
}

/// The bytes of the body of a response that has ended, or what is wrong with it.
pub fn outcome(judge: &Judge, request: &Prepared) -> Result<u64, Lost> {
    match judge.end(&request.expect, request.bodiless) {
        Ok(()) => Ok(judge.body_bytes()),
        Err(wrong) => Err(Lost {
            class: wrong.class,
            status: wrong.status,
            text: wrong.seen,
        }),
    }
}
