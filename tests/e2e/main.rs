//! End-to-end tests of the real binary: it is started as people start it and spoken to over raw sockets. One file for
//! each topic; what they share is in `harness` and `client`.

mod client;
mod harness;

mod admin;
mod command_line;
mod containment;
mod logs;
mod process;
mod reload;
mod welcome;
