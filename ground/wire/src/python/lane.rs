//! The server's side of a lane: opens streams, counts windows, checks the order of frames. `sluice-python` moves the
//! bytes, and the descriptors that belong to files.

use alloc::vec::Vec;

use super::event::{Event, MessageKind};
use super::frame::{End, FLAG_MORE, FLAG_SECOND, Fault, HEADER_BYTES, Header, Kind};
use super::reader::{Reader, Side};
use super::stream::{Form, Response, Sent, StreamId};
use super::table::Table;
use crate::limits::{PYTHON_MESSAGE_OVERHEAD_BYTES, PYTHON_PAYLOAD_BYTES_MAX};
use crate::websocket::MessagePart;

/// The server's side of one lane.
#[derive(Debug)]
pub struct Lane {
    reader: Reader,
    table: Table,
    window: u32,
    output: Vec<u8>,
}

/// The result of [`Lane::receive`].
#[derive(Debug)]
pub struct Received<'a> {
    /// Number of bytes consumed; at least one, unless there were none.
    pub consumed: usize,
    /// What they said. There may be more without one, unless all bytes were consumed.
    pub event: Option<Event<'a>>,
}

impl Lane {
    /// A lane without streams, with this window for each direction of each stream.
    pub fn new(window: u32) -> Lane {
        Lane {
            reader: Reader::new(Side::Lane),
            table: Table::new(window),
            window,
            output: Vec::new(),
        }
    }

    /// Bytes to be sent to the worker; the caller removes those it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Number of open streams, including those that were given up and whose end the worker has not confirmed.
    pub fn open_streams(&self) -> usize {
        self.table.open_streams()
    }

    /// Opens a stream: `write` appends the dictionary of the request to the output. `None` if there are
    /// [`crate::limits::PYTHON_STREAMS_MAX`] streams, or the dictionary is too long.
    pub fn open(
        &mut self,
        form: Form,
        end: End,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<StreamId> {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEADER_BYTES]);
        write(&mut self.output);
        let length = self.output.len() - start - HEADER_BYTES;
        if length > PYTHON_PAYLOAD_BYTES_MAX as usize {
            self.output.truncate(start);
            return None;
        }
        let Some(id) = self.table.open(form, end) else {
            self.output.truncate(start);
            return None;
        };
        let mut header = Header::new(Kind::Request, id.number(), length);
        header.flags = end.flag();
        if form == Form::WebSocket {
            header.flags |= FLAG_SECOND;
        }
        self.output[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        Some(id)
    }

    /// How many bytes of the request body may be sent; `None` if no more are accepted.
    pub fn capacity(&self, id: StreamId) -> Option<usize> {
        let stream = self.table.stream(id)?;
        let is_open = stream.sent == Sent::Open && stream.response != Response::Ended;
        is_open.then(|| usize::try_from(stream.send_window).unwrap_or(0))
    }

    /// Appends bytes of the request body to the output, as far as the window allows; `end` says whether they are the
    /// last ones. Returns how many were taken; the end is sent with the last of them.
    pub fn send_body(&mut self, id: StreamId, data: &[u8], end: End) -> usize {
        let Some(capacity) = self.capacity(id) else {
            return 0;
        };
        let count = data
            .len()
            .min(capacity)
            .min(PYTHON_PAYLOAD_BYTES_MAX as usize);
        let end = End::here_if(end.is_here() && count == data.len());
        if count == 0 && !end.is_here() {
            return 0;
        }
        let mut header = Header::new(Kind::RequestBody, id.number(), count);
        header.flags = end.flag();
        self.push(&header, &data[..count]);
        if let Some(stream) = self.table.stream_mut(id) {
            stream.send_window -= count as i64;
            if end.is_here() {
                stream.sent = Sent::Ended;
            }
        }
        count
    }

    /// Whether the window allows the next piece of a message, of this length; `None` if no more messages are accepted. The
    /// first piece waits for credit, the others do not: the caller bounds the message.
    pub fn may_send_piece(&self, id: StreamId, length: usize) -> Option<bool> {
        let stream = self.table.stream(id)?;
        let is_open = stream.sent == Sent::Open && stream.response != Response::Ended;
        is_open.then(|| stream.may_send_piece(length, self.window))
    }

    /// Appends a message of the client, or the next piece of it, to the output. Returns how many bytes of messages the worker
    /// holds now, with [`PYTHON_MESSAGE_OVERHEAD_BYTES`] for each piece; `None` if it was not taken, because it is too long for a frame or the stream has ended.
    pub fn send_piece(
        &mut self,
        id: StreamId,
        kind: MessageKind,
        data: &[u8],
        piece: MessagePart,
    ) -> Option<usize> {
        self.may_send_piece(id, data.len())?;
        if data.len() > Kind::ClientMessage.payload_max() as usize {
            return None;
        }
        let mut header = Header::new(Kind::ClientMessage, id.number(), data.len());
        if kind == MessageKind::Text {
            header.flags |= FLAG_SECOND;
        }
        if !piece.is_last() {
            header.flags |= FLAG_MORE;
        }
        self.push(&header, data);
        let window = self.window;
        let stream = self.table.stream_mut(id)?;
        stream.send_window -= (data.len() + PYTHON_MESSAGE_OVERHEAD_BYTES) as i64;
        stream.is_sending = !piece.is_last();
        Some(stream.held(window))
    }

    /// The client has closed its WebSocket, with this code and reason (RFC 6455, section 7.1.5 and 7.1.6).
    pub fn send_close(&mut self, id: StreamId, code: u16, reason: &[u8]) {
        let reason = &reason[..reason.len().min(Kind::ClientClose.payload_max() as usize)];
        let Some(stream) = self.table.stream_mut(id) else {
            return;
        };
        if stream.sent == Sent::Ended || stream.response == Response::Ended {
            return;
        }
        stream.sent = Sent::Ended;
        let mut header = Header::new(Kind::ClientClose, id.number(), reason.len());
        header.flags = End::Here.flag();
        header.small = code;
        self.push(&header, reason);
    }

    /// The reader of a response has consumed `count` bytes of it (of a message, with [`PYTHON_MESSAGE_OVERHEAD_BYTES`]): gives credit to the worker once it is worth a frame.
    pub fn consumed(&mut self, id: StreamId, count: usize) {
        let worth = self.window / 4;
        let Some(stream) = self.table.stream_mut(id) else {
            return;
        };
        if !matches!(stream.response, Response::Body | Response::Messages) {
            return;
        }
        stream.consumed += u32::try_from(count).unwrap_or(u32::MAX);
        // A message that is as large as the window waits until all of it is free.
        let is_all = stream.receive_window + i64::from(stream.consumed) >= i64::from(self.window);
        if stream.consumed < worth && !(is_all && stream.form == Form::WebSocket) {
            return;
        }
        let credit = core::mem::take(&mut stream.consumed);
        stream.receive_window += i64::from(credit);
        let mut header = Header::new(Kind::ResponseCredit, id.number(), 0);
        header.large = credit;
        self.push(&header, b"");
    }

    /// Nobody needs the stream any more. One whose response has not ended is given up: [`Event::Freed`] follows when the
    /// worker has confirmed it. Returns whether the stream is free already.
    pub fn release(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.table.stream_mut(id) else {
            return true;
        };
        match stream.response {
            Response::Discard => return false,
            Response::Ended => {
                self.table.free(id);
                return true;
            }
            Response::AwaitHead | Response::Body | Response::Messages => {}
        }
        stream.response = Response::Discard;
        match (stream.form, stream.sent) {
            (Form::Http, _) => {
                stream.sent = Sent::Ended;
                let header = Header::new(Kind::Cancel, id.number(), 0);
                self.push(&header, b"");
            }
            (Form::WebSocket, Sent::Open) => self.send_close(id, 1006, b""),
            (Form::WebSocket, Sent::Ended) => {}
        }
        false
    }

    /// The request on a stream takes too long: it is given up, and the worker is to stop it if it can (CANCEL with `small`
    /// 1). The stream still has to be released.
    pub fn stop(&mut self, id: StreamId) {
        let Some(stream) = self.table.stream_mut(id) else {
            return;
        };
        if stream.response == Response::Ended {
            return;
        }
        stream.response = Response::Discard;
        stream.sent = Sent::Ended;
        let mut header = Header::new(Kind::Cancel, id.number(), 0);
        header.small = 1;
        self.push(&header, b"");
    }

    /// Frees memory while no stream is open. IDs go on counting.
    pub fn shrink(&mut self) {
        if self.open_streams() == 0 {
            self.table.shrink();
            self.reader.shrink();
        }
    }

    /// Reads the start of `input`, the bytes that follow those already consumed.
    ///
    /// # Errors
    ///
    /// The worker violated the protocol; nothing more can be read.
    pub fn receive<'a>(&'a mut self, input: &'a [u8]) -> Result<Received<'a>, Fault> {
        let (consumed, piece) = self.reader.read(input)?;
        let event = match piece {
            Some(piece) => self.table.heed(piece)?,
            None => None,
        };
        Ok(Received { consumed, event })
    }

    fn push(&mut self, header: &Header, payload: &[u8]) {
        self.output.extend_from_slice(&header.encode());
        self.output.extend_from_slice(payload);
    }
}
