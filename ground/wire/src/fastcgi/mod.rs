//! FastCGI 1.0, the web server's side: encodes a request as records, and decodes the records of a response and the CGI
//! head at the start of its content (RFC 3875, section 6). `sluice-net` and the layers above handle connections and
//! timeouts, and choose the variables of a request.
//!
//! As in `h1`, there is a decoder for what the peer sends, and plain functions encode what the server sends. A
//! connection carries one request at a time, always with the ID 1, so the two directions share no state. Some
//! applications accept several concurrent requests on one connection (Go's does), but PHP does not, and a slow client
//! would hold up the responses to all others on its connection.

mod head;
mod record;
mod request;
mod response;

pub use head::{HeadDecoder, HeadError, HeadFault};
pub use request::{
    Params, ParamsRefused, STDIN_BYTES_MAX, STDIN_END, WhenDone, encode_begin, encode_name,
    encode_param, encode_stdin_head,
};
pub use response::{Refused, ResponseDecoder, ResponseFault, Stderr};
