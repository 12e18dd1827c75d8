//! Which processes of a group exist, and which have to be started, drained or killed. Pure: events and time in, actions
//! out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sluice_message::Moment;
use sluice_policy::Backoff;

use crate::failure::Death;

/// The rules of a group.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Number of processes.
    pub workers: usize,
    /// How long a process may take to start.
    pub start_timeout: Option<Duration>,
    /// How long an old process may take to finish its requests.
    pub drain_timeout: Duration,
    /// How long a process that has finished its requests may take to exit.
    pub exit_timeout: Duration,
    /// How long a process with a hanging request may take to finish the others.
    pub hang_timeout: Duration,
    /// Starts in a row that may fail.
    pub failures_max: u32,
    /// Waits between starts that fail.
    pub backoff: Backoff,
    /// The longest wait after a crash while no other process serves or starts.
    pub outage_max: Duration,
    /// A process that lived for this long was stable: after it ends, the next is started at once.
    pub stable_after: Duration,
    /// Old processes that may drain at a time; beyond it, the oldest is killed.
    pub draining_max: usize,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Start a process.
    Spawn { number: u64, index: usize },
    /// These processes take requests from now on.
    Publish(Vec<u64>),
    /// The process takes no more requests; report when it has finished those it has.
    Drain(u64),
    /// The process may exit: it has no requests.
    Dismiss(u64),
    /// Kill the process.
    Kill(u64, Death),
    /// All processes were replaced, or started for the first time.
    Renewed,
    /// The new processes could not be started; the old ones stay.
    NotRenewed,
    /// A worker is given up.
    GivenUp { index: usize },
    /// No process is left, and none will be started.
    Failed,
}

/// The processes of a group.
#[derive(Debug)]
pub(super) struct Roster {
    rules: Rules,
    slots: Vec<Slot>,
    members: BTreeMap<u64, Member>,
    /// The processes that are to replace all others, by slot.
    renewal: Option<Vec<u64>>,
    phase: Phase,
    next: u64,
    seed: u64,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first start.
    Starting,
    Running,
    /// Nothing is left to do unless somebody asks for a reload.
    Failed,
    Stopping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Starting {
        until: Option<Moment>,
    },
    Ready {
        since: Moment,
    },
    /// `at_exit` says whether it was dismissed.
    Draining {
        until: Moment,
        at_exit: bool,
    },
    Killed,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// Failed starts in a row.
    failures: u32,
    /// Short lives in a row.
    crashes: u32,
    /// Before this, no replacement is started.
    recycle_after: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not started yet.
    Empty,
    Starting(u64),
    Ready(u64),
    /// The old process serves until the new one is ready.
    Replacing {
        old: u64,
        new: u64,
    },
    /// A start has failed, or the process has crashed; the next start is at this time.
    Waiting(Moment),
    GivenUp,
}

impl Roster {
    pub fn new(rules: Rules, seed: u64) -> Roster {
        let empty = || Slot {
            state: State::Empty,
            failures: 0,
            crashes: 0,
            recycle_after: Moment::START,
        };
        Roster {
            slots: (0..rules.workers.max(1)).map(|_| empty()).collect(),
            rules,
            members: BTreeMap::new(),
            renewal: None,
            phase: Phase::Starting,
            next: 1,
            seed,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether all processes have ended after [`Roster::stop`].
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Stopping && self.members.is_empty()
    }

    /// Starts new processes for all slots; the old ones, if there are any, serve until all new ones are ready.
    pub fn renew(&mut self, now: Moment) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.abandon_renewal();
        if self.phase == Phase::Failed {
            self.phase = Phase::Starting;
        }
        let indexes = 0..self.slots.len();
        let numbers = indexes.map(|index| self.spawn(index, now)).collect();
        self.renewal = Some(numbers);
    }

    /// A process is ready.
    pub fn ready(&mut self, number: u64, now: Moment) {
        match self.members.get_mut(&number) {
            Some(member @ Member::Starting { .. }) => *member = Member::Ready { since: now },
            Some(_) | None => return,
        }
        if let Some(renewal) = &self.renewal
            && renewal.contains(&number)
        {
            if renewal.iter().all(|new| self.is_ready(*new)) {
                self.adopt_renewal(now);
            }
            return;
        }
        let Some(index) = self.slot_of(number) else {
            return;
        };
        let slot = &mut self.slots[index];
        slot.failures = 0;
        if let State::Replacing { old, .. } = slot.state {
            slot.state = State::Ready(number);
            self.drain(old, now + self.rules.drain_timeout);
        } else {
            slot.state = State::Ready(number);
        }
        self.publish();
    }

    /// A process has ended.
    pub fn exited(&mut self, number: u64, now: Moment) {
        let Some(member) = self.members.remove(&number) else {
            return;
        };
        if self.phase == Phase::Stopping {
            return;
        }
        let is_of_renewal = |renewal: &Vec<u64>| renewal.contains(&number);
        if self.renewal.as_ref().is_some_and(is_of_renewal) {
            self.fail_renewal();
            return;
        }
        let Some(index) = self.slot_of(number) else {
            return;
        };
        match self.slots[index].state {
            State::Starting(_) => self.note_failed_start(index, now),
            State::Ready(_) => {
                self.restart(index, member, now);
                self.publish();
            }
            State::Replacing { old, new } if old == number => {
                self.slots[index].state = State::Starting(new);
                self.publish();
            }
            State::Replacing { old, .. } => {
                let slot = &mut self.slots[index];
                slot.failures += 1;
                let delay = self.rules.backoff.delay(slot.failures, self.seed);
                slot.recycle_after = now + delay;
                slot.state = State::Ready(old);
            }
            State::Empty | State::Waiting(_) | State::GivenUp => {}
        }
    }

    /// A process has served long enough: another one is started to replace it.
    pub fn recycle(&mut self, number: u64, now: Moment) -> bool {
        let Some(index) = self.slot_of(number) else {
            return false;
        };
        let slot = &self.slots[index];
        let is_due = slot.state == State::Ready(number) && now >= slot.recycle_after;
        if !is_due || self.renewal.is_some() || self.phase != Phase::Running {
            return false;
        }
        let new = self.spawn(index, now);
        self.slots[index].state = State::Replacing { old: number, new };
        true
    }

    /// A request of the process hangs: it is replaced at once, and killed when its other requests have ended.
    pub fn hung(&mut self, number: u64, now: Moment) {
        let until = now + self.rules.hang_timeout;
        match self.members.get_mut(&number) {
            Some(Member::Ready { .. }) => self.drain(number, until),
            Some(Member::Draining { until: known, .. }) => *known = until.min(*known),
            Some(Member::Starting { .. } | Member::Killed) | None => return,
        }
        if let Some(index) = self.slot_of(number) {
            self.slots[index].state = match self.slots[index].state {
                State::Replacing { new, .. } => State::Starting(new),
                _ => State::Starting(self.spawn(index, now)),
            };
            self.publish();
        }
    }

    /// A process must not go on: it violated the protocol, or only a hanging request is left.
    pub fn kill(&mut self, number: u64, death: Death) {
        if let Some(member) = self.members.get_mut(&number)
            && *member != Member::Killed
        {
            *member = Member::Killed;
            self.actions.push_back(Action::Kill(number, death));
        }
    }

    /// A draining process has no requests any more.
    pub fn drained(&mut self, number: u64, now: Moment) {
        if let Some(Member::Draining { until, at_exit }) = self.members.get_mut(&number)
            && !*at_exit
        {
            *at_exit = true;
            *until = (*until).min(now + self.rules.exit_timeout);
            self.actions.push_back(Action::Dismiss(number));
        }
    }

    /// A process was asked by others to end: it is replaced, and finishes its requests.
    pub fn leaving(&mut self, number: u64, now: Moment) {
        if !self.is_ready(number) {
            return;
        }
        self.drain(number, now + self.rules.drain_timeout);
        if let Some(index) = self.slot_of(number) {
            self.slots[index].state = match self.slots[index].state {
                State::Replacing { new, .. } => State::Starting(new),
                _ => State::Starting(self.spawn(index, now)),
            };
            self.publish();
        }
    }

    /// Ends all processes; those that have requests may take `grace`.
    pub fn stop(&mut self, now: Moment, grace: Duration) {
        self.abandon_renewal();
        self.phase = Phase::Stopping;
        self.slots.clear();
        let numbers: Vec<u64> = self.members.keys().copied().collect();
        for number in numbers {
            match self.members[&number] {
                Member::Starting { .. } => self.kill(number, Death::DrainTimeout),
                Member::Ready { .. } => self.drain(number, now + grace),
                Member::Draining { until, at_exit } => {
                    let until = until.min(now + grace);
                    let draining = Member::Draining { until, at_exit };
                    self.members.insert(number, draining);
                }
                Member::Killed => {}
            }
        }
        self.actions.push_back(Action::Publish(Vec::new()));
    }

    /// When [`Roster::expire`] has to be called.
    pub fn deadline(&self) -> Option<Moment> {
        let members = self.members.values().filter_map(|member| match member {
            Member::Starting { until } => *until,
            Member::Draining { until, .. } => Some(*until),
            Member::Ready { .. } | Member::Killed => None,
        });
        let slots = self.slots.iter().filter_map(|slot| match slot.state {
            State::Waiting(until) => Some(until),
            _ => None,
        });
        members.chain(slots).min()
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Moment) {
        let numbers: Vec<u64> = self.members.keys().copied().collect();
        for number in numbers {
            match self.members[&number] {
                Member::Starting { until: Some(until) } if until <= now => {
                    self.kill(number, Death::StartTimeout);
                }
                Member::Draining { until, .. } if until <= now => {
                    self.kill(number, Death::DrainTimeout);
                }
                _ => {}
            }
        }
        for index in 0..self.slots.len() {
            if let State::Waiting(until) = self.slots[index].state
                && until <= now
            {
                let number = self.spawn(index, now);
                self.slots[index].state = State::Starting(number);
            }
        }
    }

    fn spawn(&mut self, index: usize, now: Moment) -> u64 {
        let number = self.next;
        self.next += 1;
        let until = self.rules.start_timeout.map(|limit| now + limit);
        self.members.insert(number, Member::Starting { until });
        self.actions.push_back(Action::Spawn { number, index });
        number
    }

    fn is_ready(&self, number: u64) -> bool {
        matches!(self.members.get(&number), Some(Member::Ready { .. }))
    }

    /// The slot that has this process.
    fn slot_of(&self, number: u64) -> Option<usize> {
        self.slots.iter().position(|slot| match slot.state {
            State::Starting(known) | State::Ready(known) => known == number,
            State::Replacing { old, new } => old == number || new == number,
            State::Empty | State::Waiting(_) | State::GivenUp => false,
        })
    }

    fn publish(&mut self) {
        let serving = self.slots.iter().filter_map(|slot| match slot.state {
            State::Ready(number) | State::Replacing { old: number, .. } => Some(number),
            _ => None,
        });
        let serving = serving.collect();
        self.actions.push_back(Action::Publish(serving));
    }

    fn drain(&mut self, number: u64, until: Moment) {
        let is_ready = self.is_ready(number);
        if let Some(member) = self.members.get_mut(&number)
            && is_ready
        {
            *member = Member::Draining {
                until,
                at_exit: false,
            };
            self.actions.push_back(Action::Drain(number));
        }
        let is_draining = |member: &Member| matches!(member, Member::Draining { .. });
        let draining = self.members.iter().filter(|(_, m)| is_draining(m));
        let numbers: Vec<u64> = draining.map(|(number, _)| *number).collect();
        let surplus = numbers.len().saturating_sub(self.rules.draining_max);
        for oldest in &numbers[..surplus] {
            self.kill(*oldest, Death::DrainTimeout);
        }
    }

    /// The new processes take over.
    fn adopt_renewal(&mut self, now: Moment) {
        let Some(renewal) = self.renewal.take() else {
            return;
        };
        self.phase = Phase::Running;
        let mut old = Vec::new();
        for (slot, new) in self.slots.iter_mut().zip(renewal) {
            match slot.state {
                State::Starting(number) | State::Ready(number) => old.push(number),
                State::Replacing { old: first, new } => old.extend([first, new]),
                State::Empty | State::Waiting(_) | State::GivenUp => {}
            }
            *slot = Slot {
                state: State::Ready(new),
                failures: 0,
                crashes: 0,
                recycle_after: Moment::START,
            };
        }
        self.publish();
        self.actions.push_back(Action::Renewed);
        for number in old {
            match self.is_ready(number) {
                true => self.drain(number, now + self.rules.drain_timeout),
                false => self.kill(number, Death::DrainTimeout),
            }
        }
    }

    /// One of the new processes could not be started.
    fn fail_renewal(&mut self) {
        self.abandon_renewal();
        match self.phase {
            Phase::Starting => {
                self.phase = Phase::Failed;
                self.actions.push_back(Action::Failed);
            }
            Phase::Running | Phase::Failed | Phase::Stopping => {
                self.actions.push_back(Action::NotRenewed);
            }
        }
    }

    fn abandon_renewal(&mut self) {
        for number in self.renewal.take().into_iter().flatten() {
            self.kill(number, Death::DrainTimeout);
        }
    }

    /// A process of a slot that has no other could not be started.
    fn note_failed_start(&mut self, index: usize, now: Moment) {
        let slot = &mut self.slots[index];
        slot.failures += 1;
        if slot.failures < self.rules.failures_max {
            let delay = self.rules.backoff.delay(slot.failures, self.seed);
            slot.state = State::Waiting(now + delay);
            return;
        }
        slot.state = State::GivenUp;
        self.actions.push_back(Action::GivenUp { index });
        if self.slots.iter().all(|slot| slot.state == State::GivenUp) {
            self.phase = Phase::Failed;
            self.actions.push_back(Action::Failed);
        }
    }

    /// Whether another slot has a process that serves or starts.
    fn has_other(&self, index: usize) -> bool {
        let others = self.slots.iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != index);
        others.any(|(_, slot)| match slot.state {
            State::Starting(_) | State::Ready(_) | State::Replacing { .. } => true,
            State::Empty | State::Waiting(_) | State::GivenUp => false,
        })
    }

    /// A process has ended although it was needed.
    fn restart(&mut self, index: usize, member: Member, now: Moment) {
        let lived = match member {
            Member::Ready { since } => now.since(since),
            Member::Starting { .. } | Member::Draining { .. } | Member::Killed => Duration::ZERO,
        };
        let longest = match self.has_other(index) {
            true => self.rules.backoff.max,
            false => self.rules.outage_max,
        };
        let slot = &mut self.slots[index];
        if lived >= self.rules.stable_after {
            slot.crashes = 0;
        }
        slot.crashes += 1;
        if slot.crashes > 1 {
            let delay = self.rules.backoff.delay(slot.crashes - 1, self.seed);
            slot.state = State::Waiting(now + delay.min(longest));
            return;
        }
        let number = self.spawn(index, now);
        self.slots[index].state = State::Starting(number);
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
