//! Notices when files change, by looking at them once a second: that works on every file system, over networks and in
//! containers. What follows from a change is left to `supervise`.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

const PAUSE: Duration = Duration::from_secs(1);

/// File systems note times by a clock that ticks slower than ours, so a file may look this much older than it is.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// The files that are watched; clones watch the same.
#[derive(Clone, Debug)]
pub struct Watched {
    list: Arc<Mutex<List>>,
}

#[derive(Clone, Debug)]
struct List {
    files: Vec<String>,
    /// When reading them began: what was changed later may not have been read.
    read_at: SystemTime,
}

/// How each file looks; `None` for one that is not there.
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

    /// Watches these files from now on.
    pub fn replace(&self, files: &[String], read_at: SystemTime) {
        *self.lock() = List {
            files: files.to_vec(),
            read_at,
        };
    }

    /// Starts looking. `changed` is called when the files have changed and then stayed the same for a moment, so that
    /// a half-written one is not read; it tells whether to go on.
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

/// Compares the files with what they were.
#[derive(Debug, Default)]
struct Comparison {
    /// As they were when a change was told last, or when they were read.
    told: Views,
    /// As they were a moment ago.
    last: Views,
}

impl Comparison {
    /// Whether the files are no longer what was told, and have settled.
    fn is_change(&mut self, now: Views, read_at: SystemTime) -> bool {
        let read_at = read_at.checked_sub(CLOCK_TICK).unwrap_or(read_at);
        self.told.retain(|file, _| now.contains_key(file));
        for (file, looks) in &now {
            // A file that was written after it was read is told; one that may have been is told once too often.
            let as_read = || looks.filter(|looks| looks.modified < read_at);
            self.told.entry(file.clone()).or_insert_with(as_read);
        }
        let is_settled = now == self.last;
        self.last = now;
        if is_settled && self.last != self.told {
            self.told = self.last.clone();
            return true;
        }
        false
    }
}

/// What tells a file from its earlier self: an editor may replace it or write into it.
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

    /// A file of this size that was written so many seconds after it was read.
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
    fn a_change_is_told_once_when_the_file_has_settled() {
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
    fn what_was_written_while_it_was_read_is_told() {
        let mut comparison = Comparison::default();
        assert!(!comparison.is_change(view(1, 10), read_at(10)));
        assert!(comparison.is_change(view(1, 10), read_at(10)));
        assert!(!comparison.is_change(view(1, 10), read_at(10)));
    }

    #[test]
    fn a_file_that_appears_is_told() {
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
