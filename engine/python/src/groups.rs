//! All groups of this process, keyed by their settings.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::application::{Application, Handle};
use crate::failure::StartFailure;
use crate::group::{Group, Order};
use crate::limits::{KILL_TIMEOUT, STARTS_MAX};
use crate::notice::Sink;
use crate::settings::Settings;
use crate::snapshot::{GroupSnapshot, GroupState};
use crate::supervise;

/// All applications of this process. Clones are the same registry.
#[derive(Clone)]
pub struct Groups {
    registry: Arc<Registry>,
}

struct Registry {
    sink: Sink,
    workers: usize,
    table: Mutex<Table>,
    /// Notified when a group has ended.
    ended: Condvar,
    numbers: AtomicU64,
    /// To the thread that starts supervisors.
    starter: SyncSender<Arc<Group>>,
}

#[derive(Default)]
struct Table {
    /// The applications that are configured.
    configured: HashMap<Settings, Weak<Handle>>,
    /// All groups that have processes, in the order in which they were started.
    running: Vec<Arc<Group>>,
}

impl Groups {
    /// An empty registry for a server with this number of worker threads ([`sluice_net::Worker::count`]). It starts a
    /// thread that has the privileges of the caller, from which all others are started: call it before privileges are
    /// given up.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn new(workers: usize, sink: Sink) -> io::Result<Groups> {
        let (starter, starts) = sync_channel::<Arc<Group>>(STARTS_MAX);
        let registry = Arc::new(Registry {
            sink,
            workers,
            table: Mutex::default(),
            ended: Condvar::new(),
            numbers: AtomicU64::new(1),
            starter,
        });
        let for_ends = Arc::downgrade(&registry);
        let thread = std::thread::Builder::new().name("python".to_owned());
        thread.spawn(move || {
            for group in starts {
                start(group, for_ends.clone());
            }
        })?;
        Ok(Groups { registry })
    }

    /// The application with these settings. If none runs, its processes are started in parallel; this returns without
    /// waiting for them, and calls wait in the queue. A configuration waits for [`Application::wait_ready`] before it
    /// goes live, while the applications of the old configuration still serve; those that the new one does not contain
    /// end with their last handle. A group that has failed is started again.
    pub fn obtain(&self, settings: Settings) -> Application {
        let registry = &self.registry;
        let mut table = registry.table();
        let known = table.configured.get(&settings).and_then(Weak::upgrade);
        if let Some(handle) = known {
            match handle.group.state() {
                GroupState::Starting | GroupState::Ready => return Application::new(handle),
                GroupState::Failed | GroupState::Draining => {}
            }
        }
        table
            .configured
            .retain(|_, handle| handle.strong_count() > 0);
        let number = registry.numbers.fetch_add(1, Ordering::Relaxed);
        let sink = registry.sink.clone();
        let group = Group::new(number, settings.clone(), registry.workers, sink);
        let group = Arc::new(group);
        let handle = Arc::new(Handle {
            group: group.clone(),
        });
        table.configured.insert(settings, Arc::downgrade(&handle));
        table.running.push(group.clone());
        drop(table);
        if registry.starter.send(group.clone()).is_err() {
            not_started(&group, "the thread that starts applications is gone");
        }
        Application::new(handle)
    }

    /// The state of all groups, in the order in which they were started.
    pub fn snapshot(&self) -> Vec<GroupSnapshot> {
        let running = self.registry.table().running.clone();
        running.iter().map(|group| group.snapshot()).collect()
    }

    /// Replaces all processes of the applications called `name`: new ones start, and once they are ready, the old ones
    /// finish their requests. If the new ones fail, the old ones stay and the failure is logged. Returns the number of
    /// applications.
    pub fn restart(&self, name: &str) -> usize {
        let running = self.registry.table().running.clone();
        let named = running
            .iter()
            .filter(|group| group.settings.name == name && group.state() != GroupState::Draining);
        named.map(|group| group.order(Order::Reload)).count()
    }

    /// Ends all processes: they have `grace` to finish their requests and are then killed. Blocks until all have ended, or
    /// the kernel has not ended them some seconds later; those end with this process.
    pub fn shutdown(&self, grace: Duration) {
        let mut table = self.registry.table();
        for group in &table.running {
            group.order(Order::Stop(grace));
        }
        let until = Instant::now() + grace + KILL_TIMEOUT;
        while !table.running.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.registry.ended.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Registry {
    /// No code that holds the lock can panic half-way.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group has no processes any more.
    fn note_ended(&self, group: &Group) {
        let mut table = self.table();
        table.running.retain(|known| known.number != group.number);
        drop(table);
        self.ended.notify_all();
    }
}

/// Starts the thread that supervises a group.
fn start(group: Arc<Group>, registry: Weak<Registry>) {
    let supervised = group.clone();
    let end = registry.clone();
    let thread = std::thread::Builder::new().name(format!("python {}", group.settings.name));
    let started = thread.spawn(move || {
        let _end = Ending {
            group: supervised.clone(),
            registry: end,
        };
        supervise::run(&supervised);
    });
    if let Err(error) = started {
        not_started(&group, &format!("cannot start a thread: {error}"));
        if let Some(registry) = registry.upgrade() {
            registry.note_ended(&group);
        }
    }
}

/// Reports the end of a supervisor to the registry, however it came.
struct Ending {
    group: Arc<Group>,
    registry: Weak<Registry>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.group.note_over();
        if let Some(registry) = self.registry.upgrade() {
            registry.note_ended(&self.group);
        }
    }
}

fn not_started(group: &Group, why: &str) {
    let failure = StartFailure {
        stage: "spawn".to_owned(),
        message: why.to_owned(),
        traceback: None,
        place: None,
    };
    group.set_state(GroupState::Failed, Some(failure));
}
