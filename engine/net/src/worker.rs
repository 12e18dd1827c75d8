//! One worker: a thread with a single-threaded runtime, its own listening sockets, clock, timers, buffers and
//! upstream connections. Workers share nothing on the way of a request but the running configuration.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sluice_message::{Fields, Moment, RequestHead};

use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::handshakes::{Handshakes, Room};
use crate::interims::Interims;
use crate::limits::{EXCHANGES_KEPT_MAX, HEAD_KEPT_BYTES_MAX, INLINE_KEPT_BYTES_MAX};
use crate::places::Places;
use crate::service::{Exchange, Service};
use crate::timer::Timers;
use crate::upstream;

/// What the tasks of one worker share.
#[derive(Default)]
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// How many workers there are.
    pub count: usize,
    /// Its time.
    pub clock: Clock,
    /// Its timeouts.
    pub timers: Rc<Timers>,
    /// Its spare buffers.
    pub buffers: Buffers,
    /// Its upstream connections.
    pub upstreams: upstream::Pool,
    /// The connections it may have.
    pub(crate) places: Rc<Places>,
    /// TLS handshakes in progress with clients.
    pub(crate) handshakes: Rc<Handshakes>,
    /// Interim answers on their way to the client whose connection is being polled.
    pub interims: Interims,
    /// Set by a step of an answer while it is polled: it goes on although its client is gone.
    pub stays: Cell<bool>,
    /// What it has counted.
    pub counters: Arc<Counters>,
    /// Whether the process is ending: connections close after the request they serve.
    pub draining: Cell<bool>,
    /// When the process begins to end, once that is known.
    pub stop_at: Cell<Option<Moment>>,
    locals: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

/// Counts of one worker since its start, for anybody to read; they stand on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Connections accepted.
    pub accepted: Count,
    /// Connections open now.
    pub open: Count,
    /// Connections that were closed at once, as the worker may have no more.
    pub refused: Count,
    /// TLS handshakes that failed.
    pub handshakes_failed: Count,
    /// TLS handshakes that were not begun or not ended because there were too many.
    pub handshakes_shed: Count,
    /// TLS handshakes that had to wait for their turn.
    pub handshakes_waited: Count,
    /// Requests whose handler panicked.
    pub panics: Count,
    /// Connections on which HTTP/2 was spoken.
    pub http2_connections: Count,
    /// HTTP/2 connections that were ended because the client broke the protocol.
    pub http2_faults: Count,
    /// HTTP/2 connections that were ended because the client made more work than its requests need.
    pub http2_calmed: Count,
    /// Requests that were ended because their bodies came slower than the lowest rate.
    pub requests_too_slow: Count,
    /// Responses that were ended because clients took them slower than the lowest rate.
    pub responses_too_slow: Count,
    /// Times that accepting had to wait because a limit was reached.
    pub accept_pauses: Count,
    /// Temporary files of bodies at the moment.
    pub spool_files: Count,
    /// Bytes in them.
    pub spool_bytes: Count,
    /// Temporary files of bodies so far.
    pub spooled: Count,
    /// Bodies that got no temporary file because a limit was reached.
    pub spool_refused: Count,
    /// Writes to temporary files that failed.
    pub spool_failures: Count,
}

/// A count that one worker writes and others read, so that a change is a load and a store.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The count.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub(crate) fn up(&self) {
        self.0
            .store(self.value().wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one less.
    pub(crate) fn down(&self) {
        self.sub(1);
    }

    /// Counts so many more.
    pub(crate) fn add(&self, count: u64) {
        self.0
            .store(self.value().wrapping_add(count), Ordering::Relaxed);
    }

    /// Counts so many less.
    pub(crate) fn sub(&self, count: u64) {
        self.0
            .store(self.value().wrapping_sub(count), Ordering::Relaxed);
    }
}

impl Worker {
    /// Worker `index` of `count`.
    pub fn new(index: usize, count: usize) -> Rc<Self> {
        Worker::counting(index, count, Arc::default())
    }

    /// As [`Worker::new`], with counters that others read.
    pub(crate) fn counting(index: usize, count: usize, counters: Arc<Counters>) -> Rc<Self> {
        Rc::new(Worker {
            index,
            count,
            counters,
            ..Worker::default()
        })
    }

    /// The worker's own instance of `T`, made at first use: what the floor above keeps per worker, such as
    /// opened files. It outlives configurations.
    pub fn local<T: Default + 'static>(&self) -> Rc<T> {
        let found = self.locals.borrow().get(&TypeId::of::<T>()).cloned();
        let any = found.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new(T::default());
            self.locals
                .borrow_mut()
                .insert(TypeId::of::<T>(), made.clone());
            made
        });
        any.downcast()
            .expect("an entry is stored under its own type")
    }
}

/// The limit on client connections, which all workers share.
#[derive(Debug)]
pub struct ConnectionLimit {
    open: AtomicUsize,
    max: AtomicUsize,
}

/// Whether clients may need a second open file each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFile {
    /// One for its upstream, each.
    PerClient,
    /// Files are opened for many of them at once.
    Shared,
}

impl ConnectionLimit {
    /// At most `max` connections at once.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(ConnectionLimit {
            open: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
        })
    }

    /// The limit that `files` open files allow. [`crate::limits::FILES_RESERVED`] stay free. Where each client may need a
    /// second one for its upstream there are half as many; else a part is kept for the files that are sent.
    pub fn for_open_files(files: u64, second: SecondFile) -> usize {
        let free = files.saturating_sub(crate::limits::FILES_RESERVED);
        let clients = match second {
            SecondFile::PerClient => free / 2,
            SecondFile::Shared => free.saturating_sub(files / crate::limits::FILES_SENT_PART),
        };
        usize::try_from(clients).unwrap_or(usize::MAX).max(8)
    }

    /// How many connections there may be.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Sets how many there may be from now on. Those that are open stay.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts one connection in, if there is room.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        if self.open.fetch_add(1, Ordering::Relaxed) < self.max() {
            return Some(Entered(self.clone()));
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How much room is left.
    pub(crate) fn room(&self) -> Room {
        let max = self.max();
        if self.open() < max - max / 4 {
            Room::Ample
        } else {
            Room::Scarce
        }
    }
}

/// A connection that was counted in; dropping it counts it out.
pub(crate) struct Entered(Arc<ConnectionLimit>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the connections of a worker share for one kind of service.
pub(crate) struct Shared<S: Service> {
    pub(crate) worker: Rc<Worker>,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) exchanges: RefCell<Vec<Box<Exchange<S::Context>>>>,
}

impl<S: Service> Shared<S> {
    /// Keeps a used exchange for the next request.
    pub(crate) fn give_back(&self, mut x: Box<Exchange<S::Context>>) {
        let mut kept = self.exchanges.borrow_mut();
        if kept.len() < EXCHANGES_KEPT_MAX {
            if x.req.capacity_bytes() > HEAD_KEPT_BYTES_MAX {
                x.req = RequestHead::default();
            }
            if x.res.fields.capacity_bytes() > HEAD_KEPT_BYTES_MAX {
                x.res.fields = Fields::new();
            }
            x.req.clear();
            x.res.clear();
            if x.inline.capacity() > INLINE_KEPT_BYTES_MAX {
                x.inline = Vec::new();
            }
            kept.push(x);
        }
    }
}

/// The open files this process may have.
pub fn open_files_max() -> io::Result<u64> {
    crate::sys::limits::open_files()
}
