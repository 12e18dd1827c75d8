//! The timeouts of a worker. They are many, mostly reset before they fire, and need no precision. They are therefore
//! slots in a table that is swept periodically: setting one costs a store instead of a timer-wheel operation or a
//! system call.

use std::cell::{Cell, RefCell};
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use sluice_message::Moment;

use crate::clock::Clock;

/// All timeouts of a worker.
#[derive(Default)]
pub struct Timers {
    slots: RefCell<Slab<Slot>>,
    /// Whether there may be idle timeouts; false only after a scan found none and none was set since.
    may_be_idle: Cell<bool>,
}

struct Slot {
    state: State,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unset,
    Until(Moment),
    /// Like `Until`, for a connection idle since the second moment: it is closed to make room for a new one.
    IdleUntil(Moment, Moment),
    /// Like `IdleUntil`, but not closed early when the process drains.
    YieldUntil(Moment, Moment),
    /// Becomes `IdleUntil` (with the second moment) at the first moment; until then it is not closed early.
    KeptUntil(Moment, Moment),
    /// Fires only when all idle connections are closed.
    Drain,
    Expired,
}

impl Timers {
    /// Creates a timeout that is not set.
    pub fn timer(self: &Rc<Self>) -> Timer {
        let slot = Slot {
            state: State::Unset,
            waker: None,
        };
        Timer {
            key: self.slots.borrow_mut().insert(slot),
            timers: self.clone(),
        }
    }

    /// Fires the timeouts due at `now` and wakes their tasks.
    pub fn sweep(&self, now: Moment) {
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            let next = match slot.state {
                State::Until(at) | State::IdleUntil(at, _) | State::YieldUntil(at, _) => {
                    (at <= now).then_some(State::Expired)
                }
                State::KeptUntil(at, end) if at <= now => {
                    self.may_be_idle.set(true);
                    Some(State::IdleUntil(end, now))
                }
                State::KeptUntil(..) | State::Unset | State::Drain | State::Expired => None,
            };
            if let Some(state) = next {
                slot.state = state;
                if let Some(waker) = &slot.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

impl Timers {
    /// Fires idle timeouts early, to make room: one in `part` of them, at least one and at most `max`, those idle
    /// longest. Returns how many.
    pub fn expire_oldest_idle(&self, max: usize, part: usize) -> usize {
        if !self.may_be_idle.get() {
            return 0;
        }
        let mut slots = self.slots.borrow_mut();
        // The longest idle ones, with the most recent of them on top.
        let mut oldest = BinaryHeap::with_capacity(max + 1);
        let mut found = 0;
        for (key, slot) in slots.iter() {
            if let State::IdleUntil(_, since) | State::YieldUntil(_, since) = slot.state {
                found += 1;
                oldest.push((since, key));
                if oldest.len() > max {
                    oldest.pop();
                }
            }
        }
        let count = (found / part).clamp(1, max);
        for (_, key) in oldest.into_sorted_vec().into_iter().take(count) {
            let slot = &mut slots[key];
            slot.state = State::Expired;
            if let Some(waker) = &slot.waker {
                waker.wake_by_ref();
            }
        }
        self.may_be_idle.set(found > count);
        count.min(found)
    }

    /// Fires all idle timeouts, and those set by [`Timer::set_for_drain`].
    pub fn expire_all_idle(&self) {
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            if matches!(slot.state, State::IdleUntil(..) | State::Drain) {
                slot.state = State::Expired;
                if let Some(waker) = &slot.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    /// Wakes the tasks of idle and drain timeouts without firing these: the condition that the tasks check has changed.
    pub fn wake_idle(&self) {
        for (_, slot) in self.slots.borrow().iter() {
            if matches!(slot.state, State::IdleUntil(..) | State::Drain)
                && let Some(waker) = &slot.waker
            {
                waker.wake_by_ref();
            }
        }
    }
}

/// One timeout; dropping it cancels it.
pub struct Timer {
    timers: Rc<Timers>,
    key: usize,
}

impl Timer {
    /// Sets the timeout to fire `after` the coarse time of `clock`, at the first sweep from then on. Replaces a
    /// previous setting.
    pub fn set(&self, clock: &Clock, after: Duration) {
        self.timers.slots.borrow_mut()[self.key].state = State::Until(clock.coarse() + after);
    }

    /// Like [`Timer::set`], for a connection between two requests: it fires early to make room, or when the process
    /// drains, but not before the connection was idle for `least`.
    pub fn set_idle(&self, clock: &Clock, after: Duration, least: Duration) {
        let now = clock.coarse();
        let state = match least.is_zero() {
            true => {
                self.timers.may_be_idle.set(true);
                State::IdleUntil(now + after, now)
            }
            false => State::KeptUntil(now + least.min(after), now + after),
        };
        self.timers.slots.borrow_mut()[self.key].state = state;
    }

    /// Whether it was set for an idle connection that must not be closed early yet.
    pub fn is_kept(&self) -> bool {
        let state = self.timers.slots.borrow()[self.key].state;
        matches!(state, State::KeptUntil(..))
    }

    /// Like [`Timer::set_idle`], for a connection that has not sent its first request yet: does not fire early when the
    /// process drains.
    pub fn set_yielding(&self, clock: &Clock, after: Duration) {
        let now = clock.coarse();
        self.timers.may_be_idle.set(true);
        self.timers.slots.borrow_mut()[self.key].state = State::YieldUntil(now + after, now);
    }

    /// Fires only when the process drains ([`Timers::expire_all_idle`]): for busy connections that have to notify their
    /// client.
    pub fn set_for_drain(&self) {
        self.timers.slots.borrow_mut()[self.key].state = State::Drain;
    }

    /// Whether it was set since it was last cleared; it may have fired meanwhile.
    pub fn is_set(&self) -> bool {
        self.timers.slots.borrow()[self.key].state != State::Unset
    }

    /// Cancels the timeout.
    pub fn clear(&self) {
        self.timers.slots.borrow_mut()[self.key].state = State::Unset;
    }

    /// Whether it has fired since it was set.
    pub fn has_expired(&self) -> bool {
        self.timers.slots.borrow()[self.key].state == State::Expired
    }

    /// Ready when it has fired; otherwise the task is woken when it does.
    pub fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.timers.slots.borrow_mut()[self.key];
        if slot.state == State::Expired {
            return Poll::Ready(());
        }
        match &slot.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            Some(_) | None => slot.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.timers.slots.borrow_mut().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_acts_once_it_is_due_and_not_before() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let timer = timers.timer();
        timer.set(&clock, Duration::from_secs(5));
        timers.sweep(clock.coarse() + Duration::from_secs(4));
        assert!(!timer.has_expired());
        timers.sweep(clock.coarse() + Duration::from_secs(5));
        assert!(timer.has_expired());
        timer.set(&clock, Duration::from_secs(9));
        assert!(!timer.has_expired());
    }

    #[test]
    fn a_timer_for_the_end_acts_at_the_end_only() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let timer = timers.timer();
        timer.set_for_drain();
        timers.sweep(clock.coarse() + Duration::from_secs(1_000_000));
        assert_eq!(timers.expire_oldest_idle(9, 1), 0, "it makes no room");
        assert!(!timer.has_expired());
        timers.expire_all_idle();
        assert!(timer.has_expired());
    }

    #[test]
    fn a_timer_that_yields_makes_room_and_does_not_end_early() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let (idle, yielding) = (timers.timer(), timers.timer());
        idle.set_idle(&clock, Duration::from_secs(9), Duration::ZERO);
        yielding.set_yielding(&clock, Duration::from_secs(5));
        timers.expire_all_idle();
        assert!(idle.has_expired() && !yielding.has_expired());
        assert_eq!(timers.expire_oldest_idle(9, 1), 1);
        assert!(yielding.has_expired());
        yielding.set_yielding(&clock, Duration::from_secs(5));
        timers.sweep(clock.coarse() + Duration::from_secs(5));
        assert!(yielding.has_expired());
    }

    #[test]
    fn a_part_of_those_that_are_idle_makes_room_at_most_so_many() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let all: Vec<Timer> = (0..24).map(|_| timers.timer()).collect();
        let expired = || all.iter().filter(|timer| timer.has_expired()).count();
        assert_eq!(timers.expire_oldest_idle(32, 8), 0);
        all.iter()
            .for_each(|timer| timer.set_idle(&clock, Duration::from_secs(9), Duration::ZERO));
        assert_eq!((timers.expire_oldest_idle(32, 8), expired()), (3, 3));
        assert!(all[..3].iter().all(Timer::has_expired), "the first ones");
        assert_eq!((timers.expire_oldest_idle(32, 8), expired()), (2, 5));
        assert_eq!((timers.expire_oldest_idle(10, 1), expired()), (10, 15));
        assert_eq!((timers.expire_oldest_idle(32, 99), expired()), (1, 16));
        assert_eq!((timers.expire_oldest_idle(32, 1), expired()), (8, 24));
        assert_eq!(timers.expire_oldest_idle(32, 1), 0);
        all[7].set_idle(&clock, Duration::from_secs(9), Duration::ZERO);
        assert_eq!(timers.expire_oldest_idle(32, 1), 1);
    }

    #[test]
    fn what_is_kept_makes_no_room_and_does_not_end_before_its_time() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let timer = timers.timer();
        timer.set_idle(&clock, Duration::from_secs(9), Duration::from_secs(5));
        assert!(timer.is_kept());
        timers.expire_all_idle();
        assert_eq!(timers.expire_oldest_idle(9, 1), 0);
        timers.sweep(clock.coarse() + Duration::from_secs(4));
        assert!(timer.is_kept());
        timers.sweep(clock.coarse() + Duration::from_secs(5));
        assert!(!timer.is_kept() && !timer.has_expired());
        assert_eq!(timers.expire_oldest_idle(9, 1), 1);
        assert!(timer.has_expired());
        // `least` is capped at the timeout itself.
        timer.set_idle(&clock, Duration::from_secs(2), Duration::from_secs(5));
        timers.sweep(clock.coarse() + Duration::from_secs(2));
        timers.sweep(clock.coarse() + Duration::from_secs(2));
        assert!(timer.has_expired());
    }

    #[test]
    fn a_cleared_timer_never_acts() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let timer = timers.timer();
        timer.set(&clock, Duration::ZERO);
        timer.clear();
        timers.sweep(clock.coarse() + Duration::from_secs(1));
        assert!(!timer.has_expired());
    }
}
