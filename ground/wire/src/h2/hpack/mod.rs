//! HTTP/2 header compression (RFC 7541): converts lists of fields to header blocks and back. `request` and `response`
//! interpret the lists.

mod decode;
mod encode;
mod huffman;
mod integer;
mod kind;
mod table;

pub use decode::{Decoded, Decoder, HpackError};
pub use encode::{Encoder, Keep};
pub use kind::{NameKind, Pseudo};
