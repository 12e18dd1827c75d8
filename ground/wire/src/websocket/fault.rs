//! What peers do wrong, and the close code for each.

use core::fmt;

/// A peer broke the protocol (RFC 6455, section 7.4.1).
pub const PROTOCOL_ERROR: u16 = 1002;
/// A text message is not UTF-8, or a compressed one not DEFLATE.
pub const INVALID_TEXT: u16 = 1007;
/// A message is larger than the receiver takes.
pub const TOO_LARGE: u16 = 1009;

/// What a peer did that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A reserved bit is set without an extension that defines it.
    ReservedBits,
    /// This opcode is not defined.
    Opcode(u8),
    /// A control frame is in fragments.
    FragmentedControl,
    /// A control frame has more than 125 bytes.
    LongControl,
    /// A frame of a client is not masked.
    Unmasked,
    /// A frame of a server is masked.
    Masked,
    /// A length is not in its shortest form or above 2^63.
    Length,
    /// A continuation without a message to continue.
    Continuation,
    /// A new message begins before the last one has ended.
    Interleaved,
    /// A Close frame with a payload of one byte.
    CloseLength,
    /// A Close frame with a code that must not be sent.
    CloseCode(u16),
    /// A text message or the reason of a Close frame is not UTF-8.
    Text,
    /// A compressed message is not DEFLATE.
    Deflate,
    /// A message is larger than [`super::Limits::message_bytes_max`].
    TooLarge,
}

impl Fault {
    /// The code of the Close frame that the peer gets.
    pub fn code(self) -> u16 {
        match self {
            Fault::Text | Fault::Deflate => INVALID_TEXT,
            Fault::TooLarge => TOO_LARGE,
            Fault::ReservedBits
            | Fault::Opcode(_)
            | Fault::FragmentedControl
            | Fault::LongControl
            | Fault::Unmasked
            | Fault::Masked
            | Fault::Length
            | Fault::Continuation
            | Fault::Interleaved
            | Fault::CloseLength
            | Fault::CloseCode(_) => PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::ReservedBits => f.write_str("reserved bit without an extension"),
            Fault::Opcode(opcode) => write!(f, "unknown opcode {opcode}"),
            Fault::FragmentedControl => f.write_str("control frame in fragments"),
            Fault::LongControl => f.write_str("control frame of more than 125 bytes"),
            Fault::Unmasked => f.write_str("unmasked frame from a client"),
            Fault::Masked => f.write_str("masked frame from a server"),
            Fault::Length => f.write_str("invalid frame length"),
            Fault::Continuation => f.write_str("continuation without a message"),
            Fault::Interleaved => f.write_str("message begins within another"),
            Fault::CloseLength => f.write_str("close frame of one byte"),
            Fault::CloseCode(code) => write!(f, "invalid close code {code}"),
            Fault::Text => f.write_str("text is not UTF-8"),
            Fault::Deflate => f.write_str("compressed message is not DEFLATE"),
            Fault::TooLarge => f.write_str("message too large"),
        }
    }
}

impl core::error::Error for Fault {}
