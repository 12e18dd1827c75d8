//! The state of groups and processes at a moment, for metrics and the admin API.

use std::time::Duration;

use crate::settings::Interface;

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No process is ready yet.
    Starting,
    /// At least one process is ready.
    Ready,
    /// No process is ready, and none will be started any more without a reload.
    Failed,
    /// The application is no longer configured; its last requests end.
    Draining,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessState {
    /// Importing the application.
    Starting,
    /// Takes requests.
    Ready,
    /// Finishes its requests and then exits.
    Draining,
    /// It has exited, or is about to.
    Dead,
}

/// A group of processes.
#[derive(Clone, Debug)]
pub struct GroupSnapshot {
    /// The name of the application.
    pub name: String,
    /// The fingerprint of its settings.
    pub fingerprint: u64,
    /// The interface.
    pub interface: Interface,
    /// `package.module:variable`.
    pub module: String,
    /// Its state.
    pub state: GroupState,
    /// Requests that wait for a worker.
    pub queued: usize,
    /// Requests sent to workers so far, including those of processes that are gone.
    pub requests: u64,
    /// Requests refused because the queue was full.
    pub queue_full: u64,
    /// Requests refused because they waited too long.
    pub queue_timeouts: u64,
    /// Bytes of WebSocket messages that its processes hold because it has not received them.
    pub messages_inbound: u64,
    /// Bytes of WebSocket messages that it has sent and that sluice holds because clients have not taken them.
    pub messages_outbound: u64,
    /// WebSockets closed because its processes held too much.
    pub websockets_shed: u64,
    /// Processes started to replace one that crashed, hung, or could not start.
    pub restarts: u64,
    /// Processes started to replace one that reached `max_requests` or `max_rss`.
    pub recycled: u64,
    /// How often all processes were replaced (autoreload, or [`crate::Groups::restart`]).
    pub reloads: u64,
    /// The last failure to start, as one text.
    pub last_failure: Option<String>,
    /// Its processes, including those that drain.
    pub processes: Vec<ProcessSnapshot>,
}

/// A worker process.
#[derive(Clone, Debug)]
pub struct ProcessSnapshot {
    /// Its index in the group; a replacement has the same.
    pub index: usize,
    /// Its PID; 0 while it is being started.
    pub pid: u32,
    /// Its state.
    pub state: ProcessState,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests completed.
    pub requests: u64,
    /// How often a process with its index was replaced because it crashed, hung or could not start.
    pub restarts: u64,
    /// Threads (WSGI) that run requests.
    pub seats: usize,
    /// Time that its threads or event loop spent in the application, as the worker reports it.
    pub busy: Duration,
    /// Average time of a request (WSGI), recent ones first.
    pub service_time: Duration,
    /// Resident memory in bytes; 0 if not known.
    pub rss_bytes: u64,
    /// Since it was started.
    pub age: Duration,
    /// Version of the interpreter, such as `3.11.7`; empty until it is ready.
    pub python: String,
    /// `uvloop`, `asyncio`, `gevent`, or empty.
    pub event_loop: String,
    /// Whether the extension module is in use.
    pub accelerated: bool,
}
