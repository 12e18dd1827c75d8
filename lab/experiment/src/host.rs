//! The agent's side of servers on another machine (`remote`): a stage of the coordinator's experiment, and the servers of
//! one cell at a time. They stop when the coordinator says so or is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::agent::{Host, Hosting};
use crate::facts::{facts, missing, stand_ins};
use crate::file::{self, File};
use crate::plan::CellPlan;
use crate::remote::{Allowed, Ask, Bed, Ended, Prepared, Reply};
use crate::rest;
use crate::stage::{Finish, NoBlock, Serving, Sources, Stage};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::machine;
use sluice_load::result::{CellState, Resources, Rest};
use sluice_load::sample::{self, Samples};

/// The error of what needs running servers.
const NOT_STARTED: &str = "no servers were started";

/// What starts servers for coordinators: these programs, and nothing else.
pub fn hosting(programs: &[String]) -> Hosting {
    let allowed = Allowed::new(programs);
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
    allowed: Allowed,
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
}

/// The servers of a cell.
struct Running {
    serving: Serving,
    cell: CellPlan,
    sampling: Option<Sampling>,
    work_us: f64,
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
        file.place.address = bed.address;
        file.place.servers = None;
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
        let subjects = facts(&file, &bed.cells, &stage);
        let mut machine = machine::look();
        machine.placement = stage.placement();
        // This machine generates no load.
        machine.placement.remove("generator");
        let prepared = Prepared {
            machine,
            port: stage.port(),
            trusted: stage.trusted(),
            missing: missing(&file, &bed.cells, &stage, &subjects),
            subjects,
            notes: stand_ins(&file),
        };
        self.bed = Some(Prepare {
            running: None,
            stage,
            file,
            cells: bed.cells,
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

    /// Starts the servers of a cell; returns the seconds until they responded as expected.
    fn start(&mut self, id: &str, seed: u64) -> Result<f64, String> {
        self.running = None;
        let cell = self.cell(id)?.clone();
        let work_us = machine::work_us();
        let serving = self.stage.serve(&self.file, &cell, seed);
        let mut serving = serving.map_err(reason)?;
        // What may not be observed here is reported before any load.
        self.stage.begin((&self.file, &cell), &mut serving)?;
        let ready_s = serving.ready_s;
        self.running = Some(Running {
            serving,
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
        self.stage.begin(cell, &mut running.serving)?;
        running.sampling = Some(sampling(&running.serving)?);
        Ok(())
    }

    /// Ends the sampling; returns what the servers used in the window.
    fn unwatch(&mut self, begin: Instant, end: Instant) -> Result<Resources, String> {
        let running = self.running.as_mut().ok_or(NOT_STARTED)?;
        self.stage.loaded(&mut running.serving);
        let samples = running.sampling.take().and_then(Sampling::end);
        let samples = samples.ok_or("nothing was sampled")?;
        Ok(samples.over(begin, end))
    }

    /// The memory of the server now.
    fn memory(&self) -> Result<u64, String> {
        let running = self.running.as_ref().ok_or(NOT_STARTED)?;
        Ok(sample::memory(&running.serving.roots().subject))
    }

    /// Stops the servers, after what checks ask for was observed if `observe` says so.
    fn finish(&mut self, observe: bool) -> Result<Ended, String> {
        let Running {
            serving,
            cell,
            work_us,
            ..
        } = self.running.take().ok_or(NOT_STARTED)?;
        let finish = match observe {
            true => Finish::Observe,
            false => Finish::Stop,
        };
        let ended = self.stage.finish((&self.file, &cell), serving, finish);
        let mut ended = ended.map_err(reason)?;
        if observe {
            ended.work_us = Some(machine::work_us().max(work_us));
        }
        Ok(ended)
    }
}

fn sampling(serving: &Serving) -> Result<Sampling, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let (roots, stops) = (serving.roots(), stop.clone());
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
