//! HTTP/3 connections to upstreams, each shared by many calls. A separate task drives each connection and owns its socket;
//! received data waits in QUIC until a call takes it. QUIC is left to quinn-proto, frames to `sluice-wire`.

mod control;
mod dial;
mod drive;
mod failures;
mod mux;
mod packets;
mod stream;

pub use mux::Mux;
