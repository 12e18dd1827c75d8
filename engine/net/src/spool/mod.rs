//! Temporary files for buffered bodies. A helper thread writes them, so a slow disk never blocks a worker. The layer
//! above decides what is written and when.

mod names;
mod writer;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use crate::limits::{SPOOL_BYTES_MAX, SPOOL_FILES_MAX};
use crate::sys::temp_file::create_unnamed;
use crate::worker::Worker;

pub use names::{AfterUse, Names};
use writer::{Job, Slot, Writer};

/// A directory for temporary files.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The directory `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Arc<Folder> {
        Arc::new(Folder { path: path.into() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory if it is missing, accessible only by its owner; returns whether it did. Checks that files
    /// can be created in it.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn prepare(&self) -> io::Result<bool> {
        use std::os::unix::fs::DirBuilderExt;
        let is_new = !self.path.is_dir();
        if is_new {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&self.path)?;
        }
        create_unnamed(&self.path).map(|_| is_new)
    }
}

/// A temporary file for one body, created by the first write. It has a name only if it began with [`Names`].
pub struct SpoolFile {
    target: Arc<Target>,
    slot: Arc<Slot>,
    spools: Rc<Spools>,
    worker: Rc<Worker>,
    /// How many bytes were added to the counters for this file.
    counted: u64,
}

/// The file itself, created by the helper thread and read by the worker.
struct Target {
    folder: Arc<Folder>,
    file: OnceLock<File>,
    /// What names it, if it has a name, and the path.
    names: Option<Arc<Names>>,
    path: OnceLock<PathBuf>,
}

impl Drop for Target {
    fn drop(&mut self) {
        let is_removed = |names: &Arc<Names>| names.after_use() == AfterUse::Remove;
        if let (true, Some(path)) = (self.names.as_ref().is_some_and(is_removed), self.path.get()) {
            // Another program may have removed it before.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The spool files of one worker, and the thread that writes them. The thread starts with the first file; started by a
/// worker, it runs as the worker's user.
#[derive(Default)]
struct Spools {
    writer: RefCell<Option<Arc<Writer>>>,
}

impl Spools {
    fn writer(&self) -> io::Result<Arc<Writer>> {
        if let Some(writer) = &*self.writer.borrow() {
            return Ok(writer.clone());
        }
        let writer = Writer::start()?;
        Ok(self.writer.borrow_mut().insert(writer).clone())
    }
}

impl Drop for Spools {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.borrow_mut().take() {
            writer.end();
        }
    }
}

/// The result of a write.
pub struct Written {
    /// The buffers, returned for reuse.
    pub pieces: Vec<Vec<u8>>,
    /// Whether all of them were written.
    pub outcome: io::Result<()>,
}

impl SpoolFile {
    /// A file in `folder`, to be created by the first write. `None` if the worker has reached its limits
    /// ([`SPOOL_FILES_MAX`], [`SPOOL_BYTES_MAX`]).
    pub fn begin(worker: &Rc<Worker>, folder: &Arc<Folder>) -> Option<SpoolFile> {
        SpoolFile::create(worker, folder, None)
    }

    /// Like [`SpoolFile::begin`], for a file with one of `names`.
    pub fn begin_named(worker: &Rc<Worker>, names: &Arc<Names>) -> Option<SpoolFile> {
        SpoolFile::create(worker, names.folder(), Some(names.clone()))
    }

    /// The path of a file with a name, once something was written.
    pub fn path(&self) -> Option<&Path> {
        self.target.path.get().map(PathBuf::as_path)
    }

    fn create(
        worker: &Rc<Worker>,
        folder: &Arc<Folder>,
        names: Option<Arc<Names>>,
    ) -> Option<SpoolFile> {
        let counters = &worker.counters;
        let is_full = counters.spool_files.value() >= SPOOL_FILES_MAX
            || counters.spool_bytes.value() >= SPOOL_BYTES_MAX;
        if is_full {
            counters.spool_refused.up();
            return None;
        }
        counters.spool_files.up();
        counters.spooled.up();
        Some(SpoolFile {
            target: Arc::new(Target {
                folder: folder.clone(),
                file: OnceLock::new(),
                names,
                path: OnceLock::new(),
            }),
            slot: Arc::default(),
            spools: worker.local::<Spools>(),
            worker: worker.clone(),
            counted: 0,
        })
    }

    /// Queues `pieces` for the helper thread to write at `at`, leaving `pieces` empty. Pending while the queue is full.
    /// Only one write may be in progress at a time: wait for [`SpoolFile::poll_written`] before the next.
    ///
    /// # Errors
    ///
    /// The helper thread cannot be started.
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &mut Vec<Vec<u8>>,
        at: u64,
    ) -> Poll<io::Result<()>> {
        let writer = match self.spools.writer() {
            Ok(writer) => writer,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let job = || Job::Write {
            target: self.target.clone(),
            slot: self.slot.clone(),
            pieces: std::mem::take(pieces),
            at,
        };
        writer.poll_enter(cx, job).map(Ok)
    }

    /// Ready once the write in progress has ended.
    pub fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Written> {
        let written = self.slot.poll(cx);
        if let Poll::Ready(written) = &written {
            match written.outcome {
                Ok(()) => self.count(written.pieces.iter().map(|piece| piece.len() as u64).sum()),
                Err(_) => self.worker.counters.spool_failures.up(),
            }
        }
        written
    }

    fn count(&mut self, bytes: u64) {
        self.counted += bytes;
        self.worker.counters.spool_bytes.add(bytes);
    }

    /// All content was consumed: the file is reused from its beginning.
    pub fn note_drained(&mut self) {
        self.worker.counters.spool_bytes.sub(self.counted);
        self.counted = 0;
    }

    /// Reads `count` bytes at `at`, which were written before, into `out`, which is empty.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn read(&self, out: &mut Vec<u8>, at: u64, count: usize) -> io::Result<()> {
        let file = self.target.file.get().ok_or(io::ErrorKind::NotFound)?;
        out.resize(count, 0);
        file.read_exact_at(out, at).inspect_err(|_| out.clear())
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        let counters = &self.worker.counters;
        counters.spool_files.down();
        counters.spool_bytes.sub(self.counted);
        // Closing a large file takes time as well, so the helper thread does it.
        if let (true, Some(writer)) = (self.counted > 0, &*self.spools.writer.borrow()) {
            writer.close(self.target.clone());
        }
    }
}

impl Target {
    fn write(&self, pieces: &[Vec<u8>], mut at: u64) -> io::Result<()> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let made = match &self.names {
                    None => create_unnamed(&self.folder.path)?,
                    Some(names) => {
                        let (made, path) = names.create()?;
                        self.path.get_or_init(|| path);
                        made
                    }
                };
                self.file.get_or_init(|| made)
            }
        };
        for piece in pieces {
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("sluice-spool-{name}-{}", std::process::id()))
    }

    async fn write(file: &mut SpoolFile, pieces: &[&str], at: u64) -> Written {
        let mut pieces: Vec<_> = pieces.iter().map(|one| one.as_bytes().to_vec()).collect();
        poll_fn(|cx| file.poll_write(cx, &mut pieces, at))
            .await
            .unwrap();
        assert!(pieces.is_empty());
        poll_fn(|cx| file.poll_written(cx)).await
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn what_is_written_can_be_read_and_leaves_no_name() {
        let path = folder("read");
        let folder = Folder::new(&path);
        assert!(folder.prepare().unwrap());
        assert!(!folder.prepare().unwrap());
        run(async {
            let worker = Worker::new(0, 1);
            let mut file = SpoolFile::begin(&worker, &folder).unwrap();
            let written = write(&mut file, &["abc", "", "defg"], 0).await;
            written.outcome.unwrap();
            assert_eq!(written.pieces.len(), 3);
            write(&mut file, &["hi"], 7).await.outcome.unwrap();
            let mut out = Vec::new();
            file.read(&mut out, 2, 6).unwrap();
            assert_eq!(out, b"cdefgh");
            assert!(file.read(&mut out, 8, 2).is_err());
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
            let counters = &worker.counters;
            assert_eq!(counters.spool_files.value(), 1);
            assert_eq!(counters.spool_bytes.value(), 9);
            drop(file);
            assert_eq!(counters.spool_files.value(), 0);
            assert_eq!(counters.spool_bytes.value(), 0);
        });
        std::fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn files_with_names_stay_or_go() {
        let path = folder("names");
        std::fs::create_dir(&path).unwrap();
        let names = |after| Arc::new(Names::new(Folder::new(&path), &[1, 2], after));
        run(async {
            let worker = Worker::new(0, 1);
            let kept = names(AfterUse::Keep);
            let mut file = SpoolFile::begin_named(&worker, &kept).unwrap();
            assert_eq!(file.path(), None);
            write(&mut file, &["abc"], 0).await.outcome.unwrap();
            let first = path.join("1/00/0000000001");
            assert_eq!(file.path(), Some(&*first));
            drop(file);
            // What another process has left is not overwritten.
            let removed = names(AfterUse::Remove);
            let mut file = SpoolFile::begin_named(&worker, &removed).unwrap();
            write(&mut file, &[], 0).await.outcome.unwrap();
            let second = file.path().unwrap().to_owned();
            assert_ne!(second, first);
            assert!(second.exists());
            drop(file);
            assert!(!second.exists());
            assert_eq!(std::fs::read(&first).unwrap(), b"abc");
        });
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn pieces_come_back_from_a_write_that_fails() {
        run(async {
            let worker = Worker::new(0, 1);
            let missing = Folder::new(folder("missing"));
            let mut file = SpoolFile::begin(&worker, &missing).unwrap();
            let written = write(&mut file, &["abc"], 0).await;
            let error = written.outcome.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(written.pieces, [b"abc"]);
            assert_eq!(worker.counters.spool_failures.value(), 1);
            assert!(file.read(&mut Vec::new(), 0, 1).is_err());
        });
    }

    #[test]
    fn a_worker_has_no_more_files_than_the_limit_says() {
        run(async {
            let worker = Worker::new(0, 1);
            let folder = Folder::new("/nowhere");
            worker.counters.spool_files.add(SPOOL_FILES_MAX - 1);
            let last = SpoolFile::begin(&worker, &folder);
            assert!(last.is_some());
            assert!(SpoolFile::begin(&worker, &folder).is_none());
            assert_eq!(worker.counters.spool_refused.value(), 1);
            drop(last);
            assert!(SpoolFile::begin(&worker, &folder).is_some());
        });
    }
}
