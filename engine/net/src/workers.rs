//! The workers as a group: starting them, applying a set of listeners, draining them. `worker` and `connection` contain
//! what a worker does.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{self, Rc};
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluice_message::Moment;
use socket2::Socket;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::accepting::{accept, admit, is_of_connection};
use crate::bind_error::BindError;
use crate::binding::{Binding, Slot};
use crate::conditions::Conditions;
use crate::connection::Shared;
use crate::datagrams::{
    self, DatagramProblem, DatagramTrouble, Datagrams, Group, Receiver, ServeDatagrams,
};
use crate::inherited_sockets::Handed;
use crate::limits::{COMMANDS_MAX, IDLE_LINGER, LISTEN_BACKLOG, TIMER_TICK};
use crate::listener::{Bound, ListenAddr, Listener, SocketFiles};
use crate::listener_wrapper::ListenerWrapper;
use crate::memory::MemoryLimit;
use crate::multiplexed::host::Host;
use crate::service::{Protocols, Service, Settings};
use crate::worker::{ConnectionLimit, Counters, Worker};

/// The running workers of a process.
pub struct Workers<S: Service> {
    handles: Vec<Handle<S>>,
    listening: HashSet<ListenAddr>,
    /// The sockets of those that receive datagrams as well.
    receiving: HashMap<ListenAddr, Group>,
    /// The sockets of those that did, as long as connections are left.
    left: HashMap<ListenAddr, Weak<Vec<Socket>>>,
    socket_files: SocketFiles,
    limit: Arc<ConnectionLimit>,
    memory: Arc<MemoryLimit>,
    handed: Handed,
}

struct Handle<S: Service> {
    commands: mpsc::Sender<Command<S>>,
    thread: std::thread::JoinHandle<()>,
    counters: Arc<Counters>,
}

/// A listener and what it serves.
pub struct Listen<S: Service> {
    /// The address.
    pub addr: ListenAddr,
    /// Serves its requests.
    pub service: Arc<S>,
    /// Creates TLS sessions; `None` for a plain listener.
    pub tls: Option<Arc<dyn crate::tls::Acceptor>>,
    /// The listener wrappers; `None` if there are none.
    pub wrapper: Option<Arc<ListenerWrapper>>,
    /// The HTTP versions on plain connections.
    pub protocols: Protocols,
    /// What serves datagrams on the same address; `None` if nothing does.
    pub datagrams: Option<Datagrams<S>>,
}

/// What a worker is to do on its thread.
pub type Task = Box<dyn FnOnce(&Rc<Worker>) + Send>;

/// The addresses to listen on, with the sockets of new ones: for connections, and for datagrams.
type Plan<S> = Vec<(Listen<S>, Vec<Socket>, Vec<Receiver>)>;

/// How long requests may outlive the configuration that they began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlive {
    /// As long as they take.
    Unlimited,
    /// For this time; then their connections are closed.
    For(Duration),
}

enum Command<S: Service> {
    /// Listen on exactly these addresses; new ones come with their sockets.
    Apply(Plan<S>, Outlive, std_mpsc::SyncSender<()>),
    /// Send duplicates of all listening sockets.
    Lend(std_mpsc::SyncSender<io::Result<Vec<Socket>>>),
    /// The socket for datagrams with this number was passed to another process; this is the link to it.
    Link(ListenAddr, u8, OwnedFd),
    /// Record that the process will stop at this time.
    Announce(Moment),
    /// Do this on the thread of the worker.
    Do(Task),
    /// Stop accepting, finish requests, close idle connections; replies when nothing is left or the time is up.
    Drain(Duration, oneshot::Sender<u64>),
    /// Stop accepting, as another process accepts.
    PassOn(std_mpsc::SyncSender<()>),
}

impl<S: Service> Workers<S> {
    /// Starts `count` workers that do not listen yet.
    pub fn start(count: usize, limit: Arc<ConnectionLimit>) -> io::Result<Self> {
        Workers::start_under(&Conditions::default(), count, limit)
    }

    /// Like [`Workers::start`], with conditions.
    pub fn start_under(
        conditions: &Conditions,
        count: usize,
        limit: Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let memory = Arc::<MemoryLimit>::default();
        let handles = (0..count)
            .map(|index| {
                let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
                let limit = limit.clone();
                let counters = Arc::new(Counters::default());
                let own = (counters.clone(), memory.clone());
                let conditions = conditions.clone();
                let (taken, taking) = std_mpsc::sync_channel(1);
                let thread = std::thread::Builder::new()
                    .name(format!("worker-{index}"))
                    .spawn(move || {
                        let outcome = conditions.take(index);
                        let is_fit = outcome.is_ok();
                        // The thread that starts the worker waits for this.
                        let _ = taken.send(outcome);
                        if is_fit {
                            let worker = Worker::sharing(index, count, own);
                            if let Some(limit) = conditions.slots {
                                worker.slots.limit(limit);
                            }
                            run_thread(worker, limit, inbox, conditions.before_wait);
                        }
                    })?;
                taking.recv().map_err(io::Error::other)??;
                Ok(Handle {
                    commands,
                    thread,
                    counters,
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Workers {
            handles,
            listening: HashSet::new(),
            receiving: HashMap::new(),
            left: HashMap::new(),
            socket_files: SocketFiles::default(),
            limit,
            memory,
            handed: Handed::default(),
        })
    }

    /// The counters of each worker.
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.handles
            .iter()
            .map(|handle| handle.counters.clone())
            .collect()
    }

    /// The memory limit of the process.
    pub fn memory(&self) -> &Arc<MemoryLimit> {
        &self.memory
    }

    /// Number of open client connections.
    pub fn connections(&self) -> usize {
        self.limit.open()
    }

    /// Makes the workers listen on exactly `wanted`. Addresses that were already in use keep their sockets, so no
    /// connection in the accept queue is lost. If an address cannot be bound, nothing changes.
    pub fn apply(&mut self, wanted: Vec<Listen<S>>) -> Result<(), BindError> {
        self.replace(wanted, Outlive::Unlimited).map(|_| ())
    }

    /// Like [`Workers::apply`]; `outlive` is for the requests of the configuration that is replaced. Returns what is wrong
    /// with the sockets for datagrams: connections are served without them.
    pub fn replace(
        &mut self,
        wanted: Vec<Listen<S>>,
        outlive: Outlive,
    ) -> Result<Vec<DatagramProblem>, BindError> {
        let mut sockets: HashMap<ListenAddr, Vec<Vec<Socket>>> = HashMap::new();
        let opens =
            |l: &&Listen<S>| l.protocols.uses_connections() && !self.listening.contains(&l.addr);
        for listen in wanted.iter().filter(opens) {
            let ours: Vec<&ListenAddr> = self.listening.iter().chain(sockets.keys()).collect();
            let found = self.sockets(&listen.addr, &ours).map_err(|source| {
                let addr = listen.addr.clone();
                BindError { addr, source }
            })?;
            sockets.insert(listen.addr.clone(), found);
        }
        let (mut receivers, problems) = self.receivers(&wanted);
        // Inherited sockets that are not in use are closed.
        self.handed = Handed::default();
        let connecting = wanted.iter().filter(|l| l.protocols.uses_connections());
        self.listening = connecting.map(|l| l.addr.clone()).collect();
        for (worker, handle) in self.handles.iter().enumerate() {
            let plan = wanted
                .iter()
                .map(|l| {
                    let listen = Listen {
                        addr: l.addr.clone(),
                        service: l.service.clone(),
                        tls: l.tls.clone(),
                        wrapper: l.wrapper.clone(),
                        protocols: l.protocols,
                        datagrams: l.datagrams.clone(),
                    };
                    let own = sockets.get_mut(&l.addr).and_then(Vec::pop);
                    let receivers = receivers
                        .get_mut(&l.addr)
                        .map(|all| share_of(all, worker, self.handles.len()));
                    (
                        listen,
                        own.unwrap_or_default(),
                        receivers.unwrap_or_default(),
                    )
                })
                .collect();
            let (done, wait) = std_mpsc::sync_channel(1);
            // A worker that is gone has nothing to apply; its panic shows when its thread is joined.
            if handle
                .commands
                .blocking_send(Command::Apply(plan, outlive, done))
                .is_ok()
            {
                let _ = wait.recv();
            }
        }
        self.socket_files.keep_only(self.listening.iter());
        Ok(problems)
    }

    /// The new sockets for datagrams, by address, and what is wrong with them.
    fn receivers(
        &mut self,
        wanted: &[Listen<S>],
    ) -> (HashMap<ListenAddr, Vec<Receiver>>, Vec<DatagramProblem>) {
        let (mut found, mut problems) = (HashMap::new(), Vec::new());
        let mut before = std::mem::take(&mut self.receiving);
        for listen in wanted {
            let Some(datagrams) = &listen.datagrams else {
                continue;
            };
            let addr = &listen.addr;
            let group = match before.remove(addr) {
                Some(group) => Some(group),
                None => match self.bind_datagrams(addr) {
                    Ok(None) => None,
                    Ok(Some((receivers, group))) => {
                        found.insert(addr.clone(), receivers);
                        Some(group)
                    }
                    Err(error) => {
                        problems.push(DatagramProblem {
                            addr: addr.clone(),
                            what: DatagramTrouble::Bind(error),
                        });
                        None
                    }
                },
            };
            datagrams.bound.set(group.is_some());
            let Some(group) = group else { continue };
            let small = group.first().and_then(datagrams::small_buffer);
            if let Some(bytes) = small.filter(|_| found.contains_key(addr)) {
                problems.push(DatagramProblem {
                    addr: addr.clone(),
                    what: DatagramTrouble::SmallBuffers(bytes),
                });
            }
            self.receiving.insert(addr.clone(), group);
        }
        for (addr, group) in before {
            self.left.insert(addr, Arc::downgrade(&group));
        }
        self.left.retain(|_, group| group.strong_count() > 0);
        (found, problems)
    }

    /// The sockets for datagrams of a new address: inherited ones or those of connections that are left, else newly bound
    /// ones.
    fn bind_datagrams(&self, addr: &ListenAddr) -> io::Result<Option<(Vec<Receiver>, Group)>> {
        if let Some(group) = self.left.get(addr).and_then(Weak::upgrade) {
            let receivers = datagrams::receivers_of(&group)?;
            return Ok(Some((receivers, group)));
        }
        if let Some(handed) = self.handed.datagrams(addr)? {
            return datagrams::receivers(handed).map(Some);
        }
        let bound = datagrams::bind(addr, self.handles.len())?;
        let unlinked = |sockets: Vec<Socket>| sockets.into_iter().map(|one| (one, None)).collect();
        bound.map(unlinked).map(datagrams::receivers).transpose()
    }

    /// The sockets of each worker for a new address: inherited ones, else newly bound ones.
    fn sockets(&self, addr: &ListenAddr, ours: &[&ListenAddr]) -> io::Result<Vec<Vec<Socket>>> {
        let workers = self.handles.len();
        if let Some(found) = self.handed.for_workers(addr, workers)? {
            return Ok(found);
        }
        let bound = Bound::bind(addr, workers, ours)?.into_sockets();
        Ok(bound.into_iter().map(|socket| vec![socket]).collect())
    }

    /// Takes over listening sockets. The next [`Workers::apply`] uses those with a configured address and closes the
    /// others.
    pub fn take_over(&mut self, sockets: Vec<OwnedFd>) {
        self.handed = Handed::new(sockets.into_iter().map(Socket::from).collect());
    }

    /// Duplicates of all sockets that the workers listen on, for a binary upgrade.
    pub fn lend(&self) -> io::Result<Vec<OwnedFd>> {
        let mut lent = Vec::new();
        for handle in &self.handles {
            let (done, wait) = std_mpsc::sync_channel(1);
            // A worker that is gone does not listen.
            if handle.commands.blocking_send(Command::Lend(done)).is_ok()
                && let Ok(sockets) = wait.recv()
            {
                lent.extend(sockets?.into_iter().map(OwnedFd::from));
            }
        }
        Ok(lent)
    }

    /// Like [`Workers::lend`], with the sockets for datagrams in the order of each group. Each is followed by a link,
    /// through which the new process passes back what belongs to connections of this one.
    pub fn lend_to_successor(&self) -> io::Result<Vec<OwnedFd>> {
        let mut lent = self.lend()?;
        for (addr, group) in &self.receiving {
            for (index, socket) in (0..=u8::MAX).zip(group.iter()) {
                let (own, other) = datagrams::link()?;
                lent.push(socket.try_clone()?.into());
                lent.push(other.into());
                let worker = usize::from(index) % self.handles.len();
                let link = Command::Link(addr.clone(), index, own);
                // A worker that is gone has no connections.
                let _ = self.handles[worker].commands.blocking_send(link);
            }
        }
        Ok(lent)
    }

    /// Stops accepting and drains the connections. The sockets stay open, so that clients can wait in the accept queue:
    /// the next [`Workers::apply`] continues with them.
    pub fn withdraw(&mut self) -> io::Result<()> {
        let mut sockets = self.lend()?;
        for socket in self.receiving.values().flat_map(|group| group.iter()) {
            sockets.push(socket.try_clone()?.into());
        }
        // Nothing has to be bound, so nothing can fail.
        let _ = self.apply(Vec::new());
        self.take_over(sockets);
        Ok(())
    }

    /// Does `task` on the thread of the first worker, for example to start what runs beside requests.
    pub fn on_first(&self, task: Task) {
        if let Some(first) = self.handles.first() {
            // A worker that is gone serves nobody, so nothing has to run beside its requests.
            let _ = first.commands.blocking_send(Command::Do(task));
        }
    }

    /// Announces that the process will stop at `stop_at`; until then the workers run as before.
    pub fn announce_stop(&self, stop_at: Moment) {
        for handle in &self.handles {
            // A worker that is gone need not be notified.
            let _ = handle.commands.blocking_send(Command::Announce(stop_at));
        }
    }

    /// Stops accepting, because another process accepts on the same sockets: returns once new connections are that one's.
    /// Idle connections stay for [`IDLE_LINGER`] when the workers drain, which has to follow.
    pub fn pass_on(&self) {
        for handle in &self.handles {
            let (done, wait) = std_mpsc::sync_channel(1);
            // A worker that is gone accepts nothing.
            if handle.commands.blocking_send(Command::PassOn(done)).is_ok() {
                let _ = wait.recv();
            }
        }
    }

    /// Stops accepting, waits at most `grace` for running requests, and ends the workers. Returns the number of
    /// connections that were closed forcibly.
    pub fn drain(mut self, grace: Duration) -> u64 {
        let waiting: Vec<_> = self
            .handles
            .iter()
            .filter_map(|handle| {
                let (done, wait) = oneshot::channel();
                handle
                    .commands
                    .blocking_send(Command::Drain(grace, done))
                    .ok()
                    .map(|()| wait)
            })
            .collect();
        let cut_off = waiting
            .into_iter()
            .map(|wait| wait.blocking_recv().unwrap_or(0))
            .sum();
        for handle in self.handles {
            drop(handle.commands);
            let _ = handle.thread.join();
        }
        self.handed = Handed::default();
        self.socket_files.keep_only([].into_iter());
        cut_off
    }
}

/// The receivers for worker `worker` of `workers`, taken from `all`. Receivers of a process with another number of workers
/// are distributed, as each of them has to be read.
fn share_of(all: &mut Vec<Receiver>, worker: usize, workers: usize) -> Vec<Receiver> {
    let is_own = |receiver: &mut Receiver| usize::from(receiver.index) % workers == worker;
    all.extract_if(.., is_own).collect()
}

/// Maximum number of events fetched by one poll of the sockets. The CPU caches then
/// still hold what the kernel has touched of a connection when its task runs. With a thousand at a time they do not: a
/// proxied request on 9,500 connections cost 6 to 9 % more, and with 200 connections there is no difference.
const EVENTS_MAX: usize = 16;

/// Maximum number of tasks run between two polls of the sockets. Larger than the number of events: a task that looks for its
/// response once the others have run gets its turn before new requests are fetched, which would push its data out of the
/// CPU caches.
const LOOK_INTERVAL: u32 = 64;

fn run_thread<S: Service>(
    worker: Rc<Worker>,
    limit: Arc<ConnectionLimit>,
    inbox: mpsc::Receiver<Command<S>>,
    before_wait: Option<fn()>,
) {
    let before_wait = before_wait.unwrap_or(|| {});
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Poll external events less often: under load one poll finds many sockets at once.
        .event_interval(LOOK_INTERVAL)
        .global_queue_interval(LOOK_INTERVAL)
        .max_io_events_per_tick(EVENTS_MAX)
        .on_thread_park(before_wait)
        .build_local(LocalOptions::default())
        .expect("the process may open an epoll descriptor at its start");
    runtime.block_on(run(worker, limit, inbox));
    before_wait();
}

struct Running<S: Service> {
    shared: Rc<Shared<S>>,
    slots: RefCell<HashMap<SlotKey, Listening<S>>>,
    /// Listeners that receive no more datagrams, with connections that may be left.
    left: RefCell<HashMap<ListenAddr, rc::Weak<Slot<S>>>>,
}

/// An address, and whether connections are accepted there: what receives only datagrams is another listener.
type SlotKey = (ListenAddr, bool);

/// The active listeners of an address, usually one, and the task that accepts for each.
struct Listening<S: Service> {
    doors: Vec<(Rc<Listener>, JoinHandle<()>)>,
    slot: Rc<Slot<S>>,
    /// What its sockets for datagrams serve, if it has any.
    receiving: Option<Rc<Slot<S>>>,
}

async fn run<S: Service>(
    worker: Rc<Worker>,
    limit: Arc<ConnectionLimit>,
    mut inbox: mpsc::Receiver<Command<S>>,
) {
    let giver = tokio::task::spawn_local(worker.handshakes.clone().give_turns());
    let shared = Rc::new(Shared::new(worker, limit));
    let sweeper = tokio::task::spawn_local(sweep(shared.clone()));
    let running = Running {
        shared,
        slots: RefCell::new(HashMap::new()),
        left: RefCell::new(HashMap::new()),
    };
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Apply(plan, outlive, done) => {
                let closing = running.apply(plan);
                running.retire(outlive);
                // The sender removes the files of unix sockets that are closed then.
                for closed in closing {
                    let _ = closed.await;
                }
                let _ = done.send(());
            }
            Command::Lend(done) => {
                let _ = done.send(running.lend());
            }
            Command::Link(addr, index, link) => running.link(&addr, index, link),
            Command::Do(task) => task(&running.shared.worker),
            Command::Announce(stop_at) => running.shared.worker.stop_at.set(Some(stop_at)),
            Command::PassOn(done) => {
                running.pass_on().await;
                let _ = done.send(());
            }
            Command::Drain(grace, done) => {
                let cut_off = running.drain(grace).await;
                let _ = done.send(cut_off);
                break;
            }
        }
    }
    sweeper.abort();
    giver.abort();
}

/// Ticks for ever.
async fn sweep<S: Service>(shared: Rc<Shared<S>>) {
    let mut ticks = tokio::time::interval(TIMER_TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        shared.worker.tick();
        shared.save_memory();
    }
}

impl<S: Service> Running<S> {
    fn lend(&self) -> io::Result<Vec<Socket>> {
        let slots = self.slots.borrow();
        let doors = slots.values().flat_map(|listening| &listening.doors);
        doors.map(|(listener, _)| listener.copy()).collect()
    }

    /// Gives a link to what receives the datagrams of a socket.
    fn link(&self, addr: &ListenAddr, index: u8, link: OwnedFd) {
        let slots = self.slots.borrow();
        let mut all = slots.iter().filter(|((known, _), _)| known == addr);
        let receiving = all.find_map(|(_, listening)| listening.receiving.as_ref());
        if let Some(slot) = receiving {
            slot.give_link(index, link);
        }
    }

    /// Closes connections whose requests outlive their configuration for too long.
    fn retire(&self, outlive: Outlive) {
        let worker = self.shared.worker.clone();
        let generation = worker.retirement.replace();
        if let Outlive::For(time) = outlive {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(time).await;
                worker.retirement.close_older(generation);
            });
        }
    }

    /// Listens as planned. Returns the tasks that close the other listeners.
    fn apply(&self, plan: Plan<S>) -> Vec<JoinHandle<()>> {
        let mut before = std::mem::take(&mut *self.slots.borrow_mut());
        let mut slots = self.slots.borrow_mut();
        for (listen, sockets, receivers) in plan {
            let binding = Rc::new(Binding {
                service: listen.service,
                tls: listen.tls,
                wrapper: listen.wrapper,
                protocols: listen.protocols,
            });
            let key = (listen.addr, listen.protocols.uses_connections());
            let mut listening = match before.remove(&key) {
                Some(listening) => {
                    listening.replace(&binding);
                    listening
                }
                None => self.open(sockets, &binding),
            };
            match &listen.datagrams {
                Some(datagrams) if !receivers.is_empty() => {
                    let slot = self.receive(&key.0, datagrams.serve, receivers, binding);
                    listening.receiving = Some(slot);
                }
                Some(_) => {}
                None => self.stop_receiving(&key.0, &mut listening),
            }
            if !listening.doors.is_empty() || listening.receiving.is_some() {
                slots.insert(key, listening);
            }
        }
        let listeners: usize = slots.values().map(|slot| slot.doors.len()).sum();
        // One more, for the channel between nginx's master and worker processes.
        self.shared.worker.slots.keep_back(listeners + 1);
        let closing: Vec<_> = before
            .into_iter()
            .map(|(key, mut listening)| {
                listening.slot.retire();
                self.stop_receiving(&key.0, &mut listening);
                tokio::task::spawn_local(listening.close(self.shared.clone()))
            })
            .collect();
        if !closing.is_empty() {
            self.shared.worker.timers.wake_idle();
        }
        closing
    }

    /// Begins to receive datagrams, or continues where connections are left from before.
    fn receive(
        &self,
        addr: &ListenAddr,
        serve: ServeDatagrams<S>,
        receivers: Vec<Receiver>,
        binding: Rc<Binding<S>>,
    ) -> Rc<Slot<S>> {
        let left = self.left.borrow_mut().remove(addr);
        if let Some(slot) = left.and_then(|slot| slot.upgrade()) {
            slot.replace(binding);
            slot.revive();
            return slot;
        }
        let slot = Rc::new(Slot::new(binding));
        for receiver in receivers {
            let host = Host::new(slot.clone(), self.shared.clone());
            tokio::task::spawn_local(serve(receiver, host));
        }
        slot
    }

    /// Accepts no more connections over datagrams; those that are open end with their requests.
    fn stop_receiving(&self, addr: &ListenAddr, listening: &mut Listening<S>) {
        if let Some(slot) = listening.receiving.take() {
            slot.retire();
            self.shared.worker.timers.wake_idle();
            let mut left = self.left.borrow_mut();
            left.retain(|_, slot| slot.strong_count() > 0);
            left.insert(addr.clone(), Rc::downgrade(&slot));
        }
    }

    /// Begins to accept connections on new sockets.
    fn open(&self, sockets: Vec<Socket>, binding: &Rc<Binding<S>>) -> Listening<S> {
        let slot = Rc::new(Slot::new(binding.clone()));
        let listeners = sockets
            .into_iter()
            .filter_map(|socket| Listener::new(socket).ok());
        let doors = listeners
            .map(|listener| {
                set_options(&listener, binding.service.settings());
                let listener = Rc::new(listener);
                let accepting = accept(listener.clone(), slot.clone(), self.shared.clone());
                let task = tokio::task::spawn_local(accepting);
                (listener, task)
            })
            .collect();
        Listening {
            doors,
            slot,
            receiving: None,
        }
    }

    async fn pass_on(&self) {
        self.shared.worker.lingers.set(true);
        self.stop().await;
    }

    /// Stops accepting; connections close after their current requests.
    async fn stop(&self) {
        self.shared.worker.draining.set(true);
        let all = std::mem::take(&mut *self.slots.borrow_mut());
        for (key, mut listening) in all {
            self.stop_receiving(&key.0, &mut listening);
            listening.close(self.shared.clone()).await;
        }
    }

    async fn drain(&self, grace: Duration) -> u64 {
        let worker = &self.shared.worker;
        self.stop().await;
        let began = tokio::time::Instant::now();
        let (deadline, lingers_until) = (began + grace, began + IDLE_LINGER.min(grace));
        let is_busy = || worker.counters.open.value() > 0 || worker.staying.get() > 0;
        loop {
            let now = tokio::time::Instant::now();
            if worker.lingers.get() && now >= lingers_until {
                worker.lingers.set(false);
            }
            if !worker.lingers.get() {
                worker.timers.expire_all_idle();
            }
            if !is_busy() || now >= deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        worker.close_idle_upstreams();
        worker.counters.open.value()
    }
}

/// Applies the socket options of the configuration. If that fails, the kernel keeps the previous ones, or this is not a
/// TCP socket.
fn set_options(listener: &Listener, settings: &Settings) {
    let _ = listener.probe(settings.probes.as_ref());
    let _ = listener.set(&settings.sockets);
}

impl<S: Service> Listening<S> {
    /// Serves something else from now on.
    fn replace(&self, binding: &Rc<Binding<S>>) {
        self.slot.replace(binding.clone());
        if let Some(receiving) = &self.receiving {
            receiving.replace(binding.clone());
        }
        for (listener, _) in &self.doors {
            set_options(listener, binding.service.settings());
        }
    }

    /// Stops accepting, except for connections already in the accept queue: closing would reset them.
    async fn close(self, shared: Rc<Shared<S>>) {
        for (_, task) in &self.doors {
            task.abort();
        }
        for (listener, _) in &self.doors {
            for _ in 0..LISTEN_BACKLOG {
                match listener.accept_now() {
                    Ok((stream, remote)) => {
                        if let Some(entered) = shared.limit.enter() {
                            admit((stream, remote), entered, &self.slot, &shared).await;
                        }
                    }
                    Err(error) if is_of_connection(&error) => {}
                    Err(_) => break,
                }
            }
        }
        for (_, task) in self.doors {
            // It was aborted; when it has ended, nothing holds the socket.
            let _ = task.await;
        }
    }
}
