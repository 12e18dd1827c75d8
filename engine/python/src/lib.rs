//! Python applications (WSGI, ASGI, ESGI, RSGI) in worker processes: groups of processes, their supervision, and calls
//! to them (docs/decisions/0023-python-applications.md). Frames and dictionaries are in `sluice-wire`, raw system calls
//! in `sluice-net`; the handler above decides about bodies, retries and statuses.
//!
//! ```text
//! Groups::obtain(Settings) -> Application            one per `python` directive; processes start at once, in parallel
//! Application::wait_ready()                          before a configuration goes live
//! Application::call(worker, Request) -> Call         queues, picks the seat, sends the head
//! Call::poll_response -> Response                    sends the body meanwhile; early hints go to `worker.interims`
//! Call::into_body -> sluice_net::Body                stream with trailers, bytes, or a file
//! Application::websocket(worker, Request) -> WebSocket
//! ```

mod allowance;
mod application;
mod call;
mod failure;
mod group;
mod groups;
mod held;
mod interpreter;
mod lane;
pub mod limits;
mod notice;
mod process;
mod queue;
mod seat;
mod settings;
mod snapshot;
mod supervise;
mod waiting;
mod websocket;

pub use application::{Application, Request};
pub use call::{Call, Response};
pub use failure::{CallFailure, Death, Refusal, Stage, StartFailure, Why};
pub use groups::Groups;
pub use notice::{Fact, Level, Notice, Sink};
pub use settings::{Accelerator, EventLoop, Interface, Lifespan, Resource, Settings};
pub use sluice_wire::python::Facts;
pub use sluice_wire::websocket::MessagePart;
pub use snapshot::{GroupSnapshot, GroupState, ProcessSnapshot, ProcessState};
pub use websocket::{Handshake, Kind, Received, Sent, WebSocket};
