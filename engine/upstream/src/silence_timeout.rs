//! The limit on the time for which an upstream may be silent.

use std::task::{Context, Poll};
use std::time::Duration;

use sluice_net::failure::{Failure, FailureKind, Side};
use sluice_net::timer::Timer;
use sluice_net::worker::Worker;

/// A limit on the time without progress.
#[derive(Default)]
pub(crate) struct Silence {
    timer: Option<Timer>,
    progress: u64,
}

impl Silence {
    /// Ready with a failure when `limit` has passed since `progress` last changed.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        limit: Option<Duration>,
        progress: u64,
    ) -> Poll<Failure> {
        let Some(limit) = limit else {
            return Poll::Pending;
        };
        let timer = match &self.timer {
            Some(timer) if self.progress == progress => timer,
            _ => {
                self.progress = progress;
                let timer = self.timer.get_or_insert_with(|| worker.timers.timer());
                timer.set(&worker.clock, limit);
                timer
            }
        };
        timer
            .poll_expired(cx)
            .map(|()| Failure::new(Side::Upstream, FailureKind::Timeout))
    }
}

/// The shorter of two limits, if there are any.
pub(crate) fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
