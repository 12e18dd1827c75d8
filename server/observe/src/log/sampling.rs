//! Sampling of repeated entries, which are those with the same level and message.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::Level;
use super::limits::SAMPLING_KINDS;
use super::options::SamplingOptions;

/// Counts entries and decides which to accept.
#[derive(Debug)]
pub struct Sampler {
    options: SamplingOptions,
    /// For each level, by a hash of the message.
    windows: Box<[Mutex<Window>]>,
}

#[derive(Debug, Default)]
struct Window {
    start: Option<SystemTime>,
    count: u64,
}

impl Sampler {
    /// Creates a sampler with empty counters.
    pub fn new(options: SamplingOptions) -> Self {
        let count = Level::ALL.len() * SAMPLING_KINDS;
        Sampler {
            options,
            windows: (0..count).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether to accept an entry of `level` with this message at `time`.
    pub fn takes(&self, level: Level, message: &str, time: SystemTime) -> bool {
        let at = level as usize * SAMPLING_KINDS + hash(message) % SAMPLING_KINDS;
        let mut window = self.windows[at]
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

/// FNV-1a is sufficient: messages are our own constants, so collisions cannot be provoked.
fn hash(message: &str) -> usize {
    let hash = message
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (hash ^ (hash >> 32)) as usize
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
        let taken = |at: Duration| sampler.takes(Level::Info, "a", UNIX_EPOCH + at);
        let second: Vec<bool> = (0..8).map(|_| taken(Duration::ZERO)).collect();
        assert_eq!(second, [true, true, false, false, true, false, false, true]);
        assert!(taken(Duration::from_secs(1)));
        assert!(
            sampler.takes(Level::Error, "a", UNIX_EPOCH),
            "levels count apart"
        );
        let others = ["b", "c", "d"].map(|message| sampler.takes(Level::Info, message, UNIX_EPOCH));
        assert_eq!(others, [true; 3], "messages count apart");
    }
}
