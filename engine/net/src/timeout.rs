//! Limits the time of a future.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::worker::Worker;

/// The result of `work`, or `None` if it takes longer than `limit`.
pub async fn within<T>(
    worker: &Worker,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let timer = worker.timers.timer();
    timer.set(&worker.clock, limit);
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => timer.poll_expired(cx).map(|()| None),
    })
    .await
}

/// Like [`within`], with a timer of its own that fires to the millisecond: for short times that matter.
pub async fn within_exactly<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}
