//! The common beginning of a load that several machines generate together: each reports when its connections are open, and
//! then begins its window at the moment that it is given.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::interrupt::Interrupt;

/// Interval of looks at the interrupt while waiting.
const LOOK: Duration = Duration::from_millis(20);

/// Shared by a load and its coordinator.
#[derive(Debug, Default)]
pub struct Barrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ramped: bool,
    begin: Option<Instant>,
}

impl Barrier {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// The connections are open, or the load has ended without.
    pub fn set_ramped(&self) {
        self.state().ramped = true;
        self.changed.notify_all();
    }

    /// Whether the beginning of the window is known.
    pub fn has_begin(&self) -> bool {
        self.state().begin.is_some()
    }

    /// Waits until the connections are open.
    pub fn wait_ramped(&self) {
        let mut state = self.state();
        while !state.ramped {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(|broken| broken.into_inner());
        }
    }

    /// The window begins then.
    pub fn begin_at(&self, begin: Instant) {
        self.state().begin = Some(begin);
        self.changed.notify_all();
    }

    /// Waits for the beginning of the window; `None` if the load is interrupted before it is known.
    pub fn wait_begin(&self, interrupt: &Interrupt) -> Option<Instant> {
        let mut state = self.state();
        while state.begin.is_none() && !interrupt.is_set() {
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(|broken| broken.into_inner()).0;
        }
        state.begin
    }
}
