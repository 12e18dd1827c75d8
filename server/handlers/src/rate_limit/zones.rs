//! The zones of rate limits, shared by all workers. `sluice-policy` decides; locks and counts are here.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use sluice_net::clock;
use sluice_observe::metrics::{CountedZone, Hub, ZoneTotals};
use sluice_policy::limit::{Ask, Decision, Grant, Mark, Outcome, Rate, Sharing, Zone};

use crate::limits::{RATE_SHARDS, RATE_ZONE_BYTES_MAX};

/// The zones in use, by name and rate. They outlive configurations, so a reload does not reset them. Handlers with the
/// same name and rate share a zone.
#[derive(Debug, Default)]
pub struct Zones(pub(super) Mutex<HashMap<ZoneName, Weak<SharedZone>>>);

/// The identity of a zone: its name, its rate, and where it is counted if several nodes share it.
type ZoneName = (Box<str>, Rate, String);

impl Zones {
    /// The zone with this name and rate, counted at `place` together with other nodes, or here if that is empty. `hub`
    /// shows it while it is in use.
    pub fn zone(&self, (name, rate): (&str, Rate), place: String, hub: &Hub) -> Arc<SharedZone> {
        let mut known = self.0.lock().expect(NEVER_POISONED);
        known.retain(|_, zone| zone.strong_count() > 0);
        let found = known.entry((name.into(), rate, place)).or_default();
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
            .filter_map(|((name, rate, _), zone)| {
                Some(((&**name, rate.identity()), zone.upgrade()?))
            })
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

pub(super) const NEVER_POISONED: &str = "nothing panics while it holds a zone";

/// A zone shared by all workers. Keys are distributed over shards by a hash that clients cannot predict. Each shard has
/// its own lock, so workers rarely contend and each key is counted exactly.
#[derive(Debug)]
pub struct SharedZone {
    /// The name in the configuration.
    pub name: Box<str>,
    /// The rate of requests per key.
    pub rate: Rate,
    pub(super) hasher: RandomState,
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
    undecided: AtomicU64,
}

impl SharedZone {
    /// An empty zone.
    pub fn new(name: &str, rate: Rate) -> SharedZone {
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
        counts.note(&outcome);
        outcome
    }

    /// Decides about a request of a limit that nodes share, without the store if that is possible.
    pub fn decide(&self, sharing: &Sharing, key: &[u8]) -> Decision {
        let Part { zone, counts } = self.part(key);
        let decision = zone
            .lock()
            .expect(NEVER_POISONED)
            .decide(sharing, key, clock::now());
        match decision {
            Decision::Allowed { .. } => {
                counts.asked.fetch_add(1, Ordering::Relaxed);
            }
            Decision::Refused(_) => {
                counts.asked.fetch_add(1, Ordering::Relaxed);
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            // It is counted when it is decided.
            Decision::Ask(_) => {}
        }
        decision
    }

    /// As [`SharedZone::look`], for a limit that nodes share: as far as this node knows.
    pub fn foresee(&self, sharing: &Sharing, key: &[u8]) -> Option<Duration> {
        let Part { zone, counts } = self.part(key);
        let wait = zone
            .lock()
            .expect(NEVER_POISONED)
            .foresee(sharing, key, clock::now());
        if wait.is_some() {
            counts.asked.fetch_add(1, Ordering::Relaxed);
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        wait
    }

    /// Notes the store's reply. If `spends`, a request waits for it.
    pub fn settle(
        &self,
        sharing: &Sharing,
        key: &[u8],
        reply: (&Ask, Grant),
        spends: bool,
    ) -> Outcome {
        let Part { zone, counts } = self.part(key);
        let outcome = zone
            .lock()
            .expect(NEVER_POISONED)
            .settle(sharing, key, reply, spends);
        if spends {
            counts.note(&outcome);
        }
        outcome
    }

    /// Counts a request that was decided elsewhere, in the totals only: `refused` is how long it has to wait.
    pub fn note(&self, refused: Option<Duration>) {
        self.parts[0].counts.note(&Outcome {
            refused,
            ahead: Duration::ZERO,
            forgotten: 0,
        });
    }

    /// Takes back an event that was allowed and is refused elsewhere.
    pub fn give_back(&self, key: &[u8]) {
        let zone = &self.part(key).zone;
        zone.lock().expect(NEVER_POISONED).give_back(key);
    }

    /// Notes that the store does not reply to a question.
    pub fn give_up(&self, key: &[u8], ask: &Ask) {
        let zone = &self.part(key).zone;
        zone.lock().expect(NEVER_POISONED).give_up(key, ask);
    }

    /// Notes that a request is decided without the store.
    pub fn note_undecided(&self) {
        self.parts[0]
            .counts
            .undecided
            .fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    fn note(&self, outcome: &Outcome) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if outcome.refused.is_some() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if outcome.forgotten > 0 {
            let forgotten = u64::from(outcome.forgotten);
            self.forgotten.fetch_add(forgotten, Ordering::Relaxed);
        }
    }
}

impl CountedZone for SharedZone {
    fn totals(&self) -> ZoneTotals {
        let mut totals = ZoneTotals::default();
        for Part { zone, counts } in &self.parts {
            totals.refused += counts.refused.load(Ordering::Relaxed);
            totals.asked += counts.asked.load(Ordering::Relaxed);
            totals.forgotten += counts.forgotten.load(Ordering::Relaxed);
            totals.undecided += counts.undecided.load(Ordering::Relaxed);
            totals.keys += zone.lock().expect(NEVER_POISONED).len() as u64;
        }
        totals
    }
}
