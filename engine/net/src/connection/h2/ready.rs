//! Which streams of a connection have something to do. One task serves them all and polls only those that were woken:
//! a stream is a bit. What they do is left to `streams`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// Streams that have a bit.
pub(super) const SLOTS: usize = 128;

const WORDS: usize = SLOTS / 64;

/// The streams of one connection that were woken, and the task to wake for them.
pub(super) struct Ready {
    words: [AtomicU64; WORDS],
    /// Whether the task is at work, and looks here before it sleeps.
    awake: AtomicBool,
    task: Waker,
}

impl Ready {
    /// Nothing to do yet; for a task that is at work.
    pub(super) fn new(task: Waker) -> Arc<Ready> {
        Arc::new(Ready {
            words: Default::default(),
            awake: AtomicBool::new(true),
            task,
        })
    }

    /// Whether `task` is the one that is woken.
    pub(super) fn is_for(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// A waker for the stream in `slot`.
    pub(super) fn waker(self: &Arc<Self>, slot: usize) -> Waker {
        let ready = self.clone();
        Waker::from(Arc::new(SlotWaker { ready, slot }))
    }

    /// The stream in `slot` has something to do. Streams are also woken from other threads.
    pub(super) fn mark(&self, slot: usize) {
        self.words[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        // Sequentially consistent, as in `sleep`: one of the two sees what the other has written.
        if !self.awake.load(Ordering::SeqCst) {
            self.task.wake_by_ref();
        }
    }

    /// The task is at work: it need not be woken.
    pub(super) fn rise(&self) {
        self.awake.store(true, Ordering::SeqCst);
    }

    /// The task is about to sleep; tells whether it may, because no stream has something to do.
    pub(super) fn sleep(&self) -> bool {
        self.awake.store(false, Ordering::SeqCst);
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let is_clear = |word: &AtomicU64| word.load(Ordering::SeqCst) == 0;
        self.words.iter().all(is_clear)
    }

    /// Takes all that were woken.
    pub(super) fn take(&self) -> Woken {
        let mut words = [0; WORDS];
        for (taken, word) in words.iter_mut().zip(&self.words) {
            if word.load(Ordering::Relaxed) != 0 {
                *taken = word.swap(0, Ordering::SeqCst);
            }
        }
        Woken(words)
    }
}

struct SlotWaker {
    ready: Arc<Ready>,
    slot: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.ready.mark(self.slot);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.mark(self.slot);
    }
}

/// Streams that were woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Woken([u64; WORDS]);

impl Woken {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Adds those of `others`.
    pub(super) fn add(&mut self, others: Woken) {
        for (word, other) in self.0.iter_mut().zip(others.0) {
            *word |= other;
        }
    }

    /// Takes the first at or behind `from`, or else the first of all.
    pub(super) fn take_from(&mut self, from: usize) -> Option<usize> {
        let found = self.first_from(from).or_else(|| self.first_from(0))?;
        self.remove(found);
        Some(found)
    }

    /// Takes this one, if it is there.
    pub(super) fn remove(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    /// All of them, from the first slot on.
    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        let mut left = self;
        std::iter::from_fn(move || left.take_from(0))
    }

    fn first_from(&self, from: usize) -> Option<usize> {
        let (mut word, mut mask) = (from / 64, u64::MAX << (from % 64));
        while word < WORDS {
            let bits = self.0[word] & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn taken(ready: &Ready, from: usize) -> Vec<usize> {
        let mut woken = ready.take();
        let mut from = from;
        std::iter::from_fn(|| {
            let slot = woken.take_from(from)?;
            from = slot + 1;
            Some(slot)
        })
        .collect()
    }

    #[test]
    fn each_woken_stream_is_taken_once_and_in_turn() {
        let ready = Ready::new(Waker::noop().clone());
        for slot in [0, 63, 64, 127, 5, 5] {
            ready.waker(slot).wake();
        }
        assert_eq!(taken(&ready, 64), [64, 127, 0, 5, 63]);
        assert_eq!(taken(&ready, 0), [0; 0]);
    }

    #[test]
    fn the_task_is_woken_only_while_it_sleeps() {
        let counted = Arc::new(Counted::default());
        let ready = Ready::new(counted.clone().into());
        let waker = ready.waker(3);
        waker.wake_by_ref();
        assert!(!ready.sleep(), "there is something to do");
        ready.rise();
        assert_eq!(taken(&ready, 0), [3]);
        assert_eq!(counted.0.load(Ordering::SeqCst), 0);
        assert!(ready.sleep());
        waker.wake_by_ref();
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
    }
}
