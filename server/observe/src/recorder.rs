//! Counts of requests and the one place where logs, metrics and traces of the process meet. What is written about a
//! request is left to `sluice-serve`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_cache::store::Stores;
use sluice_net::{Completion, Ending};

use crate::events::Events;
use crate::log::Log;
use crate::metrics::{Hub, PushSettings, Pusher};
use crate::tracing::{Exporter, Settings};

/// Counts requests. One for the whole process: it outlives configurations.
#[derive(Debug)]
pub struct Recorder {
    log: Log,
    hub: Arc<Hub>,
    exporter: Mutex<Option<Arc<Exporter>>>,
    stores: Stores,
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    pusher: Mutex<Option<Pusher>>,
    events: Events,
    workers: Box<[Counts]>,
}

/// The counters of one worker, aligned to their own cache lines. Only that worker writes them, so an increment is a
/// load and a store.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    started: AtomicU64,
    /// Responses by the first digit of their status; index 0 counts requests without a response.
    ended: [AtomicU64; CLASSES],
    failed: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_read: AtomicU64,
}

/// First digits of statuses, and 0 for none. Statuses from 600 up count as 5xx, as clients treat them.
const CLASSES: usize = 6;

/// The counters of all workers, summed at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that a service began to handle.
    pub started: u64,
    /// Requests that ended, by the first digit of the status; index 0 counts those without a response.
    pub ended: [u64; CLASSES],
    /// Of those, responses that were not delivered completely.
    pub failed: u64,
    /// Bytes of response bodies.
    pub bytes_sent: u64,
    /// Bytes of request bodies.
    pub bytes_read: u64,
}

impl Totals {
    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended.iter().sum())
    }
}

impl Recorder {
    /// Creates counters for this many workers.
    pub fn new(log: Log, workers: usize) -> Recorder {
        let events = Events::new(log.clone());
        Recorder {
            log,
            hub: Arc::default(),
            exporter: Mutex::default(),
            stores: Stores::default(),
            shared: Mutex::default(),
            pusher: Mutex::default(),
            events,
            workers: (0..workers).map(|_| Counts::default()).collect(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Where all counts can be read.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// What happens to the server.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The stores of responses that are in use.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// What all configurations of the process share of this type, such as the zones of a limit; made when it is first
    /// used.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock().expect(NEVER_POISONED);
        let entry = shared.entry(TypeId::of::<T>());
        let value = entry.or_insert_with(|| Arc::new(T::default())).clone();
        value.downcast().expect("it is stored by its type")
    }

    /// The exporter of trace spans, which is started on first use. The error describes an invalid environment variable.
    pub fn exporter(&self) -> Result<Arc<Exporter>, String> {
        let mut exporter = self.exporter.lock().expect(NEVER_POISONED);
        if let Some(exporter) = &*exporter {
            return Ok(exporter.clone());
        }
        let settings = Settings::read(|name| std::env::var(name).ok())?;
        let started = Exporter::start(settings, self.hub.clone(), self.log.clone());
        let started = started.map_err(|error| format!("a thread cannot be started: {error}"))?;
        Ok(exporter.insert(started).clone())
    }

    /// Starts or stops pushing metrics to a collector. An exporter that is running stays as it is, because the
    /// environment of a process does not change.
    pub fn push_metrics(self: &Arc<Self>, settings: Option<PushSettings>) -> io::Result<()> {
        let mut pusher = self.pusher.lock().expect(NEVER_POISONED);
        match settings {
            None => *pusher = None,
            Some(_) if pusher.is_some() => {}
            Some(settings) => *pusher = Some(Pusher::start(settings, self)?),
        }
        Ok(())
    }

    /// Exports pending metrics and spans, with a timeout of `timeout` for each.
    pub fn finish_exports(&self, timeout: Duration) {
        let pusher = self.pusher.lock().expect(NEVER_POISONED).take();
        if let Some(pusher) = pusher {
            pusher.finish(timeout);
        }
        let exporter = self.exporter.lock().expect(NEVER_POISONED).take();
        if let Some(exporter) = exporter {
            exporter.finish(timeout);
        }
    }

    /// Counts the start of a request on this worker.
    pub fn begin(&self, worker: usize) {
        if let Some(counts) = self.workers.get(worker) {
            add(&counts.started, 1);
        }
    }

    /// Counts a request that has ended on the worker with this number, with the status of its response; 0 if it got
    /// none. To be called once for each [`Recorder::begin`].
    pub fn end(&self, worker: usize, status: u16, completion: &Completion) {
        if let Some(counts) = self.workers.get(worker) {
            counts.end(status, completion);
        }
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counts in &self.workers {
            // Read `ended` first, so that no request seems to have ended before it began.
            for (total, ended) in totals.ended.iter_mut().zip(&counts.ended) {
                *total += ended.load(Ordering::Acquire);
            }
            totals.started += counts.started.load(Ordering::Acquire);
            totals.failed += counts.failed.load(Ordering::Relaxed);
            totals.bytes_sent += counts.bytes_sent.load(Ordering::Relaxed);
            totals.bytes_read += counts.bytes_read.load(Ordering::Relaxed);
        }
        totals
    }
}

const NEVER_POISONED: &str = "nothing panics while it starts the exporter";

impl Counts {
    fn end(&self, status: u16, completion: &Completion) {
        let class = (usize::from(status) / 100).min(CLASSES - 1);
        if matches!(completion.ending, Ending::Failed(_)) {
            add(&self.failed, 1);
        }
        add(&self.bytes_sent, completion.body_bytes_sent);
        add(&self.bytes_read, completion.body_bytes_read);
        add(&self.ended[class], 1);
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Release,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(ending: Ending) -> Completion {
        Completion {
            ending,
            body_bytes_sent: 10,
            bytes_sent: 60,
            head_bytes_sent: 50,
            body_bytes_read: 2,
            duration: Duration::from_millis(1),
        }
    }

    #[test]
    fn counts_of_all_workers_are_added_up() {
        let recorder = Recorder::new(Log::silent(), 2);
        recorder.begin(0);
        recorder.begin(1);
        recorder.begin(1);
        recorder.begin(9);
        recorder.end(0, 200, &completion(Ending::Complete));
        recorder.end(1, 0, &completion(Ending::Aborted));
        let totals = recorder.totals();
        assert_eq!(totals.in_flight(), 1);
        assert_eq!(totals.ended, [1, 0, 1, 0, 0, 0]);
        assert_eq!((totals.bytes_sent, totals.bytes_read), (20, 4));
    }

    #[test]
    fn the_counts_of_workers_share_no_cache_line() {
        assert_eq!(align_of::<Counts>(), 128);
        assert_eq!(size_of::<[Counts; 2]>() % 128, 0);
    }
}
