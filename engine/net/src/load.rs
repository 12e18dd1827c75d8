//! Counts of the requests in progress at an upstream. A tunnel still counts after its call has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The load of an upstream, all workers together. It shares a cache line with the counts of the [`Arc`] around it,
/// which change together with it, and with nothing else, so a request to one upstream does not slow down those to
/// another.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicUsize,
    _line: [u64; 5],
}

impl Load {
    /// Number of requests in progress.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Counts one request as in progress until it is dropped.
pub struct Lease {
    load: Arc<Load>,
    /// Who waits for its end.
    ended: Option<Arc<Notify>>,
}

impl Lease {
    /// Counts a request to the upstream of `load`.
    pub fn new(load: &Arc<Load>) -> Lease {
        Lease::waking(load, None)
    }

    /// The same; its end wakes one of those that wait for `ended`.
    pub fn waking(load: &Arc<Load>, ended: Option<&Arc<Notify>>) -> Lease {
        load.in_flight.fetch_add(1, Ordering::Relaxed);
        Lease {
            load: load.clone(),
            ended: ended.cloned(),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.load.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(ended) = &self.ended {
            ended.notify_one();
        }
    }
}
