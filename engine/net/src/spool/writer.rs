//! The helper thread that writes spool files for one worker, and its queue. Jobs run in order; a body that finds the
//! queue full waits until there is room.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use super::{Target, Written};
use crate::limits::SPOOL_QUEUE_MAX;

const NEVER_POISONED: &str = "nothing panics while it holds the queue";

/// The thread and its queue.
pub(super) struct Writer {
    queue: Mutex<Queue>,
    has_jobs: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Writes queued or in progress. Closing a file does not count, as each file was counted when it was created.
    writes: usize,
    /// Tasks that found the queue full.
    waiting: Vec<Waker>,
    has_ended: bool,
}

pub(super) enum Job {
    Write {
        target: Arc<Target>,
        slot: Arc<Slot>,
        pieces: Vec<Vec<u8>>,
        at: u64,
    },
    /// Closes the last handle of a file here, because freeing a large file takes time.
    Close(Arc<Target>),
}

/// Where the result of a write is left for its body.
#[derive(Default)]
pub(super) struct Slot(Mutex<Outcome>);

#[derive(Default)]
struct Outcome {
    written: Option<Written>,
    waker: Option<Waker>,
}

impl Slot {
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Written> {
        let mut outcome = self.0.lock().expect(NEVER_POISONED);
        match outcome.written.take() {
            Some(written) => Poll::Ready(written),
            None => {
                outcome.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn leave(&self, written: Written) {
        let mut outcome = self.0.lock().expect(NEVER_POISONED);
        outcome.written = Some(written);
        let waker = outcome.waker.take();
        drop(outcome);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Writer {
    pub(super) fn start() -> io::Result<Arc<Writer>> {
        let writer = Arc::new(Writer {
            queue: Mutex::default(),
            has_jobs: Condvar::new(),
        });
        let at_work = writer.clone();
        std::thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || at_work.run())?;
        Ok(writer)
    }

    /// Ends the thread once its queue is empty.
    pub(super) fn end(&self) {
        self.queue.lock().expect(NEVER_POISONED).has_ended = true;
        self.has_jobs.notify_one();
    }

    /// Queues a job once there is room.
    pub(super) fn poll_enter(&self, cx: &mut Context<'_>, job: impl FnOnce() -> Job) -> Poll<()> {
        let mut queue = self.queue.lock().expect(NEVER_POISONED);
        if queue.writes >= SPOOL_QUEUE_MAX {
            if !queue
                .waiting
                .iter()
                .any(|known| known.will_wake(cx.waker()))
            {
                queue.waiting.push(cx.waker().clone());
            }
            return Poll::Pending;
        }
        queue.writes += 1;
        queue.jobs.push_back(job());
        drop(queue);
        self.has_jobs.notify_one();
        Poll::Ready(())
    }

    pub(super) fn close(&self, target: Arc<Target>) {
        let mut queue = self.queue.lock().expect(NEVER_POISONED);
        queue.jobs.push_back(Job::Close(target));
        drop(queue);
        self.has_jobs.notify_one();
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            match job {
                Job::Write {
                    target,
                    slot,
                    pieces,
                    at,
                } => {
                    let outcome = target.write(&pieces, at);
                    drop(target);
                    slot.leave(Written { pieces, outcome });
                    self.note_done();
                }
                Job::Close(target) => drop(target),
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().expect(NEVER_POISONED);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.has_ended {
                return None;
            }
            queue = self.has_jobs.wait(queue).expect(NEVER_POISONED);
        }
    }

    /// Wakes all waiting tasks together once half of the queue is free: waking them one by one would lose a wake-up if
    /// the task is gone.
    fn note_done(&self) {
        let mut queue = self.queue.lock().expect(NEVER_POISONED);
        queue.writes -= 1;
        if queue.writes > SPOOL_QUEUE_MAX / 2 {
            return;
        }
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Folder;
    use super::*;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn job() -> Job {
        Job::Write {
            target: Arc::new(Target {
                folder: Folder::new("/nowhere"),
                file: OnceLock::new(),
                names: None,
                path: OnceLock::new(),
            }),
            slot: Arc::default(),
            pieces: vec![vec![0]],
            at: 0,
        }
    }

    #[test]
    fn a_full_queue_lets_wait_and_wakes() {
        // Without a thread, so that nothing is dequeued.
        let writer = Writer {
            queue: Mutex::default(),
            has_jobs: Condvar::new(),
        };
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..SPOOL_QUEUE_MAX {
            assert!(writer.poll_enter(&mut cx, job).is_ready());
        }
        assert!(writer.poll_enter(&mut cx, job).is_pending());
        assert!(writer.poll_enter(&mut cx, job).is_pending());
        let mut done = 0;
        while woken.0.load(Ordering::SeqCst) == 0 {
            assert!(writer.next().is_some());
            writer.note_done();
            done += 1;
        }
        assert_eq!(done, SPOOL_QUEUE_MAX / 2);
        assert!(writer.poll_enter(&mut cx, job).is_ready());
        writer.end();
        while writer.next().is_some() {}
    }
}
