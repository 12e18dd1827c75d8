//! Lines that a worker writes itself, right before it waits for events: then the log has the line of each request before
//! its connection is idle, as programs that read nginx's logs expect. Other threads leave all lines to `output`'s.

use std::cell::RefCell;
use std::sync::Arc;

use super::limits::LOG_DIRECT_BYTES_MAX;

/// An output whose queue a worker can write itself.
pub(super) trait Postponed {
    /// Writes the queue in the calling thread.
    fn write_now(&self);

    /// Leaves the queue to the thread of the output.
    fn wake_writer(&self);
}

thread_local! {
    /// The outputs with lines of this thread; `None` if nothing announces that it waits.
    static PENDING: RefCell<Option<Pending>> = const { RefCell::new(None) };
}

/// The outputs with lines of a worker that nobody has written yet.
#[derive(Default)]
struct Pending(Vec<Arc<dyn Postponed>>);

impl Pending {
    fn write(&mut self) {
        self.0.drain(..).for_each(|output| output.write_now());
    }
}

impl Drop for Pending {
    /// The worker ends before it waits again.
    fn drop(&mut self) {
        self.0.iter().for_each(|output| output.wake_writer());
    }
}

/// Writes the lines that this worker has queued. A worker calls this whenever it is about to wait; from the first call on
/// its lines wait for the next one.
pub fn write_pending() {
    PENDING.with_borrow_mut(|pending| pending.get_or_insert_default().write());
}

/// As [`write_pending`], before the worker waits: a connection is about to be closed, which its client may take for the
/// end of the request.
pub fn write_before_close() {
    PENDING.with_borrow_mut(|pending| pending.iter_mut().for_each(Pending::write));
}

/// Leaves lines to the next [`write_pending`] of this thread; false if there is none. With `queued` bytes in its queue
/// the output is written at once if that is enough: a busy worker seldom waits.
pub(super) fn postpone(output: Arc<dyn Postponed>, queued: usize) -> bool {
    PENDING.with_borrow_mut(|pending| {
        let Some(Pending(outputs)) = pending else {
            return false;
        };
        let known = outputs.iter().position(|one| Arc::ptr_eq(one, &output));
        match (queued >= LOG_DIRECT_BYTES_MAX, known) {
            (true, known) => {
                output.write_now();
                if let Some(at) = known {
                    outputs.swap_remove(at);
                }
            }
            (false, None) => outputs.push(output),
            (false, Some(_)) => {}
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::super::hold::Hold;
    use super::super::{DirMode, Encoder, Output, Outputs, Rotation};
    use super::*;
    use crate::log::OutputOptions;

    fn open(outputs: &Outputs, path: &Path, rotation: Rotation, hold: Hold) -> Arc<Output> {
        let options = OutputOptions::File {
            path: path.to_owned(),
            mode: 0o600,
            dir_mode: DirMode::Bits(0o700),
            rotation: Arc::new(rotation),
            hold,
        };
        outputs.open(&options).unwrap().unwrap()
    }

    fn file(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("sluice-direct-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_worker_writes_its_lines_before_it_waits() {
        let outputs = Outputs::start(Encoder::json()).unwrap();
        let path = file("lines");
        let output = open(&outputs, &path, Rotation::never(), Hold::default());
        let read = || std::fs::read_to_string(&path).unwrap();
        // This thread has announced that it waits.
        write_pending();
        output.push(b"one\n");
        assert_eq!(read(), "");
        write_pending();
        assert_eq!(read(), "one\n");
        output.push(b"two\n");
        write_before_close();
        assert_eq!(read(), "one\ntwo\n");
        // A worker that does not wait writes once there is much.
        let large = "x".repeat(LOG_DIRECT_BYTES_MAX - 1) + "\n";
        output.push(large.as_bytes());
        assert_eq!(read().len(), large.len() + 8);
        // Of two outputs, each has its lines.
        let other_path = file("others");
        let other = open(&outputs, &other_path, Rotation::never(), Hold::default());
        output.push(b"a\n");
        other.push(b"b\n");
        write_pending();
        assert!(read().ends_with("x\na\n"));
        assert_eq!(std::fs::read_to_string(&other_path).unwrap(), "b\n");
        outputs.finish(Duration::from_secs(20));
        let _ = (
            std::fs::remove_file(&path),
            std::fs::remove_file(&other_path),
        );
    }

    /// A file that rotates or is buffered is left to its thread, and so are the lines of a worker that ends.
    #[test]
    fn other_lines_are_left_to_the_thread() {
        let outputs = Outputs::start(Encoder::json()).unwrap();
        let paths = ["rotated", "held", "ended"].map(file);
        let rotated = open(&outputs, &paths[0], Rotation::default(), Hold::default());
        let hold = Hold::new(1000, None, None);
        let held = open(&outputs, &paths[1], Rotation::never(), hold);
        let ended = open(&outputs, &paths[2], Rotation::never(), Hold::default());
        let worker = std::thread::spawn(move || {
            write_pending();
            for output in [&rotated, &held, &ended] {
                output.push(b"line\n");
            }
            held.push(b"last\n");
            write_before_close();
            ended.push(b"last\n");
        });
        worker.join().unwrap();
        outputs.finish(Duration::from_secs(20));
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&paths[0]), "line\n");
        assert_eq!(read(&paths[1]), "line\nlast\n");
        assert_eq!(read(&paths[2]), "line\nlast\n");
        paths.iter().for_each(|path| _ = std::fs::remove_file(path));
    }
}
