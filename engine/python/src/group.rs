//! A group of processes as all threads see it: which of them take requests, who waits, and what the supervisor has to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::failure::{Refusal, StartFailure};
use crate::held::{Direction, Held};
use crate::limits::ORDERS_MAX;
use crate::notice::{Fact, Level, Notice, Sink};
use crate::process::{Counted, Freed, Process, nanos};
use crate::queue::{Grant, Queue};
use crate::settings::{Interface, Settings};
use crate::snapshot::{GroupSnapshot, GroupState, ProcessSnapshot};

/// A group.
pub(crate) struct Group {
    /// Its number, which no other group has or had.
    pub number: u64,
    pub settings: Settings,
    /// Number of sluice's threads.
    pub workers: usize,
    pub queue: Queue,
    /// Rings when the supervisor has something to do.
    pub bell: Notify,
    sink: Sink,
    /// Counts changes of `members`.
    version: AtomicU64,
    /// The processes that take requests.
    members: Mutex<Arc<[Arc<Process>]>>,
    /// All processes, for snapshots.
    known: Mutex<Vec<Arc<Process>>>,
    orders: Mutex<VecDeque<Order>>,
    /// Whether the supervisor watches for stalled threads.
    attention: AtomicBool,
    phase: Mutex<Phase>,
    phase_changed: Condvar,
    detected: OnceLock<Interface>,
    is_over: AtomicBool,
    pub counters: Counters,
    /// What its WebSockets hold.
    pub held: Arc<Held>,
}

/// Counts of a group.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Requests of processes that are gone.
    pub past_requests: AtomicU64,
    /// By index of the worker.
    pub restarts: Box<[AtomicU64]>,
    pub recycled: AtomicU64,
    pub reloads: AtomicU64,
}

/// What others ask of the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Replace all processes.
    Reload,
    /// End all processes; those that have requests may take this long.
    Stop(Duration),
}

struct Phase {
    state: GroupState,
    failure: Option<StartFailure>,
    wakers: Vec<Waker>,
}

impl Group {
    pub fn new(number: u64, settings: Settings, workers: usize, sink: Sink) -> Group {
        let counters = Counters {
            restarts: (0..settings.workers).map(|_| AtomicU64::new(0)).collect(),
            ..Counters::default()
        };
        Group {
            number,
            workers,
            queue: Queue::new(settings.queue_size),
            held: Arc::new(Held::new(settings.messages_bytes_max)),
            settings,
            bell: Notify::new(),
            sink,
            version: AtomicU64::new(1),
            members: Mutex::new(Arc::new([])),
            known: Mutex::default(),
            orders: Mutex::default(),
            attention: AtomicBool::new(false),
            phase: Mutex::new(Phase {
                state: GroupState::Starting,
                failure: None,
                wakers: Vec::new(),
            }),
            phase_changed: Condvar::new(),
            detected: OnceLock::new(),
            is_over: AtomicBool::new(false),
            counters,
        }
    }

    /// Changes whenever the members do.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The processes that take requests.
    pub fn members(&self) -> Arc<[Arc<Process>]> {
        lock(&self.members).clone()
    }

    /// Replaces the processes that take requests, and serves those that wait.
    pub fn publish(&self, members: Vec<Arc<Process>>) {
        *lock(&self.members) = members.into();
        self.version.fetch_add(1, Ordering::Release);
        self.serve_queue();
    }

    /// Remembers all processes, for snapshots.
    pub fn note_known(&self, known: Vec<Arc<Process>>) {
        *lock(&self.known) = known;
    }

    /// Gives free places to requests that wait.
    pub fn serve_queue(&self) {
        if self.queue.len() == 0 {
            return;
        }
        let members = self.members();
        let now = nanos();
        self.queue.serve(|| {
            let (process, seat) = choose(members.iter(), now)?;
            let process = process.clone();
            Some(Grant { process, seat })
        });
    }

    /// A process is replaced because it crashed, hung or could not start.
    pub fn note_restart(&self, process: &Process) {
        if let Some(count) = self.counters.restarts.get(process.index) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Places of `count` requests are free again.
    pub fn release(&self, process: &Process, seat: usize, count: usize, counted: Counted) {
        let freed = process.release(seat, count, nanos(), counted);
        if freed == Freed::Attention {
            self.bell.notify_one();
        }
        if self.queue.len() > 0 {
            self.serve_queue();
        }
    }

    /// Lets the supervisor watch for threads that hold others up, if a process may have more than one.
    pub fn watch_stalls(&self) {
        if self.attention.load(Ordering::Relaxed) {
            return;
        }
        let has_threads = self.members().iter().any(|p| p.may_have_threads());
        if has_threads && !self.attention.swap(true, Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// Whether the supervisor is to watch for stalled threads.
    pub fn is_watching(&self) -> bool {
        self.attention.load(Ordering::SeqCst)
    }

    /// The supervisor stops watching; [`Group::watch_stalls`] starts it again.
    pub fn stop_watching(&self) {
        self.attention.store(false, Ordering::SeqCst);
    }

    /// Asks something of the supervisor. Reloads beyond those that already wait change nothing.
    pub fn order(&self, order: Order) {
        {
            let mut orders = lock(&self.orders);
            match order {
                Order::Stop(_) => orders.clear(),
                Order::Reload if orders.len() >= ORDERS_MAX => return,
                Order::Reload => {}
            }
            orders.push_back(order);
        }
        self.bell.notify_one();
    }

    /// The next order.
    pub fn take_order(&self) -> Option<Order> {
        lock(&self.orders).pop_front()
    }

    /// The interface of the application: for [`Interface::Auto`] the one that was detected, once a process was ready.
    pub fn interface(&self) -> Interface {
        match (self.settings.interface, self.detected.get()) {
            (Interface::Auto, Some(detected)) => *detected,
            (configured, _) => configured,
        }
    }

    /// A process has found out the interface.
    pub fn note_interface(&self, interface: Interface) {
        let _ = self.detected.set(interface);
    }

    /// Whether all processes have ended, and no more will be started.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// All processes have ended.
    pub fn note_over(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.set_state(GroupState::Draining, None);
    }

    pub fn state(&self) -> GroupState {
        lock(&self.phase).state
    }

    /// Changes the state of the group, and wakes those who wait for that.
    pub fn set_state(&self, state: GroupState, failure: Option<StartFailure>) {
        let wakers = {
            let mut phase = lock(&self.phase);
            phase.state = state;
            if failure.is_some() {
                phase.failure = failure;
            }
            std::mem::take(&mut phase.wakers)
        };
        self.phase_changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        match state {
            GroupState::Failed => self.queue.close(Refusal::Failed),
            GroupState::Draining => self.queue.close(Refusal::Stopped),
            GroupState::Ready => self.queue.reopen(),
            GroupState::Starting => {}
        }
    }

    /// Records a failure to start that does not change the state.
    pub fn note_failure(&self, failure: StartFailure) {
        lock(&self.phase).failure = Some(failure);
    }

    /// Waits until the group has started or failed.
    pub fn wait_started(&self) -> Result<(), StartFailure> {
        let mut phase = lock(&self.phase);
        while phase.state == GroupState::Starting {
            let waited = self.phase_changed.wait(phase);
            phase = waited.unwrap_or_else(PoisonError::into_inner);
        }
        started(&phase)
    }

    pub fn poll_started(&self, cx: &Context<'_>) -> Poll<Result<(), StartFailure>> {
        let mut phase = lock(&self.phase);
        if phase.state == GroupState::Starting {
            if !phase.wakers.iter().any(|known| known.will_wake(cx.waker())) {
                phase.wakers.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(started(&phase))
    }

    /// Reports something to the log.
    pub fn report(&self, level: Level, message: &'static str, facts: &[(&'static str, Fact)]) {
        self.report_of(None, level, message, facts);
    }

    /// Reports something about a process to the log.
    pub fn report_of(
        &self,
        process: Option<&Process>,
        level: Level,
        message: &'static str,
        facts: &[(&'static str, Fact)],
    ) {
        (self.sink)(&Notice {
            level,
            message,
            application: &self.settings.name,
            worker: process.map(|process| process.index),
            pid: process.map(Process::pid).filter(|pid| *pid != 0),
            facts,
        });
    }

    pub fn snapshot(&self) -> GroupSnapshot {
        let known = lock(&self.known).clone();
        let (queue_full, queue_timeouts) = self.queue.refused();
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let past = count(&self.counters.past_requests);
        let (state, last_failure) = {
            let phase = lock(&self.phase);
            (phase.state, phase.failure.as_ref().map(ToString::to_string))
        };
        GroupSnapshot {
            name: self.settings.name.clone(),
            fingerprint: self.settings.fingerprint(),
            interface: self.interface(),
            module: self.settings.module.clone(),
            state,
            queued: self.queue.len(),
            requests: past + known.iter().map(|process| process.requests()).sum::<u64>(),
            queue_full,
            queue_timeouts,
            messages_inbound: self.held.bytes(Direction::Inbound),
            messages_outbound: self.held.bytes(Direction::Outbound),
            websockets_shed: self.held.shed(),
            restarts: self.counters.restarts.iter().map(count).sum(),
            recycled: count(&self.counters.recycled),
            reloads: count(&self.counters.reloads),
            last_failure,
            processes: known
                .iter()
                .map(|process| ProcessSnapshot {
                    restarts: self.counters.restarts.get(process.index).map_or(0, count),
                    ..process.snapshot()
                })
                .collect(),
        }
    }
}

fn started(phase: &Phase) -> Result<(), StartFailure> {
    match (phase.state, &phase.failure) {
        (GroupState::Failed, Some(failure)) => Err(failure.clone()),
        (GroupState::Failed | GroupState::Draining, _) => Err(StartFailure {
            stage: "stop".to_owned(),
            message: "the application was stopped".to_owned(),
            traceback: None,
            place: None,
        }),
        (GroupState::Starting | GroupState::Ready, _) => Ok(()),
    }
}

/// Takes a place in the least loaded process that has one.
pub(crate) fn choose<P: AsRef<Process>>(
    members: impl Iterator<Item = P> + Clone,
    now: u64,
) -> Option<(P, usize)> {
    let least = members
        .clone()
        .min_by_key(|process| process.as_ref().in_flight())?;
    if let Some(seat) = least.as_ref().reserve(now) {
        return Some((least, seat));
    }
    // It drains, or has fewer requests than others because it has fewer threads.
    let mut members = members;
    members.find_map(|process| {
        let seat = process.as_ref().reserve(now)?;
        Some((process, seat))
    })
}

/// No code that holds these locks can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
