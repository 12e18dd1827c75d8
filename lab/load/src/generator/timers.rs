//! When connections have to be looked at although nothing arrives: QUIC's timers, one for each connection.

use std::collections::BTreeSet;

use super::clock::Ns;

/// The timers of a thread's connections, by their slots.
#[derive(Debug, Default)]
pub struct Timers {
    queue: BTreeSet<(Ns, usize)>,
    /// The time in the queue for each slot; `Ns::MAX` for none.
    armed: Vec<Ns>,
}

impl Timers {
    /// Looks at slot `at` no later than at `when`. An earlier timer of the slot stays: it is set anew when it has expired,
    /// and most timers are put off again and again.
    pub fn set(&mut self, at: usize, when: Ns) {
        if self.armed.len() <= at {
            self.armed.resize(at + 1, Ns::MAX);
        }
        if when < self.armed[at] {
            self.clear(at);
            self.armed[at] = when;
            self.queue.insert((when, at));
        }
    }

    /// Removes the timer of a slot.
    pub fn clear(&mut self, at: usize) {
        if let Some(armed) = self.armed.get_mut(at)
            && *armed != Ns::MAX
        {
            self.queue.remove(&(*armed, at));
            *armed = Ns::MAX;
        }
    }

    /// When the next timer expires; `Ns::MAX` for never.
    pub fn next(&self) -> Ns {
        self.queue.first().map_or(Ns::MAX, |(when, _)| *when)
    }

    /// A slot whose timer has expired; the timer is removed.
    pub fn pop(&mut self, now: Ns) -> Option<usize> {
        let (when, at) = self.queue.first().copied()?;
        if when > now {
            return None;
        }
        self.clear(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_one_timer_the_earliest() {
        let mut timers = Timers::default();
        assert_eq!((timers.next(), timers.pop(Ns::MAX)), (Ns::MAX, None));
        for (at, when) in [(1, 50), (0, 40), (1, 30), (1, 60), (3, 10)] {
            timers.set(at, when);
        }
        assert_eq!((timers.queue.len(), timers.next()), (3, 10));
        timers.clear(3);
        timers.clear(7);
        assert_eq!((timers.pop(29), timers.pop(30)), (None, Some(1)));
        timers.set(1, 45);
        assert_eq!([(); 3].map(|()| timers.pop(100)), [Some(0), Some(1), None]);
    }
}
