//! Zones of rate limits on the page of metrics.

use std::collections::BTreeMap;

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// What a zone has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneTotals {
    /// Requests that were counted or refused.
    pub asked: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Keys that were dropped to make room although they still counted.
    pub forgotten: u64,
    /// Keys that are in the zone now.
    pub keys: u64,
    /// Requests that were decided without the store where several nodes count.
    pub undecided: u64,
}

/// A zone whose totals the metrics show.
pub trait CountedZone: std::fmt::Debug + Send + Sync {
    /// What it has counted.
    fn totals(&self) -> ZoneTotals;
}

/// Selects a counter of a rate limit zone.
type ZonePart = fn(&ZoneTotals) -> u64;

/// The names are those of the plugin. Keys are not used as labels, because clients choose them.
const RATE_LIMITS: [(&str, &str, Kind, ZonePart); 5] = [
    (
        "caddy_rate_limit_declined_requests_total",
        "Requests that came too often and were refused.",
        Kind::Counter,
        |totals| totals.refused,
    ),
    (
        "caddy_rate_limit_keys_total",
        "Keys that a zone counts for now.",
        Kind::Gauge,
        |totals| totals.keys,
    ),
    (
        "caddy_rate_limit_requests_total",
        "Requests checked against a zone.",
        Kind::Counter,
        |totals| totals.asked,
    ),
    (
        "sluice_rate_limit_keys_forgotten_total",
        "Keys that were forgotten because a zone had no more room.",
        Kind::Counter,
        |totals| totals.forgotten,
    ),
    (
        "sluice_rate_limit_without_store_total",
        "Requests decided by `on_error`, because the store that nodes share did not reply in time.",
        Kind::Counter,
        |totals| totals.undecided,
    ),
];

/// The zones in use, by name. Zones with the same name and different rates, as after a reload, are summed.
pub(super) fn sums(hub: &Hub) -> Vec<(String, ZoneTotals)> {
    let mut found = BTreeMap::<String, ZoneTotals>::new();
    for (name, zone) in &*lock(&hub.rate_zones) {
        if let Some(zone) = zone.upgrade() {
            let (sum, totals) = (found.entry(name.clone()).or_default(), zone.totals());
            sum.asked += totals.asked;
            sum.refused += totals.refused;
            sum.forgotten += totals.forgotten;
            sum.keys += totals.keys;
            sum.undecided += totals.undecided;
        }
    }
    found.into_iter().collect()
}

/// Adds the zones that are in use, by their names.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let found = sums(hub);
    if found.is_empty() {
        return;
    }
    for (name, help, kind, part) in RATE_LIMITS {
        page.family(name, help, kind);
        for (zone, totals) in &found {
            page.sample("", &[("zone", zone)], part(totals));
        }
    }
}
