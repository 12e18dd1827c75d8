//! Heads and trailers as HEADERS frames (RFC 9114, section 4), and back. What fields mean is in `sections`.

use alloc::vec::Vec;

use sluice_message::{Fields, Method, RequestHead, ResponseHead, Status, Version};

use super::frame::{FrameKind, encode_frame_head};
use super::qpack::{Decoder, Encoder, Outcome, QpackError};
use crate::h1::BodyFraming;
use crate::sections::{
    Asked, End, HeadFault, HeadLimits, RequestFacts, RequestReader, ResponseReader, TrailerReader,
    encode_interim, encode_request, encode_response, encode_trailers,
};

/// What became of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<T> {
    /// It was read.
    Done(T),
    /// It waits for entries of the dynamic table: it is to be read again when [`Decoder::ready`] names its stream.
    Blocked,
    /// The message is malformed or beyond a limit. The connection goes on.
    Faulty(HeadFault),
}

impl<T> Read<T> {
    fn of(outcome: Outcome, finish: impl FnOnce() -> Result<T, HeadFault>) -> Read<T> {
        match outcome {
            Outcome::Blocked => Read::Blocked,
            Outcome::Done => finish().map_or_else(Read::Faulty, Read::Done),
        }
    }
}

/// The decoding end of a connection, with what reading heads needs beside it.
#[derive(Debug)]
pub struct HeadReader {
    /// Header compression.
    pub decoder: Decoder,
    limits: HeadLimits,
    /// Whether this end offered extended CONNECT (RFC 9220).
    extended_connect: bool,
    cookie: Vec<u8>,
}

impl HeadReader {
    /// A reader of heads within `limits`.
    pub fn new(decoder: Decoder, limits: HeadLimits, extended_connect: bool) -> HeadReader {
        HeadReader {
            decoder,
            limits,
            extended_connect,
            cookie: Vec::new(),
        }
    }

    /// Reads the head of a request into `head`, which is cleared before. `end` says whether the stream is known to end
    /// with it.
    ///
    /// # Errors
    /// The connection has to be closed with [`crate::h3::Code::DECOMPRESSION_FAILED`].
    pub fn request(
        &mut self,
        stream: u64,
        section: &[u8],
        end: End,
        head: &mut RequestHead,
    ) -> Result<Read<RequestFacts>, QpackError> {
        let (limits, room) = (&self.limits, self.limits.section_bytes_max);
        let mut reader = RequestReader::new(limits, Version::Http3, room, head, &mut self.cookie);
        let outcome = self
            .decoder
            .decode(stream, section, |field| reader.take(field))?;
        let offered = self.extended_connect;
        Ok(Read::of(outcome, || reader.finish(end, offered)))
    }

    /// Reads the head of a response to `request` into `head`, which is cleared before.
    ///
    /// # Errors
    /// The connection has to be closed with [`crate::h3::Code::DECOMPRESSION_FAILED`].
    pub fn response(
        &mut self,
        stream: u64,
        section: &[u8],
        end: End,
        request: &Method,
        head: &mut ResponseHead,
    ) -> Result<Read<BodyFraming>, QpackError> {
        let mut reader = ResponseReader::new(&self.limits, Version::Http3, head);
        let outcome = self
            .decoder
            .decode(stream, section, |field| reader.take(field))?;
        Ok(Read::of(outcome, || reader.finish(Asked::of(request), end)))
    }

    /// Reads trailers. Fields that must not be trailers are left out (RFC 9110, section 6.5.1).
    ///
    /// # Errors
    /// The connection has to be closed with [`crate::h3::Code::DECOMPRESSION_FAILED`].
    pub fn trailers(&mut self, stream: u64, section: &[u8]) -> Result<Read<Fields>, QpackError> {
        let mut reader = TrailerReader::new(&self.limits);
        let outcome = self
            .decoder
            .decode(stream, section, |field| reader.take(field))?;
        Ok(Read::of(outcome, || reader.finish()))
    }
}

/// The encoding end of a connection, with what writing heads needs beside it.
#[derive(Debug, Default)]
pub struct HeadWriter {
    encoder: Encoder,
    scratch: Vec<u8>,
    section: Vec<u8>,
}

impl HeadWriter {
    /// Appends the HEADERS frame of a request over TLS. The caller has checked that the fields fit
    /// ([`sluice_message::Fields::fit`]).
    pub fn request(&mut self, head: &RequestHead, framing: BodyFraming, out: &mut Vec<u8>) {
        self.section.clear();
        let (encoder, scratch) = (&mut self.encoder, &mut self.scratch);
        encode_request(encoder, head, true, framing, scratch, &mut self.section);
        self.frame(out);
    }

    /// Appends the HEADERS frame of a final response: `framing` says what Content-Length has, `None` keeps a described
    /// one, and Date is added unless the list has one.
    pub fn response(
        &mut self,
        status: Status,
        fields: &Fields,
        framing: BodyFraming,
        date: &[u8; 29],
        out: &mut Vec<u8>,
    ) {
        self.section.clear();
        let (encoder, scratch) = (&mut self.encoder, &mut self.scratch);
        let section = &mut self.section;
        encode_response(encoder, status, fields, framing, date, scratch, section);
        self.frame(out);
    }

    /// Appends the HEADERS frame of an interim response.
    pub fn interim(&mut self, status: Status, fields: &Fields, out: &mut Vec<u8>) {
        self.section.clear();
        let (encoder, scratch) = (&mut self.encoder, &mut self.scratch);
        encode_interim(encoder, status, fields, scratch, &mut self.section);
        self.frame(out);
    }

    /// Appends the HEADERS frame of trailers. Fields that must not be trailers are left out.
    pub fn trailers(&mut self, fields: &Fields, out: &mut Vec<u8>) {
        self.section.clear();
        let (encoder, scratch) = (&mut self.encoder, &mut self.scratch);
        encode_trailers(encoder, fields, scratch, &mut self.section);
        self.frame(out);
    }

    fn frame(&mut self, out: &mut Vec<u8>) {
        encode_frame_head(FrameKind::HEADERS, self.section.len() as u64, out);
        out.extend_from_slice(&self.section);
    }
}
