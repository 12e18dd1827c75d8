//! The set of streams of a connection that are ready to be polled, as a bit set. One task serves all streams and polls
//! only those that were woken.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

/// Number of stream slots.
pub const SLOTS: usize = 128;

const WORDS: usize = SLOTS / 64;

/// The woken streams of one connection, and the task to wake for them.
pub struct Ready {
    words: [AtomicU64; WORDS],
    /// Whether the task is running and will check the set before it sleeps.
    awake: AtomicBool,
    task: Waker,
}

impl Ready {
    /// An empty set, for a task that is running.
    pub fn new(task: Waker) -> Arc<Ready> {
        Arc::new(Ready {
            words: Default::default(),
            awake: AtomicBool::new(true),
            task,
        })
    }

    /// Whether `task` is the one that is woken.
    pub fn is_for(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// A waker for the stream in `slot`.
    pub fn waker(self: &Arc<Self>, slot: usize) -> Waker {
        let ready = self.clone();
        Waker::from(Arc::new(SlotWaker { ready, slot }))
    }

    /// Marks the stream in `slot` as woken. Also called from other threads.
    pub fn mark(&self, slot: usize) {
        self.words[slot / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        // Sequentially consistent, as in `sleep`: at least one of the two sees what the other has written.
        if !self.awake.load(Ordering::SeqCst) {
            self.task.wake_by_ref();
        }
    }

    /// Wakes the task, not for a stream.
    pub fn rouse(&self) {
        if !self.awake.load(Ordering::SeqCst) {
            self.task.wake_by_ref();
        }
    }

    /// The task is running and need not be woken.
    pub fn rise(&self) {
        self.awake.store(true, Ordering::SeqCst);
    }

    /// The task is about to sleep; returns whether it may, that is, no stream is ready.
    pub fn sleep(&self) -> bool {
        self.awake.store(false, Ordering::SeqCst);
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let is_clear = |word: &AtomicU64| word.load(Ordering::SeqCst) == 0;
        self.words.iter().all(is_clear)
    }

    /// Takes all woken streams.
    pub fn take(&self) -> Woken {
        let mut words = [0; WORDS];
        for (taken, word) in words.iter_mut().zip(&self.words) {
            if word.load(Ordering::Relaxed) != 0 {
                *taken = word.swap(0, Ordering::SeqCst);
            }
        }
        Woken(words)
    }
}

/// The set of woken streams of a connection, for the task that drives it now.
pub struct Readiness(RefCell<Arc<Ready>>);

impl Default for Readiness {
    fn default() -> Self {
        Readiness(RefCell::new(Ready::new(Waker::noop().clone())))
    }
}

impl Readiness {
    /// The set for the task of `cx`. The flag says whether all streams have to be polled because their wakers belong to
    /// another task.
    pub fn for_task(&self, cx: &Context<'_>) -> (Arc<Ready>, bool) {
        let known = self.0.borrow().clone();
        if known.is_for(cx.waker()) {
            return (known, false);
        }
        let fresh = Ready::new(cx.waker().clone());
        *self.0.borrow_mut() = fresh.clone();
        (fresh, true)
    }

    /// Wakes the stream in `slot`.
    pub fn mark(&self, slot: usize) {
        self.0.borrow().mark(slot);
    }

    /// Wakes the task, not for a stream.
    pub fn rouse(&self) {
        self.0.borrow().rouse();
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

/// A set of woken streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken([u64; WORDS]);

impl Woken {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Adds all of `others`.
    pub fn add(&mut self, others: Woken) {
        for (word, other) in self.0.iter_mut().zip(others.0) {
            *word |= other;
        }
    }

    /// Takes the first one at or after `from`, wrapping around.
    pub fn take_from(&mut self, from: usize) -> Option<usize> {
        let found = self.first_from(from).or_else(|| self.first_from(0))?;
        self.remove(found);
        Some(found)
    }

    /// Removes `slot`, if present.
    pub fn remove(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    /// All slots in the set, in ascending order.
    pub fn slots(self) -> impl Iterator<Item = usize> {
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
