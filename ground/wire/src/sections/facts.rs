//! What a head says about what follows it.

use super::priority::Priority;
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
