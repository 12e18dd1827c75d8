//! The state of one stream of a lane. `lane` owns the streams.

use super::frame::{Fault, Kind};
use crate::limits::PYTHON_CREDIT_MAX;

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
    /// Bytes that we may send. Negative after a message that was larger than the window.
    pub send_window: i64,
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
            receive_window: i64::from(window),
            consumed: 0,
        }
    }

    /// Counts bytes of a body that have arrived.
    pub fn count_data(&mut self, length: usize) -> Result<(), Fault> {
        self.receive_window -= length as i64;
        match self.receive_window {
            0.. => Ok(()),
            _ => Err(Fault::Window),
        }
    }

    /// Counts a message that has arrived: one that is larger than the window needs all of it.
    pub fn count_message(&mut self, length: usize, window: u32) -> Result<(), Fault> {
        let fits = may_send(self.receive_window, length, window);
        self.receive_window -= length as i64;
        match fits {
            true => Ok(()),
            false => Err(Fault::Window),
        }
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

/// Whether a message of this length may be sent with `left` of a window.
pub(super) fn may_send(left: i64, length: usize, window: u32) -> bool {
    left >= length as i64 || left >= i64::from(window)
}
