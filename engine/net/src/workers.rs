//! The workers as a group: starting them, giving them what to listen on, and ending them. What a worker does in
//! between is left to `worker` and `connection`.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use sluice_message::{Moment, Remote};
use socket2::Socket;
use tokio::runtime::LocalOptions;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::connection::{self, Connection};
use crate::entrance::Entrance;
use crate::handed::Handed;
use crate::limits::{ACCEPT_BURST_MAX, ACCEPT_PAUSE, COMMANDS_MAX, LISTEN_BACKLOG, TIMER_TICK};
use crate::listener::{Bound, ListenAddr, Listener, Slot};
use crate::places::{self, Place, PlaceLimit};
use crate::service::{Binding, Protocols, Service};
use crate::stream::Stream;
use crate::sys;
use crate::sys::identity::Identity;
use crate::sys::placement::Processors;
use crate::worker::{ConnectionLimit, Counters, Entered, Shared, Worker};

/// The running workers of a process.
pub struct Workers<S: Service> {
    handles: Vec<Handle<S>>,
    listening: HashSet<ListenAddr>,
    limit: Arc<ConnectionLimit>,
    handed: Handed,
}

struct Handle<S: Service> {
    commands: mpsc::Sender<Command<S>>,
    thread: JoinHandle<()>,
    counters: Arc<Counters>,
}

/// What to listen on, and what to serve there.
pub struct Listen<S: Service> {
    /// The address.
    pub addr: ListenAddr,
    /// Answers requests there.
    pub service: Arc<S>,
    /// Makes TLS sessions; `None` on a plain listener.
    pub tls: Option<Arc<dyn crate::tls::Acceptor>>,
    /// What connections begin with before that; `None` where nothing does.
    pub entrance: Option<Arc<Entrance>>,
    /// The versions of HTTP spoken on plain connections.
    pub protocols: Protocols,
}

/// An address that could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub addr: ListenAddr,
    /// Why.
    pub source: io::Error,
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot listen on {}: {}", self.addr, self.source)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Under what conditions the threads of workers run. The default ones are those of the thread that starts them.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Whom they are taken for; without it they do not start.
    pub identity: Option<Identity>,
    /// The processors of each worker; the last ones are those of all further workers.
    pub processors: Vec<Processors>,
    /// Their priority, from -20, which is the highest, to 20.
    pub priority: Option<i32>,
    /// The connections that each may have; no end of them if `None`.
    pub places: Option<PlaceLimit>,
}

impl Conditions {
    /// Makes them those of the calling thread, worker `index`. Where it may not have processors or priority it does
    /// without.
    fn take(&self, index: usize) -> io::Result<()> {
        let processors = self.processors.get(index).or(self.processors.last());
        if let Some(processors) = processors {
            let _ = processors.bind();
        }
        if let Some(priority) = self.priority {
            let _ = sys::placement::prefer(priority);
        }
        // Last: it may be what allows the others.
        self.identity.as_ref().map_or(Ok(()), Identity::assume)
    }
}

enum Command<S: Service> {
    /// Listen on exactly these; sockets come with those that are new.
    Apply(Vec<(Listen<S>, Vec<Socket>)>, std_mpsc::SyncSender<()>),
    /// Give copies of all listening sockets.
    Lend(std_mpsc::SyncSender<io::Result<Vec<Socket>>>),
    /// Go on as before, and know that a stop comes at that moment.
    Announce(Moment),
    /// Stop accepting, let requests end, close what is idle; answers when nothing is left or time is up.
    Drain(Duration, oneshot::Sender<u64>),
}

impl<S: Service> Workers<S> {
    /// Starts `count` workers that listen on nothing yet.
    pub fn start(count: usize, limit: Arc<ConnectionLimit>) -> io::Result<Self> {
        Workers::start_under(&Conditions::default(), count, limit)
    }

    /// As [`Workers::start`], under conditions.
    pub fn start_under(
        conditions: &Conditions,
        count: usize,
        limit: Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let handles = (0..count)
            .map(|index| {
                let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
                let limit = limit.clone();
                let counters = Arc::new(Counters::default());
                let own = counters.clone();
                let conditions = conditions.clone();
                let (taken, taking) = std_mpsc::sync_channel(1);
                let thread = std::thread::Builder::new()
                    .name(format!("worker-{index}"))
                    .spawn(move || {
                        let outcome = conditions.take(index);
                        let is_fit = outcome.is_ok();
                        // Whoever starts the worker waits for it.
                        let _ = taken.send(outcome);
                        if is_fit {
                            let worker = Worker::counting(index, count, own);
                            if let Some(limit) = conditions.places {
                                worker.places.limit(limit);
                            }
                            run_thread(worker, limit, inbox);
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
            limit,
            handed: Handed::default(),
        })
    }

    /// What each worker has counted.
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.handles
            .iter()
            .map(|handle| handle.counters.clone())
            .collect()
    }

    /// Client connections open now.
    pub fn connections(&self) -> usize {
        self.limit.open()
    }

    /// Makes the workers listen on exactly `wanted`. Addresses that stay keep their sockets, so no connection in
    /// the kernel's queue is lost. If one cannot be bound nothing changes.
    pub fn apply(&mut self, wanted: Vec<Listen<S>>) -> Result<(), BindError> {
        let mut sockets: HashMap<ListenAddr, Vec<Vec<Socket>>> = HashMap::new();
        for listen in wanted.iter().filter(|l| !self.listening.contains(&l.addr)) {
            let ours: Vec<&ListenAddr> = self.listening.iter().chain(sockets.keys()).collect();
            let found = self.sockets(&listen.addr, &ours).map_err(|source| {
                let addr = listen.addr.clone();
                BindError { addr, source }
            })?;
            sockets.insert(listen.addr.clone(), found);
        }
        // What nobody listens on any more is closed.
        self.handed = Handed::default();
        self.listening = wanted.iter().map(|l| l.addr.clone()).collect();
        for handle in &self.handles {
            let plan = wanted
                .iter()
                .map(|l| {
                    let listen = Listen {
                        addr: l.addr.clone(),
                        service: l.service.clone(),
                        tls: l.tls.clone(),
                        entrance: l.entrance.clone(),
                        protocols: l.protocols,
                    };
                    let own = sockets.get_mut(&l.addr).and_then(Vec::pop);
                    (listen, own.unwrap_or_default())
                })
                .collect();
            let (done, wait) = std_mpsc::sync_channel(1);
            // A worker that is gone has nothing to apply; its thread's panic shows when it is joined.
            if handle
                .commands
                .blocking_send(Command::Apply(plan, done))
                .is_ok()
            {
                let _ = wait.recv();
            }
        }
        Ok(())
    }

    /// The sockets of each worker for an address that is new: those that were handed over, else new ones.
    fn sockets(&self, addr: &ListenAddr, ours: &[&ListenAddr]) -> io::Result<Vec<Vec<Socket>>> {
        let workers = self.handles.len();
        if let Some(found) = self.handed.for_workers(addr, workers)? {
            return Ok(found);
        }
        let bound = Bound::bind(addr, workers, ours)?.into_sockets();
        Ok(bound.into_iter().map(|socket| vec![socket]).collect())
    }

    /// Takes over sockets that listen already. The next [`Workers::apply`] takes those that it has addresses for, and
    /// closes the others.
    pub fn take_over(&mut self, sockets: Vec<OwnedFd>) {
        self.handed = Handed::new(sockets.into_iter().map(Socket::from).collect());
    }

    /// Copies of all sockets that the workers listen on, for whoever is to listen after them.
    pub fn lend(&self) -> io::Result<Vec<OwnedFd>> {
        let mut lent = Vec::new();
        for handle in &self.handles {
            let (done, wait) = std_mpsc::sync_channel(1);
            // A worker that is gone listens on nothing.
            if handle.commands.blocking_send(Command::Lend(done)).is_ok()
                && let Ok(sockets) = wait.recv()
            {
                lent.extend(sockets?.into_iter().map(OwnedFd::from));
            }
        }
        Ok(lent)
    }

    /// Stops accepting and lets connections end with what they have begun. The sockets stay as they are, so that clients
    /// can wait: the next [`Workers::apply`] goes on with them.
    pub fn withdraw(&mut self) -> io::Result<()> {
        let sockets = self.lend()?;
        // Nothing has to be bound, so nothing can be refused.
        let _ = self.apply(Vec::new());
        self.take_over(sockets);
        Ok(())
    }

    /// Tells the workers that a stop comes at `stop_at`; until then they go on as before.
    pub fn announce_stop(&self, stop_at: Moment) {
        for handle in &self.handles {
            // A worker that is gone has nobody to tell.
            let _ = handle.commands.blocking_send(Command::Announce(stop_at));
        }
    }

    /// Stops accepting, waits for running requests at most `grace`, and ends the workers. Gives the number of
    /// connections that were cut off.
    pub fn drain(self, grace: Duration) -> u64 {
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
        cut_off
    }
}

/// Sockets found ready by one look at them, and tasks run between two looks. What the kernel and the look have touched of
/// a connection is then still in the caches when its task runs; with a thousand at a time it is not: a proxied request
/// of 9,500 connections cost 6 to 9 % more, and 200 connections show no difference.
const LOOK_INTERVAL: u32 = 16;

fn run_thread<S: Service>(
    worker: Rc<Worker>,
    limit: Arc<ConnectionLimit>,
    inbox: mpsc::Receiver<Command<S>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Fewer looks at the outside between polls: under load a look finds many sockets at once.
        .event_interval(LOOK_INTERVAL)
        .global_queue_interval(LOOK_INTERVAL)
        .max_io_events_per_tick(LOOK_INTERVAL as usize)
        .build_local(LocalOptions::default())
        .expect("the process may open an epoll descriptor at its start");
    runtime.block_on(run(worker, limit, inbox));
}

struct Running<S: Service> {
    shared: Rc<Shared<S>>,
    slots: RefCell<HashMap<ListenAddr, Listening<S>>>,
}

/// The listeners of an address at work, mostly one, and the task that accepts for each.
struct Listening<S: Service> {
    doors: Vec<(Rc<Listener>, AbortHandle)>,
    slot: Rc<Slot<S>>,
}

async fn run<S: Service>(
    worker: Rc<Worker>,
    limit: Arc<ConnectionLimit>,
    mut inbox: mpsc::Receiver<Command<S>>,
) {
    let sweeper = tokio::task::spawn_local(sweep(worker.clone()));
    let giver = tokio::task::spawn_local(worker.handshakes.clone().give_turns());
    let shared = Rc::new(Shared {
        worker,
        limit,
        exchanges: RefCell::new(Vec::new()),
    });
    let running = Running {
        shared,
        slots: RefCell::new(HashMap::new()),
    };
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Apply(plan, done) => {
                running.apply(plan);
                let _ = done.send(());
            }
            Command::Lend(done) => {
                let _ = done.send(running.lend());
            }
            Command::Announce(stop_at) => running.shared.worker.stop_at.set(Some(stop_at)),
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

/// Moves the clock on and lets timeouts act.
async fn sweep(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(TIMER_TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        worker.clock.tick();
        worker.timers.sweep(worker.clock.coarse());
        worker.upstreams.sweep(worker.clock.coarse());
    }
}

impl<S: Service> Running<S> {
    fn lend(&self) -> io::Result<Vec<Socket>> {
        let slots = self.slots.borrow();
        let doors = slots.values().flat_map(|listening| &listening.doors);
        doors.map(|(listener, _)| listener.copy()).collect()
    }

    fn apply(&self, plan: Vec<(Listen<S>, Vec<Socket>)>) {
        let mut before = std::mem::take(&mut *self.slots.borrow_mut());
        let mut slots = self.slots.borrow_mut();
        for (listen, sockets) in plan {
            let binding = Binding {
                service: listen.service,
                tls: listen.tls,
                entrance: listen.entrance,
                protocols: listen.protocols,
            };
            let settings = binding.service.settings();
            let (probes, settings) = (settings.probes, settings.sockets);
            if let Some(listening) = before.remove(&listen.addr) {
                listening.slot.replace(binding);
                for (listener, _) in &listening.doors {
                    // The kernel takes what it was asked before, or the socket is no TCP one.
                    let _ = listener.probe(probes.as_ref());
                    let _ = listener.set(&settings);
                }
                slots.insert(listen.addr, listening);
                continue;
            }
            let slot = Rc::new(Slot::new(binding));
            let listeners = sockets
                .into_iter()
                .filter_map(|socket| Listener::new(socket).ok());
            let doors: Vec<_> = listeners
                .map(|listener| {
                    let _ = listener.probe(probes.as_ref());
                    let _ = listener.set(&settings);
                    let listener = Rc::new(listener);
                    let accepting = accept(listener.clone(), slot.clone(), self.shared.clone());
                    let task = tokio::task::spawn_local(accepting).abort_handle();
                    (listener, task)
                })
                .collect();
            if !doors.is_empty() {
                slots.insert(listen.addr, Listening { doors, slot });
            }
        }
        let listeners: usize = slots.values().map(|slot| slot.doors.len()).sum();
        // One more, for what nginx's workers hear from their master by.
        self.shared.worker.places.keep_back(listeners + 1);
        if before.is_empty() {
            return;
        }
        for (_, listening) in before {
            listening.slot.retire();
            tokio::task::spawn_local(listening.close(self.shared.clone()));
        }
        self.shared.worker.timers.wake_idle();
    }

    async fn drain(&self, grace: Duration) -> u64 {
        let worker = &self.shared.worker;
        worker.draining.set(true);
        let all = std::mem::take(&mut *self.slots.borrow_mut());
        for (_, listening) in all {
            listening.close(self.shared.clone()).await;
        }
        worker.timers.expire_all_idle();
        let deadline = tokio::time::Instant::now() + grace;
        while worker.counters.open.value() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
            worker.timers.expire_all_idle();
        }
        worker.upstreams.clear();
        worker.counters.open.value()
    }
}

impl<S: Service> Listening<S> {
    /// Accepts no more, but for those that the kernel has let in already: closing would reset them.
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
    }
}

/// Accepts for one listener, for ever.
async fn accept<S: Service>(listener: Rc<Listener>, slot: Rc<Slot<S>>, shared: Rc<Shared<S>>) {
    let mut burst = 0;
    loop {
        let (stream, remote) = match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok(accepted) => accepted,
            Err(error) if is_of_connection(&error) => continue,
            Err(_) => {
                make_room(&shared).await;
                continue;
            }
        };
        // Only now: nobody has to go for a client that does not come.
        let entered = loop {
            match shared.limit.enter() {
                Some(entered) => break entered,
                None => make_room(&shared).await,
            }
        };
        admit((stream, remote), entered, &slot, &shared).await;
        burst = rest_after(burst).await;
    }
}

/// Serves a connection that was accepted.
async fn admit<S: Service>(
    (stream, remote): (Stream, Remote),
    entered: Entered,
    slot: &Rc<Slot<S>>,
    shared: &Rc<Shared<S>>,
) {
    let counters = &shared.worker.counters;
    counters.accepted.up();
    let Ok(place) = places::take(&shared.worker).await else {
        // As nginx does it. Whoever waits in the kernel's queue would not know that there is no room.
        counters.refused.up();
        return;
    };
    counters.open.up();
    let open = Open(shared.worker.clone(), (entered, place));
    let (slot, shared) = (slot.clone(), shared.clone());
    if slot.binding().entrance.is_some() {
        tokio::task::spawn_local(connection::enter(stream, remote, slot, shared, open));
    } else {
        let ends = (remote, stream.local_addr());
        let mut connection = Connection::new(stream, ends, slot, shared, open);
        // Called in place: what a future is given by value it holds twice, and this is most of an idle connection.
        tokio::task::spawn_local(async move { connection.run().await });
    }
}

/// Counts one more connection of a burst of so many, and lets others have their turn after many.
async fn rest_after(burst: usize) -> usize {
    if burst + 1 < ACCEPT_BURST_MAX {
        return burst + 1;
    }
    yield_once().await;
    0
}

/// No more connections or files are to be had: what is idle longest goes, handshakes that do not go on among it, and
/// accepting rests a moment.
async fn make_room<S: Service>(shared: &Shared<S>) {
    shared.worker.counters.accept_pauses.up();
    let timers = &shared.worker.timers;
    timers.expire_oldest_idle(ACCEPT_BURST_MAX, 1);
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Whether accepting failed because of the one connection, which went away again.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::ConnectionAborted | E::ConnectionReset | E::Interrupted
    )
}

/// Lets all others that can go on have their turn.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// An open connection of a worker; dropping it, also by a panic, counts it out.
pub(crate) struct Open(
    Rc<Worker>,
    #[expect(dead_code, reason = "held to be counted")] (Entered, Place),
);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.open.down();
    }
}
