//! Treatment checks: whether the options an experiment claims took effect, from counters on all sides, and from what is
//! observed of the server after the load (`observe`).

mod observe;
mod socket;
mod trace;

use super::comparison::Comparison;
use super::file::{CheckPart, Switch, Test};
pub use observe::{Logs, Observed, is_own, metrics, observe};
use serde::{Deserialize, Serialize};
use sluice_load::result::{BackendCounts, Check, Load, Resources};

/// Connections that a kernel accepted for all programs during a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accepted {
    /// On the machine of servers and upstreams: those of clients are among them.
    WithClients(u64),
    /// On a machine of the upstreams only.
    Upstreams(u64),
}

/// The counters of one block.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What the clients observed.
    pub load: &'a Load,
    /// Counters of one of the lab's own upstreams.
    pub counts: Option<&'a BackendCounts>,
    /// Connections that the kernel accepted during the load; `None` if the kernel does not report it, or the upstream uses a
    /// unix socket, which it does not count.
    pub accepted: Option<Accepted>,
    /// Resource usage.
    pub resources: &'a Resources,
    /// What was observed of the server after the load.
    pub observed: &'a Observed,
}

impl Seen<'_> {
    /// Whether the load generator reports connections and the responses on them: external ones do not.
    fn counts_connections(&self) -> bool {
        let missing = &self.load.engine.not_measured;
        !missing.iter().any(|field| field == "connections")
    }

    /// Share of the upstream's requests on a reused connection, and which counter it comes from. If it should be high,
    /// one connection per client is not counted as waste, however short the load is; if it should be low, every
    /// connection counts.
    fn upstream_reuse(&self, claim: &str) -> Option<(f64, String)> {
        let low = Comparison::parse(claim).is_ok_and(|claim| claim.sign.starts_with('<'));
        let clients = if low {
            0
        } else {
            self.load.asked.connections as u64
        };
        let reuse = |dialed: u64, requests: u64| {
            1.0 - dialed.saturating_sub(clients).min(requests) as f64 / requests as f64
        };
        if let Some(counts) = self.counts.filter(|counts| counts.requests > 0) {
            let detail = format!(
                "{} connections for {} requests at the upstream",
                counts.accepted, counts.requests
            );
            return Some((reuse(counts.accepted, counts.requests), detail));
        }
        let connections = &self.load.connections;
        if !self.counts_connections() {
            return None;
        }
        let dialed = match self.accepted? {
            Accepted::WithClients(all) => all.saturating_sub(connections.opened),
            Accepted::Upstreams(all) => all,
        };
        let detail = format!(
            "{dialed} connections besides those of clients for {} responses (counted by the kernel)",
            connections.responses
        );
        Some((reuse(dialed, connections.responses.max(1)), detail))
    }
}

/// Checks whether the options the experiment claims took effect. `parts` are those that apply to the cell.
pub fn checks<'a>(
    test: &Test,
    parts: impl Iterator<Item = &'a CheckPart>,
    seen: Seen<'_>,
) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(claim) = &test.assert.backend_requests {
        checks.push(backend_requests(claim, seen));
    }
    if let Some(claim) = &test.assert.upstream_reuse {
        let reuse = seen.upstream_reuse(claim);
        checks.push(number("upstream_reuse", claim, reuse));
    }
    parts.for_each(|part| one(part, seen, &mut checks));
    checks
}

/// Whether each successful request reached the upstream.
fn backend_requests(claim: &str, seen: Seen<'_>) -> Check {
    let load = seen.load;
    let responses = load.connections.responses;
    let failed = load.failed() + load.censored.without_response;
    if !seen.counts_connections() {
        return Check {
            claim: format!("backend_requests {claim}"),
            seen: "the load generator does not count the responses of its warm-up".into(),
            holds: None,
        };
    }
    let counted = seen.counts.map(|counts| counts.requests);
    Check {
        claim: format!("backend_requests {claim}"),
        seen: match counted {
            Some(counted) => {
                format!("{counted} requests at the upstream for {responses} successful responses")
            }
            None => "the upstream does not count requests".into(),
        },
        // Failed requests may have reached the upstream or not; successful ones did, unless something else responded.
        holds: counted.map(|counted| {
            counted >= responses && counted <= responses + failed + load.asked.connections as u64
        }),
    }
}

/// Runs all checks of one part of the file.
fn one(part: &CheckPart, seen: Seen<'_>, checks: &mut Vec<Check>) {
    let load = seen.load;
    let opened = load.connections.opened;
    let each = responses_per_connection(load, part.responses_per_connection.as_deref());
    let counts = seen.counts.filter(|_| seen.counts_connections());
    let share = counts.map(|counts| {
        let share = counts.requests as f64 / load.connections.responses.max(1) as f64;
        (
            share,
            format!("{} requests at the upstream", counts.requests),
        )
    });
    let processes = |count: Option<u64>| count.map(|n| (n as f64, format!("{n} processes")));
    let backend = seen.resources.backend.as_ref();
    for (name, claim, value) in [
        (
            "upstream_reuse",
            &part.upstream_reuse,
            part.upstream_reuse
                .as_ref()
                .and_then(|claim| seen.upstream_reuse(claim)),
        ),
        ("backend_share", &part.backend_share, share),
        (
            "answers_per_connection",
            &part.responses_per_connection,
            seen.counts_connections().then(|| {
                let responses = load.connections.responses;
                let words = format!("{opened} connections of clients, {responses} responses");
                (each, words)
            }),
        ),
        (
            "processes",
            &part.processes,
            processes(Some(seen.resources.subject.processes_max)),
        ),
        (
            "backend_processes",
            &part.backend_processes,
            processes(backend.map(|tree| tree.processes_max)),
        ),
        ("resumed", &part.resumed, resumed(seen)),
    ] {
        if let Some(claim) = claim {
            checks.push(number(name, claim, value));
        }
    }
    let connections = &load.connections;
    let encoding = load.response.as_ref();
    let encoding = encoding.map(|response| response.encoding.clone().unwrap_or("none".into()));
    for (name, claim, value) in [
        ("alpn", &part.alpn, connections.alpn.clone()),
        (
            "tls",
            &part.tls,
            Some(connections.tls_version.clone().unwrap_or("none".into())),
        ),
        ("key", &part.key, connections.key.clone()),
        ("encoding", &part.encoding, encoding),
    ] {
        if let Some(claim) = claim {
            // The first response was probed by the lab; what other engines negotiated is not known.
            let known = name == "encoding" || seen.counts_connections();
            checks.push(Check {
                claim: format!("{name} {claim}"),
                holds: known.then(|| value.as_ref() == Some(claim)),
                seen: value.unwrap_or("nothing".into()),
            });
        }
    }
    observed(part, seen, checks);
}

/// The checks of what was observed after the load.
fn observed(part: &CheckPart, seen: Seen<'_>, checks: &mut Vec<Check>) {
    if let Some(lines) = &part.log_lines {
        let responses = seen.load.connections.responses;
        let gained = seen.observed.log_lines.get(&lines.file);
        let gained = gained.filter(|_| seen.counts_connections());
        let value = gained.map(|gained| {
            let words = format!("{gained} lines for {responses} responses");
            (*gained as f64 / responses.max(1) as f64, words)
        });
        checks.push(number("log_lines", &lines.per_response, value));
    }
    if let Some(request) = &part.request {
        let status = seen.observed.statuses.get(&request.path);
        checks.push(Check {
            claim: format!("{} has status {}", request.path, request.status),
            holds: status.map(|status| status == &Ok(request.status)),
            seen: match status {
                Some(Ok(status)) => format!("status {status}"),
                Some(Err(fault)) => fault.clone(),
                None => "nothing".into(),
            },
        });
    }
    inner(part, seen, checks);
    if let Some(calls) = &part.calls {
        let claim = format!("{} for each request {}", calls.name, calls.per_request);
        checks.push(match seen.observed.calls.as_ref() {
            Some(Ok(trace)) => {
                let count = trace.count(&calls.name);
                let each = count as f64 / trace.requests.max(1) as f64;
                let comparison = Comparison::parse(&calls.per_request).ok();
                Check {
                    claim,
                    holds: comparison.map(|comparison| comparison.holds(each)),
                    seen: format!("{count} calls for {} requests", trace.requests),
                }
            }
            Some(Err(reason)) => unknown(claim, reason),
            None => unknown(claim, "nothing was traced"),
        });
    }
    if let Some(wanted) = part.nodelay {
        let words = |on: bool| if on { "on" } else { "off" };
        let claim = format!("TCP_NODELAY {}", words(wanted == Switch::On));
        checks.push(match seen.observed.nodelay.as_ref() {
            Some(Ok(on)) => Check {
                claim,
                holds: Some(*on == (wanted == Switch::On)),
                seen: words(*on).into(),
            },
            Some(Err(reason)) => unknown(claim, reason),
            None => unknown(claim, "no socket was looked at"),
        });
    }
}

/// The checks of the threads of the server, and of what it reports of itself.
fn inner(part: &CheckPart, seen: Seen<'_>, checks: &mut Vec<Check>) {
    if let Some(threads) = &part.threads {
        let found = seen.observed.threads.get(&threads.name);
        let value = found.map(|count| (*count as f64, format!("{count} threads")));
        checks.push(number(
            &format!("threads {}", threads.name),
            &threads.count,
            value,
        ));
    }
    if let Some(metric) = &part.metric {
        let found = seen.observed.metrics.get(&metric.key());
        checks.push(match found {
            Some(Err(reason)) => unknown(format!("{} {}", metric.name, metric.value), reason),
            Some(Ok(value)) => {
                let value = Some((*value, format!("reported by {}", metric.url)));
                number(&metric.name, &metric.value, value)
            }
            None => number(&metric.name, &metric.value, None),
        });
    }
}

/// A check whose result is not known, with the reason.
fn unknown(claim: String, reason: &str) -> Check {
    Check {
        claim,
        holds: None,
        seen: reason.into(),
    }
}

/// Share of the clients' connections that resumed a TLS session.
fn resumed(seen: Seen<'_>) -> Option<(f64, String)> {
    let connections = &seen.load.connections;
    let resumed = connections.resumed.unwrap_or(0);
    let words = format!("{resumed} of {} connections", connections.opened);
    seen.counts_connections()
        .then(|| (resumed as f64 / connections.opened.max(1) as f64, words))
}

/// Responses per client connection. If many are required and no client opened a second connection, the connections were
/// kept alive, and the number only depends on how many responses the server had time for.
fn responses_per_connection(load: &Load, claim: Option<&str>) -> f64 {
    let opened = load.connections.opened;
    let many = claim.is_some_and(|claim| claim.trim().starts_with('>'));
    match many && opened <= load.asked.connections as u64 && load.connections.responses > 0 {
        true => f64::INFINITY,
        false => load.connections.responses as f64 / opened.max(1) as f64,
    }
}

fn number(name: &str, claim: &str, value: Option<(f64, String)>) -> Check {
    let comparison = Comparison::parse(claim).ok();
    Check {
        claim: format!("{name} {claim}"),
        holds: comparison
            .zip(value.as_ref())
            .map(|(comparison, (value, _))| comparison.holds(*value)),
        seen: match value {
            None => "nothing counts this here".into(),
            Some((value, detail)) if value.is_infinite() => {
                format!("all of them reused ({detail})")
            }
            Some((value, detail)) => format!("{} ({detail})", sluice_audit::finding::number(value)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{builtin::builtin, file};
    use super::*;

    #[test]
    fn a_hidden_cache_is_seen_by_the_backend_s_counts() {
        let file = file::parse("000", builtin("000").unwrap()).unwrap();
        let mut load = Load::default();
        load.connections.responses = 1_000;
        let resources = Resources::default();
        let holds = |requests: Option<u64>| {
            let counts = requests.map(|requests| BackendCounts {
                accepted: 1,
                requests,
            });
            let seen = Seen {
                load: &load,
                counts: counts.as_ref(),
                accepted: None,
                resources: &resources,
                observed: &Observed::default(),
            };
            checks(&file.test["proxy"], std::iter::empty(), seen)[0].holds
        };
        assert_eq!(
            (holds(Some(1_000)), holds(Some(5)), holds(None)),
            (Some(true), Some(false), None)
        );
    }

    #[test]
    fn kept_upstream_connections_are_counted_by_the_backend_or_by_the_kernel() {
        let mut load = Load::default();
        (load.connections.responses, load.connections.opened) = (1_000, 20);
        load.connections.alpn = Some("h2".into());
        let part = CheckPart {
            upstream_reuse: Some(">= 0.9".into()),
            alpn: Some("h2".into()),
            responses_per_connection: Some("== 50".into()),
            ..CheckPart::default()
        };
        let test: Test = toml::from_str("path = '/'\nexpect = { status = 200 }").unwrap();
        let resources = Resources::default();
        let found = |counts: Option<BackendCounts>, accepted| -> Vec<Option<bool>> {
            let seen = Seen {
                load: &load,
                counts: counts.as_ref(),
                accepted,
                resources: &resources,
                observed: &Observed::default(),
            };
            let found = checks(&test, [&part].into_iter(), seen);
            found.iter().map(|check| check.holds).collect()
        };
        let counts = |accepted| {
            Some(BackendCounts {
                accepted,
                requests: 1_000,
            })
        };
        let rest = [Some(true), Some(true)];
        let with = |reuse| [&[reuse], &rest[..]].concat();
        assert_eq!(found(counts(30), None), with(Some(true)));
        assert_eq!(found(counts(900), None), with(Some(false)));
        // 20 of them are those of the clients.
        let all = |count| Some(Accepted::WithClients(count));
        assert_eq!(found(None, all(70)), with(Some(true)));
        assert_eq!(found(None, all(900)), with(Some(false)));
        assert_eq!(found(None, None), with(None));
        // On a machine of their own upstreams accept none of clients: 110 would be 90 there.
        assert_eq!(found(None, all(110)), with(Some(true)));
        let upstreams = |count| found(None, Some(Accepted::Upstreams(count)));
        assert_eq!(upstreams(110), with(Some(false)));
        assert_eq!(upstreams(90), with(Some(true)));
        // A slow server is not one that closes connections.
        let mut slow = load.clone();
        (slow.connections.responses, slow.connections.opened) = (1_770, 1_000);
        slow.asked.connections = 1_000;
        assert!(responses_per_connection(&slow, Some(">= 2")).is_infinite());
        assert!(responses_per_connection(&slow, Some("<= 1")) > 1.7);
        slow.connections.opened = 1_770;
        assert!(responses_per_connection(&slow, Some(">= 2")) < 1.1);
        // If no connections should be reused, those of the first requests count as well.
        load.asked.connections = 200;
        let reuse = |accepted, claim| {
            let counts = BackendCounts {
                accepted,
                requests: 450,
            };
            let seen = Seen {
                load: &load,
                counts: Some(&counts),
                accepted: None,
                resources: &resources,
                observed: &Observed::default(),
            };
            seen.upstream_reuse(claim).unwrap().0
        };
        assert!(reuse(449, "<= 0.1") < 0.01 && reuse(449, ">= 0.9") > 0.4);
        assert!(reuse(200, ">= 0.9") > 0.99);
    }

    #[test]
    fn comparisons_are_read() {
        let holds = |text: &str, value| Comparison::parse(text).unwrap().holds(value);
        assert!(holds(">= 0.9", 0.9) && !holds("> 0.9", 0.9) && holds("<=2", 1.0));
        assert!(holds("== 1", 1.0) && !holds("== 1", 1.1) && holds("< 3", 2.9));
        assert!(Comparison::parse("about 3").is_err() && Comparison::parse(">= much").is_err());
    }
}
