//! Bytes to messages and back. Sockets, timers and routes are left to the floors above.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fastcgi;
pub mod h1;
pub mod h2;
pub mod limits;
pub mod memcached;
pub mod proxy_protocol;
pub mod scgi;
pub mod uwsgi;
