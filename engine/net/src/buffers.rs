//! A pool of read buffers for one worker, so that idle connections hold none.

use std::cell::RefCell;

use crate::limits::{BODY_BUFFER_BYTES, BUFFERS_KEPT_MAX, READ_BUFFER_BYTES};

/// The buffer pool of a worker.
#[derive(Default)]
pub struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer with a capacity of [`READ_BUFFER_BYTES`].
    pub fn small(&self) -> Vec<u8> {
        self.small
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(READ_BUFFER_BYTES))
    }

    /// An empty buffer with a capacity of [`BODY_BUFFER_BYTES`].
    pub fn large(&self) -> Vec<u8> {
        self.large
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BODY_BUFFER_BYTES))
    }

    /// Returns a buffer to the pool. A buffer of any other capacity is freed.
    pub fn give_back(&self, mut buf: Vec<u8>) {
        let shelf = match buf.capacity() {
            READ_BUFFER_BYTES => &self.small,
            BODY_BUFFER_BYTES => &self.large,
            _ => return,
        };
        let mut shelf = shelf.borrow_mut();
        if shelf.len() < BUFFERS_KEPT_MAX {
            buf.clear();
            shelf.push(buf);
        }
    }
}
