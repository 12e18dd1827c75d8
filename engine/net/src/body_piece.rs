//! The piece of a body that a stream has taken from its connection. The bodies of each protocol wait for content, and return
//! window to the peer when it is consumed.

use crate::buffers::Buffers;

/// Content that was taken from a connection and is consumed bit by bit.
#[derive(Debug, Default)]
pub struct BodyPiece {
    buf: Vec<u8>,
    /// How much of it has been consumed.
    used: usize,
    /// Content still to come or not consumed, if its length was declared.
    left: Option<u64>,
}

impl BodyPiece {
    /// Nothing yet, of a body of this length if it was declared.
    pub fn new(length: Option<u64>) -> BodyPiece {
        BodyPiece {
            left: length,
            ..BodyPiece::default()
        }
    }

    /// Content of the body that is still to come or not consumed, if its length was declared.
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    /// What is not consumed.
    pub fn rest(&self) -> &[u8] {
        &self.buf[self.used..]
    }

    /// The buffer for the next piece, without what is left of this one.
    pub fn refill(&mut self) -> &mut Vec<u8> {
        self.buf.clear();
        self.used = 0;
        &mut self.buf
    }

    /// Consumes `count` bytes from the front of the rest.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        self.used += count;
        assert!(
            self.used <= self.buf.len(),
            "only what was shown is consumed"
        );
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(count as u64);
        }
    }

    /// The body has ended.
    pub fn end(&mut self, buffers: &Buffers) {
        self.left = Some(0);
        self.give_back(buffers);
    }

    /// Returns the buffer, with what is left: a waiting body holds no memory.
    pub fn give_back(&mut self, buffers: &Buffers) {
        self.used = 0;
        buffers.give_back(std::mem::take(&mut self.buf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_consumed_bit_by_bit() {
        let buffers = Buffers::default();
        let mut piece = BodyPiece::new(Some(9));
        for (taken, left) in [(&b"1234"[..], 5), (b"5678", 1)] {
            piece.refill().extend_from_slice(taken);
            piece.consume(1);
            assert_eq!(piece.rest(), &taken[1..]);
            piece.consume(3);
            assert_eq!((piece.rest(), piece.left()), (&b""[..], Some(left)));
        }
        piece.end(&buffers);
        assert_eq!((piece.rest(), piece.left()), (&b""[..], Some(0)));
        let mut unbounded = BodyPiece::new(None);
        unbounded.refill().push(1);
        unbounded.consume(1);
        assert_eq!(unbounded.left(), None);
    }

    #[test]
    #[should_panic(expected = "only what was shown")]
    fn more_than_was_shown_is_not_consumed() {
        let mut piece = BodyPiece::new(None);
        piece.refill().push(1);
        piece.consume(2);
    }
}
