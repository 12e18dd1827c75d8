//! Thinning out of repeated entries. Which entries count as the same is decided here: those of one level.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::Level;
use super::options::SamplingOptions;

/// Counts entries and tells which to take.
#[derive(Debug)]
pub struct Sampler {
    options: SamplingOptions,
    levels: [Mutex<Window>; Level::ALL.len()],
}

#[derive(Debug, Default)]
struct Window {
    start: Option<SystemTime>,
    count: u64,
}

impl Sampler {
    /// A sampler that has seen nothing yet.
    pub fn new(options: SamplingOptions) -> Self {
        Sampler {
            options,
            levels: Default::default(),
        }
    }

    /// Whether an entry of `level` at `time` is taken.
    pub fn takes(&self, level: Level, time: SystemTime) -> bool {
        let mut window = self.levels[level as usize]
            .lock()
            .expect("nothing panics while counting");
        let age = window
            .start
            .map(|start| time.duration_since(start).unwrap_or(Duration::ZERO));
        if age.is_none_or(|age| age >= self.options.interval) {
            *window = Window {
                start: Some(time),
                count: 0,
            };
        }
        window.count += 1;
        if window.count <= self.options.first {
            return true;
        }
        let beyond = window.count - self.options.first;
        self.options.thereafter > 0 && beyond.is_multiple_of(self.options.thereafter)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn the_first_are_taken_and_then_each_nth_until_the_interval_ends() {
        let sampler = Sampler::new(SamplingOptions {
            interval: Duration::from_secs(1),
            first: 2,
            thereafter: 3,
        });
        let taken = |at: Duration| sampler.takes(Level::Info, UNIX_EPOCH + at);
        let second: Vec<bool> = (0..8).map(|_| taken(Duration::ZERO)).collect();
        assert_eq!(second, [true, true, false, false, true, false, false, true]);
        assert!(taken(Duration::from_secs(1)));
        assert!(
            sampler.takes(Level::Error, UNIX_EPOCH),
            "levels count apart"
        );
    }
}
