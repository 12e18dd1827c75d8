//! A store in a folder, in Caddy's layout: a key is the path of its file. Several processes share it, also on several
//! machines if the file system does.
//!
//! Reads need no lock. Writes are made one after the other, under a lock of the system (`locks/storage.lock`). A crash
//! leaves the old or the new state: a value is written beside its file and renamed; several values are first named in a
//! journal, which the next one who reads or writes completes.

mod locks;
mod steps;
mod watch;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;

use crate::calls::checked;
use crate::failure::{Fault, StoreError};
use crate::lease::Lease;
use crate::limits::{ENTRIES_MAX, FOLDER_DEPTH_MAX, VALUE_BYTES_MAX};
use crate::values::{Entry, Guard, Listed, Reach, Value, Version, Write, entries};
use crate::{Key, Store, Watch};
use steps::Journal;

/// The folder of leases, of the lock for writes and of the journal. It is not part of the values.
const LOCKS: &str = "locks";

/// The folder for copies of shared stores, which are not values of this one either.
pub const COPIES: &str = "store_copies";

/// What a file is called until it is complete.
const UNFINISHED: &str = ".next";

/// A folder.
#[derive(Clone, Debug)]
pub struct FileStore {
    root: PathBuf,
    place: String,
}

impl FileStore {
    /// The store in `root`, which is created by the first write.
    pub fn new(root: impl Into<PathBuf>) -> FileStore {
        let root = root.into();
        let place = root.display().to_string();
        FileStore { root, place }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    fn failed(&self, action: &str, path: &Path, error: &std::io::Error) -> StoreError {
        let path = path.display();
        let what = match error.kind() {
            // The standard library calls it an entity.
            ErrorKind::NotFound => format!("cannot {action} `{path}`: no such file or directory"),
            _ => format!("cannot {action} `{path}`: {error}"),
        };
        StoreError::new(Fault::System, &self.place, what)
    }

    /// The value of `key`, which `journal` may have written already.
    fn read(&self, key: &Key, journal: &Journal) -> Result<Option<Value>, StoreError> {
        if journal.puts(key) {
            let unfinished = steps::unfinished(&self.path(key));
            if let Some(value) = self.read_file(&unfinished)? {
                return Ok(Some(value));
            }
        } else if journal.deletes(key) {
            return Ok(None);
        }
        self.read_file(&self.path(key))
    }

    fn read_file(&self, path: &Path) -> Result<Option<Value>, StoreError> {
        use std::io::Read;
        let failed = |error| self.failed("read", path, &error);
        let file = match fs::File::open(path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let modified = file.metadata().and_then(|about| about.modified());
        let mut bytes = Vec::new();
        let read = file
            .take(VALUE_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes);
        read.map_err(failed)?;
        if bytes.len() > VALUE_BYTES_MAX {
            let what = format!("`{}` is too large for a value", path.display());
            return Err(StoreError::new(Fault::Limit, &self.place, what));
        }
        Ok(Some(Value {
            version: version(&bytes),
            modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
            bytes,
        }))
    }

    fn holds(&self, guard: Guard<'_>) -> Result<bool, StoreError> {
        Ok(match guard {
            Guard::Always => true,
            Guard::Held(fence) => self.is_held(fence),
            Guard::Unchanged(key, version) => {
                let found = self.read(key, &Journal::default())?;
                found.as_ref().map(|value| &value.version) == version
            }
        })
    }

    /// Adds the values below `folder` to `found`.
    fn walk(
        &self,
        folder: &Path,
        prefix: &Key,
        depth: usize,
        found: &mut Vec<Listed>,
    ) -> Result<(), StoreError> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(self.failed("read", folder, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| self.failed("read", folder, &error))?;
            let Some(key) = self.key_of(&entry.file_name(), prefix) else {
                continue;
            };
            // A file may go between the list and the look at it.
            let Ok(about) = fs::metadata(entry.path()) else {
                continue;
            };
            if about.is_dir() {
                if depth < FOLDER_DEPTH_MAX {
                    self.walk(&entry.path(), &key, depth + 1, found)?;
                }
                continue;
            }
            if found.len() >= ENTRIES_MAX {
                let what = format!("more than {ENTRIES_MAX} files below `{}`", self.place);
                return Err(StoreError::new(Fault::Limit, &self.place, what));
            }
            let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((key, about.len(), modified));
        }
        Ok(())
    }

    /// The key of the file `name` below `prefix`; `None` for files that are not values.
    fn key_of(&self, name: &std::ffi::OsStr, prefix: &Key) -> Option<Key> {
        let name = name.to_str()?;
        let is_ours = prefix.as_str().is_empty() && matches!(name, LOCKS | COPIES);
        if name.ends_with(UNFINISHED) || is_ours {
            return None;
        }
        prefix.below(name).ok()
    }
}

impl Store for FileStore {
    fn place(&self) -> &str {
        &self.place
    }

    fn load(&self, keys: &[&Key]) -> Result<Vec<Option<Value>>, StoreError> {
        // One file is read as it is at one moment anyway.
        let _lock = (keys.len() > 1).then(|| self.read_lock());
        let journal = self.journal();
        keys.iter().map(|key| self.read(key, &journal)).collect()
    }

    fn save(&self, writes: &[Write<'_>], guard: Guard<'_>) -> Result<(), StoreError> {
        let writes = checked(writes, &self.place)?;
        let _lock = self.write_lock()?;
        self.complete()?;
        if !self.holds(guard)? {
            let what = match guard {
                Guard::Held(fence) => format!("the lock `{}` has another holder", fence.name),
                Guard::Unchanged(key, _) => format!("`{key}` was changed meanwhile"),
                Guard::Always => String::new(),
            };
            return Err(StoreError::new(Fault::Refused, &self.place, what));
        }
        self.run(&self.steps(&writes))
    }

    fn list(&self, prefix: &Key, reach: Reach) -> Result<Vec<Entry>, StoreError> {
        let mut found = Vec::new();
        self.walk(&self.path(prefix), prefix, 0, &mut found)?;
        entries(prefix, reach, found.into_iter(), &self.place)
    }

    fn lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        self.take_lease(name, timeout)
    }

    fn break_lease(&self, name: &str) -> Result<bool, StoreError> {
        self.end_lease(name)
    }

    fn leases(&self) -> Result<Vec<String>, StoreError> {
        self.held_leases()
    }

    fn watch(&self, prefix: &Key) -> Result<Box<dyn Watch>, StoreError> {
        Ok(Box::new(watch::FileWatch::new(self, prefix)?))
    }
}

/// The version of a value: a digest of its content, because the times of files are too coarse.
fn version(bytes: &[u8]) -> Version {
    let digest = digest::digest(&digest::SHA256, bytes);
    let text = digest.as_ref()[..16].iter();
    Version(text.map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a file does not exist: its folder may be a file.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
