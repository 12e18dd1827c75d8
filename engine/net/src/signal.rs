//! Waking tasks of all workers that wait for the same thing. What has happened is left to whoever shares it.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes everybody who waits at that time.
#[derive(Clone, Debug, Default)]
pub struct Signal(Arc<Notify>);

impl Signal {
    /// Ready at the next [`Signal::raise`] from now on, even where that comes before the first poll.
    pub fn wait(&self) -> impl Future<Output = ()> + use<> {
        self.0.clone().notified_owned()
    }

    /// Wakes them.
    pub fn raise(&self) {
        self.0.notify_waiters();
    }
}
