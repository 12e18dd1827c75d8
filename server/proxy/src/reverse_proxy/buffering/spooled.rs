//! A completely buffered request body: in a temporary file, in memory, or the first part in the file and the rest in
//! memory. It can be sent repeatedly, to one upstream after the other.

use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_net::spool::SpoolFile;
use sluice_net::{BodyStream, Failure, Side, Worker};

use crate::limits::BUFFER_PIECE_BYTES;

/// A completely buffered body.
pub(super) struct Spooled {
    worker: Rc<Worker>,
    file: Option<SpoolFile>,
    /// Bytes in the file, which precede those in memory.
    file_len: u64,
    pieces: Vec<Vec<u8>>,
    len: u64,
    /// Bytes consumed.
    taken: u64,
    /// Bytes read from the file, and how many of them were consumed.
    window: Vec<u8>,
    window_at: usize,
    /// The index of the current piece in memory, and how many of its bytes were consumed.
    piece: usize,
    piece_at: usize,
}

impl Spooled {
    pub(super) fn new(
        worker: &Rc<Worker>,
        file: Option<(SpoolFile, u64)>,
        pieces: Vec<Vec<u8>>,
    ) -> Spooled {
        let (file, file_len) = match file {
            Some((file, len)) => (Some(file), len),
            None => (None, 0),
        };
        let in_memory: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        Spooled {
            worker: worker.clone(),
            file,
            file_len,
            len: file_len + in_memory,
            pieces,
            taken: 0,
            window: Vec::new(),
            window_at: 0,
            piece: 0,
            piece_at: 0,
        }
    }

    fn fill_window(&mut self) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let left = self.file_len - self.taken;
        if self.window.capacity() == 0 {
            self.window = self.worker.buffers.large();
        }
        self.window.clear();
        self.window_at = 0;
        let count = left.min(BUFFER_PIECE_BYTES as u64);
        file.read(
            &mut self.window,
            self.taken,
            usize::try_from(count).unwrap_or(0),
        )
        .map_err(|error| Failure::from_io(Side::Internal, error))
    }

    fn drop_window(&mut self) {
        self.window_at = 0;
        let window = std::mem::take(&mut self.window);
        self.worker.buffers.give_back(window);
    }
}

impl BodyStream for Spooled {
    fn len(&self) -> Option<u64> {
        Some(self.len - self.taken)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.taken < self.file_len {
            if self.window_at == self.window.len() {
                self.fill_window()?;
            }
            return Poll::Ready(Ok(&self.window[self.window_at..]));
        }
        if self.window.capacity() > 0 {
            self.drop_window();
        }
        while self
            .pieces
            .get(self.piece)
            .is_some_and(|piece| piece.len() == self.piece_at)
        {
            self.piece += 1;
            self.piece_at = 0;
        }
        let piece = self.pieces.get(self.piece).map(Vec::as_slice);
        Poll::Ready(Ok(&piece.unwrap_or_default()[self.piece_at..]))
    }

    fn consume(&mut self, count: usize) {
        if self.taken < self.file_len {
            self.window_at += count;
        } else {
            self.piece_at += count;
        }
        self.taken += count as u64;
    }

    fn is_rewindable(&self) -> bool {
        true
    }

    fn rewind(&mut self) {
        self.drop_window();
        (self.taken, self.piece, self.piece_at) = (0, 0, 0);
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.drop_window();
        let buffers = &self.worker.buffers;
        self.pieces.drain(..).for_each(|one| buffers.give_back(one));
    }
}
