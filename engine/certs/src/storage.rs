//! Certificates and keys in files, in Caddy's directory layout. The callers interpret the files.
//!
//! A crash leaves either the old or the new state. A single file is written under a temporary name and renamed. A
//! certificate and its key are two files, which cannot be renamed together. Both are therefore written under temporary
//! names; then the key is renamed, then the certificate. A reader that finds a key that does not match the certificate,
//! but matches the temporary one, completes the renaming.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crate::failure::CertsError;
use crate::limits::{PEM_BYTES_MAX, STORAGE_LOCK_PAUSE, STORAGE_LOCK_WAIT};

/// A directory for certificates and keys.
#[derive(Clone, Debug)]
pub struct Storage {
    root: PathBuf,
}

/// A certificate chain and its key as stored, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPair {
    /// The chain.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

impl Storage {
    /// The storage in `root`, which is created by the first write.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Storage { root: root.into() }
    }

    /// The default directory: `$XDG_DATA_HOME/sluice` or `$HOME/.local/share/sluice`, or `./sluice` if neither variable
    /// is set, as in some containers.
    pub fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
        let set = |name| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local").join("share")));
        data.unwrap_or_else(|| PathBuf::from(".")).join("sluice")
    }

    /// The path of `name` in this storage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The content of a file; `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CertsError> {
        read_file(&self.path(name))
    }

    /// Replaces a file atomically.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CertsError> {
        let _lock = self.lock()?;
        run(&self.file_steps(name, bytes))
    }

    /// Deletes a file if it exists.
    pub fn remove(&self, name: &str) -> Result<(), CertsError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(CertsError::io("remove", &path, source)),
        }
    }

    /// Tests the storage: writes a file, reads it and deletes it.
    ///
    /// # Errors
    /// The error of the first step that fails.
    pub fn try_out(&self) -> Result<(), CertsError> {
        let _lock = self.lock()?;
        let name = format!("rw_test_{}", std::process::id());
        let content = format!("{:?}\n", SystemTime::now());
        run(&self.file_steps(&name, content.as_bytes()))?;
        let found = self.read(&name)?;
        self.remove(&name)?;
        if found.as_deref() == Some(content.as_bytes()) {
            return Ok(());
        }
        Err(CertsError::Damaged {
            path: self.path(&name),
            what: "a value read back differs from the value written".to_owned(),
        })
    }

    /// The certificate `<name>.crt` with its key `<name>.key`; `None` if there is no certificate. `fits` determines
    /// whether a certificate and a key belong together; a pair that does not is returned anyway.
    pub fn read_pair(
        &self,
        name: &str,
        fits: impl Fn(&StoredPair) -> bool,
    ) -> Result<Option<StoredPair>, CertsError> {
        let files = PairFiles::new(self, name);
        let (certificate, key) = (read_file(&files.certificate)?, read_file(&files.key)?);
        let (certificate, key) = match (certificate, key) {
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return Err(CertsError::io(
                    "read",
                    &files.key,
                    ErrorKind::NotFound.into(),
                ));
            }
            (certificate, Some(key)) => (certificate, key),
        };
        let found = certificate.map(|certificate| StoredPair {
            certificate,
            key: key.clone(),
        });
        if found.as_ref().is_some_and(&fits) {
            return Ok(found);
        }
        let Some(certificate) = read_file(&next_to(&files.certificate))? else {
            return Ok(found);
        };
        let moved = StoredPair { certificate, key };
        if !fits(&moved) {
            return Ok(found);
        }
        // The pair is complete whether or not the renaming succeeds now; another process may be completing it as well.
        let _ = self.lock().and_then(|_lock| run(&files.last_steps()));
        Ok(Some(moved))
    }

    /// Replaces the certificate `<name>.crt` and its key `<name>.key` together.
    pub fn write_pair(&self, name: &str, pair: &StoredPair) -> Result<(), CertsError> {
        self.write_pair_locked(&self.lock()?, name, pair)
    }

    /// Like `write_pair`, with the lock already held.
    pub fn write_pair_locked(
        &self,
        _lock: &StorageLock,
        name: &str,
        pair: &StoredPair,
    ) -> Result<(), CertsError> {
        run(&self.pair_steps(name, pair))
    }

    /// Locks the storage against writes of other processes until the lock is dropped. Waits for other holders up to a
    /// limit.
    pub fn lock(&self) -> Result<StorageLock, CertsError> {
        let path = self.path("locks").join("storage.lock");
        let folder = self.path("locks");
        create_folder(&folder)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| CertsError::io("open", &path, source))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(StorageLock { _file: file }),
                Err(fs::TryLockError::WouldBlock) if began.elapsed() < STORAGE_LOCK_WAIT => {
                    std::thread::sleep(STORAGE_LOCK_PAUSE);
                }
                Err(fs::TryLockError::WouldBlock) => return Err(CertsError::Locked(path)),
                Err(fs::TryLockError::Error(source)) => {
                    return Err(CertsError::io("lock", &path, source));
                }
            }
        }
    }

    fn file_steps(&self, name: &str, bytes: &[u8]) -> Vec<Step> {
        let path = self.path(name);
        vec![
            Step::Folder(parent(&path)),
            Step::Fill {
                path: next_to(&path),
                bytes: bytes.to_vec(),
            },
            Step::Rename {
                from: next_to(&path),
                to: path.clone(),
            },
            Step::Sync(parent(&path)),
        ]
    }

    pub(crate) fn pair_steps(&self, name: &str, pair: &StoredPair) -> Vec<Step> {
        let files = PairFiles::new(self, name);
        let mut steps = vec![
            Step::Folder(parent(&files.key)),
            Step::Fill {
                path: next_to(&files.certificate),
                bytes: pair.certificate.clone(),
            },
            Step::Fill {
                path: next_to(&files.key),
                bytes: pair.key.clone(),
            },
            // Both must be found after a crash once the key has been renamed.
            Step::Sync(parent(&files.key)),
            Step::Rename {
                from: next_to(&files.key),
                to: files.key.clone(),
            },
            Step::Sync(parent(&files.key)),
        ];
        steps.extend(files.last_steps());
        steps
    }
}

/// A lock, held while something is written; the system releases it when the process ends in any way.
pub struct StorageLock {
    _file: File,
}

struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl PairFiles {
    fn new(storage: &Storage, name: &str) -> Self {
        PairFiles {
            certificate: storage.path(&format!("{name}.crt")),
            key: storage.path(&format!("{name}.key")),
        }
    }

    /// The remaining steps once the key has been renamed.
    fn last_steps(&self) -> Vec<Step> {
        let (from, to) = (next_to(&self.certificate), self.certificate.clone());
        vec![
            Step::Rename { from, to },
            Step::Sync(parent(&self.certificate)),
        ]
    }
}

/// One step of a change. Steps are values so that a test can stop after each of them, as a crash would.
#[derive(Debug)]
pub(crate) enum Step {
    Folder(PathBuf),
    Fill { path: PathBuf, bytes: Vec<u8> },
    Rename { from: PathBuf, to: PathBuf },
    Sync(PathBuf),
}

pub(crate) fn run(steps: &[Step]) -> Result<(), CertsError> {
    steps.iter().try_for_each(|step| match step {
        Step::Folder(path) => create_folder(path),
        Step::Fill { path, bytes } => {
            fill(path, bytes).map_err(|source| CertsError::io("write", path, source))
        }
        Step::Rename { from, to } => {
            fs::rename(from, to).map_err(|source| CertsError::io("replace", to, source))
        }
        Step::Sync(path) => File::open(path)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| CertsError::io("sync", path, source)),
    })
}

pub(crate) fn create_folder(path: &Path) -> Result<(), CertsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| CertsError::io("create", path, source))
}

fn fill(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A file left by a crash may have other permissions, and these are set only on creation.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The content of a file of limited size; `None` if it does not exist.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, CertsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CertsError::io("read", path, source)),
    };
    let mut bytes = Vec::new();
    let read = file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|source| CertsError::io("read", path, source))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(CertsError::TooLarge(path.to_owned()));
    }
    Ok(Some(bytes))
}

fn next_to(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    path.with_file_name(name)
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tests::TempFolder;

    fn pair(text: &str) -> StoredPair {
        StoredPair {
            certificate: text.into(),
            key: text.into(),
        }
    }

    fn fits(pair: &StoredPair) -> bool {
        pair.certificate == pair.key
    }

    #[test]
    fn a_crash_after_any_step_leaves_the_old_pair_or_the_new_one() {
        for old in [None, Some(pair("old"))] {
            let count = Storage::new("x").pair_steps("a/b", &pair("new")).len();
            for done in 0..=count {
                let folder = TempFolder::new();
                let storage = Storage::new(folder.path());
                if let Some(old) = &old {
                    storage.write_pair("a/b", old).unwrap();
                }
                run(&storage.pair_steps("a/b", &pair("new"))[..done]).unwrap();
                let found = storage.read_pair("a/b", fits).unwrap();
                let new = Some(pair("new"));
                assert!(
                    found == old || found == new,
                    "after {done} steps: {found:?}"
                );
                assert_eq!(
                    storage.read_pair("a/b", fits).unwrap(),
                    found,
                    "reading again"
                );
                // The next change is not disturbed by leftovers either.
                storage.write_pair("a/b", &pair("newer")).unwrap();
                assert_eq!(storage.read_pair("a/b", fits).unwrap(), Some(pair("newer")));
            }
        }
    }

    /// The directory of the process to be killed; set only for that process.
    const VICTIM: &str = "SLUICE_TEST_VICTIM";

    /// Writes two pairs alternately until it is killed. Not a test itself: it returns immediately unless the variable
    /// is set.
    #[test]
    fn victim() {
        let Some(folder) = std::env::var_os(VICTIM) else {
            return;
        };
        let storage = Storage::new(folder);
        loop {
            for text in ["one", "two"] {
                storage.write_pair("a/b", &pair(text)).unwrap();
                storage.write("a/b.json", text.as_bytes()).unwrap();
            }
        }
    }

    /// Runs a process that writes until `is_time` and kills it; returns what it left.
    fn killed(folder: &Path, is_time: impl Fn() -> bool) -> Storage {
        // Written last, so its existence shows that one pair is complete.
        for name in ["a/b.json", "a/b.json.next"] {
            let _ = fs::remove_file(folder.join(name));
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storage::tests::victim"])
            .env(VICTIM, folder)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !folder.join("a/b.json").exists() || !is_time() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        Storage::new(folder)
    }

    #[test]
    fn a_process_killed_at_any_moment_leaves_a_whole_pair() {
        let folder = TempFolder::new();
        let next = |name: &str| folder.path().join("a").join(name);
        let check = |storage: &Storage| {
            let found = storage.read_pair("a/b", fits).unwrap();
            assert!(
                found == Some(pair("one")) || found == Some(pair("two")),
                "{found:?}"
            );
            let about = storage.read("a/b.json").unwrap().unwrap();
            assert!(about == b"one" || about == b"two");
            let key = fs::metadata(next("b.key")).unwrap().permissions().mode();
            assert_eq!(key & 0o777, 0o600);
            storage.write_pair("a/b", &pair("three")).unwrap();
            assert_eq!(storage.read_pair("a/b", fits).unwrap(), Some(pair("three")));
        };
        // In the middle of each step: when a temporary file exists, when only one of the two is left, and at random
        // times.
        for name in ["b.crt.next", "b.key.next", "b.json.next"] {
            check(&killed(folder.path(), || next(name).exists()));
        }
        check(&killed(folder.path(), || {
            next("b.crt.next").exists() && !next("b.key.next").exists()
        }));
        for round in 0..12 {
            let until = Instant::now() + std::time::Duration::from_micros(700 * round);
            check(&killed(folder.path(), || Instant::now() > until));
        }
    }

    #[test]
    fn a_crash_while_a_file_is_filled_leaves_the_old_one() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        storage.write("x/y.json", b"old").unwrap();
        fs::write(folder.path().join("x/y.json.next"), b"torn").unwrap();
        assert_eq!(storage.read("x/y.json").unwrap().unwrap(), b"old");
        storage.write("x/y.json", b"new").unwrap();
        assert_eq!(storage.read("x/y.json").unwrap().unwrap(), b"new");
        assert!(!folder.path().join("x/y.json.next").exists());
        assert_eq!(storage.read("x/none").unwrap(), None);
    }

    #[test]
    fn keys_are_for_their_owner_alone() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path().join("data"));
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::create_dir_all(folder.path().join("data/pki")).unwrap();
        fs::write(folder.path().join("data/pki/root.key.next"), b"torn").unwrap();
        let loose = fs::Permissions::from_mode(0o666);
        fs::set_permissions(folder.path().join("data/pki/root.key.next"), loose).unwrap();
        storage.write_pair("pki/root", &pair("k")).unwrap();
        storage.write_pair("pki/sub/leaf", &pair("k")).unwrap();
        let mode = |name: &str| {
            fs::metadata(folder.path().join("data").join(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(mode("pki/root.key"), 0o600);
        assert_eq!(mode("pki/sub/leaf.key"), 0o600);
        assert_eq!(mode("pki/sub"), 0o700);
    }

    #[test]
    fn a_storage_is_tried_out_without_a_trace() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path().join("data"));
        storage.try_out().unwrap();
        let names = fs::read_dir(folder.path().join("data")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["locks"]);
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(Storage::new(folder.path().join("file")).try_out().is_err());
    }

    #[test]
    fn a_certificate_without_its_key_and_a_huge_file_are_errors() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        fs::write(folder.path().join("a.crt"), b"x").unwrap();
        let error = storage.read_pair("a", fits).unwrap_err();
        assert!(error.to_string().contains("a.key"), "{error}");
        let huge = File::create(folder.path().join("huge")).unwrap();
        huge.set_len(PEM_BYTES_MAX + 1).unwrap();
        assert!(matches!(storage.read("huge"), Err(CertsError::TooLarge(_))));
        assert!(matches!(
            storage.read("."),
            Err(CertsError::Io { action: "read", .. })
        ));
    }

    #[test]
    fn writers_wait_for_one_another() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let lock = storage.lock().unwrap();
        let other = storage.clone();
        let writer = std::thread::spawn(move || other.write("a", b"x"));
        // That the writer waits is seen by nothing but the time.
        std::thread::sleep(STORAGE_LOCK_PAUSE * 3);
        assert_eq!(storage.read("a").unwrap(), None);
        drop(lock);
        writer.join().unwrap().unwrap();
        assert_eq!(storage.read("a").unwrap().unwrap(), b"x");
    }

    #[test]
    fn the_default_folder_follows_the_environment() {
        let with = |set: &'static [(&str, &str)]| {
            Storage::default_folder(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]),
            Path::new("/d/sluice")
        );
        assert_eq!(
            with(&[("XDG_DATA_HOME", ""), ("HOME", "/h")]),
            Path::new("/h/.local/share/sluice")
        );
        assert_eq!(with(&[]), Path::new("./sluice"));
    }
}
