//! The parts of the snapshot that need no samples: process-wide counters, workers, upstreams, caches, limits,
//! certificates, Python applications, failures.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_cache::store::Store;
use sluice_net::{Count, Counters, clock};
use sluice_python::{GroupSnapshot, GroupState, ProcessState};

use super::snapshot::{
    Cache, Certificate, Concurrency, ConfigSourceView, Connections, FailedRequest, Overload,
    PythonApplication, RateLimit, ReloadOutcome, Reloads, ServerInfo, Snapshot, Table, UpstreamRow,
    WorkerRow, unix,
};
use crate::limits::{CERTIFICATES_SHOWN_MAX, UPSTREAMS_SHOWN_MAX, ZONES_SHOWN_MAX};
use crate::metrics::{Standing, ZoneTotals};
use crate::recent_failures::Failure;
use crate::recorder::Recorder;
use crate::sources::{CertificateStanding, ConcurrencyStanding, ConfigSourceStanding};

/// Fills in these parts.
pub(super) fn fill(recorder: &Recorder, version: &str, snapshot: &mut Snapshot) {
    let hub = recorder.hub();
    let sources = recorder.sources();
    snapshot.server = ServerInfo {
        version: version.to_owned(),
        pid: std::process::id(),
        started: unix(hub.started()),
        uptime: hub
            .started()
            .elapsed()
            .map_or(0.0, |up| up.as_millis() as f64 / 1000.0),
    };
    snapshot.reloads = reloads(recorder);
    snapshot.config_source = sources.config_source().map(config_source);
    snapshot.fleet = sources.fleet();
    fill_counters(recorder, snapshot);
    let mut upstreams: Vec<UpstreamRow> =
        hub.upstream_standings().into_iter().map(upstream).collect();
    upstreams.sort_by_key(|upstream| upstream.healthy);
    snapshot.upstreams = Table::of(upstreams, UPSTREAMS_SHOWN_MAX);
    let caches = recorder.stores().all();
    let caches = caches.iter().map(|store| cache(store)).collect();
    snapshot.caches = Table::of(caches, ZONES_SHOWN_MAX);
    let zones = hub.rate_zones().into_iter().map(rate_limit).collect();
    snapshot.rate_limits = Table::of(zones, ZONES_SHOWN_MAX);
    let mut limits = sources.concurrency_limits();
    limits.sort_by(|a, b| a.name.cmp(&b.name));
    let limits = limits.into_iter().map(concurrency).collect();
    snapshot.concurrency_limits = Table::of(limits, ZONES_SHOWN_MAX);
    let mut certificates = sources.certificates();
    certificates.sort_by(|a, b| (a.expires, &a.names).cmp(&(b.expires, &b.names)));
    let certificates = certificates.into_iter().map(certificate).collect();
    snapshot.certificates = Table::of(certificates, CERTIFICATES_SHOWN_MAX);
    let groups = hub.python_groups();
    snapshot.python = Table::of(groups.iter().map(python).collect(), ZONES_SHOWN_MAX);
    let (failures, omitted) = recorder.failures().list();
    snapshot.failures = failures.into_iter().map(failure).collect();
    snapshot.failures_omitted = omitted;
}

fn fill_counters(recorder: &Recorder, snapshot: &mut Snapshot) {
    let hub = recorder.hub();
    let workers = hub.workers();
    let sum = |count: fn(&Counters) -> &Count| -> u64 {
        workers.iter().map(|worker| count(worker).value()).sum()
    };
    snapshot.connections = Connections {
        open: sum(|worker| &worker.open),
        max: hub.connections_max().map(|max| max as u64),
        accepted: sum(|worker| &worker.accepted),
        refused: sum(|worker| &worker.refused),
    };
    snapshot.overload = Overload {
        accept_pauses: sum(|worker| &worker.accept_pauses),
        handshakes_shed: sum(|worker| &worker.handshakes_shed),
        handshakes_failed: sum(|worker| &worker.handshakes_failed),
        connections_calmed: sum(|worker| &worker.http2_calmed) + sum(|worker| &worker.http3_calmed),
        slow_requests: sum(|worker| &worker.requests_too_slow),
        slow_responses: sum(|worker| &worker.responses_too_slow),
        buffers_refused: sum(|worker| &worker.spool_refused),
        log_lines_dropped: recorder.log().outputs().lost_count(),
        panics: crate::panics::count(),
    };
    let requests = recorder.totals_by_worker();
    let rows = workers.iter().zip(requests).enumerate();
    snapshot.workers = rows
        .map(|(index, (counters, totals))| WorkerRow {
            worker: index,
            connections: counters.open.value(),
            accepted: counters.accepted.value(),
            requests: totals.started,
            in_flight: totals.in_flight(),
        })
        .collect();
}

fn reloads(recorder: &Recorder) -> Reloads {
    let reloads = recorder.sources().reloads();
    let loaded_at = recorder.hub().loaded_at_millis();
    Reloads {
        succeeded: reloads.succeeded,
        failed: reloads.failed,
        loaded_at: (loaded_at > 0).then_some(loaded_at as f64 / 1000.0),
        last: reloads.last.map(|last| ReloadOutcome {
            at: unix(last.at),
            trigger: last.trigger,
            ok: last.error.is_none(),
            error: last.error,
        }),
    }
}

fn config_source(standing: ConfigSourceStanding) -> ConfigSourceView {
    ConfigSourceView {
        lag: standing.lag().map(|lag| lag.as_millis() as f64 / 1000.0),
        place: standing.place,
        node: standing.node,
        running: standing.running,
        offered: standing.offered,
        refusal: standing.refusal,
        reachable: standing.is_reachable,
        error: standing.error,
        last_contact: standing.last_contact.map(unix),
        applied: standing.applied,
        refused: standing.refused,
        failures: standing.failures,
    }
}

fn upstream((address, standing, reason): (String, Standing, Option<String>)) -> UpstreamRow {
    let ejected = standing.directed.ejected_for(clock::now());
    let mut reasons = Vec::new();
    if let Some(seconds) = ejected {
        reasons.push(format!("ejected by an operator: {seconds:.0} s left"));
    }
    if standing.by_checks == Some(false) {
        reasons.push(match reason {
            Some(reason) => format!("health check: {reason}"),
            None => "health check: no check has succeeded yet".to_owned(),
        });
    }
    if standing.by_failures == Some(false) {
        let count = standing.failures;
        reasons.push(format!("passive health check, recent failures: {count}"));
    }
    if standing.by_circuit == Some(false) {
        reasons.push("circuit breaker: open".to_owned());
    }
    UpstreamRow {
        address,
        healthy: standing.is_healthy(),
        draining: standing.directed.is_draining == Some(true),
        ejected,
        reasons,
        in_flight: standing.requests.map(|requests| requests as u64),
        failures: standing.failures,
        circuit_trips: standing.trips,
    }
}

fn cache(store: &Store) -> Cache {
    let counts = &store.counts;
    // In the order of `Counts::NAMES`.
    let [hit, miss, expired, stale, updating, revalidated, bypass] = counts
        .requests
        .each_ref()
        .map(|count| count.load(Ordering::Relaxed));
    let (hits, misses) = (hit + stale + updating + revalidated, miss + expired);
    let fullness = store.fullness();
    Cache {
        name: store.path().display().to_string(),
        entries: fullness.entries as u64,
        bytes: fullness.bytes,
        hits,
        misses,
        bypassed: bypass,
        hit_share: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        bytes_sent: counts.sent.load(Ordering::Relaxed),
        evicted: counts.evicted.load(Ordering::Relaxed),
        failures: counts.failures.load(Ordering::Relaxed),
        loading: store.is_loading(),
    }
}

fn rate_limit((name, totals): (String, ZoneTotals)) -> RateLimit {
    RateLimit {
        name,
        requests: totals.asked,
        refused: totals.refused,
        keys: totals.keys,
        forgotten: totals.forgotten,
    }
}

fn concurrency(limit: ConcurrencyStanding) -> Concurrency {
    Concurrency {
        name: limit.name,
        in_flight: limit.in_flight,
        waiting: limit.waiting,
        refused: limit.refused,
        keys: limit.keys,
        max: limit.max,
    }
}

fn certificate(standing: CertificateStanding) -> Certificate {
    Certificate {
        names: standing.names,
        origin: standing.origin,
        valid_from: standing.valid_from.map(unix),
        expires: standing.expires.map(unix),
        managed: standing.is_managed,
        failures: standing.failures,
        last_failure: standing.last_failure,
        next_attempt: standing.next_attempt.map(unix),
    }
}

fn python(group: &GroupSnapshot) -> PythonApplication {
    let state = match group.state {
        GroupState::Starting => "starting",
        GroupState::Ready => "ready",
        GroupState::Failed => "failed",
        GroupState::Draining => "draining",
    };
    let processes = &group.processes;
    let count = |wanted: &[ProcessState]| {
        let found = processes
            .iter()
            .filter(|process| wanted.contains(&process.state));
        found.count()
    };
    PythonApplication {
        name: group.name.clone(),
        module: group.module.clone(),
        state: state.to_owned(),
        processes_ready: count(&[ProcessState::Ready]),
        processes: count(&[ProcessState::Ready, ProcessState::Starting]),
        requests: group.requests,
        in_flight: processes
            .iter()
            .map(|process| process.in_flight as u64)
            .sum(),
        queued: group.queued as u64,
        refused: group.queue_full + group.queue_timeouts,
        restarts: group.restarts,
        resident_bytes: processes.iter().map(|process| process.rss_bytes).sum(),
        last_failure: group.last_failure.clone(),
    }
}

fn failure(failure: Failure) -> FailedRequest {
    let at = UNIX_EPOCH + std::time::Duration::from_millis(failure.at_millis);
    FailedRequest {
        at: unix(at.max(SystemTime::UNIX_EPOCH)),
        status: failure.status,
        method: failure.method,
        host: failure.host,
        path: failure.path,
        error: failure.error,
        id: failure.id,
        upstream: failure.upstream,
    }
}
