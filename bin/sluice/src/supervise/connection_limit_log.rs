//! nginx's `worker_connections`: computes the limit, and logs when it is exhausted.

use std::sync::Arc;

use sluice_model::ProcessApp;
use sluice_net::{Shortage, SlotLimit};
use sluice_observe::log::{CONNECTION_COUNTS, Log, Severity};

/// The maximum number of open files of the process, and the number of workers that share it.
pub struct Files {
    pub max: u64,
    pub workers: usize,
}

/// The connection limit of each worker, if the configuration sets one.
pub fn slot_limit(asked: &ProcessApp, log: &Log, files: Files) -> Option<SlotLimit> {
    let max = asked.worker_connections;
    if max == 0 {
        return None;
    }
    let wanted = u64::from(max).saturating_mul(files.workers as u64);
    if wanted > files.max {
        // In nginx each worker process may open this many files; here the workers share one process.
        log.warn("", "worker_connections exceed open file resource limit")
            .integer("connections", wanted)
            .integer("limit", files.max)
            .send();
    }
    let log = log.clone();
    let on_shortage = move |shortage| {
        let entry = match shortage {
            Shortage::Reused => log.warn(
                CONNECTION_COUNTS,
                "worker_connections are not enough, reusing connections",
            ),
            Shortage::Refused => log.entry(
                Severity::Alert,
                CONNECTION_COUNTS,
                "worker_connections are not enough",
            ),
        };
        entry.integer("worker_connections", u64::from(max)).send();
    };
    Some(SlotLimit {
        max: usize::try_from(max).unwrap_or(usize::MAX),
        on_shortage: Arc::new(on_shortage),
    })
}
