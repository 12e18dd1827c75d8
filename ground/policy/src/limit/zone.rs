//! Rate-limit meters by key, in bounded memory. Locking is up to the caller.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use sluice_message::Moment;

use super::share::Share;
use super::{Mark, Meter, Rate};
use crate::limits::IDLE_DROPPED_AT_ONCE;

/// Meters by key. When they take more memory than they may, the key that was asked for longest ago is forgotten, as if
/// it had never come: a client that comes again and again is not.
#[derive(Debug)]
pub struct Zone {
    pub(super) rate: Rate,
    bytes_max: usize,
    pub(super) bytes: usize,
    pub(super) places: BTreeMap<Arc<[u8]>, usize>,
    /// A list from the key asked for longest ago to the latest, in one piece of memory.
    pub(super) slots: Vec<Slot>,
    free: Vec<usize>,
    oldest: Option<usize>,
    latest: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Slot {
    key: Arc<[u8]>,
    pub(super) meter: Meter,
    /// What is known of the key if several nodes share the limit.
    pub(super) share: Option<Box<Share>>,
    older: Option<usize>,
    newer: Option<usize>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How long until the next is allowed, if this one was not.
    pub refused: Option<Duration>,
    /// How long after now it would have come at an even pace, if it was allowed.
    pub ahead: Duration,
    /// Keys that were forgotten although their events still counted.
    pub forgotten: u32,
}

/// What a key takes beside its bytes and its events: its slot, its place, and two counts.
const OVERHEAD_BYTES: usize = size_of::<Slot>() + 2 * size_of::<usize>() + 6 * size_of::<usize>();

impl Zone {
    /// A zone whose meters may take `bytes_max`; one key has room in any case.
    pub fn new(rate: Rate, bytes_max: usize) -> Zone {
        Zone {
            rate,
            bytes_max,
            bytes: 0,
            places: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: None,
            latest: None,
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The memory that keys and events take, up to what allocators add.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts an event of `key`, if it is allowed now.
    pub fn take(&mut self, key: &[u8], now: Moment) -> Outcome {
        self.drop_idle(key, now);
        let at = self.ask_for(key);
        let slot = &mut self.slots[at];
        let before = slot.meter.bytes();
        let refused = self.rate.take(&mut slot.meter, now).err();
        self.bytes = self.bytes - before + slot.meter.bytes();
        let ahead = self.rate.ahead(&slot.meter, now);
        let forgotten = self.forget_beyond_limit(at);
        Outcome {
            refused,
            ahead,
            forgotten,
        }
    }

    /// What the keys have seen that still counts, from the key asked for longest ago to the latest: for another process that
    /// continues the time line.
    pub fn marks(&self, now: Moment) -> Vec<(Arc<[u8]>, Vec<Mark>)> {
        let mut found = Vec::new();
        let mut next = self.oldest;
        while let Some(at) = next {
            let slot = &self.slots[at];
            if !self.rate.is_idle(&slot.meter, now) {
                found.push((slot.key.clone(), slot.meter.marks()));
            }
            next = slot.newer;
        }
        found
    }

    /// Counts what another zone of the same rate has seen of `key`.
    pub fn merge(&mut self, key: &[u8], marks: &[Mark], now: Moment) {
        let at = self.ask_for(key);
        let slot = &mut self.slots[at];
        let before = slot.meter.bytes();
        self.rate.merge(&mut slot.meter, marks, now);
        self.bytes = self.bytes - before + slot.meter.bytes();
        self.forget_beyond_limit(at);
    }

    /// The place of `key`, which is the latest now.
    pub(super) fn ask_for(&mut self, key: &[u8]) -> usize {
        let at = match self.places.get(key) {
            Some(at) => *at,
            None => self.add(key),
        };
        self.make_latest(at);
        at
    }

    /// Forgets keys, but not the one at `at`, until the others have room. Returns how many.
    pub(super) fn forget_beyond_limit(&mut self, at: usize) -> u32 {
        let mut forgotten = 0;
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.oldest.filter(|oldest| *oldest != at)
        {
            self.forget(oldest);
            forgotten += 1;
        }
        forgotten
    }

    /// How long until an event of `key` is allowed, if it is not now. Nothing is counted.
    pub fn look(&self, key: &[u8], now: Moment) -> Option<Duration> {
        let slot = &self.slots[*self.places.get(key)?];
        self.rate.look(&slot.meter, now).err()
    }

    /// Drops a few of the oldest keys whose events no longer count, so that nobody has to sweep.
    pub(super) fn drop_idle(&mut self, but: &[u8], now: Moment) {
        for _ in 0..IDLE_DROPPED_AT_ONCE {
            let Some(oldest) = self.oldest else { return };
            let slot = &self.slots[oldest];
            if *slot.key == *but || !self.rate.is_idle(&slot.meter, now) {
                return;
            }
            self.forget(oldest);
        }
    }

    fn add(&mut self, key: &[u8]) -> usize {
        let key: Arc<[u8]> = key.into();
        self.bytes += OVERHEAD_BYTES + key.len();
        let slot = Slot {
            key: key.clone(),
            meter: self.rate.meter(),
            share: None,
            older: None,
            newer: None,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.places.insert(key, at);
        self.link(at);
        at
    }

    /// Notes what is known of a key that nodes share; nothing takes no memory.
    pub(super) fn set_share(&mut self, at: usize, share: Share) {
        match &mut self.slots[at].share {
            Some(known) => **known = share,
            none => {
                *none = Some(Box::new(share));
                self.bytes += size_of::<Share>();
            }
        }
    }

    fn forget(&mut self, at: usize) {
        self.unlink(at);
        if self.slots[at].share.take().is_some() {
            self.bytes -= size_of::<Share>();
        }
        let slot = &mut self.slots[at];
        self.bytes -= OVERHEAD_BYTES + slot.key.len() + slot.meter.bytes();
        self.places.remove(&slot.key);
        slot.meter = self.rate.meter();
        slot.key = Arc::from(&[][..]);
        self.free.push(at);
    }

    fn make_latest(&mut self, at: usize) {
        if self.latest != Some(at) {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: usize) {
        self.slots[at].older = self.latest;
        self.slots[at].newer = None;
        match self.latest.replace(at) {
            Some(before) => self.slots[before].newer = Some(at),
            None => self.oldest = Some(at),
        }
    }

    fn unlink(&mut self, at: usize) {
        let (older, newer) = (self.slots[at].older, self.slots[at].newer);
        match older {
            Some(older) => self.slots[older].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.slots[newer].older = older,
            None => self.latest = older,
        }
    }
}
