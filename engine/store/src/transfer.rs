//! Values from one store to another, or to and from an archive (tar) in the form of `caddy storage export`: each entry
//! is named by its key.
//!
//! A certificate, its key and its metadata are written together. Locks are not copied.

use std::io::{ErrorKind, Read, Write as Output};
use std::time::UNIX_EPOCH;

use crate::failure::{Fault, StoreError};
use crate::limits::{ENTRIES_MAX, VALUE_BYTES_MAX, WRITES_MAX};
use crate::values::{Entry, Guard, Reach, Value, Write};
use crate::{Key, Store};

/// What becomes of a value that the target has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is passed.
    Kept,
    /// It is replaced.
    Replaced,
}

/// What happened to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was written.
    Written,
    /// The target had the same.
    Same,
    /// The target had another one, which stays.
    Kept,
}

/// A step of a transfer.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The key.
    pub key: &'a Key,
    /// What happened to its value.
    pub outcome: Outcome,
    /// How many values there are; `None` if an archive is read, whose end is not known.
    pub total: Option<usize>,
}

/// Why a transfer ended early.
#[derive(Debug)]
pub enum TransferError {
    /// A store failed.
    Store(StoreError),
    /// The archive cannot be read or written.
    Archive(std::io::Error),
    /// An entry of the archive is not a value.
    Entry {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

impl From<StoreError> for TransferError {
    fn from(error: StoreError) -> Self {
        TransferError::Store(error)
    }
}

impl From<std::io::Error> for TransferError {
    fn from(error: std::io::Error) -> Self {
        TransferError::Archive(error)
    }
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransferError::Store(error) => error.fmt(f),
            TransferError::Archive(error) if error.kind() == ErrorKind::UnexpectedEof => {
                f.write_str("the archive ends too early")
            }
            TransferError::Archive(error) => write!(f, "the archive: {error}"),
            TransferError::Entry { name, what } => {
                write!(f, "`{name}` in the archive cannot be imported: {what}")
            }
        }
    }
}

impl std::error::Error for TransferError {}

/// Copies all values of `from` to `to`.
///
/// # Errors
/// What has been copied until then stays; a second attempt goes on from there.
pub fn copy(
    from: &dyn Store,
    to: &dyn Store,
    existing: Existing,
    report: impl FnMut(Step<'_>),
) -> Result<(), TransferError> {
    let keys = keys(from)?;
    let mut target = Target {
        store: to,
        existing,
        total: Some(keys.len()),
        group: Vec::new(),
        report,
    };
    for key in keys {
        // It may have been deleted meanwhile.
        if let Some(value) = from.load(&[&key])?.remove(0) {
            target.take(key, value.bytes)?;
        }
    }
    target.flush()
}

/// Writes all values of `from` to `out` as a tar archive.
///
/// # Errors
/// The store or `out` fails. The archive is incomplete then.
pub fn export(
    from: &dyn Store,
    out: impl Output,
    mut report: impl FnMut(Step<'_>),
) -> Result<(), TransferError> {
    let keys = keys(from)?;
    let mut archive = tar::Builder::new(out);
    for key in &keys {
        let Some(value) = from.load(&[key])?.remove(0) else {
            continue;
        };
        let mut header = tar::Header::new_ustar();
        header.set_size(value.bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(seconds(&value));
        archive.append_data(&mut header, key.as_str(), &*value.bytes)?;
        report(Step {
            key,
            outcome: Outcome::Written,
            total: Some(keys.len()),
        });
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

/// Writes all entries of the tar archive `archive` to `to`.
///
/// # Errors
/// What has been imported until then stays.
pub fn import(
    to: &dyn Store,
    archive: impl Read,
    existing: Existing,
    report: impl FnMut(Step<'_>),
) -> Result<(), TransferError> {
    let mut target = Target {
        store: to,
        existing,
        total: None,
        group: Vec::new(),
        report,
    };
    let mut archive = tar::Archive::new(archive);
    for (count, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let refuse = |what: String| TransferError::Entry {
            name: name.clone(),
            what,
        };
        match entry.header().entry_type() {
            tar::EntryType::Regular => {}
            tar::EntryType::Directory => continue,
            _ => return Err(refuse("it is neither a file nor a folder".to_owned())),
        }
        if count >= ENTRIES_MAX {
            return Err(refuse(format!("there are more than {ENTRIES_MAX} entries")));
        }
        if entry.size() > VALUE_BYTES_MAX as u64 {
            return Err(refuse(format!("it is larger than {VALUE_BYTES_MAX} bytes")));
        }
        let key = Key::new(name.strip_prefix("./").unwrap_or(&name));
        let key = key.map_err(|error| refuse(error.to_string()))?;
        if key.as_str().is_empty() {
            return Err(refuse("it has no name".to_owned()));
        }
        // Caddy exports the lock files of a folder as well.
        if key.as_str().starts_with("locks/") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        target.take(key, bytes)?;
    }
    target.flush()
}

fn keys(store: &dyn Store) -> Result<Vec<Key>, StoreError> {
    let entries = store.list(&Key::default(), Reach::All)?.into_iter();
    let value = |entry| match entry {
        Entry::Value { key, .. } => Some(key),
        Entry::Folder(_) => None,
    };
    Ok(entries.filter_map(value).collect())
}

fn seconds(value: &Value) -> u64 {
    let since = value.modified.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The store that is written to, with values that belong together.
struct Target<'a, R> {
    store: &'a dyn Store,
    existing: Existing,
    total: Option<usize>,
    group: Vec<(Key, Vec<u8>)>,
    report: R,
}

impl<R: FnMut(Step<'_>)> Target<'_, R> {
    fn take(&mut self, key: Key, bytes: Vec<u8>) -> Result<(), TransferError> {
        let belongs = self
            .group
            .first()
            .is_none_or(|(first, _)| stem(first) == stem(&key) && self.group.len() < WRITES_MAX);
        if !belongs {
            self.flush()?;
        }
        self.group.push((key, bytes));
        Ok(())
    }

    /// Writes the group, unless somebody else changes it meanwhile.
    fn flush(&mut self) -> Result<(), TransferError> {
        let group = std::mem::take(&mut self.group);
        let Some((first, _)) = group.first() else {
            return Ok(());
        };
        let keys: Vec<&Key> = group.iter().map(|(key, _)| key).collect();
        let mut done = false;
        for _ in 0..ATTEMPTS_MAX {
            let before = self.store.load_latest(&keys)?;
            let outcomes = self.outcomes(&group, &before);
            let changed = group.iter().zip(&outcomes);
            let changed = changed.filter(|(_, outcome)| **outcome == Outcome::Written);
            let puts: Vec<Write<'_>> = changed
                .map(|((key, bytes), _)| Write::Put(key, bytes))
                .collect();
            let version = before[0].as_ref().map(|value| &value.version);
            let saved = match puts.is_empty() {
                true => Ok(()),
                false => self.store.save(&puts, Guard::Unchanged(first, version)),
            };
            match saved {
                Ok(()) => {}
                Err(error) if error.fault == Fault::Refused => continue,
                Err(error) => return Err(error.into()),
            }
            for (key, outcome) in keys.iter().zip(outcomes) {
                let total = self.total;
                (self.report)(Step {
                    key,
                    outcome,
                    total,
                });
            }
            done = true;
            break;
        }
        if !done {
            let what = format!("`{first}` is changed by somebody else again and again");
            let error = StoreError::new(Fault::Refused, self.store.place(), what);
            return Err(error.into());
        }
        Ok(())
    }

    /// What happens to each value of a group. Those that belong together stay together: if one is kept, all are.
    fn outcomes(&self, group: &[(Key, Vec<u8>)], before: &[Option<Value>]) -> Vec<Outcome> {
        let is_same = |bytes: &[u8], before: &Option<Value>| {
            before.as_ref().is_some_and(|value| value.bytes == bytes)
        };
        let differs = group
            .iter()
            .zip(before)
            .any(|((_, bytes), before)| before.is_some() && !is_same(bytes, before));
        let keeps = differs && self.existing == Existing::Kept;
        let outcome = |((_, bytes), before): (&(Key, Vec<u8>), &Option<Value>)| {
            if is_same(bytes, before) {
                Outcome::Same
            } else if keeps {
                Outcome::Kept
            } else {
                Outcome::Written
            }
        };
        group.iter().zip(before).map(outcome).collect()
    }
}

/// How often a group is written again because somebody else has changed it.
const ATTEMPTS_MAX: usize = 3;

/// What a certificate, its key and its metadata have in common.
fn stem(key: &Key) -> &str {
    let text = key.as_str();
    let name = text.rfind('/').map_or(0, |at| at + 1);
    match text[name..].rfind('.') {
        Some(at) if at > 0 => &text[..name + at],
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn put(store: &dyn Store, name: &str, bytes: &[u8]) {
        let key = key(name);
        store
            .save(&[Write::Put(&key, bytes)], Guard::Always)
            .unwrap();
    }

    fn all(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
        let found = keys(store).unwrap().into_iter();
        let value = |key: Key| {
            let bytes = store.load(&[&key]).unwrap().remove(0).unwrap().bytes;
            (key.to_string(), bytes)
        };
        found.map(value).collect()
    }

    fn filled() -> MemoryStore {
        let store = MemoryStore::new();
        for ending in ["crt", "json", "key"] {
            let name = format!("certificates/ca.test-dir/a.test/a.test.{ending}");
            put(&store, &name, ending.as_bytes());
        }
        put(&store, "acme/ca/users/default/default.key", b"k");
        put(&store, &format!("ocsp/{}", "long".repeat(60)), b"\0\xff");
        put(&store, "last_clean.json", b"");
        store
    }

    #[test]
    fn an_archive_gives_back_what_was_exported() {
        let from = filled();
        let mut archive = Vec::new();
        let mut steps = 0;
        export(&from, &mut archive, |step| {
            steps += 1;
            assert_eq!(step.total, Some(6));
        })
        .unwrap();
        assert_eq!(steps, 6);
        let to = MemoryStore::new();
        import(&to, &*archive, Existing::Kept, |_| {}).unwrap();
        assert_eq!(all(&to), all(&from));
        // Again: nothing changes.
        let mut again = Vec::new();
        import(&to, &*archive, Existing::Kept, |step| {
            again.push(step.outcome)
        })
        .unwrap();
        assert_eq!(again, [Outcome::Same; 6]);
        let cut = &archive[..archive.len() / 2 - 100];
        assert!(import(&to, cut, Existing::Kept, |_| {}).is_err());
    }

    #[test]
    fn a_certificate_is_never_mixed_with_the_key_of_another() {
        let (from, to) = (filled(), MemoryStore::new());
        let crt = "certificates/ca.test-dir/a.test/a.test.crt";
        put(&to, crt, b"another");
        let outcomes = |existing| {
            let mut seen = Vec::new();
            copy(&from, &to, existing, |step| {
                if stem(step.key).ends_with("a.test") {
                    seen.push(step.outcome);
                }
            })
            .unwrap();
            seen
        };
        assert_eq!(outcomes(Existing::Kept), [Outcome::Kept; 3]);
        assert_eq!(
            all(&to)
                .iter()
                .filter(|(name, _)| name.contains("a.test"))
                .count(),
            1
        );
        assert_eq!(outcomes(Existing::Replaced), [Outcome::Written; 3]);
        assert_eq!(all(&to), all(&from));
    }

    fn archive_of(name: &str, kind: tar::EntryType, bytes: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        // The library refuses such names itself.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        builder.append(&header, bytes).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn an_entry_that_is_no_value_is_refused_by_name() {
        let to = MemoryStore::new();
        let large = vec![0; VALUE_BYTES_MAX + 1];
        for (name, kind, bytes) in [
            ("../outside", tar::EntryType::Regular, &b"x"[..]),
            ("/etc/passwd", tar::EntryType::Regular, b"x"),
            ("link", tar::EntryType::Symlink, b""),
            ("large", tar::EntryType::Regular, &large),
        ] {
            let archive = archive_of(name, kind, bytes);
            let error = import(&to, &*archive, Existing::Kept, |_| {}).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        for (name, kind) in [
            ("./folder/", tar::EntryType::Directory),
            ("locks/x.lock", tar::EntryType::Regular),
        ] {
            import(&to, &*archive_of(name, kind, b""), Existing::Kept, |_| {}).unwrap();
        }
        assert!(all(&to).is_empty());
        let dotted = archive_of("./a/b", tar::EntryType::Regular, b"x");
        import(&to, &*dotted, Existing::Kept, |_| {}).unwrap();
        assert_eq!(all(&to), [("a/b".to_owned(), b"x".to_vec())]);
    }

    #[test]
    fn stems_are_those_of_files() {
        for (name, wanted) in [
            ("c/a.test/a.test.crt", "c/a.test/a.test"),
            ("last_clean.json", "last_clean"),
            ("a.b/c", "a.b/c"),
            ("a/.hidden", "a/.hidden"),
        ] {
            assert_eq!(stem(&key(name)), wanted);
        }
    }
}
