//! HTTP/2 header compression (RFC 7541): converts lists of fields to header blocks and back. `request` and `response`
//! interpret the lists.

mod decode;
mod encode;
mod error;
mod huffman;
pub(crate) mod integer;
mod kind;
mod table;
pub(crate) mod text;

pub use decode::{Decoded, Decoder};
pub use encode::{Encoder, Keep};
pub use error::HpackError;
pub(crate) use kind::is_clean;
pub use kind::{NameKind, Pseudo};
pub(crate) use table::Table;
