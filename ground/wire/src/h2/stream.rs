//! The streams of a connection (RFC 9113, section 5.1), in reusable slots. `conn` decides which frames change the state
//! of a stream.

use alloc::vec::Vec;

use super::error::ErrorCode;
use super::flow::{ReceiveWindow, SendWindow};
use crate::sections::Priority;

/// Which end did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The other end of the connection.
    Peer,
    /// We, because of what the peer sent.
    Us,
}

/// A stream of one connection, for as long as its owner holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    number: u32,
    slot: u16,
}

impl StreamId {
    /// The number on the wire; it grows from stream to stream.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// A small number, below [`super::Limits::streams_max`], that no other unreleased stream of the connection has:
    /// owners can keep what belongs to the stream at this place of a list.
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Both directions, each for itself.
    Live {
        inbound: Inbound,
        outbound: Outbound,
    },
    /// Reset by that side; the owner has not let go of it yet.
    Gone(Side),
    /// The response was sent and the owner has released the stream: the short rest of the request is discarded.
    Tail,
}

/// What the peer has still to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    /// The head of a response; only clients wait for it.
    AwaitHead,
    /// Content or trailers.
    AwaitBody,
    /// Nothing.
    Ended,
}

/// What we have still to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outbound {
    /// The head of a response; only servers have to send it.
    AwaitHead,
    /// Content or trailers.
    Body,
    /// Nothing.
    Ended,
}

/// How much content a message has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Its end will tell.
    Unknown,
    /// So many bytes.
    Bytes(u64),
}

impl Left {
    /// Takes `bytes` off; false if there are not so many.
    pub fn take(&mut self, bytes: usize) -> bool {
        match self {
            Left::Unknown => true,
            Left::Bytes(left) => match left.checked_sub(bytes as u64) {
                Some(rest) => {
                    *left = rest;
                    true
                }
                None => false,
            },
        }
    }

    /// Whether it is known to be so little.
    pub fn is_at_most(self, bytes: u32) -> bool {
        matches!(self, Left::Bytes(left) if left <= u64::from(bytes))
    }

    /// Whether the message may end here.
    pub fn may_end(self) -> bool {
        matches!(self, Left::Unknown | Left::Bytes(0))
    }
}

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// How far it is.
    pub phase: Phase,
    /// What we may send.
    pub send_window: SendWindow,
    /// What the peer may send.
    pub receive_window: ReceiveWindow,
    /// Content that was reported to the owner and is not consumed yet.
    pub unread: u32,
    /// The content that the peer declared.
    pub receive_left: Left,
    /// The content that we declared.
    pub send_left: Left,
    /// The error code sent to the peer if the stream is released before our side ended.
    pub reset_code: ErrorCode,
    /// How soon its content is wanted.
    pub priority: Priority,
    /// The turn at which it last sent content.
    pub turn: u32,
    /// What its decoded head takes from the budget of all heads.
    pub head_bytes: u32,
    /// Whether its owner waits for window.
    pub waits: bool,
}

impl Stream {
    /// Whether either side may still send.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    /// Whether the response is complete, and the peer can send the whole rest of its request without a window update.
    pub fn has_short_rest(&self) -> bool {
        let phase = Phase::Live {
            inbound: Inbound::AwaitBody,
            outbound: Outbound::Ended,
        };
        self.phase == phase && self.receive_left.is_at_most(self.receive_window.open())
    }

    /// How far our direction is; `None` if the stream was reset.
    pub fn outbound(&self) -> Option<Outbound> {
        match self.phase {
            Phase::Live { outbound, .. } => Some(outbound),
            Phase::Gone(_) | Phase::Tail => None,
        }
    }

    /// How far the peer's direction is; `None` if the stream was reset.
    pub fn inbound(&self) -> Option<Inbound> {
        match self.phase {
            Phase::Live { inbound, .. } => Some(inbound),
            Phase::Gone(_) | Phase::Tail => None,
        }
    }

    /// Moves our direction on, if there is one.
    pub fn set_outbound(&mut self, next: Outbound) {
        if let Phase::Live { outbound, .. } = &mut self.phase {
            *outbound = next;
        }
    }

    /// Moves the peer's direction on, if there is one.
    pub fn set_inbound(&mut self, next: Inbound) {
        if let Phase::Live { inbound, .. } = &mut self.phase {
            *inbound = next;
        }
    }
}

/// All streams that are not released. Their places are used again, so that nothing is allocated once as many were
/// open as ever are.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    /// The numbers of the streams by slot, 0 where there is none: side by side, since they are searched.
    numbers: Vec<u32>,
    streams: Vec<Stream>,
    free: Vec<u16>,
}

impl Streams {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.streams.len() - self.free.len()
    }

    /// Adds a stream.
    pub fn insert(&mut self, number: u32, stream: Stream) -> StreamId {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.streams[usize::from(slot)] = stream;
                self.numbers[usize::from(slot)] = number;
                slot
            }
            None => {
                self.streams.push(stream);
                self.numbers.push(number);
                (self.streams.len() - 1) as u16
            }
        };
        StreamId { number, slot }
    }

    /// Removes a stream and gives what it was.
    pub fn remove(&mut self, id: StreamId) -> Option<Stream> {
        let number = self.numbers.get_mut(id.slot())?;
        if *number != id.number {
            return None;
        }
        *number = 0;
        self.free.push(id.slot);
        Some(self.streams[id.slot()].clone())
    }

    /// The stream, unless it was released.
    pub fn at(&mut self, id: StreamId) -> Option<&mut Stream> {
        if self.numbers.get(id.slot()) == Some(&id.number) {
            self.streams.get_mut(id.slot())
        } else {
            None
        }
    }

    /// As [`Streams::at`], to look only.
    pub fn look(&self, id: StreamId) -> Option<&Stream> {
        if self.numbers.get(id.slot()) == Some(&id.number) {
            self.streams.get(id.slot())
        } else {
            None
        }
    }

    /// The stream with this number, unless it was released.
    pub fn find(&self, number: u32) -> Option<StreamId> {
        let slot = self.numbers.iter().position(|known| *known == number)? as u16;
        (number != 0).then_some(StreamId { number, slot })
    }

    /// All streams.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        let numbered = self.numbers.iter().zip(&mut self.streams).enumerate();
        numbered
            .filter(|(_, (number, _))| **number != 0)
            .map(|(slot, (number, stream))| {
                let id = StreamId {
                    number: *number,
                    slot: slot as u16,
                };
                (id, stream)
            })
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Stream>()
            + self.numbers.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<u16>()
    }

    /// Gives back all memory if there are no streams.
    pub fn shrink(&mut self) {
        if self.len() == 0 {
            *self = Streams::default();
        }
    }
}
