//! A load of one target as a result, and the target's memory during the load.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_load::generator::probe::sha256;
use sluice_load::generator::target::{Address, Target};
use sluice_load::generator::trust::TlsOptions;
use sluice_load::generator::{self, Plan, Stage};
use sluice_load::machine;
use sluice_load::result::{
    Block, Cell, CellState, FailureClass, Load, Mode, Resources, RunResult, SCHEMA,
};
use sluice_load::sample::{self, Roots, owner};

use crate::adapter::{self, Task, Tool};
use crate::agent::{Divided, Fleet};
use crate::marks;
use crate::progress::Progress;
use crate::remote::RemoteServers;

/// The live view of a single load. The server's processes are shown if they are known.
pub fn view(plan: &Plan, live: &mut dyn Progress, behind: Duration) {
    let name = match plan.mode {
        Mode::Closed => format!("{}, {} connections", plan.target.url, plan.connections),
        Mode::Open { rate, .. } => {
            let rate = sluice_load::quantity::thousands(rate);
            format!("{}, {rate}/s due", plan.target.url)
        }
    };
    let warmup = match plan.warmup_requests {
        Some(_) => Duration::ZERO,
        None => plan.warmup,
    };
    live.begin(&name, warmup + plan.duration, behind);
    live.watch(&Roots {
        subject: server(&plan.target),
        ..Roots::default()
    });
}

/// Who generates a load.
pub enum Driver<'a> {
    /// This process.
    Here,
    /// Agents.
    Agents {
        /// The connected agents.
        fleet: &'a mut Fleet,
        /// What the TLS of the load was made from.
        tls: TlsOptions,
        /// Threads of each agent; by default half of its CPUs.
        threads: Option<usize>,
    },
}

impl Driver<'_> {
    /// Runs a load while sampling processes. Agents that run here are sampled as part of the generator.
    pub(crate) fn sampled(
        &mut self,
        plan: &Plan,
        watch: Watch<'_>,
        live: &mut dyn Progress,
    ) -> io::Result<Sampled> {
        match self {
            Driver::Here => load_and_watch(plan, watch, live),
            Driver::Agents {
                fleet,
                tls,
                threads,
            } => {
                let threads = *threads;
                fleet_and_watch(fleet, &Divided { plan, tls, threads }, watch, live)
            }
        }
    }

    /// Why this load cannot be generated, if it cannot.
    pub(crate) fn refusal(&self, plan: &Plan) -> Option<String> {
        match self {
            Driver::Here => None,
            Driver::Agents { fleet, .. } => fleet.refusal(plan),
        }
    }

    /// Whether an agent was lost, so that no further load is possible.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Driver::Here => false,
            Driver::Agents { fleet, .. } => fleet.is_broken(),
        }
    }
}

/// Runs a load once, as block `number` of its cell: with the costs of the server if it runs on this machine.
pub fn block(
    driver: &mut Driver<'_>,
    plan: &Plan,
    number: usize,
    live: &mut dyn Progress,
) -> io::Result<Block> {
    let watch = Watch::here(Roots {
        subject: server(&plan.target),
        ..Roots::default()
    });
    let mut block = block_of(driver, plan, watch, number, live)?;
    block.marks = marks::marks(&without_foreign(&block), None);
    Ok(block)
}

/// The same with the costs of these servers.
pub(crate) fn block_of(
    driver: &mut Driver<'_>,
    plan: &Plan,
    watch: Watch<'_>,
    number: usize,
    live: &mut dyn Progress,
) -> io::Result<Block> {
    let started = SystemTime::now();
    let known = watch.has_server();
    let (load, resources) = driver.sampled(plan, watch, live)?;
    let mut block = Block {
        number,
        position: number,
        started_unix_ms: unix_ms(started),
        load,
        resources: known.then_some(resources),
        ..Block::default()
    };
    block.marks = marks::marks(&block, None);
    Ok(block)
}

/// Without the CPU time of other processes: the target's own upstreams may be among them, so it does not show that
/// anything interfered.
fn without_foreign(block: &Block) -> Block {
    let mut block = block.clone();
    if let Some(resources) = &mut block.resources {
        resources.system.foreign = 0.0;
    }
    block
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// What to sample during a load.
#[derive(Clone)]
pub(crate) struct Watch<'a> {
    /// Processes on this machine.
    pub roots: Roots,
    /// The machine of the servers, if it is not this one.
    pub remote: Option<&'a RemoteServers>,
    /// The machine of their upstreams, if it is neither of these.
    pub upstreams: Option<&'a RemoteServers>,
}

impl<'a> Watch<'a> {
    /// Processes on this machine.
    fn here(roots: Roots) -> Self {
        Watch {
            roots,
            remote: None,
            upstreams: None,
        }
    }

    /// The agents of servers and upstreams.
    pub fn agents(&self) -> impl Iterator<Item = &'a RemoteServers> + use<'a> {
        self.remote.into_iter().chain(self.upstreams)
    }

    /// Whether there is a server to sample.
    fn has_server(&self) -> bool {
        self.remote.is_some() || !self.roots.subject.is_empty()
    }
}

/// A load with what processes used in its window.
pub(crate) type Sampled = (Load, Resources);

/// Runs a load while sampling processes.
pub(crate) fn load_and_watch(
    plan: &Plan,
    watch: Watch<'_>,
    live: &mut dyn Progress,
) -> io::Result<Sampled> {
    sampled(&watch, live, |look| generator::run(plan, look))
}

/// The same with agents, of which those that run here are sampled as part of the generator.
fn fleet_and_watch(
    fleet: &mut Fleet,
    task: &Divided<'_>,
    watch: Watch<'_>,
    live: &mut dyn Progress,
) -> io::Result<Sampled> {
    let mut watch = watch;
    watch.roots.generator = fleet.processes();
    sampled(&watch, live, |look| fleet.run(task, look))
}

/// The same with an external load generator, on the CPUs of the plan.
pub(crate) fn tool_and_watch(
    tool: Tool,
    plan: &Plan,
    task: &Task,
    watch: Watch<'_>,
    live: &mut dyn Progress,
) -> io::Result<Sampled> {
    sampled(&watch, live, |look| {
        let ran = |task: &Task| -> io::Result<Load> {
            // A program inherits the CPUs of the thread that starts it.
            thread::scope(|scope| {
                let work = scope.spawn(|| {
                    generator::confine(&plan.cpus)?;
                    adapter::run(tool, task).map_err(io::Error::other)
                });
                let joined = work.join();
                joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        };
        let mut measured = task.clone();
        if !tool.warms_up() && !plan.warmup.is_zero() {
            // A run that is discarded, so that the samples are those of the window.
            measured.asked.warmup_s = 0.0;
            let mut warmup = measured.clone();
            warmup.asked.duration_s = plan.warmup.as_secs_f64();
            ran(&warmup)?;
        }
        let begin = Instant::now() + Duration::from_secs_f64(measured.asked.warmup_s.ceil());
        look(Stage::Window(begin, begin + plan.duration));
        let mut load = ran(&measured)?;
        load.asked.warmup_s = task.asked.warmup_s;
        Ok(load)
    })
}

/// Samples processes while `drive` runs a load.
fn sampled(
    watch: &Watch<'_>,
    live: &mut dyn Progress,
    drive: impl FnOnce(&mut dyn FnMut(Stage)) -> io::Result<Load>,
) -> io::Result<Sampled> {
    let stop = AtomicBool::new(false);
    let roots = &watch.roots;
    live.watch(roots);
    for agent in watch.agents() {
        agent.watch()?;
    }
    thread::scope(|scope| {
        let watching = scope.spawn(|| sample::watch(roots, &stop));
        // Set even if the load panics: the scope would otherwise wait for ever.
        let ending = Ending(&stop);
        let now = Instant::now();
        let mut window = (now, now);
        let mut memory = Memory::of_servers(watch);
        let load = drive(&mut |stage| {
            if let Stage::Window(begin, end) = stage {
                window = (begin, end);
            }
            memory.look(&stage);
            live.look(&stage);
        });
        drop(ending);
        let samples = watching
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut load = load?;
        memory.put(&mut load);
        // An interrupted window ends early, and one of a number of requests when these are done.
        window.1 = window
            .1
            .min(window.0 + Duration::from_secs_f64(load.window_s));
        let here = samples.over(window.0, window.1);
        let resources = match watch.remote {
            None => here,
            // The generator of the other machine is its agent.
            Some(remote) => Resources {
                generator: here.generator,
                ..remote.unwatch(window)?
            },
        };
        let Some(upstreams) = watch.upstreams else {
            return Ok((load, resources));
        };
        let behind = upstreams.unwatch(window)?;
        let resources = Resources {
            backend: behind.backend,
            backend_system: Some(behind.system),
            ..resources
        };
        Ok((load, resources))
    })
}

/// Stops the sampling on drop.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The target's processes, if it runs on this machine.
fn server(target: &Target) -> Vec<u32> {
    match &target.address {
        Address::Tcp(address) if address.ip().is_loopback() => owner::listeners(address.port()),
        Address::Tcp(_) | Address::Unix(_) => Vec::new(),
    }
}

/// The server's memory before and with the held connections.
pub struct Memory<'a> {
    roots: Vec<u32>,
    remote: Option<&'a RemoteServers>,
    without: Option<u64>,
    with: Option<u64>,
}

impl<'a> Memory<'a> {
    /// Of these servers with all their children; if there are none, memory is unknown.
    fn of_servers(watch: &Watch<'a>) -> Self {
        Memory {
            roots: watch.roots.subject.clone(),
            remote: watch.remote,
            without: None,
            with: None,
        }
    }

    /// Takes a reading at the right stages.
    pub fn look(&mut self, stage: &Stage) {
        let rss = || match self.remote {
            Some(remote) => remote.memory(),
            None if self.roots.is_empty() => None,
            None => Some(sample::memory(&self.roots)),
        };
        match stage {
            Stage::Alone => self.without = rss(),
            Stage::Held => self.with = rss(),
            Stage::Window(..) | Stage::Running(..) => {}
        }
    }

    /// Writes the readings into the result.
    pub fn put(&self, load: &mut Load) {
        if let Some(held) = &mut load.held {
            (held.rss_without_bytes, held.rss_with_bytes) = (self.without, self.with);
        }
    }
}

/// The cell of a target: `subject` and `test` name it in reports.
pub fn cell(plan: &Plan, subject: &str, test: &str, blocks: Vec<Block>) -> Cell {
    let mut axes = vec![
        ("subject", subject.to_string()),
        ("test", test.to_string()),
        ("clients", plan.connections.to_string()),
    ];
    if let Mode::Open { rate, .. } = plan.mode {
        axes.push(("rate", format!("{rate:.0}")));
    }
    let axes = axes.into_iter();
    Cell {
        id: sha256(plan.target.url.as_bytes())[..12].into(),
        axes: axes
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
        state: CellState::Measured,
        blocks,
        ..Cell::default()
    }
}

/// A result of these cells.
pub fn of_cells(cells: Vec<Cell>, plan: &Plan, started: SystemTime, took: Duration) -> RunResult {
    let loads = || {
        cells
            .iter()
            .flat_map(|cell| &cell.blocks)
            .map(|block| &block.load)
    };
    let ours = FailureClass::ALL
        .into_iter()
        .filter(|class| class.is_ours());
    let mut ours = ours.filter(|class| loads().any(|load| load.failed_in(*class) > 0));
    let mut notes = Vec::new();
    if ours.next().is_some() {
        notes.push("the generator ran out of ports or file descriptors".to_string());
    }
    if loads().any(|load| load.interrupted) {
        notes.push(
            "the measurement was interrupted: its last window is shorter than requested".into(),
        );
    }
    RunResult {
        schema: SCHEMA.into(),
        name: "hit".into(),
        title: plan.target.url.clone(),
        command: std::env::args().collect(),
        started_unix_ms: unix_ms(started),
        duration_s: took.as_secs_f64(),
        seed: plan.seed,
        machine: machine::look(),
        cells,
        notes,
        ..RunResult::default()
    }
}
