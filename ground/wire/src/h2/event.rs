//! The events that one end of a connection reports to its owner, who acts on them.

use sluice_message::Fields;

use super::error::ErrorCode;
use super::stream::{Side, StreamId};
use crate::sections::{End, HeadFault, RequestFacts};

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

/// The stream cannot be sent on: it was reset, or our side has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGone;
