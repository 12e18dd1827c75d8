//! Counters of a test upstream, published in a file that the lab can read at any time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::result::BackendCounts;

/// Interval between updates of the file.
pub const EVERY: Duration = Duration::from_millis(50);

/// Width of the line in the file: two numbers of at most 20 digits, a blank, a line break. The line is written in one
/// piece, so a reader never sees a partial one.
const LINE: usize = 42;

/// Counters and the file they are published in.
#[derive(Debug)]
pub struct Counter {
    /// What was counted.
    pub counts: BackendCounts,
    shown: Option<BackendCounts>,
    file: Option<File>,
    next: Instant,
}

impl Counter {
    /// Creates counters, published in a file if `path` is given. A file that cannot be created is not reported here:
    /// reading it fails later.
    pub fn new(path: Option<PathBuf>) -> Self {
        Counter {
            counts: BackendCounts::default(),
            shown: None,
            file: path.and_then(|path| File::create(path).ok()),
            next: Instant::now(),
        }
    }

    /// How long an idle server may sleep; `None` without limit.
    pub fn sleep_max(&self) -> Option<Duration> {
        let unseen = self.file.is_some() && self.shown.as_ref() != Some(&self.counts);
        unseen.then_some(EVERY)
    }

    /// Updates the file if [`EVERY`] has passed.
    pub fn show(&mut self) {
        let Some(file) = &self.file else { return };
        if self.shown.as_ref() == Some(&self.counts) || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        let BackendCounts { accepted, requests } = self.counts;
        let line = format!("{accepted:>20} {requests:>20}\n");
        debug_assert_eq!(line.len(), LINE);
        if file.write_all_at(line.as_bytes(), 0).is_ok() {
            self.shown = Some(self.counts.clone());
        }
    }
}

/// Reads the counter file of a running test upstream.
pub fn read_counts(path: &Path) -> Option<BackendCounts> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(accepted)), Some(Ok(requests))) => Some(BackendCounts { accepted, requests }),
        _ => None,
    }
}
