//! The agent's side of servers or upstreams on another machine (`remote`): a stage of the coordinator's experiment, and the
//! servers, the upstreams or both of one cell at a time. They stop when the coordinator says so or is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::agent::{Host, Hosting};
use crate::facts::{facts, missing, stand_ins};
use crate::file::{self, File};
use crate::plan::CellPlan;
use crate::remote::{AllowedPrograms, Ask, Bed, Ended, Prepared, Reply, Role};
use crate::rest;
use crate::stage::{Finish, NoBlock, Serving, Sources, Stage, Upstreams};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::machine;
use sluice_load::result::{CellState, Resources, Rest};
use sluice_load::sample::{self, Roots, Samples};

/// The error of what needs running servers.
const NOT_STARTED: &str = "no servers were started";

/// What starts servers for coordinators: these programs, and nothing else.
pub fn hosting(programs: &[String]) -> Hosting {
    let allowed = AllowedPrograms::new(programs);
    Hosting::new(move |clock, interrupt| {
        Box::new(ServerHost {
            allowed: allowed.clone(),
            clock,
            interrupt,
            bed: None,
        })
    })
}

/// The host of one coordinator.
struct ServerHost {
    allowed: AllowedPrograms,
    /// Origin of the agent's clock.
    clock: Instant,
    interrupt: Interrupt,
    bed: Option<Prepare>,
}

/// An experiment for which this machine is prepared.
struct Prepare {
    // Servers stop before their folder is removed.
    running: Option<Running>,
    stage: Stage,
    file: File,
    cells: Vec<CellPlan>,
    role: Role,
}

/// What runs of a cell.
struct Running {
    part: Part,
    cell: CellPlan,
    sampling: Option<Sampling>,
    work_us: f64,
}

/// The part of a cell that runs here.
enum Part {
    /// The servers, with their upstreams unless these have a machine of their own.
    Servers(Box<Serving>),
    /// The upstreams.
    Upstreams(Upstreams),
}

impl Part {
    /// Its processes.
    fn roots(&self) -> Roots {
        match self {
            Part::Servers(serving) => serving.roots(),
            Part::Upstreams(upstreams) => upstreams.roots(),
        }
    }
}

/// A thread that samples processes.
struct Sampling {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Samples>>,
}

impl Sampling {
    fn end(mut self) -> Option<Samples> {
        self.stop.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Host for ServerHost {
    fn follow(&mut self, order: &str) -> Option<String> {
        let reply = match serde_json::from_str(order) {
            Ok(ask) => self.reply(ask).unwrap_or_else(Reply::Failed),
            Err(error) => Reply::Failed(format!("not a message: {error}")),
        };
        serde_json::to_string(&reply).ok()
    }
}

impl ServerHost {
    fn reply(&mut self, ask: Ask) -> Result<Reply, String> {
        match ask {
            Ask::Prepare(bed) => {
                // The folder of the one before has the same name.
                self.bed = None;
                let prepared = self.prepare(*bed)?;
                Ok(Reply::Prepared(Box::new(prepared)))
            }
            Ask::Rest { cell } => {
                let mut watch = rest::ThisMachine(self.interrupt.clone());
                self.bed()?.rest(&cell, &mut watch).map(Reply::Rested)
            }
            Ask::Start { cell, seed } => self.bed()?.start(&cell, seed).map(Reply::Started),
            Ask::Watch => self.bed()?.watch().map(|()| Reply::Watching),
            Ask::Unwatch {
                window_ns: (begin, end),
            } => {
                let clock = self.clock;
                let at = |ns: u64| clock + Duration::from_nanos(ns);
                let used = self.bed()?.unwatch(at(begin), at(end.max(begin)))?;
                Ok(Reply::Resources(Box::new(used)))
            }
            Ask::Memory => self.bed()?.memory().map(Reply::Memory),
            Ask::Finish { observe } => {
                let ended = self.bed()?.finish(observe)?;
                Ok(Reply::Finished(Box::new(ended)))
            }
        }
    }

    fn bed(&mut self) -> Result<&mut Prepare, String> {
        let bed = self.bed.as_mut();
        bed.ok_or_else(|| "no experiment was prepared".to_string())
    }

    fn prepare(&mut self, bed: Bed) -> Result<Prepared, String> {
        let mut file = file::parse(&bed.name, &bed.text)?;
        file.place.pin = bed.pin;
        file.place.address = bed.address.filter(|_| bed.role.has_servers());
        file.place.upstream_address = bed.upstream_address;
        (file.place.servers, file.place.upstreams) = (None, None);
        file.load.rest.memory = bed.rest;
        file.load.rest.idle = bed.idle_within;
        let known = |cell: &CellPlan| {
            file.test.contains_key(&cell.test) && file.subject.contains_key(&cell.subject)
        };
        if !bed.cells.iter().all(known) {
            return Err("a cell has a test or a subject that is not in the file".into());
        }
        machine::raise_open_files();
        let mut stage = Stage::build(&file, Sources::Sent(bed.texts), bed.seed)?;
        stage.interrupt = self.interrupt.clone();
        stage.allowed = Some(self.allowed.clone());
        stage.take_role(&file, &bed.role)?;
        let mut machine = machine::look();
        machine.placement = stage.placement();
        // This machine generates no load.
        machine.placement.remove("generator");
        let subjects = match bed.role.has_servers() {
            true => facts(&file, &bed.cells, &stage),
            false => Vec::new(),
        };
        if !bed.role.has_servers() {
            machine.placement.remove("subject");
        }
        let prepared = Prepared {
            machine,
            port: stage.port(),
            places: stage.places(),
            trusted: stage.trusted(),
            missing: missing(&file, &bed.cells, &stage, &subjects),
            subjects,
            notes: stand_ins(&file, &stage),
        };
        self.bed = Some(Prepare {
            running: None,
            stage,
            file,
            cells: bed.cells,
            role: bed.role,
        });
        Ok(prepared)
    }
}

impl Prepare {
    /// Waits until a block of a cell may begin; servers that still run end before.
    fn rest(&mut self, id: &str, watch: &mut dyn rest::Watch) -> Result<Option<Rest>, String> {
        self.running = None;
        let needs = rest::Needs::of(&self.file, self.cell(id)?);
        Ok(rest::rest(&needs, watch))
    }

    fn cell(&self, id: &str) -> Result<&CellPlan, String> {
        let mut cells = self.cells.iter();
        let cell = cells.find(|cell| cell.id == id);
        cell.ok_or_else(|| format!("unknown cell {id}"))
    }

    /// Starts this machine's part of a cell; returns the seconds until it responded as expected.
    fn start(&mut self, id: &str, seed: u64) -> Result<f64, String> {
        self.running = None;
        let cell = self.cell(id)?.clone();
        let work_us = machine::work_us();
        let began = Instant::now();
        let (mut part, ready_s) = match self.role {
            Role::Upstreams => {
                let upstreams = self.stage.serve_upstreams(&self.file, &cell)?;
                (Part::Upstreams(upstreams), began.elapsed().as_secs_f64())
            }
            Role::Both | Role::Servers(_) => {
                let serving = self.stage.serve(&self.file, &cell, seed);
                let serving = serving.map_err(reason)?;
                let ready_s = serving.ready_s;
                (Part::Servers(Box::new(serving)), ready_s)
            }
        };
        // What may not be observed here is reported before any load.
        begin(&self.stage, (&self.file, &cell), &mut part)?;
        self.running = Some(Running {
            part,
            cell,
            sampling: None,
            work_us,
        });
        Ok(ready_s)
    }

    /// Notes all counters, and samples from now on.
    fn watch(&mut self) -> Result<(), String> {
        let running = self.running.as_mut().ok_or(NOT_STARTED)?;
        let cell = (&self.file, &running.cell);
        begin(&self.stage, cell, &mut running.part)?;
        running.sampling = Some(sampling(running.part.roots())?);
        Ok(())
    }

    /// Ends the sampling; returns what the servers used in the window.
    fn unwatch(&mut self, begin: Instant, end: Instant) -> Result<Resources, String> {
        let running = self.running.as_mut().ok_or(NOT_STARTED)?;
        let samples = running.sampling.take().and_then(Sampling::end);
        match &mut running.part {
            Part::Servers(serving) => self.stage.loaded(serving),
            Part::Upstreams(upstreams) => {
                let cell = (&self.file, &running.cell);
                self.stage.loaded_upstreams(cell, upstreams);
            }
        }
        let samples = samples.ok_or("nothing was sampled")?;
        Ok(samples.over(begin, end))
    }

    /// The memory of the server now.
    fn memory(&self) -> Result<u64, String> {
        let running = self.running.as_ref().ok_or(NOT_STARTED)?;
        Ok(sample::memory(&running.part.roots().subject))
    }

    /// Stops the servers, after what checks ask for was observed if `observe` says so.
    fn finish(&mut self, observe: bool) -> Result<Ended, String> {
        let Running {
            part,
            cell,
            work_us,
            ..
        } = self.running.take().ok_or(NOT_STARTED)?;
        let finish = match observe {
            true => Finish::Observe,
            false => Finish::Stop,
        };
        let mut ended = match part {
            Part::Servers(serving) => {
                let ended = self.stage.finish((&self.file, &cell), *serving, finish);
                ended.map_err(reason)?
            }
            Part::Upstreams(upstreams) => self.stage.finish_upstreams(upstreams, observe),
        };
        if observe {
            ended.work_us = Some(machine::work_us().max(work_us));
        }
        Ok(ended)
    }
}

/// Notes all counters before a load.
fn begin(stage: &Stage, cell: (&File, &CellPlan), part: &mut Part) -> Result<(), String> {
    match part {
        Part::Servers(serving) => stage.begin(cell, serving),
        Part::Upstreams(upstreams) => stage.begin_upstreams(cell, upstreams),
    }
}

fn sampling(roots: Roots) -> Result<Sampling, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    let thread = thread::Builder::new()
        .name("sampling".into())
        .spawn(move || sample::watch(&roots, &stops));
    Ok(Sampling {
        stop,
        thread: Some(thread.map_err(|error| error.to_string())?),
    })
}

fn reason(why: NoBlock) -> String {
    match why {
        NoBlock::Cell(CellState::DidNotStart(reason)) | NoBlock::Agents(reason) => reason,
        NoBlock::Cell(CellState::NotInstalled(reason) | CellState::Skipped(reason)) => reason,
        NoBlock::Cell(CellState::Pending | CellState::Measured) => "not measured".into(),
    }
}
