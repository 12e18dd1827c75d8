//! Reuse of read buffers within one worker, so that an idle connection holds none.

use std::cell::RefCell;

use crate::limits::{BODY_BUFFER_BYTES, BUFFERS_KEPT_MAX, READ_BUFFER_BYTES};

/// The spare buffers of a worker.
#[derive(Default)]
pub struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer with room for [`READ_BUFFER_BYTES`].
    pub fn small(&self) -> Vec<u8> {
        self.small
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(READ_BUFFER_BYTES))
    }

    /// An empty buffer with room for [`BODY_BUFFER_BYTES`].
    pub fn large(&self) -> Vec<u8> {
        self.large
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BODY_BUFFER_BYTES))
    }

    /// Takes a buffer back. One that has grown beyond its size or of another size is freed.
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
