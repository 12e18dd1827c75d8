//! Metrics: counters updated while serving requests, and the Prometheus page. Names, labels and buckets are those of
//! Caddy; our own metrics are called `sluice_*`. `record` counts requests even if metrics are not enabled.

mod admin;
mod config_source;
mod histogram;
mod limit_stores;
pub mod limits;
mod memory;
mod otlp;
mod overload;
mod page;
mod process;
mod push;
mod python;
mod rate_limits;
mod sample;
mod series;
mod site;
mod slot_pools;
mod storages;
mod stores;
mod text;
mod upstream_lists;
mod upstreams;

pub use limit_stores::{LimitStore, LimitStoreTotals};
pub use overload::CountedAdmission;
pub use page::page;
pub use process::ProcessFacts;
pub use push::{PushSettings, Pusher};
pub use python::{PythonDurations, python_applications};
pub use rate_limits::{CountedZone, ZoneTotals};
pub use site::{HttpMetrics, Marks, SiteMetrics};
pub use slot_pools::{SlotPool, SlotPoolTotals};
pub use storages::{CopyTotals, CountedStorage, StorageTotals};
pub use text::Format;
pub use upstream_lists::{UpstreamList, UpstreamListTotals};
pub use upstreams::{Direction, Standing, UpstreamMemory, direct, memories, recall, upstreams};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_net::memory::MemoryLimit;
use sluice_net::{ConnectionLimit, Counters};
use sluice_python::{GroupSnapshot, Groups};

use admin::AdminCounts;

use crate::site_counts::Sites;

/// All metrics of the process. There is one per process, which outlives configurations.
#[derive(Debug)]
pub struct Hub {
    started: SystemTime,
    http: RwLock<Option<Arc<HttpMetrics>>>,
    sites: Sites,
    location_zones: Sites,
    upstreams: Mutex<Vec<(String, Weak<dyn Health>)>>,
    rate_zones: Mutex<Vec<(String, Weak<dyn CountedZone>)>>,
    limit_stores: Mutex<Vec<Weak<dyn LimitStore>>>,
    slot_pools: Mutex<Vec<Weak<dyn SlotPool>>>,
    storages: Mutex<Vec<Weak<dyn CountedStorage>>>,
    upstream_lists: Mutex<Vec<Weak<dyn UpstreamList>>>,
    admissions: Mutex<Vec<(String, Weak<dyn CountedAdmission>)>>,
    python: python::Applications,
    workers: OnceLock<Vec<Arc<Counters>>>,
    connections: OnceLock<Arc<ConnectionLimit>>,
    memory: OnceLock<Arc<MemoryLimit>>,
    admin: AdminCounts,
    loaded: AtomicBool,
    /// When a configuration was last loaded, in milliseconds since the Unix epoch; 0 if none was.
    loaded_at: AtomicU64,
    scrapes: AtomicU64,
    /// Counters of trace spans.
    pub spans: SpanCounts,
    /// Regular expressions of an nginx.conf that exceeded the matching limit.
    pub patterns_given_up: AtomicU64,
}

/// Counters of trace spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Exported to the collector.
    pub exported: AtomicU64,
    /// Dropped because the queue was full or the collector did not accept them.
    pub dropped: AtomicU64,
}

/// The health of an upstream.
pub trait Health: std::fmt::Debug + Send + Sync {
    /// The current state.
    fn standing(&self) -> Standing;

    /// Why active health checks consider it unhealthy, if they do.
    fn check_failure(&self) -> Option<String> {
        None
    }

    /// Carries out what an operator directs for its address.
    fn direct(&self, direction: &Direction);

    /// What a process that replaces this one has to know.
    fn memory(&self) -> UpstreamMemory {
        UpstreamMemory::default()
    }

    /// Adds the failures that the process had seen which this one replaces.
    fn recall(&self, _memory: &UpstreamMemory) {}
}

impl Default for Hub {
    fn default() -> Self {
        Hub {
            started: SystemTime::now(),
            http: RwLock::default(),
            sites: Sites::default(),
            location_zones: Sites::default(),
            upstreams: Mutex::default(),
            rate_zones: Mutex::default(),
            limit_stores: Mutex::default(),
            slot_pools: Mutex::default(),
            storages: Mutex::default(),
            upstream_lists: Mutex::default(),
            admissions: Mutex::default(),
            python: python::Applications::default(),
            workers: OnceLock::new(),
            connections: OnceLock::new(),
            memory: OnceLock::new(),
            admin: AdminCounts::default(),
            loaded: AtomicBool::new(false),
            loaded_at: AtomicU64::new(0),
            scrapes: AtomicU64::new(0),
            spans: SpanCounts::default(),
            patterns_given_up: AtomicU64::new(0),
        }
    }
}

impl Hub {
    /// Sets the counters of the workers, once those have been started.
    pub fn set_workers(
        &self,
        counters: Vec<Arc<Counters>>,
        (connections, memory): (Arc<ConnectionLimit>, Arc<MemoryLimit>),
    ) {
        // A process starts its workers only once; later calls have no effect.
        let _ = self.workers.set(counters);
        let _ = self.connections.set(connections);
        let _ = self.memory.set(memory);
    }

    /// The number of connections accepted so far, and of those open.
    pub fn connections(&self) -> (u64, u64) {
        let workers = self.workers();
        let sum = |count: fn(&Counters) -> u64| workers.iter().map(|worker| count(worker)).sum();
        (
            sum(|worker| worker.accepted.value()),
            sum(|worker| worker.open.value()),
        )
    }

    /// Sets the request metrics of the current configuration.
    pub fn set_http(&self, http: Option<Arc<HttpMetrics>>) {
        *self.http.write().expect(NEVER_POISONED) = http;
    }

    /// When the process started.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// When a configuration was last loaded, in milliseconds since the Unix epoch; 0 if none was.
    pub fn loaded_at_millis(&self) -> u64 {
        self.loaded_at.load(Ordering::Relaxed)
    }

    /// The counters of the workers, once those have been started.
    pub fn workers(&self) -> &[Arc<Counters>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// The maximum number of client connections.
    pub fn connections_max(&self) -> Option<usize> {
        self.connections.get().map(|limit| limit.max())
    }

    /// The upstreams in use: their state, and why a health check failed.
    pub fn upstream_standings(&self) -> Vec<(String, Standing, Option<String>)> {
        upstreams::with_reasons(self)
    }

    /// The zones of rate limits in use; those with the same name are summed.
    pub fn rate_zones(&self) -> Vec<(String, ZoneTotals)> {
        rate_limits::sums(self)
    }

    /// The Python applications in use.
    pub fn python_groups(&self) -> Vec<GroupSnapshot> {
        self.python.snapshot()
    }

    /// The sites whose requests are counted.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// The zones that `status_zone` of locations in an nginx.conf names.
    pub fn location_zones(&self) -> &Sites {
        &self.location_zones
    }

    /// Shows an upstream as long as it is in use.
    pub fn add_upstream(&self, address: &str, health: Weak<dyn Health>) {
        let mut known = lock(&self.upstreams);
        // Not on every call: otherwise ten thousand sites would take quadratic time.
        if known.len().is_power_of_two() {
            known.retain(|(_, health)| health.strong_count() > 0);
        }
        known.push((address.to_owned(), health));
    }

    /// Shows a zone of a rate limit as long as it is in use.
    pub fn add_rate_zone(&self, name: &str, zone: Weak<dyn CountedZone>) {
        let mut known = lock(&self.rate_zones);
        known.retain(|(_, zone)| zone.strong_count() > 0);
        known.push((name.to_owned(), zone));
    }

    /// Shows an admission of `overload` as long as it is in use.
    pub fn add_admission(&self, name: &str, admission: Weak<dyn CountedAdmission>) {
        let mut known = lock(&self.admissions);
        known.retain(|(_, admission)| admission.strong_count() > 0);
        known.push((name.to_owned(), admission));
    }

    /// Shows the Python applications of this registry.
    pub fn set_python(&self, groups: Groups) {
        self.python.set(groups);
    }

    /// The histogram for requests to the Python application called `name`, which all directives that use it share.
    pub fn python_durations(&self, name: &str, workers: usize) -> Arc<PythonDurations> {
        self.python.durations(name, workers)
    }

    /// Records whether a configuration was loaded successfully.
    pub fn note_load(&self, taken: bool) {
        self.loaded.store(taken, Ordering::Relaxed);
        if taken {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let millis = now.unwrap_or_default().as_millis() as u64;
            self.loaded_at.store(millis, Ordering::Relaxed);
        }
    }

    /// Counts a request to the admin API.
    pub fn count_admin(&self, method: &str, path: &str, status: u16) {
        self.admin.count(method, path, status);
    }

    fn http(&self) -> Option<Arc<HttpMetrics>> {
        self.http.read().expect(NEVER_POISONED).clone()
    }
}

const NEVER_POISONED: &str = "nothing panics while it holds a lock of the metrics";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}
