//! The result of active health checks for one upstream, which its directives and its group share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluice_message::Moment;

use crate::limits::CHECK_FAILURE_BYTES_MAX;

/// The state of an upstream according to active health checks.
#[derive(Debug, Default)]
pub struct Checked {
    /// The checks that found it to be down; a server of a group may have several.
    down: AtomicU32,
    /// When it recovered, in nanoseconds; 0 if it was never down.
    up_at: AtomicU64,
    /// Why the last check failed, if it did.
    failure: Mutex<Option<Box<str>>>,
}

impl Checked {
    /// Whether it is down.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed) > 0
    }

    /// Records that a check found it to be down, after it was up.
    pub fn down(&self) {
        self.down.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a check found it to be up, after it was down.
    pub fn up(&self, now: Moment) {
        let nanos = u64::try_from(now.since_start().as_nanos()).unwrap_or(u64::MAX);
        self.up_at.store(nanos.max(1), Ordering::Relaxed);
        self.forget();
    }

    /// Records why a check failed.
    pub fn note_failure(&self, why: &str) {
        let why = &why[..why.floor_char_boundary(CHECK_FAILURE_BYTES_MAX)];
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.into());
    }

    /// Why the last check that failed did so, if it is down.
    pub fn failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure
            .as_deref()
            .filter(|_| self.is_down())
            .map(str::to_owned)
    }

    /// Records the end of a check that found it to be down.
    pub fn forget(&self) {
        self.down.fetch_sub(1, Ordering::Relaxed);
    }

    /// When it recovered, if it was ever down.
    pub fn up_at(&self) -> Option<Moment> {
        let nanos = self.up_at.load(Ordering::Relaxed);
        (nanos > 0).then(|| Moment::START + Duration::from_nanos(nanos))
    }
}
