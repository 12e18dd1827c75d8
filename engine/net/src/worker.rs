//! One worker: a thread with a single-threaded runtime, its own listening sockets, clock, timers, buffers and upstream
//! connections. While serving a request, workers share nothing but the running configuration.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sluice_message::{ConnFacts, ConnInfo, LocalEnd, Moment, Remote};
use sluice_policy::memory::Pressure;

use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::connection_slots::{self, ConnectionSlot, ConnectionSlots, NoFreeSlot};
use crate::handshakes::{Handshakes, Room};
use crate::interims::Interims;
use crate::limits::{IDLE_CLOSED_MAX, IDLE_CLOSED_PART};
use crate::memory::{MemoryLimit, WorkerMemory};
use crate::retirement::Retirement;
use crate::timer::Timers;
use crate::upstream_pool::{PoolSlot, UpstreamPool};

/// State shared by the tasks of one worker.
#[derive(Default)]
pub struct Worker {
    /// Its index, from 0.
    pub index: usize,
    /// Number of workers.
    pub count: usize,
    /// Its clock.
    pub clock: Clock,
    /// Its timeouts.
    pub timers: Rc<Timers>,
    /// The memory pressure.
    pub memory: WorkerMemory,
    /// Its buffer pool.
    pub buffers: Buffers,
    /// Its upstream connections.
    upstreams: PoolSlot,
    /// Its connection slots.
    pub(crate) slots: Rc<ConnectionSlots>,
    /// TLS handshakes in progress with clients.
    pub(crate) handshakes: Rc<Handshakes>,
    /// Interim responses for the client whose connection is being polled.
    pub interims: Interims,
    /// Set while polling a step of a response that must continue even if its client disconnects.
    pub stays: Cell<bool>,
    /// Its counters.
    pub counters: Arc<Counters>,
    /// Whether the process is draining: connections close after the current request.
    pub draining: Cell<bool>,
    /// Whether idle connections stay open for a while although the process is draining, see
    /// [`crate::Workers::pass_on`].
    pub(crate) lingers: Cell<bool>,
    /// How many connections have got a number.
    connections: Cell<u64>,
    /// How many have asked the worker to stay, see [`Worker::stay`].
    pub(crate) staying: Rc<Cell<usize>>,
    /// Its connections, for requests that outlive their configuration.
    pub retirement: Retirement,
    /// When the process will start to shut down, if that is known.
    pub stop_at: Cell<Option<Moment>>,
    locals: RefCell<HashMap<TypeId, Rc<dyn Any>, BuildHasherDefault<OwnHash>>>,
}

/// Counters of one worker since its start, readable by all threads; on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Connections accepted.
    pub accepted: Count,
    /// Connections open now.
    pub open: Count,
    /// Connections closed immediately because the worker's slots were exhausted.
    pub refused: Count,
    /// TLS handshakes that failed.
    pub handshakes_failed: Count,
    /// TLS handshakes shed, before or during the handshake, because there were too many.
    pub handshakes_shed: Count,
    /// TLS handshakes that had to wait for their turn.
    pub handshakes_waited: Count,
    /// Requests whose handler panicked.
    pub panics: Count,
    /// Connections that used HTTP/2.
    pub http2_connections: Count,
    /// HTTP/2 connections closed because the client violated the protocol.
    pub http2_faults: Count,
    /// HTTP/2 connections closed because the client caused more work than its requests need.
    pub http2_calmed: Count,
    /// Connections that used HTTP/3.
    pub http3_connections: Count,
    /// HTTP/3 connections closed because the client violated the protocol.
    pub http3_faults: Count,
    /// HTTP/3 connections closed because the client caused more work than its requests need.
    pub http3_calmed: Count,
    /// Clients that were asked to prove their address (QUIC's Retry).
    pub quic_retries: Count,
    /// QUIC connections that were refused because of a limit.
    pub quic_refused: Count,
    /// QUIC connections with requests before the end of the handshake.
    pub quic_early: Count,
    /// Changes of the address of QUIC clients.
    pub quic_migrations: Count,
    /// Packets to QUIC clients that were lost.
    pub quic_lost_packets: Count,
    /// Bytes of datagrams to QUIC clients.
    pub quic_sent_bytes: Count,
    /// Bytes of datagrams from QUIC clients.
    pub quic_received_bytes: Count,
    /// HTTP/3 connections to upstreams.
    pub http3_upstream_connections: Count,
    /// Packets to upstreams over QUIC that were lost.
    pub quic_upstream_lost_packets: Count,
    /// Requests aborted because their bodies arrived below the minimum data rate.
    pub requests_too_slow: Count,
    /// Responses aborted because clients received them below the minimum data rate.
    pub responses_too_slow: Count,
    /// How often accepting paused because a limit was reached.
    pub accept_pauses: Count,
    /// Pooled buffers freed because of memory pressure.
    pub memory_buffers_freed: Count,
    /// Request bodies that had to wait because of memory pressure.
    pub memory_bodies_held: Count,
    /// Idle connections closed because of memory pressure.
    pub memory_idle_closed: Count,
    /// Connections refused because of memory pressure.
    pub memory_connections_refused: Count,
    /// Requests refused because of memory pressure.
    pub memory_requests_refused: Count,
    /// Current temporary files of bodies.
    pub spool_files: Count,
    /// Their total size in bytes.
    pub spool_bytes: Count,
    /// Temporary files of bodies created so far.
    pub spooled: Count,
    /// Bodies without a temporary file because a limit was reached.
    pub spool_refused: Count,
    /// Writes to temporary files that failed.
    pub spool_failures: Count,
}

/// A counter that one worker writes and others read: a change is a load and a store.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The current value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds one.
    pub fn up(&self) {
        self.0
            .store(self.value().wrapping_add(1), Ordering::Relaxed);
    }

    /// Subtracts one.
    pub fn down(&self) {
        self.sub(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0
            .store(self.value().wrapping_add(count), Ordering::Relaxed);
    }

    /// Subtracts `count`.
    pub fn sub(&self, count: u64) {
        self.0
            .store(self.value().wrapping_sub(count), Ordering::Relaxed);
    }
}

impl Worker {
    /// Worker `index` of `count`.
    pub fn new(index: usize, count: usize) -> Rc<Self> {
        Worker::sharing(index, count, (Arc::default(), Arc::default()))
    }

    /// Like [`Worker::new`], with the memory limit of the process, and counters that others read.
    pub(crate) fn sharing(
        index: usize,
        count: usize,
        (counters, memory_limit): (Arc<Counters>, Arc<MemoryLimit>),
    ) -> Rc<Self> {
        Rc::new(Worker {
            index,
            count,
            counters,
            memory: WorkerMemory::of(memory_limit.clone()),
            buffers: Buffers::of(memory_limit),
            ..Worker::default()
        })
    }

    /// Takes a slot for one more connection, closing idle connections if necessary: first client connections, then
    /// upstream connections, those idle longest first.
    ///
    /// # Errors
    ///
    /// All slots are taken by connections in use.
    pub async fn take_slot(&self) -> Result<ConnectionSlot, NoFreeSlot> {
        let clients = (&*self.timers, self.clock.coarse());
        let close_upstream = || {
            let pool = self.upstreams.get();
            pool.is_some_and(UpstreamPool::close_oldest)
        };
        connection_slots::take(&self.slots, clients, close_upstream).await
    }

    /// Its upstream connections; the pool is created at first use.
    ///
    /// # Panics
    ///
    /// If it was created as a different type.
    pub fn upstream_pool<P: UpstreamPool + Default>(&self) -> &P {
        self.upstreams.or_default()
    }

    /// The facts of a new connection between these ends, with the next number of the worker's connections.
    pub fn new_connection(&self, (remote, local): (Remote, LocalEnd)) -> ConnInfo {
        self.connections.set(self.connections.get() + 1);
        ConnInfo {
            remote,
            local,
            tls: None,
            facts: ConnFacts {
                serial: self.connections.get(),
                began: self.clock.coarse(),
                ..ConnFacts::default()
            },
        }
    }

    /// Keeps a draining worker from ending until the returned value is dropped, within the time it has.
    pub fn stay(&self) -> Stay {
        self.staying.set(self.staying.get() + 1);
        Stay(self.staying.clone())
    }

    /// Whether memory is so scarce that new connections and requests are refused.
    pub fn refuses(&self) -> bool {
        self.memory.level() == Pressure::Refuse
    }

    /// Advances the clock, fires timeouts, closes upstream connections that were idle for too long, and saves memory if
    /// that is scarce.
    pub(crate) fn tick(&self) {
        self.clock.tick();
        let now = self.clock.coarse();
        self.timers.sweep(now);
        if let Some(pool) = self.upstreams.get() {
            pool.sweep(now);
        }
        self.save_memory(self.memory.tick(now));
    }

    fn save_memory(&self, pressure: Pressure) {
        let freed = self.buffers.set_scarce(pressure >= Pressure::SmallBuffers);
        if freed > 0 {
            self.counters.memory_buffers_freed.add(freed as u64);
        }
        if pressure >= Pressure::CloseIdle {
            let closed = (self.timers).expire_oldest_idle(IDLE_CLOSED_MAX, IDLE_CLOSED_PART);
            self.counters.memory_idle_closed.add(closed as u64);
            self.close_idle_upstreams();
        }
    }

    /// Closes all idle upstream connections.
    pub(crate) fn close_idle_upstreams(&self) {
        if let Some(pool) = self.upstreams.get() {
            pool.clear();
        }
    }

    /// The worker's own instance of `T`, created at first use, for state of the layer above such as open files. It
    /// survives configuration reloads.
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

/// Keeps a draining worker from ending.
pub struct Stay(Rc<Cell<usize>>);

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The limit on client connections, shared by all workers.
#[derive(Debug)]
pub struct ConnectionLimit {
    open: AtomicUsize,
    max: AtomicUsize,
}

/// Whether clients may need a second file descriptor each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondFile {
    /// One per client, for its upstream connection.
    PerClient,
    /// Few: open files are shared by many clients.
    Shared,
}

impl ConnectionLimit {
    /// At most `max` connections at a time.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(ConnectionLimit {
            open: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
        })
    }

    /// The limit for a process that may have `files` open files. [`crate::limits::FILES_RESERVED`] are reserved. If
    /// each client may need a second descriptor for its upstream, half of the rest; otherwise a part is reserved for
    /// files being served.
    pub fn for_open_files(files: u64, second: SecondFile) -> usize {
        let free = files.saturating_sub(crate::limits::FILES_RESERVED);
        let clients = match second {
            SecondFile::PerClient => free / 2,
            SecondFile::Shared => free.saturating_sub(files / crate::limits::FILES_SENT_PART),
        };
        usize::try_from(clients).unwrap_or(usize::MAX).max(8)
    }

    /// The maximum number of connections.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of connections. Open connections are unaffected.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts a connection, if there is room.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        if self.open.fetch_add(1, Ordering::Relaxed) < self.max() {
            return Some(Entered(self.clone()));
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Number of open connections.
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

/// A counted connection; dropping it decrements the count.
pub struct Entered(Arc<ConnectionLimit>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The maximum number of open files of this process.
pub fn open_files_max() -> io::Result<u64> {
    crate::sys::limits::open_files()
}
/// The hash of a `TypeId`: it is one already.
#[derive(Default)]
struct OwnHash(u64);

impl Hasher for OwnHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
