//! The reverse proxy with its transports, the cache of its responses, and the host of Python applications.

pub mod cache;
pub mod limits;
pub mod python;
pub mod reverse_proxy;
