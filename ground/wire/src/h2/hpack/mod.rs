//! Header compression of HTTP/2 (RFC 7541): lists of fields to blocks and back. What a list means is left to
//! `request` and `response`.

mod decode;
mod encode;
mod huffman;
mod integer;
mod kind;
mod table;

pub use decode::{Decoded, Decoder, HpackError};
pub use encode::{Encoder, Keep};
pub use kind::{NameKind, Pseudo};
