//! A store whose secrets are encrypted before they reach the engine: private keys are of no use to those who can read
//! only the store, its backups or the network.
//!
//! The values of keys that end with `.key` are encrypted, and those below `session_tickets` and `stek`, which hold the
//! keys of session tickets. The metadata of ACME accounts and of certificates (`.json`) contains no private keys:
//! certmagic keeps an account's key beside it, under `.key`. The JSON stays readable for Caddy and for operators.
//! Values that are not encrypted are read as they are, so that an existing store is taken over; `reseal` encrypts them.
//!
//! AES-256-GCM with a random nonce; the key of the store is authenticated with the value, so that no value can be put
//! in the place of another. A random nonce of 96 bits allows 2^32 values per encryption key (NIST SP 800-38D, section
//! 8.3); a fleet writes some thousands a year.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};

use crate::calls::{Statistics, checked};
use crate::failure::{Fault, StoreError};
use crate::lease::Lease;
use crate::reseal::{self, ResealOutcome, ResealReport};
use crate::values::{Change, Entry, Guard, Reach, Value, Write};
use crate::{CopyStanding, Key, Store, Watch};

/// What an encrypted value begins with.
const MAGIC: &[u8] = b"sluice sealed 1\n";

/// The length of the text that names an encryption key: enough to tell the keys of an operator apart.
const ID_LEN: usize = 8;

/// An encryption key.
#[derive(Clone)]
pub struct SealKey {
    key: Arc<LessSafeKey>,
    /// The first digits of a digest of the key.
    id: String,
}

/// Why a text is not an encryption key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASealKey;

/// Which values are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealScope {
    /// Private keys and the keys of session tickets.
    #[default]
    Secrets,
    /// All values.
    All,
}

/// A store that encrypts secrets. Sizes in its lists are those of the encrypted values.
#[derive(Debug)]
pub struct SealedStore {
    inner: Box<dyn Store>,
    seals: Arc<Seals>,
}

#[derive(Debug)]
struct Seals {
    place: String,
    /// The first encrypts, all decrypt.
    keys: Vec<SealKey>,
    scope: SealScope,
}

impl SealKey {
    /// The key of these bytes.
    pub fn new(bytes: &[u8; 32]) -> SealKey {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("the cipher takes 32 bytes");
        let digest = digest(&SHA256, bytes);
        let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let mut id: String = digits.collect();
        id.truncate(ID_LEN);
        SealKey {
            key: Arc::new(LessSafeKey::new(key)),
            id,
        }
    }

    /// The key in a file or a variable: 32 bytes, or 64 hexadecimal digits with white space around them.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &[u8]) -> Result<SealKey, NotASealKey> {
        if let Ok(bytes) = text.try_into() {
            return Ok(SealKey::new(bytes));
        }
        let digits = text.trim_ascii();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(NotASealKey);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(NotASealKey);
            };
            *byte = (high * 16 + low) as u8;
        }
        Ok(SealKey::new(&bytes))
    }

    /// What names this key in messages and in values; it does not reveal the key.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl SealedStore {
    /// A store on `inner` that encrypts with the first of `keys` and decrypts with all of them.
    ///
    /// # Errors
    /// [`Fault::Setting`] if there is no key.
    pub fn new(
        inner: Box<dyn Store>,
        keys: Vec<SealKey>,
        scope: SealScope,
    ) -> Result<SealedStore, StoreError> {
        let place = inner.place().to_owned();
        if keys.is_empty() {
            let what = "no encryption key is configured";
            return Err(StoreError::new(Fault::Setting, &place, what));
        }
        Ok(SealedStore {
            inner,
            seals: Arc::new(Seals { place, keys, scope }),
        })
    }

    fn reseal_one(&self, key: &Key) -> Result<ResealOutcome, StoreError> {
        let found = self.inner.load_latest(&[key])?.pop().flatten();
        let Some(value) = found.filter(|value| !self.seals.is_current(&value.bytes)) else {
            return Ok(ResealOutcome::Current);
        };
        let plain = self.seals.open(key, value.bytes)?;
        let sealed = self.seals.seal(key, &plain);
        let unchanged = Guard::Unchanged(key, Some(&value.version));
        self.inner.save(&[Write::Put(key, &sealed)], unchanged)?;
        Ok(ResealOutcome::Sealed)
    }
}

impl Seals {
    /// Decrypts the values of `keys`.
    fn opened_all(
        &self,
        keys: &[&Key],
        values: Vec<Option<Value>>,
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let pairs = keys.iter().zip(values);
        pairs.map(|(key, value)| self.opened(key, value)).collect()
    }

    fn covers(&self, key: &Key) -> bool {
        let text = key.as_str();
        let is_secret = || {
            text.ends_with(".key")
                || ["session_tickets/", "stek/"]
                    .iter()
                    .any(|folder| text.starts_with(folder))
        };
        self.scope == SealScope::All || is_secret()
    }

    fn is_current(&self, bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(MAGIC);
        rest.is_some_and(|rest| rest.starts_with(self.keys[0].id.as_bytes()))
    }

    /// The encrypted form: the magic, the ID of the key, the nonce, and the content with its tag.
    fn seal(&self, key: &Key, plain: &[u8]) -> Vec<u8> {
        let first = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).expect("aws-lc always has random bytes");
        let mut content = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        first
            .key
            .seal_in_place_append_tag(unique, Aad::from(key.as_str()), &mut content)
            .expect("a value is far smaller than what the cipher takes");
        [MAGIC, first.id.as_bytes(), &nonce, &content].concat()
    }

    /// The content of an encrypted value, or the value as it is.
    fn open(&self, key: &Key, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Ok(bytes);
        };
        let foreign = |what: String| StoreError::new(Fault::Foreign, &self.place, what);
        let damaged = || {
            foreign(format!(
                "`{key}` is encrypted, and damaged or moved from another key"
            ))
        };
        let (id, rest) = rest.split_at_checked(ID_LEN).ok_or_else(damaged)?;
        let Some(used) = self.keys.iter().find(|key| key.id.as_bytes() == id) else {
            let id = String::from_utf8_lossy(id).escape_debug().to_string();
            let what = format!("`{key}` is encrypted with the key {id}, which is not configured");
            return Err(foreign(what));
        };
        let (nonce, content) = rest.split_at_checked(NONCE_LEN).ok_or_else(damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
        let mut content = content.to_vec();
        let opened = used
            .key
            .open_in_place(nonce, Aad::from(key.as_str()), &mut content);
        Ok(opened.map_err(|_| damaged())?.to_vec())
    }

    fn opened(&self, key: &Key, value: Option<Value>) -> Result<Option<Value>, StoreError> {
        let Some(value) = value else {
            return Ok(None);
        };
        let bytes = self.open(key, value.bytes)?;
        Ok(Some(Value { bytes, ..value }))
    }
}

impl Store for SealedStore {
    fn place(&self) -> &str {
        self.inner.place()
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        self.seals.opened_all(keys, self.inner.load(keys)?)
    }

    fn load_latest(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        self.seals.opened_all(keys, self.inner.load_latest(keys)?)
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let writes = checked(writes, self.place())?;
        let sealed: Vec<Option<Vec<u8>>> = writes
            .iter()
            .map(|write| match write {
                Write::Put(key, bytes) if self.seals.covers(key) => {
                    Some(self.seals.seal(key, bytes))
                }
                Write::Put(..) | Write::Delete(_) => None,
            })
            .collect();
        let replaced = writes.iter().zip(&sealed);
        let replaced: Vec<Write<'_>> = replaced
            .map(|(write, sealed)| match sealed {
                Some(bytes) => Write::Put(write.key(), bytes),
                None => *write,
            })
            .collect();
        self.inner.save(&replaced, guard)
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        self.inner.list(prefix, reach)
    }

    fn list_latest(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        self.inner.list_latest(prefix, reach)
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        self.inner.lease(name, timeout)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.inner.break_lease(name)
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        self.inner.leases()
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        Ok(Box::new(SealedWatch {
            inner: self.inner.watch(prefix)?,
            seals: Arc::clone(&self.seals),
        }))
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn copy(&self) -> Option<CopyStanding> {
        self.inner.copy()
    }

    fn reseal(&self, report: &mut ResealReport<'_>) -> Result<(), StoreError> {
        let listed = self.inner.list(&Key::default(), Reach::All)?;
        let keys = listed.iter().map(Entry::key);
        let keys = keys.filter(|key| self.seals.covers(key)).cloned();
        let keys: Vec<Key> = keys.collect();
        reseal::each(&keys, |key| self.reseal_one(key), report)
    }
}

struct SealedWatch {
    inner: Box<dyn Watch>,
    seals: Arc<Seals>,
}

impl Watch for SealedWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let changes = self.inner.next(timeout)?.into_iter();
        changes
            .map(|Change { key, value }| {
                let value = self.seals.opened(&key, value)?;
                Ok(Change { key, value })
            })
            .collect()
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", self.id)
    }
}

impl fmt::Display for NotASealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an encryption key is 32 bytes or 64 hexadecimal digits")
    }
}

impl std::error::Error for NotASealKey {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn sealed(inner: &MemoryStore, keys: &[u8]) -> SealedStore {
        let keys = keys.iter().map(|&byte| SealKey::new(&[byte; 32])).collect();
        SealedStore::new(Box::new(inner.clone()), keys, SealScope::Secrets).unwrap()
    }

    fn stored(inner: &MemoryStore, name: &str) -> Vec<u8> {
        inner.load(&[&key(name)]).unwrap().remove(0).unwrap().bytes
    }

    fn put(store: &dyn Store, name: &str, bytes: &[u8]) {
        let key = key(name);
        store
            .save(&[Write::Put(&key, bytes)], Guard::Always)
            .unwrap();
    }

    fn get(store: &dyn Store, name: &str) -> Result<Vec<u8>, StoreError> {
        Ok(store.load(&[&key(name)])?.remove(0).unwrap().bytes)
    }

    #[test]
    fn secrets_are_encrypted_and_nothing_else() {
        let inner = MemoryStore::new();
        let store = sealed(&inner, &[1]);
        let mut watch = store.watch(&Key::default()).unwrap();
        for (name, is_secret) in [
            ("certificates/ca/a.test/a.test.key", true),
            ("session_tickets/keys.json", true),
            ("stek/stek.bin", true),
            ("certificates/ca/a.test/a.test.crt", false),
            ("acme/ca/users/me/me.json", false),
            ("a.keys", false),
        ] {
            put(&store, name, b"content");
            assert_eq!(stored(&inner, name) != b"content", is_secret, "{name}");
            assert_eq!(get(&store, name).unwrap(), b"content");
        }
        let changes = watch.next(Duration::ZERO).unwrap();
        assert_eq!(changes.len(), 6);
        for change in changes {
            assert_eq!(change.value.unwrap().bytes, b"content");
        }
        // Each time another nonce.
        let first = stored(&inner, "stek/stek.bin");
        put(&store, "stek/stek.bin", b"content");
        assert_ne!(stored(&inner, "stek/stek.bin"), first);
    }

    #[test]
    fn a_wrong_key_and_a_moved_value_have_one_clear_message() {
        let inner = MemoryStore::new();
        put(&sealed(&inner, &[1]), "a.key", b"secret");
        let error = get(&sealed(&inner, &[2]), "a.key").unwrap_err();
        assert_eq!(error.fault, Fault::Foreign);
        let id = SealKey::new(&[1; 32]).id().to_owned();
        let what = format!("`a.key` is encrypted with the key {id}, which is not configured");
        assert_eq!(error.what, what);
        let moved = stored(&inner, "a.key");
        put(&inner, "b.key", &moved);
        for cut in [0, 1, MAGIC.len(), moved.len() - 1] {
            put(&inner, "c.key", &moved[..cut.max(MAGIC.len())]);
            let error = get(&sealed(&inner, &[1]), "c.key").unwrap_err();
            assert_eq!(error.fault, Fault::Foreign, "{cut}");
        }
        let error = get(&sealed(&inner, &[1]), "b.key").unwrap_err();
        assert!(error.what.contains("moved from another key"), "{error}");
        let none = SealedStore::new(Box::new(inner), Vec::new(), SealScope::All);
        assert_eq!(none.unwrap_err().fault, Fault::Setting);
    }

    #[test]
    fn keys_are_changed_without_a_gap() {
        let inner = MemoryStore::new();
        put(&inner, "old.key", b"of Caddy, not encrypted");
        put(&sealed(&inner, &[1]), "one.key", b"1");
        let store = sealed(&inner, &[2, 1]);
        assert_eq!(get(&store, "old.key").unwrap(), b"of Caddy, not encrypted");
        assert_eq!(get(&store, "one.key").unwrap(), b"1");
        put(&store, "two.key", b"2");
        assert_eq!(resealed(&store), ["old.key", "one.key"]);
        assert_eq!(resealed(&store), Vec::<String>::new());
        let only_new = sealed(&inner, &[2]);
        for (name, content) in [
            ("old.key", &b"of Caddy, not encrypted"[..]),
            ("one.key", b"1"),
        ] {
            assert_eq!(get(&only_new, name).unwrap(), content);
        }
        put(&sealed(&inner, &[9]), "foreign.key", b"3");
        put(&inner, "late.key", b"4");
        let mut unusable = Vec::new();
        let done = store.reseal(&mut |step| {
            if let ResealOutcome::Unusable(error) = step.outcome {
                unusable.push((step.key.to_string(), error.fault, step.total));
            }
        });
        assert_eq!(done, Ok(()));
        let expected = ("foreign.key".to_owned(), Fault::Foreign, 5);
        assert_eq!(unusable, [expected]);
        assert_ne!(stored(&inner, "late.key"), b"4", "the others are encrypted");
        let plain = inner.reseal(&mut |_| {}).unwrap_err();
        assert_eq!(plain.fault, Fault::Setting);
    }

    /// The keys of the values that are encrypted anew.
    fn resealed(store: &SealedStore) -> Vec<String> {
        let mut keys = Vec::new();
        let done = store.reseal(&mut |step| {
            if step.outcome == ResealOutcome::Sealed {
                keys.push(step.key.to_string());
            }
        });
        assert_eq!(done, Ok(()));
        keys
    }

    #[test]
    fn keys_are_read_from_files_and_variables() {
        let digits = "0f".repeat(32);
        let key = SealKey::parse(format!("{digits}\n").as_bytes()).unwrap();
        assert_eq!(key.id(), SealKey::new(&[15; 32]).id());
        assert_eq!(SealKey::parse(&[15; 32]).unwrap().id(), key.id());
        for bad in ["", "0f", &*"0g".repeat(32), &*"0f".repeat(33)] {
            assert_eq!(SealKey::parse(bad.as_bytes()).unwrap_err(), NotASealKey);
        }
    }
}
