//! What is said on one connection: requests out, answers in. Sockets and clocks are left to the worker, so each of these
//! is a value that tests feed with bytes.

mod events;
pub mod frame;
mod h1;
mod h2;
mod unsent;
mod websocket;

use std::io::IoSlice;

pub use events::Events;
pub use h1::H1;
pub use h2::H2;
pub use websocket::{Greeting, WebSocket};

use super::clock::Ns;
use super::link::Fault;
use super::request::Prepared;
use super::response::LastHead;
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
    /// What it was.
    pub what: What,
}

/// What has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// A request that was under way.
    #[default]
    Flight,
    /// Something right that nobody had asked for by itself: an event that came together with the one before.
    Beside,
    /// The opening of a conversation: an upgrade, or the first event. It is no answer.
    Opening,
}

impl Done {
    /// A conversation on a connection that is open since then has begun now.
    pub fn opening(since: Ns, now: Ns) -> Self {
        Done {
            due: since,
            sent: since,
            first: now,
            outcome: Ok(0),
            what: What::Opening,
        }
    }

    /// Something of so many bytes came without a gap.
    pub fn beside(now: Ns, bytes: u64) -> Self {
        Done {
            due: now,
            sent: now,
            first: now,
            outcome: Ok(bytes),
            what: What::Beside,
        }
    }

    /// Whether it is no answer.
    pub fn is_opening(&self) -> bool {
        self.what == What::Opening
    }
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
            what: What::Flight,
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

impl Ending {
    /// In words.
    fn words(self) -> &'static str {
        match self {
            Ending::Closed => "the connection ended",
            Ending::Reset => "the connection was reset",
        }
    }

    /// What became of requests that nothing had come for, on a connection with so many answers before.
    fn class(self, answered: u64) -> FailureClass {
        match self {
            _ if answered > 0 => FailureClass::Stale,
            Ending::Closed => FailureClass::Closed,
            Ending::Reset => FailureClass::Reset,
        }
    }
}

/// The server broke the rules of its protocol.
fn malformed(text: &str) -> Fault {
    Fault {
        class: FailureClass::Malformed,
        text: text.to_string(),
    }
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
    /// WebSocket.
    WebSocket(Box<WebSocket>),
    /// Server-sent events.
    Events(Box<Events>),
}

impl Talk {
    /// Begins a request. Only while `in_flight` is below the depth of the plan.
    pub fn begin(&mut self, flight: Flight, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.begin(flight),
            Talk::H2(talk) => talk.begin(flight, requests),
            Talk::WebSocket(talk) => talk.begin(flight),
            Talk::Events(talk) => talk.begin(flight),
        }
    }

    /// Takes bytes from the server.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        match self {
            Talk::H1(talk) => talk.receive(input, now, desk),
            Talk::H2(talk) => talk.receive(input, now, desk),
            Talk::WebSocket(talk) => talk.receive(input, now, desk),
            Talk::Events(talk) => talk.receive(input, now, desk),
        }
    }

    /// The connection has ended: what was under way has, too.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        match self {
            Talk::H1(talk) => talk.end(ending, desk),
            Talk::H2(talk) => talk.end(ending, desk),
            Talk::WebSocket(talk) => talk.end(ending, desk),
            Talk::Events(talk) => talk.end(ending, desk),
        }
    }

    /// Everything under way is lost in one way.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        match self {
            Talk::H1(talk) => talk.lose(lost, done),
            Talk::H2(talk) => talk.lose(lost, done),
            Talk::WebSocket(talk) => talk.lose(lost, done),
            Talk::Events(talk) => talk.lose(lost, done),
        }
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        match self {
            Talk::H1(talk) => talk.in_flight(),
            Talk::H2(talk) => talk.in_flight(),
            Talk::WebSocket(talk) => talk.in_flight(),
            Talk::Events(talk) => talk.in_flight(),
        }
    }

    /// Ends what was due before or at `before`. Gives whether the connection is still good.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        match self {
            Talk::H1(talk) => talk.expire(before, done),
            Talk::H2(talk) => talk.expire(before, done),
            Talk::WebSocket(talk) => talk.expire(before, done),
            Talk::Events(talk) => talk.expire(before, done),
        }
    }

    /// The oldest request under way.
    pub fn oldest(&self) -> Option<Flight> {
        match self {
            Talk::H1(talk) => talk.oldest(),
            Talk::H2(talk) => talk.oldest(),
            Talk::WebSocket(talk) => talk.oldest(),
            Talk::Events(talk) => talk.oldest(),
        }
    }

    /// What is to be sent next, in at most `pieces.len()` pieces. Gives how many there are.
    pub fn pieces<'a>(&'a mut self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        match self {
            Talk::H1(talk) => talk.pieces(requests, pieces),
            Talk::H2(talk) => talk.pieces(pieces),
            Talk::WebSocket(talk) => talk.pieces(requests, pieces),
            Talk::Events(talk) => talk.pieces(requests, pieces),
        }
    }

    /// So many bytes of it were taken.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.sent(bytes, requests),
            Talk::H2(talk) => talk.sent(bytes, requests),
            Talk::WebSocket(talk) => talk.sent(bytes, requests),
            Talk::Events(talk) => talk.sent(bytes),
        }
    }

    /// Whether it is a conversation, on a connection that is to stay open.
    pub fn is_conversation(&self) -> bool {
        matches!(self, Talk::WebSocket(_) | Talk::Events(_))
    }

    /// The head that a conversation began with; empty for requests.
    pub fn head(&self) -> &[u8] {
        match self {
            Talk::H1(_) | Talk::H2(_) => &[],
            Talk::WebSocket(talk) => talk.head(),
            Talk::Events(talk) => talk.head(),
        }
    }

    /// Requests answered on this connection.
    pub fn answered(&self) -> u64 {
        match self {
            Talk::H1(talk) => talk.answered(),
            Talk::H2(talk) => talk.answered(),
            Talk::WebSocket(talk) => talk.answered(),
            Talk::Events(talk) => talk.answered(),
        }
    }
}

#[cfg(test)]
mod tests;
