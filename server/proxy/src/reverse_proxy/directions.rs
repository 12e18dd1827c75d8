//! What operators direct for upstreams while the server runs: that one gets no new requests, none at all for some time,
//! fewer at a time, or another weight. Directions belong to an address; all directives and workers share them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_message::Moment;
use sluice_net::clock;
use sluice_observe::metrics::Direction;

/// The directions for one address.
#[derive(Debug, Default)]
pub struct Directed {
    is_draining: AtomicBool,
    /// As configured when 0.
    requests_max: AtomicU32,
    /// As configured when 0.
    weight: AtomicU32,
    /// Until when it gets no requests, in nanoseconds since the start; 0 or in the past if it is not ejected.
    ejected_until: AtomicU64,
    /// Whether they survive a reload.
    is_kept: AtomicBool,
    /// Whether there has been any direction for any address.
    are_given: Arc<AtomicBool>,
}

impl Directed {
    /// Changes what `direction` has.
    pub fn direct(&self, direction: &Direction) {
        self.are_given.store(true, Relaxed);
        if let Some(is_draining) = direction.is_draining {
            self.is_draining.store(is_draining, Relaxed);
        }
        if let Some(max) = direction.requests_max {
            self.requests_max.store(max, Relaxed);
        }
        if let Some(weight) = direction.weight {
            self.weight.store(weight, Relaxed);
        }
        if let Some(until) = direction.ejected_until {
            self.ejected_until.store(until, Relaxed);
        }
        if let Some(is_kept) = direction.is_kept {
            self.is_kept.store(is_kept, Relaxed);
        }
    }

    /// Whether it gets only requests that are bound to it.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Relaxed)
    }

    /// The maximum number of concurrent requests, if it was directed.
    pub fn requests_max(&self) -> Option<u32> {
        Some(self.requests_max.load(Relaxed)).filter(|max| *max > 0)
    }

    /// The weight, if it was directed.
    pub fn weight(&self) -> Option<u32> {
        Some(self.weight.load(Relaxed)).filter(|weight| *weight > 0)
    }

    /// Whether it gets no requests at all.
    pub fn is_ejected(&self, now: Moment) -> bool {
        self.ejected_until(now).is_some()
    }

    /// When that ends, if it has not ended by `now`.
    fn ejected_until(&self, now: Moment) -> Option<u64> {
        let until = self.ejected_until.load(Relaxed);
        // Hardly ever is one ejected, so that the time is not even converted.
        (until > 0 && u128::from(until) > now.since_start().as_nanos()).then_some(until)
    }

    /// All that was directed and still holds.
    pub fn direction(&self, now: Moment) -> Direction {
        Direction {
            is_draining: Some(self.is_draining()),
            requests_max: self.requests_max(),
            weight: self.weight(),
            ejected_until: self.ejected_until(now),
            is_kept: Some(self.is_kept.load(Relaxed)),
        }
    }

    /// Whether everything is as configured.
    fn is_plain(&self) -> bool {
        self.direction(clock::now()).is_plain()
    }
}

/// The directions by address.
#[derive(Debug, Default)]
pub struct Directions {
    are_given: Arc<AtomicBool>,
    known: Mutex<HashMap<String, Arc<Directed>>>,
}

impl Directions {
    /// Those for a configuration that follows another one: only those that are kept.
    pub fn after(before: &Directions) -> Directions {
        let known = before.known();
        let kept = known
            .iter()
            .filter(|(_, directed)| directed.is_kept.load(Relaxed) && !directed.is_plain());
        let kept = kept.map(|(address, directed)| (address.clone(), directed.clone()));
        Directions {
            are_given: before.are_given.clone(),
            known: Mutex::new(kept.collect()),
        }
    }

    /// Whether there may be any. It costs a load, so requests pay nothing for an ability that is not used.
    pub fn are_given(&self) -> bool {
        self.are_given.load(Relaxed)
    }

    /// Those for an address, now and later.
    pub fn of(&self, address: &str) -> Arc<Directed> {
        let mut known = self.known();
        if let Some(directed) = known.get(address) {
            return directed.clone();
        }
        // Not on every call, as otherwise ten thousand sites would take quadratic time.
        if known.len().is_power_of_two() {
            known.retain(|_, directed| Arc::strong_count(directed) > 1 || !directed.is_plain());
        }
        let directed = Arc::new(Directed {
            are_given: self.are_given.clone(),
            ..Directed::default()
        });
        known.insert(address.to_owned(), directed.clone());
        directed
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Directed>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DRAIN: Direction = Direction {
        is_draining: Some(true),
        requests_max: None,
        weight: Some(3),
        ejected_until: None,
        is_kept: None,
    };

    #[test]
    fn all_upstreams_of_an_address_follow_its_directions() {
        let directions = Directions::default();
        let (one, same, other) = (
            directions.of("a:1"),
            directions.of("a:1"),
            directions.of("b:1"),
        );
        assert!(!directions.are_given());
        one.direct(&DRAIN);
        assert!(directions.are_given() && same.is_draining() && !other.is_draining());
        assert_eq!((same.weight(), other.weight()), (Some(3), None));
        one.direct(&Direction {
            is_draining: Some(false),
            weight: Some(0),
            ..Direction::default()
        });
        assert!(same.is_plain());
    }

    #[test]
    fn an_ejection_ends_by_itself() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let directions = Directions::default();
        let (one, same) = (directions.of("a:1"), directions.of("a:1"));
        let eject = |seconds: u64| Direction {
            ejected_until: Some(seconds * 1_000_000_000),
            ..Direction::default()
        };
        one.direct(&eject(30));
        assert!(directions.are_given());
        for (seconds, is_ejected) in [(0, true), (29, true), (30, false), (31, false)] {
            assert_eq!(same.is_ejected(at(seconds)), is_ejected, "{seconds}");
            let is_plain = same.direction(at(seconds)).is_plain();
            assert_eq!(is_plain, !is_ejected, "{seconds}");
        }
        // A later one begins anew, and 0 ends it at once.
        one.direct(&eject(60));
        assert!(same.is_ejected(at(59)));
        one.direct(&eject(0));
        assert!(!same.is_ejected(at(0)));
    }

    #[test]
    fn only_those_that_are_kept_outlive_the_configuration() {
        let directions = Directions::default();
        directions.of("a:1").direct(&DRAIN);
        directions.of("b:1").direct(&Direction {
            is_kept: Some(true),
            ..DRAIN
        });
        let next = Directions::after(&directions);
        assert!(!next.of("a:1").is_draining());
        assert!(next.of("b:1").is_draining());
        // The old configuration is still in use until its requests have ended.
        assert!(directions.of("a:1").is_draining());
        assert!(next.are_given());
    }

    #[test]
    fn addresses_that_are_gone_take_no_memory() {
        let directions = Directions::default();
        let held = directions.of("held:1");
        directions.of("directed:1").direct(&DRAIN);
        for port in 0..1000 {
            directions.of(&format!("gone:{port}"));
        }
        assert!(directions.known().len() <= 600);
        assert!(directions.known().contains_key("held:1"));
        assert!(directions.known().contains_key("directed:1"));
        drop(held);
    }
}
