//! Counts of concurrent requests per key, for `limit_conn`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_handlers::limits::RATE_SHARDS;
use sluice_handlers::shared_slots::SlotHeld;
use sluice_observe::sources::{ConcurrencyLimit, ConcurrencyStanding, Sources};

/// Zones in use, by name. They outlive configurations, as the requests that they count do.
#[derive(Debug, Default)]
pub struct Zones {
    zones: Mutex<HashMap<Box<str>, Weak<Zone>>>,
}

/// Requests in flight by key, in shards. There are never more keys than requests.
#[derive(Debug)]
pub struct Zone {
    parts: Box<[Mutex<Counts>]>,
    name: Box<str>,
    /// Requests that were refused, those of a dry run included.
    refused: AtomicU64,
}

/// Requests in flight by key.
type Counts = HashMap<Box<[u8]>, u32>;

/// A counted request; dropping it releases its slot.
#[derive(Debug)]
pub struct Held {
    zone: Arc<Zone>,
    key: Box<[u8]>,
    /// Its slot among those of all nodes, if the zone is shared.
    slot: Option<SlotHeld>,
}

impl Held {
    /// Adds the slot among those of all nodes.
    pub fn with(mut self, slot: SlotHeld) -> Held {
        self.slot = Some(slot);
        self
    }
}

impl Zones {
    /// The zone of this name, which `sources` show while it is in use.
    pub fn zone(&self, name: &str, sources: &Sources) -> Arc<Zone> {
        let mut known = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, zone| zone.strong_count() > 0);
        let found = known.entry(name.into()).or_default();
        found.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Zone::new(name));
            *found = Arc::downgrade(&made);
            let limit: Arc<dyn ConcurrencyLimit> = made.clone();
            sources.add_concurrency_limit(Arc::downgrade(&limit));
            made
        })
    }
}

impl Zone {
    /// An empty zone.
    pub fn new(name: &str) -> Zone {
        Zone {
            parts: (0..RATE_SHARDS).map(|_| Mutex::default()).collect(),
            name: name.into(),
            refused: AtomicU64::new(0),
        }
    }

    fn part(&self, key: &[u8]) -> &Mutex<Counts> {
        // Sharding makes contention between workers rare; keys need no particular distribution.
        let sum = key.iter().fold(0u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
        });
        &self.parts[sum as usize % self.parts.len()]
    }

    /// Counts a request, unless the limit is reached.
    pub fn enter(self: &Arc<Self>, key: Box<[u8]>, max: u32) -> Option<Held> {
        let mut part = self
            .part(&key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match part.get_mut(&key) {
            Some(count) if *count < max => *count += 1,
            None if max == 0 => return self.refuse(),
            Some(_) => return self.refuse(),
            None => {
                part.insert(key.clone(), 1);
            }
        }
        drop(part);
        Some(Held {
            zone: self.clone(),
            key,
            slot: None,
        })
    }
}

impl Zone {
    /// Counts a request that is refused.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&self) -> Option<Held> {
        self.note_refused();
        None
    }
}

impl ConcurrencyLimit for Zone {
    fn standing(&self) -> ConcurrencyStanding {
        let mut standing = ConcurrencyStanding {
            name: self.name.to_string(),
            refused: self.refused.load(Ordering::Relaxed),
            ..ConcurrencyStanding::default()
        };
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            standing.keys += part.len() as u64;
            standing.in_flight += part.values().map(|count| u64::from(*count)).sum::<u64>();
        }
        standing
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
        let zone = Arc::new(Zone::new("z"));
        let enter = |key: &str, max| zone.enter(key.as_bytes().into(), max);
        let (one, two) = (enter("a", 2), enter("a", 2));
        assert!(one.is_some() && two.is_some() && enter("a", 2).is_none());
        assert!(enter("b", 1).is_some(), "and it is dropped at once");
        assert!(enter("a", 3).is_some(), "another place may let more in");
        drop((one, two));
        assert_eq!(zone.standing().refused, 1);
        let left: usize = zone
            .parts
            .iter()
            .map(|part| part.lock().unwrap().len())
            .sum();
        assert_eq!(left, 0);
    }

    #[test]
    fn zones_of_one_name_are_one() {
        let (zones, sources) = (Zones::default(), Sources::default());
        let zone = |name: &str| zones.zone(name, &sources);
        let one = zone("a");
        assert!(Arc::ptr_eq(&one, &zone("a")) && !Arc::ptr_eq(&one, &zone("b")));
        let held = one.enter(b"k".as_slice().into(), 1);
        let shown = sources.concurrency_limits();
        let shown: Vec<_> = shown
            .iter()
            .map(|zone| (&*zone.name, zone.in_flight))
            .collect();
        assert_eq!(shown, [("a", 1)]);
        drop((one, held));
        let _ = zone("c");
        assert_eq!(zones.zones.lock().unwrap().len(), 1);
    }
}
