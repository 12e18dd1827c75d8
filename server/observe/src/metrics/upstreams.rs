//! The state of upstreams, for the metrics page and the admin API. `reverse_proxy` determines it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluice_message::Moment;
use sluice_net::clock;

use super::sample::Kind;
use super::text::Page;
use super::{Hub, lock};

/// The state of an upstream by each criterion; `None` for one that its directive does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests in flight, if they are counted.
    pub requests: Option<usize>,
    /// Recent failures, capped at the number that makes it unhealthy.
    pub failures: u32,
    /// Whether active health checks succeed.
    pub by_checks: Option<bool>,
    /// Whether passive health checks consider it healthy.
    pub by_failures: Option<bool>,
    /// Whether its circuit breaker is closed.
    pub by_circuit: Option<bool>,
    /// How often its circuit breaker has opened.
    pub trips: u64,
    /// What was directed for it at run time; without a direction all as configured.
    pub directed: Direction,
}

/// What an operator directs for an upstream at run time. `None` leaves a setting as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// Whether it gets only requests that are bound to it.
    pub is_draining: Option<bool>,
    /// The maximum number of concurrent requests; as configured when 0.
    pub requests_max: Option<u32>,
    /// Its weight; as configured when 0.
    pub weight: Option<u32>,
    /// Until when it gets no requests, in nanoseconds since the start; it is not ejected when 0.
    #[serde(default)]
    pub ejected_until: Option<u64>,
    /// Whether the directions for it survive a reload.
    pub is_kept: Option<bool>,
}

impl Direction {
    /// Whether everything is as configured.
    pub fn is_plain(&self) -> bool {
        let Direction {
            is_draining,
            requests_max,
            weight,
            ejected_until,
            is_kept: _,
        } = *self;
        is_draining != Some(true)
            && requests_max.is_none()
            && weight.is_none()
            && ejected_until.is_none()
    }

    /// For how many more seconds it gets no requests; `None` if it is not ejected.
    pub fn ejected_for(&self, now: Moment) -> Option<f64> {
        let now = u64::try_from(now.since_start().as_nanos()).ok()?;
        let left = self.ejected_until?.checked_sub(now)?;
        (left > 0).then(|| left as f64 / 1e9)
    }
}

/// What is known of an upstream beyond its configuration, for a process that replaces this one and continues its time line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamMemory {
    /// What operators have directed for its address.
    pub direction: Direction,
    /// The failures that passive health checks count, in nanoseconds since the start.
    pub failures: Vec<u64>,
    /// The failures of a server of an nginx group: their number, the latest, and when it was last tried.
    pub failing: Option<[u64; 3]>,
}

impl UpstreamMemory {
    /// Whether it differs from an upstream of which nothing is known.
    fn is_empty(&self) -> bool {
        self.direction.is_plain() && self.failures.is_empty() && self.failing.is_none()
    }
}

impl Standing {
    /// The result of each criterion, with its name.
    fn judgements(&self) -> [(&'static str, Option<bool>); 3] {
        [
            ("checks", self.by_checks),
            ("failures", self.by_failures),
            ("circuit", self.by_circuit),
        ]
    }

    /// Whether no criterion considers it unhealthy.
    pub fn is_healthy(&self) -> bool {
        self.judgements()
            .iter()
            .all(|(_, well)| *well != Some(false))
    }

    /// Merges the states of two directives' upstreams with the same address. It is unhealthy if either of them is.
    fn join(&mut self, other: &Standing) {
        let both = |one: Option<bool>, other: Option<bool>| match (one, other) {
            (Some(one), Some(other)) => Some(one && other),
            (one, other) => one.or(other),
        };
        self.by_checks = both(self.by_checks, other.by_checks);
        self.by_failures = both(self.by_failures, other.by_failures);
        self.by_circuit = both(self.by_circuit, other.by_circuit);
        self.requests = match (self.requests, other.requests) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.failures += other.failures;
        // All upstreams of an address have the same directions, except those of a configuration that ends.
        self.directed = other.directed;
        self.trips += other.trips;
    }
}

/// The upstreams in use, by address.
fn found(hub: &Hub) -> BTreeMap<String, Standing> {
    let mut found: BTreeMap<String, Standing> = BTreeMap::new();
    for (address, health) in lock(&hub.upstreams).iter() {
        let Some(standing) = health.upgrade().map(|health| health.standing()) else {
            continue;
        };
        match found.get_mut(address) {
            Some(known) => known.join(&standing),
            None => _ = found.insert(address.clone(), standing),
        }
    }
    found
}

/// The upstreams in use, with the reason why a health check failed.
pub(super) fn with_reasons(hub: &Hub) -> Vec<(String, Standing, Option<String>)> {
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for (address, health) in lock(&hub.upstreams).iter() {
        if let Some(reason) = health.upgrade().and_then(|health| health.check_failure()) {
            reasons.entry(address.clone()).or_insert(reason);
        }
    }
    let shown = found(hub).into_iter();
    shown
        .map(|(address, standing)| {
            let reason = reasons.remove(&address);
            (address, standing, reason)
        })
        .collect()
}

/// The upstreams as shown by the admin API: `address`, `num_requests` and `fails` as in Caddy (without `num_requests`
/// if requests are not counted), and additional members.
pub fn upstreams(hub: &Hub) -> Value {
    let now = clock::now();
    let shown = |(address, standing): (String, Standing)| {
        let mut value = json!({
            "address": address,
            "fails": standing.failures,
            "healthy": standing.is_healthy(),
            "state": match standing.directed.is_draining {
                Some(true) => "draining",
                Some(false) | None => "ready",
            },
        });
        let directed = [
            ("max_requests", standing.directed.requests_max),
            ("weight", standing.directed.weight),
        ];
        for (name, directed) in directed {
            if let Some(directed) = directed.filter(|directed| *directed > 0) {
                value[name] = json!(directed);
            }
        }
        if let Some(seconds) = standing.directed.ejected_for(now) {
            value["ejected_for"] = json!(seconds);
        }
        if let Some(requests) = standing.requests {
            value["num_requests"] = json!(requests);
        }
        for (name, well) in standing.judgements() {
            if let Some(well) = well {
                value["healthy_by"][name] = json!(well);
            }
        }
        if standing.by_circuit.is_some() {
            value["circuit_trips"] = json!(standing.trips);
        }
        value
    };
    found(hub).into_iter().map(shown).collect()
}

/// Directs all upstreams with an address; `false` if there are none.
pub fn direct(hub: &Hub, address: &str, direction: &Direction) -> bool {
    let known = lock(&hub.upstreams);
    let found = known.iter().filter(|(known, _)| known == address);
    let found = found.filter_map(|(_, health)| health.upgrade());
    found.inspect(|health| health.direct(direction)).count() > 0
}

/// What is known of the upstreams: by address, from the latest of its upstreams to the earliest.
pub fn memories(hub: &Hub) -> BTreeMap<String, Vec<UpstreamMemory>> {
    let mut found: BTreeMap<String, Vec<UpstreamMemory>> = BTreeMap::new();
    for (address, health) in lock(&hub.upstreams).iter().rev() {
        if let Some(health) = health.upgrade() {
            found
                .entry(address.clone())
                .or_default()
                .push(health.memory());
        }
    }
    found.retain(|_, memories| !memories.iter().all(UpstreamMemory::is_empty));
    found
}

/// Continues with what the replaced process knew. Several upstreams may have the same address, each with its own failures:
/// both processes list those of one configuration in the same order, in the old one after those of earlier ones.
pub fn recall(hub: &Hub, memories: &BTreeMap<String, Vec<UpstreamMemory>>) {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (address, health) in lock(&hub.upstreams).iter().rev() {
        let (Some(memories), Some(health)) = (memories.get(address), health.upgrade()) else {
            continue;
        };
        let place = places.entry(address).or_default();
        if let Some(memory) = memories.get(*place) {
            health.recall(memory);
            // All of an address have the same.
            if !memory.direction.is_plain() && *place == 0 {
                health.direct(&memory.direction);
            }
        }
        *place += 1;
    }
}

/// Writes the metrics.
pub(super) fn write(hub: &Hub, page: &mut Page) {
    let found = found(hub);
    if found.is_empty() {
        return;
    }
    page.family(
        "caddy_reverse_proxy_upstreams_healthy",
        "Whether an upstream is healthy.",
        Kind::Gauge,
    );
    for (address, standing) in &found {
        let labels = [("upstream", address.as_str())];
        page.sample("", &labels, u8::from(standing.is_healthy()));
    }
    write_some(
        &found,
        page,
        (
            "sluice_upstream_circuit_trips_total",
            "Times that the circuit breaker of an upstream has opened.",
            Kind::Counter,
        ),
        |standing| standing.by_circuit.map(|_| standing.trips),
    );
    write_some(
        &found,
        page,
        (
            "sluice_upstream_failures",
            "Failures of an upstream that are remembered.",
            Kind::Gauge,
        ),
        |standing| standing.by_failures.map(|_| u64::from(standing.failures)),
    );
    write_some(
        &found,
        page,
        (
            "sluice_upstream_requests_in_flight",
            "Requests that an upstream is working on.",
            Kind::Gauge,
        ),
        |standing| standing.requests.map(|requests| requests as u64),
    );
    let now = clock::now();
    write_some(
        &found,
        page,
        (
            "sluice_upstream_ejected_seconds",
            "Seconds until an upstream that an operator ejected gets requests again.",
            Kind::Gauge,
        ),
        |standing| {
            let left = standing.directed.ejected_for(now)?;
            Some(left.ceil() as u64)
        },
    );
    write_judgements(&found, page);
}

/// Writes a family for those upstreams that have a value.
fn write_some(
    found: &BTreeMap<String, Standing>,
    page: &mut Page,
    (name, help, kind): (&'static str, &str, Kind),
    value: impl Fn(&Standing) -> Option<u64>,
) {
    let mut begun = false;
    for (address, standing) in found {
        let Some(value) = value(standing) else {
            continue;
        };
        if !std::mem::replace(&mut begun, true) {
            page.family(name, help, kind);
        }
        page.sample("", &[("upstream", address.as_str())], value);
    }
}

fn write_judgements(found: &BTreeMap<String, Standing>, page: &mut Page) {
    let mut begun = false;
    for (address, standing) in found {
        for (by, well) in standing.judgements() {
            let Some(well) = well else {
                continue;
            };
            if !std::mem::replace(&mut begun, true) {
                page.family(
                    "sluice_upstream_healthy",
                    "Whether an upstream is healthy, by one kind of judgement.",
                    Kind::Gauge,
                );
            }
            let labels = [("by", by), ("upstream", address.as_str())];
            page.sample("", &labels, u8::from(well));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use super::super::Health;
    use super::super::text::Format;
    use super::*;

    impl Health for Standing {
        fn standing(&self) -> Standing {
            *self
        }

        fn direct(&self, _direction: &Direction) {}
    }

    fn add(hub: &Hub, address: &str, standing: Standing) -> Arc<dyn Health> {
        let health: Arc<dyn Health> = Arc::new(standing);
        let weak: Weak<dyn Health> = Arc::downgrade(&health);
        hub.add_upstream(address, weak);
        health
    }

    #[test]
    fn what_nobody_asks_for_is_not_shown() {
        let hub = Hub::default();
        let _plain = add(&hub, "a:1", Standing::default());
        let shown = upstreams(&hub);
        assert_eq!(
            shown,
            json!([{ "address": "a:1", "fails": 0, "healthy": true, "state": "ready" }])
        );
    }

    #[test]
    fn an_ejection_is_shown_until_it_ends() {
        let until = |moment: Moment| Direction {
            ejected_until: u64::try_from(moment.since_start().as_nanos()).ok(),
            ..Direction::default()
        };
        let end = Moment::START + Duration::from_secs(30);
        let ejected = until(end);
        assert_eq!(ejected.ejected_for(Moment::START), Some(30.0));
        let shortly_before = Moment::START + Duration::from_millis(29_500);
        assert_eq!(ejected.ejected_for(shortly_before), Some(0.5));
        assert_eq!(ejected.ejected_for(end), None);
        assert!(!ejected.is_plain());
        let hub = Hub::default();
        let later = clock::now() + Duration::from_secs(3600);
        let standing = |directed| Standing {
            directed,
            ..Standing::default()
        };
        let _one = add(&hub, "a:1", standing(until(later)));
        let _other = add(&hub, "b:1", standing(until(Moment::START)));
        let shown = upstreams(&hub);
        assert!(shown[0]["ejected_for"].as_f64() > Some(0.0), "{shown}");
        assert_eq!(shown[1]["ejected_for"], Value::Null);
        let mut page = Page::new(Format::Prometheus);
        write(&hub, &mut page);
        let page = page.finish();
        let name = "sluice_upstream_ejected_seconds";
        assert!(
            page.contains(&format!("{name}{{upstream=\"a:1\"}} 3600\n")),
            "{page}"
        );
        assert!(
            !page.contains(&format!("{name}{{upstream=\"b:1\"}}")),
            "{page}"
        );
    }

    #[test]
    fn upstreams_of_one_address_are_shown_together_while_they_are_in_use() {
        let hub = Hub::default();
        let _one = add(
            &hub,
            "a:1",
            Standing {
                requests: Some(2),
                failures: 1,
                by_checks: Some(true),
                ..Standing::default()
            },
        );
        let other = add(
            &hub,
            "a:1",
            Standing {
                requests: Some(3),
                by_circuit: Some(false),
                trips: 4,
                ..Standing::default()
            },
        );
        let both = json!([{
            "address": "a:1", "num_requests": 5, "fails": 1, "healthy": false, "state": "ready",
            "healthy_by": { "checks": true, "circuit": false }, "circuit_trips": 4,
        }]);
        assert_eq!(upstreams(&hub), both);
        drop(other);
        let one = json!([{
            "address": "a:1", "num_requests": 2, "fails": 1, "healthy": true, "state": "ready",
            "healthy_by": { "checks": true },
        }]);
        assert_eq!(upstreams(&hub), one);
    }
}
