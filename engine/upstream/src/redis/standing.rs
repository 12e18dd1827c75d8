//! Whether a Redis server can be reached, over all workers, and what calls to it have come to.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sluice_wire::resp::Reply;

use super::CallError;

/// A change that the operator should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// The server cannot be used, for this reason.
    Away(String),
    /// It can be used again.
    Back,
    /// It has refused a command with this error, which is about the command; reported once.
    Odd(String),
}

/// What calls have come to.
#[derive(Debug, Default)]
pub struct RedisCounts {
    /// Calls with a reply.
    pub replies: AtomicU64,
    /// Calls whose reply did not arrive within the deadline.
    pub timeouts: AtomicU64,
    /// Calls that the server refused, or whose connection was lost.
    pub errors: AtomicU64,
    /// Calls that were not made, because the server was away or too many were waiting.
    pub unavailable: AtomicU64,
    /// Microseconds that calls waited for replies.
    pub waited_micros: AtomicU64,
}

impl RedisCounts {
    pub(super) fn note(&self, result: &Result<Reply, CallError>, waited: Duration) {
        let counter = match result {
            Ok(_) => &self.replies,
            Err(CallError::Deadline) => &self.timeouts,
            Err(CallError::Lost | CallError::Refused(_)) => &self.errors,
            Err(CallError::Away | CallError::Busy) => &self.unavailable,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// The view of all workers.
pub(super) struct Standing {
    pub counts: RedisCounts,
    /// Workers that find the server away.
    away: AtomicUsize,
    /// Whether an error about a command was reported.
    is_odd: AtomicBool,
    on_change: Box<dyn Fn(&Reachability) + Send + Sync>,
}

impl Standing {
    pub fn new(on_change: impl Fn(&Reachability) + Send + Sync + 'static) -> Standing {
        Standing {
            counts: RedisCounts::default(),
            away: AtomicUsize::new(0),
            is_odd: AtomicBool::new(false),
            on_change: Box::new(on_change),
        }
    }

    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed) > 0
    }

    /// One more worker finds the server away.
    pub fn lose(&self, reason: &str) {
        if self.away.fetch_add(1, Ordering::Relaxed) == 0 {
            (self.on_change)(&Reachability::Away(reason.to_owned()));
        }
    }

    /// A worker that found it away has it back.
    pub fn find(&self) {
        if self.away.fetch_sub(1, Ordering::Relaxed) == 1 {
            (self.on_change)(&Reachability::Back);
        }
    }

    /// A worker that found it away no longer uses it.
    pub fn leave(&self) {
        self.away.fetch_sub(1, Ordering::Relaxed);
    }

    /// A command was refused with an error that is about the command.
    pub fn note_odd(&self, message: &str) {
        if !self.is_odd.swap(true, Ordering::Relaxed) {
            (self.on_change)(&Reachability::Odd(message.to_owned()));
        }
    }
}
