//! The reverse proxy with its transports, and the cache of its responses.

pub mod cache;
pub mod limits;
pub mod reverse_proxy;
