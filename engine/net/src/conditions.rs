//! The conditions under which the threads of workers run: user, CPUs, priority, connection limit.

use std::io;

use crate::connection_slots::SlotLimit;
use crate::sys;
use crate::sys::identity::Identity;
use crate::sys::placement::Processors;

/// How the threads of workers run. The defaults are inherited from the thread that starts them.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// The user to run as; if the thread cannot become this user, it does not start.
    pub identity: Option<Identity>,
    /// The CPUs of each worker; the last entry applies to all further workers.
    pub processors: Vec<Processors>,
    /// Their nice value, from -20 (highest priority) to 19.
    pub priority: Option<i32>,
    /// Their scheduling class.
    pub scheduling: Scheduling,
    /// The connection limit of each worker; unlimited if `None`.
    pub slots: Option<SlotLimit>,
    /// Called by each worker whenever it is about to wait for events, and when it ends. It must not panic.
    pub before_wait: Option<fn()>,
}

/// The scheduling class of worker threads (sched(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// That of the thread that starts them.
    #[default]
    Inherited,
    /// SCHED_BATCH: a worker that becomes ready does not preempt a running thread. Where it shares a CPU with application
    /// processes, these finish several requests before the worker takes the responses, which saves switches between
    /// them, but a single response waits longer.
    Batch,
}

impl Conditions {
    /// Applies the conditions to the calling thread, worker `index`. If CPUs, priority or class cannot be set, the thread
    /// runs without.
    pub(crate) fn take(&self, index: usize) -> io::Result<()> {
        let processors = self.processors.get(index).or(self.processors.last());
        if let Some(processors) = processors {
            let _ = processors.bind();
        }
        if let Some(priority) = self.priority {
            let _ = sys::placement::prefer(priority);
        }
        if self.scheduling == Scheduling::Batch {
            let _ = sys::placement::batch();
        }
        // Last, because the previous steps may need root.
        self.identity.as_ref().map_or(Ok(()), Identity::assume)
    }
}
