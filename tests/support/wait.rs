//! Waiting for what no descriptor announces: a condition is polled until it is true. The timeout is one that only a
//! fault exceeds, so no test depends on the speed of the machine.

use std::thread;
use std::time::{Duration, Instant};

/// Timeout of anything that takes milliseconds on an idle machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Interval between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits until a condition is true. `describe` describes the state if it does not become true.
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool, describe: impl Fn() -> String) {
    until(TIMEOUT, what, || is_true().then_some(()), describe);
}

/// Whether a condition becomes true, for tests that have to clean up if it does not.
pub fn happens(is_true: impl Fn() -> bool) -> bool {
    let end = Instant::now() + TIMEOUT;
    while !is_true() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
    true
}

/// Waits until there is a value. `describe` describes the state if none appears within `timeout`.
pub fn until<T>(
    timeout: Duration,
    what: &str,
    mut find: impl FnMut() -> Option<T>,
    describe: impl Fn() -> String,
) -> T {
    let end = Instant::now() + timeout;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(
            Instant::now() < end,
            "waited in vain for {what:?}:\n{}",
            describe()
        );
        thread::sleep(LOOK_EVERY);
    }
}
