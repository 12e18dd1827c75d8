//! The streams of a connection (RFC 9113, section 5.1), in places that are used again. Which frames move a stream
//! is left to `conn`.

/// A stream of one connection, for as long as its owner holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    number: u32,
    slot: u16,
}

impl StreamId {
    pub(crate) const fn new(number: u32, slot: u16) -> StreamId {
        StreamId { number, slot }
    }

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
