//! A body that is stored while it is read. If its client leaves it is read on without it, as in nginx: others may wait
//! for what it holds.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_cache::store::{Fill, Lead, Updating};
use sluice_message::Fields;
use sluice_net::upstream::in_background;
use sluice_net::{BodyStream, Failure, Worker};

use crate::limits::CACHE_LEFT_MAX;

/// A body that is stored while it is read.
pub(super) struct Tee {
    worker: Rc<Worker>,
    /// What is left to be done; nothing once it is, or was given away.
    work: Option<Work>,
    /// How much of what is shown was stored before.
    seen: usize,
    /// Whether its client has left.
    is_left: bool,
}

struct Work {
    stream: Box<dyn BodyStream>,
    /// None once the answer is stored.
    fill: Option<Fill>,
    /// Others wait as long as this lives.
    _turn: (Option<Lead>, Option<Updating>),
}

impl Tee {
    pub fn new(
        worker: &Rc<Worker>,
        stream: Box<dyn BodyStream>,
        fill: Fill,
        turn: (Option<Lead>, Option<Updating>),
    ) -> Tee {
        Tee {
            worker: worker.clone(),
            work: Some(Work {
                stream,
                fill: Some(fill),
                _turn: turn,
            }),
            seen: 0,
            is_left: false,
        }
    }
}

impl BodyStream for Tee {
    fn len(&self) -> Option<u64> {
        match &self.work {
            Some(work) => work.stream.len(),
            None => Some(0),
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(Ok(&[]));
        };
        let data = match ready!(work.stream.poll_data(cx)) {
            Ok(data) => data,
            Err(failure) => {
                // It is not whole: nothing is stored, and nobody waits for it any longer.
                work.fill = None;
                work._turn = (None, None);
                return Poll::Ready(Err(failure));
            }
        };
        if let Some(fresh) = data.get(self.seen..).filter(|fresh| !fresh.is_empty()) {
            if let Some(fill) = &mut work.fill {
                fill.write(fresh);
            }
            self.seen = data.len();
        }
        if data.is_empty()
            && let Some(fill) = work.fill.take()
        {
            fill.finish();
            work._turn = (None, None);
        }
        Poll::Ready(Ok(data))
    }

    fn consume(&mut self, count: usize) {
        if let Some(work) = &mut self.work {
            work.stream.consume(count);
            self.seen = self.seen.saturating_sub(count);
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.work.as_mut()?.stream.trailers()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        let is_wanted = |work: &Work| work.fill.as_ref().is_some_and(Fill::is_going_on);
        let Some(work) = self.work.take().filter(is_wanted) else {
            return;
        };
        // A process that ends takes no more work on.
        if self.is_left || self.worker.draining.get() {
            return;
        }
        if let Some(left) = Left::enter(&self.worker) {
            let mut rest = Tee {
                worker: self.worker.clone(),
                work: Some(work),
                seen: self.seen,
                is_left: true,
            };
            in_background(async move {
                read_on(&mut rest).await;
                drop(left);
            });
        }
    }
}

/// Reads a body to its end.
pub(super) async fn read_on(body: &mut dyn BodyStream) {
    loop {
        let count = poll_fn(|cx| body.poll_data(cx).map_ok(<[u8]>::len)).await;
        match count {
            Ok(count) if count > 0 => body.consume(count),
            Ok(_) | Err(_) => return,
        }
    }
}

/// Counts what one worker reads on without a client.
#[derive(Default)]
struct Count(Cell<usize>);

/// One of those that a worker reads on without a client.
pub(super) struct Left(Rc<Count>);

impl Left {
    /// Counts one more, if there is room.
    pub fn enter(worker: &Worker) -> Option<Left> {
        let count = worker.local::<Count>();
        if count.0.get() >= CACHE_LEFT_MAX {
            return None;
        }
        count.0.set(count.0.get() + 1);
        Some(Left(count))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}
