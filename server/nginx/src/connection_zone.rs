//! Counts of concurrent requests per key, for `limit_conn`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_handlers::limits::RATE_SHARDS;

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

impl Zones {
    /// The zone of this name.
    pub fn zone(&self, name: &str) -> Arc<Zone> {
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
    /// An empty zone.
    pub fn new() -> Zone {
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
    pub fn enter(self: &Arc<Self>, key: Box<[u8]>, max: u32) -> Option<Held> {
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
