//! The server's end of a connection. What the client's end shares with it is in `conn`.

use alloc::vec::Vec;

use sluice_message::{Fields, Moment, RequestHead, Status};

use super::error::{Closed, ErrorCode};
use super::event::{End, Received, StreamGone};
use super::limits::Limits;
use super::stream::StreamId;
use crate::h1::BodyFraming;

/// The server's end of one connection.
pub struct Server {}

#[allow(unused_variables)]
impl Server {
    /// An end that waits for the preface. Our settings and the connection's window are in its output.
    /// `websockets` offers extended CONNECT (RFC 8441).
    pub fn new(limits: &Limits, websockets: bool) -> Server {
        unimplemented!()
    }

    /// Takes bytes from the client, the preface first, cut as they come. Stops after one event, and where the output
    /// is full. `head` is filled by [`super::Event::Head`] and left alone otherwise.
    ///
    /// After an error nothing can be received or sent any more; the output, which ends with GOAWAY, is to be sent
    /// before the socket is closed.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        head: &mut RequestHead,
    ) -> Result<Received<'a>, Closed> {
        unimplemented!()
    }

    /// What waits to be sent. The owner writes it and removes what it wrote from the front. It may put the content
    /// of a frame behind [`Server::send_data_head`] here itself.
    pub fn output(&mut self) -> &mut Vec<u8> {
        unimplemented!()
    }

    /// Whether more than the limit waits to be sent: then `receive` takes nothing and `capacity` is 0.
    pub fn is_output_full(&self) -> bool {
        unimplemented!()
    }

    /// Sends the head of the answer, not 1xx. As in HTTP/1 Content-Length of the list is replaced by what `framing`
    /// says (`None`, for answers without content by rule, keeps a described one), Date is added unless the list has one.
    pub fn send_head(
        &mut self,
        id: StreamId,
        status: Status,
        fields: &Fields,
        framing: BodyFraming,
        date: &[u8; 29],
        end: End,
    ) -> Result<(), StreamGone> {
        unimplemented!()
    }

    /// Sends an interim answer: 1xx other than 101, before the head.
    pub fn send_interim(
        &mut self,
        id: StreamId,
        status: Status,
        fields: &Fields,
    ) -> Result<(), StreamGone> {
        unimplemented!()
    }

    /// Takes as much of `data` as windows and output allow and tells how much. The rest is to be given again, when
    /// there was a [`super::Event::Window`] or the output was sent. `End::Here` counts once all of `data` is taken.
    pub fn send_data(&mut self, id: StreamId, data: &[u8], end: End) -> Result<usize, StreamGone> {
        unimplemented!()
    }

    /// How many bytes one frame of content may have now; 0 where `send_data` would take none. Asking says that the
    /// stream waits: with 0 for want of window an [`super::Event::Window`] will come.
    pub fn capacity(&mut self, id: StreamId) -> usize {
        unimplemented!()
    }

    /// Sends the head of a frame with `len` bytes of content, at most [`Server::capacity`]. The caller puts the
    /// content right behind what is then in the output, before anything else is sent.
    pub fn send_data_head(&mut self, id: StreamId, len: usize, end: End) -> Result<(), StreamGone> {
        unimplemented!()
    }

    /// Ends the answer with trailers. Fields that must not be trailers are left out.
    pub fn send_trailers(&mut self, id: StreamId, fields: &Fields) -> Result<(), StreamGone> {
        unimplemented!()
    }

    /// Content of that many bytes is not held any more: its window is given back. For a released stream this
    /// happened by itself.
    pub fn consumed(&mut self, id: StreamId, bytes: usize) {
        unimplemented!()
    }

    /// Resets a stream: nothing more of it is told or sent. It still has to be released.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        unimplemented!()
    }

    /// The owner has let go of the stream: its place is free. Exactly once for each `Head` and `Refused`, also after
    /// a reset. An answer that has not ended is reset (INTERNAL_ERROR), a request that has not ended is not
    /// wanted any more (NO_ERROR).
    pub fn release(&mut self, id: StreamId) {
        unimplemented!()
    }

    /// Of the streams that have content to send, the one whose turn it is.
    pub fn next_to_send(&self, ready: impl IntoIterator<Item = StreamId>) -> Option<StreamId> {
        unimplemented!()
    }

    /// Ends the connection gracefully: the client is told to open no more streams, those it has opened until it
    /// heard that are served. Done when [`Server::is_done`].
    pub fn drain(&mut self) {
        unimplemented!()
    }

    /// Tells the client the end: streams after the last one known are not served. Open ones may still end.
    pub fn go_away(&mut self, code: ErrorCode) {
        unimplemented!()
    }

    /// Whether the connection was drained, or the client said goodbye, and nothing is left to do but to send the
    /// output.
    pub fn is_done(&self) -> bool {
        unimplemented!()
    }

    /// Streams not yet released.
    pub fn open_streams(&self) -> usize {
        unimplemented!()
    }

    /// Sends a PING to learn whether the client is there; `receive` eats the answer, [`Server::pings_unanswered`] tells.
    pub fn ping(&mut self) {
        unimplemented!()
    }

    /// Refills the budget for frames that do nothing by the time since the last call. To be called now and then,
    /// as with each read from the socket.
    pub fn calm(&mut self, now: Moment) {
        unimplemented!()
    }

    /// Points of that budget that are used, for metrics and for shedding load.
    pub fn glitch_points(&self) -> u32 {
        unimplemented!()
    }

    /// Memory held, in bytes, for the accounting of idle connections.
    pub fn capacity_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        unimplemented!()
    }
}
