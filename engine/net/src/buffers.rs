//! A pool of read buffers for one worker, so that idle connections hold none.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::limits::{
    BODY_BUFFER_BYTES, BUFFERS_KEPT_MAX, BULK_BUFFER_BYTES, BULK_BUFFERS_KEPT_MAX,
    MEMORY_MEASURED_BYTES, READ_BUFFER_BYTES,
};
use crate::memory::MemoryLimit;

/// The buffer pool of a worker.
#[derive(Default)]
pub struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
    bulk: RefCell<Vec<Vec<u8>>>,
    /// Whether memory is scarce: large buffers are as small as small ones, and none is kept.
    is_scarce: Cell<bool>,
    /// Bytes allocated since memory was measured because of them.
    allocated: Cell<usize>,
    limit: Arc<MemoryLimit>,
}

impl Buffers {
    /// An empty pool of a process with this memory limit.
    pub(crate) fn of(limit: Arc<MemoryLimit>) -> Buffers {
        Buffers {
            limit,
            ..Buffers::default()
        }
    }

    /// Notes that memory for data of clients or upstreams was allocated. Much may be within one tick, so memory is also
    /// measured each time that [`MEMORY_MEASURED_BYTES`] were.
    pub fn note_allocated(&self, bytes: usize) {
        let allocated = self.allocated.get() + bytes;
        if allocated < MEMORY_MEASURED_BYTES {
            return self.allocated.set(allocated);
        }
        self.allocated.set(0);
        self.limit.measure_now();
    }

    fn allocate(&self, bytes: usize) -> Vec<u8> {
        self.note_allocated(bytes);
        Vec::with_capacity(bytes)
    }

    /// An empty buffer with a capacity of [`READ_BUFFER_BYTES`].
    pub fn small(&self) -> Vec<u8> {
        self.take(&self.small, READ_BUFFER_BYTES)
    }

    /// An empty buffer with a capacity of [`BODY_BUFFER_BYTES`], or [`READ_BUFFER_BYTES`] while memory is scarce.
    pub fn large(&self) -> Vec<u8> {
        self.take_unless_scarce(&self.large, BODY_BUFFER_BYTES)
    }

    /// An empty buffer with a capacity of [`BULK_BUFFER_BYTES`], or [`READ_BUFFER_BYTES`] while memory is scarce.
    pub fn bulk(&self) -> Vec<u8> {
        self.take_unless_scarce(&self.bulk, BULK_BUFFER_BYTES)
    }

    fn take_unless_scarce(&self, shelf: &RefCell<Vec<Vec<u8>>>, bytes: usize) -> Vec<u8> {
        match self.is_scarce.get() {
            true => self.small(),
            false => self.take(shelf, bytes),
        }
    }

    /// A buffer of a shelf, which holds those of this capacity.
    fn take(&self, shelf: &RefCell<Vec<Vec<u8>>>, bytes: usize) -> Vec<u8> {
        let pooled = shelf.borrow_mut().pop();
        pooled.unwrap_or_else(|| self.allocate(bytes))
    }

    /// Moves the part of `buf` from `begin` to a small buffer if it fits and `buf` is one for bulk: it has to wait. Returns
    /// whether it was moved.
    pub fn shrink(&self, buf: &mut Vec<u8>, begin: usize) -> bool {
        let fits = buf.len() - begin <= READ_BUFFER_BYTES;
        if buf.capacity() != BULK_BUFFER_BYTES || !fits {
            return false;
        }
        let mut small = self.small();
        small.extend_from_slice(&buf[begin..]);
        self.give_back(std::mem::replace(buf, small));
        true
    }

    /// Says whether memory is scarce. If it is, frees the buffers in the pool, and returns how many.
    pub(crate) fn set_scarce(&self, is_scarce: bool) -> usize {
        self.is_scarce.set(is_scarce);
        if !is_scarce {
            return 0;
        }
        self.small.take().len() + self.large.take().len() + self.bulk.take().len()
    }

    /// Returns a buffer to the pool. A buffer of any other capacity is freed.
    pub fn give_back(&self, mut buf: Vec<u8>) {
        let (shelf, kept_max) = match buf.capacity() {
            READ_BUFFER_BYTES => (&self.small, BUFFERS_KEPT_MAX),
            BODY_BUFFER_BYTES => (&self.large, BUFFERS_KEPT_MAX),
            BULK_BUFFER_BYTES => (&self.bulk, BULK_BUFFERS_KEPT_MAX),
            _ => return,
        };
        let mut shelf = shelf.borrow_mut();
        if shelf.len() < kept_max && !self.is_scarce.get() {
            buf.clear();
            shelf.push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_memory_is_scarce_buffers_are_small_and_none_is_kept() {
        let buffers = Buffers::default();
        let (small, large) = (buffers.small(), buffers.large());
        assert_eq!(large.capacity(), BODY_BUFFER_BYTES);
        let bulk = buffers.bulk();
        assert_eq!(bulk.capacity(), BULK_BUFFER_BYTES);
        buffers.give_back(small);
        buffers.give_back(large);
        buffers.give_back(bulk);
        assert_eq!(buffers.set_scarce(true), 3);
        for scarce in [buffers.large(), buffers.bulk()] {
            assert_eq!(scarce.capacity(), READ_BUFFER_BYTES);
            buffers.give_back(scarce);
        }
        assert_eq!(buffers.set_scarce(true), 0);
        buffers.set_scarce(false);
        assert_eq!(buffers.large().capacity(), BODY_BUFFER_BYTES);
        assert_eq!(buffers.bulk().capacity(), BULK_BUFFER_BYTES);
    }

    #[test]
    fn few_buffers_for_bulk_are_kept() {
        let buffers = Buffers::default();
        let all: Vec<_> = (0..=BULK_BUFFERS_KEPT_MAX)
            .map(|_| buffers.bulk())
            .collect();
        all.into_iter().for_each(|buf| buffers.give_back(buf));
        assert_eq!(buffers.set_scarce(true), BULK_BUFFERS_KEPT_MAX);
    }

    #[test]
    fn what_has_to_wait_in_a_buffer_for_bulk_moves_to_a_small_one_if_it_fits() {
        let buffers = Buffers::default();
        let mut buf = buffers.bulk();
        buf.resize(READ_BUFFER_BYTES + 2, b'x');
        buf[1] = b'y';
        assert!(!buffers.shrink(&mut buf, 1), "it does not fit");
        assert_eq!(buf.capacity(), BULK_BUFFER_BYTES);
        buf.pop();
        assert!(buffers.shrink(&mut buf, 1));
        assert_eq!(buf.capacity(), READ_BUFFER_BYTES);
        assert_eq!((buf.len(), buf[0]), (READ_BUFFER_BYTES, b'y'));
        assert!(!buffers.shrink(&mut buf, 1), "it is small already");
    }
}
