//! Wakes tasks of all workers that wait for the same event.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes all tasks that wait at that time.
#[derive(Clone, Debug, Default)]
pub struct Signal(Arc<Notify>);

impl Signal {
    /// Ready at the next [`Signal::raise`] after this call, even if that happens before the first poll.
    pub fn wait(&self) -> impl Future<Output = ()> + use<> {
        self.0.clone().notified_owned()
    }

    /// Wakes all waiting tasks.
    pub fn raise(&self) {
        self.0.notify_waiters();
    }
}
