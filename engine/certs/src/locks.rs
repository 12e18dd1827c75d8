//! Locks shared by processes with the same storage, so that only one of them orders a certificate. They are files as
//! Caddy creates them, so they also exclude a Caddy process. `storage` has the locks for single writes.
//!
//! A lock is a file that must not exist before. Its holder touches it every few seconds; one that was not touched for
//! longer belongs to a process that has died, and is taken over.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::CertsError;
use crate::limits::{LOCK_PAUSE, LOCK_STALE, LOCK_TOUCH, SMALL_FILE_BYTES_MAX};
use crate::storage::{Storage, create_folder};

/// A lock, held until it is dropped. A thread keeps it fresh.
pub struct SharedLock {
    path: PathBuf,
    created: String,
    stop: Option<SyncSender<()>>,
    toucher: Option<JoinHandle<()>>,
}

impl Storage {
    /// Acquires the lock called `name` among all processes with this storage, waiting at most `patience`.
    pub fn shared_lock(&self, name: &str, timeout: Duration) -> Result<SharedLock, CertsError> {
        let folder = self.path("locks");
        create_folder(&folder)?;
        let path = folder.join(format!("{name}.lock"));
        let began = Instant::now();
        loop {
            let created = moment();
            match create(&path, &created) {
                Ok(()) => return Ok(SharedLock::held(path, created)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(CertsError::io("create", &path, source)),
            }
            if is_stale(&path) {
                // Two processes may find it stale; the second may then remove the new lock of the first, and both order
                // a certificate. Apart from the extra order, this is harmless.
                let _ = fs::remove_file(&path);
                continue;
            }
            if began.elapsed() >= timeout {
                return Err(CertsError::Locked(path));
            }
            std::thread::sleep(LOCK_PAUSE.min(timeout));
        }
    }
}

impl SharedLock {
    fn held(path: PathBuf, created: String) -> SharedLock {
        let (stop, stopped) = sync_channel::<()>(1);
        let (at, since) = (path.clone(), created.clone());
        let toucher = std::thread::Builder::new()
            .name("lock".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(LOCK_TOUCH) == Err(RecvTimeoutError::Timeout) {
                    // If another process has taken the lock over, leave it alone.
                    if created_of(&at).as_deref() != Some(&since) {
                        return;
                    }
                    let _ = fs::write(&at, content(&since, &moment()));
                }
            });
        SharedLock {
            path,
            created,
            stop: Some(stop),
            // Without the thread the lock becomes stale early, which costs an extra order at worst.
            toucher: toucher.ok(),
        }
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(toucher) = self.toucher.take() {
            // The thread ends because its channel is closed; a panic in it does not matter.
            let _ = toucher.join();
        }
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

fn content(created: &str, updated: &str) -> String {
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
    fs::File::open(path)
        .ok()?
        .take(SMALL_FILE_BYTES_MAX)
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
            .is_ok_and(|age| age > LOCK_STALE),
        // Removed meanwhile: the next attempt creates it.
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    #[test]
    fn a_lock_is_held_once_and_given_back() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let lock = storage.shared_lock("issue_a", Duration::ZERO).unwrap();
        assert!(matches!(
            storage.shared_lock("issue_a", Duration::ZERO),
            Err(CertsError::Locked(_))
        ));
        storage.shared_lock("issue_b", Duration::ZERO).unwrap();
        drop(lock);
        storage.shared_lock("issue_a", Duration::ZERO).unwrap();
        assert!(!folder.path().join("locks/issue_a.lock").exists());
    }

    #[test]
    fn the_lock_of_a_dead_process_is_taken_over() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        fs::create_dir(folder.path().join("locks")).unwrap();
        let path = folder.path().join("locks/x.lock");
        let old = "2020-01-01T00:00:00.5+01:00";
        fs::write(&path, content(old, old)).unwrap();
        storage.shared_lock("x", Duration::ZERO).unwrap();
        // An empty file left by a crash is not stale yet.
        fs::write(&path, "").unwrap();
        assert!(storage.shared_lock("x", Duration::ZERO).is_err());
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(long_ago).unwrap();
        storage.shared_lock("x", Duration::ZERO).unwrap();
    }

    #[test]
    fn a_lock_that_was_taken_over_is_left_alone() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let lock = storage.shared_lock("x", Duration::ZERO).unwrap();
        let path = folder.path().join("locks/x.lock");
        fs::write(
            &path,
            content("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
        )
        .unwrap();
        drop(lock);
        assert!(path.exists());
    }
}
