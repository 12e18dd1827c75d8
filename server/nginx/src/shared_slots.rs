//! Slots of a concurrency limit that several nodes share (`limit_conn_zone … sync=`). A node leases slots from the store,
//! keeps them for a moment after a request has ended, and renews them; those of a node that died come back with the end
//! of their lease.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use sluice_handlers::limit_store::{OnError, StoreUse};
use sluice_message::Moment;
use sluice_net::clock;
use sluice_net::tasks::in_background;
use sluice_net::worker::Worker;
use sluice_observe::random;
use sluice_upstream::redis::{CallError, Script};
use sluice_wire::resp::Reply;

use crate::limits::{SLOT_LEASE, SLOT_RENEWAL, SLOT_SWEEP};

static SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("shared_slots.lua")));

/// The slots of one zone.
#[derive(Debug)]
pub struct SharedSlots {
    store_use: StoreUse,
    /// This process among the nodes.
    node: String,
    /// What the keys of the zone begin with.
    prefix: String,
    keys: Mutex<HashMap<Box<[u8]>, Slots>>,
    /// The number of the last question.
    asked: AtomicU64,
    /// Whether a worker looks after the leases.
    is_swept: AtomicBool,
}

/// What a node holds of one key.
#[derive(Debug, Default)]
struct Slots {
    /// Requests that hold a slot or ask for one.
    used: u32,
    /// Slots that the store has granted.
    held: u32,
    /// The number of the question that granted them.
    granted_by: u64,
    /// The fewest slots that were unused since the last sweep.
    unused: u32,
    renewed: Moment,
}

/// A request that holds a slot; dropping it leaves the slot to the next request of the node, or to the store.
#[derive(Debug)]
pub struct SlotHeld {
    slots: Arc<SharedSlots>,
    key: Box<[u8]>,
}

impl SharedSlots {
    /// The slots of the zone `name`.
    pub fn new(name: &str, store_use: StoreUse) -> SharedSlots {
        SharedSlots {
            store_use,
            node: format!("{:032x}", random::bits()),
            prefix: format!("sluice:slots:{name}:"),
            keys: Mutex::default(),
            asked: AtomicU64::new(0),
            is_swept: AtomicBool::new(false),
        }
    }

    /// Where they are counted, without secrets.
    pub fn place(&self) -> &str {
        self.store_use.store.server.place()
    }

    /// Takes a slot of `key`, of which all nodes together have `max`; `None` if all are taken.
    pub async fn enter(
        self: &Arc<Self>,
        worker: &Rc<Worker>,
        key: &[u8],
        max: u32,
    ) -> Option<SlotHeld> {
        let (held, want) = self.reserve(key);
        let Some((number, want)) = want else {
            return Some(held);
        };
        self.sweep_from(worker);
        match self.ask(worker, key, (number, want, max)).await {
            Ok(count) => self.settle(key, (number, count)).then_some(held),
            Err(_) => match self.store_use.on_error {
                // The caller has counted what this node uses.
                OnError::Open | OnError::Local => Some(held),
                OnError::Closed => None,
            },
        }
    }

    /// Counts a request. If no slot of the node is unused, also returns the question for one more.
    fn reserve(self: &Arc<Self>, key: &[u8]) -> (SlotHeld, Option<(u64, u32)>) {
        let mut keys = self.lock();
        let slots = keys.entry(key.into()).or_default();
        if clock::now().since(slots.renewed) >= SLOT_LEASE {
            // The store has given them to others.
            slots.held = 0;
        }
        slots.used += 1;
        slots.unused = slots.unused.min(slots.held.saturating_sub(slots.used));
        let lacks = slots.used > slots.held;
        let want = lacks.then(|| (self.next_number(), slots.used));
        let held = SlotHeld {
            slots: self.clone(),
            key: key.into(),
        };
        (held, want)
    }

    /// Notes the store's reply to a question. Returns whether all that use a slot, or ask for one, have one.
    fn settle(&self, key: &[u8], (number, count): (u64, u32)) -> bool {
        let mut keys = self.lock();
        let slots = keys.entry(key.into()).or_default();
        if number > slots.granted_by {
            (slots.held, slots.granted_by) = (count, number);
            slots.renewed = clock::now();
        }
        slots.used <= slots.held
    }

    async fn ask(
        &self,
        worker: &Rc<Worker>,
        key: &[u8],
        (number, want, max): (u64, u32, u32),
    ) -> Result<u32, CallError> {
        let key = [self.prefix.as_bytes(), key].concat();
        let lease = SLOT_LEASE.as_millis() as u64;
        let numbers = [number, want.into(), max.into(), lease].map(|number| number.to_string());
        let [number, want, max, lease] = &numbers;
        let args = [&self.node, number, want, max, lease].map(|text| text.as_bytes());
        let server = &self.store_use.store.server;
        let deadline = self.store_use.deadline;
        let reply = server.run(worker, &SLOTS, (&key, &args), deadline).await?;
        if let Reply::Array(numbers) = &reply
            && let Some(Reply::Integer(count)) = numbers.first()
            && let Ok(count) = u32::try_from(*count)
        {
            return Ok(count);
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
                let due = sweeping.slots.due(clock::now());
                for (key, number, want) in due {
                    let (slots, worker) = (sweeping.slots.clone(), worker.clone());
                    in_background(async move {
                        // Without a reply the next sweep tries again, or the lease ends by itself.
                        let asked = slots.ask(&worker, &key, (number, want, u32::MAX)).await;
                        if let Ok(count) = asked {
                            slots.settle(&key, (number, count));
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
    fn due(&self, now: Moment) -> Vec<(Box<[u8]>, u64, u32)> {
        let mut keys = self.lock();
        keys.retain(|_, slots| slots.used > 0 || slots.held > 0);
        let due = keys.iter_mut().filter_map(|(key, slots)| {
            let unused =
                std::mem::replace(&mut slots.unused, slots.held.saturating_sub(slots.used));
            let is_due = unused > 0 || now.since(slots.renewed) >= SLOT_RENEWAL;
            is_due.then(|| {
                let number = self.next_number();
                if unused > 0 {
                    // Not used from now on, whenever the store hears of it.
                    slots.held -= unused.min(slots.held);
                    slots.granted_by = number;
                    slots.unused = slots.held.saturating_sub(slots.used);
                }
                (key.clone(), number, slots.held)
            })
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

/// The one task that looks after the leases of a zone. If its worker ends, another may take over.
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
            slots.used = slots.used.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_handlers::limit_store::Store;
    use sluice_upstream::redis::{RedisServer, RedisUrl};

    use super::*;

    /// Slots whose store is never asked: the test replies in its place.
    fn slots() -> Arc<SharedSlots> {
        let url = RedisUrl::parse("redis://127.0.0.1:1").unwrap();
        let server = Arc::new(RedisServer::new(&url, None, |_| {}));
        let store_use = StoreUse {
            store: Arc::new(Store { server }),
            deadline: Duration::from_millis(5),
            on_error: OnError::Local,
        };
        Arc::new(SharedSlots::new("z", store_use))
    }

    #[test]
    fn a_slot_is_asked_for_once_and_used_again() {
        let slots = slots();
        let (first, want) = slots.reserve(b"k");
        assert_eq!(want, Some((1, 1)));
        assert!(slots.settle(b"k", (1, 1)));
        let (second, want) = slots.reserve(b"k");
        assert_eq!(want, Some((2, 2)));
        assert!(!slots.settle(b"k", (2, 1)), "another node has it");
        drop((first, second));
        assert_eq!(slots.reserve(b"k").1, None, "it is still leased");
        assert_eq!(slots.reserve(b"other").1, Some((3, 1)));
    }

    #[test]
    fn an_older_reply_changes_nothing() {
        let slots = slots();
        let held = [slots.reserve(b"k").0, slots.reserve(b"k").0];
        assert!(slots.settle(b"k", (2, 2)));
        assert!(slots.settle(b"k", (1, 1)));
        assert_eq!(slots.lock()[&b"k"[..]].held, 2);
        drop(held);
    }

    #[test]
    fn unused_slots_go_back_and_keys_without_slots_are_forgotten() {
        let slots = slots();
        let held: Vec<_> = (0..3).map(|_| slots.reserve(b"k").0).collect();
        assert!(slots.settle(b"k", (3, 3)));
        let now = clock::now();
        assert!(slots.due(now).is_empty(), "all are used");
        drop(held);
        assert!(
            slots.due(now).is_empty(),
            "they were used since the last sweep"
        );
        let due = slots.due(now);
        assert_eq!(due, [(b"k"[..].into(), 4, 0)]);
        // A reply to what was asked before does not bring them back.
        slots.settle(b"k", (3, 3));
        assert!(slots.due(now).is_empty() && slots.is_over());
    }

    #[test]
    fn a_lease_in_use_is_renewed_in_time() {
        let slots = slots();
        let (_held, _) = slots.reserve(b"k");
        assert!(slots.settle(b"k", (1, 1)));
        let later = clock::now() + SLOT_RENEWAL;
        assert_eq!(slots.due(later), [(b"k"[..].into(), 2, 1)]);
    }
}
