//! What HTTP/2 and HTTP/3 have in common: many requests on one connection, each with a body, a response and a record.
//! A [`Carrier`] is the connection as its streams see it; one task drives it and polls the streams that were woken.

pub mod host;
mod ready;
mod request_body;
mod send;
mod streams;
mod tunnel;
mod works;

use std::cell::Cell;
use std::rc::Rc;

use sluice_message::{Fields, Moment, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::sections::End;

use crate::body::FileSlice;
use crate::failure::{Failure, FailureKind, Side};
use crate::retirement::InProgress;
use crate::worker::Worker;

pub use ready::{Readiness, Ready, SLOTS, Woken};
pub use request_body::StreamBody;
pub use streams::{HeadRead, Home, Over, Start, prepare, serve};
pub use works::Works;

/// A connection as its streams see it. Nothing of it is borrowed across an await point.
pub trait Carrier: 'static {
    /// Names a stream.
    type Id: Copy + 'static;

    /// The worker that serves the connection.
    fn worker(&self) -> &Rc<Worker>;

    /// The requests in progress.
    fn requests(&self) -> &InProgress;

    /// How much data was moved.
    fn moved(&self) -> &Moved;

    /// Why the stream is gone, if it is.
    fn gone(&self, id: Self::Id) -> Option<Gone>;

    /// Whether a head can be sent without waiting.
    fn has_room(&self) -> bool;

    /// How much data can be sent now.
    fn capacity(&self, id: Self::Id) -> usize;

    /// Registers a stream that can send nothing now, to be woken when that may have changed. Returns what it waits for.
    fn await_room(&self, id: Self::Id) -> WaitsFor;

    /// Sends an interim response, unless the client accepts nothing: they are optional.
    fn send_interim(&self, id: Self::Id, status: Status, fields: &Fields);

    /// Sends the head of the response; returns its size in bytes.
    ///
    /// # Errors
    ///
    /// The stream is gone.
    fn send_head(
        &self,
        id: Self::Id,
        head: (Status, &Fields),
        framing: BodyFraming,
        end: End,
    ) -> Result<u64, Gone>;

    /// Sends as much of `data` as can be sent now, and returns how much. `end` applies if that is all of it.
    ///
    /// # Errors
    ///
    /// The stream is gone.
    fn send_data(&self, id: Self::Id, data: &[u8], end: End) -> Result<usize, Gone>;

    /// Sends `count` bytes of a file from `offset` on, at most [`Carrier::capacity`].
    ///
    /// # Errors
    ///
    /// The stream is gone, or the file cannot be read.
    fn send_file(
        &self,
        id: Self::Id,
        file: &FileSlice,
        offset: u64,
        count: usize,
    ) -> Result<(), NotSent>;

    /// Sends trailers, and with them the end of the response.
    ///
    /// # Errors
    ///
    /// The stream is gone.
    fn send_trailers(&self, id: Self::Id, fields: &Fields) -> Result<(), Gone>;

    /// Whether everything of the response has left for the transport. Until then the stream stays.
    fn is_flushed(&self, id: Self::Id) -> bool;

    /// Moves received data to `buf`, which is empty.
    fn take(&self, id: Self::Id, buf: &mut Vec<u8>) -> Taken;

    /// The reader has consumed `count` bytes.
    fn consumed(&self, id: Self::Id, count: usize);

    /// The reader drops the body. `left` is how much it had taken and not consumed.
    fn give_up(&self, id: Self::Id, left: usize);

    /// Bytes of the request body that were consumed.
    fn bytes_read(&self, id: Self::Id) -> u64;

    /// Whether the client was almost out of window at some time since `since` because streams were not read.
    fn was_withheld(&self, since: Moment) -> bool;
}

/// Data received and sent, of all streams: they share one connection, and a stream is not too slow because another one
/// goes first.
#[derive(Debug, Default)]
pub struct Moved {
    /// Bytes received.
    pub received: Cell<u64>,
    /// Bytes sent.
    pub sent: Cell<u64>,
}

/// Why a stream ended before its response was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client went away or reset the stream.
    Closed,
    /// The client violated the protocol on this stream.
    Broken,
}

impl Gone {
    /// The failure to record for the exchange.
    pub fn failure(self) -> Failure {
        let kind = match self {
            Gone::Closed => FailureKind::Closed,
            Gone::Broken => FailureKind::Protocol,
        };
        Failure::new(Side::Client, kind)
    }
}

/// Why a part of a file was not sent.
#[derive(Debug)]
pub enum NotSent {
    /// The stream is gone.
    Gone(Gone),
    /// The file could not be read, or is shorter than it was.
    File(std::io::Error),
}

/// What a stream waits for that the connection has to notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing.
    #[default]
    Nothing,
    /// The client accepting more.
    Window,
    /// Room in the output, which all streams share.
    Room,
}

/// The result of reading a request body.
#[derive(Debug)]
pub enum Taken {
    /// Content, moved to the reader's buffer.
    Content,
    /// The end, after all content was taken.
    End(Option<Fields>),
    /// Nothing yet.
    Nothing,
    /// Nothing more will come.
    Gone(Gone),
}
