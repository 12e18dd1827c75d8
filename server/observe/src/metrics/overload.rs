//! Overload control on the page of metrics.

use sluice_net::admission::AdmissionState;
use sluice_policy::overload::CLASSES;

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// An admission whose state the metrics show.
pub trait CountedAdmission: std::fmt::Debug + Send + Sync {
    /// Its state.
    fn state(&self) -> AdmissionState;
}

/// A gauge of one admission.
type Gauge = fn(&AdmissionState) -> u64;

const GAUGES: [(&str, &str, Gauge); 4] = [
    (
        "sluice_overload_active",
        "Whether the queue of `overload` no longer empties, so that requests are shed early.",
        |state| u64::from(state.is_overloaded),
    ),
    (
        "sluice_overload_in_flight",
        "Requests in flight behind `overload`, up to their response head.",
        |state| u64::from(state.in_flight),
    ),
    (
        "sluice_overload_limit",
        "The concurrency limit of `overload`.",
        |state| u64::from(state.limit),
    ),
    (
        "sluice_overload_waiting",
        "Requests that wait in the queue of `overload`.",
        |state| state.waiting,
    ),
];

/// Adds the admissions that are in use, by their names.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let mut found: Vec<(String, AdmissionState)> = Vec::new();
    for (name, admission) in &*lock(&hub.admissions) {
        if let Some(admission) = admission.upgrade() {
            found.push((name.clone(), admission.state()));
        }
    }
    // After a reload there may be two of the same name for a while: the newer one is shown.
    found.reverse();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|a, b| a.0 == b.0);
    if found.is_empty() {
        return;
    }
    for (name, help, value) in GAUGES {
        page.family(name, help, Kind::Gauge);
        for (of, state) in &found {
            page.sample("", &[("name", of)], value(state));
        }
    }
    page.family(
        "sluice_overload_admitted_total",
        "Requests that `overload` admitted.",
        Kind::Counter,
    );
    for (name, state) in &found {
        for class in CLASSES {
            let count = state.totals.admitted[class as usize];
            let labels = [("name", name.as_str()), ("class", class.as_str())];
            page.sample("", &labels, count);
        }
    }
    write_shed(&found, page);
    page.family(
        "sluice_overload_waited_total",
        "Requests that had to wait in the queue of `overload`.",
        Kind::Counter,
    );
    for (name, state) in &found {
        page.sample("", &[("name", name)], state.totals.waited);
    }
}

fn write_shed(found: &[(String, AdmissionState)], page: &mut Page) {
    page.family(
        "sluice_overload_shed_total",
        "Requests that `overload` shed: no slot was free (`full`), or they waited for too long (`late`).",
        Kind::Counter,
    );
    for (name, state) in found {
        for class in CLASSES {
            let counts = [
                ("full", state.totals.full[class as usize]),
                ("late", state.totals.late[class as usize]),
            ];
            for (reason, count) in counts {
                let labels = [
                    ("name", name.as_str()),
                    ("class", class.as_str()),
                    ("reason", reason),
                ];
                page.sample("", &labels, count);
            }
        }
    }
}
