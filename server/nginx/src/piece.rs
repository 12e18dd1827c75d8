//! The slice that a subrequest of `slice` is for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The slice that a request is for.
#[derive(Debug)]
pub struct Piece {
    /// The position of its first byte.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Whether `$slice_range` was evaluated; otherwise the upstream does not know of the slice.
    is_told: AtomicBool,
}

impl Piece {
    /// The slice of `size` bytes from `start`.
    pub fn new(start: u64, size: u64) -> Arc<Piece> {
        Arc::new(Piece {
            start,
            size,
            is_told: AtomicBool::new(false),
        })
    }

    /// The value of `$slice_range`.
    pub fn text(&self) -> String {
        let last = self.start.saturating_add(self.size - 1);
        format!("bytes={}-{last}", self.start)
    }

    /// Whether `$slice_range` was evaluated.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Notes that `$slice_range` was evaluated.
    pub fn tell(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }
}
