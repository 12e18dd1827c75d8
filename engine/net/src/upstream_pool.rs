//! The place of a worker for its pool of upstream connections, which a package above this one implements.

use std::any::Any;
use std::cell::OnceCell;

use sluice_message::Moment;

/// What a worker asks of its pool of upstream connections.
pub trait UpstreamPool: Any {
    /// Closes connections that were idle for too long or were closed by the upstream. Called at each tick of the
    /// worker.
    fn sweep(&self, now: Moment);

    /// Closes the connection idle longest, to make room; returns whether there was one.
    fn close_oldest(&self) -> bool;

    /// Closes all idle connections: the process is draining, or file descriptors have run out.
    fn clear(&self);
}

/// The pool, once something has asked for it.
#[derive(Default)]
pub(crate) struct PoolSlot(OnceCell<Box<dyn UpstreamPool>>);

impl PoolSlot {
    /// The pool, created at first use.
    pub(crate) fn or_default<P: UpstreamPool + Default>(&self) -> &P {
        let pool: &dyn Any = &**self.0.get_or_init(|| Box::<P>::default());
        pool.downcast_ref()
            .expect("a process has one type of upstream pool")
    }

    /// The pool, if there is one.
    pub(crate) fn get(&self) -> Option<&dyn UpstreamPool> {
        self.0.get().map(|pool| &**pool)
    }
}
