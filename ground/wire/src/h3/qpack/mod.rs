//! Header compression for HTTP/3 (RFC 9204): converts lists of fields to field sections and back.
//!
//! The peer may use a dynamic table when it compresses, of a size and with as many waiting requests as [`super::Limits`]
//! allow. We use the static table alone: its sections never wait for another stream, whatever is lost on the way, and
//! cost no memory.

mod decode;
mod encode;
mod error;
mod fixed;
mod instructions;
#[cfg(test)]
mod tests;

pub use decode::{Decoder, Outcome};
pub use encode::Encoder;
pub use error::QpackError;
pub use instructions::DecoderStreamReader;
