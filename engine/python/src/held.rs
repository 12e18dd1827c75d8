//! Bytes of WebSocket messages that are held: by applications that have not received them, and by sluice for clients that do
//! not read them. Those for applications have a common limit per group, since a worker process holds whole messages.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

/// What the WebSockets of a group hold.
#[derive(Debug)]
pub(crate) struct Held {
    /// Bytes that were sent to processes and that their applications have not received.
    inbound: AtomicU64,
    /// Bytes that applications have sent and that clients have not taken.
    outbound: AtomicU64,
    /// The limit on `inbound`.
    inbound_max: u64,
    /// WebSockets that were closed because the limit did not let them send for too long.
    shed: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Counts how often they were woken.
    round: u64,
    wakers: Vec<Waker>,
}

/// The direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the application.
    Inbound,
    /// To the client.
    Outbound,
}

impl Held {
    pub fn new(inbound_max: u64) -> Held {
        Held {
            inbound: AtomicU64::new(0),
            outbound: AtomicU64::new(0),
            inbound_max,
            shed: AtomicU64::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Bytes held in one direction.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.count(direction).load(Ordering::Relaxed)
    }

    /// WebSockets closed because of the limit.
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// A WebSocket is closed because of the limit.
    pub fn note_shed(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Inbound => &self.inbound,
            Direction::Outbound => &self.outbound,
        }
    }

    /// Whether `length` more bytes fit below the limit. What is larger than the limit fits when nothing is held.
    fn has_room(&self, length: u64) -> bool {
        let held = self.inbound.load(Ordering::SeqCst);
        held == 0 || held + length <= self.inbound_max
    }

    /// Whether `length` more bytes for an application fit below the limit. If not, the task of `cx` is woken when some were
    /// received; `round` remembers that it is registered. Threads that ask at the same moment may exceed the limit by a piece
    /// each.
    pub fn poll_room(&self, length: usize, round: &mut Option<u64>, cx: &Context<'_>) -> bool {
        if self.has_room(length as u64) {
            return true;
        }
        {
            let mut waiting = self.lock();
            if *round != Some(waiting.round) {
                *round = Some(waiting.round);
                waiting.wakers.push(cx.waker().clone());
            }
        }
        // What was received before the task was registered has woken nobody.
        self.has_room(length as u64)
    }

    fn wake_all(&self) {
        let wakers = {
            let mut waiting = self.lock();
            if waiting.wakers.is_empty() {
                return;
            }
            waiting.round += 1;
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one WebSocket holds in one direction, as long as this value lives.
pub(crate) struct Share {
    held: Arc<Held>,
    direction: Direction,
    bytes: usize,
}

impl Share {
    pub fn new(held: &Arc<Held>, direction: Direction, bytes: usize) -> Share {
        let mut share = Share {
            held: held.clone(),
            direction,
            bytes: 0,
        };
        share.set(bytes);
        share
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// It holds so many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes) as u64;
        let (count, now) = (self.held.count(self.direction), bytes as u64);
        if now >= before {
            count.fetch_add(now - before, Ordering::SeqCst);
            return;
        }
        count.fetch_sub(before - now, Ordering::SeqCst);
        if self.direction == Direction::Inbound {
            self.held.wake_all();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Share").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_finds_no_room_is_woken_once_when_there_is() {
        let held = Arc::new(Held::new(1000));
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(counter.clone());
        let cx = Context::from_waker(&waker);
        let mut round = None;
        assert!(held.poll_room(5000, &mut round, &cx), "nothing is held");
        let mut first = Share::new(&held, Direction::Inbound, 600);
        let second = Share::new(&held, Direction::Inbound, 300);
        let _other = Share::new(&held, Direction::Outbound, 7000);
        assert!(held.poll_room(100, &mut round, &cx));
        assert!(!held.poll_room(101, &mut round, &cx));
        assert!(!held.poll_room(101, &mut round, &cx), "registered once");
        first.set(500);
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert!(held.poll_room(200, &mut round, &cx));
        assert!(!held.poll_room(201, &mut round, &cx));
        drop(second);
        assert_eq!(counter.0.load(Ordering::SeqCst), 2);
        drop(first);
        assert_eq!(counter.0.load(Ordering::SeqCst), 2, "nobody waits");
        assert_eq!(held.bytes(Direction::Inbound), 0);
        assert_eq!(held.bytes(Direction::Outbound), 7000);
    }
}
