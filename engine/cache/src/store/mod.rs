//! The HTTP response cache: one file per response, an index in memory, and a thread that loads the index and enforces
//! the limits. Which responses may be cached and when they may be used is decided by the callers.
//!
//! A file is written under a temporary name and renamed when complete, so a crash leaves the old response or none.
//! Writing and opening block the worker. Both are short, as in `files`: writes go to the system's page cache, and
//! larger bodies are sent by the kernel.

mod digest;
mod fill;
mod flight;
mod index;
mod maintenance_thread;
mod open_responses;
mod pace;
mod purge_list;
mod purge_log;
mod purged;
mod purges;
mod record;
mod tags;

pub use digest::Digest;
pub use fill::Fill;
pub use flight::{Lead, Outcome, Turn, Wait};
pub use open_responses::{Opened, Stored};
pub use purge_log::{PurgeError, PurgeReport, PurgeSource, Receipt};
pub use purged::Target;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_message::caching::{Times, variant};
use sluice_message::{Fields, Moment, ResponseHead};

use crate::limits::{DOOMED_MAX, KEYS_SHOWN_MAX, TROUBLE_PAUSE};
use fill::Filling;
use flight::Flights;
use index::{Entry, Index, Look};
use maintenance_thread::Signal;
pub use pace::Pace;
use purge_log::PurgeLog;
use purged::Purged;
use record::Record;
use tags::Tags;

/// Location and limits of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cache directory.
    pub path: PathBuf,
    /// Number of digits in the directory name at each level: one or two, at most three levels.
    pub levels: Vec<u8>,
    /// Memory for the index in bytes.
    pub index_bytes: usize,
    /// Responses not used for this long are removed.
    pub inactive: Duration,
    /// Maximum total size of the files in bytes, 0 for no limit. May be exceeded for a moment.
    pub bytes_max: u64,
    /// Free space in bytes to leave on the file system, 0 for none.
    pub free_min: u64,
    /// How fast existing files are read after the start.
    pub loader: Pace,
    /// How fast files are removed that are inactive or beyond the limits; without pauses if `None`.
    pub manager: Option<Pace>,
}

/// Receives errors that do not affect a request, for the log.
pub type Report = Box<dyn Fn(&str, &Path, &io::Error) + Send + Sync>;

/// Counters of a cache.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests by cache status, in the order of [`Counts::NAMES`].
    pub requests: [AtomicU64; 7],
    /// Body bytes sent from the cache.
    pub sent: AtomicU64,
    /// Responses stored in a cache.
    pub stored: AtomicU64,
    /// Responses removed because of a limit or inactivity.
    pub evicted: AtomicU64,
    /// Files that could not be written or read.
    pub failures: AtomicU64,
    /// Purges applied, those of other nodes included.
    pub purges: AtomicU64,
    /// Requests between nodes by outcome, in the order of [`Counts::PEER_OUTCOMES`].
    pub peers: [AtomicU64; 5],
}

impl Counts {
    /// The cache statuses, named as in nginx.
    pub const NAMES: [&'static str; 7] = [
        "hit",
        "miss",
        "expired",
        "stale",
        "updating",
        "revalidated",
        "bypass",
    ];

    /// The outcomes of requests between nodes: forwarded to the owner of the key, which responded; forwarded, and the
    /// owner did not respond in time or at all; forwarded to a node that does not act as the owner; served to another
    /// node; marked by a stranger.
    pub const PEER_OUTCOMES: [&'static str; 5] =
        ["forwarded", "missed", "refused", "served", "stranger"];
}

/// Current usage of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fullness {
    /// Number of responses.
    pub entries: usize,
    /// Total size of their files in bytes.
    pub bytes: u64,
    /// Memory accounted for the index, in bytes.
    pub index_bytes: usize,
}

/// The cache in one directory.
pub struct Store {
    path: PathBuf,
    levels: Vec<u8>,
    /// Distinguishes the entries of this cache from those of others in a worker's memory.
    number: u64,
    bounds: Mutex<Bounds>,
    index: Mutex<Index>,
    flights: Flights,
    /// Whether the index is still being loaded.
    is_cold: AtomicBool,
    next: AtomicU64,
    /// Serializes changes to header blocks.
    renewing: Mutex<()>,
    /// The first id of this run.
    first: u64,
    /// The responses being written, by nonce. A purge removes those that it finds, which are then not cached.
    filling: Mutex<HashMap<u64, Filling>>,
    /// Purges for the loader.
    purged: Mutex<Purged>,
    /// The list of purges of several nodes, if there is one.
    purge_log: Mutex<Option<PurgeLog>>,
    /// Whether responses of earlier runs may have been purged by other nodes.
    is_behind: AtomicBool,
    /// Files to be removed.
    doomed: Mutex<Vec<Digest>>,
    signal: Arc<Signal>,
    report: Report,
    last_report: Mutex<Option<Instant>>,
    /// Its counters.
    pub counts: Counts,
}

/// The limits enforced by the keeper thread.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    inactive: u64,
    bytes_max: u64,
    free_min: u64,
    loader: Pace,
    manager: Option<Pace>,
}

/// The cache entry of a request, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The digest that names its file.
    pub digest: Digest,
}

/// The result of a cache lookup.
#[derive(Clone, Debug)]
pub enum Found {
    /// A response, fresh or stale.
    Stored(std::rc::Rc<Stored>),
    /// The upstream failed recently with this status, which is to be returned.
    Failed(u16),
    /// No entry.
    Nothing,
}

const NEVER_POISONED: &str = "nothing panics while it holds a part of the store";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.path).finish()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.signal.end();
    }
}

impl Store {
    /// Opens the directory, creating it if necessary, and starts loading the index.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or written to, or the thread cannot be started.
    pub fn open(settings: &Settings, report: Report) -> io::Result<Arc<Store>> {
        static STORES: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(settings.path.join(fill::FOLDER))?;
        let first = first_id();
        let store = Arc::new(Store {
            path: settings.path.clone(),
            levels: settings.levels.clone(),
            number: STORES.fetch_add(1, Ordering::Relaxed),
            bounds: Mutex::new(Bounds::of(settings)),
            index: Mutex::new(Index::new(settings.index_bytes)),
            flights: Flights::default(),
            is_cold: AtomicBool::new(true),
            next: AtomicU64::new(first),
            renewing: Mutex::default(),
            first,
            filling: Mutex::default(),
            purged: Mutex::default(),
            purge_log: Mutex::default(),
            is_behind: AtomicBool::new(false),
            doomed: Mutex::default(),
            signal: Arc::default(),
            report,
            last_report: Mutex::default(),
            counts: Counts::default(),
        });
        maintenance_thread::start(&store)?;
        Ok(store)
    }

    /// Applies new limits. Path and levels cannot change; returns false if they differ.
    pub fn change(&self, settings: &Settings) -> bool {
        if self.path != settings.path || self.levels != settings.levels {
            return false;
        }
        *lock(&self.bounds) = Bounds::of(settings);
        lock(&self.index).held_max = settings.index_bytes;
        self.signal.wake();
        true
    }

    /// The cache directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the index is still being loaded.
    pub fn is_loading(&self) -> bool {
        self.is_cold.load(Ordering::Acquire)
    }

    /// Current usage.
    pub fn fullness(&self) -> Fullness {
        let index = lock(&self.index);
        Fullness {
            entries: index.entries,
            bytes: index.bytes,
            index_bytes: index.held,
        }
    }

    /// Looks up the response for a request with this key and these headers. `now` is in seconds since the Unix epoch.
    pub fn find(
        &self,
        opened: &Opened,
        key: &[u8],
        request: &Fields,
        (now, moment): (u64, Moment),
    ) -> (Place, Found) {
        let mut digest = Digest::of(&[key]);
        let mut look = lock(&self.index).look(digest, key, now);
        let mut text = Vec::new();
        if let Look::Fork(names) = &look {
            digest = self.of_variant(key, names, request, &mut text);
            look = lock(&self.index).look(digest, key, now);
        }
        let place = Place { digest };
        let id = match look {
            Look::Stored(id) => id,
            Look::Failed(status) => return (place, Found::Failed(status)),
            Look::Fork(_) | Look::Nothing if self.is_loading() => {
                let found = self.find_unloaded(opened, digest, key, (now, moment));
                return match found {
                    Found::Stored(stored) if self.is_doubtful(&stored) => (place, Found::Nothing),
                    found => (place, found),
                };
            }
            Look::Fork(_) | Look::Nothing => return (place, Found::Nothing),
        };
        match self.open_known(opened, digest, id, moment) {
            Some(stored)
                if stored.key() == key
                    && stored.variant() == text
                    && !self.is_doubtful(&stored) =>
            {
                (place, Found::Stored(stored))
            }
            _ => (place, Found::Nothing),
        }
    }

    /// Whether another node may have purged a response while this one did not run.
    fn is_doubtful(&self, stored: &Stored) -> bool {
        self.is_behind.load(Ordering::Acquire) && stored.nonce() < self.first
    }

    fn of_variant(&self, key: &[u8], names: &[u8], request: &Fields, text: &mut Vec<u8>) -> Digest {
        variant(names, request, text);
        Digest::of(&[key, b"\0", names, b"\0", text])
    }

    /// Opens the file of an indexed response; drops the entry if the file cannot be read.
    fn open_known(
        &self,
        opened: &Opened,
        digest: Digest,
        id: u64,
        moment: Moment,
    ) -> Option<std::rc::Rc<Stored>> {
        match opened.find(self, digest, id, moment) {
            Ok(stored) => Some(stored),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.trouble("cannot read a cached response", &self.file(digest), &error);
                }
                lock(&self.index).remove_id(digest, id);
                None
            }
        }
    }

    /// While the index is being loaded, looks for the file directly.
    fn find_unloaded(
        &self,
        opened: &Opened,
        digest: Digest,
        key: &[u8],
        (now, moment): (u64, Moment),
    ) -> Found {
        let Some(found) = maintenance_thread::examine(&self.file(digest), digest) else {
            return Found::Nothing;
        };
        if *found.key != *key || !found.names.is_empty() || lock(&self.purged).covers(key) {
            return Found::Nothing;
        }
        let id = self.next_id();
        self.learn(digest, found, id, now);
        match self.open_known(opened, digest, id, moment) {
            Some(stored) => Found::Stored(stored),
            None => Found::Nothing,
        }
    }

    /// Adds an existing file to the index unless the entry is already known.
    fn learn(&self, digest: Digest, found: maintenance_thread::Examined, id: u64, now: u64) {
        let mut index = lock(&self.index);
        if index.look(digest, &found.key, now) != Look::Nothing {
            return;
        }
        if lock(&self.purged).covers(&found.key) {
            drop(index);
            return self.unlink(digest);
        }
        let variant_of = (!found.names.is_empty()).then(|| Digest::of(&[&found.key]));
        if let Some(of) = variant_of {
            index.fork(of, &found.names, now);
        }
        let entry = Entry {
            key: found.key,
            id,
            bytes: found.bytes,
            tags: found.tags,
            variant_of,
        };
        index.store(digest, entry, now);
        self.shrink(&mut index);
    }

    /// Counts a use of an entry; returns the number of uses so far, including this one.
    pub fn count_use(&self, place: &Place, now: u64) -> u32 {
        let mut index = lock(&self.index);
        let uses = index.count(place.digest, now);
        self.shrink(&mut index);
        uses
    }

    /// Records that the upstream failed with this status; valid until `until`.
    pub fn note_failure(&self, place: &Place, status: u16, until: u64, now: u64) {
        let mut index = lock(&self.index);
        index.fail(place.digest, status, until, now);
        self.shrink(&mut index);
    }

    /// Decides whether this request fills the entry or waits for the one that does.
    pub fn turn(self: &Arc<Self>, place: &Place, age_max: Duration, now: Moment) -> Turn {
        self.flights.turn(self, place.digest, age_max, now)
    }

    /// Marks the entry as being refreshed; `None` if another request is already doing so.
    pub fn begin_update(self: &Arc<Self>, place: &Place) -> Option<Updating> {
        let is_first = lock(&self.index).begin_update(place.digest);
        is_first.then(|| Updating {
            store: self.clone(),
            digest: place.digest,
        })
    }

    /// Starts writing a response to the cache; `None` if it does not fit or the file cannot be created.
    pub fn begin(
        self: &Arc<Self>,
        key: &[u8],
        names: &[u8],
        request: &Fields,
        (head, times): (&ResponseHead, Times),
        length: Option<u64>,
    ) -> Option<Fill> {
        let bytes_max = lock(&self.bounds).bytes_max;
        if bytes_max > 0 && length.is_some_and(|length| length > bytes_max) {
            return None;
        }
        let mut text = Vec::new();
        let digest = match names {
            [] => Digest::of(&[key]),
            names => self.of_variant(key, names, request, &mut text),
        };
        let record = Record {
            head: head.clone(),
            times,
            key: key.to_vec(),
            names: names.to_vec(),
            variant: text,
            nonce: self.next_id(),
            ..Record::default()
        };
        Fill::begin(self, digest, record, bytes_max)
    }

    /// Adds a new file to the index; the fill has already renamed it. If its key was purged since the fill began, the
    /// file is removed instead.
    fn take_in(&self, digest: Digest, record: &Record, bytes: u64) {
        let now = unix_now();
        let mut index = lock(&self.index);
        if lock(&self.filling).remove(&record.nonce).is_none() {
            index.remove(digest);
            drop(index);
            return self.unlink(digest);
        }
        let variant_of = (!record.names.is_empty()).then(|| Digest::of(&[&record.key]));
        if let Some(of) = variant_of {
            index.fork(of, &record.names, now);
        }
        let entry = Entry {
            key: record.key.as_slice().into(),
            id: self.next_id(),
            bytes,
            tags: Tags::of(&record.head.fields),
            variant_of,
        };
        index.store(digest, entry, now);
        self.shrink(&mut index);
        let (bytes, bytes_max) = (index.bytes, lock(&self.bounds).bytes_max);
        drop(index);
        self.counts.stored.fetch_add(1, Ordering::Relaxed);
        if bytes_max > 0 && bytes > bytes_max {
            self.signal.wake();
        }
    }

    /// Updates headers and times of a cached response after a revalidation (RFC 9111, section 4.3.4). If they do not
    /// fit into the header block, a small response is written to a new file and a large one is dropped: the outdated
    /// headers must not remain.
    pub fn renew(self: &Arc<Self>, stored: &Stored, head: ResponseHead, times: Times) {
        let record = Record {
            head,
            times,
            ..stored.record().clone()
        };
        let file = self.file(stored.digest);
        let renewed = match record.encode(Some(record.block_len)) {
            Some(block) => {
                let _one_at_a_time = lock(&self.renewing);
                fill::overwrite(&file, stored.nonce(), &block)
            }
            None => {
                lock(&self.index).remove_id(stored.digest, stored.id);
                if let Some(bytes) = stored.small()
                    && let Some(mut fill) = Fill::begin(self, stored.digest, record, 0)
                {
                    fill.write(bytes);
                    fill.finish();
                }
                return;
            }
        };
        match renewed {
            Ok(()) => {
                let newer = (self.next_id(), Tags::of(&record.head.fields));
                lock(&self.index).renew(stored.digest, stored.id, newer);
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.trouble("cannot update a cached response", &file, &error);
                }
                lock(&self.index).remove_id(stored.digest, stored.id);
            }
        }
    }

    /// The keys of cached responses in order, each once, and at most [`KEYS_SHOWN_MAX`] of them.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let index = lock(&self.index);
        let keys: BTreeSet<&[u8]> = index.keys().collect();
        let shown = keys.into_iter().take(KEYS_SHOWN_MAX);
        shown.map(<[u8]>::to_vec).collect()
    }

    /// Removes responses on all nodes that share a list of purges; `None` if this node has no such list.
    pub fn purge_everywhere(&self, target: Target) -> Option<Arc<Receipt>> {
        Some(lock(&self.purge_log).as_ref()?.send(target))
    }

    /// Follows a list of purges of several nodes from now on, or none.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn follow_purges(self: &Arc<Self>, source: Option<PurgeSource>) -> io::Result<()> {
        let mut log = lock(&self.purge_log);
        let Some(source) = source else {
            *log = None;
            self.set_current();
            return Ok(());
        };
        if log.as_ref().is_some_and(|log| log.is_of(&source)) {
            return Ok(());
        }
        self.is_behind.store(true, Ordering::Release);
        *log = Some(PurgeLog::start(self, source)?);
        Ok(())
    }

    /// Whether purges of other nodes arrive; `None` without a list of them.
    pub fn is_following(&self) -> Option<bool> {
        lock(&self.purge_log).as_ref().map(PurgeLog::is_following)
    }

    /// Notes that all purges of other nodes were applied.
    fn set_current(&self) {
        self.is_behind.store(false, Ordering::Release);
    }

    /// Removes a response that must not be used again.
    pub fn forget(&self, stored: &Stored) {
        if lock(&self.index).remove_id(stored.digest, stored.id) {
            self.doom(stored.digest);
        }
    }

    /// Evicts entries until the index fits its memory; the keeper removes the files.
    fn shrink(&self, index: &mut Index) {
        while index.is_over() {
            let Some((digest, has_file)) = index.take_oldest() else {
                return;
            };
            if has_file {
                self.counts.evicted.fetch_add(1, Ordering::Relaxed);
                self.doom(digest);
            }
        }
    }

    fn doom(&self, digest: Digest) {
        let mut doomed = lock(&self.doomed);
        if doomed.len() < DOOMED_MAX {
            doomed.push(digest);
            self.signal.wake();
        } else {
            drop(doomed);
            self.unlink(digest);
        }
    }

    fn unlink(&self, digest: Digest) {
        let file = self.file(digest);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.trouble("cannot remove a cached response", &file, &error);
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// The file of a response: named by the digest, in directories named by its last digits.
    pub fn file(&self, digest: Digest) -> PathBuf {
        let name = digest.hex();
        let mut path = self.path.clone();
        let mut end = name.len();
        for level in &self.levels {
            let start = end - usize::from(*level);
            path.push(&name[start..end]);
            end = start;
        }
        path.push(name);
        path
    }

    fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts an error and logs it at a limited rate.
    fn trouble(&self, what: &str, path: &Path, error: &io::Error) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut last_report = lock(&self.last_report);
        if last_report.is_none_or(|last_report| now.duration_since(last_report) >= TROUBLE_PAUSE) {
            *last_report = Some(now);
            (self.report)(what, path, error);
        }
    }
}

/// Marks an entry as being refreshed while it lives.
#[derive(Debug)]
pub struct Updating {
    store: Arc<Store>,
    digest: Digest,
}

impl Drop for Updating {
    fn drop(&mut self) {
        lock(&self.store.index).end_update(self.digest);
    }
}

impl Bounds {
    fn of(settings: &Settings) -> Bounds {
        Bounds {
            inactive: settings.inactive.as_secs(),
            bytes_max: settings.bytes_max,
            free_min: settings.free_min,
            loader: settings.loader,
            manager: settings.manager,
        }
    }
}

/// Changes the owner of a directory to the user that writes to it.
type Own = Box<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

/// The caches in use, by directory. They survive configuration reloads.
#[derive(Default)]
pub struct Stores {
    known: Mutex<HashMap<PathBuf, std::sync::Weak<Store>>>,
    own: std::sync::OnceLock<Own>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stores").field(&self.known).finish()
    }
}

impl Stores {
    /// Sets the function that changes the owner of cache directories opened from now on, for workers that run as
    /// another user than the process that opens them. Only the first call has an effect.
    pub fn hand_to(&self, own: Own) {
        let _ = self.own.set(own);
    }

    /// Makes the serving user the owner of a directory that others may not write to.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn hand_over(&self, folder: &Path) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        const OTHERS_WRITE: u32 = 0o002;
        match self.own.get() {
            Some(own) if std::fs::metadata(folder)?.mode() & OTHERS_WRITE == 0 => own(folder),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the cache of this directory, opening it if it is not in use. `None` if it is in use with other levels.
    ///
    /// # Errors
    ///
    /// See [`Store::open`].
    pub fn open(&self, settings: &Settings, report: Report) -> io::Result<Option<Arc<Store>>> {
        let mut known = lock(&self.known);
        known.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = known.get(&settings.path).and_then(std::sync::Weak::upgrade) {
            return Ok(store.change(settings).then_some(store));
        }
        let store = Store::open(settings, report)?;
        if let Some(own) = self.own.get() {
            own(&settings.path)?;
            own(&settings.path.join(fill::FOLDER))?;
        }
        known.insert(settings.path.clone(), Arc::downgrade(&store));
        Ok(Some(store))
    }

    /// All caches in use.
    pub fn all(&self) -> Vec<Arc<Store>> {
        let known = lock(&self.known);
        let mut all: Vec<_> = known
            .values()
            .filter_map(std::sync::Weak::upgrade)
            .collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }
}

fn unix_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// First id of this run: ids of different runs must not coincide, because both may have written the same file.
fn first_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
