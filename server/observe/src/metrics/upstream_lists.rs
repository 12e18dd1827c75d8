//! Lists of upstreams that a store has, on the page of metrics.

use std::sync::{Arc, Weak};

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// What following a list has come to since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamListTotals {
    /// Upstreams in the list.
    pub upstreams: u64,
    /// How often the list has changed; its first reading counts.
    pub changes: u64,
    /// Failed attempts to read it.
    pub failures: u64,
    /// Whether the last attempt failed.
    pub is_away: bool,
}

/// A list whose totals the metrics show.
pub trait UpstreamList: std::fmt::Debug + Send + Sync {
    /// The store and the place of the list in it, without secrets.
    fn place(&self) -> &str;

    /// What following it has come to.
    fn totals(&self) -> UpstreamListTotals;
}

impl Hub {
    /// Shows a list of upstreams as long as it is in use.
    pub fn add_upstream_list(&self, list: Weak<dyn UpstreamList>) {
        let mut known = lock(&self.upstream_lists);
        known.retain(|list| list.strong_count() > 0);
        known.push(list);
    }
}

/// Adds the lists that are in use.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let known = lock(&hub.upstream_lists);
    let lists: Vec<Arc<dyn UpstreamList>> = known.iter().filter_map(Weak::upgrade).collect();
    drop(known);
    if lists.is_empty() {
        return;
    }
    let rows: Vec<(&str, UpstreamListTotals)> = lists
        .iter()
        .map(|list| (list.place(), list.totals()))
        .collect();
    let mut family =
        |name: &'static str, help: &str, kind: Kind, value: fn(&UpstreamListTotals) -> u64| {
            page.family(name, help, kind);
            for (place, totals) in &rows {
                page.sample("", &[("source", *place)], value(totals));
            }
        };
    family(
        "sluice_upstream_list_changes_total",
        "Changes of a list of upstreams that a store has.",
        Kind::Counter,
        |totals| totals.changes,
    );
    family(
        "sluice_upstream_list_failures_total",
        "Failed attempts to read a list of upstreams.",
        Kind::Counter,
        |totals| totals.failures,
    );
    family(
        "sluice_upstream_list_size",
        "Upstreams in a list that a store has.",
        Kind::Gauge,
        |totals| totals.upstreams,
    );
    family(
        "sluice_upstream_list_up",
        "Whether the store of a list of upstreams can be read.",
        Kind::Gauge,
        |totals| u64::from(!totals.is_away),
    );
}
