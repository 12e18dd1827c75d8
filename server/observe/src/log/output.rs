//! Log outputs and the threads that write to them. Callers append to a bounded queue and never block; `file` rotates
//! files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use super::direct::{self, Postponed};
use super::encode::{Encoder, Head};
use super::file::{Kind, RollingFile, Rotation};
use super::hold::Hold;
use super::limits::{
    LOG_GATHER, LOG_HELD_BYTES_MAX, LOG_LINKS_MAX, LOG_LOSS_PAUSE, LOG_NOTICE_PAUSE, LOG_PEERS_MAX,
    LOG_QUEUE_BYTES_MAX, LOG_QUEUES_BYTES_MAX, LOG_SPARE_BYTES_MAX, LOG_STALL_MAX,
    LOG_UNUSED_CHECK,
};
use super::named::Named;
use super::net::Peer;
use super::options::{NetOptions, OutputOptions};
use super::severity::Severity;

/// A log output. It is closed when the last handle is dropped, after its queue is written.
#[derive(Debug)]
pub struct Output {
    queue: Mutex<Queue>,
    writer: Arc<Writer>,
    rotation: Mutex<Arc<Rotation>>,
    /// The regular file that its thread writes to. A writer holds the lock from before it takes lines off the queue.
    file: Option<Arc<Mutex<RollingFile>>>,
    /// Whether workers may write to the file: lines are not held back, and it is never rotated.
    is_direct: AtomicBool,
    me: Weak<Output>,
    lost: AtomicU64,
    /// Lines lost by any output of the process.
    lost_everywhere: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    lost: u64,
    hold: Hold,
    /// Why a worker could not write, until that is reported.
    failure: Option<io::Error>,
}

impl Queue {
    /// Whether to hold lines back, because there are few of them. `since` is when that started.
    fn waits(&self, is_pressed: bool, since: &mut Option<Instant>) -> bool {
        let is_few = self.bytes.len() < self.hold.bytes_min() && !is_pressed;
        let began = *since.get_or_insert_with(Instant::now);
        let is_early = self.hold.time.is_none_or(|time| began.elapsed() < time);
        let waits = is_few && is_early;
        if !waits {
            *since = None;
        }
        waits
    }
}

/// The result of queueing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is queued.
    Queued,
    /// The queue was full; the line was dropped and counted.
    Lost,
}

impl Output {
    /// Queues complete lines. Never blocks: if the queue is full the lines are dropped, and their number is logged
    /// later.
    pub fn push(&self, lines: &[u8]) -> Pushed {
        let mut queue = lock(&self.queue);
        let total = self.writer.queued.load(Ordering::Relaxed);
        let before = queue.bytes.len();
        if before + lines.len() > LOG_QUEUE_BYTES_MAX || total + lines.len() > LOG_QUEUES_BYTES_MAX
        {
            queue.lost += 1;
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.lost_everywhere.fetch_add(1, Ordering::Relaxed);
            return Pushed::Lost;
        }
        queue.bytes.extend_from_slice(lines);
        self.writer.queued.fetch_add(lines.len(), Ordering::Relaxed);
        let (after, hold) = (queue.bytes.len(), queue.hold);
        drop(queue);
        if self.is_direct.load(Ordering::Relaxed)
            && let Some(me) = self.me.upgrade()
            && direct::postpone(me, after)
        {
            return Pushed::Queued;
        }
        let is_due = hold.is_due(before, after);
        // Held lines must leave room for those of other outputs.
        let is_pressed = total < LOG_HELD_BYTES_MAX && total + lines.len() >= LOG_HELD_BYTES_MAX;
        if is_due || is_pressed {
            self.writer.wake(Wake::Lines);
        }
        Pushed::Queued
    }

    /// The number of lines dropped because the queue was full.
    pub fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.bytes.is_empty() && queue.lost == 0 && queue.failure.is_none()
    }
}

impl Postponed for Output {
    /// Writes the queue to the file in the calling thread. If that fails, the lines are lost, and the output's thread
    /// reports it.
    fn write_now(&self) {
        let Some(file) = &self.file else { return };
        let mut file = lock(file);
        let mut bytes = std::mem::take(&mut lock(&self.queue).bytes);
        let written = file.write(&bytes, &lock(&self.rotation).clone());
        self.writer.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        bytes.clear();
        bytes.shrink_to(LOG_SPARE_BYTES_MAX);
        let mut queue = lock(&self.queue);
        if queue.bytes.capacity() == 0 {
            queue.bytes = bytes;
        }
        if let Err(error) = written {
            queue.failure = Some(error);
            drop(queue);
            self.writer.wake(Wake::Lines);
        }
    }

    fn wake_writer(&self) {
        self.writer.wake(Wake::Lines);
    }
}

/// All outputs of the process and their threads: one for files, one for the standard streams, because a stopped
/// terminal blocks its writer indefinitely and must not delay files, and one for each network output, for the same
/// reason.
#[derive(Debug)]
pub struct Outputs {
    open: Arc<Open>,
    streams: Arc<Writer>,
    files: Arc<Writer>,
    threads: Mutex<Vec<(Arc<Writer>, JoinHandle<()>)>>,
    stderr: Arc<Output>,
    notices: Encoder,
    lost: Arc<AtomicU64>,
    named: Named,
}

type Open = Mutex<HashMap<Place, Weak<Output>>>;

/// The identity of an output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Stderr,
    Stdout,
    File(PathBuf),
    Peer(NetOptions),
}

impl Outputs {
    /// Starts the threads. `notices` formats their own messages on standard error.
    pub fn start(notices: Encoder) -> io::Result<Outputs> {
        let open = Arc::new(Open::default());
        let streams = Arc::new(Writer::default());
        let files = Arc::new(Writer::default());
        let lost = Arc::new(AtomicU64::new(0));
        let stderr = add(&open, &streams, &lost, Place::Stderr, Target::Stderr);
        let outputs = Outputs {
            named: Named::new(lost.clone()),
            open,
            streams,
            files,
            threads: Mutex::default(),
            stderr,
            notices,
            lost,
        };
        outputs.start_thread("log-streams", outputs.streams.clone(), Life::Process)?;
        outputs.start_thread("log-files", outputs.files.clone(), Life::Process)?;
        Ok(outputs)
    }

    fn start_thread(&self, name: &str, writer: Arc<Writer>, life: Life) -> io::Result<()> {
        let scribe = Scribe {
            writer: writer.clone(),
            open: self.open.clone(),
            slots: Vec::new(),
            notices: self.notices.clone(),
            stderr: self.stderr.clone(),
            life,
        };
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || scribe.work())?;
        let mut threads = lock(&self.threads);
        threads.retain(|(_, thread)| !thread.is_finished());
        threads.push((writer, thread));
        Ok(())
    }

    /// The output for `options`: an existing one if possible, otherwise a new one; `None` to discard lines. If a file
    /// cannot be opened nothing changes.
    pub fn open(&self, options: &OutputOptions) -> io::Result<Option<Arc<Output>>> {
        match options {
            OutputOptions::Discard => Ok(None),
            OutputOptions::Stderr => Ok(Some(self.stderr.clone())),
            OutputOptions::Stdout => {
                let found = self.find(&Place::Stdout);
                Ok(Some(found.unwrap_or_else(|| {
                    self.add(&self.streams, Place::Stdout, Target::Stdout)
                })))
            }
            OutputOptions::File {
                path,
                mode,
                dir_mode,
                rotation,
                hold,
            } => {
                match standard_stream(path) {
                    Some(Place::Stdout) => return self.open(&OutputOptions::Stdout),
                    Some(_) => return self.open(&OutputOptions::Stderr),
                    None => {}
                }
                let place = Place::File(std::path::absolute(path)?);
                let found = match self.find(&place) {
                    Some(found) => found,
                    None => self.add_file(place, RollingFile::open(path, *mode, *dir_mode)?)?,
                };
                lock(&found.rotation).clone_from(rotation);
                let is_direct = **rotation == Rotation::never() && *hold == Hold::default();
                found
                    .is_direct
                    .store(is_direct && found.file.is_some(), Ordering::Relaxed);
                let before = std::mem::replace(&mut lock(&found.queue).hold, *hold);
                if before != *hold {
                    found.writer.wake(Wake::Lines);
                }
                Ok(Some(found))
            }
            OutputOptions::Net(options) => self.open_peer(options).map(Some),
        }
    }

    /// Adds an open file. A pipe gets its own thread: a stopped reader must not delay files.
    fn add_file(&self, place: Place, file: RollingFile) -> io::Result<Arc<Output>> {
        let kind = file.kind();
        let target = Target::File(Arc::new(Mutex::new(file)));
        match kind {
            Kind::Regular => Ok(self.add(&self.files, place, target)),
            Kind::Stream => {
                self.limit_threads()?;
                let writer = Arc::new(Writer::default());
                let output = self.add(&writer, place, target);
                self.start_thread("log-pipe", writer, Life::Outputs)?;
                Ok(output)
            }
        }
    }

    /// Fails if the number of outputs with their own thread is at its limit.
    fn limit_threads(&self) -> io::Result<()> {
        let has_own = |output: &Arc<Output>| {
            !Arc::ptr_eq(&output.writer, &self.files) && !Arc::ptr_eq(&output.writer, &self.streams)
        };
        let open = lock(&self.open);
        let count = open.values().filter_map(Weak::upgrade).filter(has_own);
        if count.count() >= LOG_PEERS_MAX {
            let message = format!("logs can be sent to {LOG_PEERS_MAX} servers and pipes at most");
            return Err(io::Error::other(message));
        }
        Ok(())
    }

    fn open_peer(&self, options: &NetOptions) -> io::Result<Arc<Output>> {
        let place = Place::Peer(options.clone());
        if let Some(found) = self.find(&place) {
            return Ok(found);
        }
        self.limit_threads()?;
        let (peer, failure) = Peer::open(options)?;
        if let Some(error) = failure {
            let message = "a log server is not there yet";
            report(
                &self.notices,
                &self.stderr,
                message,
                &place,
                0,
                Some(&error),
            );
        }
        let writer = Arc::new(Writer::default());
        let output = self.add(&writer, place, Target::Peer(Box::new(peer)));
        self.start_thread("log-net", writer, Life::Outputs)?;
        Ok(output)
    }

    fn add(&self, writer: &Arc<Writer>, place: Place, target: Target) -> Arc<Output> {
        add(&self.open, writer, &self.lost, place, target)
    }

    /// The number of lines dropped because a queue was full, since startup.
    pub fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Files with variable paths.
    pub fn named(&self) -> &Named {
        &self.named
    }

    /// Standard error.
    pub fn stderr(&self) -> &Arc<Output> {
        &self.stderr
    }

    /// Reopens all files after pending lines are written, because they were moved or their owner changed.
    pub fn reopen(&self) {
        self.named.reopen();
        let threads = lock(&self.threads);
        for (writer, _) in threads.iter() {
            writer.reopens.store(true, Ordering::Release);
            writer.wake(Wake::Lines);
        }
    }

    /// Writes pending lines and ends the threads, with a timeout of `timeout`. Later lines are lost.
    pub fn finish(&self, timeout: Duration) {
        // First, because its failures are logged to the other outputs.
        self.named.finish(timeout);
        let threads = std::mem::take(&mut *lock(&self.threads));
        for (writer, _) in &threads {
            writer.wake(Wake::Finish);
        }
        let until = Instant::now() + timeout;
        for (_, thread) in threads {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn find(&self, place: &Place) -> Option<Arc<Output>> {
        lock(&self.open).get(place).and_then(Weak::upgrade)
    }
}

/// The standard stream that a path leads to, by whatever name. It is written to as it is: opening it again fails if it
/// is a socket (the journal's) or if another user created it, and a container's `access.log` often links to it.
fn standard_stream(path: &Path) -> Option<Place> {
    let mut path = path.to_owned();
    for _ in 0..LOG_LINKS_MAX {
        match path.to_str() {
            Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => return Some(Place::Stdout),
            Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => return Some(Place::Stderr),
            _ => {}
        }
        let target = std::fs::read_link(&path).ok()?;
        path = path.parent()?.join(target);
    }
    None
}

fn add(
    open: &Open,
    writer: &Arc<Writer>,
    lost: &Arc<AtomicU64>,
    place: Place,
    target: Target,
) -> Arc<Output> {
    let file = match &target {
        Target::File(file) if lock(file).kind() == Kind::Regular => Some(file.clone()),
        Target::File(_) | Target::Stderr | Target::Stdout | Target::Peer(_) => None,
    };
    let output = Arc::new_cyclic(|me| Output {
        queue: Mutex::default(),
        writer: writer.clone(),
        rotation: Mutex::new(Arc::new(Rotation::never())),
        file,
        is_direct: AtomicBool::new(false),
        me: me.clone(),
        lost: AtomicU64::new(0),
        lost_everywhere: lost.clone(),
    });
    lock(open).insert(place.clone(), Arc::downgrade(&output));
    let slot = Slot {
        output: output.clone(),
        target,
        place,
        spare: Vec::new(),
        failing: None,
        loss: Loss::default(),
        held_since: None,
    };
    lock(&writer.arrived).push(slot);
    output
}

/// State shared by the callers and one thread.
#[derive(Debug, Default)]
struct Writer {
    arrived: Mutex<Vec<Slot>>,
    wake: Mutex<Wake>,
    woken: Condvar,
    /// Bytes in all queues of this thread.
    queued: AtomicUsize,
    /// Whether to reopen files.
    reopens: AtomicBool,
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

    /// Waits for work or until `due`, then briefly for more lines.
    fn sleep(&self, due: Option<Instant>) -> Wake {
        let asleep = |wake: &mut Wake| *wake == Wake::Sleep;
        let wake = lock(&self.wake);
        let wake = match due {
            None => self.woken.wait_while(wake, asleep).expect(NEVER_POISONED),
            Some(due) => {
                let timeout = due.saturating_duration_since(Instant::now());
                let waited = self.woken.wait_timeout_while(wake, timeout, asleep);
                waited.expect(NEVER_POISONED).0
            }
        };
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

/// The lifetime of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// As long as the process.
    Process,
    /// As long as one of its outputs is in use.
    Outputs,
}

#[derive(Debug)]
struct Slot {
    output: Arc<Output>,
    target: Target,
    place: Place,
    /// The other half of the double buffer.
    spare: Vec<u8>,
    /// When a write failure was last logged.
    failing: Option<Instant>,
    loss: Loss,
    /// When lines started to be held back, if any are.
    held_since: Option<Instant>,
}

impl Slot {
    /// When to write lines that are held back, or to check whether the output is still in use.
    fn hold_due(&self) -> Option<Instant> {
        let since = self.held_since?;
        let time = lock(&self.output.queue).hold.time;
        let looks = Instant::now() + LOG_UNUSED_CHECK;
        Some(time.map_or(looks, |time| looks.min(since + time)))
    }
}

/// Lines lost by an output, and when that was last logged.
#[derive(Debug, Default)]
struct Loss {
    unreported: u64,
    reported: Option<Instant>,
}

impl Loss {
    /// When to log lost lines; `None` if there are none.
    fn due(&self) -> Option<Instant> {
        let next = self
            .reported
            .map_or_else(Instant::now, |reported| reported + LOG_LOSS_PAUSE);
        (self.unreported > 0).then_some(next)
    }

    /// The number of lost lines to log now; `None` if that has to wait.
    fn take(&mut self, why: Wake) -> Option<u64> {
        let due = self.due()?;
        let now = Instant::now();
        if due > now && why != Wake::Finish {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[derive(Debug)]
enum Target {
    Stderr,
    Stdout,
    File(Arc<Mutex<RollingFile>>),
    Peer(Box<Peer>),
}

/// The state of the thread.
struct Scribe {
    writer: Arc<Writer>,
    open: Arc<Open>,
    slots: Vec<Slot>,
    notices: Encoder,
    stderr: Arc<Output>,
    life: Life,
}

impl Scribe {
    fn work(mut self) {
        loop {
            let why = self.writer.sleep(self.due());
            self.slots.append(&mut lock(&self.writer.arrived));
            let reopens = self.writer.reopens.swap(false, Ordering::AcqRel);
            if reopens {
                self.files().for_each(|file| lock(file).stay());
            }
            let is_pressed = why == Wake::Finish
                || reopens
                || self.writer.queued.load(Ordering::Relaxed) >= LOG_HELD_BYTES_MAX;
            for at in 0..self.slots.len() {
                self.write(at, why, is_pressed);
            }
            if reopens {
                self.reopen();
            }
            self.close_unused();
            let unused = self.life == Life::Outputs && self.slots.is_empty();
            if why == Wake::Finish || unused {
                return;
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = &Mutex<RollingFile>> {
        self.slots.iter().filter_map(|slot| match &slot.target {
            Target::File(file) => Some(&**file),
            Target::Stderr | Target::Stdout | Target::Peer(_) => None,
        })
    }

    fn reopen(&mut self) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let reopened = match &slot.target {
                Target::File(file) => lock(file).reopen(),
                Target::Stderr | Target::Stdout | Target::Peer(_) => Ok(()),
            };
            if let Err(error) = reopened {
                let place = slot.place.clone();
                self.report_failure(at, &place, &error);
            }
        }
    }

    /// When to wake up even without new lines.
    fn due(&self) -> Option<Instant> {
        let behind = |slot: &Slot| match &slot.target {
            Target::Peer(peer) if peer.is_behind() || !slot.output.is_idle() => peer.due(),
            Target::Peer(_) | Target::Stderr | Target::Stdout | Target::File(_) => None,
        };
        let unused = || Instant::now() + LOG_UNUSED_CHECK;
        let unused = (self.life == Life::Outputs).then(unused);
        let losses = self.slots.iter().filter_map(|slot| slot.loss.due());
        let behind = self.slots.iter().filter_map(behind);
        let held = self.slots.iter().filter_map(Slot::hold_due);
        behind.chain(losses).chain(unused).chain(held).min()
    }

    /// Writes the queue of an output, unless its lines may be held back.
    fn write(&mut self, at: usize, why: Wake, is_pressed: bool) {
        self.report_loss(at, why);
        let failure = lock(&self.slots[at].output.queue).failure.take();
        if let Some(error) = failure {
            let place = self.slots[at].place.clone();
            self.report_failure(at, &place, &error);
        }
        let slot = &mut self.slots[at];
        // While a peer is unavailable lines stay in the bounded queue. At shutdown there is one last attempt.
        let behind = match &slot.target {
            Target::Peer(peer) => {
                let away = peer.due().is_some_and(|due| due > Instant::now());
                if away && why != Wake::Finish {
                    return;
                }
                peer.is_behind()
            }
            Target::Stderr | Target::Stdout | Target::File(_) => false,
        };
        let shared = match &slot.target {
            Target::File(file) => Some(file.clone()),
            Target::Stderr | Target::Stdout | Target::Peer(_) => None,
        };
        // Before lines are taken off the queue, so that they stay in order.
        let mut file = shared.as_deref().map(lock);
        let gzip;
        let bytes = {
            let is_pressed = is_pressed || Arc::strong_count(&slot.output) == 1;
            let mut queue = lock(&slot.output.queue);
            let waits = queue.bytes.is_empty() || queue.waits(is_pressed, &mut slot.held_since);
            if waits && !behind {
                return;
            }
            gzip = queue.hold.gzip;
            let spare = std::mem::take(&mut slot.spare);
            if behind {
                spare
            } else {
                std::mem::replace(&mut queue.bytes, spare)
            }
        };
        let written = match (&mut slot.target, file.as_deref_mut()) {
            (Target::Stderr, _) => write_patiently(&mut io::stderr(), &bytes),
            (Target::Stdout, _) => write_patiently(&mut io::stdout(), &bytes),
            (Target::Peer(peer), _) => peer.write(&bytes),
            (Target::File(_), None) => Ok(()),
            (Target::File(_), Some(file)) => {
                let rotation = lock(&slot.output.rotation).clone();
                match gzip {
                    None => file.write(&bytes, &rotation),
                    Some(level) => file.write_compressed(&bytes, level),
                }
            }
        };
        drop(file);
        self.writer.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        slot.spare = bytes;
        slot.spare.clear();
        slot.spare.shrink_to(LOG_SPARE_BYTES_MAX);
        let place = slot.place.clone();
        match written {
            Err(error) => self.report_failure(at, &place, &error),
            // Lines that arrived meanwhile are still queued.
            Ok(()) if behind => self.write(at, why, is_pressed),
            Ok(()) => {}
        }
    }

    /// Logs dropped lines, at once and then with limited frequency: a full queue loses thousands.
    fn report_loss(&mut self, at: usize, why: Wake) {
        let slot = &mut self.slots[at];
        slot.loss.unreported += std::mem::take(&mut lock(&slot.output.queue).lost);
        if let Some(lost) = slot.loss.take(why) {
            let place = slot.place.clone();
            let message = "lines were dropped because the output is too slow";
            self.report(message, &place, lost, None);
        }
    }

    /// Logs a write failure with limited frequency: a full disk affects every line.
    fn report_failure(&mut self, at: usize, place: &Place, error: &io::Error) {
        let reported = &mut self.slots[at].failing;
        if reported.is_some_and(|reported| reported.elapsed() < LOG_NOTICE_PAUSE) {
            return;
        }
        *reported = Some(Instant::now());
        if *place != Place::Stderr {
            self.report("lines could not be written", place, 0, Some(error));
        }
    }

    fn report(&self, message: &str, place: &Place, lines: u64, error: Option<&io::Error>) {
        report(&self.notices, &self.stderr, message, place, lines, error);
    }

    /// Closes unused outputs. The lock on the map prevents others from finding them meanwhile.
    fn close_unused(&mut self) {
        let mut open = lock(&self.open);
        self.slots.retain(|slot| {
            let behind = match &slot.target {
                // Lines for an unreachable peer that is no longer configured are dropped.
                Target::Peer(peer) => peer.due().is_none() && !slot.output.is_idle(),
                Target::Stderr | Target::Stdout | Target::File(_) => !slot.output.is_idle(),
            };
            let used = Arc::strong_count(&slot.output) > 1 || behind;
            if !used {
                open.remove(&slot.place);
            }
            used
        });
    }
}

/// Writes a message about an output to standard error.
fn report(
    notices: &Encoder,
    stderr: &Output,
    message: &str,
    place: &Place,
    lines: u64,
    error: Option<&io::Error>,
) {
    let mut out = Vec::new();
    let head = Head {
        severity: Severity::Warn,
        logger: "log",
        message,
        caller: std::panic::Location::caller(),
    };
    notices.line(&mut out, SystemTime::now(), &head, |fields| {
        let name = match place {
            Place::Stderr => "stderr".into(),
            Place::Stdout => "stdout".into(),
            Place::File(path) => path.to_string_lossy(),
            Place::Peer(options) => options.address.as_str().into(),
        };
        fields.text("output", name.as_bytes());
        if lines > 0 {
            fields.integer("lines", lines);
        }
        if let Some(error) = error {
            fields.text("error", error.to_string().as_bytes());
        }
    });
    stderr.push(&out);
}

/// Writes everything, waiting for a limited time if another process made the stream non-blocking.
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
    use super::super::file::DirMode;
    use super::*;
    use crate::wait::{TIMEOUT, eventually, until};

    fn file_options(path: &std::path::Path) -> OutputOptions {
        OutputOptions::File {
            path: path.into(),
            mode: 0o600,
            dir_mode: DirMode::Bits(0o700),
            rotation: Arc::new(Rotation::never()),
            hold: Hold::default(),
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

    /// Messages about lost lines are limited too: the first is immediate, later ones are aggregated.
    #[test]
    fn lost_lines_are_reported_once_in_a_while_and_none_twice() {
        let mut loss = Loss::default();
        assert_eq!(loss.take(Wake::Lines), None);
        assert_eq!(loss.due(), None);
        loss.unreported = 3;
        assert_eq!(loss.take(Wake::Lines), Some(3));
        assert_eq!(loss.take(Wake::Lines), None);
        for _ in 0..5 {
            loss.unreported += 1;
            assert_eq!(loss.take(Wake::Lines), None);
        }
        assert!(loss.due().is_some_and(|due| due > Instant::now()));
        assert_eq!(loss.take(Wake::Finish), Some(5));
        assert_eq!(loss.take(Wake::Finish), None);
    }

    fn held(path: &std::path::Path, hold: Hold) -> OutputOptions {
        match file_options(path) {
            OutputOptions::File {
                path,
                mode,
                dir_mode,
                rotation,
                ..
            } => OutputOptions::File {
                path,
                mode,
                dir_mode,
                rotation,
                hold,
            },
            other => other,
        }
    }

    /// The content of a file once it is not empty.
    fn read_later(path: &std::path::Path) -> String {
        let look = || {
            let text = std::fs::read_to_string(path).expect("it is there");
            (!text.is_empty()).then_some(text)
        };
        until(TIMEOUT, "lines", look, String::new)
    }

    #[test]
    fn lines_are_held_back_until_there_are_enough() {
        let folder = super::super::file::tests::folder();
        let (path, other) = (folder.join("a.log"), folder.join("b.log"));
        let outputs = outputs();
        let hold = Hold::new(100, None, None);
        let output = outputs.open(&held(&path, hold)).unwrap().unwrap();
        let plain = outputs.open(&file_options(&other)).unwrap().unwrap();
        output.push(&[b'a'; 60]);
        // The same thread has written this line after it looked at the other output.
        plain.push(b"seen\n");
        assert_eq!(read_later(&other), "seen\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        output.push(&[b'b'; 40]);
        assert_eq!(read_later(&path).len(), 100);
        // The file was moved: lines that are held back belong to the old one.
        output.push(b"last of the old\n");
        let old = folder.join("old.log");
        std::fs::rename(&path, &old).unwrap();
        outputs.reopen();
        eventually("the new file", || path.exists(), String::new);
        assert!(std::fs::read_to_string(&old).unwrap().ends_with("old\n"));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        output.push(b"at the end");
        outputs.finish(Duration::from_secs(10));
        assert_eq!(std::fs::read(&path).unwrap(), b"at the end");
    }

    #[test]
    fn lines_are_held_back_for_a_time_and_not_longer_than_memory_lasts() {
        let folder = super::super::file::tests::folder();
        let outputs = outputs();
        let timed = folder.join("timed.log");
        let hold = Hold::new(1 << 20, Some(Duration::from_millis(20)), None);
        let output = outputs.open(&held(&timed, hold)).unwrap().unwrap();
        output.push(b"one\n");
        assert_eq!(read_later(&timed), "one\n");
        // More files than the memory for held lines allows.
        let hold = Hold::new(LOG_QUEUE_BYTES_MAX, None, None);
        let lines = vec![b'x'; LOG_QUEUE_BYTES_MAX / 4];
        let count = LOG_HELD_BYTES_MAX / lines.len() + 1;
        let open = |number: usize| {
            let path = folder.join(format!("{number}.log"));
            (outputs.open(&held(&path, hold)).unwrap().unwrap(), path)
        };
        let files: Vec<_> = (0..count).map(open).collect();
        for (output, _) in &files {
            assert_eq!(output.push(&lines), Pushed::Queued);
        }
        for (_, path) in &files[..count - 1] {
            assert_eq!(read_later(path).len(), lines.len());
        }
        // A configuration that no longer holds lines back.
        let (output, path) = open(count);
        output.push(b"y");
        outputs.open(&file_options(&path)).unwrap();
        assert_eq!(read_later(&path), "y");
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
        eventually("the end", || weak.strong_count() == 0, String::new);
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
