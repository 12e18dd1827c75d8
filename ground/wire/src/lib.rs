//! Wire formats: converts bytes to messages and back, without I/O. Sockets, timers and routing are in the layers above.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cgi;
pub mod fastcgi;
pub mod glitch;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod limits;
pub mod memcached;
pub mod proxy_protocol;
pub mod python;
pub mod resp;
pub mod scgi;
pub mod sections;
pub mod uwsgi;
pub mod websocket;
