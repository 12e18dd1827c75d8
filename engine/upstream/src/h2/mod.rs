//! HTTP/2 connections to upstreams, each shared by many calls. A separate task drives each connection and owns its
//! socket; calls have slots on it where received data waits. Frames are left to `sluice-wire`.

mod body;
mod call;
mod drive;
mod mux;
mod obtain;
mod reserved_stream;
mod shared_pool;
mod upload;

pub use call::StreamCall;
pub(crate) use obtain::{obtain, take};
pub use reserved_stream::Seat;

/// The HTTP/2 connections to one upstream.
pub(crate) type Shelf = shared_pool::Shelf<mux::Mux>;
