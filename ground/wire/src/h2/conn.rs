//! What both ends of a connection share: streams, windows and outgoing frames. `take` processes arriving frames;
//! `server` and `client` process heads.

use alloc::vec::Vec;

use sluice_message::{Fields, Moment};

use super::closed::ClosedStreams;
use super::error::{Closed, ErrorCode, Reason};
use super::event::StreamGone;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{
    FRAME_HEAD_LEN, FrameHead, FrameKind, encode_goaway, encode_ping, encode_word, flags,
};
use super::hpack::{Decoded, Decoder, Encoder};
use super::limits::{FRAME_BYTES_MAX, Limits, WINDOW_INITIAL, WINDOW_MAX};
use super::reader::{Chunk, Reader};
use super::settings::{Role, Settings};
use super::stream::{Inbound, Left, Outbound, Phase, Side, Stream, StreamId, Streams};
use crate::glitch::{Budget, Mood};
use crate::sections::{End, Priority, URGENCIES, encode_trailers};

/// One end of a connection, whichever.
#[derive(Debug)]
pub(super) struct Conn {
    pub us: Role,
    pub limits: Limits,
    pub reader: Reader,
    pub out: Vec<u8>,
    pub encoder: Encoder,
    pub decoder: Decoder,
    /// For values that have to change and cookies that have to be joined.
    pub scratch: Vec<u8>,
    pub ours: Settings,
    pub peer: Settings,
    /// SETTINGS frames of ours that the peer has not acknowledged.
    pub settings_open: u32,
    /// Whether the peer's settings have come.
    pub settled: bool,
    pub send_window: SendWindow,
    pub receive_window: ReceiveWindow,
    pub streams: Streams,
    pub closed: ClosedStreams,
    /// The highest number of a stream that was opened.
    pub highest: u32,
    /// Streams of which only the rest of the request is awaited, to be thrown away.
    pub tails: usize,
    /// What all header blocks came to so far.
    pub decoded_bytes: u64,
    /// What the decoded heads of all streams take together.
    pub open_heads: u32,
    pub budget: Budget,
    /// Whether a stream waits for the connection's window.
    pub waits: bool,
    pub ending: Ending,
    /// Whether the peer has said goodbye.
    pub peer_leaves: bool,
    pub pings_open: u32,
    /// Priorities of streams that are not open yet.
    pub ahead: Vec<(u32, Priority)>,
    /// Whether the peer has said of any stream how soon it is wanted.
    pub has_priorities: bool,
    turn: u32,
    group_turns: [u32; URGENCIES],
    pub over: Option<Closed>,
}

/// How far our goodbye is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing was said.
    No,
    /// The first GOAWAY was sent; streams that the peer opens until it acknowledges the PING are served.
    Announced,
    /// The peer knows the last stream.
    Final { last: u32 },
}

/// What happened on a connection, for `server` and `client`.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Block {
        stream: u32,
        end: End,
        block: Chunk<'a>,
    },
    Data {
        id: StreamId,
        data: &'a [u8],
        end: End,
    },
    Trailers {
        id: StreamId,
        fields: Fields,
    },
    Reset {
        id: StreamId,
        code: ErrorCode,
        by: Side,
    },
    Window {
        id: Option<StreamId>,
    },
    GoAway {
        last: u32,
        code: ErrorCode,
    },
    Settings,
}

/// The content of the PING that tells when the peer knows of our goodbye.
pub(super) const GOODBYE: [u8; 8] = *b"slc-bye!";

impl Conn {
    pub fn new(limits: &Limits, us: Role, ours: Settings) -> Conn {
        let peer = match us {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        let mut decoder = Decoder::new(4096);
        decoder.limit_table(limits.table_bytes_max.max(4096));
        let mut conn = Conn {
            us,
            limits: limits.clone(),
            reader: Reader::new(limits, peer),
            out: Vec::new(),
            encoder: Encoder::new(limits.table_bytes_max),
            decoder,
            scratch: Vec::new(),
            ours,
            peer: Settings::default(),
            settings_open: 1,
            settled: false,
            send_window: SendWindow::new(WINDOW_INITIAL),
            receive_window: ReceiveWindow::new(WINDOW_INITIAL, limits.connection_window),
            streams: Streams::default(),
            closed: ClosedStreams::default(),
            highest: 0,
            tails: 0,
            decoded_bytes: 0,
            open_heads: 0,
            budget: Budget::new(limits.glitch_points_max),
            waits: false,
            ending: Ending::No,
            peer_leaves: false,
            pings_open: 0,
            ahead: Vec::new(),
            has_priorities: false,
            turn: 0,
            group_turns: [0; URGENCIES],
            over: None,
        };
        if us == Role::Client {
            conn.out.extend_from_slice(super::PREFACE);
        }
        ours.encode(us, &mut conn.out);
        if let Some(increment) = conn.receive_window.open_up() {
            encode_word(FrameKind::WINDOW_UPDATE, 0, increment, &mut conn.out);
        }
        conn
    }

    /// Takes input until something happens that the owner has to know of; `None` when it is used up or the output
    /// is full.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Step<'a>>, Closed> {
        if let Some(over) = self.over {
            return Err(over);
        }
        while !self.is_full() {
            let step = match self.reader.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.take(frame),
                Err(reason) => Err(reason),
            };
            match step {
                Ok(None) => {}
                Ok(step) => return Ok(step),
                Err(reason) => return Err(self.fail(reason)),
            }
        }
        Ok(None)
    }

    /// Ends the connection.
    pub fn fail(&mut self, reason: Reason) -> Closed {
        let closed = Closed::from(reason);
        encode_goaway(self.highest_peer(), closed.code.0, &mut self.out);
        self.over = Some(closed);
        closed
    }

    /// The last stream of the peer that we looked at.
    fn highest_peer(&self) -> u32 {
        match (self.us, self.ending) {
            (Role::Client, _) => 0,
            (Role::Server, Ending::Final { last }) => last,
            (Role::Server, _) => self.highest,
        }
    }

    /// Whether no frame of content has room any more.
    pub fn is_full(&self) -> bool {
        self.out.len() + FRAME_HEAD_LEN >= self.limits.output_bytes_max
    }

    /// Charges the peer for a frame that brings nothing forward.
    pub fn glitch(&mut self, points: u32) -> Result<(), Reason> {
        match self.budget.charge(points) {
            Mood::Calm => Ok(()),
            Mood::Annoyed => {
                self.drain();
                Ok(())
            }
            Mood::Exhausted => Err(Reason::Glitches),
        }
    }

    /// Decodes a block for `each` to read. Whatever its stream, it has to be decoded, or the tables differ.
    pub fn decode(
        &mut self,
        block: Chunk<'_>,
        mut each: impl FnMut(Decoded<'_>),
    ) -> Result<(), Reason> {
        let mut bytes = 0;
        let decoded = self.decoder.decode(block.bytes(), |field| {
            bytes += field.name.len() + field.value.len() + 32;
            each(field);
        });
        self.decoded_bytes += bytes as u64;
        self.reader.give_back(block);
        decoded.map_err(|_| Reason::Compression)
    }

    /// Adds a stream that either side opened.
    pub fn open(&mut self, number: u32, inbound: Inbound, outbound: Outbound) -> StreamId {
        self.budget.expect_updates();
        let reset_code = match self.us {
            Role::Client => ErrorCode::CANCEL,
            Role::Server => ErrorCode::INTERNAL_ERROR,
        };
        let window = self.ours.stream_window;
        let stream = Stream {
            phase: Phase::Live { inbound, outbound },
            send_window: SendWindow::new(self.peer.stream_window),
            receive_window: ReceiveWindow::new(window, window),
            unread: 0,
            receive_left: Left::Unknown,
            send_left: Left::Unknown,
            reset_code,
            priority: Priority::default(),
            turn: self.turn,
            head_bytes: 0,
            waits: false,
        };
        self.streams.insert(number, stream)
    }

    /// Resets a stream, if it is not reset already.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        let Some(stream) = self.streams.at(id) else {
            return;
        };
        if stream.is_live() {
            stream.phase = Phase::Gone(Side::Us);
            self.refuse(id.number(), code);
        }
    }

    /// Resets a stream that has no place.
    pub fn refuse(&mut self, number: u32, code: ErrorCode) {
        encode_word(FrameKind::RST_STREAM, number, code.0, &mut self.out);
        self.closed.add_reset(number);
    }

    /// The owner has let go of a stream.
    pub fn release(&mut self, id: StreamId) {
        let us = self.us;
        let Some(stream) = self.streams.at(id) else {
            return;
        };
        self.open_heads -= core::mem::take(&mut stream.head_bytes);
        let unread = core::mem::take(&mut stream.unread);
        if stream.phase == Phase::Tail {
            return;
        }
        if us == Role::Server && stream.has_short_rest() {
            stream.phase = Phase::Tail;
            self.tails += 1;
            return self.give_back(unread);
        }
        self.give_back(unread);
        let Some(stream) = self.streams.remove(id) else {
            return;
        };
        let Phase::Live { inbound, outbound } = stream.phase else {
            return;
        };
        match (inbound, outbound) {
            (Inbound::Ended, Outbound::Ended) => {
                self.closed.add_ended(id.number());
                self.budget.refund();
            }
            // RFC 9113, section 8.1: the response is complete, so the rest of the request is not needed.
            (_, Outbound::Ended) if self.us == Role::Server => {
                self.refuse(id.number(), ErrorCode::NO_ERROR);
            }
            _ => self.refuse(id.number(), stream.reset_code),
        }
    }

    /// The rest of a request that received its response early has arrived.
    pub fn end_tail(&mut self, id: StreamId) {
        if self.streams.remove(id).is_some() {
            self.tails -= 1;
            self.closed.add_ended(id.number());
            self.budget.refund();
        }
    }

    /// Content of a stream is not held any more.
    pub fn consumed(&mut self, id: StreamId, bytes: usize) {
        let target_max = self.limits.stream_window_max;
        let Some(stream) = self.streams.at(id) else {
            return;
        };
        let bytes = stream.unread.min(u32::try_from(bytes).unwrap_or(u32::MAX));
        stream.unread -= bytes;
        if let Phase::Live { inbound, .. } = stream.phase
            && inbound != Inbound::Ended
            && let Some(increment) = stream.receive_window.consume_and_grow(bytes, target_max)
        {
            encode_word(
                FrameKind::WINDOW_UPDATE,
                id.number(),
                increment,
                &mut self.out,
            );
        }
        self.give_back(bytes);
    }

    /// Gives the connection's window back.
    pub fn give_back(&mut self, bytes: u32) {
        if bytes > 0
            && let Some(increment) = self.receive_window.consume(bytes)
        {
            encode_word(FrameKind::WINDOW_UPDATE, 0, increment, &mut self.out);
        }
    }

    /// Sends a header block, in as many frames as it needs.
    pub fn send_block(
        &mut self,
        number: u32,
        end: End,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>, &mut Vec<u8>),
    ) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; FRAME_HEAD_LEN]);
        encode(&mut self.encoder, &mut self.scratch, &mut self.out);
        let len = self.out.len() - start - FRAME_HEAD_LEN;
        let end_stream = if end.is_here() { flags::END_STREAM } else { 0 };
        if len <= FRAME_BYTES_MAX as usize {
            let head = FrameHead {
                len: len as u32,
                kind: FrameKind::HEADERS,
                flags: end_stream | flags::END_HEADERS,
                stream: number,
            };
            self.out[start..start + FRAME_HEAD_LEN].copy_from_slice(&head.to_bytes());
            return;
        }
        let block = self.out.split_off(start + FRAME_HEAD_LEN);
        self.out.truncate(start);
        let parts = block.chunks(FRAME_BYTES_MAX as usize);
        let last = parts.len() - 1;
        for (at, part) in parts.enumerate() {
            let (kind, first_flags) = match at {
                0 => (FrameKind::HEADERS, end_stream),
                _ => (FrameKind::CONTINUATION, 0),
            };
            let last_flags = if at == last { flags::END_HEADERS } else { 0 };
            let head = FrameHead {
                len: part.len() as u32,
                kind,
                flags: first_flags | last_flags,
                stream: number,
            };
            head.encode(&mut self.out);
            self.out.extend_from_slice(part);
        }
    }

    /// The stream, if content or trailers may be sent on it.
    pub fn sending(&mut self, id: StreamId) -> Result<&mut Stream, StreamGone> {
        match self.streams.at(id) {
            Some(stream) if stream.outbound() == Some(Outbound::Body) => Ok(stream),
            _ => Err(StreamGone),
        }
    }

    /// How many bytes one frame of content may have now.
    pub fn capacity(&mut self, id: StreamId) -> usize {
        let room = self.limits.output_bytes_max;
        let room = room.saturating_sub(self.out.len() + FRAME_HEAD_LEN);
        let connection = self.send_window.available();
        let Ok(stream) = self.sending(id) else {
            return 0;
        };
        let window = stream.send_window.available();
        stream.waits |= window == 0;
        self.waits |= connection == 0;
        room.min(connection)
            .min(window)
            .min(FRAME_BYTES_MAX as usize)
    }

    /// Ends our side of a stream with trailers.
    pub fn send_trailers(&mut self, id: StreamId, fields: &Fields) -> Result<(), StreamGone> {
        let stream = self.sending(id)?;
        if !stream.send_left.may_end() {
            self.reset(id, ErrorCode::INTERNAL_ERROR);
            return Err(StreamGone);
        }
        stream.set_outbound(Outbound::Ended);
        self.send_block(id.number(), End::Here, |encoder, scratch, out| {
            encode_trailers(encoder, fields, scratch, out);
        });
        Ok(())
    }

    /// Takes as much of `data` as may be sent.
    pub fn send_data(&mut self, id: StreamId, data: &[u8], end: End) -> Result<usize, StreamGone> {
        self.sending(id)?;
        if data.is_empty() && end.is_here() {
            self.send_data_head(id, 0, end)?;
        }
        let mut sent = 0;
        while sent < data.len() {
            let len = self.capacity(id).min(data.len() - sent);
            if len == 0 {
                break;
            }
            let ends = end.is_here() && sent + len == data.len();
            self.send_data_head(id, len, End::here_if(ends))?;
            self.out.extend_from_slice(&data[sent..sent + len]);
            sent += len;
        }
        Ok(sent)
    }

    /// Sends the head of a frame of content.
    pub fn send_data_head(&mut self, id: StreamId, len: usize, end: End) -> Result<(), StreamGone> {
        let available = self.send_window.available();
        let turn = self.turn.wrapping_add(1);
        let stream = self.sending(id)?;
        let window = stream.send_window.available().min(available);
        debug_assert!(len <= window, "no more than the capacity");
        // Content that is not what the head declared must not look whole.
        if !stream.send_left.take(len) || end.is_here() && !stream.send_left.may_end() {
            self.reset(id, ErrorCode::INTERNAL_ERROR);
            return Err(StreamGone);
        }
        stream.send_window.spend(len);
        stream.turn = turn;
        if end.is_here() {
            stream.set_outbound(Outbound::Ended);
        }
        let priority = stream.priority;
        if !priority.incremental {
            self.group_turns[usize::from(priority.urgency) % URGENCIES] = turn;
        }
        self.turn = turn;
        self.send_window.spend(len);
        // Windows that are given in crumbs earn nothing.
        if len < window || len >= 1024 {
            self.budget.expect_updates();
        }
        let head = FrameHead {
            len: len as u32,
            kind: FrameKind::DATA,
            flags: if end.is_here() { flags::END_STREAM } else { 0 },
            stream: id.number(),
        };
        head.encode(&mut self.out);
        Ok(())
    }

    /// Of the streams with content to send, the one to serve next: the most urgent, and among those, non-incremental
    /// streams one after the other (RFC 9218, section 10). Incremental streams share the connection evenly, and all
    /// non-incremental streams together count as one of them.
    pub fn next_to_send(&self, ready: impl IntoIterator<Item = StreamId>) -> Option<StreamId> {
        let rank = |id: &StreamId| {
            let Some(stream) = self.streams.look(*id) else {
                return (u8::MAX, u32::MAX, id.number());
            };
            let urgency = stream.priority.urgency;
            let turn = if stream.priority.incremental {
                stream.turn
            } else {
                self.group_turns[usize::from(urgency) % URGENCIES]
            };
            (urgency, turn, id.number())
        };
        ready.into_iter().min_by_key(rank)
    }

    /// Says goodbye in a way that loses nothing: first that an end is coming, then, when the peer has heard that,
    /// which stream was the last (RFC 9113, section 6.8).
    pub fn drain(&mut self) {
        if self.ending != Ending::No || self.over.is_some() {
            return;
        }
        if self.us == Role::Client {
            return self.go_away(ErrorCode::NO_ERROR);
        }
        encode_goaway(WINDOW_MAX, ErrorCode::NO_ERROR.0, &mut self.out);
        encode_ping(0, GOODBYE, &mut self.out);
        self.ending = Ending::Announced;
    }

    /// Sends the peer the ID of the last stream (GOAWAY).
    pub fn go_away(&mut self, code: ErrorCode) {
        if self.over.is_some() || matches!(self.ending, Ending::Final { .. }) {
            return;
        }
        let last = self.highest_peer();
        encode_goaway(last, code.0, &mut self.out);
        self.ending = Ending::Final { last };
    }

    pub fn is_done(&self) -> bool {
        let ends = self.peer_leaves || matches!(self.ending, Ending::Final { .. });
        self.over.is_some() || ends && self.streams.len() == self.tails
    }

    pub fn ping(&mut self) {
        self.pings_open += 1;
        let opaque = u64::from(self.pings_open).to_be_bytes();
        encode_ping(0, opaque, &mut self.out);
    }

    pub fn calm(&mut self, now: Moment) {
        self.budget.calm(now);
    }

    pub fn capacity_bytes(&self) -> usize {
        self.reader.capacity_bytes()
            + self.out.capacity()
            + self.scratch.capacity()
            + self.encoder.capacity_bytes()
            + self.decoder.capacity_bytes()
            + self.streams.capacity_bytes()
            + self.closed.capacity_bytes()
            + self.ahead.capacity() * size_of::<(u32, Priority)>()
    }

    pub fn shrink(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        self.scratch = Vec::new();
        self.reader.shrink();
        self.decoder.shrink();
        self.streams.shrink();
    }
}
