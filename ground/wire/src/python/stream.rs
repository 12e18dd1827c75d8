//! The state of one stream of a lane. `lane` owns the streams.

use super::frame::{Fault, Kind};
use crate::limits::{PYTHON_CREDIT_MAX, PYTHON_MESSAGE_OVERHEAD_BYTES};
use crate::websocket::MessagePart;

/// A stream of a lane. The ID is not used again for a later stream until 65,536 others were opened in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The ID of a slot in its given use.
    pub(super) fn new(slot: usize, turn: u16) -> StreamId {
        StreamId(u32::from(turn) << 16 | (slot as u32 + 1))
    }

    /// Its slot: streams that are open at a time have different ones, and slots are reused.
    pub fn slot(self) -> usize {
        (self.0 & 0xffff) as usize - 1
    }

    /// The ID in a frame.
    pub(super) fn from_wire(number: u32) -> Option<StreamId> {
        (number & 0xffff != 0).then_some(StreamId(number))
    }

    /// The number in frames.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A request and its response.
    Http,
    /// A WebSocket.
    WebSocket,
}

/// How far the worker's direction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Nothing but early hints so far.
    AwaitHead,
    /// A body.
    Body,
    /// Messages of a WebSocket.
    Messages,
    /// Nobody wants the rest; its end is awaited.
    Discard,
    /// It has ended.
    Ended,
}

/// How far our direction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// More may be sent.
    Open,
    /// END was sent.
    Ended,
}

/// A stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub id: StreamId,
    pub form: Form,
    pub response: Response,
    pub sent: Sent,
    /// Bytes that we may send. Negative while the worker holds a message that is larger than the window.
    pub send_window: i64,
    /// Whether a message that we send goes on.
    pub is_sending: bool,
    /// Whether a message of the worker that goes on is a text.
    pub receiving_text: Option<bool>,
    /// Bytes that the worker may send.
    pub receive_window: i64,
    /// Bytes that were consumed, for which no credit was given yet.
    pub consumed: u32,
}

impl Stream {
    pub fn new(id: StreamId, form: Form, sent: Sent, window: u32) -> Stream {
        Stream {
            id,
            form,
            response: Response::AwaitHead,
            sent,
            send_window: i64::from(window),
            is_sending: false,
            receiving_text: None,
            receive_window: i64::from(window),
            consumed: 0,
        }
    }

    /// Counts bytes that have arrived.
    pub fn count_data(&mut self, length: usize) -> Result<(), Fault> {
        self.receive_window -= length as i64;
        match self.receive_window {
            0.. => Ok(()),
            _ => Err(Fault::Window),
        }
    }

    /// Counts a piece of a message that has arrived; all pieces of a message have the same kind.
    pub fn count_piece(
        &mut self,
        length: usize,
        is_text: bool,
        piece: MessagePart,
    ) -> Result<(), Fault> {
        self.count_data(length + PYTHON_MESSAGE_OVERHEAD_BYTES)?;
        if self.receiving_text.is_some_and(|begun| begun != is_text) {
            return Err(Fault::Order(Kind::Message));
        }
        self.receiving_text = (!piece.is_last()).then_some(is_text);
        Ok(())
    }

    /// Whether a piece of this length may be sent. The first of a message waits for credit; the others do not, since the
    /// worker gives credit for a message when the application has received it.
    pub fn may_send_piece(&self, length: usize, window: u32) -> bool {
        let left = self.send_window;
        let needed = (length + PYTHON_MESSAGE_OVERHEAD_BYTES) as i64;
        self.is_sending || left >= needed || left >= i64::from(window)
    }

    /// What was sent and for which the worker has given no credit, as windows count it.
    pub fn held(&self, window: u32) -> usize {
        usize::try_from(i64::from(window) - self.send_window).unwrap_or(0)
    }

    /// Counts credit for our direction.
    pub fn count_credit(&mut self, credit: u32) -> Result<(), Fault> {
        self.send_window += i64::from(credit);
        match self.send_window {
            ..=PYTHON_CREDIT_MAX => Ok(()),
            _ => Err(Fault::Credit),
        }
    }

    /// Fails unless the worker's direction is in one of these states.
    pub fn expect(&self, states: &[Response], kind: Kind) -> Result<(), Fault> {
        match states.contains(&self.response) {
            true => Ok(()),
            false => Err(Fault::Order(kind)),
        }
    }
}
