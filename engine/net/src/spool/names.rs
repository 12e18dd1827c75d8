//! Names of temporary files that other programs are to read: numbers with ten digits, in nested folders, as nginx has
//! them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Folder;
use crate::limits::SPOOL_NAMES_TRIED_MAX;

/// What happens to a file with a name after its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterUse {
    /// It stays.
    Keep,
    /// It is removed.
    Remove,
}

/// The names of files in a folder.
#[derive(Debug)]
pub struct Names {
    folder: Arc<Folder>,
    /// The lengths of the names of nested folders.
    levels: Box<[u8]>,
    after_use: AfterUse,
    last: AtomicU32,
}

/// How far the next number is from one that is taken, so that files of an earlier process are passed over quickly.
const STEP_AFTER_COLLISION: u32 = 123_456;

impl Names {
    /// Names in `folder`. `levels` are the lengths of the names of nested folders, from the outside in.
    pub fn new(folder: Arc<Folder>, levels: &[u8], after_use: AfterUse) -> Names {
        Names {
            folder,
            levels: levels.into(),
            after_use,
            last: AtomicU32::new(0),
        }
    }

    pub(super) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    pub(super) fn after_use(&self) -> AfterUse {
        self.after_use
    }

    /// Creates a file with the next free name, readable by its owner only.
    pub(super) fn create(&self) -> io::Result<(File, PathBuf)> {
        let mut step = 1;
        for _ in 0..SPOOL_NAMES_TRIED_MAX {
            let number = self
                .last
                .fetch_add(step, Ordering::Relaxed)
                .wrapping_add(step);
            let path = self.path(number);
            match create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    step = STEP_AFTER_COLLISION;
                }
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && !self.levels.is_empty() =>
                {
                    let folder = path.parent().unwrap_or(self.folder.path());
                    let mut builder = DirBuilder::new();
                    builder.recursive(true).mode(0o700).create(folder)?;
                    return create(&path).map(|file| (file, path));
                }
                made => return made.map(|file| (file, path)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The last digits name the outermost folder, those before them the next one.
    fn path(&self, number: u32) -> PathBuf {
        let name = format!("{number:010}");
        let mut path = self.folder.path().to_owned();
        let mut end = name.len();
        for level in &self.levels {
            let start = end.saturating_sub(usize::from(*level));
            path.push(&name[start..end]);
            end = start;
        }
        path.push(&name);
        path
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
