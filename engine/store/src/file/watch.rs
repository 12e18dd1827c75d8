//! Changes of files, found by looking again and again.
//!
//! The notifications of the system (inotify) are not used: they show no changes that other machines make on a network
//! file system, which is what a folder of several nodes lies on, and a look at the few files of a store takes less than
//! a millisecond. The pauses grow with the time that a look takes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime};

use super::FileStore;
use super::steps::Journal;
use crate::failure::StoreError;
use crate::key::Key;
use crate::limits::{FILE_TIME_GRAIN, FILE_WATCH_PAUSE, FILE_WATCH_SHARE};
use crate::values::{Change, Reach, Version};
use crate::{Store, Watch};

pub(super) struct FileWatch {
    store: FileStore,
    prefix: Key,
    seen: BTreeMap<Key, Seen>,
    /// How long the last look took.
    cost: Duration,
}

/// Which look it is: the first one reports nothing, so it need not read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Again,
}

/// A file as it was.
struct Seen {
    stamp: Stamp,
    /// Known if the file had just been written when it was seen: a second write may leave the same stamp.
    version: Option<Version>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: SystemTime,
}

impl FileWatch {
    pub(super) fn new(store: &FileStore, prefix: &Key) -> Result<FileWatch, StoreError> {
        let mut watch = FileWatch {
            store: store.clone(),
            prefix: prefix.clone(),
            seen: BTreeMap::new(),
            cost: Duration::ZERO,
        };
        watch.look(Look::First)?;
        Ok(watch)
    }

    /// What has changed since the last look.
    fn look(&mut self, look: Look) -> Result<Vec<Change>, StoreError> {
        let began = Instant::now();
        let mut written = Vec::new();
        let mut seen = BTreeMap::new();
        for entry in self.store.list(&self.prefix, Reach::All)? {
            let key = entry.key().clone();
            // It may have gone meanwhile.
            let Ok(about) = std::fs::metadata(self.store.path(&key)) else {
                continue;
            };
            let stamp = Stamp {
                inode: about.ino(),
                size: about.len(),
                modified: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            };
            let before = self.seen.remove(&key);
            let is_same = |seen: &Seen| seen.stamp == stamp && seen.version.is_none();
            if let Some(before) = before.as_ref().filter(|seen| is_same(seen)) {
                let stamp = before.stamp;
                seen.insert(
                    key,
                    Seen {
                        stamp,
                        version: None,
                    },
                );
                continue;
            }
            let age = SystemTime::now().duration_since(stamp.modified);
            let is_settled = age.is_ok_and(|age| age > FILE_TIME_GRAIN);
            if is_settled && look == Look::First {
                seen.insert(
                    key,
                    Seen {
                        stamp,
                        version: None,
                    },
                );
                continue;
            }
            let Some(value) = self.store.read(&key, &Journal::default())? else {
                continue;
            };
            let version = (!is_settled).then(|| value.version.clone());
            let is_other = before.is_none_or(|seen| {
                seen.stamp != stamp || seen.version.as_ref() != Some(&value.version)
            });
            if is_other {
                written.push((stamp.modified, key.clone(), value));
            }
            seen.insert(key, Seen { stamp, version });
        }
        // When a file was removed is not known; a certificate is removed before its successor is written.
        let gone = std::mem::replace(&mut self.seen, seen).into_keys();
        let gone = gone.map(|key| Change { key, value: None });
        written.sort_by_key(|(at, _, _)| *at);
        let written = written.into_iter().map(|(_, key, value)| Change {
            key,
            value: Some(value),
        });
        self.cost = began.elapsed();
        Ok(gone.chain(written).collect())
    }
}

impl Watch for FileWatch {
    fn next(&mut self, timeout: Duration) -> Result<Vec<Change>, StoreError> {
        let began = Instant::now();
        loop {
            let changes = self.look(Look::Again)?;
            let left = timeout.saturating_sub(began.elapsed());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            let pause = FILE_WATCH_PAUSE.max(self.cost * FILE_WATCH_SHARE);
            std::thread::sleep(pause.min(left));
        }
    }
}
