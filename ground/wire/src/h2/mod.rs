//! HTTP/2 (RFC 9113) with its header compression (RFC 7541): both ends of a connection as state machines. Sockets,
//! timeouts and what to answer are left to `sluice-net` and above.
//!
//! An end takes bytes by `receive` and tells one event at a time; what it has to say, answers to pings and windows
//! given back as well as heads and content, gathers in its `output`. It never asks a clock and never waits: whatever
//! a peer sends, the memory behind it is bounded by [`Limits`], and work that brings no request forward is paid out
//! of a budget (see [`Limits::glitch_points_max`]) at whose end the connection ends.
//!
//! As in `h1` a message is refused where two readers could see two different ones. What passes is a head that `h1`
//! can write without changing what it means.

mod client;
mod closed;
mod conn;
mod error;
mod event;
mod fields;
mod flow;
mod frame;
mod glitch;
pub mod hpack;
mod limits;
mod priority;
mod reader;
mod request;
mod response;
mod server;
mod settings;
mod stream;
mod take;

pub use client::{Client, ClientEvent, ClientReceived, OpenRefused};
pub use error::{Closed, ErrorCode, Reason};
pub use event::{Connect, End, Event, Received, RequestFacts, Side, StreamGone};
pub use fields::HeadFault;
pub use frame::{FRAME_HEAD_LEN, FrameHead, FrameKind};
pub use limits::Limits;
pub use priority::Priority;
pub use server::Server;
pub use settings::Settings;
pub use stream::StreamId;

/// What a client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
