//! Timeouts of a worker. They are many, mostly reset before they act, and need no precision, so they are slots
//! in a table that a periodic sweep looks through: setting one costs a store, no timer wheel and no system call.

use std::cell::RefCell;
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
}

struct Slot {
    state: State,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unset,
    Until(Moment),
    /// As `Until`, and what waits is worth less than a new connection.
    IdleUntil(Moment),
    /// The same, but for the end of the process, which it need not hurry for.
    YieldUntil(Moment),
    /// Acts when all that is idle is ended, and never by itself.
    Drain,
    Expired,
}

impl Timers {
    /// A timeout that is not set yet.
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

    /// Marks what is due at `now` and wakes whoever waits for it.
    pub fn sweep(&self, now: Moment) {
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            let due = match slot.state {
                State::Until(at) | State::IdleUntil(at) | State::YieldUntil(at) => at <= now,
                State::Unset | State::Drain | State::Expired => false,
            };
            if due {
                slot.state = State::Expired;
                if let Some(waker) = &slot.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

impl Timers {
    /// Lets the idle timeout that is due first act now, to make room; tells whether there was one.
    pub fn expire_oldest_idle(&self) -> bool {
        let mut slots = self.slots.borrow_mut();
        let idle = slots.iter_mut().filter_map(|(_, slot)| match slot.state {
            State::IdleUntil(at) | State::YieldUntil(at) => Some((at, slot)),
            State::Unset | State::Until(_) | State::Drain | State::Expired => None,
        });
        let Some((_, oldest)) = idle.min_by_key(|(at, _)| *at) else {
            return false;
        };
        oldest.state = State::Expired;
        if let Some(waker) = &oldest.waker {
            waker.wake_by_ref();
        }
        true
    }

    /// Lets all idle timeouts act now, and those that wait for just this.
    pub fn expire_all_idle(&self) {
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            if matches!(slot.state, State::IdleUntil(_) | State::Drain) {
                slot.state = State::Expired;
                if let Some(waker) = &slot.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    /// Wakes whoever waits with an idle timeout, or for the end, without letting any act: something that they look at has
    /// changed.
    pub fn wake_idle(&self) {
        for (_, slot) in self.slots.borrow().iter() {
            if matches!(slot.state, State::IdleUntil(_) | State::Drain)
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
    /// Acts `after` the coarse time of `clock`, at the next sweep then. Replaces what was set before.
    pub fn set(&self, clock: &Clock, after: Duration) {
        self.timers.slots.borrow_mut()[self.key].state = State::Until(clock.coarse() + after);
    }

    /// As [`Timer::set`] for a connection between two requests, which is closed first when room is needed.
    pub fn set_idle(&self, clock: &Clock, after: Duration) {
        self.timers.slots.borrow_mut()[self.key].state = State::IdleUntil(clock.coarse() + after);
    }

    /// As [`Timer::set_idle`] for a connection that has not asked for anything yet, but may be about to: a process that
    /// ends lets it.
    pub fn set_yielding(&self, clock: &Clock, after: Duration) {
        self.timers.slots.borrow_mut()[self.key].state = State::YieldUntil(clock.coarse() + after);
    }

    /// Acts when the process ends ([`Timers::expire_all_idle`]): for connections that are not idle and have to be told.
    pub fn set_for_drain(&self) {
        self.timers.slots.borrow_mut()[self.key].state = State::Drain;
    }

    /// Whether it was set since it was last cleared; it may have acted meanwhile.
    pub fn is_set(&self) -> bool {
        self.timers.slots.borrow()[self.key].state != State::Unset
    }

    /// Does not act any more.
    pub fn clear(&self) {
        self.timers.slots.borrow_mut()[self.key].state = State::Unset;
    }

    /// Whether it has acted since it was set.
    pub fn has_expired(&self) -> bool {
        self.timers.slots.borrow()[self.key].state == State::Expired
    }

    /// Ready when it has acted; else the task is woken when it does.
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
        assert!(!timers.expire_oldest_idle(), "it makes no room");
        assert!(!timer.has_expired());
        timers.expire_all_idle();
        assert!(timer.has_expired());
    }

    #[test]
    fn a_timer_that_yields_makes_room_first_if_it_is_due_first_and_does_not_end_early() {
        let (timers, clock) = (Rc::new(Timers::default()), Clock::default());
        let (idle, yielding) = (timers.timer(), timers.timer());
        idle.set_idle(&clock, Duration::from_secs(9));
        yielding.set_yielding(&clock, Duration::from_secs(5));
        timers.expire_all_idle();
        assert!(idle.has_expired() && !yielding.has_expired());
        idle.set_idle(&clock, Duration::from_secs(9));
        assert!(timers.expire_oldest_idle());
        assert!(yielding.has_expired() && !idle.has_expired());
        yielding.set_yielding(&clock, Duration::from_secs(5));
        timers.sweep(clock.coarse() + Duration::from_secs(5));
        assert!(yielding.has_expired());
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
