//! `rate_limit`: responds to requests above a rate with 429. `sluice-policy` implements the algorithm; the
//! configuration follows the Caddy plugin `mholt/caddy-ratelimit`.

mod shared;
mod zones;

pub use shared::{Question, Shared, Verdict};
pub use zones::{CountedEvents, SharedZone, Zones};

use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;

use sluice_message::{FieldId, Status};
use sluice_model::handler::{RateLimit as Config, RateZone, SharedLimit};
use sluice_net::worker::Worker;
use sluice_policy::limit::{Rate, RateError};
use sluice_route::{MatcherSets, Template};

use crate::address_prefixes::AddressPrefixes;
use crate::limits::RATE_KEY_BYTES_MAX;
use sluice_observe::log::Log;
use sluice_observe::random;
use sluice_pipeline::build::{self, Builder};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
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
    /// Where they are counted, if several nodes share the limit.
    pub shared: Option<Shared>,
    /// How early a request may arrive relative to an even rate without being delayed; `None` disables delays.
    pub at_once: Option<Duration>,
}

/// The placeholder with the name of the exceeded zone.
const EXCEEDED: &str = "http.rate_limit.exceeded.name";

/// A request that waits for the store of a zone.
struct Awaited {
    /// The zone's position.
    at: usize,
    key: Vec<u8>,
    question: Question,
}

impl Handler for RateLimit {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        match self.walk(exchange, 0) {
            Ok(step) => step,
            Err(awaited) => {
                let aside = exchange.context.aside.get_or_insert_default();
                aside.awaited = Some(awaited);
                Step::Later
            }
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        let awaited = exchange.context.aside.as_mut();
        let awaited = awaited.and_then(|aside| aside.awaited.take()?.downcast::<Awaited>().ok());
        Box::pin(async move {
            let worker = Rc::clone(&exchange.worker);
            let mut next = awaited;
            while let Some(awaited) = next {
                let Awaited { at, key, question } = *awaited;
                let limited = &self.zones[at];
                let Some(shared) = &limited.shared else { break };
                if let Err(wait) = shared.ask(&worker, question).await {
                    return self.reject(exchange, limited, &key, wait);
                }
                match self.walk(exchange, at + 1) {
                    Ok(step) => return step,
                    Err(awaited) => next = Some(awaited),
                }
            }
            Step::Next
        })
    }

    fn account(&self, _exchange: &mut Exchange) -> Account {
        let shared = self.zones.iter().filter_map(|limited| {
            let place = limited.shared.as_ref()?.place();
            Some(format!(
                "counts requests of zone `{}` in {place}, together with other servers",
                limited.zone.name
            ))
        });
        let says: Vec<String> = shared.collect();
        Account {
            // An explanation asks no store.
            assumed: (!says.is_empty()).then_some(Assumed::Step(Step::Next)),
            says,
        }
    }
}

impl RateLimit {
    /// Checks the zones from `first` on, up to one whose store decides.
    fn walk(&self, exchange: &mut Exchange, first: usize) -> Result<Step, Box<Awaited>> {
        for (at, limited) in self.zones.iter().enumerate().skip(first) {
            let is_meant = match &limited.when {
                None => Ok(true),
                Some(when) => values::matches(when, exchange),
            };
            match is_meant {
                Ok(true) => {}
                Ok(false) => continue,
                Err(fault) => return Ok(Step::Fail(fault)),
            }
            let key = limited.key_of(exchange);
            match limited.check(&exchange.worker, &key) {
                Verdict::Allowed(_) => {}
                Verdict::Refused(wait) => return Ok(self.reject(exchange, limited, &key, wait)),
                Verdict::Undecided(question) => {
                    return Err(Box::new(Awaited { at, key, question }));
                }
            }
        }
        Ok(Step::Next)
    }

    fn reject(
        &self,
        exchange: &mut Exchange,
        limited: &Limited,
        key: &[u8],
        wait: Duration,
    ) -> Step {
        self.log_exceeded(exchange, limited, key, wait);
        Step::Fail(self.refuse(exchange, limited, wait))
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
    fn build(
        (name, config): (&str, &RateZone),
        usual: Option<&SharedLimit>,
        builder: &Builder<'_>,
    ) -> Result<Limited, Refusal> {
        let of_zone = |refusal: Refusal| Refusal {
            message: format!("zone `{name}`: {}", refusal.message),
            ..refusal
        };
        let rate = rate(config).map_err(of_zone)?;
        let shared = config.shared.as_ref().or(usual);
        let shared = shared.map(|shared| Shared::build(shared, (name, &rate), builder));
        let shared = shared.transpose().map_err(of_zone)?;
        let place = shared.as_ref().map(Shared::identity).unwrap_or_default();
        let sets = config.r#match.iter().map(build::matcher_set);
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let prefixes = AddressPrefixes::build(config.ipv4_prefix, config.ipv6_prefix, (32, 128));
        let prefixes = prefixes.map_err(of_zone)?;
        Ok(Limited {
            when: Some(sets)
                .filter(|sets| !sets.is_empty())
                .map(MatcherSets::new),
            key: builder.template(&config.key)?,
            prefixes,
            at_once: config.delay.map(|count| rate.spacing() * count),
            zone: match builder.recorder {
                Some(recorder) => {
                    let zones = recorder.shared::<Zones>();
                    zones.zone((name, rate), place, recorder.hub())
                }
                None => Arc::new(SharedZone::new(name, rate)),
            },
            shared,
        })
    }

    /// What is known of a request with this key, which is counted if it is allowed.
    pub fn check(&self, worker: &Rc<Worker>, key: &[u8]) -> Verdict {
        match &self.shared {
            Some(shared) => shared.check(worker, &self.zone, key),
            None => {
                let outcome = self.zone.take(key);
                let allowed = Verdict::Allowed(outcome.ahead);
                outcome.refused.map_or(allowed, Verdict::Refused)
            }
        }
    }

    /// How long a request with this key has to wait, if that is known. It is not counted.
    pub fn look(&self, key: &[u8]) -> Option<Duration> {
        match &self.shared {
            Some(shared) => self.zone.foresee(&shared.sharing, key),
            None => self.zone.look(key),
        }
    }

    /// What the zone counts the request by.
    pub fn key_of(&self, exchange: &Exchange) -> Vec<u8> {
        let mut key = values::expanded(&self.key, exchange);
        self.prefixes.shorten(&mut key);
        if key.len() > RATE_KEY_BYTES_MAX {
            // Distinguish long keys by a hash of the whole: a keyed one, which clients cannot predict, or the same on all nodes.
            let hash = match &self.shared {
                None => self.zone.hasher.hash_one(&key).to_be_bytes().to_vec(),
                Some(_) => digest::digest(&digest::SHA256, &key).as_ref().to_vec(),
            };
            key.truncate(RATE_KEY_BYTES_MAX);
            key.extend_from_slice(&hash);
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

/// Builds `rate_limit`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(RateLimit::build(config, builder)?))
}

impl RateLimit {
    /// Reads the settings.
    pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<RateLimit, Refusal> {
        if config.storage.is_some() {
            return Err(Refusal::not_yet(
                "`rate_limit` with `storage`",
                "write `distributed { store redis://HOST }` to count together with other servers",
            ));
        }
        if !(0.0..=JITTER_MAX).contains(&config.jitter) {
            return Err(Refusal::new(format!("a jitter of {}", config.jitter))
                .with_help("give a share of the wait from 0 to 10, such as `0.2` for a fifth"));
        }
        let limited = config.rate_limits.iter();
        let usual = config.distributed.as_ref();
        let limited = limited.map(|(name, zone)| Limited::build((name, zone), usual, builder));
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
