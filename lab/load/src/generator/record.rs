//! The record of one thread, and how the threads' records are merged into the result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::clock::{Ns, span};
use super::limits::{SLICE, SLICES_MAX};
use super::mix::Mix;
use super::scenario::{Pace, Phase, Scenario, Session};
use super::seen::Seen;
use super::talk::{Done, Lost};
use crate::result::{
    Censored, Connections, Distribution, FailureClass, Failures, Generator, HEAT_STEPS, Histogram,
    Latencies, LoadPart, LoadPhase, LoadSession, Point, Series, Transfer, heat_step,
};

/// The measured window, in time since the load began; until it is known it contains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First moment inside.
    pub begin: Ns,
    /// First moment after it.
    pub end: Ns,
}

impl Window {
    /// A window that is not fixed yet.
    pub const UNKNOWN: Window = Window {
        begin: Ns::MAX,
        end: Ns::MAX,
    };

    /// Whether a moment is inside the window.
    pub fn has(&self, at: Ns) -> bool {
        self.begin <= at && at < self.end
    }
}

/// Which moment decides whether a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountBy {
    /// Its end (closed loop).
    End,
    /// Its due time (open loop): a late response counts for the time at which it was wanted.
    Due,
}

/// The record of one thread.
#[derive(Debug)]
pub struct Recorder {
    /// The part of the run that is measured.
    pub window: Window,
    count_by: CountBy,
    ok: u64,
    ended_ok: u64,
    total: Histogram,
    service: Histogram,
    wait: Histogram,
    first_byte: Histogram,
    connect: Histogram,
    tls: Histogram,
    opening: Histogram,
    failures: Vec<Option<Box<Lossbook>>>,
    /// Figures of each part of a mix.
    parts: Vec<PartBook>,
    part_of: Arc<[usize]>,
    /// Figures of each phase of a scenario, and when it ends, from the beginning of the window.
    phases: Vec<(Ns, PartBook)>,
    /// Figures of each session of a scenario.
    sessions: Vec<SessionBook>,
    slices: Vec<Slice>,
    transfer: Bytes,
    /// Connections over the whole run.
    pub connections: Connections,
    /// Successful requests before the window.
    warmup_ok: u64,
    /// Open loop: delay of sending although a connection was free.
    pub send_lag: Histogram,
    /// Durations of the rounds of the event loop.
    pub loop_lag: Histogram,
    /// CPU time of the thread inside the window.
    pub cpu_ns: Ns,
    /// Part of it spent spinning until the next due time.
    pub spun_ns: Ns,
    /// Requests not finished at the end.
    pub censored: Censored,
    /// Open loop: requests due inside the window.
    pub due: u64,
    /// Counts already published to the observer, and intervals of them.
    published: Box<(Seen, usize)>,
}

#[derive(Debug, Default)]
struct Bytes {
    received: u64,
    bodies: u64,
    sent: u64,
}

/// Figures of one session of a scenario.
#[derive(Debug, Default)]
struct SessionBook {
    completed: u64,
    failed: u64,
    unfinished: u64,
    took: Histogram,
}

/// How a session of a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// All its steps succeeded.
    Completed,
    /// A step failed, which ends it.
    Failed,
    /// The window ended, or its client left.
    Unfinished,
}

/// Figures of one part of a mix, or of one phase of a scenario.
#[derive(Debug, Default)]
struct PartBook {
    ok: u64,
    failed: u64,
    total: Histogram,
}

/// Failures of one class.
#[derive(Debug, Default)]
struct Lossbook {
    count: u64,
    statuses: BTreeMap<u16, u64>,
    latency: Histogram,
    example: String,
}

#[derive(Clone, Debug)]
struct Slice {
    ok: u64,
    failed: u64,
    bytes: u64,
    max: Ns,
    heat: [u32; HEAT_STEPS],
}

const EMPTY_SLICE: Slice = Slice {
    ok: 0,
    failed: 0,
    bytes: 0,
    max: 0,
    heat: [0; HEAT_STEPS],
};

impl Recorder {
    /// An empty record.
    pub fn new(count_by: CountBy, mix: &Mix) -> Self {
        let part = |_: &(String, u32)| PartBook::default();
        Recorder {
            window: Window::UNKNOWN,
            count_by,
            ok: 0,
            ended_ok: 0,
            total: Histogram::new(),
            service: Histogram::new(),
            wait: Histogram::new(),
            first_byte: Histogram::new(),
            connect: Histogram::new(),
            tls: Histogram::new(),
            opening: Histogram::new(),
            failures: (0..FailureClass::ALL.len()).map(|_| None).collect(),
            parts: mix.parts.iter().map(part).collect(),
            part_of: mix.part_of.clone(),
            phases: Vec::new(),
            sessions: Vec::new(),
            slices: Vec::new(),
            transfer: Bytes::default(),
            connections: Connections {
                clients: Some(0),
                ..Connections::default()
            },
            warmup_ok: 0,
            send_lag: Histogram::new(),
            loop_lag: Histogram::new(),
            cpu_ns: 0,
            spun_ns: 0,
            censored: Censored::default(),
            due: 0,
            published: Box::default(),
        }
    }

    /// An empty record of a scenario, with figures of each step, phase and session.
    pub fn of_scenario(scenario: &Scenario) -> Self {
        let mut ends = 0;
        let phase = |phase: &Phase| {
            ends += span(phase.duration);
            (ends, PartBook::default())
        };
        let session = |_: &Session| SessionBook::default();
        let count_by = match scenario.pace {
            Pace::Clients => CountBy::End,
            Pace::Sessions { .. } => CountBy::Due,
        };
        Recorder {
            phases: scenario.phases.iter().map(phase).collect(),
            sessions: scenario.sessions.iter().map(session).collect(),
            ..Recorder::new(count_by, &scenario.mix())
        }
    }

    /// Publishes new counts: completed intervals, and failures. If the lock is taken, the next call tries again.
    pub fn publish(&mut self, now: Ns, seen: &Mutex<Seen>) {
        let Ok(mut seen) = seen.try_lock() else {
            return;
        };
        let (published, slices) = &mut *self.published;
        for (class, book) in self.failures.iter().enumerate() {
            let count = book.as_ref().map_or(0, |book| book.count);
            seen.failed[class] += count - published.failed[class];
            published.failed[class] = count;
        }
        let passed = now.saturating_sub(self.window.begin) / SLICE.as_nanos() as u64;
        let passed = usize::try_from(passed)
            .unwrap_or(usize::MAX)
            .min(self.slices.len());
        for slice in self.slices.get(*slices..passed).unwrap_or_default() {
            for (sum, count) in seen.heat.iter_mut().zip(slice.heat) {
                *sum += u64::from(count);
            }
        }
        *slices = passed.max(*slices);
    }

    /// Allocates the intervals of the window, so that no memory is allocated inside it.
    pub fn open_window(&mut self, window: Window) {
        self.window = window;
        let slices = (window.end - window.begin).div_ceil(SLICE.as_nanos() as u64) as usize;
        self.slices = vec![EMPTY_SLICE; slices.clamp(1, SLICES_MAX)];
    }

    /// Counts everything from now on, until [`Recorder::close_window`].
    pub fn open_endless(&mut self, now: Ns) {
        self.window = Window {
            begin: now,
            end: Ns::MAX,
        };
        self.slices = vec![EMPTY_SLICE; 1];
    }

    /// Ends a window without a fixed end, or before its end.
    pub fn close_window(&mut self, now: Ns) {
        self.window.end = now.max(self.window.begin + 1);
        let passed = self.window.end - self.window.begin;
        let slices = passed.div_ceil(SLICE.as_nanos() as u64);
        self.slices.truncate(slices.max(1) as usize);
    }

    /// The load ended before its window began.
    pub fn cancel_window(&mut self) {
        self.window = Window::UNKNOWN;
        self.slices.clear();
    }

    /// Records a request that has ended now.
    pub fn done(&mut self, done: &Done, now: Ns) {
        if done.is_opening() {
            // Conversations mostly begin before the window, so all of them count.
            self.opening.record(now.saturating_sub(done.due));
            return;
        }
        let counts = match self.count_by {
            CountBy::End => self.window.has(now),
            CountBy::Due => self.window.has(done.due),
        };
        let ended_inside = self.window.has(now);
        if done.outcome.is_ok() {
            self.connections.responses += 1;
            self.warmup_ok += u64::from(now < self.window.begin);
        }
        if !counts && !ended_inside {
            return;
        }
        let total = now.saturating_sub(done.due);
        if counts && self.count_by == CountBy::Due && done.sent > 0 {
            self.wait.record(done.sent.saturating_sub(done.due));
        }
        if counts {
            self.part(done, total);
            self.phase(done, total, now);
        }
        match &done.outcome {
            Ok(body) => {
                if counts {
                    self.ok += 1;
                    self.total.record(total);
                    self.service.record(now.saturating_sub(done.sent));
                    self.first_byte.record(done.first.saturating_sub(done.sent));
                }
                if ended_inside {
                    self.ended_ok += 1;
                    self.transfer.bodies += body;
                    let slice = self.slice(now);
                    slice.ok += 1;
                    slice.max = slice.max.max(total);
                    slice.heat[usize::from(heat_step(total))] += 1;
                }
            }
            Err(lost) => {
                if counts {
                    self.lost(lost, total);
                }
                if ended_inside {
                    self.slice(now).failed += 1;
                }
            }
        }
    }

    /// Counts a request for its part of a mix.
    fn part(&mut self, done: &Done, total: Ns) {
        let part = done.request.and_then(|at| self.part_of.get(at).copied());
        if let Some(book) = part.and_then(|at| self.parts.get_mut(at)) {
            book.count(done.outcome.is_ok(), total);
        }
    }

    /// Counts a request for the phase in which it ended (closed loop) or was due (open loop).
    fn phase(&mut self, done: &Done, total: Ns, now: Ns) {
        let at = match self.count_by {
            CountBy::End => now,
            CountBy::Due => done.due,
        };
        let passed = at.saturating_sub(self.window.begin);
        let mut phases = self.phases.iter_mut();
        if let Some((_, book)) = phases.find(|(end, _)| passed < *end) {
            book.count(done.outcome.is_ok(), total);
        }
    }

    /// Counts a session that took `took`, if it ended inside the window. Sessions that the end of the window cuts off count
    /// as unfinished.
    pub fn session(&mut self, session: usize, end: SessionEnd, took: Ns, now: Ns) {
        let end = match now >= self.window.end {
            true => SessionEnd::Unfinished,
            false => end,
        };
        let counts = now >= self.window.begin;
        let Some(book) = self.sessions.get_mut(session).filter(|_| counts) else {
            return;
        };
        match end {
            SessionEnd::Completed => {
                book.completed += 1;
                book.took.record(took);
            }
            SessionEnd::Failed => book.failed += 1,
            SessionEnd::Unfinished => book.unfinished += 1,
        }
    }

    fn lost(&mut self, lost: &Lost, total: Ns) {
        let book = self.failures[lost.class.index()].get_or_insert_default();
        book.count += 1;
        book.latency.record(total);
        if lost.class == FailureClass::Status {
            *book.statuses.entry(lost.status).or_insert(0) += 1;
        }
        if book.example.is_empty() {
            book.example = lost.text.clone();
        }
    }

    fn slice(&mut self, now: Ns) -> &mut Slice {
        let at = (now - self.window.begin) / SLICE.as_nanos() as u64;
        let mut at = (at as usize).min(SLICES_MAX - 1);
        if self.window.end == Ns::MAX && at >= self.slices.len() {
            self.slices.resize(at + 1, EMPTY_SLICE);
        }
        at = at.min(self.slices.len() - 1);
        &mut self.slices[at]
    }

    /// Records received bytes.
    pub fn received(&mut self, bytes: usize, now: Ns) {
        if self.window.has(now) {
            self.transfer.received += bytes as u64;
            self.slice(now).bytes += bytes as u64;
        }
    }

    /// Records sent bytes.
    pub fn sent(&mut self, bytes: usize, now: Ns) {
        if self.window.has(now) {
            self.transfer.sent += bytes as u64;
        }
    }

    /// Records a connect and its duration.
    pub fn connected(&mut self, took: Ns, now: Ns) {
        self.connections.opened += 1;
        if self.window.has(now) {
            self.connect.record(took);
        }
    }

    /// Records a successful TLS handshake and its duration.
    pub fn secured(&mut self, took: Ns, now: Ns) {
        if self.window.has(now) {
            self.tls.record(took);
        }
    }

    /// Adds the record of another thread.
    pub fn merge(&mut self, other: Recorder) {
        self.window.begin = self.window.begin.min(other.window.begin);
        self.window.end = self.window.end.max(other.window.end);
        self.ok += other.ok;
        self.ended_ok += other.ended_ok;
        self.due += other.due;
        self.warmup_ok += other.warmup_ok;
        for (mine, theirs) in [
            (&mut self.total, &other.total),
            (&mut self.service, &other.service),
            (&mut self.wait, &other.wait),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.connect, &other.connect),
            (&mut self.tls, &other.tls),
            (&mut self.opening, &other.opening),
            (&mut self.send_lag, &other.send_lag),
            (&mut self.loop_lag, &other.loop_lag),
        ] {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            mine.merge(theirs);
        }
        for ((_, mine), (_, theirs)) in self.phases.iter_mut().zip(&other.phases) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.sessions.iter_mut().zip(&other.sessions) {
            mine.completed += theirs.completed;
            mine.failed += theirs.failed;
            mine.unfinished += theirs.unfinished;
            mine.took.merge(&theirs.took);
        }
        for (mine, theirs) in self.failures.iter_mut().zip(other.failures) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_default();
            mine.count += theirs.count;
            mine.latency.merge(&theirs.latency);
            for (status, count) in theirs.statuses {
                *mine.statuses.entry(status).or_insert(0) += count;
            }
            if mine.example.is_empty() {
                mine.example = theirs.example;
            }
        }
        if self.slices.len() < other.slices.len() {
            self.slices.resize(other.slices.len(), EMPTY_SLICE);
        }
        for (mine, theirs) in self.slices.iter_mut().zip(&other.slices) {
            mine.ok += theirs.ok;
            mine.failed += theirs.failed;
            mine.bytes += theirs.bytes;
            mine.max = mine.max.max(theirs.max);
            for (mine, theirs) in mine.heat.iter_mut().zip(theirs.heat) {
                *mine += theirs;
            }
        }
        self.transfer.received += other.transfer.received;
        self.transfer.bodies += other.transfer.bodies;
        self.transfer.sent += other.transfer.sent;
        self.connections.opened += other.connections.opened;
        let theirs = other.connections.clients.unwrap_or(0);
        *self.connections.clients.get_or_insert(0) += theirs;
        self.connections.failed += other.connections.failed;
        self.connections.closed_by_server += other.connections.closed_by_server;
        if let Some(theirs) = other.connections.resumed {
            *self.connections.resumed.get_or_insert(0) += theirs;
        }
        self.connections.responses += other.connections.responses;
        self.censored.in_flight += other.censored.in_flight;
        self.censored.without_response += other.censored.without_response;
        self.censored.oldest_ns = self.censored.oldest_ns.max(other.censored.oldest_ns);
    }

    /// Writes the record into a result.
    pub fn fill(self, load: &mut crate::result::Load, keepup: Keepup) {
        load.window_s = (self.window.end - self.window.begin) as f64 / 1e9;
        load.ok = self.ok;
        load.ended_ok = self.ended_ok;
        load.warmup_ok = Some(self.warmup_ok);
        load.due = (self.count_by == CountBy::Due).then_some(self.due);
        load.failures = FailureClass::ALL
            .into_iter()
            .zip(self.failures)
            .filter_map(|(class, book)| {
                let book = book?;
                Some(Failures {
                    class,
                    count: book.count,
                    statuses: book.statuses.into_iter().collect(),
                    latency: Distribution::of(book.latency),
                    example: Some(book.example),
                })
            })
            .collect();
        let part = |book: PartBook| LoadPart {
            name: String::new(),
            weight: 1,
            ok: book.ok,
            failed: book.failed,
            latency: Distribution::of(book.total),
        };
        load.parts = self.parts.into_iter().map(part).collect();
        let phase = |(_, book): (Ns, PartBook)| LoadPhase {
            ok: book.ok,
            failed: book.failed,
            latency: Distribution::of(book.total),
            ..LoadPhase::default()
        };
        load.phases = self.phases.into_iter().map(phase).collect();
        let session = |book: SessionBook| LoadSession {
            completed: book.completed,
            failed: book.failed,
            unfinished: book.unfinished,
            duration: Distribution::of(book.took),
            ..LoadSession::default()
        };
        load.sessions = self.sessions.into_iter().map(session).collect();
        let some =
            |histogram: Histogram| (!histogram.is_empty()).then(|| Distribution::of(histogram));
        load.latency = Latencies {
            total: Distribution::of(self.total),
            service: some(self.service),
            wait: some(self.wait),
            first_byte: some(self.first_byte),
            connect: some(self.connect),
            tls: some(self.tls),
            opening: some(self.opening),
        };
        load.transfer = Transfer {
            received_bytes: self.transfer.received,
            body_bytes: Some(self.transfer.bodies),
            sent_bytes: Some(self.transfer.sent),
        };
        load.connections = self.connections;
        load.censored = self.censored;
        load.generator = Some(Generator {
            cpu_s: keepup.cpu_ns as f64 / 1e9,
            busiest: keepup.busiest,
            send_lag: Distribution::of(self.send_lag),
            loop_lag: Distribution::of(self.loop_lag),
        });
        load.series = Some(Series {
            interval_ms: SLICE.as_millis() as u64,
            points: self.slices.iter().map(point).collect(),
        });
    }
}

impl PartBook {
    fn count(&mut self, ok: bool, total: Ns) {
        match ok {
            true => {
                self.ok += 1;
                self.total.record(total);
            }
            false => self.failed += 1,
        }
    }

    fn merge(&mut self, other: &PartBook) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.total.merge(&other.total);
    }
}

/// How busy the threads were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keepup {
    /// CPU time of all threads.
    pub cpu_ns: Ns,
    /// Share of the window in which the busiest was working.
    pub busiest: f64,
}

fn point(slice: &Slice) -> Point {
    let steps = slice.heat.iter().enumerate();
    let heat = steps
        .filter(|(_, count)| **count > 0)
        .map(|(step, count)| (step as u8, u64::from(*count)))
        .collect();
    Point {
        ok: slice.ok,
        failed: slice.failed,
        bytes: slice.bytes,
        max_ns: slice.max,
        heat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(count_by: CountBy) -> Recorder {
        let mut recorder = Recorder::new(count_by, &Mix::default());
        recorder.open_window(Window {
            begin: 1_000_000_000,
            end: 2_000_000_000,
        });
        recorder
    }

    fn done(due: Ns, outcome: Result<u64, Lost>) -> Done {
        Done {
            due,
            sent: due,
            first: due + 1,
            request: None,
            outcome,
            what: Default::default(),
        }
    }

    #[test]
    fn the_window_is_exact() {
        let mut closed = recorder(CountBy::End);
        let mut open = recorder(CountBy::Due);
        for (due, end) in [
            (999_999_990, 999_999_999),
            (999_999_999, 1_000_000_000),
            (1_500_000_000, 1_999_999_999),
            (1_999_999_999, 2_000_000_000),
            (2_000_000_000, 2_000_000_001),
        ] {
            closed.done(&done(due, Ok(7)), end);
            open.done(&done(due, Ok(7)), end);
        }
        assert_eq!((closed.ok, closed.ended_ok), (2, 2));
        assert_eq!((open.ok, open.ended_ok), (2, 2));
        // By due time the response that came after the end counts, with its full duration.
        assert_eq!(open.total.count(), 2);
        assert_eq!(
            closed.connections.responses, 5,
            "those before and after, too"
        );
        assert_eq!(closed.transfer.bodies, 14);
        assert_eq!((closed.warmup_ok, open.warmup_ok), (1, 1));
    }

    #[test]
    fn losses_never_enter_the_latency_of_responses() {
        let mut recorder = recorder(CountBy::End);
        recorder.done(&done(1_000_000_000, Ok(1)), 1_000_500_000);
        for status in [502, 502, 404] {
            let mut lost = Lost::new(FailureClass::Status, "first");
            lost.status = status;
            recorder.done(&done(1_000_000_000, Err(lost)), 1_000_000_010);
        }
        let mut load = crate::result::Load::default();
        recorder.fill(&mut load, Keepup::default());
        assert_eq!((load.ok, load.failed()), (1, 3));
        assert_eq!(load.latency.total.count, 1);
        let shortest = load.latency.total.min_ns.unwrap();
        assert!((shortest / 500_000.0 - 1.0).abs() < 0.001, "{shortest}");
        assert_eq!(load.failures[0].statuses, [(404, 1), (502, 2)]);
        assert_eq!(load.failures[0].example.as_deref(), Some("first"));
    }

    #[test]
    fn threads_add_up() {
        let (mut one, mut two) = (recorder(CountBy::End), recorder(CountBy::End));
        one.done(&done(1_000_000_000, Ok(1)), 1_100_000_000);
        two.done(&done(1_000_000_000, Ok(1)), 1_950_000_000);
        two.done(
            &done(1, Err(Lost::new(FailureClass::Reset, "x"))),
            1_950_000_001,
        );
        one.merge(two);
        let mut load = crate::result::Load::default();
        one.fill(&mut load, Keepup::default());
        assert_eq!((load.ok, load.failed_in(FailureClass::Reset)), (2, 1));
        let points = &load.series.unwrap().points;
        assert_eq!(points.len(), 10);
        assert_eq!((points[1].ok, points[9].ok, points[9].failed), (1, 1, 1));
        assert_eq!(load.window_s, 1.0);
    }
}
