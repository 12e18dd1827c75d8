//! Cache metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_cache::store::{Counts, Store};

use super::sample::Kind;
use super::text::Page;
use crate::recorder::Recorder;

/// A counter of a cache, with its name and help text.
type Counted = (&'static str, &'static str, fn(&Counts) -> &AtomicU64);

const COUNTERS: [Counted; 5] = [
    (
        "sluice_cache_sent_bytes_total",
        "Bytes of bodies served from a cache.",
        |counts| &counts.sent,
    ),
    (
        "sluice_cache_stored_total",
        "Responses stored in a cache.",
        |counts| &counts.stored,
    ),
    (
        "sluice_cache_evicted_total",
        "Cached responses evicted for lack of space or use.",
        |counts| &counts.evicted,
    ),
    (
        "sluice_cache_failures_total",
        "Files of a store that could not be written, read or removed.",
        |counts| &counts.failures,
    ),
    (
        "sluice_cache_purges_total",
        "Purges applied to a cache, those of other nodes included.",
        |counts| &counts.purges,
    ),
];

/// A gauge of a cache, with its name and help text.
type Measured = (&'static str, &'static str, fn(&Store) -> u64);

const GAUGES: [Measured; 4] = [
    ("sluice_cache_entries", "Responses in a cache.", |store| {
        store.fullness().entries as u64
    }),
    (
        "sluice_cache_bytes",
        "Bytes of the files of a store.",
        |store| store.fullness().bytes,
    ),
    (
        "sluice_cache_index_bytes",
        "Memory that the index of a store stands for.",
        |store| store.fullness().index_bytes as u64,
    ),
    (
        "sluice_cache_loading",
        "Whether the index of a store is still being loaded.",
        |store| u64::from(store.is_loading()),
    ),
];

/// Adds all caches in use, by folder.
pub(super) fn write(recorder: &Recorder, page: &mut Page) {
    let stores = recorder.stores().all();
    if stores.is_empty() {
        return;
    }
    let name = |store: &Arc<Store>| store.path().display().to_string();
    page.family(
        "sluice_cache_requests_total",
        "Requests by cache status.",
        Kind::Counter,
    );
    for store in &stores {
        for (status, count) in Counts::NAMES.iter().zip(&store.counts.requests) {
            let labels = [("store", &*name(store)), ("status", *status)];
            page.sample("", &labels, count.load(Ordering::Relaxed));
        }
    }
    page.family(
        "sluice_cache_peer_requests_total",
        "Requests between the nodes of a cache by outcome.",
        Kind::Counter,
    );
    for store in &stores {
        for (outcome, count) in Counts::PEER_OUTCOMES.iter().zip(&store.counts.peers) {
            let labels = [("store", &*name(store)), ("outcome", *outcome)];
            page.sample("", &labels, count.load(Ordering::Relaxed));
        }
    }
    for (family, help, count) in COUNTERS {
        page.family(family, help, Kind::Counter);
        for store in &stores {
            let value = count(&store.counts).load(Ordering::Relaxed);
            page.sample("", &[("store", &*name(store))], value);
        }
    }
    for (family, help, value) in GAUGES {
        page.family(family, help, Kind::Gauge);
        for store in &stores {
            page.sample("", &[("store", &*name(store))], value(store));
        }
    }
    write_following(&stores, page);
}

/// Adds the caches that share a list of purges with other nodes.
fn write_following(stores: &[Arc<Store>], page: &mut Page) {
    let following: Vec<_> = stores
        .iter()
        .filter_map(|store| Some((store, store.is_following()?)))
        .collect();
    if following.is_empty() {
        return;
    }
    page.family(
        "sluice_cache_purges_following",
        "Whether the storage of purges responds.",
        Kind::Gauge,
    );
    for (store, is_following) in following {
        let name = store.path().display().to_string();
        page.sample("", &[("store", &*name)], u64::from(is_following));
    }
}
