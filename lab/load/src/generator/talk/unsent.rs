//! Requests that have not left wholly, in their order.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::generator::request::Prepared;

/// Requests that have not left wholly: which, and how many bytes of it have.
#[derive(Debug, Default)]
pub struct Unsent(VecDeque<(usize, usize)>);

impl Unsent {
    /// One more has to leave.
    pub fn push(&mut self, request: usize) {
        self.0.push_back((request, 0));
    }

    /// None has to leave any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a part of one has left and a part has not.
    pub fn is_begun(&self) -> bool {
        self.0.front().is_some_and(|(_, offset)| *offset > 0)
    }

    /// What is to be sent next, as far as there is room.
    pub fn pieces<'a>(&self, requests: &'a [Prepared], pieces: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slot, (request, offset)) in pieces.iter_mut().zip(&self.0) {
            *slot = IoSlice::new(&requests[*request].wire[*offset..]);
            count += 1;
        }
        count
    }

    /// So many bytes were taken.
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
