//! The protocol between sluice and the worker processes of Python applications: frames, dictionaries that describe
//! requests, and header blocks (docs/decisions/0023-python-applications.md). Processes and sockets are in
//! `sluice-python`.

mod base64;
mod control;
mod environ;
mod event;
mod facts;
mod frame;
mod header_block;
mod json;
mod lane;
mod marshal;
mod names;
mod reader;
mod sample;
mod scope;
mod stream;
mod table;
mod tls;
mod value;

pub use control::{ControlReader, Payload, encode_control};
pub use environ::write_environ;
pub use event::{ErrorStage, Event, MessageKind};
pub use facts::Facts;
pub use frame::{End, Fault, Header, Kind};
pub use header_block::{BlockFault, HopByHop, decode_block};
pub use json::Json;
pub use lane::{Lane, Received};
pub use marshal::Marshal;
pub use reader::{Piece, Reader, Side};
pub use sample::encode_sample;
pub use scope::{ScopeKind, write_scope};
pub use stream::{Form, StreamId};
pub use value::Values;
