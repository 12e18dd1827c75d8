//! HTTP/2 on real sockets: serving, attacks, and common programs. One file for each; they share `peer`.

mod attacks;
mod ending;
mod grpc;
pub mod peer;
mod priorities;
mod programs;
pub mod serving;
mod siege;
pub mod tunnels;
mod upstreams;
