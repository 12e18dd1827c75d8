//! Test upstreams, which also stand in for a server: the least possible response (the floor), a relay that parses
//! nothing, an HTTP server that is slow, large or faulty on purpose, a FastCGI responder, and servers for WebSocket and
//! server-sent events. Each is a process of its own, so that its CPU time is measured separately.

mod corpus;
pub mod counts;
pub mod fastcgi;
pub mod floor;
pub mod http;
pub mod relay;
pub mod socket;
pub mod streams;

pub use corpus::Corpus;
pub use counts::read_counts;
