//! HTTP/3 on real sockets. `peer` is a client that can also break the rules.

mod attacks;
mod lifecycle;
pub mod peer;
mod serving;
