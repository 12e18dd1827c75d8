//! WebSocket (RFC 6455): the opening handshake, and the frames after it as one state machine, without I/O. The caller owns
//! the connection and its timeouts. No extension is negotiated, so reserved bits are refused.

mod close;
mod fault;
mod frame;
mod handshake;
mod machine;
mod text;

pub use close::{
    ABNORMAL, GOING_AWAY, NO_STATUS, NORMAL, POLICY_VIOLATION, SERVICE_RESTART,
    UNEXPECTED_CONDITION, is_sendable,
};
pub use fault::{Fault, INVALID_TEXT, PROTOCOL_ERROR, TOO_LARGE};
pub use frame::Kind;
pub use handshake::{Carrier, Handshake, Refused, is_requested, subprotocols};
pub use machine::{Closed, Event, Limits, Received, WebSocket};
