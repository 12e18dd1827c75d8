//! Field sections of HTTP/2 and HTTP/3 (RFC 9113, section 8; RFC 9114, section 4): what decoded fields mean as a head or as
//! trailers, and heads as fields. Compression and frames are in `h2` and `h3`, which refuse the same heads thereby.

mod encoder;
mod facts;
mod fields;
mod limits;
mod priority;
mod request;
mod response;

pub use facts::{Connect, End, RequestFacts};
pub use fields::HeadFault;
pub(crate) use fields::TrailerReader;
pub use limits::HeadLimits;
pub use priority::Priority;
pub(crate) use priority::URGENCIES;
pub(crate) use request::{RequestReader, encode_request};
pub(crate) use response::{
    Asked, ResponseReader, encode_interim, encode_response, encode_trailers,
};
