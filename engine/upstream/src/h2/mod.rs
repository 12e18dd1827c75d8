//! HTTP/2 connections to upstreams, each shared by many calls. A separate task drives each connection and owns its
//! socket; calls have slots on it where received data waits. Frames are left to `sluice-wire`.

mod begin;
mod drive;
mod mux;

pub use mux::Mux;
