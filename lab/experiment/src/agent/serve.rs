//! The agent's side: one coordinator at a time, one load after the other.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::channel::{Peer, Sender, receive};
use super::host::{Cut, Hosted, Hosting};
use super::message::{Order, Report, VERSION};
use super::task::Task;
use super::token::{Side, Token, nonce};
use crate::folder::Folder;
use crate::limits::{
    ALIVE_INTERVAL, BEGIN_MAX, COORDINATOR_NOTICE_MAX, GREETING_TIMEOUT, GREETINGS_MAX,
    NOTICED_MIN, SERVERS_END_MAX,
};
use sluice_load::generator::barrier::Barrier;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::seen::Seen;
use sluice_load::generator::target::Reach;
use sluice_load::generator::{self, Stage};
use sluice_load::machine;

/// What an agent does for coordinators.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The token that they have to know; `None` on standard input and output.
    pub token: Option<Token>,
    /// The hosts that it may load.
    pub reach: Reach,
    /// What starts servers on this machine; `None` if nothing may be started.
    pub hosting: Option<Hosting>,
    /// A coordinator of servers that is silent for longer is gone.
    pub silence_max: Duration,
}

/// The refusal of servers.
const NO_HOST: &str =
    "it starts no servers; start it with --allow-run PROGRAM for each program of the experiment";

/// The refusal of both at once: they would disturb each other.
const LOADS: &str = "it cannot run servers and generate load for one coordinator; use two agents";

/// State of an agent.
struct Agent {
    rules: Rules,
    /// The origin of the clock that it reports.
    began: Instant,
    /// What it does now.
    work: Mutex<Work>,
    /// Wakes those who wait for the end of another one's work.
    worked: Condvar,
    /// Connections that have not proved anything yet.
    greetings: AtomicUsize,
}

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Nothing.
    Free,
    /// It serves a coordinator.
    Serves,
    /// Its coordinator is gone, and its servers are being stopped.
    Ends,
}

impl Agent {
    fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Agent {
            rules,
            began: Instant::now(),
            work: Mutex::new(Work::Free),
            worked: Condvar::new(),
            greetings: AtomicUsize::new(0),
        })
    }

    /// Begins to serve a coordinator, unless another one is served. The work of one that has just gone is waited for.
    fn begin_work(&self) -> bool {
        let begin = Instant::now();
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let wait = match *work {
                Work::Free => {
                    *work = Work::Serves;
                    return true;
                }
                // Its connection may have ended, and that not been noticed yet.
                Work::Serves => COORDINATOR_NOTICE_MAX,
                Work::Ends => SERVERS_END_MAX,
            };
            let left = wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.worked.wait_timeout(work, left);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn set_work(&self, now: Work) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.worked.notify_all();
    }

    fn clock_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// Serves coordinators over TCP until the process ends. `log` gets a line for each event.
pub fn serve(listener: &TcpListener, rules: Rules, log: fn(&str)) -> io::Result<()> {
    let agent = Agent::new(rules);
    loop {
        let (stream, from) = listener.accept()?;
        if agent.greetings.fetch_add(1, Ordering::AcqRel) >= GREETINGS_MAX {
            agent.greetings.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let agent = agent.clone();
        thread::Builder::new()
            .name("coordinator".into())
            .spawn(move || {
                let ended = connection(&agent, stream);
                log(&match ended {
                    Ok(()) => format!("{from}: done"),
                    Err(error) => format!("{from}: {error}"),
                });
            })?;
    }
}

/// Reads until a moment, however slowly bytes arrive.
struct Until<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buf)
    }
}

/// A connection whose coordinator knows the token.
fn greeted(agent: &Agent, stream: &TcpStream) -> io::Result<(TcpStream, Arc<Sender>)> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(GREETING_TIMEOUT))?;
    let sender = Arc::new(Sender::new(stream.try_clone()?));
    let end = Instant::now() + GREETING_TIMEOUT;
    greet(agent, &mut Until { stream, end }, &sender)?;
    stream.set_read_timeout(None)?;
    Ok((stream.try_clone()?, sender))
}

/// Serves one TCP connection.
fn connection(agent: &Agent, stream: TcpStream) -> io::Result<()> {
    let greeted = greeted(agent, &stream);
    agent.greetings.fetch_sub(1, Ordering::AcqRel);
    let (mut reader, sender) = greeted?;
    if !agent.begin_work() {
        let reason = "the agent works for another coordinator".to_string();
        return sender.send(&Report::Refused { reason });
    }
    let ends = Arc::new(stream);
    let cut: Cut = Arc::new(move || {
        let _ = ends.shutdown(Shutdown::Both);
    });
    let mut hosted = None;
    let served = orders(agent, &mut reader, (&sender, &cut), &mut hosted);
    agent.set_work(Work::Ends);
    drop(hosted);
    agent.set_work(Work::Free);
    served
}

/// Serves a coordinator on standard input and output, which somebody else has authenticated.
pub fn serve_stdio(rules: Rules) -> io::Result<()> {
    let agent = Agent::new(rules);
    let sender = Arc::new(Sender::new(io::stdout()));
    let mut reader = io::stdin();
    greet(&agent, &mut reader, &sender)?;
    // Standard input cannot be closed while it is being read. Servers end with the process.
    let cut: Cut = Arc::new(|| std::process::exit(1));
    orders(&agent, &mut reader, (&sender, &cut), &mut None)
}

/// Both sides prove that they know the token.
fn greet(agent: &Agent, reader: &mut impl Read, sender: &Sender) -> io::Result<()> {
    let cpu_model = machine::look().cpu_model;
    let Some(token) = &agent.rules.token else {
        sender.send(&Report::Hello {
            version: VERSION,
            nonce: None,
        })?;
        return sender.send(&Report::Welcome {
            proof: None,
            cpu_model,
            network: machine::network(),
        });
    };
    let mine = nonce().map_err(io::Error::other)?;
    sender.send(&Report::Hello {
        version: VERSION,
        nonce: Some(mine.clone()),
    })?;
    let order: Order = receive(reader, Peer::Unknown)?;
    let Order::Prove { nonce, proof } = order else {
        return Err(io::Error::other("an order before the proof of the token"));
    };
    if !token.accepts(&proof, Side::Coordinator, &mine, &nonce) {
        let reason = "the token is wrong".to_string();
        sender.send(&Report::Refused { reason })?;
        return Err(io::Error::other("a coordinator with a wrong token"));
    }
    let proof = token.prove(Side::Agent, &mine, &nonce);
    sender.send(&Report::Welcome {
        proof: Some(proof),
        cpu_model,
        network: machine::network(),
    })
}

/// A load in progress.
struct Running {
    interrupt: Interrupt,
    barrier: Arc<Barrier>,
    /// Whether its figures are being sent, or were.
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.interrupt.set();
    }
}

/// Follows orders until the coordinator closes the connection, which also ends a load. `cut` ends the connection from this
/// side. Servers stop when `hosted` is dropped.
fn orders(
    agent: &Agent,
    reader: &mut impl Read,
    (sender, cut): (&Arc<Sender>, &Cut),
    hosted: &mut Option<Hosted>,
) -> io::Result<()> {
    let mut running: Option<Running> = None;
    let refuse = |reason: String| sender.send(&Report::Refused { reason });
    loop {
        let order = match receive(reader, Peer::Known) {
            Ok(order) => order,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(hosted) = hosted.as_ref() {
            hosted.heard();
        }
        match order {
            Order::Ping => {
                let clock_ns = agent.clock_ns();
                let unix = SystemTime::now().duration_since(UNIX_EPOCH);
                let unix_ns = unix.unwrap_or_default().as_nanos() as u64;
                sender.send(&Report::Time { clock_ns, unix_ns })?;
            }
            Order::Alive => {}
            Order::Host(order) => {
                if running.is_some() {
                    return refuse(LOADS.to_string());
                }
                let followed =
                    hosted_by(agent, hosted, (sender, cut)).and_then(|hosted| hosted.follow(order));
                if let Err(reason) = followed {
                    return refuse(reason);
                }
            }
            Order::Prepare(_) if hosted.is_some() => return refuse(LOADS.to_string()),
            Order::Prepare(task) => {
                if let Some(mut before) = running.take() {
                    if !before.is_over.load(Ordering::Acquire) {
                        let reason = "the agent is busy with the previous load".to_string();
                        return sender.send(&Report::Refused { reason });
                    }
                    if let Some(thread) = before.thread.take() {
                        let _ = thread.join();
                    }
                }
                match prepare(agent, *task, sender) {
                    Ok(begun) => running = Some(begun),
                    Err(reason) => return sender.send(&Report::Refused { reason }),
                }
            }
            Order::Begin { at_ns } => {
                let at = agent.began + Duration::from_nanos(at_ns);
                if let Some(running) = &running {
                    if at < Instant::now() {
                        let late = at.elapsed().as_secs_f64() * 1e3;
                        let reason = format!("the order to begin arrived {late:.0} ms late");
                        return sender.send(&Report::Refused { reason });
                    }
                    running.barrier.begin_at(at);
                }
            }
            Order::Stop => {
                if let Some(running) = &running {
                    running.interrupt.set();
                }
            }
            Order::Prove { .. } => return Err(io::Error::other("a proof that nobody asked for")),
        }
    }
}

/// What starts servers for the coordinator. The error is the reason why nothing does.
fn hosted_by<'a>(
    agent: &Agent,
    hosted: &'a mut Option<Hosted>,
    by: (&Arc<Sender>, &Cut),
) -> Result<&'a Hosted, String> {
    let hosting = agent.rules.hosting.as_ref().ok_or(NO_HOST)?;
    match hosted {
        Some(hosted) => Ok(hosted),
        None => {
            let silence_max = agent.rules.silence_max;
            let started = Hosted::start(hosting, agent.began, by, silence_max);
            Ok(hosted.insert(started.map_err(|error| error.to_string())?))
        }
    }
}

/// Starts a load on threads of its own: it opens its connections and waits for the order to begin.
fn prepare(agent: &Agent, task: Task, sender: &Arc<Sender>) -> Result<Running, String> {
    let folder = Folder::make()?;
    let (interrupt, barrier) = (Interrupt::default(), Arc::new(Barrier::default()));
    let plan = task.plan(
        agent.rules.reach,
        &folder,
        interrupt.clone(),
        barrier.clone(),
    )?;
    let open_files = machine::raise_open_files();
    if plan.connections as u64 + 64 > open_files {
        return Err(format!(
            "{} connections need more than the {open_files} open files allowed there",
            plan.connections
        ));
    }
    let sender = sender.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let work = {
        let (barrier, interrupt, is_over) = (barrier.clone(), interrupt.clone(), is_over.clone());
        move || {
            let seen = Mutex::new((0, Seen::default()));
            thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait_ramped();
                    // If the coordinator is lost, its connection ends as well.
                    let _ = sender.send(&Report::Ramped);
                });
                scope.spawn(|| alive(&sender, &seen, &is_over, (&interrupt, &barrier)));
                let mut late = None;
                let load = generator::run(&plan, &mut |stage| match stage {
                    Stage::Running(ok, now) => {
                        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        *seen = (ok, *now);
                    }
                    Stage::Window(begin, _) => {
                        late = noticed_late(begin, Instant::now());
                        if late.is_some() {
                            interrupt.set();
                        }
                    }
                    Stage::Alone | Stage::Held => {}
                });
                is_over.store(true, Ordering::Release);
                barrier.set_ramped();
                let load = load.map_err(|error| format!("the load generator failed: {error}"));
                let _ = match late.map_or(load, Err) {
                    Ok(load) => sender.send(&Report::Done {
                        load: Box::new(load),
                        cpus: plan.threads,
                    }),
                    Err(reason) => sender.send(&Report::Refused { reason }),
                };
            });
            drop(folder);
        }
    };
    let thread = thread::Builder::new().name("load".into()).spawn(work);
    Ok(Running {
        interrupt,
        barrier,
        is_over,
        thread: Some(thread.map_err(|error| error.to_string())?),
    })
}

/// Why a load has no figures whose generator noticed so late when its window begins: some of its threads would begin after it, and
/// nobody would see that the load was a smaller one.
fn noticed_late(begin: Instant, now: Instant) -> Option<String> {
    let left = begin.saturating_duration_since(now);
    (left < NOTICED_MIN).then(|| {
        format!(
            "its load generator noticed {} ms before the window that it begins, so it would have begun late: the machine is too busy",
            left.as_millis()
        )
    })
}

/// Reports that the agent is alive, until the load is over. A load whose beginning is never ordered ends.
fn alive(
    sender: &Sender,
    seen: &Mutex<(u64, Seen)>,
    is_over: &AtomicBool,
    (interrupt, barrier): (&Interrupt, &Barrier),
) {
    let began = Instant::now();
    while !is_over.load(Ordering::Acquire) {
        let (ok, sums) = *seen.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sender.send(&Report::Alive {
            ok,
            heat: sums.heat.to_vec(),
            failed: sums.failed.to_vec(),
        });
        if sent.is_err() || (!barrier.has_begin() && began.elapsed() > BEGIN_MAX) {
            interrupt.set();
            return;
        }
        thread::sleep(ALIVE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_noticed_late_has_no_figures() {
        let now = Instant::now();
        assert_eq!(noticed_late(now + NOTICED_MIN, now), None);
        let just = noticed_late(now + NOTICED_MIN / 2, now).unwrap();
        assert!(just.contains("noticed 100 ms before the window"), "{just}");
        // Also if it has begun.
        let gone = noticed_late(now, now + NOTICED_MIN).unwrap();
        assert!(gone.contains("noticed 0 ms before the window"), "{gone}");
    }
}
