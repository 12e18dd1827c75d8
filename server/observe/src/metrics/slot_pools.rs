//! Concurrency limits that several nodes share, on the page of metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// What this node has of a limit that several share, all keys together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotPoolTotals {
    /// Slots that it has leased.
    pub held: u64,
    /// Requests that hold one.
    pub used: u64,
    /// Requests that were decided without the store.
    pub without_store: u64,
}

/// A limit whose totals the metrics show.
pub trait SlotPool: std::fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// What this node has of it.
    fn totals(&self) -> SlotPoolTotals;
}

impl Hub {
    /// Shows the slots of a limit as long as it is in use.
    pub fn add_slot_pool(&self, pool: Weak<dyn SlotPool>) {
        let mut known = lock(&self.slot_pools);
        known.retain(|pool| pool.strong_count() > 0);
        known.push(pool);
    }
}

/// Adds the limits that are in use. Of several with one name, as during a reload, the sums are shown.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let known = lock(&hub.slot_pools);
    let pools: Vec<Arc<dyn SlotPool>> = known.iter().filter_map(Weak::upgrade).collect();
    drop(known);
    if pools.is_empty() {
        return;
    }
    let mut sums: BTreeMap<&str, SlotPoolTotals> = BTreeMap::new();
    for pool in &pools {
        let (sum, own) = (sums.entry(pool.name()).or_default(), pool.totals());
        sum.held += own.held;
        sum.used += own.used;
        sum.without_store += own.without_store;
    }
    let mut family =
        |name: &'static str, help: &str, kind: Kind, value: fn(&SlotPoolTotals) -> u64| {
            page.family(name, help, kind);
            for (limit, totals) in &sums {
                page.sample("", &[("limit", *limit)], value(totals));
            }
        };
    family(
        "sluice_shared_slots_held",
        "Slots that this node has leased of a concurrency limit that nodes share.",
        Kind::Gauge,
        |totals| totals.held,
    );
    family(
        "sluice_shared_slots_used",
        "Requests that hold such a slot.",
        Kind::Gauge,
        |totals| totals.used,
    );
    family(
        "sluice_shared_slots_without_store_total",
        "Requests that were decided without the store of such a limit.",
        Kind::Counter,
        |totals| totals.without_store,
    );
}
