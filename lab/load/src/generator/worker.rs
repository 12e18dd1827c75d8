//! One thread of the load generator: its connections, its schedule, its event loop. While it runs it shares nothing
//! with other threads but the times of the window.

mod quic;
mod slot;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

use self::slot::Slot;
use super::alarm::{ALARM, Alarm, timespec};
use super::clock::{Clock, Ns, span, thread_cpu_ns};
use super::limits::{EVENTS_MAX, INTERRUPTED_DRAIN, READ_BYTES};
use super::record::{CountBy, Recorder, Window};
use super::response::LastHead;
use super::schedule::{Nap, Schedule, nap};
use super::seen::Seen;
use super::talk::Done;
use super::timers::Timers;
use super::{Plan, Shared};
use crate::random::Random;
use crate::result::Mode;

/// State shared by the threads of one load.
#[derive(Debug)]
pub struct Signals {
    /// Threads that have tried each of their connections.
    pub ramped: AtomicUsize,
    /// First moment of the window; `Ns::MAX` until it is fixed.
    pub begin: AtomicU64,
    /// First moment after the window. Written before `begin`.
    pub end: AtomicU64,
    /// When the load was interrupted; `Ns::MAX` if it was not.
    pub stop: AtomicU64,
    /// Successful requests of all threads so far, updated a few times a second.
    pub ok: AtomicU64,
    /// Statistics for an observer.
    pub seen: Mutex<Seen>,
}

impl Default for Signals {
    fn default() -> Self {
        Signals {
            ramped: AtomicUsize::new(0),
            begin: AtomicU64::new(Ns::MAX),
            end: AtomicU64::new(Ns::MAX),
            stop: AtomicU64::new(Ns::MAX),
            ok: AtomicU64::new(0),
            seen: Mutex::default(),
        }
    }
}

/// The phase of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the window: opening connections, warming up.
    Before,
    /// In the window; the CPU time of the thread at its beginning.
    Inside { cpu: Ns },
    /// No new requests; those in flight may end until then.
    Drain { until: Ns },
}

/// One thread of the load generator.
#[derive(Debug)]
pub struct Worker<'a> {
    plan: &'a Plan,
    signals: &'a Signals,
    clock: Clock,
    epoll: OwnedFd,
    /// Open loop: ends a sleep when a request is due.
    alarm: Option<Alarm>,
    slots: Vec<Slot>,
    /// Open loop: slots with room for a request, longest idle first.
    idle: VecDeque<usize>,
    /// Open loop: due times of requests that wait for a connection.
    waiting: VecDeque<Ns>,
    /// Due times of requests that a server returned unprocessed with GOAWAY: they are sent again.
    again: VecDeque<Ns>,
    /// Whether the load was interrupted.
    stopped: bool,
    /// Closed slots and when to reconnect them, in this order.
    redial: VecDeque<(Ns, usize)>,
    /// The next slot to be connected for the first time.
    ramp_next: usize,
    /// First connects in progress.
    ramp_open: usize,
    /// Slots whose first connect has not ended.
    ramp_left: usize,
    in_flight: usize,
    /// Requests that may still be started; unlimited in a time window.
    left: u64,
    schedule: Option<Schedule>,
    share: Share,
    record: Recorder,
    last: LastHead,
    done: Vec<Done>,
    buf: Vec<u8>,
    /// QUIC's timers, by slot.
    timers: Timers,
    /// Packets on their way to a socket.
    packets: Vec<u8>,
    next_request: usize,
    phase: Phase,
    next_tick: Ns,
    published_ok: u64,
}

/// One thread's share of the load.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// Number of threads.
    pub threads: usize,
    /// Its connections.
    pub connections: usize,
    /// Connections of the threads before it.
    pub connections_before: usize,
    /// Its requests, if the load is limited by number.
    pub requests: Option<u64>,
}

impl<'a> Worker<'a> {
    /// Creates a thread's state without starting it.
    pub fn new(shared: Shared<'a>, share: Share) -> io::Result<Self> {
        let Shared {
            plan,
            signals,
            clock,
        } = shared;
        let count_by = match plan.mode {
            Mode::Closed => CountBy::End,
            Mode::Open { .. } => CountBy::Due,
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = match plan.mode {
            Mode::Closed => None,
            Mode::Open { .. } => Some(Alarm::watched_by(&epoll)?),
        };
        let mut chance = Random::new(plan.seed.wrapping_add(share.thread as u64));
        Ok(Worker {
            plan,
            signals,
            clock,
            epoll,
            alarm,
            slots: (0..share.connections)
                .map(|at| Slot::new(plan.source(share.connections_before + at)))
                .collect(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            stopped: false,
            redial: VecDeque::new(),
            ramp_next: 0,
            ramp_open: 0,
            ramp_left: share.connections,
            in_flight: 0,
            left: share.requests.unwrap_or(u64::MAX),
            schedule: None,
            share,
            record: Recorder::new(count_by, &plan.mix),
            last: LastHead::default(),
            done: Vec::new(),
            buf: vec![0; READ_BYTES],
            timers: Timers::default(),
            packets: Vec::new(),
            next_request: chance.below(plan.requests.len()),
            phase: Phase::Before,
            next_tick: 0,
            published_ok: 0,
        })
    }

    /// Runs the load to its end and returns the record.
    pub fn run(mut self) -> io::Result<Recorder> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let began = self.clock.now();
        if self.share.requests.is_some() {
            self.record.open_endless(began);
            self.phase = Phase::Inside {
                cpu: thread_cpu_ns(),
            };
        }
        self.ramp(began);
        if self.ramp_left == 0 {
            self.signals.ramped.fetch_add(1, Ordering::Release);
        }
        loop {
            let now = self.clock.now();
            if !self.go_on(now) {
                break;
            }
            self.dispatch();
            if self.ramp_next < self.slots.len() {
                self.ramp(now);
            }
            self.redial_due(now);
            self.run_timers(now);
            if now >= self.next_tick {
                self.tick(now);
            }
            let asleep = self.clock.now();
            let nap = self.nap(asleep);
            if let (Nap::Alarm(wait), Some(alarm)) = (nap, &self.alarm) {
                alarm.set(wait)?;
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
        self.record.censored.without_response = (self.in_flight + self.again.len()) as u64;
        for at in 0..self.slots.len() {
            self.hang_up(at);
        }
        Ok(self.record)
    }

    /// Moves on to the next phase when it is time. Returns whether there is more to do.
    fn go_on(&mut self, now: Ns) -> bool {
        if self.record.window == Window::UNKNOWN {
            let begin = self.signals.begin.load(Ordering::Acquire);
            if begin != Ns::MAX {
                let end = self.signals.end.load(Ordering::Acquire);
                self.record.open_window(Window { begin, end });
                self.begin_schedule(now);
            }
        }
        if now >= self.signals.stop.load(Ordering::Acquire) && !self.stopped {
            self.cut_short(now);
        }
        let limited = self.share.requests.filter(|_| !self.stopped);
        if let (Phase::Inside { cpu }, Some(_)) = (self.phase, limited) {
            let more =
                self.left > 0 || self.in_flight > 0 || !self.again.is_empty() || self.is_dialling();
            if !more {
                self.record.cpu_ns = thread_cpu_ns() - cpu;
                self.record.close_window(now);
            }
            return more;
        }
        let window = self.record.window;
        if self.phase == Phase::Before && now >= window.begin {
            let cpu = thread_cpu_ns();
            self.phase = Phase::Inside { cpu };
        }
        if let Phase::Inside { cpu } = self.phase
            && now >= window.end
        {
            self.record.cpu_ns = thread_cpu_ns() - cpu;
            // Requests that are due but not placed belong to the window: place them first.
            self.dispatch();
            self.schedule = None;
            self.record.censored.in_flight = (self.in_flight + self.waiting.len()) as u64;
            self.record.censored.oldest_ns = self.oldest_age(now);
            let drain = match self.stopped {
                true => self.plan.drain.min(INTERRUPTED_DRAIN),
                false => self.plan.drain,
            };
            let until = now + span(drain);
            self.phase = Phase::Drain { until };
        }
        match self.phase {
            Phase::Drain { until } => {
                now < until
                    && (self.in_flight > 0
                        || !self.waiting.is_empty()
                        || (self.is_open_loop() && !self.again.is_empty())
                        || self.is_dialling())
            }
            Phase::Before | Phase::Inside { .. } => true,
        }
    }

    /// The load was interrupted: the window ends now, or never begins.
    fn cut_short(&mut self, now: Ns) {
        self.stopped = true;
        match self.phase {
            Phase::Before => {
                self.record.cancel_window();
                self.phase = Phase::Drain { until: now };
            }
            Phase::Inside { .. } => self.record.close_window(now),
            Phase::Drain { until } => {
                let until = until.min(now + span(INTERRUPTED_DRAIN));
                self.phase = Phase::Drain { until };
            }
        }
    }

    /// Open loop: requests become due from now on.
    fn begin_schedule(&mut self, now: Ns) {
        let Mode::Open { rate, poisson } = self.plan.mode else {
            return;
        };
        let Share {
            thread, threads, ..
        } = self.share;
        let chance = poisson.then(|| Random::new(self.plan.seed ^ (0xABCD + thread as u64)));
        let phase = (thread as f64 + 1.0) / threads as f64;
        self.schedule = Some(Schedule::new(now, rate / threads as f64, phase, chance));
    }

    /// Open loop: places every request that is due.
    fn dispatch(&mut self) {
        if self.is_open_loop() && !self.again.is_empty() {
            self.send_again();
        }
        while let Some(schedule) = &mut self.schedule {
            let due = schedule.due();
            let now = self.clock.now();
            if due > now || due >= self.record.window.end {
                return;
            }
            schedule.advance();
            if self.record.window.has(due) {
                self.record.due += 1;
            }
            self.place(due, now);
        }
    }

    /// How to wait until there is something to do.
    fn nap(&self, now: Ns) -> Nap {
        let window = self.record.window;
        let mut next = self.next_tick.min(self.timers.next());
        if let Some((at, _)) = self.redial.front() {
            next = next.min(*at);
        }
        match self.phase {
            Phase::Before => next = next.min(window.begin),
            Phase::Inside { .. } => next = next.min(window.end),
            Phase::Drain { until } => next = next.min(until),
        }
        let due = self.schedule.as_ref().map(Schedule::due);
        nap(now, next, due.filter(|due| *due < window.end))
    }

    /// Whether new requests may be started.
    fn is_loading(&self) -> bool {
        !matches!(self.phase, Phase::Drain { .. })
    }

    /// Closed loop: a client wants a request from now on, if there is one left for it.
    fn want(&mut self, now: Ns) -> Option<Ns> {
        if self.is_open_loop() || !self.is_loading() {
            return None;
        }
        if let Some(due) = self.again.pop_front() {
            return Some(due);
        }
        self.left = self.left.checked_sub(1)?;
        Some(now)
    }

    fn is_open_loop(&self) -> bool {
        matches!(self.plan.mode, Mode::Open { .. })
    }

    /// The index of the next prepared request, round robin.
    fn pick(&mut self) -> usize {
        let picked = self.next_request;
        self.next_request = if picked + 1 == self.plan.requests.len() {
            0
        } else {
            picked + 1
        };
        picked
    }

    /// Checks timeouts and publishes statistics.
    fn tick(&mut self, now: Ns) {
        self.next_tick = now + self.plan.tick_ns();
        self.expire(now);
        let ok = self.record.connections.responses;
        self.signals
            .ok
            .fetch_add(ok - self.published_ok, Ordering::Relaxed);
        self.published_ok = ok;
        self.record.publish(now, &self.signals.seen);
    }
}
