//! HTTP/1.1 and 1.0 (RFC 9112): decoding and encoding of heads and bodies. `sluice-net` and the layers above handle
//! connections and timeouts, and decide how to respond.
//!
//! The usual shape of protocols in this project, `receive` and `next_event`, is not used here, because in HTTP/1 the
//! two directions of a connection share no state: a decoder parses what the peer sends, the encoders are plain
//! functions, and the owner of the connection asks for a head, then for its body, then for the next head.
//!
//! One rule decides what is rejected: if two parsers could read the same bytes as two different messages, the message
//! is rejected, even where RFC 9112 allows a server to repair it.

pub(crate) mod authority;
mod body;
mod encode;
pub(crate) mod field_line;
mod framing;
mod head;
mod request;
mod response;
pub(crate) mod scan;
mod target;

pub use crate::limits::{Leniency, Limits, LineEnds, OddNames, TargetBytes, UndeclaredContent};
pub(crate) use body::may_trail;
pub use body::{BodyDecoder, BodyError, BodyStep, MergedStep};
pub(crate) use encode::push_target;
pub use encode::{
    CHUNK_END, ConnectionHeader, LAST_CHUNK, ReasonPhrases, encode_chunk_head, encode_interim,
    encode_last_chunk_with_trailers, encode_request_head, encode_response_head, encode_with_target,
};
pub use field_line::FieldFault;
pub(crate) use framing::parse_length;
pub use framing::{BodyFraming, FramingFault, KeepAlive};
pub use request::{
    Expectation, RequestDecoder, RequestError, RequestFault, RequestFraming, UpgradeWish,
};
pub use response::{ResponseDecoder, ResponseError, ResponseFault, ResponseFraming, ResponseKind};

/// How far a decoder came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// More bytes are needed.
    Incomplete,
    /// A head was read.
    Complete {
        /// The bytes of the input it took.
        consumed: usize,
        /// What it says about what follows.
        value: T,
    },
}
