//! Purges that reach every node with the same cache. One thread adds them to a list in a store that the nodes share and
//! applies those of other nodes; another one watches that list. Workers only queue a purge and await its receipt.
//!
//! The number of the last purge that was applied lies in the cache directory. Until a node has caught up with the list, it
//! does not use what earlier runs have cached.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use sluice_store::{Fault, Guard, Key, StoreError, Write};

use super::purge_list::{Missed, PurgeList};
use super::purged::Target;
use super::{NEVER_POISONED, Store, lock};
use crate::limits::{
    KEEPER_PAUSE, PURGE_ATTEMPTS_MAX, PURGE_LOOK_EVERY, PURGE_POSITION_BYTES_MAX, PURGE_RETRY_MAX,
    PURGE_RETRY_MIN, PURGE_WATCH_TIMEOUT, PURGES_WAITING_MAX,
};

/// The file with the number of the last purge that was applied. Nothing else in the directory begins with a dot.
const POSITION: &str = ".purges";

/// Receives a change of the connection to the list, for the log: `None` if it is there again.
pub type PurgeReport = Box<dyn Fn(Option<&StoreError>) + Send + Sync>;

/// Where the purges of a cache are recorded.
pub struct PurgeSource {
    /// The store, which the nodes share.
    pub store: Arc<dyn sluice_store::Store>,
    /// The key of the list.
    pub key: Key,
    /// Logs that the store is away, or back.
    pub report: PurgeReport,
}

impl PurgeSource {
    /// The store and the key, to tell lists apart.
    fn place(&self) -> String {
        format!("{} {}", self.store.place(), self.key)
    }
}

/// Why a purge may not have reached all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeError {
    /// The store of the list does not respond. The purge was applied here.
    Away,
    /// Too many purges wait.
    Full,
}

/// A purge that is being recorded.
#[derive(Debug)]
pub struct Receipt(Mutex<Progress>);

#[derive(Debug)]
enum Progress {
    UnderWay(Option<Waker>),
    Ended(Result<usize, PurgeError>),
}

impl Receipt {
    fn new() -> Arc<Receipt> {
        Arc::new(Receipt(Mutex::new(Progress::UnderWay(None))))
    }

    /// Ready once the purge was recorded and applied here, with the number of responses that were removed here.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<usize, PurgeError>> {
        match &mut *lock(&self.0) {
            Progress::Ended(outcome) => Poll::Ready(*outcome),
            Progress::UnderWay(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn end(&self, outcome: Result<usize, PurgeError>) {
        let before = std::mem::replace(&mut *lock(&self.0), Progress::Ended(outcome));
        if let Progress::UnderWay(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// A purge that waits, with its receipt.
type Queued = (Target, Arc<Receipt>);

/// The threads that record, watch and apply the purges of a cache. They end when it is dropped.
pub(super) struct PurgeLog {
    shared: Arc<Shared>,
    place: String,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Queued>,
    /// Whether the list may have changed.
    is_called: bool,
    has_ended: bool,
    /// Whether the last look at the list succeeded.
    is_following: bool,
}

impl PurgeLog {
    /// Starts to follow a list.
    pub fn start(store: &Arc<Store>, source: PurgeSource) -> io::Result<PurgeLog> {
        let (shared, place) = (Arc::<Shared>::default(), source.place());
        let log = PurgeLog {
            shared: shared.clone(),
            place: place.clone(),
        };
        let (watched, of_watch) = ((source.store.clone(), source.key.clone()), shared.clone());
        let mut recorder = Recorder {
            store: Arc::downgrade(store),
            applied: read_position(&store.path().join(POSITION), &place),
            written: None,
            shared,
            source,
            place,
            is_away: false,
        };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("cache-purges").spawn(move || recorder.run())?;
        named("cache-watch").spawn(move || watch(&of_watch, &*watched.0, &watched.1))?;
        Ok(log)
    }

    /// Whether it follows this list.
    pub fn is_of(&self, source: &PurgeSource) -> bool {
        self.place == source.place()
    }

    /// Whether purges of other nodes arrive.
    pub fn is_following(&self) -> bool {
        lock(&self.shared.state).is_following
    }

    /// Queues a purge.
    pub fn send(&self, target: Target) -> Arc<Receipt> {
        let receipt = Receipt::new();
        let mut state = lock(&self.shared.state);
        if state.waiting.len() < PURGES_WAITING_MAX {
            state.waiting.push((target, receipt.clone()));
            self.shared.changed.notify_all();
        } else {
            receipt.end(Err(PurgeError::Full));
        }
        receipt
    }
}

impl Drop for PurgeLog {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.has_ended = true;
        for (_, receipt) in state.waiting.drain(..) {
            receipt.end(Err(PurgeError::Away));
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Notes that the list may have changed.
    fn call(&self) {
        lock(&self.state).is_called = true;
        self.changed.notify_all();
    }

    fn has_ended(&self) -> bool {
        lock(&self.state).has_ended
    }

    /// Waits until there is something to do, at most for `pause`. Returns the purges that wait; `None` at the end.
    fn wait(&self, pause: Duration) -> Option<Vec<Queued>> {
        let is_idle =
            |state: &mut State| state.waiting.is_empty() && !state.is_called && !state.has_ended;
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.state), pause, is_idle);
        let (mut state, _) = waited.expect(NEVER_POISONED);
        state.is_called = false;
        (!state.has_ended).then(|| std::mem::take(&mut state.waiting))
    }

    /// Waits for `pause`, or until the end.
    fn rest(&self, pause: Duration) {
        let state = lock(&self.state);
        let _ = self
            .changed
            .wait_timeout_while(state, pause, |state| !state.has_ended);
    }
}

/// Reports each change of the list.
fn watch(shared: &Shared, store: &dyn sluice_store::Store, key: &Key) {
    let mut pause = PURGE_RETRY_MIN;
    while !shared.has_ended() {
        if let Ok(mut watch) = store.watch(key) {
            // What changed before this moment is not reported.
            shared.call();
            while let Ok(changes) = watch.next(PURGE_WATCH_TIMEOUT) {
                pause = PURGE_RETRY_MIN;
                if shared.has_ended() {
                    return;
                }
                if !changes.is_empty() {
                    shared.call();
                }
            }
        }
        shared.rest(pause);
        pause = (pause * 2).min(PURGE_RETRY_MAX);
    }
}

/// The thread that records and applies purges.
struct Recorder {
    store: Weak<Store>,
    shared: Arc<Shared>,
    source: PurgeSource,
    place: String,
    /// The number of the last purge that was applied, if it is known.
    applied: Option<u64>,
    /// What the file says.
    written: Option<u64>,
    is_away: bool,
}

impl Recorder {
    fn run(&mut self) {
        let (mut pause, mut retry) = (Duration::ZERO, PURGE_RETRY_MIN);
        while let Some(waiting) = self.shared.wait(pause) {
            let Some(store) = self.store.upgrade() else {
                end_all(&waiting, PurgeError::Away);
                return;
            };
            match self.look(&store, &waiting) {
                Ok(counts) => {
                    retry = PURGE_RETRY_MIN;
                    pause = match self.applied == self.written {
                        true => PURGE_LOOK_EVERY,
                        // The index is being loaded.
                        false => KEEPER_PAUSE,
                    };
                    self.note(None);
                    for ((_, receipt), count) in waiting.iter().zip(counts) {
                        receipt.end(Ok(count));
                    }
                }
                Err(error) => {
                    pause = retry;
                    retry = (retry * 2).min(PURGE_RETRY_MAX);
                    self.note(Some(&error));
                    for (target, _) in &waiting {
                        store.purge_here(target);
                    }
                    end_all(&waiting, PurgeError::Away);
                }
            }
        }
    }

    /// Adds the purges that wait to the list, and applies those that this node has not applied yet. Returns how many
    /// responses each of those that wait has removed.
    fn look(&mut self, store: &Store, waiting: &[Queued]) -> Result<Vec<usize>, StoreError> {
        for _ in 0..PURGE_ATTEMPTS_MAX {
            let key = &self.source.key;
            let found = self.source.store.load_latest(&[key])?.pop().flatten();
            let list = match &found {
                None => PurgeList::default(),
                Some(value) => PurgeList::parse(&value.bytes)
                    .ok_or_else(|| self.error(Fault::Foreign, "it is not a list of purges"))?,
            };
            let mut longer = list.clone();
            for (target, _) in waiting {
                longer.add(target.clone());
            }
            if !waiting.is_empty() {
                let text = longer.encode();
                let version = found.as_ref().map(|value| &value.version);
                let write = [Write::Put(key, text.as_bytes())];
                match self
                    .source
                    .store
                    .save(&write, Guard::Unchanged(key, version))
                {
                    // Another node was faster.
                    Err(error) if error.fault == Fault::Refused => continue,
                    saved => saved?,
                }
            }
            match list.since(self.applied) {
                Missed::These(targets) => targets.into_iter().for_each(|target| {
                    store.purge_here(target);
                }),
                Missed::Unknown => store.purge_all(),
            }
            let counts = waiting.iter().map(|(target, _)| store.purge_here(target));
            let counts = counts.collect();
            self.applied = Some(longer.last());
            store.set_current();
            self.write_position(store);
            return Ok(counts);
        }
        Err(self.error(Fault::Refused, "other nodes change the list all the time"))
    }

    fn error(&self, fault: Fault, what: &str) -> StoreError {
        let what = format!("`{}`: {what}", self.source.key);
        StoreError::new(fault, self.source.store.place(), what)
    }

    /// Notes whether the store responds, and reports changes of that.
    fn note(&mut self, error: Option<&StoreError>) {
        lock(&self.shared.state).is_following = error.is_none();
        if error.is_some() != std::mem::replace(&mut self.is_away, error.is_some()) {
            (self.source.report)(error);
        }
    }

    /// Writes what was applied. What the loader has not reached yet is only purged in memory, so that has to wait.
    fn write_position(&mut self, store: &Store) {
        let Some(applied) = self.applied.filter(|_| !store.is_loading()) else {
            return;
        };
        if self.written == Some(applied) {
            return;
        }
        let path = store.path().join(POSITION);
        let new = store.path().join(format!("{POSITION}.new"));
        let text = format!("{}\n{applied}\n", self.place);
        match fs::write(&new, text).and_then(|()| fs::rename(&new, &path)) {
            Ok(()) => self.written = Some(applied),
            Err(error) => store.trouble("cannot note which purges were applied", &path, &error),
        }
    }
}

fn end_all(waiting: &[Queued], error: PurgeError) {
    for (_, receipt) in waiting {
        receipt.end(Err(error));
    }
}

/// The number of the last purge of the list at `place` that was applied, if the file has it.
fn read_position(path: &Path, place: &str) -> Option<u64> {
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(PURGE_POSITION_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let (found, number) = text.split_once('\n')?;
    number.trim_end().parse().ok().filter(|_| found == place)
}

#[cfg(test)]
#[path = "purge_log_tests.rs"]
mod tests;
