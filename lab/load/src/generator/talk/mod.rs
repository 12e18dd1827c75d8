//! Protocol state of one connection: requests out, responses in. Sockets and clocks are left to the worker, so tests
//! can feed each of these with bytes.

mod events;
mod flights;
pub mod frame;
mod h1;
mod h2;
mod h3;
mod unsent;
mod websocket;

use std::io::IoSlice;

pub use events::Events;
pub use h1::H1;
pub use h2::H2;
pub use h3::H3;
pub use websocket::{Greeting, WebSocket};

use super::clock::Ns;
use super::link::Fault;
use super::request::Prepared;
use super::response::LastHead;
use crate::result::FailureClass;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Index of the prepared request.
    pub request: usize,
    /// When it was wanted.
    pub due: Ns,
    /// When its first byte was passed to the kernel.
    pub sent: Ns,
    /// When the first byte of its response arrived; 0 if none has.
    pub first: Ns,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// When it was wanted.
    pub due: Ns,
    /// When its first byte was passed to the kernel; 0 if it never was.
    pub sent: Ns,
    /// When the first byte of its response arrived; 0 if none did.
    pub first: Ns,
    /// Index of the prepared request; `None` if none was chosen.
    pub request: Option<usize>,
    /// Length of the body of a successful response, or the failure.
    pub outcome: Result<u64, Lost>,
    /// What the connection does.
    pub what: What,
}

/// What has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// A request in flight.
    #[default]
    Flight,
    /// A success that no wait corresponds to: an event that arrived together with the one before. Or a failure without a
    /// request: bytes on an idle connection.
    Beside,
    /// A request that the server returned unprocessed when it announced the end of the connection: it is neither a
    /// success nor a failure, and is sent again (RFC 9113, section 6.8).
    Unprocessed,
    /// The opening of a conversation: an upgrade, or the first event. It does not count as a response.
    Opening,
}

impl Done {
    /// A conversation, on a connection open since `since`, has begun now.
    pub fn opening(since: Ns, now: Ns) -> Self {
        Done {
            due: since,
            sent: since,
            first: now,
            request: None,
            outcome: Ok(0),
            what: What::Opening,
        }
    }

    /// Something of `bytes` bytes arrived without an interval.
    pub fn beside(now: Ns, bytes: u64) -> Self {
        Done {
            due: now,
            sent: now,
            first: now,
            request: None,
            outcome: Ok(bytes),
            what: What::Beside,
        }
    }

    /// Whether it is the opening of a conversation.
    pub fn is_opening(&self) -> bool {
        self.what == What::Opening
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// The kind of failure.
    pub class: FailureClass,
    /// The status, if an unexpected one was received; else 0.
    pub status: u16,
    /// What was observed.
    pub text: String,
}

impl Lost {
    /// A failure without a status.
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

impl From<Lost> for Fault {
    fn from(lost: Lost) -> Self {
        Fault {
            class: lost.class,
            text: lost.text,
        }
    }
}

impl Flight {
    /// The server returned the request unprocessed.
    pub fn unprocessed(&self, lost: Lost) -> Done {
        Done {
            what: What::Unprocessed,
            ..self.end(Err(lost))
        }
    }

    /// Ends the request with this outcome.
    pub fn end(&self, outcome: Result<u64, Lost>) -> Done {
        Done {
            due: self.due,
            sent: self.sent,
            first: self.first,
            request: Some(self.request),
            outcome,
            what: What::Flight,
        }
    }
}

/// Shared state of a thread, used by its connections.
#[derive(Debug)]
pub struct Desk<'a> {
    /// The requests.
    pub requests: &'a [Prepared],
    /// The most recent head.
    pub last: &'a mut LastHead,
    /// Where ended requests go.
    pub done: &'a mut Vec<Done>,
}

/// How the server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Cleanly, as far as the socket knows.
    Closed,
    /// By a reset.
    Reset,
}

impl Ending {
    /// As a message.
    fn words(self) -> &'static str {
        match self {
            Ending::Closed => "the connection ended",
            Ending::Reset => "the connection was reset",
        }
    }

    /// The class of requests without any response byte, on a connection with `answered` responses before.
    fn class(self, responses: u64) -> FailureClass {
        match self {
            _ if responses > 0 => FailureClass::Stale,
            Ending::Closed => FailureClass::Closed,
            Ending::Reset => FailureClass::Reset,
        }
    }
}

/// The server violated its protocol.
fn malformed(text: &str) -> Fault {
    Fault {
        class: FailureClass::Malformed,
        text: text.to_string(),
    }
}

/// Whether a connection can carry more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It can.
    Open,
    /// The server, or the client, announced its end.
    Closes,
}

/// The protocol of one connection.
#[derive(Debug)]
pub enum Talk {
    /// HTTP/1.1.
    H1(H1),
    /// HTTP/2.
    H2(Box<H2>),
    /// HTTP/3. Its datagrams go in and out by methods of its own.
    H3(Box<H3>),
    /// WebSocket.
    WebSocket(Box<WebSocket>),
    /// Server-sent events.
    Events(Box<Events>),
}

impl Talk {
    /// Starts a request. Only while `in_flight` is below the depth of the plan.
    pub fn begin(&mut self, flight: Flight, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.begin(flight),
            Talk::H2(talk) => talk.begin(flight, requests),
            Talk::H3(talk) => talk.begin(flight, requests),
            Talk::WebSocket(talk) => talk.begin(flight),
            Talk::Events(talk) => talk.begin(flight),
        }
    }

    /// Consumes bytes from the server.
    pub fn receive(&mut self, input: &[u8], now: Ns, desk: &mut Desk<'_>) -> Result<Keep, Fault> {
        match self {
            Talk::H1(talk) => talk.receive(input, now, desk),
            Talk::H2(talk) => talk.receive(input, now, desk),
            Talk::H3(talk) => talk.receive(input, now, desk),
            Talk::WebSocket(talk) => talk.receive(input, now, desk),
            Talk::Events(talk) => talk.receive(input, now, desk),
        }
    }

    /// The connection has ended, and with it everything in flight.
    pub fn end(&mut self, ending: Ending, desk: &mut Desk<'_>) {
        match self {
            Talk::H1(talk) => talk.end(ending, desk),
            Talk::H2(talk) => talk.end(ending, desk),
            Talk::H3(talk) => talk.lose(
                &Lost::new(FailureClass::ConnectionLost, ending.words()),
                desk.done,
            ),
            Talk::WebSocket(talk) => talk.end(ending, desk),
            Talk::Events(talk) => talk.end(ending, desk),
        }
    }

    /// Fails everything in flight.
    pub fn lose(&mut self, lost: &Lost, done: &mut Vec<Done>) {
        match self {
            Talk::H1(talk) => talk.lose(lost, done),
            Talk::H2(talk) => talk.lose(lost, done),
            Talk::H3(talk) => talk.lose(lost, done),
            Talk::WebSocket(talk) => talk.lose(lost, done),
            Talk::Events(talk) => talk.lose(lost, done),
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        match self {
            Talk::H1(talk) => talk.in_flight(),
            Talk::H2(talk) => talk.in_flight(),
            Talk::H3(talk) => talk.in_flight(),
            Talk::WebSocket(talk) => talk.in_flight(),
            Talk::Events(talk) => talk.in_flight(),
        }
    }

    /// Fails what was sent at or before `before`. Returns whether the connection is still usable.
    pub fn expire(&mut self, before: Ns, done: &mut Vec<Done>) -> Keep {
        match self {
            Talk::H1(talk) => talk.expire(before, done),
            Talk::H2(talk) => talk.expire(before, done),
            Talk::H3(talk) => talk.expire(before, done),
            Talk::WebSocket(talk) => talk.expire(before, done),
            Talk::Events(talk) => talk.expire(before, done),
        }
    }

    /// The oldest request in flight.
    pub fn oldest(&self) -> Option<Flight> {
        match self {
            Talk::H1(talk) => talk.oldest(),
            Talk::H2(talk) => talk.oldest(),
            Talk::H3(talk) => talk.oldest(),
            Talk::WebSocket(talk) => talk.oldest(),
            Talk::Events(talk) => talk.oldest(),
        }
    }

    /// The next bytes to send, in at most `pieces.len()` buffers. Returns how many there are.
    pub fn pieces<'a>(&'a mut self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        match self {
            Talk::H1(talk) => talk.pieces(requests, pieces),
            Talk::H2(talk) => talk.pieces(pieces),
            // It sends packets, not bytes.
            Talk::H3(_) => 0,
            Talk::WebSocket(talk) => talk.pieces(requests, pieces),
            Talk::Events(talk) => talk.pieces(requests, pieces),
        }
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, bytes: usize, requests: &[Prepared]) {
        match self {
            Talk::H1(talk) => talk.sent(bytes, requests),
            Talk::H2(talk) => talk.sent(bytes, requests),
            Talk::H3(_) => {}
            Talk::WebSocket(talk) => talk.sent(bytes, requests),
            Talk::Events(talk) => talk.sent(bytes),
        }
    }

    /// Whether the server has announced that it accepts no more requests on this connection.
    pub fn is_leaving(&self) -> bool {
        match self {
            Talk::H2(talk) => talk.is_leaving(),
            Talk::H3(talk) => talk.is_leaving(),
            Talk::H1(_) | Talk::WebSocket(_) | Talk::Events(_) => false,
        }
    }

    /// Whether it is a conversation, on a connection that should stay open.
    pub fn is_conversation(&self) -> bool {
        matches!(self, Talk::WebSocket(_) | Talk::Events(_))
    }

    /// The response head that a conversation began with; empty for requests.
    pub fn head(&self) -> &[u8] {
        match self {
            Talk::H1(_) | Talk::H2(_) | Talk::H3(_) => &[],
            Talk::WebSocket(talk) => talk.head(),
            Talk::Events(talk) => talk.head(),
        }
    }

    /// Responses received on this connection.
    pub fn responses(&self) -> u64 {
        match self {
            Talk::H1(talk) => talk.responses(),
            Talk::H2(talk) => talk.responses(),
            Talk::H3(talk) => talk.responses(),
            Talk::WebSocket(talk) => talk.responses(),
            Talk::Events(talk) => talk.responses(),
        }
    }
}

#[cfg(test)]
mod tests;
