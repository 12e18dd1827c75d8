//! The lock for writes, and leases as Caddy's lock files: `locks/<name>.lock` has the time of creation and of the last
//! renewal, so a lock whose process died is recognized as stale.
//!
//! Processes of sluice create, renew and take over lock files under the lock for writes, so exactly one gets a stale
//! one. Caddy does not know that lock: where both wait for the same stale file, both may go on.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::steps::{fill, unfinished};
use super::{FileStore, LOCKS, is_absent};
use crate::failure::{Fault, StoreError};
use crate::lease::{Fence, Keep, Lease};
use crate::limits::{
    FILE_LEASE_PAUSE, FILE_LEASE_STALE, LEASE_RENEWAL, LOCK_FILE_BYTES_MAX, WRITE_LOCK_PAUSE,
    WRITE_LOCK_WAIT,
};

/// The file whose lock orders writes. It is not a lease.
const WRITES: &str = "storage.lock";

const ENDING: &str = ".lock";

/// The lock for writes or for reads. The system releases it when the process ends in any way.
pub(super) struct SystemLock {
    _file: File,
}

impl FileStore {
    fn locks(&self) -> PathBuf {
        self.root.join(LOCKS)
    }

    /// Keeps other processes from writing until it is dropped. Waits for them up to a limit.
    pub(super) fn write_lock(&self) -> Result<SystemLock, StoreError> {
        self.create_folder(&self.locks())?;
        let path = self.locks().join(WRITES);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| self.failed("open", &path, &error))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(SystemLock { _file: file }),
                Err(TryLockError::WouldBlock) if began.elapsed() < WRITE_LOCK_WAIT => {
                    std::thread::sleep(WRITE_LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::new(Fault::Held, &self.place, "storage"));
                }
                Err(TryLockError::Error(error)) => return Err(self.failed("lock", &path, &error)),
            }
        }
    }

    /// Lets the present writer finish, so that values that belong together are read together. Without permission to
    /// lock, or if the writer takes too long, they are read as they are.
    pub(super) fn read_lock(&self) -> Option<SystemLock> {
        let file = File::open(self.locks().join(WRITES)).ok()?;
        let began = Instant::now();
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Some(SystemLock { _file: file }),
                Err(TryLockError::WouldBlock) if began.elapsed() < WRITE_LOCK_WAIT => {
                    std::thread::sleep(WRITE_LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
            }
        }
    }

    fn lease_path(&self, name: &str) -> PathBuf {
        self.locks().join(format!("{}{ENDING}", file_name(name)))
    }

    pub(super) fn take_lease(&self, name: &str, timeout: Duration) -> Result<Lease, StoreError> {
        self.create_folder(&self.locks())?;
        let path = self.lease_path(name);
        let began = Instant::now();
        loop {
            let created = moment();
            match create(&path, &created) {
                Ok(()) => return self.held(name, path, created),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.failed("create", &path, &error)),
            }
            if is_stale(&path) {
                let _lock = self.write_lock()?;
                // Another process may have taken it over meanwhile.
                if is_stale(&path) {
                    let _ = fs::remove_file(&path);
                }
                continue;
            }
            if began.elapsed() >= timeout {
                return Err(StoreError::new(Fault::Held, &self.place, name));
            }
            std::thread::sleep(FILE_LEASE_PAUSE.min(timeout));
        }
    }

    fn held(&self, name: &str, path: PathBuf, created: String) -> Result<Lease, StoreError> {
        let fence = Fence {
            name: name.to_owned(),
            token: created.clone(),
        };
        let keep = LockFile {
            store: self.clone(),
            path,
            created,
        };
        let held = Lease::held(fence, LEASE_RENEWAL, keep);
        held.map_err(|error| StoreError::new(Fault::Limit, &self.place, error.to_string()))
    }

    /// Whether the lease is still that of `fence`.
    pub(super) fn is_held(&self, fence: &Fence) -> bool {
        created_of(&self.lease_path(&fence.name)).as_deref() == Some(&fence.token)
    }

    pub(super) fn end_lease(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.lease_path(name);
        if !path.exists() {
            return Ok(false);
        }
        let _lock = self.write_lock()?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(self.failed("remove", &path, &error)),
        }
    }

    pub(super) fn held_leases(&self) -> Result<Vec<String>, StoreError> {
        let folder = self.locks();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read", &folder, &error)),
        };
        let name_of = |entry: fs::DirEntry| {
            let file = entry.file_name().into_string().ok()?;
            let name = file.strip_suffix(ENDING).filter(|_| file != WRITES)?;
            (!is_stale(&entry.path())).then(|| lease_name(name))
        };
        let mut names: Vec<String> = entries.flatten().filter_map(name_of).collect();
        names.sort();
        Ok(names)
    }
}

/// A lock file of this process.
struct LockFile {
    store: FileStore,
    path: PathBuf,
    created: String,
}

impl Keep for LockFile {
    fn renew(&mut self) -> Result<(), StoreError> {
        let _lock = self.store.write_lock()?;
        if created_of(&self.path).as_deref() != Some(&self.created) {
            let what = format!("`{}` has another holder", self.path.display());
            return Err(StoreError::new(Fault::Refused, &self.store.place, what));
        }
        let next = unfinished(&self.path);
        fill(&next, content(&self.created, &moment()).as_bytes())
            .and_then(|()| fs::rename(&next, &self.path))
            .map_err(|error| self.store.failed("write", &self.path, &error))
    }

    fn release(&mut self) {
        if created_of(&self.path).as_deref() == Some(&self.created) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create(path: &Path, created: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content(created, created).as_bytes())
}

pub(super) fn content(created: &str, updated: &str) -> String {
    format!("{{\"created\":\"{created}\",\"updated\":\"{updated}\"}}\n")
}

fn moment() -> String {
    // Formatting fails only for years after 9999.
    OffsetDateTime::now_utc()
        .format(&Rfc3339)
        .unwrap_or_default()
}

fn read(path: &Path) -> Option<serde_json::Value> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(LOCK_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn created_of(path: &Path) -> Option<String> {
    Some(read(path)?.get("created")?.as_str()?.to_owned())
}

/// Whether the holder of a lock has died. An unreadable file was left by a crash during its creation; then the age of
/// the file counts.
fn is_stale(path: &Path) -> bool {
    let updated = read(path).and_then(|lock| {
        let text = lock.get("updated")?.as_str()?;
        OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .map(SystemTime::from)
    });
    let modified = || fs::metadata(path).and_then(|about| about.modified()).ok();
    match updated.or_else(modified) {
        Some(at) => SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age > FILE_LEASE_STALE),
        // Removed meanwhile: the next attempt creates it.
        None => false,
    }
}

/// The name of a lease as a file name: what could lead out of the folder is written as `%` and its code.
fn file_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '/' | '\\' | '%' | '\0'..='\x1f' => text.push_str(&format!("%{:02x}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text
}

fn lease_name(file: &str) -> String {
    let mut parts = file.split('%');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                name.push(char::from(code));
                name.push_str(&part[2..]);
            }
            // Not written by us.
            None => {
                name.push('%');
                name.push_str(part);
            }
        }
    }
    name
}
