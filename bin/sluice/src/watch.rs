//! Notices when files change, by looking at them once a second: that works on every file system, over networks and in
//! containers. What follows from a change is left to `supervise`.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);

/// The files that are watched; clones watch the same.
#[derive(Clone, Debug)]
pub struct Watched {
    files: Arc<Mutex<Vec<String>>>,
    extra: Option<String>,
}

impl Watched {
    /// `files`, which a reload may replace, and `extra`, which stays.
    pub fn new(files: &[String], extra: Option<String>) -> Watched {
        let watched = Watched {
            files: Arc::default(),
            extra,
        };
        watched.replace(files);
        watched
    }

    /// Watches these files from now on.
    pub fn replace(&self, files: &[String]) {
        *self.lock() = files.iter().chain(&self.extra).cloned().collect();
    }

    /// Starts looking. `changed` is called when the files have changed and then stayed the same for a moment, so that
    /// a half-written one is not read; it tells whether to go on.
    pub fn start(&self, changed: impl Fn() -> bool + Send + 'static) -> io::Result<()> {
        let watched = self.clone();
        let mut told = watched.look();
        let work = move || {
            let mut last = told.clone();
            loop {
                thread::sleep(PAUSE);
                let now = watched.look();
                let is_settled = now == last;
                if is_settled && now != told {
                    // A reload may change which files there are; those are then compared from here on.
                    told.clone_from(&now);
                    if !changed() {
                        return;
                    }
                }
                last = now;
            }
        };
        thread::Builder::new().name("watch".into()).spawn(work)?;
        Ok(())
    }

    fn look(&self) -> Vec<Option<Looks>> {
        let files = self.lock().clone();
        files.iter().map(|file| looks(file)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.files
            .lock()
            .expect("nothing panics while it holds the list of files")
    }
}

/// What tells a file from its earlier self: an editor may replace it or write into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looks {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

fn looks(file: &str) -> Option<Looks> {
    let facts = std::fs::metadata(file).ok()?;
    Some(Looks {
        inode: facts.ino(),
        size: facts.size(),
        modified: (facts.mtime(), facts.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_new_file_looks_different() {
        let path = std::env::temp_dir().join(format!("sluice-watch-{}", std::process::id()));
        let file = path.to_string_lossy().into_owned();
        let watched = Watched::new(&[], Some(file));
        let missing = watched.look();
        std::fs::write(&path, "a").expect("the folder is writable");
        let first = watched.look();
        assert_ne!(missing, first);
        assert_eq!(first, watched.look());
        std::fs::write(&path, "ab").expect("writable");
        assert_ne!(first, watched.look());
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(missing, watched.look());
    }
}
