//! FastCGI 1.0, the side of the web server: a request as records, an answer out of records, and the head that CGI
//! puts before the content (RFC 3875, section 6). Connections, timeouts and which variables a request has are left
//! to `sluice-net` and above.
//!
//! As in `h1` there is a decoder for what the peer says, and plain functions encode what we say: a connection
//! carries one request at a time, always with the number 1, so the two directions share no state. Applications that
//! take several at a time on one connection exist (Go's is one), but PHP is not among them, and a slow client would
//! hold up the answers of all others on its connection.

mod answer;
mod head;
mod record;
mod request;

pub use answer::{AnswerDecoder, AnswerFault, Refused, Stderr};
pub use head::{HeadDecoder, HeadError, HeadFault};
pub use request::{
    Params, ParamsRefused, STDIN_BYTES_MAX, STDIN_END, WhenDone, encode_begin, encode_stdin_head,
};
