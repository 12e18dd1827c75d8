//! Destinations of lines and the threads that write to them. Callers append to a bounded queue and never wait;
//! what a file does when it has grown is left to `file`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::Level;
use super::encode::{Encoder, Head};
use super::file::{RollingFile, Rotation};
use super::limits::{
    LOG_GATHER, LOG_NOTICE_PAUSE, LOG_QUEUE_BYTES_MAX, LOG_QUEUES_BYTES_MAX, LOG_SPARE_BYTES_MAX,
    LOG_STALL_MAX,
};
use super::options::OutputOptions;

/// One destination of lines. Dropping the last handle closes it once its queue is written.
#[derive(Debug)]
pub struct Output {
    queue: Mutex<Queue>,
    writer: Arc<Writer>,
    rotation: Mutex<Rotation>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    lost: u64,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It waits to be written.
    Queued,
    /// The queue was full; the line is gone and counted.
    Lost,
}

impl Output {
    /// Hands over whole lines. Never waits: if the queue is full the lines are dropped, and their number is
    /// written later.
    pub fn push(&self, lines: &[u8]) -> Pushed {
        let mut queue = lock(&self.queue);
        let total = self.writer.queued.load(Ordering::Relaxed);
        if queue.bytes.len() + lines.len() > LOG_QUEUE_BYTES_MAX
            || total + lines.len() > LOG_QUEUES_BYTES_MAX
        {
            queue.lost += 1;
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Pushed::Lost;
        }
        let first = queue.bytes.is_empty();
        queue.bytes.extend_from_slice(lines);
        self.writer.queued.fetch_add(lines.len(), Ordering::Relaxed);
        drop(queue);
        if first {
            self.writer.wake(Wake::Lines);
        }
        Pushed::Queued
    }

    /// How many lines were dropped because the queue was full.
    pub fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.bytes.is_empty() && queue.lost == 0
    }
}

/// All destinations of the process and their threads: one for files, one for the standard streams, because a
/// stopped terminal blocks its writer for as long as it likes and must not hold up files.
#[derive(Debug)]
pub struct Outputs {
    open: Arc<Open>,
    streams: Arc<Writer>,
    files: Arc<Writer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stderr: Arc<Output>,
}

type Open = Mutex<HashMap<Place, Weak<Output>>>;

/// What makes two outputs the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Stderr,
    Stdout,
    File(PathBuf),
}

impl Outputs {
    /// Starts the threads. `notices` shapes what they themselves have to say on standard error.
    pub fn start(notices: Encoder) -> io::Result<Outputs> {
        let open = Arc::new(Open::default());
        let streams = Arc::new(Writer::default());
        let files = Arc::new(Writer::default());
        let stderr = add(
            &open,
            &streams,
            Place::Stderr,
            Target::Stderr,
            Rotation::never(),
        );
        let mut threads = Vec::new();
        for (name, writer) in [("log-streams", &streams), ("log-files", &files)] {
            let scribe = Scribe {
                writer: writer.clone(),
                open: open.clone(),
                slots: Vec::new(),
                notices: notices.clone(),
                stderr: stderr.clone(),
            };
            threads.push(
                thread::Builder::new()
                    .name(name.into())
                    .spawn(move || scribe.work())?,
            );
        }
        Ok(Outputs {
            open,
            streams,
            files,
            threads: Mutex::new(threads),
            stderr,
        })
    }

    /// The output that `options` describe: an open one if there is one, else a new one; `None` if lines are to
    /// be discarded. A file that cannot be opened is an error and changes nothing.
    pub fn open(&self, options: &OutputOptions) -> io::Result<Option<Arc<Output>>> {
        match options {
            OutputOptions::Discard => Ok(None),
            OutputOptions::Stderr => Ok(Some(self.stderr.clone())),
            OutputOptions::Stdout => {
                let found = self.find(&Place::Stdout);
                Ok(Some(found.unwrap_or_else(|| {
                    add(
                        &self.open,
                        &self.streams,
                        Place::Stdout,
                        Target::Stdout,
                        Rotation::never(),
                    )
                })))
            }
            OutputOptions::File {
                path,
                mode,
                dir_mode,
                rotation,
            } => {
                let place = Place::File(std::path::absolute(path)?);
                if let Some(found) = self.find(&place) {
                    *lock(&found.rotation) = *rotation;
                    return Ok(Some(found));
                }
                let file = RollingFile::open(path, *mode, *dir_mode)?;
                let target = Target::File(Box::new(file));
                Ok(Some(add(&self.open, &self.files, place, target, *rotation)))
            }
        }
    }

    /// Standard error.
    pub fn stderr(&self) -> &Arc<Output> {
        &self.stderr
    }

    /// Writes what is queued and ends the threads, waiting at most `patience`. Lines that come later are lost.
    pub fn finish(&self, patience: Duration) {
        for writer in [&self.streams, &self.files] {
            writer.wake(Wake::Finish);
        }
        let until = Instant::now() + patience;
        for thread in lock(&self.threads).drain(..) {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn find(&self, place: &Place) -> Option<Arc<Output>> {
        lock(&self.open).get(place).and_then(Weak::upgrade)
    }
}

fn add(
    open: &Open,
    writer: &Arc<Writer>,
    place: Place,
    target: Target,
    rotation: Rotation,
) -> Arc<Output> {
    let output = Arc::new(Output {
        queue: Mutex::default(),
        writer: writer.clone(),
        rotation: Mutex::new(rotation),
        lost: AtomicU64::new(0),
    });
    lock(open).insert(place.clone(), Arc::downgrade(&output));
    let slot = Slot {
        output: output.clone(),
        target,
        place,
        spare: Vec::new(),
        failing: None,
    };
    lock(&writer.arrived).push(slot);
    output
}

/// What the callers and one thread share.
#[derive(Debug, Default)]
struct Writer {
    arrived: Mutex<Vec<Slot>>,
    wake: Mutex<Wake>,
    woken: Condvar,
    /// Bytes in all queues of this thread.
    queued: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    #[default]
    Sleep,
    Lines,
    Finish,
}

impl Writer {
    fn wake(&self, why: Wake) {
        let mut wake = lock(&self.wake);
        *wake = why.max(*wake);
        drop(wake);
        self.woken.notify_one();
    }

    /// Waits until there is something to do, then a moment for more to come.
    fn sleep(&self) -> Wake {
        let asleep = |wake: &mut Wake| *wake == Wake::Sleep;
        let wake = self
            .woken
            .wait_while(lock(&self.wake), asleep)
            .expect(NEVER_POISONED);
        let finishing = |wake: &mut Wake| *wake != Wake::Finish;
        let (mut wake, _) = self
            .woken
            .wait_timeout_while(wake, LOG_GATHER, finishing)
            .expect(NEVER_POISONED);
        let why = *wake;
        if why == Wake::Lines {
            *wake = Wake::Sleep;
        }
        why
    }
}

#[derive(Debug)]
struct Slot {
    output: Arc<Output>,
    target: Target,
    place: Place,
    /// The other half of the double buffer.
    spare: Vec<u8>,
    /// When the failure of its last write was told.
    failing: Option<Instant>,
}

#[derive(Debug)]
enum Target {
    Stderr,
    Stdout,
    File(Box<RollingFile>),
}

/// The thread's own part.
struct Scribe {
    writer: Arc<Writer>,
    open: Arc<Open>,
    slots: Vec<Slot>,
    notices: Encoder,
    stderr: Arc<Output>,
}

impl Scribe {
    fn work(mut self) {
        loop {
            let why = self.writer.sleep();
            self.slots.append(&mut lock(&self.writer.arrived));
            for at in 0..self.slots.len() {
                self.write(at);
            }
            self.close_unused();
            if why == Wake::Finish {
                return;
            }
        }
    }

    fn write(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let (bytes, lost) = {
            let mut queue = lock(&slot.output.queue);
            if queue.bytes.is_empty() && queue.lost == 0 {
                return;
            }
            let spare = std::mem::take(&mut slot.spare);
            (
                std::mem::replace(&mut queue.bytes, spare),
                std::mem::take(&mut queue.lost),
            )
        };
        let written = match &mut slot.target {
            Target::Stderr => write_patiently(&mut io::stderr(), &bytes),
            Target::Stdout => write_patiently(&mut io::stdout(), &bytes),
            Target::File(file) => {
                let rotation = *lock(&slot.output.rotation);
                file.write(&bytes, &rotation)
            }
        };
        self.writer.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        slot.spare = bytes;
        slot.spare.clear();
        slot.spare.shrink_to(LOG_SPARE_BYTES_MAX);
        let place = slot.place.clone();
        if lost > 0 {
            self.tell(
                "lines were dropped because the output is too slow",
                &place,
                lost,
                None,
            );
        }
        if let Err(error) = written {
            self.tell_failure(at, &place, &error);
        }
    }

    /// Tells of a failing output at most once in a while: the disk is full for every line.
    fn tell_failure(&mut self, at: usize, place: &Place, error: &io::Error) {
        let told = &mut self.slots[at].failing;
        if told.is_some_and(|told| told.elapsed() < LOG_NOTICE_PAUSE) {
            return;
        }
        *told = Some(Instant::now());
        if *place != Place::Stderr {
            self.tell("lines could not be written", place, 0, Some(error));
        }
    }

    fn tell(&self, message: &str, place: &Place, lines: u64, error: Option<&io::Error>) {
        let mut out = Vec::new();
        let head = Head {
            level: Level::Warn,
            logger: "log",
            message,
        };
        self.notices
            .line(&mut out, SystemTime::now(), &head, |fields| {
                let name = match place {
                    Place::Stderr => "stderr".into(),
                    Place::Stdout => "stdout".into(),
                    Place::File(path) => path.to_string_lossy(),
                };
                fields.text("output", name.as_bytes());
                if lines > 0 {
                    fields.integer("lines", lines);
                }
                if let Some(error) = error {
                    fields.text("error", error.to_string().as_bytes());
                }
            });
        self.stderr.push(&out);
    }

    /// Forgets outputs that nobody holds any more. The lock on the map keeps one from being found meanwhile.
    fn close_unused(&mut self) {
        let mut open = lock(&self.open);
        self.slots.retain(|slot| {
            let used = Arc::strong_count(&slot.output) > 1 || !slot.output.is_idle();
            if !used {
                open.remove(&slot.place);
            }
            used
        });
    }
}

/// Writes everything. A stream that another process made non-blocking is waited for, but not for ever.
fn write_patiently(stream: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && waited < LOG_STALL_MAX => {
                thread::sleep(LOG_GATHER);
                waited += LOG_GATHER;
            }
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}

const NEVER_POISONED: &str = "nothing panics while it holds a lock of the logs";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_options(path: &std::path::Path) -> OutputOptions {
        OutputOptions::File {
            path: path.into(),
            mode: 0o600,
            dir_mode: 0o700,
            rotation: Rotation::never(),
        }
    }

    fn outputs() -> Outputs {
        Outputs::start(Encoder::json()).expect("threads can be started")
    }

    #[test]
    fn lines_arrive_in_order_and_one_file_is_opened_once() {
        let folder = super::super::file::tests::folder();
        let path = folder.join("a.log");
        let outputs = outputs();
        let first = outputs
            .open(&file_options(&path))
            .expect("a file")
            .expect("not discarded");
        let again = outputs
            .open(&file_options(&path))
            .expect("a file")
            .expect("not discarded");
        assert!(Arc::ptr_eq(&first, &again));
        for number in 0..1_000 {
            let output = if number % 2 == 0 { &first } else { &again };
            assert_eq!(
                output.push(format!("{number}\n").as_bytes()),
                Pushed::Queued
            );
        }
        outputs.finish(Duration::from_secs(10));
        let text = std::fs::read_to_string(&path).expect("it was written");
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let folder = super::super::file::tests::folder();
        let outputs = outputs();
        let output = outputs
            .open(&file_options(&folder.join("a.log")))
            .expect("a file")
            .expect("not discarded");
        let line = vec![b'x'; LOG_QUEUE_BYTES_MAX + 1];
        assert_eq!(output.push(&line), Pushed::Lost);
        assert_eq!(output.lost_count(), 1);
        assert_eq!(output.push(b"small\n"), Pushed::Queued);
        outputs.finish(Duration::from_secs(10));
    }

    #[test]
    fn an_output_nobody_holds_is_closed_after_its_last_line() {
        let folder = super::super::file::tests::folder();
        let path = folder.join("a.log");
        let outputs = outputs();
        let output = outputs
            .open(&file_options(&path))
            .expect("a file")
            .expect("not discarded");
        output.push(b"last\n");
        let weak = Arc::downgrade(&output);
        drop(output);
        let until = Instant::now() + Duration::from_secs(10);
        while weak.strong_count() > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(weak.strong_count(), 0);
        assert_eq!(
            std::fs::read_to_string(&path).expect("it was written"),
            "last\n"
        );
        assert!(
            lock(&outputs.open).len() == 1,
            "only standard error is left"
        );
    }
}
