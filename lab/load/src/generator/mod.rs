//! The load generator: sends requests as planned, verifies every response, and counts successes and each kind of
//! failure separately. The server's resource usage is measured by `sample`.
//!
//! It runs one thread per assigned CPU, each with its own connections and its own epoll loop; they share nothing while
//! they run. Requests are serialized beforehand. In the closed loop each connection sends its next request when the
//! response is complete; in the open loop requests are due at predetermined times, and latencies are measured from
//! those.

pub mod alarm;
pub mod barrier;
pub mod clock;
pub mod expect;
pub mod held_connections;
pub mod interrupt;
pub mod kind;
pub mod limits;
pub mod link;
pub mod mix;
pub mod probe;
pub mod quic;
mod quic_link;
pub mod record;
pub mod request;
pub mod response;
pub mod scenario;
pub mod schedule;
pub mod seen;
pub mod talk;
pub mod target;
mod tickets;
mod timers;
pub mod trust;
pub mod udp;
pub mod warmup;
mod worker;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustls::HandshakeKind;

use self::barrier::Barrier;
use self::clock::{Clock, Ns, span};
use self::held_connections::{Beside, Hold};
use self::interrupt::Interrupt;
use self::kind::Kind;
use self::limits::{RAMP_MAX, RAMP_MIN, RAMP_SHARE_MAX, TICK};
use self::link::{Fault, Tls};
use self::mix::Mix;
use self::record::{Keepup, Recorder};
use self::request::Prepared;
use self::scenario::{Scenario, Users};
use self::seen::Seen;
use self::target::{Address, HttpVersion, Target};
use self::worker::{Share, Signals, Worker};
use crate::result::{Asked, Connections, Engine, FailureClass, Load, Mode};

/// The definition of a load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target.
    pub target: Target,
    /// TLS settings, if the target uses TLS.
    pub tls: Option<Tls>,
    /// The requests, sent in turn. At least one.
    pub requests: Vec<Prepared>,
    /// Which of them belong together, if they are a mix.
    pub mix: Mix,
    /// The scenario that is loaded instead of `requests`, of which the first is then a probe. `mode`, `connections` and
    /// `duration` are the scenario's; `depth` is 1.
    pub scenario: Option<Arc<Scenario>>,
    /// Closed or open loop.
    pub mode: Mode,
    /// Concurrent connections of all threads together.
    pub connections: usize,
    /// Concurrent requests on each connection.
    pub depth: usize,
    /// Requests after which a connection is closed.
    pub requests_per_connection_max: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// CPUs for the threads, in turn; empty to leave it to the kernel.
    pub cpus: Vec<usize>,
    /// Closed loop: ends after this many requests, all of which count, instead of a time window.
    pub requests_max: Option<u64>,
    /// Load before the window; the longest, if it is limited by a number of requests.
    pub warmup: Duration,
    /// Successful requests that end the warm-up. Not for scenarios, which begin with their first phase.
    pub warmup_requests: Option<u64>,
    /// The window.
    pub duration: Duration,
    /// How long requests in flight at the end of the window may still take.
    pub drain: Duration,
    /// Timeout of a request, from when it was sent; also of a connect, of a handshake, and of the wait for a connection
    /// before that.
    pub timeout: Duration,
    /// How long a client waits before it reconnects after its connection failed.
    pub failure_pause: Duration,
    /// Seed of everything random.
    pub seed: u64,
    /// The kind of exchange on each connection.
    pub kind: Kind,
    /// Connections held open beside the load.
    pub beside: Beside,
    /// Ends the load early.
    pub interrupt: Interrupt,
    /// Several machines begin together; by default the window begins when warm-up is over.
    pub barrier: Option<Arc<Barrier>>,
}

/// More connections than this from one source address to one destination would exhaust its ports.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

impl Plan {
    /// Requests that may be started on one connection.
    fn begun_max(&self) -> u64 {
        self.requests_per_connection_max.unwrap_or(u64::MAX)
    }

    /// Interval of timeout checks: a fiftieth of the timeout, so precise enough, and cheap with thousands of
    /// connections.
    fn tick_ns(&self) -> Ns {
        span((self.timeout / 50).clamp(TICK, TICK * 10))
    }

    /// The local address of a connection, by its number: if one address has too few ports, other loopback addresses are
    /// used as well.
    fn source(&self, connection: usize) -> Option<Ipv4Addr> {
        let Address::Tcp(to) = &self.target.address else {
            return None;
        };
        let loopback = matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
        if !loopback || self.connections <= CONNECTIONS_PER_SOURCE {
            return None;
        }
        let number = (connection / CONNECTIONS_PER_SOURCE) as u8;
        Some(Ipv4Addr::new(127, 0, 0, 2 + number))
    }

    /// The first bytes sent on a connection.
    fn greeting(&self) -> &[u8] {
        match &self.kind {
            Kind::WebSocket(greeting) => &greeting.wire,
            Kind::Requests | Kind::Events => &self.requests[0].wire,
        }
    }

    /// Records the TLS parameters, and fails if another protocol than requested was negotiated.
    fn agreed(
        &self,
        session: &rustls::ClientConnection,
        connections: &mut Connections,
    ) -> Result<(), Fault> {
        if session.handshake_kind() == Some(HandshakeKind::Resumed) {
            *connections.resumed.get_or_insert(0) += 1;
        }
        if connections.tls_version.is_none() {
            connections.key = session
                .peer_certificates()
                .and_then(|chain| trust::key_algorithm(chain.first()?))
                .map(str::to_string);
            connections.tls_version = session
                .protocol_version()
                .map(|version| format!("{version:?}"));
            connections.cipher = session
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()));
            connections.alpn = session
                .alpn_protocol()
                .map(|name| String::from_utf8_lossy(name).into_owned());
        }
        let agreed = session.alpn_protocol();
        let wanted = self.target.protocol.alpn();
        let right = match self.target.protocol.version() {
            HttpVersion::Http1 => agreed.is_none_or(|name| name == wanted),
            HttpVersion::Http2 | HttpVersion::Http3 => agreed == Some(wanted),
        };
        if right {
            return Ok(());
        }
        let agreed = agreed.map_or("nothing".into(), String::from_utf8_lossy);
        Err(Fault {
            class: FailureClass::Downgrade,
            text: format!("ALPN agreed on {agreed}"),
        })
    }

    /// Records the parameters of QUIC's handshake. It fails unless both ends agree on HTTP/3 (RFC 9001, section 8.1).
    fn agreed_on_quic(&self, connections: &mut Connections) {
        if connections.tls_version.is_none() {
            connections.tls_version = Some(format!("{:?}", rustls::ProtocolVersion::TLSv1_3));
            let alpn = self.target.protocol.alpn();
            connections.alpn = Some(String::from_utf8_lossy(alpn).into_owned());
        }
    }

    /// The requested load, for the result.
    pub fn asked(&self) -> Asked {
        let first = &self.requests[0];
        Asked {
            url: self.target.url.clone(),
            method: match &self.scenario {
                Some(_) => "scenario".to_string(),
                None => first.head.method.as_str().to_string(),
            },
            mode: self.mode,
            protocol: self
                .kind
                .protocol(self.tls.is_some())
                .unwrap_or(self.target.protocol.as_str())
                .to_string(),
            connections: self.connections,
            depth: self.depth,
            requests_per_connection_max: self.requests_per_connection_max,
            requests_max: self.requests_max,
            threads: self.threads,
            request_body_bytes: first.body.len() as u64,
            duration_s: self.duration.as_secs_f64(),
            // A load of a number of requests counts all of them.
            warmup_s: match self.requests_max {
                Some(_) => 0.0,
                None => self.warmup.as_secs_f64(),
            },
            warmup_requests: self.warmup_requests.filter(|_| self.requests_max.is_none()),
            timeout_s: self.timeout.as_secs_f64(),
            verify: match &self.scenario {
                Some(scenario) => scenario.words(),
                None => self.kind.words(first),
            },
            scenario: self.scenario.as_ref().map(|one| one.name.clone()),
        }
    }
}

/// What a thread is given.
#[derive(Clone, Copy, Debug)]
struct Shared<'a> {
    plan: &'a Plan,
    signals: &'a Signals,
    clock: Clock,
}

/// Progress of a load, for an observer.
#[derive(Clone, Debug)]
pub enum Stage {
    /// The window is fixed: its first moment, and the first after it.
    Window(Instant, Instant),
    /// Some time has passed: successful requests since the beginning, warm-up included, and counts of the window.
    Running(u64, Box<Seen>),
    /// No idle connection has been opened yet: a baseline of the server's memory.
    Alone,
    /// The idle connections are open.
    Held,
}

/// Interval between two progress reports.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between two checks whether the threads have ended.
const JOIN_PAUSE: Duration = Duration::from_millis(10);

/// Pause before the server's memory with idle connections is read: it may still be releasing what it used for
/// responses.
const HELD_SETTLE: Duration = Duration::from_millis(300);

/// The window of a load limited by its number of requests, until it has ended.
const UNLIMITED: Duration = Duration::from_secs(24 * 3600);

/// Minimum time between fixing the window and its beginning, so that every thread notices in time.
pub const NOTICE: Duration = Duration::from_millis(450);

/// Runs the load. `watch` is called with its progress, on the calling thread.
pub fn run(plan: &Plan, watch: &mut dyn FnMut(Stage)) -> io::Result<Load> {
    if !plan.beside.is_some() {
        return drive(plan, watch);
    }
    let hold = Hold::default();
    watch(Stage::Alone);
    thread::scope(|scope| {
        let holder = scope.spawn(|| held_connections::hold(plan, &hold));
        let (began, all) = (Instant::now(), plan.beside.idle + plan.beside.slow);
        let settled = || hold.settled.load(Ordering::Acquire) >= all;
        let ended = || holder.is_finished() || plan.interrupt.is_set();
        while !settled() && began.elapsed() < RAMP_MAX && !ended() {
            thread::sleep(JOIN_PAUSE);
        }
        thread::sleep(HELD_SETTLE);
        let open = hold.open.load(Ordering::Acquire) as u64;
        watch(Stage::Held);
        let load = drive(plan, watch);
        hold.stop.store(true, Ordering::Release);
        let mut held = holder
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        held.open_before_load = Some(open);
        load.map(|load| Load {
            held: Some(held),
            ..load
        })
    })
}

/// Runs the load itself.
fn drive(plan: &Plan, watch: &mut dyn FnMut(Stage)) -> io::Result<Load> {
    let signals = Signals::default();
    let clock = Clock::start();
    let began = Instant::now();
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let shared = Shared {
        plan,
        signals: &signals,
        clock,
    };
    let mut warmup = plan.warmup;
    let records = thread::scope(|scope| -> io::Result<Vec<Recorder>> {
        let mut handles = Vec::new();
        for thread in 0..threads {
            let share = share(plan, thread, threads);
            let work = move || {
                if let Some(cpu) = plan.cpus.get(thread % plan.cpus.len().max(1)) {
                    pin(*cpu)?;
                }
                // The kernel may wake sleepers 50 us late to save power; the load generator must be on time.
                let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                match &plan.scenario {
                    Some(scenario) => Users::new(shared, share, scenario)?.run(),
                    None => Worker::new(shared, share)?.run(),
                }
            };
            let named = thread::Builder::new().name(format!("load-{thread}"));
            handles.push(named.spawn_scoped(scope, work)?);
        }
        if plan.requests_max.is_some() {
            let begin = Instant::now();
            watch(Stage::Window(begin, begin + UNLIMITED));
            return join(handles, shared, watch);
        }
        let ramp_max = ramp_max(plan);
        let ramped = || signals.ramped.load(Ordering::Acquire) == threads;
        while !ramped() && began.elapsed() < ramp_max && !handles.iter().all(|h| h.is_finished()) {
            thread::sleep(Duration::from_millis(1));
            if plan.interrupt.is_set() {
                return join(handles, shared, watch);
            }
        }
        let ramped = Instant::now();
        let begin = match &plan.barrier {
            None => {
                let served = || {
                    let ended = handles.iter().all(|handle| handle.is_finished());
                    match ended || plan.interrupt.is_set() {
                        true => u64::MAX,
                        false => signals.ok.load(Ordering::Relaxed),
                    }
                };
                let (waited, notice) = warm_up(plan, ramped, served);
                warmup = waited + notice;
                let begin = Instant::now() + notice;
                Some(begin)
            }
            Some(barrier) => {
                barrier.set_ramped();
                barrier.wait_begin(&plan.interrupt)
            }
        };
        let Some(begin) = begin else {
            return join(handles, shared, watch);
        };
        let end = begin + plan.duration;
        signals.end.store(clock.at(end), Ordering::Release);
        signals.begin.store(clock.at(begin), Ordering::Release);
        watch(Stage::Window(begin, end));
        join(handles, shared, watch)
    })?;
    Ok(put_together(plan, records, warmup))
}

/// Warms up until the window can be fixed. Returns how long that took, and the time between then and the beginning of the window,
/// in which the load goes on. `served` is the number of successful requests so far.
fn warm_up(plan: &Plan, ramped: Instant, served: impl Fn() -> u64) -> (Duration, Duration) {
    match (plan.warmup_requests, plan.mode) {
        (None, _) => (Duration::ZERO, plan.warmup.max(NOTICE)),
        // Requests are due at a known rate, from when the window is known.
        (Some(count), Mode::Open { rate, .. }) => {
            let seconds = (count as f64 / rate).min(plan.warmup.as_secs_f64());
            (Duration::ZERO, Duration::from_secs_f64(seconds).max(NOTICE))
        }
        (Some(count), Mode::Closed) => {
            while served() < count && ramped.elapsed() + NOTICE < plan.warmup {
                thread::sleep(JOIN_PAUSE);
            }
            (ramped.elapsed(), NOTICE)
        }
    }
}

/// How long opening all connections may take.
fn ramp_max(plan: &Plan) -> Duration {
    let load = (plan.warmup + plan.duration) * RAMP_SHARE_MAX;
    load.clamp(RAMP_MIN, RAMP_MAX)
}

/// Waits for the threads and merges their records.
fn join(
    handles: Vec<thread::ScopedJoinHandle<'_, io::Result<Recorder>>>,
    shared: Shared<'_>,
    watch: &mut dyn FnMut(Stage),
) -> io::Result<Vec<Recorder>> {
    let signals = shared.signals;
    let mut looked = Instant::now();
    while !handles.iter().all(|handle| handle.is_finished()) {
        if shared.plan.interrupt.is_set() {
            signals
                .stop
                .fetch_min(shared.clock.now(), Ordering::Release);
        }
        thread::sleep(JOIN_PAUSE);
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let seen = signals
                .seen
                .lock()
                .map_or_else(|broken| *broken.into_inner(), |seen| *seen);
            watch(Stage::Running(
                signals.ok.load(Ordering::Relaxed),
                Box::new(seen),
            ));
        }
    }
    let joined = handles.into_iter().map(|handle| {
        let panicked = |panic| std::panic::resume_unwind(panic);
        handle.join().unwrap_or_else(panicked)
    });
    joined.collect()
}

/// The share of one thread.
fn share(plan: &Plan, thread: usize, threads: usize) -> Share {
    let upto = |thread: usize| plan.connections * thread / threads;
    Share {
        thread,
        threads,
        connections: upto(thread + 1) - upto(thread),
        connections_before: upto(thread),
        requests: plan.requests_max.map(|all| {
            let upto = |thread: usize| all * thread as u64 / threads as u64;
            upto(thread + 1) - upto(thread)
        }),
    }
}

/// Restricts the calling thread, and the programs it starts, to these CPUs; to all if there are none.
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    Ok(sched_setaffinity(None, &set)?)
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

fn put_together(plan: &Plan, mut records: Vec<Recorder>, warmup: Duration) -> Load {
    let busy = |record: &Recorder| {
        let window = (record.window.end - record.window.begin).max(1);
        record.cpu_ns.saturating_sub(record.spun_ns) as f64 / window as f64
    };
    let busiest = records.iter().map(busy).fold(0.0, f64::max);
    let cpu_ns = records.iter().map(|record| record.cpu_ns).sum();
    let mut load = Load {
        engine: Engine {
            name: "native".into(),
            version: Some(env!("CARGO_PKG_VERSION").into()),
            ..Engine::default()
        },
        asked: plan.asked(),
        interrupted: plan.interrupt.is_set(),
        ..Load::default()
    };
    if plan.requests_max.is_none() {
        // The window never begins at once: the threads have to notice it.
        load.asked.warmup_s = warmup.max(NOTICE).as_secs_f64();
    }
    if records.is_empty() {
        return load;
    }
    let mut all = records.swap_remove(0);
    for record in records {
        all.merge(record);
    }
    all.fill(&mut load, Keepup { cpu_ns, busiest });
    let mix = match &plan.scenario {
        Some(scenario) => {
            scenario.label(&mut load);
            &scenario.mix()
        }
        None => &plan.mix,
    };
    for (part, (name, weight)) in load.parts.iter_mut().zip(&mix.parts) {
        (part.name, part.weight) = (name.clone(), *weight);
    }
    load
}

#[cfg(test)]
mod tests;
