//! Stored answers: a file for each, an index in memory, and a thread that loads the index and keeps both within their
//! bounds. What may be stored and what an answer is used for is left to others.
//!
//! A file is written under another name and renamed when it is whole, so that whatever ends the process leaves the old
//! answer or none. Writing and opening block the worker. Both are short, as in `files`: what is written goes to the
//! system's own cache, and contents that are not small are sent by the system itself.

mod digest;
mod fill;
mod flight;
mod index;
mod keeper;
mod opened;
mod record;

pub use digest::Digest;
pub use fill::Fill;
pub use flight::{Lead, Outcome, Turn, Wait};
pub use opened::{Opened, Stored};

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_message::caching::{Times, variant};
use sluice_message::{Fields, Moment, ResponseHead};

use crate::limits::{DOOMED_MAX, TROUBLE_PAUSE};
use flight::Flights;
use index::{Entry, Index, Look};
use keeper::Signal;
use record::Record;

/// Where answers are stored, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folder.
    pub path: PathBuf,
    /// Into how many digits the names of each level of folders are cut: one or two, at most three levels.
    pub levels: Vec<u8>,
    /// The memory of the index in bytes.
    pub index_bytes: usize,
    /// Answers that nobody asked for so long are removed.
    pub inactive: Duration,
    /// The most that the files may take; no limit when 0. It can be exceeded for a moment.
    pub bytes_max: u64,
    /// What is to stay free on the file system; nothing when 0.
    pub free_min: u64,
    /// How many files are looked at in one go when the index is loaded, and how long the pause is between two.
    pub loader: (usize, Duration),
}

/// What goes wrong without breaking a request is told to this.
pub type Tell = Box<dyn Fn(&str, &Path, &io::Error) + Send + Sync>;

/// What a store has counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests by what the store had for them; the order is that of [`Counts::NAMES`].
    pub requests: [AtomicU64; 7],
    /// Bytes of contents that were sent from it.
    pub sent: AtomicU64,
    /// Responses stored in a cache.
    pub stored: AtomicU64,
    /// Answers that were removed because there was no room or nobody asked for them.
    pub evicted: AtomicU64,
    /// Files that could not be written or read.
    pub failures: AtomicU64,
}

impl Counts {
    /// What a store can have for a request, as nginx names it.
    pub const NAMES: [&'static str; 7] = [
        "hit",
        "miss",
        "expired",
        "stale",
        "updating",
        "revalidated",
        "bypass",
    ];
}

/// How full a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fullness {
    /// Answers in it.
    pub entries: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Memory that the index stands for.
    pub index_bytes: usize,
}

/// The answers in one folder.
pub struct Store {
    path: PathBuf,
    levels: Vec<u8>,
    /// Tells the entries of this store from those of others in the memory of a worker.
    number: u64,
    bounds: Mutex<Bounds>,
    index: Mutex<Index>,
    flights: Flights,
    /// Whether the index does not know all files yet.
    is_cold: AtomicBool,
    next: AtomicU64,
    /// One at a time changes the beginning of a file.
    renewing: Mutex<()>,
    /// Files to be removed.
    doomed: Mutex<Vec<Digest>>,
    signal: Arc<Signal>,
    tell: Tell,
    told: Mutex<Option<Instant>>,
    /// What it has counted.
    pub counts: Counts,
}

/// What the keeper goes by.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    inactive: u64,
    bytes_max: u64,
    free_min: u64,
    loader: (usize, Duration),
}

/// Where the answer to a request is, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What its file is called.
    pub digest: Digest,
}

/// What there is for a request.
#[derive(Clone, Debug)]
pub enum Found {
    /// An answer, fresh or not.
    Stored(std::rc::Rc<Stored>),
    /// Asking failed lately with this status, which is to be told.
    Failed(u16),
    /// Nothing.
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
    /// Opens the folder, which is made if there is none, and begins to load what is in it.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written to, or there can be no more threads.
    pub fn open(settings: &Settings, tell: Tell) -> io::Result<Arc<Store>> {
        static STORES: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(settings.path.join(fill::FOLDER))?;
        let store = Arc::new(Store {
            path: settings.path.clone(),
            levels: settings.levels.clone(),
            number: STORES.fetch_add(1, Ordering::Relaxed),
            bounds: Mutex::new(Bounds::of(settings)),
            index: Mutex::new(Index::new(settings.index_bytes)),
            flights: Flights::default(),
            is_cold: AtomicBool::new(true),
            next: AtomicU64::new(first_id()),
            renewing: Mutex::default(),
            doomed: Mutex::default(),
            signal: Arc::default(),
            tell,
            told: Mutex::default(),
            counts: Counts::default(),
        });
        keeper::start(&store)?;
        Ok(store)
    }

    /// Goes by other bounds from now on. Folder and levels cannot change; says whether they are the same.
    pub fn change(&self, settings: &Settings) -> bool {
        if self.path != settings.path || self.levels != settings.levels {
            return false;
        }
        *lock(&self.bounds) = Bounds::of(settings);
        lock(&self.index).held_max = settings.index_bytes;
        self.signal.wake();
        true
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still being loaded.
    pub fn is_loading(&self) -> bool {
        self.is_cold.load(Ordering::Acquire)
    }

    /// How full it is.
    pub fn fullness(&self) -> Fullness {
        let index = lock(&self.index);
        Fullness {
            entries: index.entries,
            bytes: index.bytes,
            index_bytes: index.held,
        }
    }

    /// What there is for a request with this key and these fields. `now` is in seconds since 1970.
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
                return (
                    place,
                    self.find_unloaded(opened, digest, key, (now, moment)),
                );
            }
            Look::Fork(_) | Look::Nothing => return (place, Found::Nothing),
        };
        match self.open_known(opened, digest, id, moment) {
            Some(stored) if stored.key() == key && stored.variant() == text => {
                (place, Found::Stored(stored))
            }
            _ => (place, Found::Nothing),
        }
    }

    fn of_variant(&self, key: &[u8], names: &[u8], request: &Fields, text: &mut Vec<u8>) -> Digest {
        variant(names, request, text);
        Digest::of(&[key, b"\0", names, b"\0", text])
    }

    /// The file of an answer that the index knows; it forgets what cannot be read.
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

    /// While the index is loaded its files are looked for directly.
    fn find_unloaded(
        &self,
        opened: &Opened,
        digest: Digest,
        key: &[u8],
        (now, moment): (u64, Moment),
    ) -> Found {
        let Some(found) = keeper::examine(&self.file(digest), digest) else {
            return Found::Nothing;
        };
        if *found.key != *key || !found.names.is_empty() {
            return Found::Nothing;
        }
        let id = self.next_id();
        self.learn(digest, found, id, now);
        match self.open_known(opened, digest, id, moment) {
            Some(stored) => Found::Stored(stored),
            None => Found::Nothing,
        }
    }

    /// Takes a file into the index that was there before, unless it knows that place.
    fn learn(&self, digest: Digest, found: keeper::Examined, id: u64, now: u64) {
        let mut index = lock(&self.index);
        if index.look(digest, &found.key, now) != Look::Nothing {
            return;
        }
        if !found.names.is_empty() {
            index.fork(Digest::of(&[&found.key]), &found.names, now);
        }
        let entry = Entry {
            key: found.key,
            id,
            bytes: found.bytes,
        };
        index.store(digest, entry, now);
        self.shrink(&mut index);
    }

    /// Counts a use of a place; gives how many there were, this one included.
    pub fn count_use(&self, place: &Place, now: u64) -> u32 {
        let mut index = lock(&self.index);
        let uses = index.count(place.digest, now);
        self.shrink(&mut index);
        uses
    }

    /// Tells until `until` that asking has failed with this status.
    pub fn note_failure(&self, place: &Place, status: u16, until: u64, now: u64) {
        let mut index = lock(&self.index);
        index.fail(place.digest, status, until, now);
        self.shrink(&mut index);
    }

    /// Whether it is the turn of this request to fill a place, or whose turn it is to be waited for.
    pub fn turn(self: &Arc<Self>, place: &Place, age_max: Duration, now: Moment) -> Turn {
        self.flights.turn(self, place.digest, age_max, now)
    }

    /// Notes that a fresh answer for a place is fetched, unless another request is doing so.
    pub fn begin_update(self: &Arc<Self>, place: &Place) -> Option<Updating> {
        let is_first = lock(&self.index).begin_update(place.digest);
        is_first.then(|| Updating {
            store: self.clone(),
            digest: place.digest,
        })
    }

    /// Begins to store an answer; `None` where it has no room, which was told.
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

    /// Takes a new file into the index; the fill has renamed it.
    fn take_in(&self, digest: Digest, record: &Record, bytes: u64) {
        let now = unix_now();
        let mut index = lock(&self.index);
        if !record.names.is_empty() {
            index.fork(Digest::of(&[&record.key]), &record.names, now);
        }
        let entry = Entry {
            key: record.key.as_slice().into(),
            id: self.next_id(),
            bytes,
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

    /// Gives a stored answer other fields and times, as its upstream has said (RFC 9111, section 4.3.4). Where they take
    /// more room than its file has, it is stored anew if it is small, and else forgotten: it may not stay as it was.
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
                lock(&self.index).renew(stored.digest, stored.id, self.next_id());
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.trouble("cannot update a cached response", &file, &error);
                }
                lock(&self.index).remove_id(stored.digest, stored.id);
            }
        }
    }

    /// Removes all answers with this key, whatever they vary by. Gives how many there were.
    pub fn purge(&self, key: &[u8]) -> usize {
        let mut index = lock(&self.index);
        let digest = Digest::of(&[key]);
        let found = match index.look(digest, key, unix_now()) {
            Look::Fork(_) => index.with_key(key),
            Look::Stored(_) => vec![digest],
            Look::Failed(_) | Look::Nothing => {
                index.remove(digest);
                // It may be there, unknown to the index as yet.
                match self.is_loading() && self.file(digest).exists() {
                    true => vec![digest],
                    false => Vec::new(),
                }
            }
        };
        self.remove_all(index, found)
    }

    /// Removes all answers whose keys begin so. Gives how many there were.
    pub fn purge_beginning(&self, prefix: &[u8]) -> usize {
        let index = lock(&self.index);
        let found = index.with_prefix(prefix);
        self.remove_all(index, found)
    }

    fn remove_all(&self, mut index: MutexGuard<'_, Index>, found: Vec<Digest>) -> usize {
        found.iter().for_each(|digest| _ = index.remove(*digest));
        drop(index);
        // Before the answer to whoever purges, so that not even a restart brings them back.
        found.iter().for_each(|digest| self.unlink(*digest));
        found.len()
    }

    /// Forgets an answer that may not be used again.
    pub fn forget(&self, stored: &Stored) {
        if lock(&self.index).remove_id(stored.digest, stored.id) {
            self.doom(stored.digest);
        }
    }

    /// Forgets what there is no memory for; the keeper removes the files.
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

    /// The file of an answer: its name is the digest, and folders are called by its last digits.
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

    /// Counts what has gone wrong, and tells of it once in a while.
    fn trouble(&self, what: &str, path: &Path, error: &io::Error) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut told = lock(&self.told);
        if told.is_none_or(|told| now.duration_since(told) >= TROUBLE_PAUSE) {
            *told = Some(now);
            (self.tell)(what, path, error);
        }
    }
}

/// Notes that a fresh answer is fetched, as long as it lives.
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
        }
    }
}

/// Makes a folder that of the user who writes to it.
type Own = Box<dyn Fn(&Path) -> io::Result<()> + Send + Sync>;

/// The stores in use, by their folders: they outlive configurations.
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
    /// Has `own` make the folders of all stores opened from now on those of the user who writes to them, where that is not
    /// who opens them. Counts once.
    pub fn hand_to(&self, own: Own) {
        let _ = self.own.set(own);
    }

    /// Makes a folder that others may not write to that of the user who serves, where there is one.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn hand_over(&self, folder: &Path) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        const OTHERS_WRITE: u32 = 0o002;
        match self.own.get() {
            Some(own) if std::fs::metadata(folder)?.mode() & OTHERS_WRITE == 0 => own(folder),
            Some(_) | None => Ok(()),
        }
    }

    /// The store of this folder, opened if nobody uses it. `None` if it is in use with other levels.
    ///
    /// # Errors
    ///
    /// See [`Store::open`].
    pub fn open(&self, settings: &Settings, tell: Tell) -> io::Result<Option<Arc<Store>>> {
        let mut known = lock(&self.known);
        known.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = known.get(&settings.path).and_then(std::sync::Weak::upgrade) {
            return Ok(store.change(settings).then_some(store));
        }
        let store = Store::open(settings, tell)?;
        if let Some(own) = self.own.get() {
            own(&settings.path)?;
            own(&settings.path.join(fill::FOLDER))?;
        }
        known.insert(settings.path.clone(), Arc::downgrade(&store));
        Ok(Some(store))
    }

    /// All that are in use.
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

/// Numbers of one run are not those of another, for the fillings of files that both have made.
fn first_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests;
