//! The memory limit on the page of metrics.

use super::Hub;
use super::sample::Kind;
use super::text::Page;

/// Adds a counter of all workers.
type Sum<'a> = &'a dyn Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64;

/// Adds the metrics, if there is a limit.
pub(super) fn write(hub: &Hub, sum: Sum<'_>, page: &mut Page) {
    let limit = hub.memory.get().filter(|limit| limit.bytes() > 0);
    let Some(limit) = limit else { return };
    let mut gauge = |name, help, value| page.single(name, help, Kind::Gauge, value);
    gauge(
        "sluice_memory_limit_bytes",
        "The memory limit of the process.",
        limit.bytes(),
    );
    gauge(
        "sluice_memory_pressure",
        "What memory pressure causes: 0 nothing, 1 small buffers, 2 bodies wait, 3 idle connections close, 4 refusals.",
        u64::from(limit.level().number()),
    );
    gauge(
        "sluice_memory_used_bytes",
        "Memory of the process, or of its control group if that is limited, at the latest sample.",
        limit.used(),
    );
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_memory_bodies_held_total",
        "Request bodies that waited because of memory pressure.",
        sum(|worker| &worker.memory_bodies_held),
    );
    counter(
        "sluice_memory_buffers_freed_total",
        "Unused buffers that were freed because of memory pressure.",
        sum(|worker| &worker.memory_buffers_freed),
    );
    counter(
        "sluice_memory_connections_refused_total",
        "Connections that were refused because of memory pressure.",
        sum(|worker| &worker.memory_connections_refused),
    );
    counter(
        "sluice_memory_idle_closed_total",
        "Idle connections that were closed because of memory pressure.",
        sum(|worker| &worker.memory_idle_closed),
    );
    counter(
        "sluice_memory_requests_refused_total",
        "Requests that were refused because of memory pressure.",
        sum(|worker| &worker.memory_requests_refused),
    );
}
