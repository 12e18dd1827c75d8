//! The client end of a connection, used towards upstreams: sends requests and receives responses. `conn` holds what
//! both ends share.

use alloc::vec::Vec;

use sluice_message::{Fields, Moment, RequestHead, ResponseHead, Unfit, Version};

use super::conn::{Conn, Ending, Step};
use super::error::{Closed, ErrorCode, Reason};
use super::event::StreamGone;
use super::limits::{FRAME_BYTES_MAX, Limits, WINDOW_INITIAL, WINDOW_MAX};
use super::reader::Chunk;
use super::settings::{Role, Settings};
use super::stream::{Inbound, Left, Outbound, Phase, Side, StreamId};
use crate::glitch::cost;
use crate::h1::BodyFraming;
use crate::sections::{Asked, End, HeadFault, ResponseReader, encode_request};

/// The client's end of one connection.
#[derive(Debug)]
pub struct Client {
    conn: Conn,
    /// What was asked on each stream, by slot.
    asked: Vec<Asked>,
    /// The server does not process streams after this one; resets for open ones are still to be reported.
    lost: Option<u32>,
}

/// How far `receive` came; see [`super::Received`].
#[derive(Debug)]
pub struct ClientReceived<'a> {
    /// The bytes of the input that are done with.
    pub consumed: usize,
    /// What happened.
    pub event: Option<ClientEvent<'a>>,
}

/// What a server did.
#[derive(Debug)]
pub enum ClientEvent<'a> {
    /// An interim response, whose head is in the one passed to `receive`: 1xx other than 101, which HTTP/2 does not
    /// have.
    Interim {
        /// Its stream.
        id: StreamId,
    },
    /// A response began; its head is in the one passed to `receive`.
    Head {
        /// Its stream.
        id: StreamId,
        /// Whether there is no content.
        end: End,
        /// How long the content is: `None`, `Length`, or `Chunked` where the end of the stream will tell. The
        /// machine checks that as much comes as was declared.
        body: BodyFraming,
    },
    /// Content of a response, counted against the windows until [`Client::consumed`].
    Data {
        /// Its stream.
        id: StreamId,
        /// The content; empty only if the response ends.
        data: &'a [u8],
        /// Whether that was all.
        end: End,
    },
    /// Trailers, which end the response. Fields that are not allowed in trailers were dropped.
    Trailers {
        /// Its stream.
        id: StreamId,
        /// The fields.
        fields: Fields,
    },
    /// A stream was reset; it is to be released once nothing works on it.
    Reset {
        /// Its stream.
        id: StreamId,
        /// The error code. After REFUSED_STREAM the request was not processed and can be sent again (RFC 9113, section
        /// 8.7); after NO_ERROR the response is valid if it was complete.
        code: ErrorCode,
        /// Which side reset the stream: the server, or sluice because the response was malformed.
        by: Side,
        /// Which rule, if it was one of heads.
        fault: Option<HeadFault>,
    },
    /// More may be sent where [`Client::send_data`] took less than it was given: on that stream, or with `None` maybe
    /// on any.
    Window {
        /// The stream; `None` for the whole connection.
        id: Option<StreamId>,
    },
    /// The server accepts no new streams. Each open stream that it has not processed is reported as a `Reset` with
    /// REFUSED_STREAM, from the next call on, which may be one without input.
    GoAway {
        /// Why.
        code: ErrorCode,
    },
    /// The server's settings came or changed, and with them maybe [`Client::streams_free`].
    Settings,
}

/// Why no stream can be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefused {
    /// As many are open as the server or our own limit allows.
    Full,
    /// The connection takes no new streams any more.
    Closing,
    /// No message can carry one of the headers; no stream was opened.
    Unfit(Unfit),
}

/// Streams we open before the server has said how many it takes. RFC 9113, section 6.5.2 asks servers for at least
/// so many.
const STREAMS_BEFORE_SETTINGS: usize = 100;

impl Client {
    /// An end with the preface, our settings and the connection's window in its output. Of `limits` the streams are
    /// those we open at a time, whatever the server allows.
    pub fn new(limits: &Limits) -> Client {
        let ours = Settings {
            table_bytes_max: u32::from(limits.table_bytes_max),
            streams_max: 0,
            stream_window: limits.stream_window.max(WINDOW_INITIAL),
            frame_bytes_max: FRAME_BYTES_MAX,
            header_list_bytes_max: limits.header_list_bytes_max,
            extended_connect: false,
        };
        Client {
            conn: Conn::new(limits, Role::Client, ours),
            asked: Vec::new(),
            lost: None,
        }
    }

    /// Processes bytes from the server, split in any way. Stops after one event, and when the output is full. `head` is
    /// filled by [`ClientEvent::Interim`] and [`ClientEvent::Head`]; otherwise its content is unspecified.
    ///
    /// After an error nothing can be received or sent any more, and requests without a complete response are lost; the
    /// output ends with GOAWAY.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        head: &mut ResponseHead,
    ) -> Result<ClientReceived<'a>, Closed> {
        if let Some(event) = self.take_lost() {
            return Ok(ClientReceived {
                consumed: 0,
                event: Some(event),
            });
        }
        let mut rest = input;
        let event = loop {
            let Some(step) = self.conn.step(&mut rest)? else {
                break None;
            };
            let event = match step {
                Step::Block { stream, end, block } => {
                    match self.take_block(stream, end, block, head) {
                        Ok(event) => event,
                        Err(reason) => return Err(self.conn.fail(reason)),
                    }
                }
                Step::GoAway { last, code } => {
                    self.lost = Some(self.lost.map_or(last, |lost| lost.min(last)));
                    Some(ClientEvent::GoAway { code })
                }
                step => event_of(step),
            };
            if event.is_some() {
                break event;
            }
        };
        Ok(ClientReceived {
            consumed: input.len() - rest.len(),
            event,
        })
    }

    /// Streams that can be opened now.
    pub fn streams_free(&self) -> usize {
        if self.is_closing() {
            return 0;
        }
        let theirs = if self.conn.settled {
            self.conn.peer.streams_max as usize
        } else {
            STREAMS_BEFORE_SETTINGS
        };
        theirs
            .min(usize::from(self.conn.limits.streams_max))
            .saturating_sub(self.conn.streams.len())
    }

    /// Opens a stream with the head of a request. `:authority` is the list's `Host`, or else the authority part of the
    /// target. Headers of HTTP/1 connections are dropped; `Content-Length` follows from `framing`.
    pub fn open(
        &mut self,
        head: &RequestHead,
        https: bool,
        framing: BodyFraming,
        end: End,
    ) -> Result<StreamId, OpenRefused> {
        debug_assert!(framing != BodyFraming::UntilClose, "requests end");
        head.fields.fit().map_err(OpenRefused::Unfit)?;
        if self.streams_free() == 0 {
            return Err(if self.is_closing() {
                OpenRefused::Closing
            } else {
                OpenRefused::Full
            });
        }
        let number = match self.conn.highest {
            0 => 1,
            highest => highest + 2,
        };
        self.conn.highest = number;
        let outbound = match end {
            End::Later => Outbound::Body,
            End::Here => Outbound::Ended,
        };
        let id = self.conn.open(number, Inbound::AwaitHead, outbound);
        if self.asked.len() <= id.slot() {
            self.asked.resize(id.slot() + 1, Asked::Other);
        }
        self.asked[id.slot()] = Asked::of(&head.method);
        if let Some(stream) = self.conn.streams.at(id)
            && let BodyFraming::Length(length) = framing
        {
            stream.send_left = Left::Bytes(length);
        }
        self.conn.send_block(number, end, |encoder, scratch, out| {
            encode_request(encoder, head, https, framing, scratch, out);
        });
        Ok(id)
    }

    /// Whether the server has begun: its settings are here.
    pub fn has_begun(&self) -> bool {
        self.conn.reader.has_begun()
    }

    /// Whether a head, or a frame other than content, has begun and not ended: what arrives slowly then is for a
    /// time limit of heads to end.
    pub fn is_in_head(&self) -> bool {
        self.conn.reader.is_within()
    }

    /// What waits to be sent; see [`super::Server::output`].
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.conn.out
    }

    /// Whether more than the limit waits to be sent; see [`super::Server::is_output_full`].
    pub fn is_output_full(&self) -> bool {
        self.conn.is_full()
    }

    /// Takes as much of `data` as may be sent; see [`super::Server::send_data`].
    pub fn send_data(&mut self, id: StreamId, data: &[u8], end: End) -> Result<usize, StreamGone> {
        self.conn.send_data(id, data, end)
    }

    /// How many bytes one frame of content may have now; see [`super::Server::capacity`].
    pub fn capacity(&mut self, id: StreamId) -> usize {
        self.conn.capacity(id)
    }

    /// Sends the head of a frame with `len` bytes of content; see [`super::Server::send_data_head`].
    pub fn send_data_head(&mut self, id: StreamId, len: usize, end: End) -> Result<(), StreamGone> {
        self.conn.send_data_head(id, len, end)
    }

    /// Ends the request with trailers. Fields that must not be trailers are left out.
    pub fn send_trailers(&mut self, id: StreamId, fields: &Fields) -> Result<(), StreamGone> {
        self.conn.send_trailers(id, fields)
    }

    /// Content of that many bytes is not held any more; see [`super::Server::consumed`].
    pub fn consumed(&mut self, id: StreamId, bytes: usize) {
        self.conn.consumed(id, bytes);
    }

    /// Resets a stream: nothing more is reported or sent for it. It still has to be released.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        self.conn.reset(id, code);
    }

    /// The owner has let go of the stream: its place is free. Exactly once for each [`Client::open`], also after a
    /// reset. What has not ended is reset (CANCEL).
    pub fn release(&mut self, id: StreamId) {
        self.conn.release(id);
    }

    /// Of the streams that have content to send, the one whose turn it is.
    pub fn next_to_send(&self, ready: impl IntoIterator<Item = StreamId>) -> Option<StreamId> {
        self.conn.next_to_send(ready)
    }

    /// Opens no more streams and says so. Open ones may still end.
    pub fn drain(&mut self) {
        self.conn.drain();
    }

    /// Whether the connection is over: it failed, or one side said goodbye and no stream is open.
    pub fn is_done(&self) -> bool {
        self.conn.is_done()
    }

    /// Streams not yet released.
    pub fn open_streams(&self) -> usize {
        self.conn.streams.len()
    }

    /// Sends a PING to learn whether the server is there.
    pub fn ping(&mut self) {
        self.conn.ping();
    }

    /// PINGs sent by [`Client::ping`] and not yet acknowledged.
    pub fn pings_pending(&self) -> u32 {
        self.conn.pings_open
    }

    /// Refills the budget for frames that do nothing; see [`super::Server::calm`].
    pub fn calm(&mut self, now: Moment) {
        self.conn.calm(now);
    }

    /// What the server has set.
    pub fn server_settings(&self) -> &Settings {
        &self.conn.peer
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.conn.capacity_bytes() + self.asked.capacity() * size_of::<Asked>()
    }

    /// Gives back the memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        self.conn.shrink();
    }

    /// Whether no more streams can be opened: one side has said goodbye, or the numbers are used up.
    pub fn is_closing(&self) -> bool {
        self.conn.over.is_some()
            || self.conn.peer_leaves
            || self.conn.ending != Ending::No
            || self.conn.highest + 2 > WINDOW_MAX
    }

    /// The next of the streams that the server will not look at.
    fn take_lost(&mut self) -> Option<ClientEvent<'static>> {
        let last = self.lost?;
        let mut streams = self.conn.streams.iter_mut();
        let Some((id, stream)) = streams.find(|(id, s)| id.number() > last && s.is_live()) else {
            self.lost = None;
            return None;
        };
        stream.phase = Phase::Gone(Side::Peer);
        self.conn.closed.add_ended(id.number());
        Some(ClientEvent::Reset {
            id,
            code: ErrorCode::REFUSED_STREAM,
            by: Side::Peer,
            fault: None,
        })
    }

    /// A header block: a response, trailers, or a late block that still has to be decoded.
    fn take_block(
        &mut self,
        number: u32,
        end: End,
        block: Chunk<'_>,
        head: &mut ResponseHead,
    ) -> Result<Option<ClientEvent<'static>>, Reason> {
        let Some(id) = self.conn.streams.find(number) else {
            self.conn.decode(block, |_| {})?;
            return self.conn.late(number, cost::LATE).map(|()| None);
        };
        let inbound = self
            .conn
            .streams
            .look(id)
            .and_then(|stream| stream.inbound());
        if inbound != Some(Inbound::AwaitHead) {
            return Ok(self.conn.take_trailers(id, end, block)?.and_then(event_of));
        }
        let limits = self.conn.limits.heads();
        let mut reader = ResponseReader::new(&limits, Version::Http2, head);
        self.conn.decode(block, |field| reader.take(field))?;
        let asked = self.asked.get(id.slot()).copied().unwrap_or(Asked::Other);
        let body = match reader.finish(asked, end) {
            Ok(body) => body,
            Err(fault) => {
                let code = ErrorCode::PROTOCOL_ERROR;
                self.conn.break_off(id, code)?;
                let (by, fault) = (Side::Us, Some(fault));
                return Ok(Some(ClientEvent::Reset {
                    id,
                    code,
                    by,
                    fault,
                }));
            }
        };
        if head.status.is_informational() {
            self.conn.glitch(cost::IGNORED)?;
            return Ok(Some(ClientEvent::Interim { id }));
        }
        if let Some(stream) = self.conn.streams.at(id) {
            stream.set_inbound(match end {
                End::Later => Inbound::AwaitBody,
                End::Here => Inbound::Ended,
            });
            stream.receive_left = match body {
                BodyFraming::Length(length) => Left::Bytes(length),
                BodyFraming::None => Left::Bytes(0),
                BodyFraming::Chunked | BodyFraming::UntilClose => Left::Unknown,
            };
        }
        Ok(Some(ClientEvent::Head { id, end, body }))
    }
}

/// The event that reports a step to the owner, if the step needs no further processing.
fn event_of(step: Step<'_>) -> Option<ClientEvent<'_>> {
    match step {
        Step::Data { id, data, end } => Some(ClientEvent::Data { id, data, end }),
        Step::Trailers { id, fields } => Some(ClientEvent::Trailers { id, fields }),
        Step::Reset { id, code, by } => Some(ClientEvent::Reset {
            id,
            code,
            by,
            fault: None,
        }),
        Step::Window { id } => Some(ClientEvent::Window { id }),
        Step::Settings => Some(ClientEvent::Settings),
        Step::Block { .. } | Step::GoAway { .. } => None,
    }
}
