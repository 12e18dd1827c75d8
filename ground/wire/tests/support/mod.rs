//! Helpers shared by several test programs of this package.

/// A small generator; all that matters is that a seed gives the same numbers everywhere.
pub struct Random(pub u64);

impl Random {
    /// A number; never the same twice in a row.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
