//! The open streams of a lane, and what received frames mean for them.

use alloc::vec::Vec;

use sluice_message::Status;

use super::event::{ErrorStage, Event, MessageKind};
use super::frame::{End, FLAG_MORE, FLAG_SECOND, Fault, Header, Kind};
use super::reader::Piece;
use super::stream::{Form, Response, Sent, Stream, StreamId};
use crate::limits::PYTHON_STREAMS_MAX;
use crate::websocket::MessagePart;

/// The streams of a lane.
#[derive(Debug)]
pub(super) struct Table {
    /// By slot; `None` in free ones.
    streams: Vec<Option<Stream>>,
    /// The free slots.
    free: Vec<u16>,
    /// Counts the streams that were opened.
    opened: u16,
    window: u32,
}

impl Table {
    pub fn new(window: u32) -> Table {
        Table {
            streams: Vec::new(),
            free: Vec::new(),
            opened: 0,
            window,
        }
    }

    pub fn open_streams(&self) -> usize {
        self.streams.len() - self.free.len()
    }

    /// Opens a stream in a free slot, if there are not too many.
    pub fn open(&mut self, form: Form, end: End) -> Option<StreamId> {
        let slot = match self.free.pop() {
            Some(slot) => usize::from(slot),
            None if self.streams.len() == PYTHON_STREAMS_MAX => return None,
            None => {
                self.streams.push(None);
                self.streams.len() - 1
            }
        };
        self.opened = self.opened.wrapping_add(1);
        let id = StreamId::new(slot, self.opened);
        let sent = match end {
            End::Here => Sent::Ended,
            End::Later => Sent::Open,
        };
        self.streams[slot] = Some(Stream::new(id, form, sent, self.window));
        Some(id)
    }

    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        let stream = self.streams.get(id.slot())?.as_ref()?;
        (stream.id == id).then_some(stream)
    }

    pub fn stream_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let stream = self.streams.get_mut(id.slot())?.as_mut()?;
        (stream.id == id).then_some(stream)
    }

    /// Frees the slot of an open stream.
    pub fn free(&mut self, id: StreamId) {
        if self.stream(id).is_some() {
            self.streams[id.slot()] = None;
            // There are at most 16,384 slots.
            self.free.push(id.slot() as u16);
        }
    }

    /// Frees the memory of all slots, which are free.
    pub fn shrink(&mut self) {
        self.streams = Vec::new();
        self.free = Vec::new();
    }

    /// What a piece of a frame means.
    pub fn heed<'a>(&mut self, piece: Piece<'a>) -> Result<Option<Event<'a>>, Fault> {
        let window = self.window;
        let has_body = piece.has_body();
        let (header, payload) = match &piece {
            Piece::Frame { header, payload } => (*header, *payload),
            Piece::Body { header, data, .. } => (*header, *data),
        };
        let id = StreamId::from_wire(header.stream);
        let found = id.and_then(|id| self.stream_mut(id));
        let Some(stream) = found else {
            return match header.kind {
                // The worker has read the rest of a body after its end of the stream.
                Kind::RequestCredit => Ok(None),
                _ => Err(Fault::Stream(header.stream)),
            };
        };
        let end = End::here_if(header.end().is_here() && !has_body);
        if stream.response == Response::Ended {
            return match header.kind {
                Kind::RequestCredit => Ok(None),
                kind => Err(Fault::Order(kind)),
            };
        }
        if stream.response == Response::Discard {
            return Ok(self.discard(&header, end));
        }
        match piece {
            Piece::Frame { .. } => frame(stream, &header, payload, end, window).map(Some),
            Piece::Body { .. } => data(stream, &header, payload, end).map(Some),
        }
    }

    /// A frame of a stream that was given up.
    fn discard<'a>(&mut self, header: &Header, end: End) -> Option<Event<'a>> {
        let id = StreamId::from_wire(header.stream)?;
        if end.is_here() {
            self.free(id);
        }
        match (header.kind, end) {
            (Kind::File, end) => Some(Event::DroppedFile { id, end }),
            (_, End::Here) => Some(Event::Freed { id }),
            (_, End::Later) => None,
        }
    }
}

/// Bytes of a body.
fn data<'a>(
    stream: &mut Stream,
    header: &Header,
    data: &'a [u8],
    end: End,
) -> Result<Event<'a>, Fault> {
    stream.expect(&[Response::Body], header.kind)?;
    stream.count_data(data.len())?;
    note_end(stream, end);
    let id = stream.id;
    Ok(Event::Data { id, data, end })
}

/// A frame whose payload was gathered.
fn frame<'a>(
    stream: &mut Stream,
    header: &Header,
    payload: &'a [u8],
    end: End,
    window: u32,
) -> Result<Event<'a>, Fault> {
    let (id, kind) = (stream.id, header.kind);
    let event = match kind {
        Kind::Response => {
            stream.expect(&[Response::AwaitHead], kind)?;
            stream.response = Response::Body;
            let status = Status::new(header.small).filter(|status| status.code() >= 200);
            let status = status.ok_or(Fault::Status(header.small))?;
            let block = payload;
            Event::Head {
                id,
                status,
                block,
                end,
            }
        }
        Kind::File => {
            stream.expect(&[Response::Body], kind)?;
            let (offset, length) = file(payload)?;
            Event::File {
                id,
                offset,
                length,
                end,
            }
        }
        Kind::Error => {
            stream.response = Response::Ended;
            let stage = match header.small {
                1 => ErrorStage::BeforeResponse,
                2 => ErrorStage::AfterHead,
                _ => ErrorStage::Rules,
            };
            let text = text(payload, kind)?;
            return Ok(Event::Error { id, stage, text });
        }
        Kind::RequestCredit => {
            stream.count_credit(header.large)?;
            let held = stream.held(window);
            return Ok(Event::Credit { id, held });
        }
        Kind::EarlyHints => {
            stream.expect(&[Response::AwaitHead], kind)?;
            let block = payload;
            return Ok(Event::EarlyHints { id, block });
        }
        Kind::Trailers => {
            stream.expect(&[Response::Body], kind)?;
            stream.response = Response::Ended;
            return Ok(Event::Trailers { id, block: payload });
        }
        Kind::Accept | Kind::Message | Kind::Close => {
            return websocket(stream, header, payload);
        }
        kind => return Err(Fault::Order(kind)),
    };
    note_end(stream, end);
    Ok(event)
}

/// A frame of a WebSocket.
fn websocket<'a>(
    stream: &mut Stream,
    header: &Header,
    payload: &'a [u8],
) -> Result<Event<'a>, Fault> {
    let (id, kind) = (stream.id, header.kind);
    if stream.form != Form::WebSocket {
        return Err(Fault::Order(kind));
    }
    match kind {
        Kind::Accept => {
            stream.expect(&[Response::AwaitHead], kind)?;
            stream.response = Response::Messages;
            Ok(Event::Accept { id, block: payload })
        }
        Kind::Message => {
            stream.expect(&[Response::Messages], kind)?;
            let piece = MessagePart::last_if(header.flags & FLAG_MORE == 0);
            let is_text = header.flags & FLAG_SECOND != 0;
            if is_text {
                text(payload, kind)?;
            }
            let kind = match is_text {
                true => MessageKind::Text,
                false => MessageKind::Binary,
            };
            stream.count_piece(payload.len(), is_text, piece)?;
            let data = payload;
            Ok(Event::Message {
                id,
                kind,
                data,
                piece,
            })
        }
        kind => {
            stream.expect(&[Response::AwaitHead, Response::Messages], kind)?;
            stream.response = Response::Ended;
            let (code, reason) = (header.small, text(payload, kind)?);
            Ok(Event::Close { id, code, reason })
        }
    }
}

fn note_end(stream: &mut Stream, end: End) {
    if end.is_here() {
        stream.response = Response::Ended;
    }
}

fn text(payload: &[u8], kind: Kind) -> Result<&str, Fault> {
    core::str::from_utf8(payload).map_err(|_| Fault::Text(kind))
}

/// Offset and length of a part of a file, whose end is below 2^63.
fn file(payload: &[u8]) -> Result<(u64, u64), Fault> {
    let (Some(offset), Some(length)) = (payload.first_chunk(), payload.last_chunk()) else {
        return Err(Fault::File);
    };
    let (offset, length) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*length));
    let is_sane =
        payload.len() == 16 && offset.checked_add(length).is_some_and(|end| end < 1 << 63);
    is_sane.then_some((offset, length)).ok_or(Fault::File)
}
