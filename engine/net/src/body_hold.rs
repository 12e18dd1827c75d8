//! Request bodies that wait under memory pressure.

use std::task::{Context, Poll};

use sluice_message::Moment;
use sluice_policy::memory::Pressure;

use crate::failure::{Failure, FailureKind, Side};
use crate::limits::BODY_HELD_TIMEOUT;
use crate::worker::Worker;

/// Whether a request body may be read. Under pressure, one that nothing was read of yet waits.
#[derive(Debug, Default)]
pub(crate) enum BodyHold {
    /// Nothing was read yet.
    #[default]
    New,
    /// It has waited since this time.
    Held(Moment),
    /// It is being read, and goes on.
    Begun,
}

impl BodyHold {
    /// Ready when the body may be read; fails if it has waited for too long.
    pub(crate) fn poll(
        &mut self,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        self.poll_at(worker.clock.coarse(), worker, cx)
    }

    fn poll_at(
        &mut self,
        now: Moment,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        if matches!(self, BodyHold::Begun) || worker.memory.level() < Pressure::HoldBodies {
            *self = BodyHold::Begun;
            return Poll::Ready(Ok(()));
        }
        match self {
            BodyHold::Held(since) if now.since(*since) >= BODY_HELD_TIMEOUT => {
                let failure = Failure::new(Side::Internal, FailureKind::Limit);
                return Poll::Ready(Err(failure.because("the memory limit is reached")));
            }
            BodyHold::Held(_) => {}
            BodyHold::New | BodyHold::Begun => {
                worker.counters.memory_bodies_held.up();
                *self = BodyHold::Held(now);
            }
        }
        worker.memory.hold(cx.waker());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn bodies_wait_only_before_they_begin_and_not_for_ever() {
        let worker = Worker::new(0, 1);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut begun, mut new) = (BodyHold::default(), BodyHold::default());
        assert!(begun.poll(&worker, &mut cx).is_ready());
        let set = |level| worker.memory.set_level(level);
        set(Pressure::HoldBodies);
        assert!(begun.poll(&worker, &mut cx).is_ready());
        assert!(new.poll(&worker, &mut cx).is_pending());
        assert_eq!(worker.counters.memory_bodies_held.value(), 1);
        set(Pressure::SmallBuffers);
        assert!(matches!(new.poll(&worker, &mut cx), Poll::Ready(Ok(()))));
        set(Pressure::Refuse);
        let (mut late, now) = (BodyHold::default(), worker.clock.coarse());
        assert!(late.poll_at(now, &worker, &mut cx).is_pending());
        let end = now + BODY_HELD_TIMEOUT;
        let Poll::Ready(Err(failure)) = late.poll_at(end, &worker, &mut cx) else {
            panic!("it does not wait for ever")
        };
        assert_eq!(
            (failure.side, failure.kind),
            (Side::Internal, FailureKind::Limit)
        );
    }
}
