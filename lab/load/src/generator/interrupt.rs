//! A request to end a load early, so that Ctrl-C yields the figures measured so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by the signal handler that sets it and the loads that look at it. By default nothing sets it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// The flag, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Ends the loads that share it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether loads should end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
