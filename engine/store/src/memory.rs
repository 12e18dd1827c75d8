//! A store in the memory of this process, for tests of what is built on stores.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::calls::checked;
use crate::failure::{Fault, StoreError};
use crate::lease::{Fence, Keep, Lease};
use crate::limits::LEASE_RENEWAL;
use crate::values::{Change, Entry, Guard, Reach, Value, Version, Write, entries};
use crate::{Key, Store, Watch};

const PLACE: &str = "memory";

/// Values in memory. Clones are nodes that share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    values: BTreeMap<Key, Value>,
    /// The token of each lease that is held.
    leases: BTreeMap<String, u64>,
    /// Every change, for watches that begin later.
    changes: Vec<Change>,
    revision: u64,
    fault: Option<Fault>,
    /// How many calls still fail, and how.
    failing: (u32, Option<Fault>),
    /// Whether no quorum confirms what is read.
    is_unconfirmed: bool,
}

impl MemoryStore {
    /// A store without values.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// From now on every call fails with `fault`; `None` ends that.
    pub fn fail_with(&self, fault: Option<Fault>) {
        self.state().fault = fault;
        self.shared.changed.notify_all();
    }

    /// Whether reads of what is newest fail, as on a member of a cluster that has lost its quorum.
    pub fn lose_quorum(&self, is_lost: bool) {
        self.state().is_unconfirmed = is_lost;
    }

    /// The next `count` calls fail with `fault`.
    pub fn fail_next(&self, count: u32, fault: Fault) {
        self.state().failing = (count, Some(fault));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let mut state = self.state();
        let (left, fault) = state.failing;
        state.failing.0 = left.saturating_sub(1);
        match state.fault.or(fault.filter(|_| left > 0)) {
            Some(fault) => Err(StoreError::new(fault, PLACE, "the test says so")),
            None => Ok(state),
        }
    }

    fn confirmed(&self) -> Result<(), StoreError> {
        match self.state().is_unconfirmed {
            true => Err(StoreError::new(Fault::Away, PLACE, "no quorum")),
            false => Ok(()),
        }
    }
}

impl State {
    fn holds(&self, guard: Guard<'_>) -> bool {
        match guard {
            Guard::Always => true,
            Guard::Held(fence) => {
                let token = self.leases.get(&fence.name);
                token.is_some_and(|token| token.to_string() == fence.token)
            }
            Guard::Unchanged(key, version) => {
                self.values.get(key).map(|value| &value.version) == version
            }
        }
    }

    fn apply(&mut self, write: &Write<'_>) {
        self.revision += 1;
        let value = match write {
            Write::Put(_, bytes) => Some(Value {
                bytes: bytes.to_vec(),
                modified: SystemTime::now(),
                version: Version(self.revision.to_string()),
            }),
            Write::Delete(_) => None,
        };
        let key = write.key().clone();
        match &value {
            Some(value) => self.values.insert(key.clone(), value.clone()),
            None => self.values.remove(&key),
        };
        self.changes.push(Change { key, value });
    }
}

impl Store for MemoryStore {
    fn place(&self) -> &str {
        PLACE
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let state = self.ready()?;
        let values = keys.iter().map(|key| state.values.get(*key).cloned());
        Ok(values.collect())
    }

    fn load_latest(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        self.confirmed()?;
        self.load(keys)
    }

    fn list_latest(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        self.confirmed()?;
        self.list(prefix, reach)
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let mut state = self.ready()?;
        let writes = checked(writes, PLACE)?;
        if !state.holds(guard) {
            return Err(StoreError::new(Fault::Refused, PLACE, guard.refusal()));
        }
        writes.iter().for_each(|write| state.apply(write));
        self.shared.changed.notify_all();
        Ok(())
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let state = self.ready()?;
        let listed = state.values.iter();
        let listed =
            listed.map(|(key, value)| (key.clone(), value.bytes.len() as u64, value.modified));
        entries(prefix, reach, listed, PLACE)
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        let began = Instant::now();
        let mut state = self.ready()?;
        while state.leases.contains_key(name) {
            let Some(left) = timeout.checked_sub(began.elapsed()) else {
                return Err(StoreError::new(Fault::Held, PLACE, name));
            };
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.revision += 1;
        let token = state.revision;
        state.leases.insert(name.to_owned(), token);
        drop(state);
        let fence = Fence {
            name: name.to_owned(),
            token: token.to_string(),
        };
        let keep = Kept {
            store: self.clone(),
            fence: fence.clone(),
        };
        let held = Lease::held(fence, LEASE_RENEWAL, keep);
        held.map_err(|error| StoreError::new(Fault::Limit, PLACE, error.to_string()))
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        let was_held = self.ready()?.leases.remove(name).is_some();
        self.shared.changed.notify_all();
        Ok(was_held)
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.ready()?.leases.keys().cloned().collect())
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let at = self.ready()?.changes.len();
        Ok(Box::new(MemoryWatch {
            store: self.clone(),
            prefix: prefix.clone(),
            at,
        }))
    }
}

struct Kept {
    store: MemoryStore,
    fence: Fence,
}

impl Keep for Kept {
    fn renew(&mut self) -> Result<(), StoreError> {
        match self.store.ready()?.holds(Guard::Held(&self.fence)) {
            true => Ok(()),
            false => Err(StoreError::new(Fault::Refused, PLACE, &*self.fence.name)),
        }
    }

    fn release(&mut self) {
        let mut state = self.store.state();
        if state.holds(Guard::Held(&self.fence)) {
            state.leases.remove(&self.fence.name);
        }
        drop(state);
        self.store.shared.changed.notify_all();
    }
}

struct MemoryWatch {
    store: MemoryStore,
    prefix: Key,
    at: usize,
}

impl Watch for MemoryWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let began = Instant::now();
        let mut state = self.store.ready()?;
        loop {
            let new = &state.changes[self.at..];
            let ours = new.iter().filter(|change| self.prefix.covers(&change.key));
            let found: Vec<Change> = ours.cloned().collect();
            self.at = state.changes.len();
            let Some(left) = timeout.checked_sub(began.elapsed()) else {
                return Ok(found);
            };
            if !found.is_empty() {
                return Ok(found);
            }
            let waited = self.store.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(fault) = state.fault {
                return Err(StoreError::new(fault, PLACE, "the test says so"));
            }
        }
    }
}
