//! HTTP/2 on real sockets: serving, attacks, and the programs that people use. One file for each; they share `peer`.

mod attacks;
pub mod peer;
mod programs;
mod serving;
mod tunnels;
