//! Slots of a concurrency limit that several nodes share: `in_flight { distributed … }`, and `limit_conn_zone … sync=` of an
//! nginx.conf. A node leases slots from the store, keeps them for a moment after a request has ended, and renews them; those
//! of a node that died come back with the end of their lease.
//!
//! A node that is always busy would never have a slot to spare. So a question says how many slots the node could use, and the
//! reply how many it is to use at most, so that each node that wants some gets its share.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sluice_message::Moment;
use sluice_net::clock;
use sluice_net::tasks::in_background;
use sluice_net::worker::Worker;
use sluice_observe::Recorder;
use sluice_observe::metrics::{SlotPool, SlotPoolTotals};
use sluice_observe::random;
use sluice_upstream::redis::{CallError, Script};
use sluice_wire::resp::Reply;

use crate::limit_store::{OnError, StoreUse};
use crate::limits::{SLOT_LEASE, SLOT_RENEWAL, SLOT_SWEEP, SLOT_WANTED};

static SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("shared_slots.lua")));

/// The slots in use. Configurations that name the same ones share them, as the requests that hold them outlive both.
#[derive(Debug, Default)]
struct Pools(Mutex<HashMap<PoolName, Weak<SharedSlots>>>);

/// The name, the store, and how it is used.
type PoolName = (String, String, Duration, OnError);

/// The slots of one limit.
#[derive(Debug)]
pub struct SharedSlots {
    name: Box<str>,
    store_use: StoreUse,
    /// This process among the nodes.
    node: String,
    /// What the keys of the limit begin with.
    prefix: String,
    keys: Mutex<HashMap<Box<[u8]>, Slots>>,
    /// The number of the last question.
    asked: AtomicU64,
    /// Whether a worker looks after the leases.
    is_swept: AtomicBool,
    /// Requests that `on_error` has decided.
    without_store: AtomicU64,
}

/// What a node holds of one key.
#[derive(Debug)]
struct Slots {
    /// Requests that hold a slot.
    used: u32,
    /// Requests that ask for one.
    asking: u32,
    /// Slots that the store has granted.
    held: u32,
    /// How many of them this node is to use at most.
    target: u32,
    /// The limit.
    max: u32,
    /// The number of the question that granted them.
    granted_by: u64,
    /// Whether the store may have noted that this node wants slots.
    is_noted: bool,
    /// When the last request asked for one.
    asked_at: Moment,
    /// The fewest slots that were unused since the last sweep.
    unused: u32,
    renewed: Moment,
}

/// A question to the store about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    number: u64,
    /// How many slots the node could use.
    want: u32,
    /// How many it uses, or may be using once earlier questions have their replies.
    used: u32,
    /// The limit.
    max: u32,
}

/// What the store replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    slots: u32,
    target: u32,
}

/// A request that holds a slot; dropping it leaves the slot to the next request of the node, or to the store.
#[derive(Debug)]
pub struct SlotHeld {
    slots: Arc<SharedSlots>,
    key: Box<[u8]>,
    /// Whether it asks for its slot.
    is_asking: bool,
}

impl SharedSlots {
    /// The slots called `name` of a store.
    pub fn of(
        name: &str,
        store_use: StoreUse,
        recorder: Option<&Arc<Recorder>>,
    ) -> Arc<SharedSlots> {
        let Some(recorder) = recorder else {
            return Arc::new(SharedSlots::new(name, store_use));
        };
        let pools = recorder.shared::<Pools>();
        let mut known = pools.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, slots| slots.strong_count() > 0);
        let place = store_use.store.server.place().to_owned();
        let of_pool = (
            name.to_owned(),
            place,
            store_use.deadline,
            store_use.on_error,
        );
        let found = known.entry(of_pool).or_default();
        found.upgrade().unwrap_or_else(|| {
            let made = Arc::new(SharedSlots::new(name, store_use));
            *found = Arc::downgrade(&made);
            let shown: Arc<dyn SlotPool> = made.clone();
            recorder.hub().add_slot_pool(Arc::downgrade(&shown));
            made
        })
    }

    fn new(name: &str, store_use: StoreUse) -> SharedSlots {
        SharedSlots {
            name: name.into(),
            store_use,
            node: format!("{:032x}", random::bits()),
            prefix: format!("sluice:slots:{name}:"),
            keys: Mutex::default(),
            asked: AtomicU64::new(0),
            is_swept: AtomicBool::new(false),
            without_store: AtomicU64::new(0),
        }
    }

    /// Where they are counted, without secrets.
    pub fn place(&self) -> &str {
        self.store_use.store.server.place()
    }

    /// Takes a slot of `key` that this node holds and does not use, if there is one.
    pub fn take_unused(self: &Arc<Self>, key: &[u8]) -> Option<SlotHeld> {
        let mut keys = self.lock();
        let slots = keys.get_mut(key)?;
        slots.expire();
        // Requests that ask come first.
        let is_unused = slots.used + slots.asking < slots.usable();
        is_unused.then(|| {
            slots.use_one();
            self.held(key, false)
        })
    }

    /// Takes a slot of `key`, of which all nodes together have `max`; `None` if all are taken. `waiting` requests would
    /// take one as well.
    pub async fn enter(
        self: &Arc<Self>,
        worker: &Rc<Worker>,
        key: &[u8],
        (max, waiting): (u32, u32),
    ) -> Option<SlotHeld> {
        let (mut held, question) = self.reserve(key, (max, waiting));
        let Some(question) = question else {
            return Some(held);
        };
        self.sweep_from(worker);
        let asked_at = clock::now();
        match self.ask(worker, key, question).await {
            Ok(granted) => {
                self.settle(key, question.number, (granted, asked_at));
                self.admit(&mut held).then_some(held)
            }
            Err(_) => {
                self.without_store.fetch_add(1, Ordering::Relaxed);
                match self.store_use.on_error {
                    // The caller has counted what this node uses.
                    OnError::Open | OnError::Local => {
                        self.admit_without_store(&mut held);
                        Some(held)
                    }
                    OnError::Closed => None,
                }
            }
        }
    }

    /// Counts a request. If no slot of the node is unused, also returns the question for one more.
    fn reserve(
        self: &Arc<Self>,
        key: &[u8],
        (max, waiting): (u32, u32),
    ) -> (SlotHeld, Option<Question>) {
        let mut keys = self.lock();
        let slots = keys.entry(key.into()).or_insert_with(Slots::none);
        slots.expire();
        slots.max = slots.max.max(max);
        if slots.used + slots.asking < slots.usable() {
            slots.use_one();
            return (self.held(key, false), None);
        }
        let used = slots.used + slots.asking;
        slots.asking += 1;
        slots.is_noted = true;
        slots.asked_at = clock::now();
        let question = Question {
            number: self.next_number(),
            want: (used + 1).saturating_add(waiting),
            used,
            max,
        };
        (self.held(key, true), Some(question))
    }

    fn held(self: &Arc<Self>, key: &[u8], is_asking: bool) -> SlotHeld {
        SlotHeld {
            slots: self.clone(),
            key: key.into(),
            is_asking,
        }
    }

    /// Notes the store's reply to the question `number`, which was asked at this moment.
    fn settle(&self, key: &[u8], number: u64, (granted, asked_at): (Granted, Moment)) {
        let mut keys = self.lock();
        if let Some(slots) = keys.get_mut(key)
            && number > slots.granted_by
        {
            (slots.held, slots.target) = (granted.slots, granted.target);
            slots.granted_by = number;
            slots.renewed = asked_at;
            slots.unused = slots.unused.min(slots.spare());
        }
    }

    /// Gives a request that asks a slot that is unused. Returns whether there was one.
    fn admit(&self, held: &mut SlotHeld) -> bool {
        let mut keys = self.lock();
        let Some(slots) = keys.get_mut(&held.key) else {
            return false;
        };
        let has_one = slots.used < slots.usable();
        if has_one {
            slots.asking -= 1;
            slots.use_one();
            held.is_asking = false;
        }
        has_one
    }

    fn admit_without_store(&self, held: &mut SlotHeld) {
        if let Some(slots) = self.lock().get_mut(&held.key) {
            slots.asking -= 1;
            slots.use_one();
            held.is_asking = false;
        }
    }

    async fn ask(
        &self,
        worker: &Rc<Worker>,
        key: &[u8],
        question: Question,
    ) -> Result<Granted, CallError> {
        let Question {
            number,
            want,
            used,
            max,
        } = question;
        let key = [self.prefix.as_bytes(), key].concat();
        let lease = SLOT_LEASE.as_millis() as u64;
        let numbers = [number, want.into(), used.into(), max.into(), lease];
        let numbers = numbers.map(|number| number.to_string());
        let [number, want, used, max, lease] = &numbers;
        let args = [&self.node, number, want, used, max, lease].map(|text| text.as_bytes());
        let server = &self.store_use.store.server;
        let deadline = self.store_use.deadline;
        let reply = server.run(worker, &SLOTS, (&key, &args), deadline).await?;
        if let Reply::Array(numbers) = &reply
            && let [Reply::Integer(slots), Reply::Integer(target)] = &numbers[..]
            && let (Ok(slots), Ok(target)) = (u32::try_from(*slots), u32::try_from(*target))
        {
            return Ok(Granted { slots, target });
        }
        Err(CallError::Refused("an unexpected reply".to_owned()))
    }

    /// Looks after the leases on this worker, unless another does.
    fn sweep_from(self: &Arc<Self>, worker: &Rc<Worker>) {
        if self.is_swept.swap(true, Ordering::AcqRel) {
            return;
        }
        let sweeping = Sweeping {
            slots: self.clone(),
            is_finished: Cell::new(false),
        };
        let worker = worker.clone();
        in_background(async move {
            let timer = worker.timers.timer();
            loop {
                timer.set(&worker.clock, SLOT_SWEEP);
                poll_fn(|cx| timer.poll_expired(cx)).await;
                for (key, question) in sweeping.slots.due(clock::now()) {
                    let (slots, worker) = (sweeping.slots.clone(), worker.clone());
                    in_background(async move {
                        let asked_at = clock::now();
                        // Without a reply the next sweep tries again, or the lease ends by itself.
                        if let Ok(granted) = slots.ask(&worker, &key, question).await {
                            slots.settle(&key, question.number, (granted, asked_at));
                        }
                    });
                }
                if sweeping.slots.is_over() {
                    sweeping.is_finished.set(true);
                    return;
                }
            }
        });
    }

    /// The keys of which slots go back, or whose lease is to be renewed; forgets those without slots.
    fn due(&self, now: Moment) -> Vec<(Box<[u8]>, Question)> {
        let mut keys = self.lock();
        keys.retain(|_, slots| slots.is_in_use() || slots.held > 0 || slots.is_noted);
        let due = keys.iter_mut().filter_map(|(key, slots)| {
            let spare = slots.spare();
            let unused = std::mem::replace(&mut slots.unused, spare);
            // A node whose requests are refused at once has none most of the time, and wants slots all the same.
            let has_asked = now.since(slots.asked_at) < SLOT_WANTED;
            let is_forgotten =
                slots.is_noted && slots.held == 0 && !slots.is_in_use() && !has_asked;
            let is_old = now.since(slots.renewed) >= SLOT_RENEWAL;
            if unused == 0 && !is_forgotten && !(is_old && slots.held > 0) {
                return None;
            }
            let number = self.next_number();
            if unused > 0 {
                // Not used from now on, whenever the store hears of it.
                slots.held -= unused.min(slots.held);
                slots.granted_by = number;
                slots.unused = slots.spare();
            }
            slots.is_noted = slots.held > 0;
            let question = Question {
                number,
                want: slots.held,
                used: slots.used + slots.asking,
                max: slots.max,
            };
            Some((key.clone(), question))
        });
        due.collect()
    }

    /// Whether no key is left; then the next request starts another task.
    fn is_over(&self) -> bool {
        let keys = self.lock();
        if keys.is_empty() {
            self.is_swept.store(false, Ordering::Release);
        }
        keys.is_empty()
    }

    fn next_number(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Slots>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn none() -> Slots {
        Slots {
            used: 0,
            asking: 0,
            held: 0,
            target: u32::MAX,
            max: 0,
            granted_by: 0,
            is_noted: false,
            asked_at: clock::now(),
            unused: 0,
            renewed: clock::now(),
        }
    }

    /// After the end of the lease the store has given the slots to others.
    fn expire(&mut self) {
        if clock::now().since(self.renewed) >= SLOT_LEASE {
            self.held = 0;
            self.unused = 0;
        }
    }

    /// How many requests may hold a slot.
    fn usable(&self) -> u32 {
        self.held.min(self.target)
    }

    /// Slots that no request uses or is about to use.
    fn spare(&self) -> u32 {
        self.held.saturating_sub(self.used + self.asking)
    }

    fn use_one(&mut self) {
        self.used += 1;
        self.unused = self.unused.min(self.spare());
    }

    fn is_in_use(&self) -> bool {
        self.used + self.asking > 0
    }
}

/// The one task that looks after the leases of a limit. If its worker ends, another may take over.
struct Sweeping {
    slots: Arc<SharedSlots>,
    /// Whether the task has ended because no key was left.
    is_finished: Cell<bool>,
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        // After `is_over` there may be another task already, or no key to look after.
        if !self.is_finished.get() {
            self.slots.is_swept.store(false, Ordering::Release);
        }
    }
}

impl Drop for SlotHeld {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.lock().get_mut(&self.key) {
            let count = match self.is_asking {
                true => &mut slots.asking,
                false => &mut slots.used,
            };
            *count = count.saturating_sub(1);
        }
    }
}

impl SlotPool for SharedSlots {
    fn name(&self) -> &str {
        &self.name
    }

    fn totals(&self) -> SlotPoolTotals {
        let keys = self.lock();
        SlotPoolTotals {
            held: keys.values().map(|slots| u64::from(slots.held)).sum(),
            used: keys.values().map(|slots| u64::from(slots.used)).sum(),
            without_store: self.without_store.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_upstream::redis::{RedisServer, RedisUrl};

    use super::*;
    use crate::limit_store::Store;

    /// Slots whose store is never asked: the test replies in its place.
    fn slots() -> Arc<SharedSlots> {
        let url = RedisUrl::parse("redis://127.0.0.1:1").unwrap();
        let server = Arc::new(RedisServer::new(&url, None, |_| {}));
        let store_use = StoreUse {
            store: Arc::new(Store { server }),
            deadline: Duration::from_millis(5),
            on_error: OnError::Local,
        };
        SharedSlots::of("z", store_use, None)
    }

    const MAX: u32 = 10;

    /// A request that asks for a slot, or takes one.
    fn reserve(slots: &Arc<SharedSlots>) -> (SlotHeld, Option<Question>) {
        slots.reserve(b"k", (MAX, 0))
    }

    fn question(number: u64, want: u32, used: u32) -> Question {
        Question {
            number,
            want,
            used,
            max: MAX,
        }
    }

    /// The store's reply, to a question of this moment.
    fn settle(slots: &SharedSlots, number: u64, (count, target): (u32, u32)) {
        let granted = Granted {
            slots: count,
            target,
        };
        slots.settle(b"k", number, (granted, clock::now()));
    }

    /// As many requests with slots.
    fn admitted(slots: &Arc<SharedSlots>, count: u32) -> Vec<SlotHeld> {
        let mut all: Vec<_> = (0..count).map(|_| reserve(slots)).collect();
        let last = all.last().and_then(|(_, question)| *question).unwrap();
        settle(slots, last.number, (count, MAX));
        all.iter_mut()
            .for_each(|(held, _)| assert!(slots.admit(held)));
        all.into_iter().map(|(held, _)| held).collect()
    }

    #[test]
    fn a_slot_is_asked_for_once_and_used_again() {
        let slots = slots();
        let (mut first, asked) = reserve(&slots);
        assert_eq!(asked, Some(question(1, 1, 0)));
        settle(&slots, 1, (1, MAX));
        assert!(slots.admit(&mut first));
        assert!(slots.take_unused(b"k").is_none());
        let (mut second, asked) = reserve(&slots);
        assert_eq!(asked, Some(question(2, 2, 1)));
        settle(&slots, 2, (1, MAX));
        assert!(!slots.admit(&mut second), "another node has it");
        drop((first, second));
        assert!(slots.take_unused(b"k").is_some(), "it is still leased");
        assert_eq!(reserve(&slots).1, None);
        let other = slots.reserve(b"other", (MAX, 7)).1;
        assert_eq!(other, Some(question(3, 8, 0)), "seven more wait");
    }

    #[test]
    fn an_older_reply_changes_nothing() {
        let slots = slots();
        let held = admitted(&slots, 2);
        settle(&slots, 1, (1, MAX));
        assert_eq!(slots.lock()[&b"k"[..]].held, 2);
        drop(held);
    }

    #[test]
    fn unused_slots_go_back_and_keys_without_slots_are_forgotten() {
        let slots = slots();
        let held = admitted(&slots, 3);
        let now = clock::now();
        assert!(slots.due(now).is_empty(), "all are used");
        drop(held);
        assert!(
            slots.due(now).is_empty(),
            "they were used since the last sweep"
        );
        assert_eq!(slots.due(now), [(b"k"[..].into(), question(4, 0, 0))]);
        // A reply to what was asked before does not bring them back.
        settle(&slots, 3, (3, MAX));
        assert!(slots.due(now).is_empty() && slots.is_over());
    }

    #[test]
    fn a_lease_in_use_is_renewed_in_time() {
        let slots = slots();
        let _held = admitted(&slots, 1);
        let later = clock::now() + SLOT_RENEWAL;
        assert_eq!(slots.due(later), [(b"k"[..].into(), question(2, 1, 1))]);
    }

    #[test]
    fn above_its_target_a_node_admits_nothing_and_gives_slots_back() {
        let slots = slots();
        let mut held = admitted(&slots, 4);
        let now = clock::now();
        assert!(slots.due(now).is_empty());
        let (refused, asked) = reserve(&slots);
        assert_eq!(asked, Some(question(5, 5, 4)));
        settle(&slots, 5, (4, 3));
        drop(refused);
        held.truncate(2);
        let (mut third, asked) = reserve(&slots);
        assert_eq!(asked, None, "below the target");
        assert!(!slots.admit(&mut third), "it has its slot");
        assert!(reserve(&slots).1.is_some(), "the fourth is another node's");
        slots.due(now);
        let due = slots.due(now);
        assert_eq!(due, [(b"k"[..].into(), question(7, 3, 3))]);
        drop(third);
    }

    #[test]
    fn what_a_node_wanted_in_vain_is_taken_back() {
        let slots = slots();
        let (mut refused, _) = reserve(&slots);
        settle(&slots, 1, (0, 5));
        assert!(!slots.admit(&mut refused));
        drop(refused);
        let now = clock::now();
        assert!(slots.due(now).is_empty(), "it may want one again");
        let later = now + SLOT_WANTED;
        assert_eq!(slots.due(later), [(b"k"[..].into(), question(2, 0, 0))]);
        assert!(slots.due(later).is_empty() && slots.is_over());
    }

    #[test]
    fn requests_are_admitted_without_the_store_and_counted_once_it_is_back() {
        let slots = slots();
        let (mut first, _) = reserve(&slots);
        slots.admit_without_store(&mut first);
        assert_eq!(slots.totals().used, 1);
        let asked = reserve(&slots).1;
        assert_eq!(asked, Some(question(2, 2, 1)));
        drop(first);
        assert_eq!(slots.totals().used, 0);
    }
}
