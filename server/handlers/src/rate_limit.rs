//! `rate_limit`: responds to requests above a rate with 429. `sluice-policy` implements the algorithm; the
//! configuration follows the Caddy plugin `mholt/caddy-ratelimit`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use sluice_message::{FieldId, Status};
use sluice_model::handler::{RateLimit as Config, RateZone};
use sluice_net::clock;
use sluice_policy::limit::{Mark, Outcome, Rate, RateError, Zone};
use sluice_route::{MatcherSets, Template};

use crate::address_prefixes::AddressPrefixes;
use crate::limits::{RATE_KEY_BYTES_MAX, RATE_SHARDS, RATE_ZONE_BYTES_MAX};
use sluice_observe::log::Log;
use sluice_observe::metrics::{CountedZone, Hub, ZoneTotals};
use sluice_observe::random;
use sluice_pipeline::build::{self, Builder};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_pipeline::values;

/// The directive at work.
pub struct RateLimit {
    /// The strictest zone comes first, so that requests it rejects do not count in others.
    pub zones: Box<[Limited]>,
    /// Maximum random addition to `Retry-After`, as a fraction of the wait, so that clients do not all return at the
    /// same time.
    jitter: f64,
    log: Option<Log>,
    log_key: bool,
    /// The status of rejected requests.
    status: Status,
}

/// One zone and the requests it applies to.
pub struct Limited {
    when: Option<MatcherSets>,
    key: Template,
    prefixes: AddressPrefixes,
    /// The zone that counts them.
    pub zone: Arc<SharedZone>,
    /// How early a request may arrive relative to an even rate without being delayed; `None` disables delays.
    pub at_once: Option<Duration>,
}

/// The placeholder with the name of the exceeded zone.
const EXCEEDED: &str = "http.rate_limit.exceeded.name";

impl Handler for RateLimit {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        for limited in &self.zones {
            let is_meant = match &limited.when {
                None => Ok(true),
                Some(when) => values::matches(when, exchange),
            };
            match is_meant {
                Ok(true) => {}
                Ok(false) => continue,
                Err(fault) => return Step::Fail(fault),
            }
            let key = limited.key_of(exchange);
            if let Some(wait) = limited.zone.take(&key).refused {
                self.log_exceeded(exchange, limited, &key, wait);
                return Step::Fail(self.refuse(exchange, limited, wait));
            }
        }
        Step::Next
    }
}

impl RateLimit {
    fn log_exceeded(&self, exchange: &Exchange, limited: &Limited, key: &[u8], wait: Duration) {
        let zone = &limited.zone;
        if let Some(log) = &self.log {
            let entry = log
                .debug("http.handlers.rate_limit", "rate limit exceeded")
                .text("zone", &*zone.name)
                .duration("wait", wait);
            let entry = match values::client_ip(exchange) {
                Some(ip) => entry.shown("remote_ip", ip),
                None => entry,
            };
            match self.log_key {
                true => entry.text("key", key).send(),
                false => entry.send(),
            }
        }
    }

    /// Refuses a request.
    pub fn refuse(&self, exchange: &mut Exchange, limited: &Limited, wait: Duration) -> Fault {
        let zone = &limited.zone;
        let spread =
            wait.mul_f64(self.jitter * (random::word() >> 11) as f64 / (1u64 << 53) as f64);
        // Round up: a client that returns slightly too early would be rejected again.
        let seconds = (wait + spread).as_millis().div_ceil(1000);
        let text = seconds.to_string();
        exchange
            .res
            .fields
            .set(FieldId::RetryAfter, text.as_bytes());
        let slot = exchange.context.mapped.slot(&Arc::from(EXCEEDED));
        slot.extend_from_slice(zone.name.as_bytes());
        let message = format!("the rate limit `{}` is exceeded", zone.name);
        Fault::new(self.status, message)
    }
}

impl Limited {
    fn build(name: &str, config: &RateZone, builder: &Builder<'_>) -> Result<Limited, Refusal> {
        let rate = rate(config).map_err(|refusal| Refusal {
            message: format!("zone `{name}`: {}", refusal.message),
            ..refusal
        })?;
        let sets = config.r#match.iter().map(build::matcher_set);
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let prefixes = AddressPrefixes::build(config.ipv4_prefix, config.ipv6_prefix, (32, 128));
        let prefixes = prefixes.map_err(|refusal| Refusal {
            message: format!("zone `{name}`: {}", refusal.message),
            ..refusal
        })?;
        Ok(Limited {
            when: Some(sets)
                .filter(|sets| !sets.is_empty())
                .map(MatcherSets::new),
            key: builder.template(&config.key)?,
            prefixes,
            at_once: config.delay.map(|count| rate.spacing() * count),
            zone: match builder.recorder {
                Some(recorder) => recorder.shared::<Zones>().zone(name, rate, recorder.hub()),
                None => Arc::new(SharedZone::new(name, rate)),
            },
        })
    }

    /// What the zone counts the request by.
    pub fn key_of(&self, exchange: &Exchange) -> Vec<u8> {
        let mut key = values::expanded(&self.key, exchange);
        self.prefixes.shorten(&mut key);
        if key.len() > RATE_KEY_BYTES_MAX {
            // Distinguish long keys by a keyed hash of the whole, which clients cannot predict.
            let hash = self.zone.hasher.hash_one(&key);
            key.truncate(RATE_KEY_BYTES_MAX);
            key.extend_from_slice(&hash.to_be_bytes());
        }
        key
    }
}

fn rate(config: &RateZone) -> Result<Rate, Refusal> {
    let events = u32::try_from(config.max_events).map_err(|_| {
        Refusal::new(format!("{} events", config.max_events))
            .with_help("give a number of 1 or more")
    })?;
    let window = given(config.window).unwrap_or_default();
    let made = match config.burst {
        0 => Rate::sliding(events, window),
        burst => match u32::try_from(burst) {
            Ok(burst) => Rate::bucket(events, window, burst),
            Err(_) => Err(RateError::NoBurst),
        },
    };
    made.map_err(|error| match error {
        RateError::NoEvents => Refusal::new("it needs a number of events")
            .with_help("write `events` with a number of 1 or more; `respond 429` refuses all"),
        RateError::Window => Refusal::new("it needs a window of time")
            .with_help("write `window` with a length, such as `1m`; a century is the longest"),
        RateError::NoBurst => Refusal::new(format!("a burst of {}", config.burst))
            .with_help("give a number of 1 or more"),
    })
}

/// The zones in use, by name and rate. They outlive configurations, so a reload does not reset them. Handlers with the
/// same name and rate share a zone.
#[derive(Debug, Default)]
pub struct Zones(Mutex<HashMap<ZoneName, Weak<SharedZone>>>);

/// The identity of a zone.
type ZoneName = (Box<str>, Rate);

impl Zones {
    fn zone(&self, name: &str, rate: Rate, hub: &Hub) -> Arc<SharedZone> {
        let mut known = self.0.lock().expect(NEVER_POISONED);
        known.retain(|_, zone| zone.strong_count() > 0);
        let found = known.entry((name.into(), rate)).or_default();
        found.upgrade().unwrap_or_else(|| {
            let made = Arc::new(SharedZone::new(name, rate));
            *found = Arc::downgrade(&made);
            let shown: Weak<dyn CountedZone> = found.clone();
            hub.add_rate_zone(name, shown);
            made
        })
    }
}

impl Zones {
    /// What the zones have counted, for a process that replaces this one and continues its time line.
    pub fn counted(&self) -> Vec<CountedEvents> {
        let known = self.0.lock().expect(NEVER_POISONED);
        let zones: Vec<Arc<SharedZone>> = known.values().filter_map(Weak::upgrade).collect();
        drop(known);
        let counted = zones.iter().flat_map(|zone| {
            let keys = zone.parts.iter().flat_map(|part| {
                let zone = part.zone.lock().expect(NEVER_POISONED);
                zone.marks(clock::now())
            });
            keys.map(|(key, marks)| CountedEvents {
                zone: zone.name.to_string(),
                rate: zone.rate.identity(),
                key: key.to_vec(),
                marks: marks.iter().map(|mark| (mark.at, mark.events)).collect(),
            })
        });
        counted.collect()
    }

    /// Adds what the replaced process has counted to the zones with the same name and rate.
    pub fn add(&self, counted: &[CountedEvents]) {
        let known = self.0.lock().expect(NEVER_POISONED);
        let zones: HashMap<(&str, [u64; 4]), Arc<SharedZone>> = known
            .iter()
            .filter_map(|((name, rate), zone)| Some(((&**name, rate.identity()), zone.upgrade()?)))
            .collect();
        for events in counted {
            let Some(zone) = zones.get(&(events.zone.as_str(), events.rate)) else {
                continue;
            };
            let marks = events.marks.iter();
            let marks: Vec<Mark> = marks.map(|&(at, events)| Mark { at, events }).collect();
            let part = zone.part(&events.key);
            let mut zone = part.zone.lock().expect(NEVER_POISONED);
            zone.merge(&events.key, &marks, clock::now());
        }
    }
}

/// What a zone has counted for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEvents {
    /// The name of the zone.
    pub zone: String,
    /// What identifies its rate.
    pub rate: [u64; 4],
    /// The key.
    pub key: Vec<u8>,
    /// The parts of what was counted, see [`Mark`].
    pub marks: Vec<(u64, u32)>,
}

const NEVER_POISONED: &str = "nothing panics while it holds a zone";

/// A zone shared by all workers. Keys are distributed over shards by a hash that clients cannot predict. Each shard has
/// its own lock, so workers rarely contend and each key is counted exactly.
#[derive(Debug)]
pub struct SharedZone {
    /// The name in the configuration.
    pub name: Box<str>,
    /// The rate of requests per key.
    pub rate: Rate,
    hasher: RandomState,
    parts: Box<[Part]>,
}

#[derive(Debug)]
struct Part {
    zone: Mutex<Zone>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    refused: AtomicU64,
    forgotten: AtomicU64,
}

impl SharedZone {
    fn new(name: &str, rate: Rate) -> SharedZone {
        let part = |_| Part {
            zone: Mutex::new(Zone::new(rate, RATE_ZONE_BYTES_MAX / RATE_SHARDS)),
            counts: Counts::default(),
        };
        SharedZone {
            name: name.into(),
            rate,
            hasher: RandomState::new(),
            parts: (0..RATE_SHARDS).map(part).collect(),
        }
    }

    fn part(&self, key: &[u8]) -> &Part {
        &self.parts[self.hasher.hash_one(key) as usize % self.parts.len()]
    }

    /// The time to wait if a request is over the limit. The request is not counted, except in the totals if it is
    /// rejected.
    pub fn look(&self, key: &[u8]) -> Option<Duration> {
        let Part { zone, counts } = self.part(key);
        let wait = zone.lock().expect(NEVER_POISONED).look(key, clock::now());
        if wait.is_some() {
            counts.asked.fetch_add(1, Ordering::Relaxed);
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        wait
    }

    /// Counts a request and reports how long to wait if it is over the limit.
    pub fn take(&self, key: &[u8]) -> Outcome {
        let Part { zone, counts } = self.part(key);
        let mut zone: MutexGuard<'_, Zone> = zone.lock().expect(NEVER_POISONED);
        // Read the clock under the lock, so that times are monotonic within a zone.
        let outcome = zone.take(key, clock::now());
        drop(zone);
        counts.asked.fetch_add(1, Ordering::Relaxed);
        if outcome.refused.is_some() {
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        if outcome.forgotten > 0 {
            let forgotten = u64::from(outcome.forgotten);
            counts.forgotten.fetch_add(forgotten, Ordering::Relaxed);
        }
        outcome
    }
}

impl CountedZone for SharedZone {
    fn totals(&self) -> ZoneTotals {
        let mut totals = ZoneTotals::default();
        for Part { zone, counts } in &self.parts {
            totals.refused += counts.refused.load(Ordering::Relaxed);
            totals.asked += counts.asked.load(Ordering::Relaxed);
            totals.forgotten += counts.forgotten.load(Ordering::Relaxed);
            totals.keys += zone.lock().expect(NEVER_POISONED).len() as u64;
        }
        totals
    }
}

/// Builds `rate_limit`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(RateLimit::build(config, builder)?))
}

impl RateLimit {
    /// Reads the settings.
    pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<RateLimit, Refusal> {
        let unbuilt = [
            (config.distributed.is_some(), "`distributed`"),
            (config.storage.is_some(), "`storage`"),
        ];
        if let Some((_, what)) = unbuilt.iter().find(|(is_set, _)| *is_set) {
            return Err(Refusal::not_yet(
                &format!("`rate_limit` with {what}"),
                "remove it; each server then counts for itself",
            ));
        }
        if !(0.0..=JITTER_MAX).contains(&config.jitter) {
            return Err(Refusal::new(format!("a jitter of {}", config.jitter))
                .with_help("give a share of the wait from 0 to 10, such as `0.2` for a fifth"));
        }
        let limited = config.rate_limits.iter();
        let limited = limited.map(|(name, zone)| Limited::build(name, zone, builder));
        let mut limited = limited.collect::<Result<Vec<_>, _>>()?;
        let tightness = |name: &str| {
            let rate = config.rate_limits.get(name).map(rate);
            rate.and_then(Result::ok)
                .map_or(0.0, |rate| rate.per_second())
        };
        limited.sort_by(|a, b| {
            let (a, b) = (tightness(&a.zone.name), tightness(&b.zone.name));
            a.total_cmp(&b)
        });
        Ok(RateLimit {
            zones: limited.into(),
            jitter: config.jitter,
            log: builder.log.cloned(),
            log_key: config.log_key,
            status: match config.status {
                0 => Status::TOO_MANY_REQUESTS,
                code => Status::new(code).ok_or_else(|| Refusal::new(format!("status {code}")))?,
            },
        })
    }
}

/// Ten times the wait: for a longer spread, use a longer window.
const JITTER_MAX: f64 = 10.0;

#[cfg(test)]
mod tests;
