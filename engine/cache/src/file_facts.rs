//! File metadata, obtained without reading content.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::limits::CHANGE_UNSEEN;

/// A point in time with the resolution of file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds since the Unix epoch; negative before it.
    pub seconds: i64,
    /// Nanoseconds within that second.
    pub nanos: u32,
}

/// The kind of object a path refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, device or FIFO; never opened.
    Special,
}

/// Metadata of an existing path. Two equal values mean that the content is the same, except for changes within one tick
/// of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The kind of object.
    pub kind: Kind,
    /// Length of the content in bytes.
    pub size: u64,
    /// Time of the last content change (`mtime`).
    pub modified: Time,
    /// Type and permission bits.
    pub mode: u32,
    device: u64,
    inode: u64,
    changed: Time,
}

/// Why a path does not lead to a usable object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such file.
    NotFound,
    /// Permission denied, or a symbolic link leaves the permitted root.
    Denied,
    /// No file can have this name: it is too long, contains NUL, or lies below something that is not a directory.
    Impossible,
    /// The process or the system has reached its limit of open files.
    Exhausted,
    /// Any other system error.
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

    /// Whether the file may change again without its metadata changing.
    pub(crate) fn may_change_unseen(&self) -> bool {
        let latest = self.modified.max(self.changed);
        let since = Duration::new(u64::try_from(latest.seconds).unwrap_or(0), latest.nanos);
        let age = SystemTime::now().duration_since(UNIX_EPOCH + since);
        // A timestamp in the future comes from another machine's clock and proves nothing.
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
