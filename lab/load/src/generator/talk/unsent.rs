//! Requests not sent in full, in order.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::generator::request::Prepared;

/// Requests not sent in full: index, and bytes already sent.
#[derive(Debug, Default)]
pub struct Unsent(VecDeque<(usize, usize)>);

impl Unsent {
    /// Queues a request.
    pub fn push(&mut self, request: usize) {
        self.0.push_back((request, 0));
    }

    /// Clears the queue.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a request is partly sent.
    pub fn is_begun(&self) -> bool {
        self.0.front().is_some_and(|(_, offset)| *offset > 0)
    }

    /// The next bytes to send, as far as there is room.
    pub fn pieces<'a>(&self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slot, (request, offset)) in pieces.iter_mut().zip(&self.0) {
            *slot = IoSlice::new(&requests[*request].wire[*offset..]);
            count += 1;
        }
        count
    }

    /// Advances the output by `bytes`.
    pub fn sent(&mut self, mut bytes: usize, requests: &[Prepared]) {
        while let Some((request, offset)) = self.0.front_mut() {
            let left = requests[*request].wire.len() - *offset;
            if bytes < left {
                *offset += bytes;
                return;
            }
            bytes -= left;
            self.0.pop_front();
        }
    }
}
