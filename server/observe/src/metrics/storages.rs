//! Storages of certificates that several nodes share, on the page of metrics.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// What a storage has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StorageTotals {
    /// Calls of its engine.
    pub requests: u64,
    /// Calls that failed.
    pub failures: u64,
    /// The time spent in calls.
    pub time: Duration,
    /// Reads that no quorum confirmed.
    pub stale_reads: u64,
    /// The copy on this node.
    pub copy: Option<CopyTotals>,
}

/// The state of the copy of a storage on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyTotals {
    /// Values in it, if they are counted.
    pub entries: Option<u64>,
    /// How old it may be, if that is known.
    pub age: Option<Duration>,
    /// Whether it stands in for the engine.
    pub is_in_use: bool,
    /// Reads that it has served.
    pub reads: u64,
}

/// A storage whose totals the metrics show.
pub trait CountedStorage: std::fmt::Debug + Send + Sync {
    /// The engine and its address, without secrets.
    fn place(&self) -> String;

    /// What it has done.
    fn totals(&self) -> StorageTotals;
}

/// A family of metrics: its name, its help, its kind and its value, if it is known.
type Family = (
    &'static str,
    &'static str,
    Kind,
    fn(&StorageTotals) -> Option<f64>,
);

const FAMILIES: [Family; 8] = [
    (
        "sluice_storage_calls_total",
        "Calls of the engine of a storage.",
        Kind::Counter,
        |totals| Some(totals.requests as f64),
    ),
    (
        "sluice_storage_failures_total",
        "Calls of the engine of a storage that failed.",
        Kind::Counter,
        |totals| Some(totals.failures as f64),
    ),
    (
        "sluice_storage_seconds_total",
        "Seconds spent in calls of the engine of a storage.",
        Kind::Counter,
        |totals| Some(totals.time.as_secs_f64()),
    ),
    (
        "sluice_storage_stale_reads_total",
        "Reads of a storage that no quorum confirmed.",
        Kind::Counter,
        |totals| Some(totals.stale_reads as f64),
    ),
    (
        "sluice_storage_copy_age_seconds",
        "How long ago the engine of a storage last responded: so old its copy on this node may be.",
        Kind::Gauge,
        |totals| Some(totals.copy?.age?.as_secs_f64()),
    ),
    (
        "sluice_storage_copy_entries",
        "Values in the copy of a storage on this node.",
        Kind::Gauge,
        |totals| Some(totals.copy?.entries? as f64),
    ),
    (
        "sluice_storage_copy_in_use",
        "Whether the engine of a storage is away, so that the copy on this node stands in.",
        Kind::Gauge,
        |totals| Some(f64::from(u8::from(totals.copy?.is_in_use))),
    ),
    (
        "sluice_storage_copy_reads_total",
        "Reads that the copy of a storage on this node has served.",
        Kind::Counter,
        |totals| Some(totals.copy?.reads as f64),
    ),
];

impl Hub {
    /// Shows a storage as long as it is in use.
    pub fn add_storage(&self, storage: Weak<dyn CountedStorage>) {
        let mut known = lock(&self.storages);
        known.retain(|storage| storage.strong_count() > 0);
        known.push(storage);
    }
}

/// Adds the storages that are in use.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let known = lock(&hub.storages);
    let storages: Vec<Arc<dyn CountedStorage>> = known.iter().filter_map(Weak::upgrade).collect();
    drop(known);
    let rows: Vec<(String, StorageTotals)> = storages
        .iter()
        .map(|storage| (storage.place(), storage.totals()))
        .collect();
    for (name, help, kind, value) in FAMILIES {
        let samples = rows.iter().filter_map(|(place, totals)| {
            let value = value(totals)?;
            Some((place, value))
        });
        let samples: Vec<(&String, f64)> = samples.collect();
        if samples.is_empty() {
            continue;
        }
        page.family(name, help, kind);
        for (place, value) in samples {
            page.sample("", &[("storage", place.as_str())], value);
        }
    }
}
