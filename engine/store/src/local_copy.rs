//! The last known values of a shared store, in a folder of this node, so that the node serves and starts while the
//! engine is away. Writes, leases and watches need the engine.
//!
//! Where reads of the engine fail, those of the copy stand in for them; a value that the copy does not have is an error
//! then, because nobody knows whether it exists. A holder of a lease, who must know the present state, calls
//! [`Store::load_latest`].

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::failure::{Fault, StoreError};
use crate::file::FileStore;
use crate::lease::Lease;
use crate::limits::{AWAY_PAUSE, READ_TIMEOUT, WRITES_MAX};
use crate::values::{Change, Entry, Guard, Reach, Value, Write};
use crate::{Key, Statistics, Store, Watch};

/// A store on an engine, with a copy of what this node has read and written.
#[derive(Clone, Debug)]
pub struct LocalCopy {
    engine: Arc<dyn Store>,
    copy: FileStore,
    is_passing: fn(&Key) -> bool,
    standing: Arc<Mutex<Standing>>,
    /// Held by writers of the copy, so that its values are counted right.
    writing: Arc<Mutex<()>>,
}

/// What is known about the engine and the copy.
#[derive(Debug, Default)]
struct Standing {
    /// The engine failed with this error, and is not asked again before this moment.
    away: Option<(StoreError, Instant)>,
    /// When it last responded.
    heard: Option<Instant>,
    /// Values in the copy, and the time of the newest one when they were first counted.
    counted: Option<(u64, Option<SystemTime>)>,
    /// Reads that the copy has served.
    reads: u64,
}

/// The state of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyStanding {
    /// Values in it; `None` before the first call.
    pub entries: Option<u64>,
    /// How long ago the engine last responded, or when the newest value was written if it has not responded since the
    /// store was opened; `None` if neither is known.
    pub age: Option<Duration>,
    /// Whether the engine is away, so that the copy stands in for it.
    pub is_in_use: bool,
    /// Reads that the copy has served.
    pub reads: u64,
}

impl LocalCopy {
    /// The store `engine` with a copy in `copy`. Nothing is read yet.
    pub fn new(engine: Arc<dyn Store>, copy: FileStore) -> LocalCopy {
        LocalCopy {
            engine,
            copy,
            is_passing: |_| false,
            standing: Arc::default(),
            writing: Arc::default(),
        }
    }

    /// Leaves the values of these keys out of the copy: a node that starts without the engine has no use for them. Each
    /// write of the copy waits for the disk, and a watch is as late as the copies of all changes before.
    #[must_use]
    pub fn leaving_out(mut self, is_passing: fn(&Key) -> bool) -> LocalCopy {
        self.is_passing = is_passing;
        self
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of an engine that was away a moment ago.
    fn known_away(&self) -> Option<StoreError> {
        let standing = self.standing();
        let (error, until) = standing.away.as_ref()?;
        (Instant::now() < *until).then(|| error.clone())
    }

    fn note<T>(&self, result: &Result<T, StoreError>) {
        match result {
            Err(error) if is_away(error) => {
                self.standing().away = Some((error.clone(), Instant::now() + AWAY_PAUSE));
            }
            // Any other response comes from an engine that works.
            Ok(_) | Err(_) => {
                let mut standing = self.standing();
                standing.away = None;
                standing.heard = Some(Instant::now());
            }
        }
    }

    /// Counts the values of the copy, if they are not counted yet.
    fn count(&self) {
        if self.standing().counted.is_some() {
            return;
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.standing().counted.is_some() {
            return;
        }
        let listed = self.copy.list(&Key::default(), Reach::All);
        let entries = listed.unwrap_or_default();
        let newest = entries.iter().filter_map(|entry| match entry {
            Entry::Value { modified, .. } => Some(*modified),
            Entry::Folder(_) => None,
        });
        let newest = newest.max();
        self.standing().counted = Some((entries.len() as u64, newest));
    }

    /// Writes to the copy. If that fails, the copy is older than it could be.
    fn write(&self, writes: &[Write<'_>]) {
        self.count();
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<&Key> = writes.iter().map(Write::key).collect();
        let before = self.copy.load(&keys);
        if self.copy.save(writes, Guard::Always).is_err() {
            return;
        }
        let mut standing = self.standing();
        let Some((entries, _)) = &mut standing.counted else {
            return;
        };
        for (write, before) in writes.iter().zip(before.unwrap_or_default()) {
            match (write, before) {
                (Write::Put(..), None) => *entries += 1,
                (Write::Delete(_), Some(_)) => *entries = entries.saturating_sub(1),
                (Write::Put(..), Some(_)) | (Write::Delete(_), None) => {}
            }
        }
    }

    /// Notes that the copy has served a read.
    fn served(&self) {
        self.standing().reads += 1;
    }

    /// Calls the engine on another thread, so that a dead one can be waited for as long as is sensible.
    fn begin<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Receiver<Result<T, StoreError>>, StoreError> {
        // The result has room, so the thread never waits for somebody who has gone.
        let (sender, receiver) = sync_channel(1);
        let own = self.clone();
        let started = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                let result = call(&*own.engine);
                own.note(&result);
                let _ = sender.send(result);
            });
        match started {
            Ok(_) => Ok(receiver),
            Err(error) => {
                let what = error.to_string();
                Err(StoreError::new(Fault::Limit, self.place(), what))
            }
        }
    }

    /// What the engine returns, or what `instead` has if the engine is away. A slow engine is waited for only if
    /// `instead` has nothing.
    fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
        instead: impl Fn() -> Option<T>,
    ) -> Result<(T, Origin), StoreError> {
        self.count();
        if let Some(error) = self.known_away() {
            let found = instead().ok_or(error)?;
            self.served();
            return Ok((found, Origin::Copy));
        }
        let coming = self.begin(call)?;
        let mut result = match coming.recv_timeout(READ_TIMEOUT) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                let what = format!("no response within {} ms", READ_TIMEOUT.as_millis());
                let slow = Err(StoreError::new(Fault::Away, self.place(), what));
                self.note(&slow);
                slow
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.lost()),
        };
        if result.as_ref().is_err_and(is_away) {
            if let Some(found) = instead() {
                self.served();
                return Ok((found, Origin::Copy));
            }
            if let Ok(late) = coming.recv() {
                result = late;
            }
        }
        result.map(|found| (found, Origin::Engine))
    }

    fn lost(&self) -> StoreError {
        StoreError::new(Fault::Away, self.place(), "the call ended unexpectedly")
    }

    /// Writes what the engine has to the copy, together as far as a store takes it. If that fails, the copy is older
    /// than it could be.
    fn keep(&self, present: &[(&Key, Option<&Value>)]) {
        let lasting = |(key, _): &&(&Key, Option<&Value>)| !(self.is_passing)(key);
        let present: Vec<_> = present.iter().filter(lasting).collect();
        for part in present.chunks(WRITES_MAX) {
            let keys: Vec<&Key> = part.iter().map(|(key, _)| *key).collect();
            let before = self.copy.load(&keys).unwrap_or_default();
            let before = before
                .iter()
                .map(Option::as_ref)
                .chain(std::iter::repeat(None));
            let mut writes = Vec::new();
            for ((key, value), before) in part.iter().zip(before) {
                match (value, before) {
                    (Some(value), Some(before)) if value.bytes == before.bytes => {}
                    (Some(value), _) => writes.push(Write::Put(key, &value.bytes)),
                    (None, Some(_)) => writes.push(Write::Delete(key)),
                    (None, None) => {}
                }
            }
            if !writes.is_empty() {
                self.write(&writes);
            }
        }
    }

    /// Writes what was read to the copy.
    fn keep_read(&self, keys: &[&Key], values: &[Option<Value>]) {
        let values = values.iter().map(Option::as_ref);
        let present: Vec<_> = keys.iter().copied().zip(values).collect();
        self.keep(&present);
    }
}

/// Where a value was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Engine,
    Copy,
}

/// Whether an operator has to act or the engine to come back, while the node goes on with what it has.
fn is_away(error: &StoreError) -> bool {
    matches!(error.fault, Fault::Away | Fault::Credentials)
}

impl Store for LocalCopy {
    fn place(&self) -> &str {
        self.engine.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let own: Vec<Key> = keys.iter().map(|key| (*key).clone()).collect();
        let from_engine = move |engine: &dyn Store| {
            let keys: Vec<&Key> = own.iter().collect();
            engine.load(&keys)
        };
        let from_copy = || {
            let found = self.copy.load(keys).ok()?;
            // That a certificate is not in the copy does not mean that there is none; of its parts, one is enough.
            found.iter().any(Option::is_some).then_some(found)
        };
        let (values, origin) = self.ask(from_engine, from_copy)?;
        if origin == Origin::Engine {
            self.keep_read(keys, &values);
        }
        Ok(values)
    }

    fn load_latest(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        let result = self.engine.load_latest(keys);
        self.note(&result);
        let values = result?;
        self.keep_read(keys, &values);
        Ok(values)
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let result = self.engine.save(writes, guard);
        self.note(&result);
        result?;
        let lasting = writes
            .iter()
            .filter(|write| !(self.is_passing)(write.key()));
        let lasting: Vec<Write<'_>> = lasting.copied().collect();
        if !lasting.is_empty() {
            self.write(&lasting);
        }
        Ok(())
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let own = prefix.clone();
        let from_engine = move |engine: &dyn Store| engine.list(&own, reach);
        let (entries, _) = self.ask(from_engine, || self.copy.list(prefix, reach).ok())?;
        Ok(entries)
    }

    fn list_latest(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let result = self.engine.list_latest(prefix, reach);
        self.note(&result);
        result
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        let result = self.engine.lease(name, timeout);
        self.note(&result);
        result
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.engine.break_lease(name)
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        self.engine.leases()
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        let result = self.engine.watch(prefix);
        self.note(&result);
        Ok(Box::new(CopyingWatch {
            watch: result?,
            store: self.clone(),
        }))
    }

    fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    fn copy(&self) -> Option<CopyStanding> {
        let standing = self.standing();
        let (entries, newest) = standing.counted.unzip();
        let since_newest = || newest.flatten()?.elapsed().ok();
        let heard = standing.heard.map(|at| at.elapsed());
        Some(CopyStanding {
            entries,
            age: heard.or_else(since_newest),
            is_in_use: standing.away.is_some(),
            reads: standing.reads,
        })
    }
}

/// A watch whose changes reach the copy.
struct CopyingWatch {
    watch: Box<dyn Watch>,
    store: LocalCopy,
}

impl Watch for CopyingWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let result = self.watch.next(timeout);
        // A watch notices a dead connection within some seconds: until then that nothing has changed proves less than
        // the failure of a call.
        let is_quiet = matches!(&result, Ok(changes) if changes.is_empty());
        if !is_quiet || self.store.known_away().is_none() {
            self.store.note(&result);
        }
        let changes = result?;
        let changed = changes.iter();
        let changed = changed.map(|change| (&change.key, change.value.as_ref()));
        // Of several changes of one key, the last.
        let last: BTreeMap<&Key, Option<&Value>> = changed.collect();
        let last: Vec<(&Key, Option<&Value>)> = last.into_iter().collect();
        self.store.keep(&last);
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    struct Setup {
        engine: MemoryStore,
        store: LocalCopy,
        folder: std::path::PathBuf,
    }

    impl Setup {
        fn new(name: &str) -> Setup {
            let name = format!("sluice-local-copy-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let engine = MemoryStore::new();
            let store = LocalCopy::new(Arc::new(engine.clone()), FileStore::new(&folder));
            Setup {
                engine,
                store,
                folder,
            }
        }

        /// The same node after a restart.
        fn restarted(&self) -> LocalCopy {
            LocalCopy::new(Arc::new(self.engine.clone()), FileStore::new(&self.folder))
        }
    }

    impl Drop for Setup {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn put(store: &dyn Store, name: &str, text: &str) {
        let key = key(name);
        let write = [Write::Put(&key, text.as_bytes())];
        store.save(&write, Guard::Always).unwrap();
    }

    fn text(store: &dyn Store, name: &str) -> Result<Option<String>, StoreError> {
        let found = store.load(&[&key(name)])?.remove(0);
        Ok(found.map(|value| String::from_utf8(value.bytes).unwrap()))
    }

    #[test]
    fn what_was_read_or_written_is_there_while_the_engine_is_away() {
        let s = Setup::new("away");
        put(&s.store, "a/written.key", "w");
        put(&s.engine, "a/read", "r");
        put(&s.engine, "a/never", "n");
        assert_eq!(text(&s.store, "a/read").unwrap().as_deref(), Some("r"));
        s.engine.fail_with(Some(Fault::Away));
        for store in [&s.store, &s.restarted()] {
            assert_eq!(text(store, "a/read").unwrap().as_deref(), Some("r"));
            assert_eq!(text(store, "a/written.key").unwrap().as_deref(), Some("w"));
            let unknown = text(store, "a/never").unwrap_err();
            assert_eq!(unknown.fault, Fault::Away);
            assert_eq!(store.list(&key("a"), Reach::All).unwrap().len(), 2);
            // What must be known for sure is not guessed, and nothing changes.
            assert!(store.load_latest(&[&key("a/read")]).is_err());
            assert!(store.list_latest(&key("a"), Reach::All).is_err());
            let name = key("a/new");
            let refused = store.save(&[Write::Put(&name, b"x")], Guard::Always);
            assert_eq!(refused.unwrap_err().fault, Fault::Away);
            assert!(store.lease("x", Duration::ZERO).is_err());
        }
        use std::os::unix::fs::PermissionsExt;
        let about = std::fs::metadata(s.folder.join("a/written.key")).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_engine_counts_as_soon_as_it_is_back() {
        let s = Setup::new("back");
        put(&s.store, "a", "1");
        s.engine.fail_with(Some(Fault::Away));
        assert_eq!(text(&s.store, "a").unwrap().as_deref(), Some("1"));
        s.engine.fail_with(None);
        put(&s.engine, "a", "2");
        // Taking a lease shows that the engine is back.
        let lease = s.store.lease("x", Duration::ZERO).unwrap();
        assert_eq!(text(&s.store, "a").unwrap().as_deref(), Some("2"));
        drop(lease);
        let gone = key("a");
        s.engine
            .save(&[Write::Delete(&gone)], Guard::Always)
            .unwrap();
        assert_eq!(text(&s.store, "a").unwrap(), None);
        s.engine.fail_with(Some(Fault::Away));
        assert!(text(&s.store, "a").is_err(), "the copy has forgotten it");
    }

    #[test]
    fn a_watch_keeps_the_copy_up_to_date() {
        let s = Setup::new("watch");
        put(&s.store, "a", "1");
        let mut watch = s.store.watch(&key("")).unwrap();
        put(&s.engine, "a", "2");
        put(&s.engine, "b", "3");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(watch.next(Duration::from_secs(30)).unwrap());
        }
        s.engine.fail_with(Some(Fault::Credentials));
        assert!(watch.next(Duration::ZERO).is_err());
        let restarted = s.restarted();
        assert_eq!(text(&restarted, "a").unwrap().as_deref(), Some("2"));
        assert_eq!(text(&restarted, "b").unwrap().as_deref(), Some("3"));
    }

    #[test]
    fn a_quiet_watch_is_not_a_sign_of_an_engine_that_has_just_failed() {
        let s = Setup::new("quiet");
        put(&s.store, "a", "1");
        let mut watch = s.store.watch(&key("")).unwrap();
        s.engine.fail_next(1, Fault::Away);
        assert_eq!(text(&s.store, "a").unwrap().as_deref(), Some("1"));
        assert!(s.store.copy().unwrap().is_in_use);
        assert_eq!(watch.next(Duration::ZERO).unwrap(), []);
        assert!(s.store.copy().unwrap().is_in_use);
        put(&s.engine, "a", "2");
        assert_eq!(watch.next(Duration::ZERO).unwrap().len(), 1);
        assert!(!s.store.copy().unwrap().is_in_use);
        // What has changed meanwhile is listed and read although the copy counts again.
        put(&s.engine, "b", "3");
        s.engine.fail_next(1, Fault::Away);
        assert_eq!(s.store.list(&key(""), Reach::All).unwrap().len(), 1);
        let listed = s.store.list_latest(&key(""), Reach::All).unwrap();
        assert_eq!(listed.len(), 2);
    }

    #[test]
    fn the_state_of_the_copy_is_known() {
        let s = Setup::new("standing");
        let standing = |store: &LocalCopy| store.copy().unwrap();
        assert_eq!(standing(&s.store), CopyStanding::default());
        put(&s.store, "a", "1");
        put(&s.store, "a", "2");
        put(&s.engine, "b", "3");
        text(&s.store, "b").unwrap();
        let known = standing(&s.store);
        assert_eq!((known.entries, known.is_in_use), (Some(2), false));
        assert!(known.age.is_some());
        s.engine.fail_with(Some(Fault::Away));
        let restarted = s.restarted();
        text(&restarted, "a").unwrap();
        let known = standing(&restarted);
        assert_eq!((known.entries, known.is_in_use), (Some(2), true));
        assert_eq!(known.reads, 1);
        assert!(known.age.is_some(), "that of the newest value");
        s.engine.fail_with(None);
        let gone = key("a");
        restarted
            .save(&[Write::Delete(&gone)], Guard::Always)
            .unwrap();
        let known = standing(&restarted);
        assert_eq!((known.entries, known.is_in_use), (Some(1), false));
    }

    #[test]
    fn passing_values_are_not_copied_and_lasting_ones_beside_them_are() {
        let s = Setup::new("passing");
        let store = s.store.clone().leaving_out(|key| key.as_str() == "token");
        let (token, lasting) = (key("token"), key("lasting"));
        let both = [Write::Put(&token, b"t"), Write::Put(&lasting, b"l")];
        store.save(&both, Guard::Always).unwrap();
        let mut watch = store.watch(&key("")).unwrap();
        // Of several changes in one batch, the last is copied.
        put(&s.engine, "lasting", "2");
        put(&s.engine, "gone", "3");
        let gone = key("gone");
        let delete = [Write::Delete(&gone)];
        s.engine.save(&delete, Guard::Always).unwrap();
        put(&s.engine, "token", "4");
        let mut seen = Vec::new();
        while !seen.iter().any(|change: &Change| change.key == token) {
            seen.extend(watch.next(Duration::from_secs(30)).unwrap());
        }
        assert_eq!(text(&store, "token").unwrap().as_deref(), Some("4"));
        s.engine.fail_with(Some(Fault::Away));
        assert!(text(&store, "token").is_err());
        assert!(text(&store, "gone").is_err());
        assert_eq!(text(&store, "lasting").unwrap().as_deref(), Some("2"));
        let copied = store.list(&key(""), Reach::All).unwrap();
        assert_eq!(copied.len(), 1, "{copied:?}");
    }

    #[test]
    fn a_refused_write_does_not_reach_the_copy() {
        let s = Setup::new("refused");
        put(&s.store, "a", "1");
        let name = key("a");
        let write = [Write::Put(&name, b"2")];
        let refused = s.store.save(&write, Guard::Unchanged(&name, None));
        assert_eq!(refused.unwrap_err().fault, Fault::Refused);
        s.engine.fail_with(Some(Fault::Away));
        assert_eq!(text(&s.store, "a").unwrap().as_deref(), Some("1"));
    }

    /// An engine that does not respond before it is released.
    #[derive(Debug)]
    struct Stuck(Mutex<Option<Receiver<()>>>);

    impl Store for Stuck {
        fn place(&self) -> &str {
            "stuck"
        }
        fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
            let released = self.0.lock().unwrap().take();
            released.map(|released| released.recv());
            Ok(keys.iter().map(|_| None).collect())
        }
        fn save(&self, _: &[Write<'_>], _: Guard<'_>) -> Result<(), StoreError> {
            Ok(())
        }
        fn list(&self, _: &Key, _: Reach) -> Result<Vec<Entry>, StoreError> {
            Ok(Vec::new())
        }
        fn lease(&self, _: &str, _: Duration) -> Result<Lease, StoreError> {
            Err(StoreError::new(Fault::Held, "stuck", ""))
        }
        fn break_lease(&self, _: &str) -> Result<bool, StoreError> {
            Ok(false)
        }
        fn leases(&self) -> Result<Vec<String>, StoreError> {
            Ok(Vec::new())
        }
        fn watch(&self, _: &Key) -> Result<Box<dyn Watch>, StoreError> {
            Err(StoreError::new(Fault::Away, "stuck", ""))
        }
    }

    #[test]
    fn a_stuck_engine_is_not_waited_for_if_the_copy_has_it() {
        let s = Setup::new("stuck");
        put(&s.store, "a", "1");
        let (release, released) = sync_channel(1);
        let stuck = Arc::new(Stuck(Mutex::new(Some(released))));
        let store = LocalCopy::new(stuck, FileStore::new(&s.folder));
        // It would wait forever if the copy did not count.
        assert_eq!(text(&store, "a").unwrap().as_deref(), Some("1"));
        assert_eq!(text(&store, "a").unwrap().as_deref(), Some("1"));
        release.send(()).unwrap();
    }
}
