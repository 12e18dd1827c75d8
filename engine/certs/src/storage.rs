//! Certificates and keys under Caddy's keys, in a folder or on an engine that several nodes share. `sluice-store` keeps
//! them; the callers interpret them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_store::{
    Entry, Fault, FileStore, Guard, Key, Lease, Reach, Store, StoreError, Value, Version, Watch,
    Write,
};

use crate::failure::CertsError;
use crate::renewal::seed_of;

/// Where certificates, keys and ACME accounts are kept. Clones refer to the same store.
#[derive(Clone)]
pub struct Storage {
    store: Arc<dyn Store>,
    /// Whether it is an engine for several nodes.
    is_shared: bool,
    /// The locks that this process holds.
    held: Arc<HeldLocks>,
}

/// The names of locks, with how often each is held.
type HeldLocks = Mutex<BTreeMap<String, usize>>;

/// Two storages are equal if they keep their values at the same place.
impl PartialEq for Storage {
    fn eq(&self, other: &Storage) -> bool {
        self.store.place() == other.store.place()
    }
}

impl Eq for Storage {}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Storage").field(&self.store.place()).finish()
    }
}

/// A certificate chain and its key as stored, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPair {
    /// The chain.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

/// A value of a storage with its version, for writes that must not undo another.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The content.
    pub bytes: Vec<u8>,
    /// Its version.
    pub version: Version,
    /// When it was written.
    pub modified: SystemTime,
}

impl From<Value> for Stored {
    fn from(value: Value) -> Stored {
        Stored {
            bytes: value.bytes,
            version: value.version,
            modified: value.modified,
        }
    }
}

/// What the names of values begin with that test a storage.
pub(crate) const TRIAL: &str = "rw_test_";

impl Storage {
    /// The storage in the folder `root`, which is created by the first write.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Storage {
            store: Arc::new(FileStore::new(root)),
            is_shared: false,
            held: Arc::default(),
        }
    }

    /// The storage on an engine that other nodes use as well.
    pub fn shared(store: Arc<dyn Store>) -> Self {
        Storage {
            store,
            is_shared: true,
            held: Arc::default(),
        }
    }

    /// The default directory: `$XDG_DATA_HOME/sluice` or `$HOME/.local/share/sluice`, or `./sluice` if neither variable
    /// is set, as in some containers.
    pub fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
        let set = |name| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local").join("share")));
        data.unwrap_or_else(|| PathBuf::from(".")).join("sluice")
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Whether it is an engine that other nodes are expected to use as well.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Where the value called `name` lies, for messages: the path of its file, or the address of the engine and its key.
    pub fn place_of(&self, name: &str) -> PathBuf {
        Path::new(self.store.place()).join(name)
    }

    /// The content of a value; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CertsError> {
        Ok(self.find(name)?.map(|found| found.bytes))
    }

    /// A value with its version; `None` if it does not exist.
    pub fn find(&self, name: &str) -> Result<Option<Stored>, CertsError> {
        let found = self.load(&[name])?.pop().flatten();
        Ok(found)
    }

    /// Like [`Storage::find`], but never from a copy on this node, which has other versions and may have missed something.
    pub(crate) fn find_latest(&self, name: &str) -> Result<Option<Stored>, CertsError> {
        let key = self.key(name)?;
        let found = self.store.load_latest(&[&key])?.pop().flatten();
        Ok(found.map(Stored::from))
    }

    fn load(&self, names: &[&str]) -> Result<Vec<Option<Stored>>, CertsError> {
        let keys: Vec<Key> = names
            .iter()
            .map(|name| self.key(name))
            .collect::<Result<_, _>>()?;
        let keys: Vec<&Key> = keys.iter().collect();
        let values = self.store.load(&keys)?.into_iter();
        Ok(values.map(|value| value.map(Stored::from)).collect())
    }

    fn key(&self, name: &str) -> Result<Key, CertsError> {
        Key::new(name).map_err(|error| CertsError::Damaged {
            path: self.place_of(name),
            what: error.to_string(),
        })
    }

    /// Replaces a value.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CertsError> {
        self.write_all(&[(name, bytes)], Guard::Always)
    }

    /// Replaces a value if `lock` is still held.
    ///
    /// # Errors
    /// [`CertsError::Locked`] if another process has taken the lock over.
    pub fn write_held(
        &self,
        lock: &SharedLock,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), CertsError> {
        self.write_all(&[(name, bytes)], lock.guard())
    }

    /// Replaces all these values together if `guard` holds.
    pub fn write_all(&self, values: &[(&str, &[u8])], guard: Guard<'_>) -> Result<(), CertsError> {
        let keys = values.iter().map(|(name, _)| self.key(name));
        let keys = keys.collect::<Result<Vec<Key>, _>>()?;
        let puts = keys.iter().zip(values);
        let puts: Vec<Write<'_>> = puts
            .map(|(key, (_, bytes))| Write::Put(key, bytes))
            .collect();
        Ok(self.store.save(&puts, guard)?)
    }

    /// Writes `values` unless `name` was changed since `before` was read. Returns whether they were written.
    pub(crate) fn write_unless_changed(
        &self,
        values: &[(&str, &[u8])],
        name: &str,
        before: Option<&Version>,
    ) -> Result<bool, CertsError> {
        let key = self.key(name)?;
        match self.write_all(values, Guard::Unchanged(&key, before)) {
            Ok(()) => Ok(true),
            Err(CertsError::Store(error)) if error.fault == Fault::Refused => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a value if it is still `bytes`.
    pub(crate) fn remove_if(&self, name: &str, bytes: &[u8]) -> Result<(), CertsError> {
        let found = self.find_latest(name)?;
        let Some(found) = found.filter(|found| found.bytes == bytes) else {
            return Ok(());
        };
        let key = self.key(name)?;
        let guard = Guard::Unchanged(&key, Some(&found.version));
        match self.store.save(&[Write::Delete(&key)], guard) {
            Err(error) if error.fault != Fault::Refused => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Deletes a value if it exists.
    pub fn remove(&self, name: &str) -> Result<(), CertsError> {
        self.remove_all(&[name])
    }

    /// Deletes these values, in one change.
    pub fn remove_all(&self, names: &[&str]) -> Result<(), CertsError> {
        let keys = names.iter().map(|name| self.key(name));
        let keys = keys.collect::<Result<Vec<Key>, _>>()?;
        let deletes: Vec<Write<'_>> = keys.iter().map(Write::Delete).collect();
        Ok(self.store.save(&deletes, Guard::Always)?)
    }

    /// The names of what lies directly below `folder`: values and folders, without `folder` itself.
    pub fn names(&self, folder: &str) -> Result<Vec<String>, CertsError> {
        let prefix = self.key(folder)?;
        let entries = self.store.list(&prefix, Reach::Children)?;
        let name = |entry: &Entry| {
            let key = entry.key().as_str();
            let name = key.get(prefix.as_str().len()..).unwrap_or_default();
            name.trim_start_matches('/').to_owned()
        };
        Ok(entries.iter().map(name).collect())
    }

    /// Tests the storage: writes a value, reads it and deletes it.
    ///
    /// # Errors
    /// The error of the first step that fails.
    pub fn try_out(&self) -> Result<(), CertsError> {
        let content = format!("{:?}\n", SystemTime::now());
        // Other nodes may have the same process ID.
        let (pid, random) = (std::process::id(), seed_of(&content));
        let name = format!("{TRIAL}{pid}_{random:016x}");
        self.write(&name, content.as_bytes())?;
        let found = self.find_latest(&name)?;
        self.remove(&name)?;
        if found.is_some_and(|found| found.bytes == content.as_bytes()) {
            return Ok(());
        }
        Err(CertsError::Damaged {
            path: self.place_of(&name),
            what: "a value read back differs from the value written".to_owned(),
        })
    }

    /// The certificate `<name>.crt` with its key `<name>.key`; `None` if there is no certificate. `fits` determines
    /// whether a certificate and a key belong together; a pair that does not is returned anyway.
    pub fn read_pair(
        &self,
        name: &str,
        fits: impl Fn(&StoredPair) -> bool,
    ) -> Result<Option<StoredPair>, CertsError> {
        Ok(self.find_pair(name, fits)?.map(|(pair, _)| pair))
    }

    /// Like [`Storage::read_pair`], for a holder of a lock: never from a copy on this node.
    pub fn read_latest_pair(
        &self,
        name: &str,
        fits: impl Fn(&StoredPair) -> bool,
    ) -> Result<Option<StoredPair>, CertsError> {
        let latest = |keys: &[&Key]| self.store.load_latest(keys);
        let found = self.find_pair_by(name, fits, latest)?;
        Ok(found.map(|(pair, _)| pair))
    }

    /// Like [`Storage::read_pair`], with the version of the certificate.
    pub fn find_pair(
        &self,
        name: &str,
        fits: impl Fn(&StoredPair) -> bool,
    ) -> Result<Option<(StoredPair, Version)>, CertsError> {
        self.find_pair_by(name, fits, |keys| self.store.load(keys))
    }

    fn find_pair_by(
        &self,
        name: &str,
        fits: impl Fn(&StoredPair) -> bool,
        load: impl Fn(&[&Key]) -> Result<Vec<Option<Value>>, StoreError>,
    ) -> Result<Option<(StoredPair, Version)>, CertsError> {
        let [certificate_name, key_name] = [format!("{name}.crt"), format!("{name}.key")];
        let keys = [self.key(&certificate_name)?, self.key(&key_name)?];
        let mut found = load(&keys.each_ref())?.into_iter();
        let (certificate, key) = (found.next().flatten(), found.next().flatten());
        let key = match (&certificate, key) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(self.missing(&key_name)),
            (_, Some(key)) => key.bytes,
        };
        let found = certificate.map(|found| {
            let pair = StoredPair {
                certificate: found.bytes,
                key: key.clone(),
            };
            (pair, found.version)
        });
        if found.as_ref().is_some_and(|(pair, _)| fits(pair)) {
            return Ok(found);
        }
        // A version of sluice without the journal was killed after it had renamed the key.
        let Ok(Some(certificate)) = self.find(&format!("{certificate_name}.next")) else {
            return Ok(found);
        };
        let moved = StoredPair {
            certificate: certificate.bytes,
            key,
        };
        if !fits(&moved) {
            return Ok(found);
        }
        // The pair is complete whether or not it can be written now; another process may be doing so as well.
        let _ = self.write(&certificate_name, &moved.certificate);
        Ok(Some((moved, certificate.version)))
    }

    /// The error for a value that must exist.
    fn missing(&self, name: &str) -> CertsError {
        CertsError::io(
            "read",
            &self.place_of(name),
            std::io::ErrorKind::NotFound.into(),
        )
    }

    /// Replaces the certificate `<name>.crt` and its key `<name>.key` together.
    pub fn write_pair(&self, name: &str, pair: &StoredPair) -> Result<(), CertsError> {
        let [certificate, key] = [format!("{name}.crt"), format!("{name}.key")];
        self.write_all(&Self::pair_values(&certificate, &key, pair), Guard::Always)
    }

    /// A pair as values. The key goes first: readers without our lock then find a pair that does not fit, not one that
    /// fits and is half old.
    pub(crate) fn pair_values<'a>(
        certificate: &'a str,
        key: &'a str,
        pair: &'a StoredPair,
    ) -> [(&'a str, &'a [u8]); 2] {
        [(key, &pair.key), (certificate, &pair.certificate)]
    }

    /// Acquires the lock called `name` among all processes with this storage, waiting at most `timeout`. The lock of a
    /// process that died ends by itself within seconds.
    pub fn shared_lock(&self, name: &str, timeout: Duration) -> Result<SharedLock, CertsError> {
        let lease = self.store.lease(name, timeout);
        let lease = lease.map_err(|error| match error.fault {
            Fault::Held => CertsError::Locked(self.place_of(&format!("locks/{name}.lock"))),
            _ => error.into(),
        })?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held.entry(name.to_owned()).or_default() += 1;
        Ok(SharedLock {
            lease,
            name: name.to_owned(),
            held: self.held.clone(),
        })
    }

    /// The names of the locks that this process holds.
    pub fn held_locks(&self) -> Vec<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.keys().cloned().collect()
    }

    /// Watches all values.
    pub(crate) fn watch(&self) -> Result<Box<dyn Watch>, CertsError> {
        Ok(self.store.watch(&Key::default())?)
    }

    /// The names of all values below `folder`, and when they were written, as the engine has them now.
    pub(crate) fn all_latest(&self, folder: &str) -> Result<Vec<(String, SystemTime)>, CertsError> {
        let entries = self.store.list_latest(&self.key(folder)?, Reach::All)?;
        let value = |entry| match entry {
            Entry::Value { key, modified, .. } => Some((key.as_str().to_owned(), modified)),
            Entry::Folder(_) => None,
        };
        Ok(entries.into_iter().filter_map(value).collect())
    }
}

/// A lock among all processes with a storage, held until it is dropped.
#[derive(Debug)]
pub struct SharedLock {
    lease: Lease,
    name: String,
    held: Arc<HeldLocks>,
}

impl SharedLock {
    /// A guard for writes that must not happen once another process has the lock.
    pub fn guard(&self) -> Guard<'_> {
        Guard::Held(self.lease.fence())
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.name);
            }
        }
    }
}

impl From<StoreError> for CertsError {
    fn from(error: StoreError) -> Self {
        CertsError::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sluice_store::memory::MemoryStore;

    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn the_locks_of_this_process_are_known() {
        let storage = Storage::shared(Arc::new(MemoryStore::new()));
        let lock = |name: &str| storage.shared_lock(name, Duration::ZERO);
        let (a, b) = (lock("a").unwrap(), lock("b").unwrap());
        assert!(lock("a").is_err());
        assert_eq!(storage.clone().held_locks(), ["a", "b"]);
        drop(a);
        assert_eq!(storage.held_locks(), ["b"]);
        drop(b);
        assert!(storage.held_locks().is_empty());
    }

    fn pair(text: &str) -> StoredPair {
        StoredPair {
            certificate: text.into(),
            key: text.into(),
        }
    }

    fn fits(pair: &StoredPair) -> bool {
        pair.certificate == pair.key
    }

    #[test]
    fn what_an_older_version_left_half_renamed_is_completed() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        storage.write_pair("a/b", &pair("old")).unwrap();
        fs::write(folder.path().join("a/b.key"), "new").unwrap();
        fs::write(folder.path().join("a/b.crt.next"), "new").unwrap();
        for _ in 0..2 {
            let found = storage.read_pair("a/b", fits).unwrap();
            assert_eq!(found, Some(pair("new")));
        }
        assert_eq!(storage.read("a/b.crt").unwrap().unwrap(), b"new");
    }

    #[test]
    fn a_storage_is_tried_out_without_a_trace() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path().join("data"));
        storage.try_out().unwrap();
        let names = fs::read_dir(folder.path().join("data")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["locks"]);
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(Storage::new(folder.path().join("file")).try_out().is_err());
    }

    /// An engine that is slow for a moment, so that reads come from the copy of this node.
    #[test]
    fn what_was_written_is_removed_although_a_copy_has_it_in_another_version() {
        let folder = TempFolder::new();
        let engine = MemoryStore::new();
        let copy =
            sluice_store::LocalCopy::new(Arc::new(engine.clone()), FileStore::new(folder.path()));
        let storage = Storage::shared(Arc::new(copy));
        storage.write("a", b"1").unwrap();
        engine.fail_with(Some(Fault::Away));
        // From now on the engine counts as away for a while.
        assert!(storage.read("a").unwrap().is_some());
        engine.fail_with(None);
        storage.remove_if("a", b"1").unwrap();
        assert!(engine.load(&[&Key::new("a").unwrap()]).unwrap()[0].is_none());
    }

    #[test]
    fn a_certificate_without_its_key_is_an_error() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        fs::write(folder.path().join("a.crt"), b"x").unwrap();
        let error = storage.read_pair("a", fits).unwrap_err();
        assert!(error.to_string().contains("a.key"), "{error}");
        assert!(matches!(storage.read("."), Err(CertsError::Damaged { .. })));
    }

    #[test]
    fn a_write_under_a_lock_that_was_lost_is_refused() {
        let store = MemoryStore::new();
        let storage = Storage::shared(Arc::new(store.clone()));
        let lock = storage.shared_lock("x", Duration::ZERO).unwrap();
        assert!(matches!(
            storage.shared_lock("x", Duration::ZERO),
            Err(CertsError::Locked(_))
        ));
        storage.write_held(&lock, "a", b"1").unwrap();
        store.break_lease("x").unwrap();
        assert!(storage.write_held(&lock, "a", b"2").is_err());
        assert_eq!(storage.read("a").unwrap().unwrap(), b"1");
    }

    #[test]
    fn names_are_those_directly_below_a_folder() {
        let storage = Storage::shared(Arc::new(MemoryStore::new()));
        for name in ["a/x/1", "a/x/2", "a/y", "ab"] {
            storage.write(name, b"").unwrap();
        }
        assert_eq!(storage.names("a").unwrap(), ["x", "y"]);
        assert_eq!(storage.names("").unwrap(), ["a", "ab"]);
        assert_eq!(storage.names("none").unwrap(), [""; 0]);
    }

    #[test]
    fn the_default_folder_follows_the_environment() {
        let with = |set: &'static [(&str, &str)]| {
            Storage::default_folder(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]),
            Path::new("/d/sluice")
        );
        assert_eq!(
            with(&[("XDG_DATA_HOME", ""), ("HOME", "/h")]),
            Path::new("/h/.local/share/sluice")
        );
        assert_eq!(with(&[]), Path::new("./sluice"));
    }
}
