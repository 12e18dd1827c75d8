//! The pool of shared connections to one upstream, and the calls waiting for one. `h2` and `h3` implement them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use crate::limits::STREAMS_FORESEEN;
use sluice_net::failure::{Failure, FailureKind, Retry};

/// A connection shared by many calls, as its pool sees it.
pub trait Shared {
    /// Its number among the connections to the upstream; later ones have higher numbers.
    fn number(&self) -> u64;

    /// Number of open streams.
    fn open_streams(&self) -> usize;

    /// Whether a request can be sent on it now.
    fn has_room(&self) -> bool;

    /// Whether the number of concurrent streams will soon be known.
    fn is_beginning(&self) -> bool;

    /// Stops opening streams on the connection.
    fn retire(&self);
}

/// The shared connections to one upstream.
pub struct Shelf<C> {
    muxes: RefCell<Vec<Rc<C>>>,
    /// Notified when a stream ends, a connection is established or fails, or a limit on streams becomes known.
    changed: Notify,
    /// The number of the next connection.
    next_number: Cell<u64>,
    dials: Cell<usize>,
    waiting: Cell<usize>,
    /// Maximum number of concurrent streams of the newest connection.
    streams: Cell<usize>,
    /// Whether the upstream chose HTTP/1.1 at the last dial: then calls do not wait for connections of others.
    http1: Cell<bool>,
    failures: Cell<u64>,
    last_failure: RefCell<Option<LastFailure>>,
}

/// A failure to connect, for the calls that waited for the connection.
struct LastFailure {
    kind: FailureKind,
    text: String,
}

impl<C> Default for Shelf<C> {
    fn default() -> Self {
        Shelf {
            muxes: RefCell::default(),
            changed: Notify::new(),
            next_number: Cell::new(1),
            dials: Cell::new(0),
            waiting: Cell::new(0),
            streams: Cell::new(STREAMS_FORESEEN),
            http1: Cell::new(false),
            failures: Cell::new(0),
            last_failure: RefCell::default(),
        }
    }
}

impl<C: Shared> Shelf<C> {
    /// A connection with room and number `since` or higher.
    pub(super) fn any(&self, since: u64) -> Option<Rc<C>> {
        let muxes = self.muxes.borrow();
        let mut young = muxes.iter().filter(|mux| mux.number() >= since);
        // The first one is filled first, so that surplus connections become idle and time out.
        young.find(|mux| mux.has_room()).cloned()
    }

    /// Like [`Shelf::any`], among the connections in use.
    pub(super) fn busy(&self, since: u64) -> Option<Rc<C>> {
        let muxes = self.muxes.borrow();
        let mut young = muxes.iter().filter(|mux| mux.number() >= since);
        young
            .find(|mux| mux.open_streams() > 0 && mux.has_room())
            .cloned()
    }

    /// Number of connections without streams.
    pub(crate) fn idle(&self) -> usize {
        let muxes = self.muxes.borrow();
        muxes.iter().filter(|mux| mux.open_streams() == 0).count()
    }

    /// The number that the next connection will get.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number.get()
    }

    /// Takes a number for a new connection.
    pub(crate) fn take_number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        number
    }

    pub(crate) fn add(&self, mux: Rc<C>) {
        self.muxes.borrow_mut().push(mux);
    }

    /// Removes a connection that accepts no more streams.
    pub(crate) fn remove(&self, mux: &C) {
        let is_other = |known: &Rc<C>| !std::ptr::eq(Rc::as_ptr(known), mux);
        self.muxes.borrow_mut().retain(is_other);
        self.changed.notify_waiters();
    }

    /// A stream has ended: wakes one of the waiting calls.
    pub(crate) fn note_ended(&self) {
        if self.waiting.get() > 0 {
            self.changed.notify_one();
        }
    }

    /// Records the maximum number of concurrent streams of a connection.
    pub(crate) fn note_streams(&self, count: usize) {
        self.streams.set(count.max(1));
        self.changed.notify_waiters();
    }

    /// A connection has room again: wakes all waiting calls.
    pub(crate) fn note_room(&self) {
        self.changed.notify_waiters();
    }

    /// Records whether the upstream chose HTTP/1.1.
    pub(crate) fn note_http1(&self, chosen: bool) {
        self.http1.set(chosen);
    }

    /// Whether connections are being established that will have room for one more waiting call.
    pub(super) fn is_worth_waiting(&self) -> bool {
        if self.http1.get() {
            return false;
        }
        let muxes = self.muxes.borrow();
        let begun = muxes.iter().filter(|mux| mux.is_beginning()).count();
        self.waiting.get() < (self.dials.get() + begun) * self.streams.get()
    }

    /// Waits until something has changed.
    ///
    /// # Errors
    ///
    /// The failure of a connection that was being established meanwhile.
    pub(super) async fn wait(&self) -> Result<(), Failure> {
        let before = self.failures.get();
        self.changed().await;
        match &*self.last_failure.borrow() {
            Some(last) if self.failures.get() != before => Err(last.failure()),
            Some(_) | None => Ok(()),
        }
    }

    /// Like [`Shelf::wait`], ignoring failures.
    pub(super) async fn changed(&self) {
        let _waiting = Counted::up(&self.waiting);
        self.changed.notified().await;
    }

    /// Counts a connection being established, until the returned value is dropped.
    pub(super) fn dialling(&self) -> Dialling<'_> {
        Dialling {
            changed: &self.changed,
            _count: Counted::up(&self.dials),
        }
    }

    /// Records that a connection could not be established.
    pub(super) fn note_failure(&self, failure: &Failure) {
        *self.last_failure.borrow_mut() = Some(LastFailure {
            kind: failure.kind,
            text: match &failure.source {
                Some(source) => source.to_string(),
                None => String::new(),
            },
        });
        self.failures.set(self.failures.get() + 1);
    }

    /// Closes all connections after their last stream.
    pub fn retire(&self) {
        let muxes = self.muxes.take();
        muxes.iter().for_each(|mux| mux.retire());
    }

    /// Whether nothing refers to it and it has no connections.
    pub fn is_unused(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1 && self.muxes.borrow().is_empty()
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.muxes.borrow().len()
    }
}

impl LastFailure {
    fn failure(&self) -> Failure {
        Failure::new(sluice_net::failure::Side::Upstream, self.kind)
            .with_retry(Retry::Always)
            .because(self.text.clone())
    }
}

/// A connection being established.
pub(super) struct Dialling<'a> {
    changed: &'a Notify,
    _count: Counted<'a>,
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        self.changed.notify_waiters();
    }
}

/// Increments a counter until it is dropped.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn up(count: &'a Cell<usize>) -> Counted<'a> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
