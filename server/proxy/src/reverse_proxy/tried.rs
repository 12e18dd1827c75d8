//! The upstreams that a request was sent to.

use std::sync::Arc;

use sluice_message::Moment;

use super::upstream::Upstream;

/// The upstreams that a request has been sent to unsuccessfully.
#[derive(Debug)]
pub struct Tried {
    /// Identified by the address of their load counter, which remains the same when DNS adds other upstreams.
    pub(super) upstreams: Vec<usize>,
    count: u32,
    since: Moment,
    /// The maximum number of attempts, if it depends on the request.
    count_max: u32,
}

impl Tried {
    /// The state before the first attempt.
    pub fn since(now: Moment) -> Tried {
        Tried {
            upstreams: Vec::new(),
            count: 0,
            since: now,
            count_max: u32::MAX,
        }
    }

    /// The same with a maximum number of attempts.
    pub fn at_most(self, count_max: u32) -> Tried {
        Tried { count_max, ..self }
    }

    /// The maximum number of attempts that makes sense with the available upstreams.
    pub fn count_max(&self) -> u32 {
        self.count_max
    }

    /// When the first attempt began.
    pub fn began(&self) -> Moment {
        self.since
    }

    /// Records an attempt, with its upstream if one was available.
    pub fn add(&mut self, upstream: Option<&Upstream>) {
        self.count += 1;
        self.upstreams.extend(upstream.map(place));
    }

    /// The number of attempts.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// What identifies an upstream among those that were tried.
pub(super) fn place(upstream: &Upstream) -> usize {
    Arc::as_ptr(&upstream.load).addr()
}
