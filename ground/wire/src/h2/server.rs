//! The server end of a connection: receives requests and sends responses. `conn` holds what both ends share.

use alloc::vec::Vec;

use sluice_message::{Fields, Moment, RequestHead, Status, Version};

use super::closed::Past;
use super::conn::{Conn, Step};
use super::error::{Closed, ErrorCode, Reason};
use super::event::{Event, Received, StreamGone};
use super::limits::{FRAME_BYTES_MAX, Limits, WINDOW_INITIAL};
use super::reader::Chunk;
use super::settings::{Role, Settings};
use super::stream::{Inbound, Left, Outbound, StreamId};
use crate::glitch::cost;
use crate::h1::BodyFraming;
use crate::sections::{End, Priority, RequestReader, encode_interim, encode_response};

/// The server's end of one connection.
#[derive(Debug)]
pub struct Server {
    conn: Conn,
}

impl Server {
    /// An end that waits for the preface. Our settings and the connection's window are in its output.
    /// `websockets` offers extended CONNECT (RFC 8441).
    pub fn new(limits: &Limits, websockets: bool) -> Server {
        let ours = Settings {
            table_bytes_max: u32::from(limits.table_bytes_max),
            streams_max: u32::from(limits.streams_max),
            stream_window: limits.stream_window.max(WINDOW_INITIAL),
            frame_bytes_max: FRAME_BYTES_MAX,
            header_list_bytes_max: limits.header_list_bytes_max,
            extended_connect: websockets,
        };
        Server {
            conn: Conn::new(limits, Role::Server, ours),
        }
    }

    /// Takes bytes from the client, the preface first, cut as they come. Stops after one event or header block, and where
    /// the output is full. `head` is filled by [`Event::Head`], empty after [`Event::Refused`] and else of no meaning.
    ///
    /// After an error nothing can be received or sent any more; the output, which ends with GOAWAY, is to be sent
    /// before the socket is closed.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        head: &mut RequestHead,
    ) -> Result<Received<'a>, Closed> {
        let mut rest = input;
        let event = loop {
            let Some(step) = self.conn.step(&mut rest)? else {
                break None;
            };
            let event = match step {
                Step::Block { stream, end, block } => {
                    match self.take_block(stream, end, block, head) {
                        Ok(event) => break event,
                        Err(reason) => return Err(self.conn.fail(reason)),
                    }
                }
                step => event_of(step),
            };
            if event.is_some() {
                break event;
            }
        };
        Ok(Received {
            consumed: input.len() - rest.len(),
            event,
        })
    }

    /// Whether the client has begun: its preface and its first frame, which is SETTINGS unless the limits allow others, are here.
    pub fn has_begun(&self) -> bool {
        self.conn.reader.has_begun()
    }

    /// Whether a head, or a frame other than content, has begun and not ended: what arrives slowly then is for a
    /// time limit of heads to end.
    pub fn is_in_head(&self) -> bool {
        self.conn.reader.is_within()
    }

    /// What waits to be sent. The owner writes it and removes what it wrote from the front. It may put the content
    /// of a frame behind [`Server::send_data_head`] here itself.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.conn.out
    }

    /// Whether the pending output has reached its limit: then `receive` consumes nothing and `capacity` is 0, which
    /// otherwise means that the window is exhausted. Heads and trailers are accepted regardless; callers that check
    /// before sending them keep the output bounded.
    pub fn is_output_full(&self) -> bool {
        self.conn.is_full()
    }

    /// Sends the head of a final response. As in HTTP/1, `Content-Length` of the list is replaced according to
    /// `framing` (`None`, for responses that never have a body, keeps a declared one), and `Date` is added unless the
    /// list has one. Content whose length differs from `framing` resets the stream.
    pub fn send_head(
        &mut self,
        id: StreamId,
        status: Status,
        fields: &Fields,
        framing: BodyFraming,
        date: &[u8; 29],
        end: End,
    ) -> Result<(), StreamGone> {
        debug_assert!(!status.is_informational(), "a final response");
        let stream = self.conn.streams.at(id).ok_or(StreamGone)?;
        if stream.outbound() != Some(Outbound::AwaitHead) {
            return Err(StreamGone);
        }
        stream.set_outbound(match end {
            End::Later => Outbound::Body,
            End::Here => Outbound::Ended,
        });
        if let BodyFraming::Length(length) = framing {
            stream.send_left = Left::Bytes(length);
        }
        self.conn
            .send_block(id.number(), end, |encoder, scratch, out| {
                encode_response(encoder, status, fields, framing, date, scratch, out);
            });
        Ok(())
    }

    /// Sends an interim response: 1xx other than 101, before the head.
    pub fn send_interim(
        &mut self,
        id: StreamId,
        status: Status,
        fields: &Fields,
    ) -> Result<(), StreamGone> {
        debug_assert!(status.is_informational() && status != Status::SWITCHING_PROTOCOLS);
        let stream = self.conn.streams.at(id).ok_or(StreamGone)?;
        if stream.outbound() != Some(Outbound::AwaitHead) {
            return Err(StreamGone);
        }
        let number = id.number();
        self.conn
            .send_block(number, End::Later, |encoder, scratch, out| {
                encode_interim(encoder, status, fields, scratch, out);
            });
        Ok(())
    }

    /// Queues as much of `data` as windows and output allow and returns how much. The caller passes the rest again
    /// after an [`Event::Window`] or once the output was sent. `End::Here` takes effect once all of `data` is accepted.
    pub fn send_data(&mut self, id: StreamId, data: &[u8], end: End) -> Result<usize, StreamGone> {
        self.conn.send_data(id, data, end)
    }

    /// How many bytes one frame of content may have now; 0 where `send_data` would take none. Asking says that the
    /// stream waits: with 0 for want of window an [`Event::Window`] will come.
    pub fn capacity(&mut self, id: StreamId) -> usize {
        self.conn.capacity(id)
    }

    /// Sends the head of a frame with `len` bytes of content, at most [`Server::capacity`]. The caller puts the
    /// content right behind what is then in the output, before anything else is sent or received.
    pub fn send_data_head(&mut self, id: StreamId, len: usize, end: End) -> Result<(), StreamGone> {
        self.conn.send_data_head(id, len, end)
    }

    /// Ends the response with trailers. Fields that are not allowed in trailers are dropped.
    pub fn send_trailers(&mut self, id: StreamId, fields: &Fields) -> Result<(), StreamGone> {
        self.conn.send_trailers(id, fields)
    }

    /// Content of that many bytes is not held any more: its window is given back. For a released stream this
    /// happened by itself.
    pub fn consumed(&mut self, id: StreamId, bytes: usize) {
        self.conn.consumed(id, bytes);
    }

    /// What the client may still send on all streams together before content is consumed.
    pub fn window_left(&self) -> u32 {
        self.conn.receive_window.open()
    }

    /// Resets a stream: nothing more is reported or sent for it. It still has to be released.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        self.conn.reset(id, code);
    }

    /// Frees the slot of a stream that the owner no longer uses. To be called exactly once for each `Head` and
    /// `Refused`, also after a reset. An incomplete response is reset (INTERNAL_ERROR, or PROTOCOL_ERROR for a
    /// malformed request), and so is a request that is incomplete after its response (NO_ERROR).
    pub fn release(&mut self, id: StreamId) {
        self.conn.release(id);
    }

    /// Whether the client has sent a priority for any stream. Until then streams are served in turn, and there is no
    /// need to call [`Server::next_to_send`].
    pub fn has_priorities(&self) -> bool {
        self.conn.has_priorities
    }

    /// Of the streams that have something to send, the one whose turn it is (RFC 9218, section 10). It looks at each
    /// of them once.
    pub fn next_to_send(&self, ready: impl IntoIterator<Item = StreamId>) -> Option<StreamId> {
        self.conn.next_to_send(ready)
    }

    /// Starts a graceful shutdown: the client must not open further streams; those it opens before it learns of that
    /// are served. The caller sets a deadline and then calls [`Server::go_away`], since the client may never
    /// acknowledge.
    pub fn drain(&mut self) {
        self.conn.drain();
    }

    /// Ends the connection (GOAWAY): streams after the last known one are not served. Open ones may still complete.
    pub fn go_away(&mut self, code: ErrorCode) {
        self.conn.go_away(code);
    }

    /// Whether the connection is over: it failed, or one side said goodbye and no stream is open. All that is left
    /// is to send the output.
    pub fn is_done(&self) -> bool {
        self.conn.is_done()
    }

    /// Streams not yet released, and those released ones of which the rest of a request is still to come.
    pub fn open_streams(&self) -> usize {
        self.conn.streams.len()
    }

    /// Sends a PING to learn whether the client is there. [`Server::pings_pending`] tells.
    pub fn ping(&mut self) {
        self.conn.ping();
    }

    /// PINGs sent by [`Server::ping`] and not yet acknowledged.
    pub fn pings_pending(&self) -> u32 {
        self.conn.pings_open
    }

    /// Refills the budget for frames that do nothing by the time since the last call. To be called now and then,
    /// as with each read from the socket.
    pub fn calm(&mut self, now: Moment) {
        self.conn.calm(now);
    }

    /// Total size of all header blocks so far: bytes of names and values, and 32 for each field. It measures work that
    /// the input length does not show, for callers that divide time among connections.
    pub fn decoded_bytes(&self) -> u64 {
        self.conn.decoded_bytes
    }

    /// Points of that budget that are used, for metrics and for shedding load.
    pub fn glitch_points(&self) -> u32 {
        self.conn.budget.used()
    }

    /// What the client has set.
    pub fn client_settings(&self) -> &Settings {
        &self.conn.peer
    }

    /// Memory held, in bytes, for the accounting of idle connections.
    pub fn capacity_bytes(&self) -> usize {
        self.conn.capacity_bytes()
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        self.conn.shrink();
    }

    /// A header block: a request, trailers, or something late that still has to be decoded.
    fn take_block(
        &mut self,
        number: u32,
        end: End,
        block: Chunk<'_>,
        head: &mut RequestHead,
    ) -> Result<Option<Event<'static>>, Reason> {
        // RFC 9113, section 5.1.1: streams of clients have odd numbers.
        if number.is_multiple_of(2) {
            return Err(Reason::StreamNumber);
        }
        if let Some(id) = self.conn.streams.find(number) {
            return Ok(self.conn.take_trailers(id, end, block)?.and_then(event_of));
        }
        if self.conn.is_after_goodbye(number) {
            self.conn.highest = self.conn.highest.max(number);
            self.conn.decode(block, |_| {})?;
            return self.conn.glitch(cost::LATE).map(|()| None);
        }
        if number <= self.conn.highest {
            self.conn.decode(block, |_| {})?;
            return match self.conn.closed.look(number) {
                Past::Reset => self.conn.glitch(cost::LATE).map(|()| None),
                Past::Ended => Err(Reason::StreamClosed),
                Past::Unknown => Err(Reason::StreamNumber),
            };
        }
        self.conn.highest = number;
        if self.conn.streams.len() >= usize::from(self.conn.limits.streams_max) {
            self.conn.decode(block, |_| {})?;
            return self.turn_away(number);
        }
        self.take_request(number, end, block, head)
    }

    /// Refuses a request that the client may send again (RFC 9113, section 8.7).
    fn turn_away(&mut self, number: u32) -> Result<Option<Event<'static>>, Reason> {
        self.conn.refuse(number, ErrorCode::REFUSED_STREAM);
        self.conn.glitch(cost::REFUSED).map(|()| None)
    }

    fn take_request(
        &mut self,
        number: u32,
        end: End,
        block: Chunk<'_>,
        head: &mut RequestHead,
    ) -> Result<Option<Event<'static>>, Reason> {
        let mut cookie = core::mem::take(&mut self.conn.scratch);
        let limits = self.conn.limits.heads();
        let room = self
            .conn
            .limits
            .open_heads_bytes_max
            .saturating_sub(self.conn.open_heads);
        let mut reader = RequestReader::new(&limits, Version::Http2, room, head, &mut cookie);
        let decoded = self.conn.decode(block, |field| reader.take(field));
        let bytes = reader.bytes();
        let facts = reader.finish(end, self.conn.ours.extended_connect);
        self.conn.scratch = cookie;
        decoded?;
        if bytes > room {
            head.clear();
            return self.turn_away(number);
        }
        let inbound = match end {
            End::Later => Inbound::AwaitBody,
            End::Here => Inbound::Ended,
        };
        let id = self.conn.open(number, inbound, Outbound::AwaitHead);
        let ahead = self.take_ahead(number);
        let Some(stream) = self.conn.streams.at(id) else {
            return Ok(None);
        };
        let event = match facts {
            Ok(mut facts) => {
                // RFC 9218, section 7.1: what a frame says counts for more than the field.
                facts.priority = ahead.unwrap_or(facts.priority);
                stream.priority = facts.priority;
                self.conn.has_priorities |= facts.priority != Priority::default();
                stream.head_bytes = bytes;
                self.conn.open_heads += bytes;
                if let BodyFraming::Length(length) = facts.body {
                    stream.receive_left = Left::Bytes(length);
                }
                Event::Head { id, end, facts }
            }
            Err(fault) => {
                if fault.status().is_none() {
                    stream.reset_code = ErrorCode::PROTOCOL_ERROR;
                }
                self.conn.glitch(cost::REFUSED)?;
                Event::Refused { id, fault, end }
            }
        };
        Ok(Some(event))
    }

    /// The priority that came before its stream. Those of streams that were left out are forgotten with it.
    fn take_ahead(&mut self, number: u32) -> Option<Priority> {
        if self.conn.ahead.is_empty() {
            return None;
        }
        let found = self
            .conn
            .ahead
            .iter()
            .find(|(ahead, _)| *ahead == number)
            .map(|(_, priority)| *priority);
        self.conn.ahead.retain(|(ahead, _)| *ahead > number);
        found
    }
}

/// The event that reports a step to the owner, if the step needs no further processing.
fn event_of(step: Step<'_>) -> Option<Event<'_>> {
    match step {
        Step::Data { id, data, end } => Some(Event::Data { id, data, end }),
        Step::Trailers { id, fields } => Some(Event::Trailers { id, fields }),
        Step::Reset { id, code, by } => Some(Event::Reset { id, code, by }),
        Step::Window { id } => Some(Event::Window { id }),
        Step::GoAway { code, .. } => Some(Event::GoAway { code }),
        Step::Block { .. } | Step::Settings => None,
    }
}
