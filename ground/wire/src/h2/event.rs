//! The events that one end of a connection reports to its owner, who acts on them.

use sluice_message::Fields;

use super::error::ErrorCode;
use super::fields::HeadFault;
use super::priority::Priority;
use super::stream::{Side, StreamId};
use crate::h1::{BodyFraming, Expectation};

/// Whether a message ends with what was just told or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More content or trailers follow.
    Later,
    /// Nothing follows.
    Here,
}

impl End {
    /// `End::Here` if `ends`.
    pub const fn here_if(ends: bool) -> End {
        if ends { End::Here } else { End::Later }
    }

    /// Whether nothing follows.
    pub const fn is_here(self) -> bool {
        matches!(self, End::Here)
    }
}

/// How far `receive` came.
#[derive(Debug)]
pub struct Received<'a> {
    /// The bytes of the input that are done with. All of them unless there is an event or was a header block, after which
    /// the rest is to be given again, or the output is full, which has to be sent before.
    pub consumed: usize,
    /// What happened.
    pub event: Option<Event<'a>>,
}

/// What a client did.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request began; its head is in the one given to `receive`. The stream counts as open until
    /// [`super::Server::release`].
    Head {
        /// Its stream.
        id: StreamId,
        /// Whether the request has no content.
        end: End,
        /// What the head says about what follows.
        facts: RequestFacts,
    },
    /// Content of a request. The memory it needs counts against the windows until [`super::Server::consumed`].
    Data {
        /// Its stream.
        id: StreamId,
        /// The content; empty only if the request ends.
        data: &'a [u8],
        /// Whether that was all.
        end: End,
    },
    /// Trailers, which end the request. Fields that must not be trailers were left out.
    Trailers {
        /// Its stream.
        id: StreamId,
        /// The fields.
        fields: Fields,
    },
    /// A stream was reset. Nothing can be sent on it; it is to be released once the work on it has stopped.
    Reset {
        /// Its stream.
        id: StreamId,
        /// Why.
        code: ErrorCode,
        /// Whether the client did it or we had to, because its content broke a rule.
        by: Side,
    },
    /// More may be sent where [`super::Server::send_data`] took less than it was given: on that stream, or with
    /// `None` maybe on any.
    Window {
        /// The stream; `None` for the whole connection.
        id: Option<StreamId>,
    },
    /// A request that cannot be served; its head is empty. If [`HeadFault::status`] is a status, the owner can send a
    /// response with it. Then, or else at once, the owner has to release the stream, which resets it if no response was
    /// sent.
    Refused {
        /// Its stream.
        id: StreamId,
        /// What is wrong with it.
        fault: HeadFault,
        /// Whether the request has no content.
        end: End,
    },
    /// The client opens no more streams, or accepts no responses beyond those in progress.
    GoAway {
        /// Why.
        code: ErrorCode,
    },
}

/// What the head of a request says about what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// How long the content is: `None`, `Length`, or `Chunked` where the end of the stream will tell.
    /// The machine checks that as much comes as was declared.
    pub body: BodyFraming,
    /// Whether the client waits for a 100 before it sends the content.
    pub expectation: Expectation,
    /// Whether this is a CONNECT, and to what.
    pub connect: Connect,
    /// The priority the client gave it (RFC 9218).
    pub priority: Priority,
}

/// Kinds of CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Another method.
    No,
    /// A tunnel to the host and port of `:authority` (RFC 9113, section 8.5).
    Authority,
    /// A WebSocket to `:authority` and path (RFC 8441): accepted with 200 instead of HTTP/1.1's 101.
    WebSocket,
}

/// The stream cannot be sent on: it was reset, or our side has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;
