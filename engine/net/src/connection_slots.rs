//! Connection slots of one worker: client and upstream connections counted together, as nginx's `worker_connections`
//! does (<https://nginx.org/en/docs/ngx_core_module.html#worker_connections>). By default the number of slots is
//! unlimited; the process-wide limit on open files is `ConnectionLimit`.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::Moment;

use crate::limits::{PLACES_FREED_MAX, SLOT_WAIT_TURNS_MAX};
use crate::tasks::yield_once;
use crate::timer::Timers;

/// The connection limit of each worker, with a callback for when it is exhausted.
#[derive(Clone)]
pub struct SlotLimit {
    /// Maximum number of client and upstream connections together. As in nginx, listening sockets count, and one more
    /// for the process.
    pub max: usize,
    /// Called when slots are exhausted, at most once a second per worker and kind.
    pub on_shortage: Arc<dyn Fn(Shortage) + Send + Sync>,
}

impl fmt::Debug for SlotLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceLimit")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// What happens to connections without a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Idle connections are closed to make room.
    Reused,
    /// They are closed or not established: there is nothing idle to close.
    Refused,
}

/// The connection slots of one worker.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    max: Cell<usize>,
    taken: Cell<usize>,
    limit: RefCell<Option<SlotLimit>>,
    /// When each kind of exhaustion was last reported.
    last_reported: Cell<[Option<Moment>; 2]>,
}

/// An occupied connection slot; dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionSlot(Rc<ConnectionSlots>);

/// nginx closes idle connections once no more than this fraction of the slots is free. Here closing takes effect a
/// moment later, so at least one slot is kept free for new connections.
const SCARCE_PART: usize = 16;

/// nginx closes this fraction of the idle connections at once, so that not every new connection has to search for one.
const FREED_PART: usize = 8;

impl Default for ConnectionSlots {
    fn default() -> Self {
        ConnectionSlots {
            max: Cell::new(usize::MAX),
            taken: Cell::new(0),
            limit: RefCell::default(),
            last_reported: Cell::default(),
        }
    }
}

impl ConnectionSlots {
    /// Sets the limit.
    pub(crate) fn limit(&self, limit: SlotLimit) {
        self.max.set(limit.max);
        *self.limit.borrow_mut() = Some(limit);
    }

    /// Reserves `count` slots for other descriptors, mainly listening sockets.
    pub(crate) fn keep_back(&self, count: usize) {
        if let Some(limit) = &*self.limit.borrow() {
            self.max.set(limit.max.saturating_sub(count));
        }
    }

    /// The limit, including listening sockets; `None` if unlimited.
    fn limited_to(&self) -> Option<usize> {
        self.limit.borrow().as_ref().map(|limit| limit.max)
    }

    /// Whether few slots are free.
    fn are_scarce(&self) -> bool {
        let max = self.max.get();
        max - self.taken.get().min(max) <= (max / SCARCE_PART).max(1)
    }

    /// Takes a slot if one is free.
    fn take(self: &Rc<Self>) -> Option<ConnectionSlot> {
        let taken = self.taken.get();
        (taken < self.max.get()).then(|| {
            self.taken.set(taken + 1);
            ConnectionSlot(self.clone())
        })
    }

    /// Reports that slots are exhausted, at most once a second.
    fn on_shortage(&self, shortage: Shortage, now: Moment) {
        let mut last_reported = self.last_reported.get();
        let of_kind = &mut last_reported[shortage as usize];
        if of_kind.is_some_and(|at| now.since(at) < crate::limits::SHORTAGE_REPORT_INTERVAL) {
            return;
        }
        *of_kind = Some(now);
        self.last_reported.set(last_reported);
        if let Some(limit) = &*self.limit.borrow() {
            (limit.on_shortage)(shortage);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
    }
}

/// No slot is available; contains the limit.
#[derive(Debug)]
pub struct NoFreeSlot(usize);

impl fmt::Display for NoFreeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // nginx's wording, which its users know.
        write!(f, "{} worker_connections are not enough", self.0)
    }
}

/// Takes a slot for one more connection, closing idle connections if necessary: first the client connections idle
/// longest, which `timers` knows, then the upstream connections that `close_upstream` closes one by one while it returns
/// true.
pub(crate) async fn take(
    slots: &Rc<ConnectionSlots>,
    (timers, now): (&Timers, Moment),
    close_upstream: impl Fn() -> bool,
) -> Result<ConnectionSlot, NoFreeSlot> {
    if !slots.are_scarce()
        && let Some(slot) = slots.take()
    {
        return Ok(slot);
    }
    for _ in 0..SLOT_WAIT_TURNS_MAX {
        let freed = timers.expire_oldest_idle(PLACES_FREED_MAX, FREED_PART);
        if freed > 0 {
            slots.on_shortage(Shortage::Reused, now);
        }
        if let Some(slot) = slots.take() {
            return Ok(slot);
        }
        if freed == 0 && !close_upstream() {
            break;
        }
        // Expired connections close when their tasks run.
        yield_once().await;
    }
    slots.take().ok_or_else(|| {
        slots.on_shortage(Shortage::Refused, now);
        NoFreeSlot(slots.limited_to().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::worker::Worker;

    fn limited(max: usize) -> (Rc<ConnectionSlots>, Arc<Mutex<Vec<Shortage>>>) {
        let (slots, last_reported) = (
            Rc::new(ConnectionSlots::default()),
            Arc::<Mutex<Vec<Shortage>>>::default(),
        );
        let heard = last_reported.clone();
        slots.limit(SlotLimit {
            max,
            on_shortage: Arc::new(move |shortage| heard.lock().unwrap().push(shortage)),
        });
        (slots, last_reported)
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_is_gone() {
        assert!(
            !ConnectionSlots::default().are_scarce(),
            "slots are unlimited"
        );
        let (slots, _) = limited(34);
        slots.keep_back(2);
        let mut taken: Vec<ConnectionSlot> = (0..29).filter_map(|_| slots.take()).collect();
        assert!(!slots.are_scarce());
        taken.extend(slots.take());
        assert!(slots.are_scarce(), "two of 32 are left");
        taken.extend((0..9).filter_map(|_| slots.take()));
        assert_eq!(taken.len(), 32);
        assert!(slots.take().is_none());
        assert_eq!(slots.limited_to(), Some(34));
        taken.truncate(3);
        assert!(slots.take().is_some());
        assert!(!slots.are_scarce());
    }

    #[test]
    fn a_shortage_is_reported_once_a_second_for_each_kind() {
        let (slots, last_reported) = limited(1);
        for (after, shortage) in [
            (0, Shortage::Reused),
            (10, Shortage::Refused),
            (20, Shortage::Reused),
            (999, Shortage::Refused),
            (1000, Shortage::Reused),
        ] {
            slots.on_shortage(shortage, Moment::START + Duration::from_millis(after));
        }
        let expected = [Shortage::Reused, Shortage::Refused, Shortage::Reused];
        assert_eq!(*last_reported.lock().unwrap(), expected);
    }

    #[test]
    fn idle_connections_are_closed_for_new_ones() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let worker = Worker::new(0, 1);
            worker.slots.limit(SlotLimit {
                max: 4,
                on_shortage: Arc::new(|_| {}),
            });
            let idle = |seconds| {
                let (worker, slot) = (worker.clone(), worker.slots.take());
                tokio::task::spawn_local(async move {
                    let timer = worker.timers.timer();
                    timer.set_idle(&worker.clock, Duration::from_secs(seconds), Duration::ZERO);
                    std::future::poll_fn(|cx| timer.poll_expired(cx)).await;
                    drop(slot);
                })
            };
            let (first, second) = (idle(9), idle(5));
            yield_once().await;
            let busy = [worker.take_slot().await, worker.take_slot().await];
            assert!(busy.iter().all(Result::is_ok));
            let more = [worker.take_slot().await, worker.take_slot().await];
            assert!(more.iter().all(Result::is_ok));
            assert!(first.is_finished() && second.is_finished());
            let none = worker
                .take_slot()
                .await
                .expect_err("nobody is idle any more");
            assert_eq!(none.to_string(), "4 worker_connections are not enough");
        });
    }
}
