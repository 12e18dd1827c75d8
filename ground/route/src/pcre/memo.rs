//! Remembers, for each point of a pattern, from which positions nothing matches. A failed attempt is never repeated, so
//! a match takes at most one step per point of the pattern for each byte of the text.
//!
//! This is sound if the outcome of all attempts from a point depends only on the position. Backreferences depend on the
//! text of groups, and repetitions whose iterations may be empty depend on where an iteration began, so what follows
//! the former or lies within the latter is not a memoized point. Lookaround depends on the position and on the text,
//! neither of which changes. Only failures are remembered, so the first match, and with it every group, is the same as
//! without memoization.

use alloc::vec;
use alloc::vec::Vec;

use super::program::Point;
use crate::limits::PATTERN_MEMO_BYTES_MAX;

/// A stretch that no position lies in.
const NO_STRETCH: (usize, usize) = (1, 0);

/// A bit for each of the first points and each position.
#[derive(Debug, Default)]
pub struct Memo {
    bits: Vec<u64>,
    /// Words of one point.
    stride: usize,
    /// How many points there is room for.
    points: u32,
    /// For each point a stretch without an open position, both ends included: it is not looked through again.
    closed: Vec<(usize, usize)>,
    looked: usize,
}

impl Memo {
    /// Room for so many points in a text of this length, or for as many as the limit allows.
    pub fn new(points: u32, length: usize) -> Memo {
        let stride = length / 64 + 1;
        let room = PATTERN_MEMO_BYTES_MAX / (stride * 8);
        let points = points.min(u32::try_from(room).unwrap_or(u32::MAX));
        Memo {
            bits: vec![0; points as usize * stride],
            stride,
            points,
            closed: vec![NO_STRETCH; points as usize],
            looked: 0,
        }
    }

    fn row(&self, point: Point) -> Option<usize> {
        (point.0 < self.points).then(|| point.0 as usize * self.stride)
    }

    /// Whether nothing matches from there on.
    pub fn has(&self, point: Point, at: usize) -> bool {
        self.row(point)
            .is_some_and(|row| self.bits[row + at / 64] & (1 << (at % 64)) != 0)
    }

    /// Notes that nothing does.
    pub fn add(&mut self, point: Point, at: usize) {
        if let Some(row) = self.row(point) {
            self.bits[row + at / 64] |= 1 << (at % 64);
        }
    }

    /// The same for all positions from `low` up to `high`, both included.
    pub fn add_range(&mut self, point: Point, low: usize, high: usize) {
        let Some(row) = self.row(point) else { return };
        for word in low / 64..=high / 64 {
            self.bits[row + word] |= mask(word, low, high);
        }
    }

    /// The last position from `low` up to `high` that is not known to lead nowhere.
    pub fn last_open(&mut self, point: Point, low: usize, high: usize) -> Option<usize> {
        let Some(row) = self.row(point) else {
            return Some(high);
        };
        let (first, last) = self.closed[point.0 as usize];
        let begin = match first <= high && high <= last {
            true if first <= low => return None,
            true => first - 1,
            false => high,
        };
        let words = low / 64..=begin / 64;
        let found = words.rev().find_map(|word| {
            self.looked += 1;
            let open = !self.bits[row + word] & mask(word, low, begin);
            (open != 0).then(|| word * 64 + 63 - open.leading_zeros() as usize)
        });
        self.close(point, found.map_or(low, |open| open + 1), high);
        found
    }

    /// The first one.
    pub fn first_open(&mut self, point: Point, low: usize, high: usize) -> Option<usize> {
        let Some(row) = self.row(point) else {
            return Some(low);
        };
        let (first, last) = self.closed[point.0 as usize];
        let begin = match first <= low && low <= last {
            true if high <= last => return None,
            true => last + 1,
            false => low,
        };
        let found = (begin / 64..=high / 64).find_map(|word| {
            self.looked += 1;
            let open = !self.bits[row + word] & mask(word, begin, high);
            (open != 0).then(|| word * 64 + open.trailing_zeros() as usize)
        });
        let end = found.map_or(Some(high), |open| open.checked_sub(1));
        if let Some(end) = end {
            self.close(point, low, end);
        }
        found
    }

    /// Notes that there is no open position from `first` up to `last`: with what it touches, or in place of a shorter
    /// stretch.
    fn close(&mut self, point: Point, first: usize, last: usize) {
        if first > last {
            return;
        }
        let closed = &mut self.closed[point.0 as usize];
        let is_none = closed.0 > closed.1;
        if !is_none && first <= closed.1 + 1 && closed.0 <= last + 1 {
            *closed = (closed.0.min(first), closed.1.max(last));
        } else if is_none || last - first >= closed.1 - closed.0 {
            *closed = (first, last);
        }
    }

    /// How many words were looked at since this was asked.
    pub fn take_looked(&mut self) -> usize {
        core::mem::take(&mut self.looked)
    }
}

/// The bits of a word that stand for positions from `low` up to `high`.
fn mask(word: usize, low: usize, high: usize) -> u64 {
    let first = low.max(word * 64) - word * 64;
    let last = high.min(word * 64 + 63) - word * 64;
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_positions_are_found_from_both_ends() {
        let mut memo = Memo::new(2, 200);
        let one = Point(1);
        assert_eq!(memo.last_open(one, 3, 200), Some(200));
        memo.add_range(one, 60, 200);
        memo.add(one, 3);
        assert!(memo.has(one, 130) && memo.has(one, 3) && !memo.has(one, 4));
        assert!(!memo.has(Point(0), 130));
        assert_eq!(memo.last_open(one, 3, 200), Some(59));
        assert_eq!(memo.first_open(one, 3, 200), Some(4));
        assert_eq!(memo.last_open(one, 64, 64), None);
        assert_eq!(memo.first_open(one, 60, 200), None);
    }

    #[test]
    fn what_there_is_no_room_for_stays_open() {
        let mut memo = Memo::new(u32::MAX - 1, 32 << 10);
        assert!(memo.bits.len() * 8 <= PATTERN_MEMO_BYTES_MAX);
        for point in [Point(memo.points), Point::NONE] {
            memo.add(point, 7);
            memo.add_range(point, 0, 9);
            assert!(!memo.has(point, 7));
            assert_eq!(memo.last_open(point, 2, 9), Some(9));
            assert_eq!(memo.first_open(point, 2, 9), Some(2));
        }
    }
}
