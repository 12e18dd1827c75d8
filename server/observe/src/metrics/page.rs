//! Collects all metrics, family by family.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::histogram::{DURATIONS, SIZES, Sums};
use super::otlp::Families;
use super::sample::{Bound, Kind};
use super::series::{ResponseTotal, Total};
use super::site::{HttpMetrics, Names};
use super::text::{Format, Page};
use super::{
    Hub, config_source, limit_stores, memory, overload, process, python, rate_limits, slot_pools,
    storages, stores, upstream_lists, upstreams,
};
use crate::recorder::Recorder;

/// All metrics as text.
pub fn page(recorder: &Recorder, format: Format) -> String {
    let mut page = Page::new(format);
    let before = recorder.hub().scrapes.fetch_add(1, Ordering::Relaxed);
    write_all(recorder, before, &mut page);
    page.finish()
}

/// All metrics as an OTLP message for a resource with these attributes.
pub(super) fn message(recorder: &Recorder, resource: &[(String, String)]) -> Vec<u8> {
    let hub = recorder.hub();
    let nanos = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    };
    let families = Families::new(nanos(hub.started), nanos(SystemTime::now()));
    let mut page = Page::of_families(families);
    write_all(recorder, hub.scrapes.load(Ordering::Relaxed), &mut page);
    page.message(resource)
}

fn write_all(recorder: &Recorder, pages: u64, page: &mut Page) {
    let hub = recorder.hub();
    hub.admin.write(page);
    write_load(hub, page);
    config_source::write(recorder, page);
    if let Some(http) = hub.http() {
        write_http(&http, page);
    }
    upstreams::write(hub, page);
    rate_limits::write(hub, page);
    limit_stores::write(hub, page);
    slot_pools::write(hub, page);
    storages::write(hub, page);
    upstream_lists::write(hub, page);
    overload::write(hub, page);
    stores::write(recorder, page);
    python::write(hub, page);
    process::write(page, hub.started);
    page.single(
        "promhttp_metric_handler_requests_total",
        "Pages like this one that were given before.",
        Kind::Counter,
        pages,
    );
    write_own(recorder, page);
}

fn write_load(hub: &Hub, page: &mut Page) {
    let at = hub.loaded_at.load(Ordering::Relaxed) as f64 / 1000.0;
    page.single(
        "caddy_config_last_reload_success_timestamp_seconds",
        "When a configuration was last taken, in seconds since 1970.",
        Kind::Gauge,
        at,
    );
    page.single(
        "caddy_config_last_reload_successful",
        "Whether the last configuration was taken.",
        Kind::Gauge,
        u8::from(hub.loaded.load(Ordering::Relaxed)),
    );
}

/// Selects a histogram of the response metrics.
type Part = fn(&ResponseTotal) -> &Sums;

fn write_http(http: &HttpMetrics, page: &mut Page) {
    let totals = http.totals();
    write_all_requests(&totals, page);
    write_responses(&totals, page);
    page.single(
        "sluice_metrics_dropped_total",
        "Counts that were lost because there were too many series.",
        Kind::Counter,
        http.dropped(),
    );
}

fn write_all_requests(totals: &[(Names, Total)], page: &mut Page) {
    write_requests(
        page,
        totals,
        (
            "caddy_http_request_errors_total",
            "Requests that a handler failed.",
            Kind::Counter,
        ),
        |_, _, failed| Some(failed).filter(|failed| *failed > 0),
    );
    write_requests(
        page,
        totals,
        (
            "caddy_http_requests_in_flight",
            "Requests in flight.",
            Kind::Gauge,
        ),
        |entered, left, _| Some(entered.saturating_sub(left)),
    );
    write_requests(
        page,
        totals,
        (
            "caddy_http_requests_total",
            "Requests handled.",
            Kind::Counter,
        ),
        |_, left, _| Some(left).filter(|left| *left > 0),
    );
}

fn write_responses(totals: &[(Names, Total)], page: &mut Page) {
    write_histogram(
        page,
        totals,
        (
            "caddy_http_request_duration_seconds",
            "Time from the first byte of a request to the end of its response.",
        ),
        |responses| &responses.duration,
        Unit::Seconds,
    );
    write_histogram(
        page,
        totals,
        (
            "caddy_http_request_size_bytes",
            "Size of requests, with their bodies.",
        ),
        |responses| &responses.request_size,
        Unit::Bytes,
    );
    write_histogram(
        page,
        totals,
        (
            "caddy_http_response_duration_seconds",
            "Time from the first byte of a request to the start of its response.",
        ),
        |responses| &responses.first_byte,
        Unit::Seconds,
    );
    write_histogram(
        page,
        totals,
        ("caddy_http_response_size_bytes", "Size of response bodies."),
        |responses| &responses.response_size,
        Unit::Bytes,
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Bytes,
}

impl Unit {
    const fn bounds(self) -> &'static [Bound] {
        match self {
            Unit::Seconds => DURATIONS.bounds,
            Unit::Bytes => SIZES.bounds,
        }
    }
}

fn write_histogram(
    page: &mut Page,
    totals: &[(Names, Total)],
    (name, help): (&'static str, &str),
    part: Part,
    unit: Unit,
) {
    let mut begun = false;
    for (names, total) in totals {
        let Total::Responses(responses) = total else {
            continue;
        };
        let sums = part(responses);
        if sums.counts.iter().all(|count| *count == 0) {
            continue;
        }
        if !std::mem::replace(&mut begun, true) {
            page.family(name, help, Kind::Histogram);
        }
        let list = names.list();
        match unit {
            Unit::Seconds => {
                let seconds = sums.sum as f64 / 1e9;
                page.histogram(&list, unit.bounds(), &sums.counts, seconds);
            }
            Unit::Bytes => page.histogram(&list, unit.bounds(), &sums.counts, sums.sum),
        }
    }
}

fn write_requests(
    page: &mut Page,
    totals: &[(Names, Total)],
    (name, help, kind): (&'static str, &str, Kind),
    value: fn(entered: u64, left: u64, failed: u64) -> Option<u64>,
) {
    let mut begun = false;
    for (names, total) in totals {
        let Total::Requests {
            entered,
            left,
            failed,
        } = total
        else {
            continue;
        };
        let Some(value) = value(*entered, *left, *failed) else {
            continue;
        };
        if !std::mem::replace(&mut begun, true) {
            page.family(name, help, kind);
        }
        page.sample("", &names.list(), value);
    }
}

/// Metrics specific to sluice, mostly about its limits.
fn write_own(recorder: &Recorder, page: &mut Page) {
    let hub = recorder.hub();
    let workers = hub.workers.get().map(Vec::as_slice).unwrap_or_default();
    let sum = |count: fn(&sluice_net::Counters) -> &sluice_net::Count| {
        workers
            .iter()
            .map(|worker| count(worker).value())
            .sum::<u64>()
    };
    let totals = recorder.totals();
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_accept_pauses_total",
        "Times that accepting paused because connections or open files had run out.",
        sum(|worker| &worker.accept_pauses),
    );
    counter(
        "sluice_connections_refused_total",
        "Connections closed at once, as a worker may have no more.",
        sum(|worker| &worker.refused),
    );
    counter(
        "sluice_answers_failed_total",
        "Responses that did not reach the client completely.",
        totals.failed,
    );
    counter(
        "sluice_body_received_bytes_total",
        "Bytes of requests' bodies.",
        totals.bytes_read,
    );
    counter(
        "sluice_body_sent_bytes_total",
        "Bytes of response bodies.",
        totals.bytes_sent,
    );
    counter(
        "sluice_connections_accepted_total",
        "Client connections that were accepted.",
        sum(|worker| &worker.accepted),
    );
    counter(
        "sluice_handler_panics_total",
        "Requests whose handler panicked.",
        sum(|worker| &worker.panics),
    );
    write_reports(recorder, page);
    write_buffers(&sum, page);
    memory::write(hub, &sum, page);
    write_tls(&sum, page);
    write_slow(&sum, page);
    write_http2(&sum, page);
    write_http3(&sum, page);
    write_own_gauges(recorder, sum(|worker| &worker.open), page);
}

/// Metrics of logging and tracing, including losses.
fn write_reports(recorder: &Recorder, page: &mut Page) {
    let hub = recorder.hub();
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_log_lines_dropped_total",
        "Log lines that were dropped because an output was too slow.",
        recorder.log().outputs().lost_count(),
    );
    counter(
        "sluice_panics_total",
        "Panics in the process, in handlers and elsewhere; few of them have a line in the log.",
        crate::panics::count(),
    );
    counter(
        "sluice_patterns_given_up_total",
        "Matches of patterns of an nginx.conf that had too many ways to be looked for.",
        hub.patterns_given_up.load(Ordering::Relaxed),
    );
    counter(
        "sluice_spans_dropped_total",
        "Spans of traces that no collector took in time.",
        hub.spans.dropped.load(Ordering::Relaxed),
    );
    counter(
        "sluice_spans_exported_total",
        "Spans of traces that the collector took.",
        hub.spans.exported.load(Ordering::Relaxed),
    );
}

fn write_buffers(
    sum: &impl Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64,
    page: &mut Page,
) {
    page.single(
        "sluice_buffer_bytes",
        "Bytes of bodies in temporary files.",
        Kind::Gauge,
        sum(|worker| &worker.spool_bytes),
    );
    page.single(
        "sluice_buffer_files",
        "Temporary files of bodies.",
        Kind::Gauge,
        sum(|worker| &worker.spool_files),
    );
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_buffer_failures_total",
        "Writes to temporary files that failed; their bodies were forwarded without one.",
        sum(|worker| &worker.spool_failures),
    );
    counter(
        "sluice_buffer_files_created_total",
        "Temporary files created for bodies.",
        sum(|worker| &worker.spooled),
    );
    counter(
        "sluice_buffer_refused_total",
        "Bodies that got no temporary file because there were too many.",
        sum(|worker| &worker.spool_refused),
    );
}

fn write_tls(
    sum: &impl Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64,
    page: &mut Page,
) {
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_tls_handshakes_failed_total",
        "TLS handshakes that failed.",
        sum(|worker| &worker.handshakes_failed),
    );
    counter(
        "sluice_tls_handshakes_shed_total",
        "TLS handshakes that were given up because there were too many.",
        sum(|worker| &worker.handshakes_shed),
    );
    counter(
        "sluice_tls_handshakes_waited_total",
        "TLS handshakes that had to wait for their turn.",
        sum(|worker| &worker.handshakes_waited),
    );
}

fn write_slow(
    sum: &impl Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64,
    page: &mut Page,
) {
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_slow_requests_total",
        "Requests ended because their bodies came more slowly than `min_data_rate` allows.",
        sum(|worker| &worker.requests_too_slow),
    );
    counter(
        "sluice_slow_responses_total",
        "Responses ended because clients took them more slowly than `min_data_rate` allows.",
        sum(|worker| &worker.responses_too_slow),
    );
}

fn write_http2(
    sum: &impl Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64,
    page: &mut Page,
) {
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_http2_connections_total",
        "Connections on which HTTP/2 was spoken.",
        sum(|worker| &worker.http2_connections),
    );
    counter(
        "sluice_http2_connections_calmed_total",
        "HTTP/2 connections ended because the client made more work than its requests need.",
        sum(|worker| &worker.http2_calmed),
    );
    counter(
        "sluice_http2_connections_faulty_total",
        "HTTP/2 connections ended because the client broke the protocol.",
        sum(|worker| &worker.http2_faults),
    );
}

fn write_http3(
    sum: &impl Fn(fn(&sluice_net::Counters) -> &sluice_net::Count) -> u64,
    page: &mut Page,
) {
    let mut counter = |name, help, value| page.single(name, help, Kind::Counter, value);
    counter(
        "sluice_http3_connections_total",
        "Connections on which HTTP/3 was spoken.",
        sum(|worker| &worker.http3_connections),
    );
    counter(
        "sluice_http3_connections_calmed_total",
        "HTTP/3 connections ended because the client made more work than its requests need.",
        sum(|worker| &worker.http3_calmed),
    );
    counter(
        "sluice_http3_connections_faulty_total",
        "HTTP/3 connections ended because the client broke the protocol.",
        sum(|worker| &worker.http3_faults),
    );
    counter(
        "sluice_quic_retries_total",
        "Clients that were asked to prove their address.",
        sum(|worker| &worker.quic_retries),
    );
    counter(
        "sluice_quic_refused_total",
        "QUIC connections refused because of a limit.",
        sum(|worker| &worker.quic_refused),
    );
    counter(
        "sluice_quic_early_data_total",
        "QUIC connections with requests before the end of the handshake (0-RTT).",
        sum(|worker| &worker.quic_early),
    );
    counter(
        "sluice_quic_migrations_total",
        "Changes of the address of a QUIC client.",
        sum(|worker| &worker.quic_migrations),
    );
    counter(
        "sluice_quic_lost_packets_total",
        "Packets to QUIC clients that were lost.",
        sum(|worker| &worker.quic_lost_packets),
    );
    counter(
        "sluice_quic_sent_bytes_total",
        "Bytes of datagrams sent to QUIC clients.",
        sum(|worker| &worker.quic_sent_bytes),
    );
    counter(
        "sluice_quic_received_bytes_total",
        "Bytes of datagrams received from QUIC clients.",
        sum(|worker| &worker.quic_received_bytes),
    );
    counter(
        "sluice_http3_upstream_connections_total",
        "HTTP/3 connections to upstreams.",
        sum(|worker| &worker.http3_upstream_connections),
    );
    counter(
        "sluice_quic_upstream_lost_packets_total",
        "Packets to upstreams over QUIC that were lost.",
        sum(|worker| &worker.quic_upstream_lost_packets),
    );
}

fn write_own_gauges(recorder: &Recorder, open: u64, page: &mut Page) {
    let hub = recorder.hub();
    let totals = recorder.totals();
    page.single(
        "sluice_connections_open",
        "Client connections that are open.",
        Kind::Gauge,
        open,
    );
    if let Some(limit) = hub.connections.get() {
        let help = "Client connections that may be open.";
        page.single("sluice_connections_max", help, Kind::Gauge, limit.max());
    }
    page.single(
        "sluice_requests_in_flight",
        "Requests in flight.",
        Kind::Gauge,
        totals.in_flight(),
    );
    page.family(
        "sluice_requests_total",
        "Requests by the first digit of their status; `none` got no response.",
        Kind::Counter,
    );
    for (class, count) in ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]
        .iter()
        .zip(totals.ended)
    {
        page.sample("", &[("class", class)], count);
    }
}
