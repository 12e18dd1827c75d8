//! What the status, the metrics and the log show of a node's source.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sluice_observe::sources::{ConfigSource, ConfigSourceStanding};

/// The state of the source of a node's configuration, shared with the pages that show it.
#[derive(Debug, Default)]
pub struct FollowerStanding(Mutex<ConfigSourceStanding>);

impl FollowerStanding {
    pub(super) fn edit(&self) -> MutexGuard<'_, ConfigSourceStanding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConfigSource for FollowerStanding {
    fn standing(&self) -> ConfigSourceStanding {
        self.edit().clone()
    }
}
