//! HTTP/2 (RFC 9113) with header compression (RFC 7541): both ends of a connection as state machines. `sluice-net` and
//! the layers above handle sockets and timeouts, and decide how to respond.
//!
//! An end takes bytes by `receive` and returns one event at a time. What it has to send gathers in its `output`:
//! acknowledgements and window updates as well as heads and content. It never reads a clock and never waits. Whatever a
//! peer sends, the memory used for it is bounded by [`Limits`], and work that does not advance any request is charged
//! to a budget (see [`Limits::glitch_points_max`]); the connection is closed when the budget is used up.
//!
//! As in `h1`, a message is rejected if two parsers could read it differently. Every accepted head can be written by
//! `h1` without a change of meaning.

mod client;
mod closed;
mod conn;
mod error;
mod event;
mod flow;
mod frame;
pub mod hpack;
mod limits;
mod reader;
mod server;
mod settings;
mod stream;
mod take;

pub use crate::sections::{Connect, End, HeadFault, Priority, RequestFacts};
pub use client::{Client, ClientEvent, ClientReceived, OpenRefused};
pub use error::{Closed, ErrorCode, Reason};
pub use event::{Event, Received, StreamGone};
pub use frame::{FRAME_HEAD_LEN, FrameHead, FrameKind};
pub use limits::{FirstFrame, Limits};
pub use server::Server;
pub use settings::Settings;
pub use stream::{Side, StreamId};

/// What a client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
