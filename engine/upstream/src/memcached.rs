//! What calls to memcached need beyond HTTP: a line before the value, and one after it. `link_call` and
//! `upstream_response` send and receive.

use std::ops::Range;

use sluice_message::{FieldId, Method, ResponseHead, Status, Version};
use sluice_wire::h1::{BodyFraming, KeepAlive, ResponseFraming, ResponseKind};
use sluice_wire::memcached::{Fault, Head, ResponseDecoder};

use crate::failures::garbage;
use sluice_net::failure::Failure;

/// A value being received.
pub(crate) struct Value {
    decoder: ResponseDecoder,
    gzip_flag: u32,
}

impl Value {
    /// The value that `question` requests.
    pub fn new(question: &[u8], gzip_flag: u32) -> Value {
        Value {
            decoder: ResponseDecoder::new(question),
            gzip_flag,
        }
    }

    /// Whether the value and the line after it have been read.
    pub fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Decodes the beginning of the reply once it is in `received`, to a head like that of an HTTP response.
    pub fn decode_head(
        &mut self,
        received: &[u8],
        method: &Method,
        head: &mut ResponseHead,
    ) -> Result<Option<(usize, ResponseFraming)>, Failure> {
        let Some((taken, found)) = self.decoder.decode_head(received).map_err(garbage)? else {
            return Ok(None);
        };
        head.version = Version::Http11;
        head.fields.clear();
        let body = match found {
            Head::Missing => {
                head.status = Status::NOT_FOUND;
                BodyFraming::None
            }
            Head::Found { flags, length } => {
                head.status = Status::OK;
                let digits = length.to_string();
                head.fields.push(FieldId::ContentLength, digits.as_bytes());
                if flags & self.gzip_flag != 0 {
                    head.fields.push(FieldId::ContentEncoding, b"gzip");
                }
                match *method == Method::Head {
                    true => BodyFraming::None,
                    false => BodyFraming::Length(length),
                }
            }
        };
        let framing = ResponseFraming {
            body,
            keep_alive: KeepAlive::Reuse,
            kind: ResponseKind::Final,
        };
        Ok(Some((taken, framing)))
    }

    /// Decodes `received` from `at` on: returns the range of the value, and where to continue.
    pub fn decode(&mut self, received: &[u8], at: usize) -> Result<(Range<usize>, usize), Failure> {
        let (content, taken) = self.decoder.decode(&received[at..]).map_err(garbage)?;
        Ok((at + content.start..at + content.end, at + taken))
    }

    /// Checks for truncation at the end of the connection.
    pub fn finish_at_eof(&self) -> Result<(), Fault> {
        self.decoder.finish_at_eof()
    }
}
