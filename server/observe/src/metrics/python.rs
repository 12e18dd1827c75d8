//! Python applications on the page of metrics, and in the admin API.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use sluice_python::{GroupSnapshot, GroupState, Groups, Interface, ProcessSnapshot, ProcessState};

use super::histogram::{DURATIONS, Histogram, Sums};
use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// The applications of the process, and the durations of requests to them.
#[derive(Default)]
pub(super) struct Applications {
    groups: Mutex<Option<Groups>>,
    durations: Mutex<BTreeMap<String, Weak<PythonDurations>>>,
}

impl fmt::Debug for Applications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applications").finish_non_exhaustive()
    }
}

/// Time from the dispatch of requests to the heads of their responses, for one name of an application. Each worker writes
/// a histogram of its own.
#[derive(Debug)]
pub struct PythonDurations(Box<[Histogram]>);

impl PythonDurations {
    fn new(workers: usize) -> PythonDurations {
        PythonDurations((0..workers).map(|_| Histogram::new(&DURATIONS)).collect())
    }

    /// Counts a request that this worker has sent.
    pub fn add(&self, worker: usize, took: Duration) {
        if let Some(histogram) = self.0.get(worker) {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            histogram.add(&DURATIONS, nanos);
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.0.iter().for_each(|one| one.add_to(&mut sums));
        sums
    }
}

impl Applications {
    pub(super) fn set(&self, groups: Groups) {
        *lock(&self.groups) = Some(groups);
    }

    pub(super) fn durations(&self, name: &str, workers: usize) -> Arc<PythonDurations> {
        let mut known = lock(&self.durations);
        known.retain(|_, durations| durations.strong_count() > 0);
        if let Some(durations) = known.get(name).and_then(Weak::upgrade) {
            return durations;
        }
        let durations = Arc::new(PythonDurations::new(workers));
        known.insert(name.to_owned(), Arc::downgrade(&durations));
        durations
    }

    pub(super) fn snapshot(&self) -> Vec<GroupSnapshot> {
        let groups = lock(&self.groups).clone();
        groups.map(|groups| groups.snapshot()).unwrap_or_default()
    }
}

/// Selects a value of a group.
type OfGroup = fn(&GroupSnapshot) -> u64;

const GROUPS: [(&str, &str, Kind, OfGroup); 10] = [
    (
        "sluice_python_ready",
        "Whether an application has a process that takes requests.",
        Kind::Gauge,
        |group| u64::from(group.state == GroupState::Ready),
    ),
    (
        "sluice_python_queued_requests",
        "Requests that wait for a worker process.",
        Kind::Gauge,
        |group| group.queued as u64,
    ),
    (
        "sluice_python_requests_total",
        "Requests sent to worker processes.",
        Kind::Counter,
        |group| group.requests,
    ),
    (
        "sluice_python_queue_full_total",
        "Requests refused because the queue was full.",
        Kind::Counter,
        |group| group.queue_full,
    ),
    (
        "sluice_python_queue_timeouts_total",
        "Requests refused because no worker process became free in time.",
        Kind::Counter,
        |group| group.queue_timeouts,
    ),
    (
        "sluice_python_websocket_inbound_bytes",
        "Bytes of WebSocket messages that worker processes hold because the application has not received them.",
        Kind::Gauge,
        |group| group.messages_inbound,
    ),
    (
        "sluice_python_websocket_outbound_bytes",
        "Bytes of WebSocket messages of the application that sluice holds because clients have not taken them.",
        Kind::Gauge,
        |group| group.messages_outbound,
    ),
    (
        "sluice_python_websockets_shed_total",
        "WebSockets closed with 1013 because worker processes held `max_message_memory` for too long.",
        Kind::Counter,
        |group| group.websockets_shed,
    ),
    (
        "sluice_python_restarts_total",
        "Processes started in place of ones that crashed, hung or did not start.",
        Kind::Counter,
        |group| group.restarts,
    ),
    (
        "sluice_python_recycled_total",
        "Processes started in place of ones that reached `max_requests` or `max_rss`.",
        Kind::Counter,
        |group| group.recycled,
    ),
];

/// Selects a value of a process.
type OfProcess = fn(&ProcessSnapshot) -> f64;

const PROCESSES: [(&str, &str, Kind, OfProcess); 8] = [
    (
        "sluice_python_in_flight_requests",
        "Requests that a worker process is busy with.",
        Kind::Gauge,
        |process| process.in_flight as f64,
    ),
    (
        "sluice_python_process_requests_total",
        "Requests that a worker process has completed since it started.",
        Kind::Counter,
        |process| process.requests as f64,
    ),
    (
        "sluice_python_process_restarts_total",
        "Processes started in place of ones with the same index that crashed, hung or did not start.",
        Kind::Counter,
        |process| process.restarts as f64,
    ),
    (
        "sluice_python_service_time_seconds",
        "Moving average of the time that a request runs in a worker process (WSGI).",
        Kind::Gauge,
        |process| process.service_time.as_secs_f64(),
    ),
    (
        "sluice_python_busy_seconds_total",
        "Time that a worker process has spent in the application since it started.",
        Kind::Counter,
        |process| process.busy.as_secs_f64(),
    ),
    (
        "sluice_python_resident_bytes",
        "Resident memory of a worker process.",
        Kind::Gauge,
        |process| process.rss_bytes as f64,
    ),
    (
        "sluice_python_threads",
        "Threads or event loops of a worker process that run requests.",
        Kind::Gauge,
        |process| process.seats as f64,
    ),
    (
        "sluice_python_accelerated",
        "Whether a worker process uses the extension module `sluice_accelerator`.",
        Kind::Gauge,
        |process| f64::from(u8::from(process.accelerated)),
    ),
];

/// Adds the applications, by name and group, and their processes, by index.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let groups = hub.python.snapshot();
    if groups.is_empty() {
        return;
    }
    for (name, help, kind, value) in GROUPS {
        page.family(name, help, kind);
        for group in &groups {
            let labels = [("app", &*group.name), ("group", &*group_id(group))];
            page.sample("", &labels, value(group));
        }
    }
    for (name, help, kind, value) in PROCESSES {
        page.family(name, help, kind);
        for group in &groups {
            let id = group_id(group);
            for process in group.processes.iter().filter(|process| is_current(process)) {
                let worker = process.index.to_string();
                let labels = [("app", &*group.name), ("group", &*id), ("worker", &*worker)];
                page.sample("", &labels, value(process));
            }
        }
    }
    let durations = lock(&hub.python.durations);
    let live = durations
        .iter()
        .filter_map(|(name, one)| Some((name, one.upgrade()?)));
    let live: Vec<_> = live.collect();
    if live.is_empty() {
        return;
    }
    page.family(
        "sluice_python_request_duration_seconds",
        "Time from the dispatch of a request to an application to the head of its response.",
        Kind::Histogram,
    );
    for (name, durations) in live {
        let sums = durations.sums();
        let seconds = sums.sum as f64 / 1e9;
        page.histogram(&[("app", &**name)], DURATIONS.bounds, &sums.counts, seconds);
    }
}

/// Whether a process has the index to itself: the one it replaces drains beside it.
fn is_current(process: &ProcessSnapshot) -> bool {
    match process.state {
        ProcessState::Starting | ProcessState::Ready => true,
        ProcessState::Draining | ProcessState::Dead => false,
    }
}

/// What distinguishes groups with the same name, as after a reload.
fn group_id(group: &GroupSnapshot) -> String {
    format!("{:08x}", group.fingerprint as u32)
}

/// The applications as the admin API shows them.
pub fn python_applications(hub: &Hub) -> Value {
    let groups = hub.python.snapshot();
    groups.iter().map(shown).collect()
}

fn shown(group: &GroupSnapshot) -> Value {
    let state = match group.state {
        GroupState::Starting => "starting",
        GroupState::Ready => "ready",
        GroupState::Failed => "failed",
        GroupState::Draining => "draining",
    };
    let interface = match group.interface {
        Interface::Wsgi => "wsgi",
        Interface::Asgi => "asgi",
        Interface::Esgi => "esgi",
        Interface::Rsgi => "rsgi",
        Interface::Auto => "auto",
    };
    let processes: Vec<Value> = group.processes.iter().map(shown_process).collect();
    json!({
        "app": group.name,
        "group": group_id(group),
        "interface": interface,
        "module": group.module,
        "state": state,
        "queued": group.queued,
        "requests": group.requests,
        "queue_full": group.queue_full,
        "queue_timeouts": group.queue_timeouts,
        "websocket_inbound_bytes": group.messages_inbound,
        "websocket_outbound_bytes": group.messages_outbound,
        "websockets_shed": group.websockets_shed,
        "restarts": group.restarts,
        "recycled": group.recycled,
        "reloads": group.reloads,
        "last_failure": group.last_failure,
        "processes": processes,
    })
}

fn shown_process(process: &ProcessSnapshot) -> Value {
    let state = match process.state {
        ProcessState::Starting => "starting",
        ProcessState::Ready => "ready",
        ProcessState::Draining => "draining",
        ProcessState::Dead => "dead",
    };
    json!({
        "worker": process.index,
        "pid": process.pid,
        "state": state,
        "in_flight": process.in_flight,
        "requests": process.requests,
        "restarts": process.restarts,
        "threads": process.seats,
        "busy_seconds": process.busy.as_secs_f64(),
        "service_time_seconds": process.service_time.as_secs_f64(),
        "rss_bytes": process.rss_bytes,
        "age_seconds": process.age.as_secs_f64(),
        "python": process.python,
        "event_loop": process.event_loop,
        "accelerated": process.accelerated,
    })
}
