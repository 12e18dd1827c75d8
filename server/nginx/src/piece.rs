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
    is_used: AtomicBool,
}

impl Piece {
    /// The slice of `size` bytes from `start`.
    pub fn new(start: u64, size: u64) -> Arc<Piece> {
        Arc::new(Piece {
            start,
            size,
            is_used: AtomicBool::new(false),
        })
    }

    /// The value of `$slice_range`.
    pub fn text(&self) -> String {
        let last = self.start.saturating_add(self.size - 1);
        format!("bytes={}-{last}", self.start)
    }

    /// Whether `$slice_range` was evaluated.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Notes that `$slice_range` was evaluated.
    pub fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }
}
