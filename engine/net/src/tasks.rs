//! Tasks of a worker: starting them, and yielding to others.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// Runs `task` on this worker until it ends or the worker does, for example a health check.
///
/// # Panics
/// Outside of a worker's thread.
pub fn in_background(task: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(task);
}

/// Yields to all other ready tasks once.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
