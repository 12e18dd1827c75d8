//! Detects changes of files by checking them once a second: this works on every file system, over networks and in
//! containers. `supervise` reacts to changes.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

const PAUSE: Duration = Duration::from_secs(1);

/// File systems take timestamps from a clock with a coarser resolution, so a file may look this much older than it is.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// The watched files; clones share them.
#[derive(Clone, Debug)]
pub struct Watched {
    list: Arc<Mutex<List>>,
}

#[derive(Clone, Debug)]
struct List {
    files: Vec<String>,
    /// When reading them began: later changes may not have been read.
    read_at: SystemTime,
}

/// The metadata of each file; `None` if it does not exist.
type Views = BTreeMap<String, Option<Looks>>;

impl Watched {
    /// Watches `files`, which were read at `read_at` or later, or were found missing then.
    pub fn new(files: &[String], read_at: SystemTime) -> Watched {
        let list = List {
            files: files.to_vec(),
            read_at,
        };
        Watched {
            list: Arc::new(Mutex::new(list)),
        }
    }

    /// Replaces the watched files.
    pub fn replace(&self, files: &[String], read_at: SystemTime) {
        *self.lock() = List {
            files: files.to_vec(),
            read_at,
        };
    }

    /// Starts watching. `changed` is called when files have changed and then stayed the same for a moment, so that a
    /// half-written file is not loaded; it returns whether to continue.
    pub fn start(&self, changed: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
        let watched = self.clone();
        let mut comparison = Comparison::default();
        let work = move || {
            loop {
                let list = watched.lock().clone();
                let now = list
                    .files
                    .iter()
                    .map(|file| (file.clone(), looks(file)))
                    .collect();
                if comparison.is_change(now, list.read_at) && !changed() {
                    return;
                }
                thread::sleep(PAUSE);
            }
        };
        thread::Builder::new().name("watch".into()).spawn(work)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list
            .lock()
            .expect("nothing panics while it holds the list of files")
    }
}

/// Compares the files with their previous state.
#[derive(Debug, Default)]
struct Comparison {
    /// The state at the last reported change, or when they were read.
    reported: Views,
    /// The state at the previous check.
    last: Views,
}

impl Comparison {
    /// Whether the files differ from the last reported state, and have settled.
    fn is_change(&mut self, now: Views, read_at: SystemTime) -> bool {
        let read_at = read_at.checked_sub(CLOCK_TICK).unwrap_or(read_at);
        self.reported.retain(|file, _| now.contains_key(file));
        for (file, looks) in &now {
            // A file written after it was read counts as changed. In doubt, a change is reported once too often.
            let as_read = || looks.filter(|looks| looks.modified < read_at);
            self.reported.entry(file.clone()).or_insert_with(as_read);
        }
        let is_settled = now == self.last;
        self.last = now;
        if is_settled && self.last != self.reported {
            self.reported = self.last.clone();
            return true;
        }
        false
    }
}

/// The metadata that identifies a version of a file: an editor may replace it or write into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looks {
    inode: u64,
    size: u64,
    modified: SystemTime,
}

fn looks(file: &str) -> Option<Looks> {
    let facts = std::fs::metadata(file).ok()?;
    let modified = facts.modified().ok()?;
    Some(Looks {
        inode: facts.ino(),
        size: facts.size(),
        modified,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ_AT: SystemTime = SystemTime::UNIX_EPOCH;

    /// A file of this size, written this many seconds after it was read.
    fn view(size: u64, seconds: u64) -> Views {
        let modified = READ_AT + Duration::from_secs(seconds);
        Views::from([(
            "a".to_owned(),
            Some(Looks {
                inode: 1,
                size,
                modified,
            }),
        )])
    }

    fn read_at(seconds: u64) -> SystemTime {
        READ_AT + Duration::from_secs(seconds)
    }

    #[test]
    fn a_change_is_reported_once_when_the_file_has_settled() {
        let mut comparison = Comparison::default();
        let mut look = |size, seconds| comparison.is_change(view(size, seconds), read_at(10));
        assert!(!look(1, 5));
        assert!(!look(1, 5));
        assert!(!look(2, 20), "it may still be written");
        assert!(!look(3, 21));
        assert!(look(3, 21));
        assert!(!look(3, 21));
    }

    #[test]
    fn a_change_during_reading_is_reported() {
        let mut comparison = Comparison::default();
        assert!(!comparison.is_change(view(1, 10), read_at(10)));
        assert!(comparison.is_change(view(1, 10), read_at(10)));
        assert!(!comparison.is_change(view(1, 10), read_at(10)));
    }

    #[test]
    fn a_new_file_is_reported() {
        let mut comparison = Comparison::default();
        let missing = || Views::from([("a".to_owned(), None)]);
        assert!(!comparison.is_change(missing(), read_at(10)));
        assert!(!comparison.is_change(missing(), read_at(10)));
        assert!(!comparison.is_change(view(1, 5), read_at(10)));
        assert!(comparison.is_change(view(1, 5), read_at(10)));
        assert!(
            !comparison.is_change(Views::new(), read_at(10)),
            "no longer watched"
        );
    }
}
