//! The pace of the keeper thread: how many files it handles, and for how long, before it pauses.

use std::time::{Duration, Instant};

/// How much is done in one iteration, and the pause after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Maximum number of files per iteration.
    pub files: usize,
    /// Maximum duration of an iteration.
    pub threshold: Duration,
    /// The pause between two iterations.
    pub sleep: Duration,
}

/// An iteration under way.
pub(super) struct Iteration {
    pace: Pace,
    files: usize,
    began: Instant,
}

impl Iteration {
    pub(super) fn new(pace: Pace, now: Instant) -> Iteration {
        Iteration {
            pace,
            files: 0,
            began: now,
        }
    }

    /// Counts a file. The pause to make before the next one, if this iteration is over; the next one begins after it.
    pub(super) fn count(&mut self, now: Instant) -> Option<Duration> {
        self.files += 1;
        let is_over = self.files >= self.pace.files.max(1)
            || now.saturating_duration_since(self.began) >= self.pace.threshold;
        if !is_over {
            return None;
        }
        *self = Iteration::new(self.pace, now + self.pace.sleep);
        Some(self.pace.sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_end_by_files_and_by_time() {
        let pace = Pace {
            files: 3,
            threshold: Duration::from_millis(200),
            sleep: Duration::from_millis(50),
        };
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut iteration = Iteration::new(pace, start);
        let pause = Some(pace.sleep);
        // By the number of files.
        assert_eq!(iteration.count(at(1)), None);
        assert_eq!(iteration.count(at(2)), None);
        assert_eq!(iteration.count(at(3)), pause);
        // The pause is not part of the next iteration, which ends by time.
        assert_eq!(iteration.count(at(252)), None);
        assert_eq!(iteration.count(at(253)), pause);
        // Of no files at a time one is handled all the same.
        let mut none = Iteration::new(Pace { files: 0, ..pace }, start);
        assert_eq!(none.count(start), pause);
    }
}
