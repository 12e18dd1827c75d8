//! What a backend has counted, in a file that whoever measures can read at any time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::result::BackendCounts;

/// How often the file is brought up to date.
pub const EVERY: Duration = Duration::from_millis(50);

/// Width of the line in the file: two numbers of at most 20 digits, a blank, a line break. Written whole each time, so
/// a reader never sees a part of it.
const LINE: usize = 42;

/// Counters and the file that shows them.
#[derive(Debug)]
pub struct Counter {
    /// The counters.
    pub counts: BackendCounts,
    shown: Option<BackendCounts>,
    file: Option<File>,
    next: Instant,
}

impl Counter {
    /// Counters that are shown in a file, if one is named. A file that cannot be made shows nothing: whoever reads it
    /// will tell.
    pub fn new(path: Option<PathBuf>) -> Self {
        Counter {
            counts: BackendCounts::default(),
            shown: None,
            file: path.and_then(|path| File::create(path).ok()),
            next: Instant::now(),
        }
    }

    /// How long an idle server may sleep; `None` for as long as it likes.
    pub fn sleep_max(&self) -> Option<Duration> {
        let unseen = self.file.is_some() && self.shown.as_ref() != Some(&self.counts);
        unseen.then_some(EVERY)
    }

    /// Brings the file up to date, now and then.
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

/// Reads the file of a running backend.
pub fn read_counts(path: &Path) -> Option<BackendCounts> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(accepted)), Some(Ok(requests))) => Some(BackendCounts { accepted, requests }),
        _ => None,
    }
}
