//! A worker process as all threads see it. Its supervisor is the only one that changes its state.

use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sluice_net::clock;

use crate::failure::Death;
use crate::seat::Seat;
use crate::settings::{Interface, Settings};
use crate::snapshot::{ProcessSnapshot, ProcessState};

/// Nanoseconds of this process's clock.
pub(crate) fn nanos() -> u64 {
    u64::try_from(clock::now().since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number, which no other process of any group has or had.
    pub number: u64,
    /// Its index in the group.
    pub index: usize,
    /// What its requests need from its start on.
    pub lane: LaneSettings,
    pid: AtomicU32,
    state: AtomicU8,
    seats: Box<[Seat]>,
    /// How many of them are open.
    open: AtomicUsize,
    /// How many of those that are not stalled may get requests.
    allowed: AtomicUsize,
    /// Maximum number of requests in flight, if the seat is an event loop.
    concurrency: usize,
    in_flight: AtomicUsize,
    requests: AtomicU64,
    /// Number of requests after which it is to be replaced.
    quota: u64,
    /// Requests that took longer than allowed and have not ended.
    overdue: AtomicUsize,
    /// Average time of a request in nanoseconds.
    average: AtomicU64,
    busy_micros: AtomicU64,
    began: u64,
    death: Mutex<Option<Death>>,
    greeting: OnceLock<Greeting>,
}

/// The settings that lanes need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSettings {
    /// The flow-control window.
    pub window: u32,
    /// `request_timeout`.
    pub request_timeout: Option<Duration>,
}

/// What a process reports when it is ready.
#[derive(Clone, Debug, Default)]
pub(crate) struct Greeting {
    /// The version of Python.
    pub python: String,
    /// The interface of the application; never [`Interface::Auto`].
    pub interface: Option<Interface>,
    /// The event loop.
    pub event_loop: String,
    /// Whether the extension module is in use.
    pub accelerated: bool,
    /// Whether it reads marshal.
    pub marshal: bool,
}

impl Greeting {
    /// Whether its seats are threads, each of which runs one request at a time.
    pub fn has_threads(&self) -> bool {
        self.interface == Some(Interface::Wsgi) && self.event_loop != "gevent"
    }
}

/// What a release of seats means for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Nothing but room.
    Room,
    /// The supervisor has to look: the process has reached its quota, or finished its last request while draining.
    Attention,
}

impl Process {
    pub fn new(number: u64, index: usize, quota: u64, settings: &Settings) -> Process {
        let seats = settings.threads.max(1);
        Process {
            number,
            index,
            lane: LaneSettings {
                window: settings.window,
                request_timeout: settings.request_timeout,
            },
            pid: AtomicU32::new(0),
            state: AtomicU8::new(ProcessState::Starting as u8),
            seats: (0..seats).map(|_| Seat::default()).collect(),
            open: AtomicUsize::new(1),
            allowed: AtomicUsize::new(1),
            concurrency: settings.concurrency.max(1),
            in_flight: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            quota,
            overdue: AtomicUsize::new(0),
            average: AtomicU64::new(0),
            busy_micros: AtomicU64::new(0),
            began: nanos(),
            death: Mutex::new(None),
            greeting: OnceLock::new(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    pub fn set_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    pub fn state(&self) -> ProcessState {
        let state = self.state.load(Ordering::SeqCst);
        [
            ProcessState::Starting,
            ProcessState::Ready,
            ProcessState::Draining,
        ]
        .into_iter()
        .find(|known| *known as u8 == state)
        .unwrap_or(ProcessState::Dead)
    }

    pub fn set_state(&self, state: ProcessState) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    /// The process is ready. A second greeting changes nothing.
    pub fn greet(&self, greeting: Greeting) {
        let _ = self.greeting.set(greeting);
    }

    pub fn greeting(&self) -> Option<&Greeting> {
        self.greeting.get()
    }

    fn has_threads(&self) -> bool {
        self.greeting().is_some_and(Greeting::has_threads)
    }

    pub fn seat(&self, seat: usize) -> &Seat {
        &self.seats[seat]
    }

    /// The seats that are open.
    pub fn open_seats(&self) -> &[Seat] {
        &self.seats[..self.open.load(Ordering::Acquire)]
    }

    /// The number of the seat that can be opened next, if there may be more.
    pub fn next_seat(&self) -> Option<usize> {
        let open = self.open.load(Ordering::Relaxed);
        (self.has_threads() && open < self.seats.len()).then_some(open)
    }

    /// The most seats that it may have.
    pub fn seats(&self) -> usize {
        self.seats.len()
    }

    /// Whether it can have more than one thread.
    pub fn may_have_threads(&self) -> bool {
        self.has_threads() && self.seats.len() > 1
    }

    /// A further seat is open; its ends are there.
    pub fn note_opened(&self) {
        self.open.fetch_add(1, Ordering::Release);
    }

    /// Closes our ends of lanes that nobody has taken.
    pub fn close_ends(&self) {
        self.seats.iter().for_each(Seat::close);
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Takes a place for a request, if the process takes requests and has one: the number of the seat.
    pub fn reserve(&self, now: u64) -> Option<usize> {
        if self.state() != ProcessState::Ready {
            return None;
        }
        let seat = match self.has_threads() {
            // An event loop that has not confirmed the end of a request that took too long may be blocked.
            false if self.overdue() > 0 => None,
            false => self.seats[0].reserve(self.concurrency, now).then_some(0),
            true => self.reserve_thread(now),
        }?;
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        // It may have begun to drain meanwhile. If it does so after this, its supervisor sees the request.
        if self.state() != ProcessState::Ready {
            self.release(seat, 1, now, Counted::No);
            return None;
        }
        Some(seat)
    }

    /// Takes a place of the lowest thread that has one, among those that are allowed. A thread that runs a long request
    /// does not count as one of them.
    fn reserve_thread(&self, now: u64) -> Option<usize> {
        let average = self.average.load(Ordering::Relaxed);
        let seats = self.open_seats().iter().enumerate();
        let mut allowed = seats
            .filter(|(_, seat)| !seat.stalled(now))
            .take(self.allowed.load(Ordering::Relaxed));
        let found = allowed.find(|(_, seat)| seat.reserve(seat.room(average), now));
        found.map(|(number, _)| number)
    }

    /// How many threads may get requests beside those that run long ones.
    pub fn set_allowed(&self, threads: usize) {
        self.allowed.store(threads.max(1), Ordering::Relaxed);
    }

    /// Whether it needs one more thread for as many as are allowed to get requests.
    pub fn lacks_seat(&self, now: u64) -> bool {
        let free = self.open_seats().iter().filter(|seat| !seat.stalled(now));
        free.count() < self.allowed.load(Ordering::Relaxed)
    }

    /// Counts a place that a test has taken by itself.
    #[cfg(test)]
    pub fn note_reserved(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    /// Gives back the places of `count` requests of a seat.
    pub fn release(&self, seat: usize, count: usize, now: u64, counted: Counted) -> Freed {
        let took = self.seats[seat].release(count, now);
        let left = self.in_flight.fetch_sub(count, Ordering::SeqCst) - count;
        let mut freed = Freed::Room;
        if counted == Counted::Yes {
            self.note_time(took / count.max(1) as u64, count);
            let before = self.requests.fetch_add(count as u64, Ordering::Relaxed);
            // Once: while the replacement starts, this one goes on.
            if before < self.quota && before + count as u64 >= self.quota {
                freed = Freed::Attention;
            }
        }
        if left == 0 && self.state() == ProcessState::Draining {
            freed = Freed::Attention;
        }
        freed
    }

    /// Whether it has handled as many requests as it may.
    pub fn is_used_up(&self) -> bool {
        self.requests.load(Ordering::Relaxed) >= self.quota
    }

    /// Moves the average towards `count` requests that took `time` each. Concurrent calls may lose one of them.
    fn note_time(&self, time: u64, count: usize) {
        let before = self.average.load(Ordering::Relaxed);
        let weight = (count as u64).min(AVERAGE_WEIGHT);
        let after = match before {
            0 => time,
            before => (before * (AVERAGE_WEIGHT - weight) + time * weight) / AVERAGE_WEIGHT,
        };
        self.average.store(after.max(1), Ordering::Relaxed);
    }

    /// One of its lanes is closed: it ends, or has to.
    pub fn note_lost(&self) {
        self.set_state(ProcessState::Dead);
    }

    pub fn note_overdue(&self) {
        self.overdue.fetch_add(1, Ordering::SeqCst);
    }

    pub fn note_late_end(&self) {
        self.overdue.fetch_sub(1, Ordering::SeqCst);
    }

    pub fn overdue(&self) -> usize {
        self.overdue.load(Ordering::SeqCst)
    }

    pub fn set_busy(&self, micros: u64) {
        self.busy_micros.store(micros, Ordering::Relaxed);
    }

    /// Its resident memory in bytes; 0 if it is not known.
    pub fn rss(&self) -> u64 {
        match self.pid() {
            0 => 0,
            pid => rss_of(pid).unwrap_or(0),
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(nanos().saturating_sub(self.began))
    }

    /// Records why it ends; the first reason stays.
    pub fn note_death(&self, death: Death) {
        if let Ok(mut held) = self.death.lock() {
            held.get_or_insert(death);
        }
    }

    pub fn death(&self) -> Death {
        let held = self.death.lock();
        held.ok().and_then(|held| *held).unwrap_or(Death::Unknown)
    }

    pub fn snapshot(&self) -> ProcessSnapshot {
        let greeting = self.greeting().cloned().unwrap_or_default();
        ProcessSnapshot {
            index: self.index,
            pid: self.pid(),
            state: self.state(),
            in_flight: self.in_flight(),
            requests: self.requests(),
            restarts: 0,
            seats: self.open_seats().len(),
            busy: Duration::from_micros(self.busy_micros.load(Ordering::Relaxed)),
            service_time: Duration::from_nanos(self.average.load(Ordering::Relaxed)),
            rss_bytes: self.rss(),
            age: self.age(),
            python: greeting.python,
            event_loop: greeting.event_loop,
            accelerated: greeting.accelerated,
        }
    }
}

/// The resident memory of a process (proc_pid_statm(5)): its second number, in pages.
fn rss_of(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * sluice_net::sys::limits::page_bytes())
}

/// Whether released places are those of requests that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// They are.
    Yes,
    /// The requests were never sent.
    No,
}

/// How many requests the average remembers.
const AVERAGE_WEIGHT: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn process(interface: Interface, change: impl FnOnce(&mut Settings)) -> Process {
        let mut settings = Settings::new("test", interface, "app:app");
        settings.threads = 3;
        settings.concurrency = 5;
        change(&mut settings);
        let process = Process::new(1, 0, 4, &settings);
        let interface = Some(interface);
        process.greet(Greeting {
            interface,
            ..Greeting::default()
        });
        process.set_state(ProcessState::Ready);
        process
    }

    #[test]
    fn an_event_loop_takes_as_many_as_it_may() {
        let process = process(Interface::Asgi, |_| {});
        assert!((0..5).all(|_| process.reserve(0) == Some(0)));
        assert_eq!(process.reserve(0), None);
        assert_eq!(process.in_flight(), 5);
        assert_eq!(process.next_seat(), None);
        process.release(0, 1, 0, Counted::Yes);
        assert_eq!(process.reserve(0), Some(0));
    }

    #[test]
    fn an_event_loop_that_may_be_blocked_takes_nothing() {
        let process = process(Interface::Asgi, |_| {});
        process.note_overdue();
        assert_eq!(process.reserve(0), None);
        process.note_late_end();
        assert_eq!(process.reserve(0), Some(0));
    }

    #[test]
    fn threads_get_one_request_each_until_they_are_known_to_be_fast() {
        let process = process(Interface::Wsgi, |_| {});
        assert_eq!(process.reserve(0), Some(0));
        assert_eq!(process.reserve(0), None);
        assert_eq!(process.next_seat(), Some(1));
        process.note_opened();
        assert_eq!(process.reserve(0), None, "one thread until they help");
        process.set_allowed(2);
        assert_eq!(process.reserve(0), Some(1));
        assert_eq!(process.reserve(0), None);
        process.release(0, 1, 250_000, Counted::Yes);
        // A quarter of a millisecond: four fit into one.
        let taken: Vec<_> = (0..9).map_while(|_| process.reserve(250_000)).collect();
        assert_eq!(taken, [0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_long_request_leaves_its_thread_out_of_those_that_are_allowed() {
        let process = process(Interface::Wsgi, |_| {});
        process.note_opened();
        assert_eq!(process.reserve(0), Some(0));
        assert!(!process.lacks_seat(0));
        let later = 6_000_000;
        assert_eq!(process.reserve(later), Some(1));
        assert_eq!(process.reserve(later), None);
        assert!(!process.lacks_seat(later));
        assert!(process.lacks_seat(2 * later), "both run long ones");
    }

    #[test]
    fn a_draining_process_takes_nothing_and_says_when_it_is_done() {
        let process = process(Interface::Asgi, |_| {});
        process.reserve(0);
        process.reserve(0);
        process.set_state(ProcessState::Draining);
        assert_eq!(process.reserve(0), None);
        assert_eq!(process.release(0, 1, 0, Counted::Yes), Freed::Room);
        assert_eq!(process.release(0, 1, 0, Counted::Yes), Freed::Attention);
    }

    #[test]
    fn the_last_request_of_the_quota_is_noticed() {
        let process = process(Interface::Asgi, |_| {});
        for expected in [Freed::Room, Freed::Room, Freed::Room, Freed::Attention] {
            process.reserve(0);
            assert_eq!(process.release(0, 1, 0, Counted::Yes), expected);
        }
        assert!(process.is_used_up());
    }

    #[test]
    fn the_average_follows_the_last_requests() {
        let process = process(Interface::Wsgi, |_| {});
        process.note_time(1_600, 1);
        assert_eq!(process.average.load(Ordering::Relaxed), 1_600);
        process.note_time(0, 1);
        assert_eq!(process.average.load(Ordering::Relaxed), 1_500);
        process.note_time(100, 64);
        assert_eq!(process.average.load(Ordering::Relaxed), 100);
    }
}
