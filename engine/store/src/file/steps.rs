//! Writes as steps, and the journal that makes several of them one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FileStore, LOCKS, UNFINISHED, is_absent};
use crate::failure::StoreError;
use crate::key::Key;
use crate::values::Write;

/// One step of a change. Steps are values so that a test can stop after each of them, as a crash would.
#[derive(Debug)]
pub(super) enum Step {
    Folder(PathBuf),
    Fill { path: PathBuf, bytes: Vec<u8> },
    Rename { from: PathBuf, to: PathBuf },
    Remove(PathBuf),
    Sync(PathBuf),
}

/// A change of several values that has been decided: all new values lie beside their files, complete. Renaming and
/// removing is what is left.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    put: Vec<String>,
    delete: Vec<String>,
}

impl Journal {
    fn of(writes: &[Write<'_>]) -> Journal {
        let mut journal = Journal::default();
        for write in writes {
            match write {
                Write::Put(key, _) => journal.put.push(key.to_string()),
                Write::Delete(key) => journal.delete.push(key.to_string()),
            }
        }
        journal
    }

    pub(super) fn puts(&self, key: &Key) -> bool {
        self.put.iter().any(|put| put == key.as_str())
    }

    pub(super) fn deletes(&self, key: &Key) -> bool {
        self.delete.iter().any(|delete| delete == key.as_str())
    }
}

impl FileStore {
    fn journal_path(&self) -> PathBuf {
        self.root.join(LOCKS).join("storage.journal")
    }

    /// The change that a crash interrupted; empty if there is none.
    pub(super) fn journal(&self) -> Journal {
        let read = fs::read(self.journal_path());
        let journal: Option<Journal> = read
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        // The keys become paths.
        let is_key = |text: &String| Key::new(text.as_str()).is_ok();
        let is_sound = |j: &Journal| j.put.iter().chain(&j.delete).all(is_key);
        journal.filter(is_sound).unwrap_or_default()
    }

    /// Completes the change that a crash interrupted. The lock for writes is held.
    pub(super) fn complete(&self) -> Result<(), StoreError> {
        let journal = self.journal();
        if journal != Journal::default() {
            self.run(&self.last_steps(&journal))?;
        }
        Ok(())
    }

    /// The steps of `writes`, which are made together.
    pub(super) fn steps(&self, writes: &[Write<'_>]) -> Vec<Step> {
        let journal = Journal::of(writes);
        let mut steps = Vec::new();
        let mut folders = Vec::new();
        for write in writes {
            let Write::Put(key, bytes) = write else {
                continue;
            };
            let path = self.path(key);
            let folder = parent(&path);
            if !folders.contains(&folder) {
                steps.push(Step::Folder(folder.clone()));
                folders.push(folder);
            }
            steps.push(Step::Fill {
                path: unfinished(&path),
                bytes: bytes.to_vec(),
            });
        }
        if writes.len() > 1 {
            // They must be found after a crash once the journal says so.
            steps.extend(folders.into_iter().map(Step::Sync));
            let path = self.journal_path();
            steps.push(Step::Folder(parent(&path)));
            steps.push(Step::Fill {
                path: unfinished(&path),
                bytes: serde_json::to_vec(&journal).unwrap_or_default(),
            });
            steps.push(Step::Rename {
                from: unfinished(&path),
                to: path.clone(),
            });
            steps.push(Step::Sync(parent(&path)));
            steps.extend(self.last_steps(&journal));
        } else {
            steps.extend(self.renames(&journal));
        }
        steps
    }

    /// What is left to do once the journal is written.
    pub(super) fn last_steps(&self, journal: &Journal) -> Vec<Step> {
        let mut steps = self.renames(journal);
        let path = self.journal_path();
        steps.push(Step::Remove(path.clone()));
        // Were it found again after a crash, it would undo later changes.
        steps.push(Step::Sync(parent(&path)));
        steps
    }

    fn renames(&self, journal: &Journal) -> Vec<Step> {
        let path = |key: &String| self.root.join(key);
        let mut steps = Vec::new();
        let mut folders = Vec::new();
        for to in journal.put.iter().map(path) {
            let from = unfinished(&to);
            folders.push(parent(&to));
            steps.push(Step::Rename { from, to });
        }
        for gone in journal.delete.iter().map(path) {
            folders.push(parent(&gone));
            steps.push(Step::Remove(gone));
        }
        folders.sort();
        folders.dedup();
        steps.extend(folders.into_iter().map(Step::Sync));
        steps
    }

    pub(super) fn run(&self, steps: &[Step]) -> Result<(), StoreError> {
        steps.iter().try_for_each(|step| match step {
            Step::Folder(path) => self.create_folder(path),
            Step::Fill { path, bytes } => {
                fill(path, bytes).map_err(|error| self.failed("write", path, &error))
            }
            Step::Rename { from, to } => match fs::rename(from, to) {
                // It was renamed before the crash.
                Err(error) if is_absent(&error) && to.exists() => Ok(()),
                done => done.map_err(|error| self.failed("replace", to, &error)),
            },
            Step::Remove(path) => match fs::remove_file(path) {
                Err(error) if !is_absent(&error) => Err(self.failed("remove", path, &error)),
                Ok(()) | Err(_) => {
                    self.remove_empty(&parent(path));
                    Ok(())
                }
            },
            Step::Sync(path) => match File::open(path).and_then(|folder| folder.sync_all()) {
                // Its last file was removed.
                Err(error) if is_absent(&error) => Ok(()),
                done => done.map_err(|error| self.failed("sync", path, &error)),
            },
        })
    }

    pub(super) fn create_folder(&self, path: &Path) -> Result<(), StoreError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
        created.map_err(|error| self.failed("create", path, &error))
    }

    /// Removes a folder without files, and those around it that have none then.
    fn remove_empty(&self, folder: &Path) {
        let mut folder = folder;
        while folder.starts_with(&self.root) && folder != self.root {
            // It fails if there are other files, which are not ours to delete.
            if fs::remove_dir(folder).is_err() {
                return;
            }
            let Some(above) = folder.parent() else { return };
            folder = above;
        }
    }
}

/// Writes a file that only its owner can read.
pub(super) fn fill(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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

/// The name of a file until it is complete.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    path.with_file_name(name)
}

pub(super) fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).to_owned()
}
