//! Workers, listeners, client connections, TLS sessions and timers; `sys` has every raw system call. Implementations of
//! [`Service`] produce the responses; `sluice-wire` parses and encodes the protocols; `sluice-upstream` has the
//! connections to upstreams.

mod accepting;
pub mod admission;
mod bind_error;
mod binding;
pub mod body;
mod body_hold;
pub mod body_piece;
pub mod buffers;
pub mod clock;
mod conditions;
mod connection;
mod connection_slots;
pub mod datagrams;
pub mod failure;
pub mod gate;
pub mod handover;
mod handshakes;
mod inherited_sockets;
pub mod interims;
pub mod limits;
pub mod listener;
pub mod listener_wrapper;
pub mod load;
pub mod memory;
pub mod multiplexed;
#[cfg(test)]
#[path = "../../../tests/support/ports.rs"]
mod ports;
pub mod probes;
pub mod queue;
pub mod retirement;
pub mod room;
pub mod service;
pub mod signal;
pub mod sockets;
pub mod spool;
pub mod stream;
pub mod sys;
pub mod tasks;
pub mod tcp_socket;
pub mod timeout;
pub mod timer;
pub mod tls;
pub mod tunnel;
pub mod unix_socket;
pub mod upstream_pool;
pub mod worker;
pub mod workers;

pub use bind_error::BindError;
pub use body::{Body, BodyStream, FileSlice, RequestBody, read_whole};
pub use conditions::{Conditions, Scheduling};
pub use connection_slots::{ConnectionSlot, NoFreeSlot, Shortage, SlotLimit};
pub use datagrams::{DatagramProblem, DatagramTrouble, Datagrams};
pub use failure::{Failure, FailureKind, Retry, Side};
pub use listener::ListenAddr;
pub use probes::Probes;
pub use service::{
    AddressValidation, Came, ClientLimits, Completion, Congestion, EarlyData, Ending, Exchange,
    Http3, Linger, Lingering, Protocols, Refused, Response, Segmentation, Service, Settings, Slow,
    StatusLine,
};
pub use sockets::SocketSettings;
pub use stream::Stream;
pub use timer::Timer;
pub use unix_socket::UnixSocket;
pub use worker::{ConnectionLimit, Count, Counters, SecondFile, Worker};
pub use workers::{Listen, Outlive, Workers};
