//! HTTP/1.1 on one connection: responses arrive in the order of the requests.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::flights::{late, outcome};
use super::unsent::Unsent;
use super::{Desk, Done, Ending, Flight, Keep, Lost, What, malformed};
use crate::generator::clock::Ns;
use crate::generator::expect::{Judge, Judging};
use crate::generator::link::Fault;
use crate::generator::request::Prepared;
use crate::generator::response::{Fed, Progress, Reader};
use crate::result::FailureClass;

/// Bytes arrived that belong to no request: behind a response, which is then not the expected one, or on an idle
/// connection, which counts as a failure without a request.
fn stray(bytes: usize, now: Ns, done: &mut Vec<Done>) -> Fault {
    let fault = malformed(&format!("{bytes} bytes that belong to no request"));
    let lost = Lost::from(malformed(&format!("{bytes} bytes behind the response")));
    match done.last_mut() {
        Some(last) if last.outcome.is_ok() => last.outcome = Err(lost),
        Some(_) => {}
        None => done.push(Done {
            due: now,
            sent: now,
            first: now,
            request: None,
            outcome: Err(Lost::from(fault.clone())),
            what: What::Beside,
        }),
    }
    fault
}

/// HTTP/1.1 on one connection.
#[derive(Debug, Default)]
pub struct H1 {
    reader: Reader,
    judge: Judge,
    /// Requests without a complete response, oldest first.
    flights: VecDeque<Flight>,
    /// Requests not sent in full.
    unsent: Unsent,
    responses: u64,
}

impl H1 {
    /// Starts a request.
    pub fn begin(&mut self, flight: Flight) {
        self.flights.push_back(flight);
        self.unsent.push(flight.request);
    }

    /// Consumes bytes from the server.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        now: Ns,
        desk: &mut Desk<'_>,
    ) -> Result<Keep, Fault> {
        while !input.is_empty() {
            let Some(flight) = self.flights.front_mut() else {
                return Err(stray(input.len(), now, desk.done));
            };
            let prepared = &desk.requests[flight.request];
            if flight.first == 0 {
                flight.first = now;
                self.judge.begin(&prepared.expect, self.responses);
            }
            let mut judging = Judging {
                judge: &mut self.judge,
                expect: &prepared.expect,
            };
            let bodiless = prepared.bodiless;
            let fed = self
                .reader
                .feed(input, bodiless, desk.last, &mut judging)
                .map_err(|error| malformed(error.0))?;
            let Fed::Complete(used) = fed else {
                return Ok(Keep::Open);
            };
            input = &input[used..];
            self.complete(desk);
            if self.reader.facts().is_some_and(|facts| facts.closes) {
                return Ok(Keep::Closes);
            }
        }
        Ok(Keep::Open)
    }

    /// The response to the oldest request is complete.
    fn complete(&mut self, desk: &mut Desk<'_>) {
        let Some(flight) = self.flights.pop_front() else {
            return;
        };
        self.responses += 1;
        let prepared = &desk.requests[flight.request];
        desk.done.push(flight.end(outcome(&self.judge, prepared)));
    }

    /// The connection has ended.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        let progress = self.reader.progress();
        if progress == Progress::UntilClose && ending == Ending::Closed {
            self.complete(desk);
        }
        let how = ending.words();
        if let Some(flight) = self.flights.front().filter(|flight| flight.first != 0) {
            let (class, place) = match progress {
                Progress::Nothing | Progress::Head => (FailureClass::HeadCut, "head"),
                Progress::Body | Progress::UntilClose => (FailureClass::BodyCut, "body"),
            };
            let lost = Lost::new(class, format!("{how} inside the {place}"));
            desk.done.push(flight.end(Err(lost)));
            self.flights.pop_front();
        }
        let class = ending.class(self.responses);
        let text = format!(
            "{how} before the response, after {} earlier ones",
            self.responses
        );
        self.lose(&Lost::new(class, text), desk.done);
    }

    /// Fails everything in flight.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        for flight in self.flights.drain(..) {
            done.push(flight.end(Err(lost.clone())));
        }
        self.unsent.clear();
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Fails what was sent at or before `before`; the connection cannot be used after that.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        let oldest = self.flights.front();
        if oldest.is_none_or(|flight| flight.sent > before) {
            return Keep::Open;
        }
        let has_head = match self.reader.progress() {
            Progress::Nothing | Progress::Head => false,
            Progress::Body | Progress::UntilClose => true,
        };
        self.lose(&late(has_head), done);
        Keep::Closes
    }

    /// The oldest request in flight.
    pub fn oldest(&self) -> Option<Flight> {
        self.flights.front().copied()
    }

    /// The next bytes to send.
    pub fn pieces<'a>(&self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        self.unsent.pieces(requests, pieces)
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        self.unsent.sent(bytes, requests);
    }

    /// Responses received on this connection.
    pub fn responses(&self) -> u64 {
        self.responses
    }
}
