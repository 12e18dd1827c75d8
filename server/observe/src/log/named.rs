//! Log files whose paths depend on the request. A dedicated thread opens them, because that may block on the disk. The
//! first worker that needs the thread starts it, so it runs as the unprivileged user: paths that clients can influence
//! are not opened as root. The callers determine lines and paths.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::entry::Log;
use super::limits::{
    LOG_GATHER, LOG_NAMED_LINES_MAX, LOG_NAMED_OPEN_MAX, LOG_NOTICE_PAUSE, LOG_QUEUE_BYTES_MAX,
};
use super::severity::Severity;

/// Which files stay open (`open_log_file_cache`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// The maximum number.
    pub max: usize,
    /// Close files that were not written to for this long.
    pub inactive: Duration,
    /// Keep files open that were written to this many times within that period.
    pub uses_min: u32,
    /// How often to check whether the path still refers to the open file.
    pub valid: Duration,
}

/// What the lines of one directive have in common.
#[derive(Debug)]
pub struct Target {
    /// The log for failures to open files.
    pub log: Log,
    /// The logger name for those; nginx's level is appended.
    pub logger: String,
    /// Which files stay open; `None` to close them after each write.
    pub kept: Option<Kept>,
    /// When the latest failure was logged.
    pub last_logged: Mutex<Option<Instant>>,
}

/// A line and its destination.
#[derive(Debug)]
pub struct NamedLine {
    /// The directive.
    pub target: Arc<Target>,
    /// The path of the file.
    pub path: PathBuf,
    /// The site's root; nothing is written if it does not exist.
    pub root: PathBuf,
    /// The line with its terminator.
    pub line: Vec<u8>,
}

/// Log files with variable paths.
#[derive(Debug)]
pub struct Named {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<NamedLine>,
    bytes: usize,
    reopens: bool,
    finishes: bool,
}

impl Named {
    /// Creates an empty queue. `lost` counts lines that are dropped because it is full.
    pub fn new(lost: Arc<AtomicU64>) -> Named {
        Named {
            shared: Arc::default(),
            thread: Mutex::default(),
            lost,
        }
    }

    /// Queues a line. Never blocks: if the queue is full the line is dropped and counted.
    pub fn push(&self, line: NamedLine) {
        let mut waiting = lock(&self.shared.waiting);
        let is_full = waiting.lines.len() >= LOG_NAMED_LINES_MAX
            || waiting.bytes + line.line.len() > LOG_QUEUE_BYTES_MAX;
        if is_full || waiting.finishes {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes += line.line.len();
        waiting.lines.push_back(line);
        let is_first = waiting.lines.len() == 1;
        drop(waiting);
        if is_first {
            self.start();
            self.shared.woken.notify_one();
        }
    }

    fn start(&self) {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let scribe = Scribe {
                shared: self.shared.clone(),
                files: HashMap::new(),
            };
            let started = thread::Builder::new()
                .name("log-named".into())
                .spawn(move || scribe.work());
            // Without the thread, lines wait for the next attempt, and are dropped once the queue is full.
            *thread = started.ok();
        }
    }

    /// Closes all files after pending lines are written, because they were moved.
    pub fn reopen(&self) {
        // Without the thread no file is open.
        if lock(&self.thread).is_some() {
            lock(&self.shared.waiting).reopens = true;
            self.shared.woken.notify_one();
        }
    }

    /// Writes pending lines and ends the thread, with a timeout of `timeout`.
    pub fn finish(&self, timeout: Duration) {
        lock(&self.shared.waiting).finishes = true;
        self.shared.woken.notify_one();
        let until = Instant::now() + timeout;
        if let Some(thread) = lock(&self.thread).take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The state of the thread.
struct Scribe {
    shared: Arc<Shared>,
    files: HashMap<Kept, OpenFiles>,
}

impl Scribe {
    fn work(mut self) {
        loop {
            let (lines, reopens, finishes) = self.wait();
            self.write(lines);
            if reopens {
                self.files.clear();
            }
            let now = Instant::now();
            self.files.retain(|kept, files| files.forget(kept, now));
            if finishes {
                return;
            }
        }
    }

    /// Waits for work; returns an empty list if files may have become inactive.
    fn wait(&self) -> (VecDeque<NamedLine>, bool, bool) {
        let idle = |waiting: &mut Waiting| {
            waiting.lines.is_empty() && !waiting.reopens && !waiting.finishes
        };
        let waiting = lock(&self.shared.waiting);
        let shortest = self.files.keys().map(|kept| kept.inactive).min();
        let waiting = match shortest {
            None => {
                let woken = self.shared.woken.wait_while(waiting, idle);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
            Some(time) => {
                let time = time.max(LOG_GATHER);
                let woken = self.shared.woken.wait_timeout_while(waiting, time, idle);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        // Wait briefly for more lines, so that a file is opened once for many of them.
        let more = |waiting: &mut Waiting| !waiting.finishes && !waiting.lines.is_empty();
        let gathered = self
            .shared
            .woken
            .wait_timeout_while(waiting, LOG_GATHER, more);
        let mut waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        waiting.bytes = 0;
        let reopens = std::mem::take(&mut waiting.reopens);
        (
            std::mem::take(&mut waiting.lines),
            reopens,
            waiting.finishes,
        )
    }

    /// Writes lines, grouped by file.
    fn write(&mut self, lines: VecDeque<NamedLine>) {
        let mut numbers: HashMap<(Option<Kept>, PathBuf, PathBuf), usize> = HashMap::new();
        let mut pieces: Vec<(NamedLine, u32)> = Vec::new();
        for line in lines {
            let key = (line.target.kept, line.path.clone(), line.root.clone());
            match numbers.get(&key) {
                Some(number) => {
                    let (piece, count) = &mut pieces[*number];
                    piece.line.extend_from_slice(&line.line);
                    *count += 1;
                }
                None => {
                    numbers.insert(key, pieces.len());
                    pieces.push((line, 1));
                }
            }
        }
        for (piece, count) in pieces {
            if let Err((what, path, error)) = self.write_piece(&piece, count) {
                piece.target.log_failure(what, path, &error);
            }
        }
    }

    fn write_piece<'l>(
        &mut self,
        piece: &'l NamedLine,
        uses: u32,
    ) -> Result<(), (What, &'l Path, io::Error)> {
        match std::fs::metadata(&piece.root) {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => return Err((What::Test, &piece.root, io::ErrorKind::NotADirectory.into())),
            Err(error) => return Err((What::Test, &piece.root, error)),
        }
        let opened = match &piece.target.kept {
            None => open(&piece.path).and_then(|mut file| file.write_all(&piece.line)),
            Some(kept) => {
                let files = self.files.entry(*kept).or_default();
                files.write(kept, piece, uses, Instant::now())
            }
        };
        opened.map_err(|error| (What::Open, piece.path.as_path(), error))
    }
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Checking a root.
    Test,
    /// Opening a file, or writing to it.
    Open,
}

impl Target {
    /// Logs a failure in nginx's wording, with limited frequency.
    fn log_failure(&self, what: What, path: &Path, error: &io::Error) {
        let mut last = lock(&self.last_logged);
        if last.is_some_and(|last| last.elapsed() < LOG_NOTICE_PAUSE) {
            return;
        }
        *last = Some(Instant::now());
        let reason = match error.raw_os_error() {
            Some(number) => {
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                format!("failed ({number}: {text})")
            }
            None => format!("failed ({error})"),
        };
        let path = path.display();
        let (severity, message) = match what {
            What::Test => (
                Severity::Error,
                format!("testing \"{path}\" existence {reason}"),
            ),
            What::Open => (Severity::Critical, format!("open() \"{path}\" {reason}")),
        };
        let logger = format!("{}.{}", self.logger, severity.as_str());
        let message = format!("{message} while logging request");
        self.log.entry(severity, &logger, &message).send();
    }
}

/// Open files, and use counts of files that may stay open.
#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<PathBuf, OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: Option<File>,
    uses: u32,
    used: Instant,
    looked: Instant,
}

impl OpenFiles {
    fn write(&mut self, kept: &Kept, piece: &NamedLine, uses: u32, now: Instant) -> io::Result<()> {
        self.make_room(kept, &piece.path);
        let entry = self.files.entry(piece.path.clone()).or_insert(OpenFile {
            file: None,
            uses: 0,
            used: now,
            looked: now,
        });
        entry.uses = entry.uses.saturating_add(uses);
        entry.used = now;
        if now.duration_since(entry.looked) >= kept.valid {
            entry.looked = now;
            let is_same = entry
                .file
                .as_ref()
                .is_some_and(|file| is_at(file, &piece.path));
            if !is_same {
                entry.file = None;
            }
        }
        let mut file = match entry.file.take() {
            Some(file) => file,
            None => {
                entry.looked = now;
                open(&piece.path)?
            }
        };
        file.write_all(&piece.line)?;
        if entry.uses >= kept.uses_min {
            entry.file = Some(file);
        }
        Ok(())
    }

    /// Closes the least recently written file if there are too many.
    fn make_room(&mut self, kept: &Kept, path: &Path) {
        if self.files.contains_key(path) {
            return;
        }
        while self.files.len() >= kept.max.clamp(1, LOG_NAMED_OPEN_MAX) {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            self.files.remove(&path);
        }
    }

    /// Closes inactive files; returns whether any are left.
    fn forget(&mut self, kept: &Kept, now: Instant) -> bool {
        self.files
            .retain(|_, file| now.duration_since(file.used) < kept.inactive);
        !self.files.is_empty()
    }
}

/// Whether an open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let same = file.metadata().ok().zip(std::fs::metadata(path).ok());
    same.is_some_and(|(open, there)| (open.dev(), open.ino()) == (there.dev(), there.ino()))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        // nginx's default mode.
        .mode(0o644)
        .open(path)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Kept = Kept {
        max: 2,
        inactive: Duration::from_secs(10),
        uses_min: 2,
        valid: Duration::from_secs(60),
    };

    fn line(folder: &Path, name: &str, text: &str, kept: Option<Kept>) -> NamedLine {
        NamedLine {
            target: Arc::new(Target {
                log: Log::silent(),
                logger: String::new(),
                kept,
                last_logged: Mutex::default(),
            }),
            path: folder.join(name),
            root: folder.to_owned(),
            line: text.as_bytes().to_vec(),
        }
    }

    #[test]
    fn few_files_stay_open_and_only_those_in_use() {
        let folder = super::super::file::tests::folder();
        let mut files = OpenFiles::default();
        let start = Instant::now();
        let write = |files: &mut OpenFiles, name: &str, after: u64| {
            let line = line(&folder, name, "x\n", None);
            let now = start + Duration::from_secs(after);
            files.write(&KEPT, &line, 1, now).unwrap();
        };
        let is_open = |files: &OpenFiles, name: &str| {
            let found = files.files.get(&folder.join(name));
            found.map(|found| found.file.is_some())
        };
        write(&mut files, "a", 0);
        assert_eq!(is_open(&files, "a"), Some(false), "one use is too few");
        write(&mut files, "a", 1);
        assert_eq!(is_open(&files, "a"), Some(true));
        write(&mut files, "b", 2);
        write(&mut files, "c", 3);
        assert_eq!(is_open(&files, "a"), None, "there is room for two");
        assert!(files.forget(&KEPT, start + Duration::from_secs(12)));
        assert_eq!(is_open(&files, "b"), None, "nobody used it for ten seconds");
        assert!(!files.forget(&KEPT, start + Duration::from_secs(13)));
        // A moved file is written to until the next check.
        write(&mut files, "d", 20);
        write(&mut files, "d", 21);
        std::fs::rename(folder.join("d"), folder.join("old")).unwrap();
        write(&mut files, "d", 22);
        assert!(!folder.join("d").exists());
        write(&mut files, "d", 82);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(
            (read("old").as_str(), read("d").as_str()),
            ("x\nx\nx\n", "x\n")
        );
    }

    #[test]
    fn too_many_lines_are_dropped_and_counted() {
        let folder = super::super::file::tests::folder();
        let lost = Arc::new(AtomicU64::new(0));
        let named = Named::new(lost.clone());
        // Simulates a thread that is blocked.
        *lock(&named.thread) = Some(thread::spawn(|| {}));
        let large = "x".repeat(LOG_QUEUE_BYTES_MAX / 2);
        for _ in 0..3 {
            named.push(line(&folder, "a", &large, None));
        }
        assert_eq!(lost.load(Ordering::Relaxed), 1);
        let named = Named::new(lost.clone());
        *lock(&named.thread) = Some(thread::spawn(|| {}));
        let target = line(&folder, "a", "", None).target;
        for _ in 0..LOG_NAMED_LINES_MAX + 5 {
            named.push(NamedLine {
                target: target.clone(),
                path: PathBuf::new(),
                root: PathBuf::new(),
                line: Vec::new(),
            });
        }
        assert_eq!(lost.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn lines_of_one_file_keep_their_order_and_nothing_is_made_without_a_root() {
        let folder = super::super::file::tests::folder();
        let named = Named::new(Arc::default());
        let one = line(&folder, "a", "1\n", Some(KEPT));
        let again = |text: &str, name: &str, root: &str| NamedLine {
            target: one.target.clone(),
            path: folder.join(name),
            root: folder.join(root),
            line: text.as_bytes().to_vec(),
        };
        let lines = [
            again("2\n", "b", ""),
            again("3\n", "a", ""),
            again("4\n", "c", "none"),
        ];
        named.push(one);
        lines.into_iter().for_each(|line| named.push(line));
        named.finish(Duration::from_secs(10));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("a").as_str(), read("b").as_str()), ("1\n3\n", "2\n"));
        assert!(!folder.join("c").exists());
    }
}
