//! `limit_conn`: limits concurrent requests per key. All locations that name a zone share its counts, whatever
//! their limits. Requests are counted, as in nginx: an HTTP/1 connection has one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_message::Status;
use sluice_model::nginx::ConnectionLimits as Config;
use sluice_route::Template;

use super::limit_req::{Told, trial};
use super::state::Limited;
use crate::handlers::nginx::state::NginxContext;
use crate::limits::{FLIGHT_KEY_BYTES_MAX, RATE_SHARDS};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values;

/// The handler: the limits of one location.
struct Limits {
    limits: Box<[Limit]>,
    status: Status,
    dry_run: bool,
    told: Told,
}

struct Limit {
    name: Box<str>,
    key: Template,
    max: u32,
    zone: Arc<Zone>,
}

/// Zones in use, by name. They outlive configurations, as the requests that they count do.
#[derive(Debug, Default)]
pub struct Zones(Mutex<HashMap<Box<str>, Weak<Zone>>>);

/// Requests in flight by key, in shards. There are never more keys than requests.
#[derive(Debug)]
pub struct Zone(Box<[Mutex<Counts>]>);

/// Requests in flight by key.
type Counts = HashMap<Box<[u8]>, u32>;

/// A counted request; dropping it releases its slot.
#[derive(Debug)]
pub struct Held {
    zone: Arc<Zone>,
    key: Box<[u8]>,
}

/// Builds the handler.
pub fn build(config: &Config, cx: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let limit = |limit: &sluice_model::nginx::ConnectionLimit| {
        Ok(Limit {
            name: limit.zone.as_str().into(),
            key: cx.template(&limit.key)?,
            max: limit.max,
            zone: match cx.recorder {
                Some(recorder) => recorder.shared::<Zones>().zone(&limit.zone),
                None => Arc::new(Zone::new()),
            },
        })
    };
    let limits = config.limits.iter().map(limit);
    let status = match config.status {
        0 => Status::SERVICE_UNAVAILABLE,
        code => Status::new(code).ok_or_else(|| Refusal::new(format!("status {code}")))?,
    };
    Ok(Box::new(Limits {
        limits: limits.collect::<Result<_, Refusal>>()?,
        status,
        dry_run: config.dry_run,
        told: Told::build(&config.log_level, cx)?,
    }))
}

impl Handler for Limits {
    fn serve(&self, x: &mut Exchange) -> Step {
        if x.context.nginx().limited_connections != Limited::No {
            return Step::Next;
        }
        let mut counted = false;
        for limit in &self.limits {
            let key = values::expanded(&limit.key, x);
            if key.is_empty() || key.len() > FLIGHT_KEY_BYTES_MAX {
                continue;
            }
            counted = true;
            match limit.zone.enter(key.into(), limit.max) {
                Some(held) => {
                    x.context.counted_mut().push(held);
                }
                None => {
                    let trial = trial(self.dry_run);
                    let what = format!("limiting connections{trial} by zone \"{}\"", limit.name);
                    self.told.tell(x, &what, self.dry_run);
                    if self.dry_run {
                        x.context.nginx_mut().limited_connections = Limited::RejectedDryRun;
                        return Step::Next;
                    }
                    x.context.nginx_mut().limited_connections = Limited::Rejected;
                    // Release the slots of the zones counted before.
                    x.context.counted_mut().clear();
                    let why = format!("too many at a time for `{}`", limit.name);
                    return Step::Fail(Fault::new(self.status, why));
                }
            }
        }
        if counted {
            x.context.nginx_mut().limited_connections = Limited::Passed;
        }
        Step::Next
    }
}

impl Zones {
    fn zone(&self, name: &str) -> Arc<Zone> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, zone| zone.strong_count() > 0);
        let found = known.entry(name.into()).or_default();
        found.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Zone::new());
            *found = Arc::downgrade(&made);
            made
        })
    }
}

impl Zone {
    fn new() -> Zone {
        Zone((0..RATE_SHARDS).map(|_| Mutex::default()).collect())
    }

    fn part(&self, key: &[u8]) -> &Mutex<Counts> {
        // Sharding makes contention between workers rare; keys need no particular distribution.
        let sum = key.iter().fold(0u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
        });
        &self.0[sum as usize % self.0.len()]
    }

    /// Counts a request, unless the limit is reached.
    fn enter(self: &Arc<Self>, key: Box<[u8]>, max: u32) -> Option<Held> {
        let mut part = self
            .part(&key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match part.get_mut(&key) {
            Some(count) if *count >= max => return None,
            Some(count) => *count += 1,
            None if max == 0 => return None,
            None => {
                part.insert(key.clone(), 1);
            }
        }
        drop(part);
        Some(Held {
            zone: self.clone(),
            key,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut part = self
            .zone
            .part(&self.key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = part.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                part.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_apart_and_forgotten() {
        let zone = Arc::new(Zone::new());
        let enter = |key: &str, max| zone.enter(key.as_bytes().into(), max);
        let (one, two) = (enter("a", 2), enter("a", 2));
        assert!(one.is_some() && two.is_some() && enter("a", 2).is_none());
        assert!(enter("b", 1).is_some(), "and it is dropped at once");
        assert!(enter("a", 3).is_some(), "another place may let more in");
        drop((one, two));
        let left: usize = zone.0.iter().map(|part| part.lock().unwrap().len()).sum();
        assert_eq!(left, 0);
    }

    #[test]
    fn zones_of_one_name_are_one() {
        let zones = Zones::default();
        let one = zones.zone("a");
        assert!(Arc::ptr_eq(&one, &zones.zone("a")) && !Arc::ptr_eq(&one, &zones.zone("b")));
        drop(one);
        let _ = zones.zone("c");
        assert_eq!(zones.0.lock().unwrap().len(), 1);
    }
}
