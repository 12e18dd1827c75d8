//! Interim responses sent before the final one: those of upstreams and our own `100 Continue`. They are sent as the
//! client accepts them; what is left goes out before the head of the final response.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use crate::limits::INTERIM_BYTES_MAX;
use crate::stream::Stream;

/// Bytes to send before the response. Rare, therefore in a separate allocation.
#[derive(Default)]
pub(super) struct Ahead(Cell<Option<Box<Waiting>>>);

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    sent: usize,
}

impl Ahead {
    /// Appends what `write` writes, unless too much is waiting already.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut waiting = self.0.take().unwrap_or_default();
        let before = waiting.bytes.len();
        write(&mut waiting.bytes);
        if waiting.bytes.len() - waiting.sent > INTERIM_BYTES_MAX {
            waiting.bytes.truncate(before);
        }
        self.0.set(Some(waiting));
    }

    /// Sends the waiting bytes. Ready when all of them are written.
    pub(super) fn poll_send(
        &self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut waiting) = self.0.take() else {
            return Poll::Ready(Ok(()));
        };
        let polled = waiting.poll_send(stream, cx);
        if polled.is_pending() {
            self.0.set(Some(waiting));
        }
        polled
    }

    /// Moves the unsent bytes to `out`, which is empty.
    pub(super) fn move_to(&self, out: &mut Vec<u8>) {
        if let Some(waiting) = self.0.take() {
            out.extend_from_slice(&waiting.bytes[waiting.sent..]);
        }
    }
}

impl Waiting {
    fn poll_send(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            let rest = IoSlice::new(&self.bytes[self.sent..]);
            match ready!(stream.poll_write(cx, &[rest]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        stream.poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_waits_than_the_limit() {
        let ahead = Ahead::default();
        for _ in 0..100 {
            ahead.push(|out| out.extend_from_slice(&[b'x'; 1000]));
        }
        let mut out = Vec::new();
        ahead.move_to(&mut out);
        assert_eq!(out.len(), INTERIM_BYTES_MAX / 1000 * 1000);
        ahead.move_to(&mut Vec::new());
        assert!(ahead.0.take().is_none(), "nothing is left");
    }
}
