//! Remembers the IDs of closed streams, as far as they matter for frames that may still arrive.

use alloc::collections::VecDeque;

use super::limits::{ENDED_REMEMBERED_MAX, RESET_REMEMBERED_MAX};

/// Streams that were released lately.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedStreams {
    /// Those that we reset: the peer may have sent something before it knew.
    reset: VecDeque<u32>,
    /// Those that the peer ended or reset: it knows that nothing may follow.
    ended: VecDeque<u32>,
}

/// What is known of a stream that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// We reset it.
    Reset,
    /// The peer ended it.
    Ended,
    /// It was over long ago, or never was.
    Unknown,
}

impl ClosedStreams {
    /// Remembers a stream that we reset.
    pub fn add_reset(&mut self, number: u32) {
        push(&mut self.reset, number, RESET_REMEMBERED_MAX);
    }

    /// Remembers a stream that the peer ended.
    pub fn add_ended(&mut self, number: u32) {
        push(&mut self.ended, number, ENDED_REMEMBERED_MAX);
    }

    /// What is known of a stream.
    pub fn look(&self, number: u32) -> Past {
        if self.reset.contains(&number) {
            Past::Reset
        } else if self.ended.contains(&number) {
            Past::Ended
        } else {
            Past::Unknown
        }
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        (self.reset.capacity() + self.ended.capacity()) * size_of::<u32>()
    }
}

fn push(numbers: &mut VecDeque<u32>, number: u32, max: usize) {
    if numbers.len() == max {
        numbers.pop_front();
    }
    numbers.push_back(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut closed = ClosedStreams::default();
        for number in 0..1000 {
            closed.add_reset(2 * number);
            closed.add_ended(2 * number + 1);
        }
        assert_eq!(closed.reset.len(), RESET_REMEMBERED_MAX);
        assert_eq!(closed.ended.len(), ENDED_REMEMBERED_MAX);
        assert_eq!(closed.look(1998), Past::Reset);
        assert_eq!(closed.look(1999), Past::Ended);
        assert_eq!(closed.look(0), Past::Unknown);
    }
}
