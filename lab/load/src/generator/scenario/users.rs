//! One thread of a scenario: its clients, their sessions, its event loop. While it runs it shares nothing with other
//! threads but the times of the window.

mod connection;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

use self::connection::Connection;
use super::arrivals::{Arrivals, Levels};
use super::cookies::Jar;
use super::template::{Variable, VariableScope};
use super::{Pace, Scenario, Step};
use crate::generator::alarm::{ALARM, Alarm, timespec};
use crate::generator::clock::{Clock, Ns, span, thread_cpu_ns};
use crate::generator::expect::Expect;
use crate::generator::limits::{
    EVENTS_MAX, INTERRUPTED_DRAIN, LEVEL_INTERVAL, READ_BYTES, WAITING_MAX,
};
use crate::generator::mix::turns;
use crate::generator::record::{Recorder, SessionEnd, Window};
use crate::generator::request::Prepared;
use crate::generator::response::LastHead;
use crate::generator::schedule::{Nap, nap};
use crate::generator::talk::{Done, Lost, What};
use crate::generator::timers::Timers;
use crate::generator::worker::{Share, Signals};
use crate::generator::{Plan, Shared};
use crate::random::Random;
use crate::result::FailureClass;

/// The phase of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the window: warming up.
    Before,
    /// In the window; the CPU time of the thread at its beginning.
    Inside { cpu: Ns },
    /// No new steps; requests in flight may end until then.
    Drain { until: Ns },
}

/// A client.
#[derive(Debug, Default)]
pub struct User {
    pub(super) connection: Connection,
    pub(super) doing: Doing,
    visit: Visit,
    /// The current request; empty before the first.
    pub(super) request: Vec<Prepared>,
    /// Whether it had a connection.
    pub(super) connected: bool,
}

/// What a client does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// It has no session.
    #[default]
    Away,
    /// It thinks, until the next step or session is due.
    Pause { until: Ns, next: Next },
    /// Its request, due then, waits for a connection.
    Connects { due: Ns },
    /// Its request was sent.
    Waits { due: Ns },
}

/// What follows a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next step of the session.
    Step,
    /// A new session.
    Session,
}

/// The session of a client.
#[derive(Debug, Default)]
struct Visit {
    session: usize,
    step: usize,
    began: Ns,
    values: Vec<String>,
    jar: Jar,
    /// Path of the current request, for its cookies.
    path: String,
}

/// A step, prepared as far as possible.
#[derive(Debug)]
struct ReadyStep {
    /// The whole request, if it is always the same.
    fixed: Option<Prepared>,
    expect: Expect,
}

/// One thread of a scenario.
#[derive(Debug)]
pub struct Users<'a> {
    pub(super) plan: &'a Plan,
    scenario: &'a Scenario,
    signals: &'a Signals,
    pub(super) clock: Clock,
    pub(super) epoll: OwnedFd,
    alarm: Alarm,
    pub(super) share: Share,
    pub(super) users: Vec<User>,
    /// Open loop: clients without a session; the last one was used most recently.
    idle: Vec<usize>,
    /// Open loop: due times of sessions that wait for a client.
    waiting: VecDeque<Ns>,
    /// When clients have something to do. Entries of clients that have done it since are skipped.
    wakes: BinaryHeap<Reverse<(Ns, usize)>>,
    levels: Option<Levels>,
    /// Open loop: when sessions begin.
    arrivals: Option<Arrivals>,
    ready: Vec<Vec<ReadyStep>>,
    /// Index of each session's first step among those of all sessions.
    first_steps: Vec<usize>,
    /// Sessions in the order in which they begin, over and over again.
    turns: Vec<usize>,
    next_turn: usize,
    /// How many values each variable has taken.
    counts: Vec<u64>,
    chance: Random,
    pub(super) record: Recorder,
    pub(super) last: LastHead,
    pub(super) done: Vec<Done>,
    pub(super) buf: Vec<u8>,
    /// QUIC's timers, by client.
    pub(super) timers: Timers,
    /// Packets on their way to a socket.
    pub(super) packets: Vec<u8>,
    pub(super) in_flight: usize,
    stage: Stage,
    stopped: bool,
    next_tick: Ns,
    next_level: Ns,
    published_ok: u64,
    /// Why the load cannot continue.
    broken: Option<String>,
}

impl<'a> Users<'a> {
    /// Creates a thread's state without starting it.
    pub fn new(shared: Shared<'a>, share: Share, scenario: &'a Scenario) -> io::Result<Self> {
        let Shared {
            plan,
            signals,
            clock,
        } = shared;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::watched_by(&epoll)?;
        let count = (plan.connections + share.threads - 1 - share.thread) / share.threads;
        let weights: Vec<u32> = scenario.sessions.iter().map(|s| s.weight).collect();
        let turns = turns(&weights).map_err(io::Error::other)?;
        let mut chance = Random::new(plan.seed.wrapping_add(share.thread as u64));
        let mut first_steps = Vec::new();
        let mut steps = 0;
        for session in &scenario.sessions {
            first_steps.push(steps);
            steps += session.steps.len();
        }
        let ready = |step: &Step| {
            let expect = step.expect.expect();
            let fixed = step.is_fixed().then(|| {
                let values: Vec<String> =
                    scenario.variables.iter().map(Variable::example).collect();
                step.prepare(&plan.target, &values, None, expect.clone())
            });
            let fixed = fixed.transpose().map_err(io::Error::other)?;
            Ok(ReadyStep { fixed, expect })
        };
        let sessions = scenario.sessions.iter();
        let ready: io::Result<Vec<Vec<ReadyStep>>> = sessions
            .map(|session| session.steps.iter().map(ready).collect())
            .collect();
        Ok(Users {
            plan,
            scenario,
            signals,
            clock,
            epoll,
            alarm,
            share,
            users: (0..count).map(|_| User::default()).collect(),
            idle: (0..count).rev().collect(),
            waiting: VecDeque::new(),
            wakes: BinaryHeap::new(),
            levels: None,
            arrivals: None,
            ready: ready?,
            first_steps,
            next_turn: chance.below(turns.len()),
            turns,
            counts: vec![0; scenario.variables.len()],
            chance,
            record: Recorder::of_scenario(scenario),
            last: LastHead::default(),
            done: Vec::new(),
            buf: vec![0; READ_BYTES],
            timers: Timers::default(),
            packets: Vec::new(),
            in_flight: 0,
            stage: Stage::Before,
            stopped: false,
            next_tick: 0,
            next_level: 0,
            published_ok: 0,
            broken: None,
        })
    }

    /// Runs the load to its end and returns the record.
    pub fn run(mut self) -> io::Result<Recorder> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        // There are no connections to be opened beforehand: clients connect when their sessions begin.
        self.signals.ramped.fetch_add(1, Ordering::Release);
        loop {
            let now = self.clock.now();
            if !self.go_on(now) {
                break;
            }
            self.begin_due();
            self.run_timers(now);
            if now >= self.next_level {
                self.adapt(now);
            }
            if now >= self.next_tick {
                self.tick(now);
            }
            if let Some(text) = self.broken.take() {
                return Err(io::Error::other(text));
            }
            let asleep = self.clock.now();
            let nap = self.nap(asleep);
            if let Nap::Alarm(wait) = nap {
                self.alarm.set(wait)?;
            }
            let timeout = timespec(nap.timeout_ns());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let woke = self.clock.now();
            if events.is_empty() {
                if nap == Nap::Spin && self.record.window.has(woke) {
                    self.record.spun_ns += woke - asleep;
                }
                continue;
            }
            for event in events.drain(..) {
                let data = event.data;
                if data.u64() != ALARM {
                    self.event(data.u64(), event.flags);
                }
            }
            if self.record.window.has(woke) {
                self.record.loop_lag.record(self.clock.now() - woke);
            }
        }
        self.record.censored.without_response = self.in_flight as u64;
        let now = self.clock.now();
        for user in &mut self.users {
            user.connection.close(now);
        }
        Ok(self.record)
    }

    /// Moves on to the next stage when it is time. Returns whether there is more to do.
    fn go_on(&mut self, now: Ns) -> bool {
        if self.record.window == Window::UNKNOWN {
            let begin = self.signals.begin.load(Ordering::Acquire);
            if begin != Ns::MAX {
                let end = self.signals.end.load(Ordering::Acquire);
                self.record.open_window(Window { begin, end });
                self.begin_schedule(now, begin);
            }
        }
        if now >= self.signals.stop.load(Ordering::Acquire) && !self.stopped {
            self.stopped = true;
            match self.stage {
                Stage::Before => {
                    self.record.cancel_window();
                    self.stage = Stage::Drain { until: now };
                }
                Stage::Inside { .. } => self.record.close_window(now),
                Stage::Drain { until } => {
                    let until = until.min(now + span(INTERRUPTED_DRAIN));
                    self.stage = Stage::Drain { until };
                }
            }
        }
        let window = self.record.window;
        if self.stage == Stage::Before && now >= window.begin {
            let cpu = thread_cpu_ns();
            self.stage = Stage::Inside { cpu };
        }
        if let Stage::Inside { cpu } = self.stage
            && now >= window.end
        {
            self.record.cpu_ns = thread_cpu_ns() - cpu;
            // What is due but not begun belongs to the window.
            self.begin_due();
            self.end_window(now);
        }
        match self.stage {
            Stage::Drain { until } => {
                let connects = |user: &User| matches!(user.doing, Doing::Connects { .. });
                let open = self.in_flight > 0 || !self.waiting.is_empty();
                now < until && (open || self.users.iter().any(connects))
            }
            Stage::Before | Stage::Inside { .. } => true,
        }
    }

    /// The window is over: what is in flight may end, and no step begins.
    fn end_window(&mut self, now: Ns) {
        self.arrivals = None;
        self.record.censored.in_flight = (self.in_flight + self.waiting.len()) as u64;
        let due = self.users.iter().filter_map(|user| match user.doing {
            Doing::Connects { due } | Doing::Waits { due } => Some(due),
            Doing::Away | Doing::Pause { .. } => None,
        });
        let oldest = due.chain(self.waiting.front().copied()).min();
        self.record.censored.oldest_ns = oldest.map_or(0, |due| now.saturating_sub(due));
        let drain = match self.stopped {
            true => self.plan.drain.min(INTERRUPTED_DRAIN),
            false => self.plan.drain,
        };
        let until = now + span(drain);
        self.stage = Stage::Drain { until };
        for at in 0..self.users.len() {
            if let Doing::Pause { next, .. } = self.users[at].doing {
                if next == Next::Step {
                    self.count_session(at, SessionEnd::Unfinished, now);
                }
                self.users[at].doing = Doing::Away;
            }
        }
    }

    /// The window is known: sessions begin from now on.
    fn begin_schedule(&mut self, now: Ns, window: Ns) {
        let levels = Levels::of(self.scenario, now, window);
        if let Pace::Sessions { poisson, .. } = self.scenario.pace {
            let seed = self.plan.seed ^ (0xABCD + self.share.thread as u64);
            let chance = poisson.then(|| Random::new(seed));
            let Share {
                thread, threads, ..
            } = self.share;
            let arrivals = Arrivals::new(levels.clone(), thread, threads, chance);
            self.arrivals = Some(arrivals);
        }
        self.levels = Some(levels);
    }

    /// Whether a step that is due at `due` may begin. The window may have ended although this thread has not noticed: a
    /// step after its end would be sent and belong to no figure.
    fn may_begin(&self, due: Ns) -> bool {
        !matches!(self.stage, Stage::Drain { .. }) && due < self.record.window.end
    }

    fn is_open_loop(&self) -> bool {
        matches!(self.scenario.pace, Pace::Sessions { .. })
    }

    /// Closed loop: whether a client takes part at this moment. Clients of all threads are numbered in turn.
    fn takes_part(&self, at: usize, now: Ns) -> bool {
        let number = at * self.share.threads + self.share.thread;
        let level = self.levels.as_ref().map_or(0.0, |levels| levels.at(now));
        (number as f64) < level.round()
    }

    /// Closed loop: lets clients begin and leave as the level of the phase requires. One with a request in flight leaves
    /// after the response.
    fn adapt(&mut self, now: Ns) {
        self.next_level = now + span(LEVEL_INTERVAL);
        if self.is_open_loop() || !self.may_begin(now) || self.levels.is_none() {
            return;
        }
        for at in 0..self.users.len() {
            match (self.takes_part(at, now), self.users[at].doing) {
                (true, Doing::Away) => self.arrive(at, now, now),
                (false, Doing::Pause { next, .. }) => {
                    if next == Next::Step {
                        self.count_session(at, SessionEnd::Unfinished, now);
                    }
                    self.users[at].doing = Doing::Away;
                    self.users[at].connection.close(now);
                }
                (true, Doing::Pause { .. })
                | (false, Doing::Away)
                | (_, Doing::Connects { .. } | Doing::Waits { .. }) => {}
            }
        }
    }

    /// Begins all sessions and steps that are due.
    fn begin_due(&mut self) {
        while !self.waiting.is_empty()
            && let Some(at) = self.idle.pop()
            && let Some(due) = self.waiting.pop_front()
        {
            self.arrive(at, due, self.clock.now());
        }
        while let Some(due) = self.arrivals.as_ref().and_then(Arrivals::due) {
            let now = self.clock.now();
            if due > now || due >= self.record.window.end {
                break;
            }
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.advance();
            }
            if self.record.window.has(due) {
                self.record.due += 1;
            }
            match self.idle.pop() {
                Some(at) => self.arrive(at, due, now),
                None if self.waiting.len() < WAITING_MAX => self.waiting.push_back(due),
                None => self.drop_session(due, now, "too many sessions wait for a client"),
            }
        }
        while let Some(Reverse((when, at))) = self.wakes.peek().copied() {
            let now = self.clock.now();
            if when > now {
                return;
            }
            self.wakes.pop();
            match self.users[at].doing {
                Doing::Pause { until, next } if until == when && self.may_begin(when) => match next
                {
                    Next::Session => self.arrive(at, when, now),
                    Next::Step => self.step(at, when, now),
                },
                Doing::Connects { .. } if self.users[at].connection.is_closed() => {
                    self.dial(at, now);
                }
                Doing::Away
                | Doing::Pause { .. }
                | Doing::Connects { .. }
                | Doing::Waits { .. } => {}
            }
        }
    }

    /// Wakes a client at a moment.
    pub(super) fn wake(&mut self, at: usize, when: Ns) {
        self.wakes.push(Reverse((when, at)));
    }

    /// A client begins a session.
    fn arrive(&mut self, at: usize, due: Ns, now: Ns) {
        let session = self.turns[self.next_turn];
        self.next_turn = (self.next_turn + 1) % self.turns.len();
        let mut values = std::mem::take(&mut self.users[at].visit.values);
        self.take_values(&mut values, None);
        if self.scenario.sessions[session].new_connection {
            self.users[at].connection.close(now);
        }
        self.users[at].visit = Visit {
            session,
            step: 0,
            began: due,
            values,
            jar: Jar::default(),
            path: String::new(),
        };
        self.step(at, due, now);
    }

    /// New values of all variables, or of those with this scope.
    fn take_values(&mut self, values: &mut Vec<String>, scope: Option<VariableScope>) {
        let variables = &self.scenario.variables;
        values.resize(variables.len(), String::new());
        for (number, variable) in variables.iter().enumerate() {
            if scope.is_none_or(|scope| variable.scope == scope) {
                // Threads take values in turn.
                let count = self.counts[number] * self.share.threads as u64;
                let count = count + self.share.thread as u64;
                values[number] = variable.value(count, &mut self.chance);
                self.counts[number] += 1;
            }
        }
    }

    /// A client makes its next request.
    fn step(&mut self, at: usize, due: Ns, now: Ns) {
        let visit = &self.users[at].visit;
        if self.is_open_loop() && visit.step > 0 && self.record.window.has(due) {
            self.record.due += 1;
        }
        match self.request(at) {
            Ok(request) => {
                let user = &mut self.users[at];
                user.request.clear();
                user.request.push(request);
            }
            Err(text) => {
                self.broken = Some(text);
                return;
            }
        }
        if self.users[at].connection.is_open() {
            if self.record.window.has(due) {
                self.record.send_lag.record(now.saturating_sub(due));
            }
            self.begin(at, due, now);
            return;
        }
        self.users[at].connection.close(now);
        self.users[at].doing = Doing::Connects { due };
        self.dial(at, now);
    }

    /// The request of a client's step.
    fn request(&mut self, at: usize) -> Result<Prepared, String> {
        let (session, step) = (self.users[at].visit.session, self.users[at].visit.step);
        let scenario = self.scenario;
        if step > 0 {
            let mut values = std::mem::take(&mut self.users[at].visit.values);
            self.take_values(&mut values, Some(VariableScope::Request));
            self.users[at].visit.values = values;
        }
        let visit = &mut self.users[at].visit;
        let (step, ready) = (
            &scenario.sessions[session].steps[step],
            &self.ready[session][step],
        );
        let sends_cookies = scenario.sessions[session].cookies;
        if sends_cookies {
            visit.path = step.path.fill_path(&visit.values);
        }
        let cookies = sends_cookies
            .then(|| visit.jar.header(&visit.path))
            .flatten();
        match (&ready.fixed, cookies) {
            (Some(fixed), None) => Ok(fixed.clone()),
            (_, cookies) => {
                let expect = ready.expect.clone();
                let target = &self.plan.target;
                let made = step.prepare(target, &visit.values, cookies, expect);
                made.map_err(|error| format!("step `{}`: {error}", step.name))
            }
        }
    }

    /// Whether the cookies of a client's responses are wanted.
    pub(super) fn wants_cookies(&self, at: usize) -> bool {
        let user = &self.users[at];
        matches!(user.doing, Doing::Waits { .. })
            && self.scenario.sessions[user.visit.session].cookies
    }

    /// Stores the cookies of the last read.
    pub(super) fn store_cookies(&mut self, at: usize) {
        let visit = &mut self.users[at].visit;
        for cookie in self.last.cookies.take().unwrap_or_default() {
            visit.jar.take(&cookie, &visit.path);
        }
    }

    /// The request of a client has ended: the session continues, or ends as well.
    pub(super) fn finished(&mut self, at: usize, mut done: Done, now: Ns) {
        let visit = &mut self.users[at].visit;
        done.request = Some(self.first_steps[visit.session] + visit.step);
        self.record.done(&done, now);
        if done.outcome.is_err() {
            let pause = span(self.plan.failure_pause);
            return self.leave(at, SessionEnd::Failed, pause, now);
        }
        let steps = &self.scenario.sessions[visit.session].steps;
        let think = think(&steps[visit.step], &mut self.chance);
        visit.step += 1;
        if visit.step == steps.len() {
            return self.leave(at, SessionEnd::Completed, think, now);
        }
        let stays = self.is_open_loop() || self.takes_part(at, now);
        if !self.may_begin(now) || !stays {
            return self.leave(at, SessionEnd::Unfinished, 0, now);
        }
        self.pause(at, think, Next::Step, now);
    }

    /// A client waits before its next step or session.
    fn pause(&mut self, at: usize, pause: Ns, next: Next, now: Ns) {
        let until = now + pause;
        self.users[at].doing = Doing::Pause { until, next };
        if pause > 0 {
            self.wake(at, until);
            return;
        }
        match next {
            Next::Step => self.step(at, now, now),
            Next::Session => self.arrive(at, now, now),
        }
    }

    fn count_session(&mut self, at: usize, end: SessionEnd, now: Ns) {
        let visit = &self.users[at].visit;
        let took = now.saturating_sub(visit.began);
        self.record.session(visit.session, end, took, now);
    }

    /// The session of a client has ended. In a closed loop it begins another one after a pause, in an open one when a
    /// session is due.
    fn leave(&mut self, at: usize, end: SessionEnd, pause: Ns, now: Ns) {
        self.count_session(at, end, now);
        self.users[at].doing = Doing::Away;
        if self.is_open_loop() {
            match self.waiting.pop_front() {
                // After a failure at once, or each waiting session would fail in this call, deeper and deeper.
                Some(due) if end != SessionEnd::Failed => self.arrive(at, due, now),
                Some(due) => {
                    self.waiting.push_front(due);
                    self.idle.push(at);
                }
                None => self.idle.push(at),
            }
            return;
        }
        if !self.may_begin(now) {
            return;
        }
        match self.takes_part(at, now) {
            // A pause of at least a nanosecond, for the same reason.
            true if end == SessionEnd::Failed => self.pause(at, pause.max(1), Next::Session, now),
            true => self.pause(at, pause, Next::Session, now),
            false => self.users[at].connection.close(now),
        }
    }

    /// Open loop: a session never found a client.
    fn drop_session(&mut self, due: Ns, now: Ns, text: &str) {
        let done = Done {
            due,
            sent: 0,
            first: 0,
            request: None,
            outcome: Err(Lost::new(FailureClass::Dropped, text)),
            what: What::Flight,
        };
        self.record.done(&done, now);
    }

    /// How to wait until there is something to do.
    fn nap(&self, now: Ns) -> Nap {
        let window = self.record.window;
        let mut next = self.next_tick.min(self.timers.next());
        if !self.is_open_loop() && self.may_begin(now) {
            next = next.min(self.next_level);
        }
        match self.stage {
            Stage::Before => next = next.min(window.begin),
            Stage::Inside { .. } => next = next.min(window.end),
            Stage::Drain { until } => next = next.min(until),
        }
        let arrival = self.arrivals.as_ref().and_then(Arrivals::due);
        let arrival = arrival.filter(|due| *due < window.end);
        let wake = self.wakes.peek().map(|Reverse((when, _))| *when);
        nap(now, next, arrival.into_iter().chain(wake).min())
    }

    /// Checks timeouts, lets waiting sessions begin, and publishes statistics.
    fn tick(&mut self, now: Ns) {
        self.next_tick = now + self.plan.tick_ns();
        if let Some(before) = now.checked_sub(span(self.plan.timeout)) {
            while let Some(due) = self.waiting.front().copied().filter(|due| *due <= before) {
                self.waiting.pop_front();
                self.drop_session(due, now, "no client became free in time");
            }
            for at in 0..self.users.len() {
                self.expire_connection(at, before, now);
            }
        }
        let ok = self.record.connections.responses;
        self.signals
            .ok
            .fetch_add(ok - self.published_ok, Ordering::Relaxed);
        self.published_ok = ok;
        self.record.publish(now, &self.signals.seen);
    }
}

/// A random think time after a step.
fn think(step: &Step, chance: &mut Random) -> Ns {
    let range = step.think_max.saturating_sub(step.think_min);
    let random = match range {
        Duration::ZERO => 0.0,
        range => range.as_nanos() as f64 * chance.unit(),
    };
    span(step.think_min) + random as Ns
}

#[cfg(test)]
mod tests;
