//! The keeper thread of a cache: it loads the index and then keeps the cache within its limits. Only this thread walks
//! directories and removes files in bulk, so workers never wait for that.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use sluice_net::sys::files::free_bytes;

use super::fill::{self, FOLDER};
use super::pace::Iteration;
use super::{Digest, Store, lock, unix_now};
use crate::limits::{DISK_BLOCK_BYTES, EVICTED_AT_ONCE_MAX, KEEPER_PAUSE};

/// Wakes the thread early.
#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_called: bool,
    has_ended: bool,
}

impl Signal {
    pub(super) fn wake(&self) {
        lock(&self.state).is_called = true;
        self.changed.notify_one();
    }

    pub(super) fn end(&self) {
        lock(&self.state).has_ended = true;
        self.changed.notify_one();
    }

    /// Waits until it is woken, at most for `pause`. Returns whether the store still exists.
    fn wait(&self, pause: Duration) -> bool {
        let state = lock(&self.state);
        let is_idle = |state: &mut State| !state.is_called && !state.has_ended;
        let waited = self.changed.wait_timeout_while(state, pause, is_idle);
        let (mut state, _) = waited.expect(super::NEVER_POISONED);
        state.is_called = false;
        !state.has_ended
    }

    /// Waits for `pause`, even if it is woken.
    fn rest(&self, pause: Duration) -> bool {
        let state = lock(&self.state);
        let waited = self
            .changed
            .wait_timeout_while(state, pause, |state| !state.has_ended);
        let (state, _) = waited.expect(super::NEVER_POISONED);
        !state.has_ended
    }
}

/// Starts the thread, which ends with the store.
pub(super) fn start(store: &Arc<Store>) -> io::Result<()> {
    let (weak, signal) = (Arc::downgrade(store), store.signal.clone());
    let thread = std::thread::Builder::new().name("cache".to_owned());
    thread.spawn(move || {
        load(&weak, &signal);
        while signal.wait(KEEPER_PAUSE) {
            match weak.upgrade() {
                Some(store) => store.tidy(),
                None => return,
            }
        }
    })?;
    Ok(())
}

/// Reads all existing files, in batches.
fn load(weak: &Weak<Store>, signal: &Signal) {
    let Some(store) = weak.upgrade() else { return };
    let mut iteration = Iteration::new(lock(&store.bounds).loader, Instant::now());
    let mut folders = vec![(store.path.clone(), 0)];
    let levels = store.levels.len();
    store.clean_up();
    drop(store);
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if depth < levels {
                let is_level = entry
                    .file_name()
                    .to_str()
                    .is_some_and(|name| name.len() <= 2 && name.bytes().all(is_digit));
                if is_level {
                    folders.push((entry.path(), depth + 1));
                }
                continue;
            }
            if let Some(pause) = iteration.count(Instant::now())
                && !signal.rest(pause)
            {
                return;
            }
            match weak.upgrade() {
                Some(store) => store.load_file(entry.path()),
                None => return,
            }
        }
    }
    if let Some(store) = weak.upgrade() {
        let _unpurged = lock(&store.index);
        store.is_cold.store(false, Ordering::Release);
        lock(&store.purged).clear();
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The contents of a file's header block that the index needs.
pub(super) struct Examined {
    pub key: Box<[u8]>,
    pub names: Vec<u8>,
    pub bytes: u64,
}

/// Reads the header block of the file named `digest`; `None` if the file is not ours.
pub(super) fn examine(path: &Path, digest: Digest) -> Option<Examined> {
    let file = File::open(path).ok()?;
    let record = fill::read_record(&file).ok()?;
    let is_called_so = match &record.names[..] {
        [] => Digest::of(&[&record.key]) == digest,
        names => Digest::of(&[&record.key, b"\0", names, b"\0", &record.variant]) == digest,
    };
    is_called_so.then(|| Examined {
        bytes: (record.block_len as u64 + record.content_len).next_multiple_of(DISK_BLOCK_BYTES),
        key: record.key.into(),
        names: record.names,
    })
}

impl Store {
    fn load_file(&self, path: PathBuf) {
        let name = path.file_name().map(|name| name.as_encoded_bytes());
        // A file without such a name is not ours.
        let Some(digest) = name.and_then(Digest::parse) else {
            return;
        };
        match examine(&path, digest) {
            Some(found) => self.learn(digest, found, self.next_id(), unix_now()),
            // A file that is being replaced at this moment is always complete, because replacing renames it.
            None if fill::is_cut_off(&path) => _ = std::fs::remove_file(&path),
            None => {}
        }
    }

    /// Removes incomplete files of processes that ended before finishing them.
    fn clean_up(&self) {
        let Ok(entries) = std::fs::read_dir(self.path.join(FOLDER)) else {
            return;
        };
        for entry in entries.flatten() {
            fill::remove_if_left_behind(&entry.path());
        }
    }

    /// Removes inactive entries, entries beyond the limits, and files queued for removal.
    pub(super) fn tidy(&self) {
        let doomed = std::mem::take(&mut *lock(&self.doomed));
        doomed.into_iter().for_each(|digest| self.unlink(digest));
        let bounds = *lock(&self.bounds);
        let idle_since = unix_now().saturating_sub(bounds.inactive);
        let mut manager = bounds
            .manager
            .map(|pace| Iteration::new(pace, Instant::now()));
        // Whether the store still exists after the pause that is due, if any.
        let paced = |count: &mut Option<Iteration>| match count {
            Some(iteration) => iteration
                .count(Instant::now())
                .is_none_or(|pause| self.signal.rest(pause)),
            None => true,
        };
        loop {
            let taken = lock(&self.index).take_idle(idle_since);
            match taken {
                Some((digest, true)) => self.evict(digest),
                Some((_, false)) => continue,
                None => break,
            }
            if !paced(&mut manager) {
                return;
            }
        }
        loop {
            let mut index = lock(&self.index);
            if bounds.bytes_max == 0 || index.bytes <= bounds.bytes_max {
                break;
            }
            let taken = index.take_oldest();
            drop(index);
            match taken {
                Some((digest, true)) => self.evict(digest),
                Some((_, false)) => continue,
                None => break,
            }
            if !paced(&mut manager) {
                return;
            }
        }
        self.keep_free(bounds.free_min);
    }

    fn keep_free(&self, free_min: u64) {
        if free_min == 0 {
            return;
        }
        for _ in 0..EVICTED_AT_ONCE_MAX {
            // If the free space is unknown, evict nothing.
            if !free_bytes(&self.path).is_ok_and(|free| free < free_min) {
                return;
            }
            let taken = lock(&self.index).take_oldest();
            match taken {
                Some((digest, true)) => self.evict(digest),
                Some((_, false)) => {}
                None => return,
            }
        }
    }

    fn evict(&self, digest: Digest) {
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        self.unlink(digest);
    }
}
