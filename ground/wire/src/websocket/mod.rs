//! WebSocket (RFC 6455): the opening handshake, and the frames after it as one state machine, without I/O. The caller owns
//! the connection and its timeouts. The only extension is permessage-deflate (RFC 7692).

mod close;
mod deflate;
mod extension;
mod fault;
mod frame;
mod handshake;
mod machine;
mod part;
mod text;

pub use close::{
    ABNORMAL, GOING_AWAY, NO_STATUS, NORMAL, POLICY_VIOLATION, SERVICE_RESTART, TRY_AGAIN_LATER,
    UNEXPECTED_CONDITION, is_sendable,
};
pub use deflate::{Compression, Deflater};
pub use extension::Deflate;
pub use fault::{Fault, INVALID_TEXT, PROTOCOL_ERROR, TOO_LARGE};
pub use frame::Kind;
pub use handshake::{Carrier, Handshake, Refused, is_requested, subprotocols};
pub use machine::{Closed, Event, Limits, Received, WebSocket};
pub use part::MessagePart;
