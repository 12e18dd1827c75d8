//! A pool of read buffers for one worker, so that idle connections hold none.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::limits::{
    BODY_BUFFER_BYTES, BUFFERS_KEPT_MAX, MEMORY_MEASURED_BYTES, READ_BUFFER_BYTES,
};
use crate::memory::MemoryLimit;

/// The buffer pool of a worker.
#[derive(Default)]
pub struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
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
        self.small
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| self.allocate(READ_BUFFER_BYTES))
    }

    /// An empty buffer with a capacity of [`BODY_BUFFER_BYTES`], or [`READ_BUFFER_BYTES`] while memory is scarce.
    pub fn large(&self) -> Vec<u8> {
        if self.is_scarce.get() {
            return self.small();
        }
        self.large
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| self.allocate(BODY_BUFFER_BYTES))
    }

    /// Says whether memory is scarce. If it is, frees the buffers in the pool, and returns how many.
    pub(crate) fn set_scarce(&self, is_scarce: bool) -> usize {
        self.is_scarce.set(is_scarce);
        if !is_scarce {
            return 0;
        }
        self.small.take().len() + self.large.take().len()
    }

    /// Returns a buffer to the pool. A buffer of any other capacity is freed.
    pub fn give_back(&self, mut buf: Vec<u8>) {
        let shelf = match buf.capacity() {
            READ_BUFFER_BYTES => &self.small,
            BODY_BUFFER_BYTES => &self.large,
            _ => return,
        };
        let mut shelf = shelf.borrow_mut();
        if shelf.len() < BUFFERS_KEPT_MAX && !self.is_scarce.get() {
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
        buffers.give_back(small);
        buffers.give_back(large);
        assert_eq!(buffers.set_scarce(true), 2);
        let large = buffers.large();
        assert_eq!(large.capacity(), READ_BUFFER_BYTES);
        buffers.give_back(large);
        assert_eq!(buffers.set_scarce(true), 0);
        buffers.set_scarce(false);
        assert_eq!(buffers.large().capacity(), BODY_BUFFER_BYTES);
    }
}
