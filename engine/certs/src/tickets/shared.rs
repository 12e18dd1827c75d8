//! Session ticket secrets in a storage shared by several instances, so that a session begun with one can be resumed
//! with another. The parent module derives the keys of policies from them.
//!
//! The file is not shared with Caddy: only sluice can read the contents of its tickets, so the keys would be useless to
//! Caddy. A key is in the file for a while before it becomes active, so that no instance receives a ticket whose key it
//! does not know.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Rotation, SECRET_BYTES, Secret, seconds};
use crate::failure::CertsError;
use crate::limits::{TICKET_KEY_LEAD, TICKET_KEYS_MAX, TICKET_LOCK_WAIT};
use crate::storage::{SharedLock, Storage};

/// The file in the storage.
const FILE: &str = "session_tickets/keys.json";

/// The lock for changes.
const LOCK: &str = "session_tickets";

/// The secrets shared by all instances with the same storage.
pub struct SharedKeys {
    storage: Storage,
    rotation: Rotation,
    /// The newest first.
    secrets: RwLock<Vec<Secret>>,
    /// Incremented on each change, starting at 1.
    generation: AtomicU64,
}

impl SharedKeys {
    /// The secrets in `storage`; creates them if there are none.
    ///
    /// # Errors
    /// The storage cannot be read or written, or the file is malformed.
    pub fn open(
        storage: Storage,
        rotation: Rotation,
        now: SystemTime,
    ) -> Result<Arc<SharedKeys>, CertsError> {
        let keys = SharedKeys {
            storage,
            rotation,
            secrets: RwLock::default(),
            generation: AtomicU64::new(0),
        };
        match keys.refresh(now) {
            // Those that are known serve until the storage is back.
            Err(CertsError::Store(_)) if !keys.secrets().is_empty() => {}
            done => done?,
        }
        Ok(Arc::new(keys))
    }

    /// Whether these are the keys of `storage` with this `rotation`.
    pub fn are_of(&self, storage: &Storage, rotation: Rotation) -> bool {
        self.storage == *storage && self.rotation == rotation
    }

    /// Loads changes of other instances, and creates a new secret if due. On an error the known secrets remain in use.
    ///
    /// # Errors
    /// Like [`SharedKeys::open`].
    pub fn refresh(&self, now: SystemTime) -> Result<(), CertsError> {
        let now = seconds(now);
        let mut found = self.read()?;
        let mut done = Ok(());
        if self.next(&found, now).is_some() {
            match self.rotate(now) {
                Ok(rotated) => found = rotated,
                Err(error) => done = Err(error),
            }
        }
        let mut known = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        if *known != found {
            *known = found;
            self.generation.fetch_add(1, Ordering::Release);
        }
        done
    }

    /// Creates a new secret, unless another instance has been faster.
    fn rotate(&self, now: u64) -> Result<Vec<Secret>, CertsError> {
        let lock = self.storage.shared_lock(LOCK, TICKET_LOCK_WAIT)?;
        let mut found = self.read()?;
        if let Some(from) = self.next(&found, now) {
            let made = Secret::new(from).map_err(|error| CertsError::Signing(error.to_string()))?;
            let ahead = now.saturating_add(2 * TICKET_KEY_LEAD.as_secs());
            found.retain(|s| self.rotation.until(s.from) > now && s.from <= ahead);
            found.insert(0, made);
            // One of them is not active yet.
            found.truncate(self.rotation.keys_max + 1);
            self.write(&lock, &found)?;
        }
        Ok(found)
    }

    /// When a new secret should become active; `None` if none is due.
    fn next(&self, found: &[Secret], now: u64) -> Option<u64> {
        let lead = TICKET_KEY_LEAD.as_secs();
        let Some(newest) = found.first() else {
            return Some(now);
        };
        if !self.rotation.changes {
            return None;
        }
        let end = newest.from.saturating_add(self.rotation.interval.as_secs());
        if end <= now {
            // No instance was running for a while, so none has to be waited for.
            return Some(now);
        }
        // A secret further in the future than any instance creates them was made before the clock was set back; replace
        // it.
        if newest.from > now.saturating_add(2 * lead) {
            return Some(now);
        }
        (end <= now.saturating_add(lead)).then_some(end)
    }

    pub(super) fn rotation(&self) -> Rotation {
        self.rotation
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(super) fn secrets(&self) -> Vec<Secret> {
        self.secrets
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn read(&self) -> Result<Vec<Secret>, CertsError> {
        let Some(text) = self.storage.read(FILE)? else {
            return Ok(Vec::new());
        };
        decode(&text).ok_or_else(|| CertsError::Damaged {
            path: self.storage.place_of(FILE),
            what: "the file does not contain session ticket keys; remove it to create new ones"
                .to_owned(),
        })
    }

    fn write(&self, lock: &SharedLock, secrets: &[Secret]) -> Result<(), CertsError> {
        let keys = secrets
            .iter()
            .map(|secret| json!({"from": secret.from, "secret": STANDARD.encode(secret.bytes)}));
        let text = json!({"keys": keys.collect::<Vec<Value>>()});
        self.storage
            .write_held(lock, FILE, text.to_string().as_bytes())
    }
}

/// Strict: a secret of zeros or of the wrong length is rejected.
fn decode(text: &[u8]) -> Option<Vec<Secret>> {
    let text: Value = serde_json::from_slice(text).ok()?;
    let keys = text.get("keys")?.as_array()?;
    if keys.len() > TICKET_KEYS_MAX + 1 {
        return None;
    }
    let mut secrets = Vec::with_capacity(keys.len());
    for key in keys {
        let bytes = STANDARD.decode(key.get("secret")?.as_str()?).ok()?;
        let bytes = <[u8; SECRET_BYTES]>::try_from(bytes).ok()?;
        if bytes == [0; SECRET_BYTES] {
            return None;
        }
        let from = key.get("from")?.as_u64()?;
        secrets.push(Secret { from, bytes });
    }
    // The newest first, whatever the order in the file.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.from));
    Some(secrets)
}

/// Policies share keys only if they refer to the same object.
impl PartialEq for SharedKeys {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for SharedKeys {}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKeys({})", self.storage.place_of(FILE).display())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::RwLock;
    use std::time::{Duration, UNIX_EPOCH};

    use sluice_store::memory::MemoryStore;
    use sluice_store::{FileStore, LocalCopy};

    use super::super::{Sealer, Source};
    use super::*;
    use crate::tests::TempFolder;

    const HOUR: u64 = 3600;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn open(folder: &TempFolder, now: u64) -> Arc<SharedKeys> {
        let rotation = Rotation::new(Duration::from_secs(HOUR), 2);
        SharedKeys::open(Storage::new(folder.path()), rotation, at(now)).unwrap()
    }

    fn sealer(keys: &Arc<SharedKeys>, scope: &str) -> Sealer {
        Sealer {
            source: Source::Shared(keys.clone()),
            scope: scope.to_owned(),
            ring: RwLock::default(),
        }
    }

    #[test]
    fn instances_open_the_tickets_of_one_another_under_the_same_policy_only() {
        let folder = TempFolder::new();
        let (one, two) = (open(&folder, HOUR), open(&folder, HOUR));
        let ticket = sealer(&one, "a").seal(b"session", HOUR).unwrap();
        let opened = sealer(&two, "a").open(&ticket, HOUR);
        assert_eq!(opened.as_deref(), Some(&b"session"[..]));
        assert_eq!(sealer(&two, "b").open(&ticket, HOUR), None);
        assert_eq!(sealer(&one, "b").open(&ticket, HOUR), None);
        let path = folder.path().join(FILE);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A restart changes nothing.
        let third = open(&folder, HOUR + 5);
        assert!(sealer(&third, "a").open(&ticket, HOUR + 5).is_some());
    }

    #[test]
    fn a_key_is_known_to_all_before_it_is_used_and_gone_when_it_is_old() {
        let folder = TempFolder::new();
        let (one, two) = (open(&folder, HOUR), open(&folder, HOUR));
        let (here, there) = (sealer(&one, "a"), sealer(&two, "a"));
        let first = here.seal(b"1", HOUR).unwrap();
        let lead = TICKET_KEY_LEAD.as_secs();
        // One of them creates the next key, and still encrypts with the old one.
        let soon = 2 * HOUR - lead;
        one.refresh(at(soon)).unwrap();
        let second = here.seal(b"2", soon).unwrap();
        assert_eq!(first[..16], second[..16]);
        two.refresh(at(soon + 5)).unwrap();
        assert_eq!(one.secrets().len(), 2);
        // All use it from the same time on, and each accepts the tickets of the others.
        let third = here.seal(b"3", 2 * HOUR).unwrap();
        assert_ne!(second[..16], third[..16]);
        assert!(there.open(&third, 2 * HOUR).is_some());
        assert_eq!(there.seal(b"4", 2 * HOUR).unwrap()[..16], third[..16]);
        assert!(there.open(&first, 3 * HOUR - 1).is_some());
        assert!(there.open(&first, 3 * HOUR).is_none());
        for turn in 2..1000 {
            one.refresh(at(turn * HOUR)).unwrap();
            assert!(one.secrets().len() <= 3);
        }
        assert!(here.open(&third, 999 * HOUR).is_none());
    }

    #[test]
    fn many_instances_at_once_make_one_key() {
        let folder = TempFolder::new();
        let started: Vec<_> = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| open(&folder, HOUR)))
                .collect();
            starting
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect()
        });
        let first = started[0].secrets();
        assert_eq!(first.len(), 1);
        assert!(started.iter().all(|keys| keys.secrets() == first));
    }

    #[test]
    fn a_damaged_file_is_named_and_what_was_known_is_kept() {
        let folder = TempFolder::new();
        let keys = open(&folder, HOUR);
        let ticket = sealer(&keys, "a").seal(b"x", HOUR).unwrap();
        let zeros = STANDARD.encode([0; SECRET_BYTES]);
        for damaged in [
            "",
            "{}",
            r#"{"keys":[{"from":1}]}"#,
            r#"{"keys":[{"from":1,"secret":"AAAA"}]}"#,
            &format!(r#"{{"keys":[{{"from":1,"secret":"{zeros}"}}]}}"#),
        ] {
            std::fs::write(folder.path().join(FILE), damaged).unwrap();
            let error = keys.refresh(at(HOUR)).unwrap_err();
            assert!(error.to_string().contains("keys.json"), "{error}");
            let rotation = Rotation::default();
            let storage = Storage::new(folder.path());
            assert!(SharedKeys::open(storage, rotation, at(HOUR)).is_err());
        }
        assert!(sealer(&keys, "a").open(&ticket, HOUR).is_some());
        // They expire nevertheless.
        assert!(sealer(&keys, "a").open(&ticket, 3 * HOUR).is_none());
        assert!(sealer(&keys, "a").seal(b"x", 3 * HOUR).is_none());
    }

    #[test]
    fn known_keys_are_used_while_the_engine_is_away() {
        let (engine, copy) = (MemoryStore::new(), TempFolder::new());
        let storage = || {
            let copy = FileStore::new(copy.path());
            Storage::shared(Arc::new(LocalCopy::new(Arc::new(engine.clone()), copy)))
        };
        let rotation = Rotation::new(Duration::from_secs(HOUR), 2);
        let open = |now| SharedKeys::open(storage(), rotation, at(now));
        let ticket = sealer(&open(HOUR).unwrap(), "a").seal(b"x", HOUR).unwrap();
        engine.fail_with(Some(sluice_store::Fault::Away));
        // A key is due, and the process starts nevertheless.
        let keys = open(2 * HOUR).unwrap();
        assert!(sealer(&keys, "a").open(&ticket, 2 * HOUR).is_some());
        assert!(keys.refresh(at(2 * HOUR)).is_err());
        engine.fail_with(None);
        keys.refresh(at(2 * HOUR)).unwrap();
        assert_eq!(keys.secrets().len(), 2);
    }

    #[test]
    fn a_clock_that_was_far_ahead_stops_nothing() {
        let folder = TempFolder::new();
        let ahead = open(&folder, 1000 * HOUR);
        assert_eq!(ahead.secrets().len(), 1);
        let keys = open(&folder, HOUR);
        assert!(sealer(&keys, "a").seal(b"x", HOUR).is_some());
        keys.refresh(at(HOUR + 5)).unwrap();
        assert_eq!(keys.secrets().len(), 1);
    }
}
