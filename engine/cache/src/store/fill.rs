//! A cache file being written. It has a temporary name until it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::record::Record;
use super::{Digest, Store, lock};
use crate::limits::{BLOCK_BYTES_MAX, DISK_BLOCK_BYTES};

/// The directory for incomplete files. Nothing else in the cache directory begins with a dot.
pub(super) const FOLDER: &str = ".filling";

/// A cache file being written. Dropping it removes the file. After a write error it accepts further writes, and nothing
/// is cached in the end.
pub struct Fill {
    store: Arc<Store>,
    digest: Digest,
    record: Record,
    path: PathBuf,
    /// `None` after a write error.
    file: Option<File>,
    bytes_max: u64,
}

impl Fill {
    pub(super) fn begin(
        store: &Arc<Store>,
        digest: Digest,
        mut record: Record,
        bytes_max: u64,
    ) -> Option<Fill> {
        record.content_len = 0;
        let block = record.encode(None)?;
        record.block_len = block.len();
        let name = format!("{:016x}", store.next_id());
        let path = store.path.join(FOLDER).join(name);
        match create(&path, block.len() as u64) {
            Ok(file) => {
                lock(&store.filling).insert(record.nonce, record.key.clone());
                Some(Fill {
                    store: store.clone(),
                    digest,
                    record,
                    path,
                    file: Some(file),
                    bytes_max,
                })
            }
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                store.trouble("cannot store a response in the cache", &path, &error);
                None
            }
        }
    }

    /// Appends to the body.
    pub fn write(&mut self, content: &[u8]) {
        let Some(file) = &mut self.file else { return };
        self.record.content_len += content.len() as u64;
        let is_too_long = self.bytes_max > 0 && self.record.content_len > self.bytes_max;
        let written = match is_too_long {
            true => Ok(false),
            false => file.write_all(content).map(|()| true),
        };
        match written {
            Ok(true) => {}
            Ok(false) => self.give_up(),
            Err(error) => self.fail(&error),
        }
    }

    /// Whether the response will be cached, as far as is known.
    pub fn is_going_on(&self) -> bool {
        self.file.is_some()
    }

    /// Another handle of the file, and the offset of the body in it; `None` if it cannot be read.
    pub fn reader(&self) -> Option<(File, u64)> {
        let file = self.file.as_ref()?.try_clone().ok()?;
        Some((file, self.record.block_len as u64))
    }

    /// Completes the file: the response is now in the cache, unless its key was purged meanwhile.
    pub fn finish(mut self) {
        if !lock(&self.store.filling).contains_key(&self.record.nonce) {
            return;
        }
        let Some(file) = self.file.take() else { return };
        match self.put_in_place(&file) {
            Ok(()) => {
                let bytes = self.record.block_len as u64 + self.record.content_len;
                let bytes = bytes.next_multiple_of(DISK_BLOCK_BYTES);
                self.store.take_in(self.digest, &self.record, bytes);
            }
            Err(error) => {
                self.file = Some(file);
                self.fail(&error);
            }
        }
    }

    fn put_in_place(&self, file: &File) -> io::Result<()> {
        // The length has not changed, because numbers are encoded with a fixed width.
        let block = self.record.encode(Some(self.record.block_len));
        let block = block.ok_or(io::ErrorKind::InvalidData)?;
        file.write_all_at(&block, 0)?;
        let target = self.store.file(self.digest);
        match std::fs::rename(&self.path, &target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = target.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                std::fs::rename(&self.path, &target)
            }
            done => done,
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.store
            .trouble("cannot store a response in the cache", &self.path, error);
        self.give_up();
    }

    fn give_up(&mut self) {
        if self.file.take().is_some() {
            lock(&self.store.filling).remove(&self.record.nonce);
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// How often a file is created again because the cleanup found it before it was locked. A cleanup looks at a file once,
/// and rarely are there two of them: that of this process and that of the one which takes over.
const CREATIONS_MAX: u32 = 3;

/// Creates a file with a hole for its header block. The file stays locked while it is written: the cleanup after a
/// killed process recognizes abandoned files by the missing lock.
fn create(path: &Path, block_len: u64) -> io::Result<File> {
    use std::io::Seek;
    for _ in 0..CREATIONS_MAX {
        let mut file = match open_new(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                open_new(path)?
            }
            done => done?,
        };
        if is_locked_in_place(&file)? {
            file.seek(io::SeekFrom::Start(block_len))?;
            return Ok(file);
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Locks a new file; returns false if a cleanup has removed it before.
fn is_locked_in_place(file: &File) -> io::Result<bool> {
    // A cleanup that has found the file without a lock holds it until the file is removed.
    file.lock()?;
    Ok(file.metadata()?.nlink() > 0)
}

/// Removes an incomplete file if it was abandoned, that is, if no process holds its lock.
pub(super) fn remove_if_left_behind(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    if file.try_lock().is_ok() {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether a broken file is ours, or is empty after a crash of the system. Files of other programs are left alone.
pub(super) fn is_cut_off(path: &Path) -> bool {
    let mut start = [0; 8];
    let read = File::open(path).and_then(|file| file.read_at(&mut start, 0));
    read.is_ok_and(|count| count < start.len() || start == [0; 8] || Record::is_ours(&start))
}

/// Overwrites the header block of a file, if the file still has this nonce.
pub(super) fn overwrite(path: &Path, nonce: u64, block: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let found = read_record(&file)?;
    if found.nonce != nonce || found.block_len != block.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    file.write_all_at(block, 0)
}

/// Reads the header block of a file; fails unless the block and the body are complete.
pub(super) fn read_record(file: &File) -> io::Result<Record> {
    let mut start = vec![0; 4096];
    let mut had = 0;
    loop {
        match file.read_at(&mut start[had..], had as u64)? {
            0 => break,
            count => had += count,
        }
        if let Some(length) = Record::block_len(&start[..had])
            && had < length.min(BLOCK_BYTES_MAX)
        {
            start.resize(length, 0);
        } else {
            break;
        }
    }
    let record = Record::block_len(&start[..had])
        .and_then(|length| Record::decode(start[..had].get(..length)?));
    let record = record.ok_or(io::ErrorKind::InvalidData)?;
    let length = record.block_len as u64 + record.content_len;
    match file.metadata()?.len() == length {
        true => Ok(record),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleanup_removes_only_what_no_process_has_locked() {
        let name = format!("sluice-cache-fill-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let early = open_new(&path).unwrap();
        remove_if_left_behind(&path);
        assert!(!path.exists() && !is_locked_in_place(&early).unwrap());
        let file = create(&path, 0).unwrap();
        remove_if_left_behind(&path);
        assert!(path.exists());
        drop(file);
        remove_if_left_behind(&path);
        assert!(!path.exists());
    }
}
