//! What the system tells of a path without reading it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::CHANGE_UNSEEN;

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after that second.
    pub nanos: u32,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A socket, device or FIFO, which is never opened.
    Special,
}

/// What is known of something that exists. Two equal ones mean that the content is the same, but for changes
/// within one tick of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Kind,
    /// Bytes of content.
    pub size: u64,
    /// Last change of the content.
    pub modified: Time,
    /// Type and permission bits.
    pub mode: u32,
    device: u64,
    inode: u64,
    changed: Time,
}

/// Why there is nothing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such file.
    NotFound,
    /// We may not look or read, or a link leads out of the root.
    Denied,
    /// No file can have this name: too long, with NUL, or below something that is no folder.
    Impossible,
    /// The process or the system has too many open files.
    Exhausted,
    /// The system failed otherwise.
    Failed,
}

impl Facts {
    pub(crate) fn new(metadata: &Metadata) -> Facts {
        let kind = match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => Kind::File,
            (_, true) => Kind::Directory,
            (false, false) => Kind::Special,
        };
        let time = |seconds, nanos| Time {
            seconds,
            nanos: nanos as u32,
        };
        Facts {
            kind,
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode(),
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether a change right after looking could leave no trace in the facts.
    pub(crate) fn may_change_unseen(&self) -> bool {
        let latest = self.modified.max(self.changed);
        let since = Duration::new(u64::try_from(latest.seconds).unwrap_or(0), latest.nanos);
        let age = SystemTime::now().duration_since(UNIX_EPOCH + since);
        // A time in the future comes from a foreign clock and says nothing.
        age.is_ok_and(|age| age < CHANGE_UNSEEN)
    }
}

impl Missing {
    pub(crate) fn new(error: &io::Error) -> Missing {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Missing::NotFound,
            Some(libc::EACCES | libc::EPERM | libc::EXDEV | libc::ELOOP) => Missing::Denied,
            Some(libc::ENOTDIR | libc::ENAMETOOLONG | libc::EINVAL) => Missing::Impossible,
            Some(libc::EMFILE | libc::ENFILE) => Missing::Exhausted,
            _ if error.kind() == io::ErrorKind::InvalidInput => Missing::Impossible,
            _ => Missing::Failed,
        }
    }
}
