//! Stores of limits that several nodes share, on the page of metrics.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// What calls to a store have come to since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitStoreTotals {
    /// Calls with a reply.
    pub replies: u64,
    /// Calls whose reply did not arrive within the deadline.
    pub timeouts: u64,
    /// Calls that the store refused, or whose connection was lost.
    pub errors: u64,
    /// Calls that were not made, because the store was away or too many were waiting.
    pub unavailable: u64,
    /// How long calls have waited in all.
    pub waited: Duration,
    /// Whether a worker finds the store away.
    pub is_away: bool,
}

/// A store whose totals the metrics show.
pub trait LimitStore: std::fmt::Debug + Send + Sync {
    /// The store without secrets.
    fn place(&self) -> &str;

    /// What calls to it have come to.
    fn totals(&self) -> LimitStoreTotals;
}

impl Hub {
    /// Shows a store of limits as long as it is in use.
    pub fn add_limit_store(&self, store: Weak<dyn LimitStore>) {
        let mut known = lock(&self.limit_stores);
        known.retain(|store| store.strong_count() > 0);
        known.push(store);
    }
}

/// Adds the stores that are in use.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let known = lock(&hub.limit_stores);
    let stores: Vec<Arc<dyn LimitStore>> = known.iter().filter_map(Weak::upgrade).collect();
    drop(known);
    if stores.is_empty() {
        return;
    }
    let rows: Vec<(&str, LimitStoreTotals)> = stores
        .iter()
        .map(|store| (store.place(), store.totals()))
        .collect();
    page.family(
        "sluice_limit_store_calls_total",
        "Calls to a store of limits that nodes share, by outcome.",
        Kind::Counter,
    );
    for (store, totals) in &rows {
        for (outcome, count) in [
            ("reply", totals.replies),
            ("timeout", totals.timeouts),
            ("error", totals.errors),
            ("unavailable", totals.unavailable),
        ] {
            page.sample("", &[("store", *store), ("outcome", outcome)], count);
        }
    }
    page.family(
        "sluice_limit_store_seconds_total",
        "Seconds that calls to a store of limits have waited.",
        Kind::Counter,
    );
    for (store, totals) in &rows {
        page.sample("", &[("store", *store)], totals.waited.as_secs_f64());
    }
    page.family(
        "sluice_limit_store_up",
        "Whether all workers that use a store of limits can reach it.",
        Kind::Gauge,
    );
    for (store, totals) in &rows {
        page.sample("", &[("store", *store)], u8::from(!totals.is_away));
    }
}
