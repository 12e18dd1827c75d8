//! What is said on one connection: requests out, answers in. Sockets and clocks are left to the worker, so each of these
//! is a value that tests feed with bytes.

mod h1;
mod h2;

use std::io::IoSlice;

pub use h1::H1;
pub use h2::H2;

use super::answer::LastHead;
use super::clock::Ns;
use super::link::Fault;
use super::request::Prepared;
use crate::result::FailureClass;

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Which of the prepared ones.
    pub request: usize,
    /// When it was wanted.
    pub due: Ns,
    /// When its first byte was handed to the kernel.
    pub sent: Ns,
    /// When the first byte of its answer came; 0 if none has.
    pub first: Ns,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// When it was wanted.
    pub due: Ns,
    /// When its first byte was handed to the kernel; 0 if it never was.
    pub sent: Ns,
    /// When the first byte of its answer came; 0 if none did.
    pub first: Ns,
    /// Bytes of the body of a right answer, or what went wrong.
    pub outcome: Result<u64, Lost>,
}

/// A request that got no right answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// In which way.
    pub class: FailureClass,
    /// The status, if a wrong one came; else 0.
    pub status: u16,
    /// What was seen.
    pub text: String,
}

impl Lost {
    /// A loss without a status.
    pub fn new(class: FailureClass, text: impl Into<String>) -> Self {
        Lost {
            class,
            status: 0,
            text: text.into(),
        }
    }
}

impl From<Fault> for Lost {
    fn from(fault: Fault) -> Self {
        Lost::new(fault.class, fault.text)
    }
}

impl Flight {
    /// It ended with this outcome.
    pub fn end(&self, outcome: Result<u64, Lost>) -> Done {
        Done {
            due: self.due,
            sent: self.sent,
            first: self.first,
            outcome,
        }
    }
}

/// What a connection shares with its thread.
#[derive(Debug)]
pub struct Desk<'a> {
    /// The requests.
    pub requests: &'a [Prepared],
    /// The head that came last.
    pub last: &'a mut LastHead,
    /// Where ended requests go.
    pub done: &'a mut Vec<Done>,
}

/// How the server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, as far as the socket knows.
    Closed,
    /// By a reset.
    Reset,
}

/// Whether a connection can take more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It can.
    Open,
    /// The server, or we, said that it ends.
    Closes,
}

/// What is said on one connection.
#[derive(Debug)]
pub enum Talk {
    /// HTTP/1.1.
    H1(H1),
    /// HTTP/2.
    H2(Box<H2>),
}

impl Talk {
    /// Begins a request. Only while `in_flight` is below the depth of the plan.
    pub fn begin(&mut self, flight: Flight, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.begin(flight),
            Talk::H2(talk) => talk.begin(flight, requests),
        }
    }

    /// Takes bytes from the server.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        match self {
            Talk::H1(talk) => talk.receive(input, now, desk),
            Talk::H2(talk) => talk.receive(input, now, desk),
        }
    }

    /// The connection has ended: what was under way has, too.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        match self {
            Talk::H1(talk) => talk.end(ending, desk),
            Talk::H2(talk) => talk.end(ending, desk),
        }
    }

    /// Everything under way is lost in one way.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        match self {
            Talk::H1(talk) => talk.lose(lost, done),
            Talk::H2(talk) => talk.lose(lost, done),
        }
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        match self {
            Talk::H1(talk) => talk.in_flight(),
            Talk::H2(talk) => talk.in_flight(),
        }
    }

    /// Ends what was due before or at `before`. Gives whether the connection is still good.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        match self {
            Talk::H1(talk) => talk.expire(before, done),
            Talk::H2(talk) => talk.expire(before, done),
        }
    }

    /// The oldest request under way.
    pub fn oldest(&self) -> Option<Flight> {
        match self {
            Talk::H1(talk) => talk.oldest(),
            Talk::H2(talk) => talk.oldest(),
        }
    }

    /// What is to be sent next, in at most `pieces.len()` pieces. Gives how many there are.
    pub fn pieces<'a>(&'a mut self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        match self {
            Talk::H1(talk) => talk.pieces(requests, pieces),
            Talk::H2(talk) => talk.pieces(pieces),
        }
    }

    /// So many bytes of it were taken.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.sent(bytes, requests),
            Talk::H2(talk) => talk.sent(bytes, requests),
        }
    }

    /// Requests answered on this connection.
    pub fn answered(&self) -> u64 {
        match self {
            Talk::H1(talk) => talk.answered(),
            Talk::H2(talk) => talk.answered(),
        }
    }
}

#[cfg(test)]
mod tests;
