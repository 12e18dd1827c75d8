//! Runs an experiment: what is installed, in which order, the estimated time, the results. Its cells are also the targets
//! of the searches of `overload` (`search`). What the command line changes is in `changes`, agents that generate the load in
//! `generators`, the machines of servers and upstreams in `machines`.

mod budget;
mod changes;
mod generators;
mod layout;
mod machines;
mod rate_limits;
mod search;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::adapter::Tool;
use crate::agent::AgentSpec;
use crate::builtin;
use crate::cell_filter::Only;
use crate::file::{self, File, Order, Pin};
use crate::marks;
use crate::plan::{self, CellPlan, Step};
use crate::progress::Progress;
use crate::rest;
use crate::stage::{NoBlock, Stage};
use sluice_audit::finding::resolved;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::warmup::Warmup;
use sluice_load::machine;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::process;
use sluice_load::quantity::{thousands, time};
use sluice_load::result::{
    Block, Cell, CellState, FailedStart, Mark, MarkKind, Rest, RunResult, SCHEMA, Try,
};

use budget::Windows;
use changes::{change, experiment};
use generators::Generators;
use rate_limits::NoLimits;

/// Estimated time of a block beyond warm-up and window: starting and stopping servers, and, at a server's limit,
/// connecting and waiting for the last responses.
const AROUND_S: f64 = 0.4;
const CLIENT_S: f64 = 0.000_3;

/// Descriptors of one process in addition to connections.
const SPARE_FILES: u64 = 200;

/// At most one block in this many is measured again because of interference: on a machine that is never quiet, a run of
/// an hour would otherwise take three.
const AGAIN_ONE_IN: usize = 4;

pub use search::search;

/// Options of `lab run`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A built-in experiment (000) or a file
    pub experiment: String,
    /// Take minutes rather than hours: 5 blocks of 1.5 s at 3 levels, or at those that the file names for it
    pub quick: bool,
    /// Measure only these cells: 'subject=sluice*,nginx; clients<=1000'
    pub only: String,
    /// Number of blocks, overriding the file
    pub repeats: Option<usize>,
    /// Length of the window, overriding the file
    pub duration: Option<Duration>,
    /// Warm-up before the window, overriding the file
    pub warmup: Option<Warmup>,
    /// How long to wait at most before each block until the machine is idle, overriding the file
    pub rest: Option<Duration>,
    /// Connections, overriding the file: 10,200
    pub clients: Option<Vec<usize>>,
    /// Runs fewer blocks and shortens windows if all would take longer than this
    pub budget: Option<Duration>,
    /// External load generators, each beside the lab's own
    pub engines: Vec<Tool>,
    /// Order within a block
    pub order: Option<Order>,
    /// Whether the server and the load generator have separate CPUs
    pub pin: Option<Pin>,
    /// Agents that generate the load, overriding the file
    pub agents: Vec<AgentSpec>,
    /// The agent of the machine on which the servers run, overriding the file
    pub servers: Option<AgentSpec>,
    /// File with the token of the agents
    pub token_file: Option<PathBuf>,
    /// Address of this machine at which agents reach the servers, overriding the file
    pub address: Option<IpAddr>,
    /// The agent of the machine on which the upstreams run, overriding the file
    pub upstreams: Option<AgentSpec>,
    /// Address of that machine at which the servers reach the upstreams, overriding the file
    pub upstream_address: Option<IpAddr>,
    /// Seed of everything random
    pub seed: u64,
    /// Output folder; by default lab-results/NAME
    pub out: Option<PathBuf>,
    /// Continues an existing result, as far as its cells are the same
    pub resume: bool,
    /// Prints the plan without measuring anything
    pub plan: bool,
    /// Keep the folder of configurations and logs
    pub keep: bool,
    /// Starts every server once and verifies its responses, without load; exits with 1 if one is wrong
    pub check: bool,
    /// Ends the run early
    pub interrupt: Interrupt,
}

/// Runs `lab run`.
pub fn run(options: &Options, live: &mut dyn Progress) -> Outcome {
    let mut run = prepare(options)?;
    let path = run.out.join("result.json");
    if !options.resume && !options.plan && !options.check && path.exists() {
        return Err(Refused::new(format!(
            "{} already exists; use --resume to continue it, or --out NAME",
            path.display()
        )));
    }
    if options.check {
        return run.check(&options.experiment, live);
    }
    run.refuse_agents(&options.experiment)?;
    run.show_plan(live);
    if options.plan {
        return Ok(Completion::Yes);
    }
    run.walk(&options.experiment, live)
}

/// Reads the experiment and selects its cells.
fn prepare(options: &Options) -> Result<Walk, Refused> {
    let name = &options.experiment;
    let text = builtin::read(name).map_err(Refused::new)?;
    let mut file = file::parse(name, &text).map_err(Refused::new)?;
    let mut changes = change(&mut file, options);
    machines::check(name, &text, &file)?;
    file.load_scenarios(name).map_err(Refused::new)?;
    let of_tests = file.test.values().filter_map(|test| test.clients.as_ref());
    if of_tests
        .chain([&file.matrix.clients])
        .flatten()
        .any(|count| *count == 0)
    {
        return Err(Refused::new("`clients` must be at least 1"));
    }
    let open_files = machine::raise_open_files();
    let clients_max = (open_files.saturating_sub(SPARE_FILES) / 2) as usize;
    let only = Only::parse(&options.only).map_err(Refused::new)?;
    let all = plan::cells(&file, &Only::default(), clients_max);
    let axes: Vec<_> = all.iter().map(|cell| &cell.axes).collect();
    if let Some(text) = only.unknown_axis(&axes) {
        return Err(Refused::new(text));
    }
    if let Some(budget) = options.budget {
        let block_s = |file: &File| -> f64 {
            let cells = plan::cells(file, &only, clients_max);
            let measured = cells.iter().filter(|cell| cell.skipped.is_none());
            measured.map(|cell| step_s(file, cell)).sum()
        };
        let cells = plan::cells(&file, &only, clients_max);
        let limits = rate_limits::needed(&file, &cells).len() as f64;
        let search = Duration::from_secs_f64(limits * rate_limits::search_s(&file));
        let budget = budget.saturating_sub(search);
        let windows = match options.duration {
            Some(_) => Windows::Fixed,
            None => Windows::Flexible,
        };
        changes.extend(budget::fit(&mut file, budget, windows, block_s));
    }
    let cells = plan::cells(&file, &only, clients_max);
    if cells.is_empty() {
        return Err(Refused::new("no cells left: `--only` excludes all of them"));
    }
    Walk::new(options, file, text, changes, cells)
}

/// The state of a run.
struct Walk {
    file: File,
    /// The cells that lack a program, by ID, with the reason.
    missing: BTreeMap<String, String>,
    cells: Vec<CellPlan>,
    steps: Vec<Step>,
    result: RunResult,
    out: PathBuf,
    keep: bool,
    seed: u64,
    interrupt: Interrupt,
    generators: Generators,
    /// Blocks measured again.
    again: usize,
    /// Limits that could not be found.
    no_limits: NoLimits,
}

impl Walk {
    fn new(
        options: &Options,
        file: File,
        text: String,
        changes: Vec<String>,
        cells: Vec<CellPlan>,
    ) -> Result<Self, Refused> {
        let steps = plan::order(&cells, file.repeat.blocks, file.repeat.order, options.seed);
        let out = options.out.clone();
        let out = out.unwrap_or_else(|| Path::new("lab-results").join(&file.name));
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut result = RunResult {
            schema: SCHEMA.into(),
            name: file.name.clone(),
            title: file.title.clone(),
            command: typed(),
            started_unix_ms: started.as_millis() as u64,
            seed: options.seed,
            machine: machine::look(),
            experiment: Some(experiment(&file, &options.experiment, text, changes)),
            notes: file.notes.clone(),
            cells: cells.iter().map(empty_cell).collect(),
            ..RunResult::default()
        };
        if options.resume {
            take_over(&mut result, &out.join("result.json"))?;
        }
        Ok(Walk {
            generators: Generators::new(&file.place, options.token_file.as_deref())?,
            file,
            missing: BTreeMap::new(),
            cells,
            steps,
            result,
            out,
            keep: options.keep,
            seed: options.seed,
            interrupt: options.interrupt.clone(),
            again: 0,
            no_limits: NoLimits::default(),
        })
    }

    /// Refuses what agents cannot do in any cell.
    fn refuse_agents(&self, name: &str) -> Result<(), Refused> {
        if self.file.place.agents.is_empty() {
            return Ok(());
        }
        if !rate_limits::needed(&self.file, &self.cells).is_empty() {
            return Err(Refused(format!(
                "{name}: the limits of which rates are shares would be those of this machine's load generator, not of the agents: \
                 give the rates as requests per second, or remove the agents"
            )));
        }
        if self.file.load.warmup.requests().is_some() {
            return Err(Refused(format!(
                "{name}: agents warm up for a time, not for a number of requests: give --warmup as in 2s"
            )));
        }
        Ok(())
    }

    fn show_plan(&self, live: &mut dyn Progress) {
        let measured = self
            .cells
            .iter()
            .filter(|cell| cell.skipped.is_none())
            .count();
        let left: Vec<Step> = self.left();
        live.line(&format!(
            "{}: {measured} cells x {} blocks, {} left, about {}",
            self.file.title,
            self.file.repeat.blocks,
            left.len(),
            minutes(self.seconds(&left))
        ));
        let limits = self.limits_left().len();
        if limits > 0 {
            let length = minutes(limits as f64 * rate_limits::search_s(&self.file));
            live.line(&format!(
                "  before them {limits} limits are searched for, of which rates are shares: about {length}"
            ));
        }
        let skipped = self.cells.iter().filter_map(|cell| cell.skipped.as_ref());
        let mut reasons: BTreeMap<&String, usize> = BTreeMap::new();
        skipped.for_each(|reason| *reasons.entry(reason).or_insert(0) += 1);
        for (reason, count) in reasons {
            live.line(&format!("  {count} cells are skipped: {reason}"));
        }
    }

    fn is_done(&self, step: &Step) -> bool {
        let mut blocks = self.result.cells[step.cell].blocks.iter();
        blocks.any(|block| block.number == step.block)
    }

    /// Remaining steps.
    fn left(&self) -> Vec<Step> {
        let steps = self.steps.iter().filter(|step| !self.is_done(step));
        steps.copied().collect()
    }

    /// Estimated seconds for steps, without repeated blocks. Programs that are not installed take no time.
    fn seconds(&self, steps: &[Step]) -> f64 {
        let cells = steps.iter().map(|step| &self.cells[step.cell]);
        let elsewhere = self.file.place.servers.is_some();
        let here = cells.filter(|cell| {
            let run = &self.file.subject[&cell.subject].run;
            elsewhere || file::program(run.any()).is_some()
        });
        here.map(|cell| step_s(&self.file, cell)).sum()
    }

    fn walk(&mut self, name: &str, live: &mut dyn Progress) -> Outcome {
        fs::create_dir_all(&self.out)
            .map_err(|error| Refused::new(format!("{}: {error}", self.out.display())))?;
        let mut stage = self.stage(name)?;
        self.generators.connect(stage.load_cpus())?;
        let notes = self.describe(&stage);
        self.result.notes.extend(notes);
        self.generators.describe(&mut self.result, &stage);
        let began = Instant::now();
        let steps = self.left();
        if self.find_limits(&mut stage, live)? {
            drop(stage);
            return Ok(self.interrupted(0, steps.len(), live));
        }
        for (at, step) in steps.iter().enumerate() {
            let place = (&stage, &self.file);
            let ready = self.generators.make_ready(place, &self.interrupt);
            ready.map_err(|Refused(error)| {
                let again = resumed(&self.result.command);
                Refused(format!(
                    "{error}; {at} of {} blocks are done. Continue with:\n  {again}",
                    steps.len()
                ))
            })?;
            let cell = self.cells[step.cell].clone();
            let behind = Duration::from_secs_f64(self.seconds(&steps[at + 1..]));
            let place: Vec<&str> = cell.axes.values().map(String::as_str).collect();
            let place = format!("[{}/{}] {}", at + 1, steps.len(), place.join(" "));
            let length = Duration::from_secs_f64(step_s(&self.file, &cell));
            let announce = |live: &mut dyn Progress, words: &str| {
                live.begin(&format!("{place}{words}"), length, behind);
            };
            let measured = self.measure(&stage, &cell, step, live, &announce);
            if self.interrupt.is_set() {
                drop(stage);
                return Ok(self.interrupted(at, steps.len(), live));
            }
            self.record((at, step), measured, &place, live);
            marks::mark_slow(&mut self.result.cells);
            self.result.duration_s = began.elapsed().as_secs_f64();
            self.save()?;
        }
        self.keep_or_remove(stage, live);
        live.line(&format!(
            "result: {}",
            self.out.join("result.json").display()
        ));
        if let Some(lost) = self.generators.summary() {
            live.line(&format!("{lost}; to measure them:"));
            live.line(&format!("  {}", resumed(&self.result.command)));
            return Ok(Completion::No);
        }
        let cells = &self.result.cells;
        let usable = cells.iter().any(|cell| cell.state == CellState::Measured);
        let failed = cells.iter().any(|cell| !cell.failed_starts.is_empty());
        Ok(match usable && !failed {
            true => Completion::Yes,
            false => Completion::No,
        })
    }

    /// Records the block of the step at this position, or why there is none.
    fn record(
        &mut self,
        (at, step): (usize, &Step),
        measured: Result<Block, NoBlock>,
        place: &str,
        live: &mut dyn Progress,
    ) {
        let entry = &mut self.result.cells[step.cell];
        match measured {
            Ok(mut block) => {
                block.position = at;
                live.line(&format!("{place:48} {}", line(&block)));
                entry.blocks.push(block);
                entry.state = CellState::Measured;
                self.generators.worked();
            }
            Err(NoBlock::Cell(state)) => {
                live.line(&format!("{place:48} {}", state_words(&state)));
                if entry.blocks.is_empty() {
                    entry.state = state.clone();
                }
                if let CellState::DidNotStart(reason) = state {
                    self.failed_start(step, reason);
                }
            }
            Err(NoBlock::Agents(reason)) => {
                live.line(&format!("{place:48} {reason}"));
                let cell: Vec<&str> = entry.axes.values().map(String::as_str).collect();
                let (block, cell) = (step.block + 1, cell.join(" "));
                let note = format!("Block {block} of `{cell}` has no figures: {reason}.");
                self.result.notes.push(note);
                self.generators.failed();
            }
        }
    }

    /// Removes the folder of the run, or prints where it is.
    fn keep_or_remove(&self, stage: Stage, live: &mut dyn Progress) {
        if self.keep {
            live.line(&format!(
                "configurations and logs: {}",
                stage.dir().display()
            ));
            stage.keep();
        }
    }

    /// Ctrl-C: the current block is discarded, the others are saved. Prints how to continue.
    fn interrupted(&self, done: usize, of: usize, live: &mut dyn Progress) -> Completion {
        let left = minutes(self.seconds(&self.left()));
        live.line(&format!(
            "interrupted after {done} of {of} blocks; about {left} are left. Continue with:"
        ));
        live.line(&format!("  {}", resumed(&self.result.command)));
        Completion::Interrupted
    }

    /// Starts the servers of each cell once. What is not installed, or too large for this machine, is reported and does
    /// not count as a failure.
    fn check(&mut self, name: &str, live: &mut dyn Progress) -> Outcome {
        let stage = self.stage(name)?;
        self.describe(&stage);
        let (mut right, mut wrong, mut absent) = (0, 0, 0);
        for cell in &self.cells {
            let place: Vec<&str> = cell.axes.values().map(String::as_str).collect();
            let found = match (&cell.skipped, self.missing(cell)) {
                (Some(reason), _) => Err(CellState::Skipped(reason.clone())),
                (_, Some(reason)) => Err(CellState::NotInstalled(reason)),
                (None, None) => match stage.check(&self.file, cell, self.seed) {
                    Ok(ready_s) => Ok(ready_s),
                    Err(NoBlock::Cell(state)) => Err(state),
                    Err(NoBlock::Agents(reason)) => return Err(Refused(reason)),
                },
            };
            match &found {
                Ok(_) => right += 1,
                Err(CellState::DidNotStart(_)) => wrong += 1,
                Err(_) => absent += 1,
            }
            let words = match found {
                Ok(ready_s) => format!("correct after {ready_s:.2} s"),
                Err(state) => state_words(&state),
            };
            live.line(&format!("{:48} {words}", place.join(" ")));
        }
        live.line(&format!(
            "{right} correct, {wrong} wrong, {absent} not installed"
        ));
        self.keep_or_remove(stage, live);
        Ok(if wrong == 0 && right > 0 {
            Completion::Yes
        } else {
            Completion::No
        })
    }

    /// Why a cell cannot be measured for lack of a program.
    fn missing(&self, cell: &CellPlan) -> Option<String> {
        let servers = self.missing.get(&cell.id).cloned();
        let engine = cell.engine.map(Tool::name);
        let engine = engine.filter(|name| process::find(name).is_none());
        servers.or_else(|| engine.map(|name| format!("load generator `{name}`")))
    }

    fn measure(
        &mut self,
        stage: &Stage,
        cell: &CellPlan,
        step: &Step,
        live: &mut dyn Progress,
        announce: &dyn Fn(&mut dyn Progress, &str),
    ) -> Result<Block, NoBlock> {
        announce(live, "");
        if let Some(reason) = self.missing(cell) {
            return Err(CellState::NotInstalled(reason).into());
        }
        if let Some(state) = self.without_rate(cell) {
            return Err(state.into());
        }
        let seed = self.seed ^ step.block as u64;
        let mut block = self.block(stage, cell, seed, live)?;
        let (mut tries, mut failed_starts) = (1, Vec::new());
        while foreign_share(&block).is_some()
            && tries <= self.file.repeat.again
            && self.again < self.steps.len().div_ceil(AGAIN_ONE_IN)
        {
            self.again += 1;
            tries += 1;
            announce(live, " again");
            match self.block(stage, cell, seed, live) {
                Ok(anew) => block = quieter(block, anew),
                Err(NoBlock::Cell(CellState::DidNotStart(reason))) => {
                    failed_starts.push(reason);
                }
                Err(_) => break,
            }
        }
        if tries > 1 {
            let disturbed = block.marks.iter_mut();
            let disturbed = disturbed.filter(|mark| mark.kind == MarkKind::Disturbed);
            disturbed.for_each(|mark| {
                mark.text += &format!(", the least disturbed of {tries} attempts")
            });
        }
        for reason in failed_starts {
            self.failed_start(step, reason);
        }
        block.number = step.block;
        Ok(block)
    }

    /// One block, after a rest if it needs one.
    fn block(
        &mut self,
        stage: &Stage,
        cell: &CellPlan,
        seed: u64,
        live: &mut dyn Progress,
    ) -> Result<Block, NoBlock> {
        let needs = rest::Needs::of(&self.file, cell);
        let mut rest = rest::rest(&needs, &mut rest::ThisMachine(self.interrupt.clone()));
        if let Some(remote) = stage.remote() {
            rest = Rest::of_both(rest, remote.rest(&cell.id)?);
        }
        let upstreams = stage.upstreams_of(&self.file, cell);
        if let Some(upstreams) = upstreams.map_err(CellState::DidNotStart)? {
            rest = Rest::of_both(rest, upstreams.rest(&cell.id)?);
        }
        let cell = (&self.file, cell);
        let mut block = timed(stage, || {
            stage.block(cell, seed, self.generators.fleet(), live)
        })?;
        block.rest = rest;
        Ok(block)
    }

    /// Records a failed start, which stays in the result even if later ones succeed.
    fn failed_start(&mut self, step: &Step, reason: String) {
        let block = step.block;
        let failed = FailedStart { block, reason };
        self.result.cells[step.cell].failed_starts.push(failed);
    }

    /// Writes the result atomically.
    fn save(&self) -> Result<(), Refused> {
        let path = self.out.join("result.json");
        let part = self.out.join("result.json.part");
        let text =
            serde_json::to_vec(&self.result).map_err(|error| Refused::new(error.to_string()))?;
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &path))
            .map_err(|error| Refused::new(format!("{}: {error}", path.display())))
    }
}

/// Chooses the less disturbed block. Failures of the other one still count.
fn quieter(block: Block, anew: Block) -> Block {
    let (mut kept, other) = match foreign_share(&anew) < foreign_share(&block) {
        true => (anew, block),
        false => (block, anew),
    };
    let failed = other.load.failed();
    if failed > 0 {
        kept.marks.push(Mark {
            kind: MarkKind::Failures,
            text: format!("{failed} requests failed in an attempt that was disturbed"),
        });
    }
    kept.tries.extend(other.tries);
    kept.tries.push(Try {
        ok: other.load.ok,
        failures: other.load.failures,
    });
    kept
}

/// Runs a block and measures the machine's speed before and after it. The machine of the servers does so by itself.
fn timed(stage: &Stage, block: impl FnOnce() -> Result<Block, NoBlock>) -> Result<Block, NoBlock> {
    if stage.remote().is_some() {
        return block();
    }
    let before = machine::work_us();
    let mut block = block()?;
    if let Some(resources) = &mut block.resources {
        resources.system.work_us = Some(machine::work_us().max(before));
    }
    Ok(block)
}

/// The command line as typed, without the program's folder, which is of no interest to others.
fn typed() -> Vec<String> {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(first) = words.first_mut() {
        let name = Path::new(first.as_str()).file_name();
        *first = name.map_or(first.clone(), |name| name.to_string_lossy().into_owned());
    }
    words
}

/// The command line that continues a run.
fn resumed(command: &[String]) -> String {
    let quoted = |word: &String| match word
        .contains(|c: char| c.is_whitespace() || "'*;<>|&$".contains(c))
    {
        true => format!("'{}'", word.replace('\'', r"'\''")),
        false => word.clone(),
    };
    let mut words: Vec<String> = command.iter().map(quoted).collect();
    if !command.iter().any(|word| word == "--resume") {
        words.push("--resume".into());
    }
    words.join(" ")
}

/// How much other programs interfered with a block that is marked for it.
fn foreign_share(block: &Block) -> Option<f64> {
    let marks = &mut block.marks.iter();
    marks.find(|mark| mark.kind == MarkKind::Disturbed)?;
    block.resources.as_ref()?;
    Some(marks::interference(block))
}

fn empty_cell(plan: &CellPlan) -> Cell {
    Cell {
        id: plan.id.clone(),
        axes: plan.axes.clone(),
        state: plan
            .skipped
            .clone()
            .map_or(CellState::Pending, CellState::Skipped),
        ..Cell::default()
    }
}

/// Loads the blocks of an earlier result for cells whose definition is the same.
fn take_over(result: &mut RunResult, path: &Path) -> Result<(), Refused> {
    let Ok(bytes) = fs::read(path) else {
        return Ok(());
    };
    let earlier: RunResult = serde_json::from_slice(&bytes)
        .map_err(|error| Refused::new(format!("{}: {error}", path.display())))?;
    result.limits = earlier.limits;
    for cell in &mut result.cells {
        if let Some(same) = earlier.cells.iter().find(|earlier| earlier.id == cell.id) {
            cell.blocks.clone_from(&same.blocks);
            cell.failed_starts.clone_from(&same.failed_starts);
            if !cell.blocks.is_empty() {
                cell.state = CellState::Measured;
            }
        }
    }
    Ok(())
}

/// Seconds that one block of a cell takes.
fn step_s(file: &File, cell: &CellPlan) -> f64 {
    let scenario = file.test[&cell.test].loaded.as_ref();
    let window = scenario.map_or(file.load.duration, |scenario| scenario.duration());
    let load = (window + file.load.warmup.estimate()).as_secs_f64();
    load + file.load.rest.memory.as_secs_f64() + AROUND_S + cell.clients as f64 * CLIENT_S
}

fn minutes(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

/// Summary of a block in one line.
fn line(block: &Block) -> String {
    let load = &block.load;
    let mut text = format!("{:>9}/s", thousands(load.ok_per_s()));
    if let Some(p50) = load.latency.total.percentile(50.0) {
        text += &format!("  p50 {}", time(p50));
    }
    if let Some(p99) = load.latency.total.percentile(99.0) {
        text += &format!("  p99 {}", time(p99));
    }
    if let Some(cost) = block.cpu_us_per_ok() {
        text += &format!("  CPU {} us", resolved(cost, block.cpu_us_step()));
    }
    if let Some(resources) = &block.resources {
        text += &format!(
            "  {} MB",
            thousands(resources.subject.rss_peak_bytes as f64 / 1e6)
        );
    }
    if load.failed() > 0 {
        text += &format!("  failed {:.2} %", load.failed_share() * 100.0);
    }
    if let Some(rest) = block.rest.filter(|rest| rest.waited_s >= 1.0) {
        text += &format!("  rested {:.0} s", rest.waited_s);
    }
    for mark in &block.marks {
        text += &format!("  [{}]", mark.text);
    }
    text
}

fn state_words(state: &CellState) -> String {
    match state {
        CellState::Pending => "not yet".into(),
        CellState::Measured => "measured".into(),
        CellState::NotInstalled(reason) => format!("not installed: {reason}"),
        CellState::DidNotStart(reason) => format!("did not start: {reason}"),
        CellState::Skipped(reason) => format!("skipped: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_audit::limits::BLOCKS_MIN;
    use sluice_load::result::{Distribution, FailureClass, Failures, Load, Resources, System};

    #[test]
    fn quick_keeps_the_shape_of_an_experiment() {
        let mut file = file::parse("000", builtin::builtin("000").unwrap()).unwrap();
        let options = Options {
            experiment: "000".into(),
            quick: true,
            plan: true,
            seed: 7,
            ..Options::default()
        };
        let changes = change(&mut file, &options);
        assert_eq!(file.matrix.clients, [10, 200, 500, 1_000, 10_000]);
        // The file's own windows are even shorter.
        let duration = Duration::from_millis(600);
        let blocks = (file.repeat.blocks, file.load.duration);
        assert_eq!(blocks, (BLOCKS_MIN, duration));
        let chosen = plan::cells(&file, &Only::default(), 9_900);
        let with = |axis: &str, value: &str| {
            let cells = chosen.iter().filter(|cell| cell.axes[axis] == value);
            cells.count()
        };
        assert_eq!((with("clients", "10"), with("clients", "200")), (4, 22));
        assert_eq!((with("subject", "floor"), with("clients", "10000")), (2, 7));
        assert_eq!(changes.len(), 1);
    }

    #[test]
    fn an_interrupted_run_is_continued_by_its_own_command() {
        let typed = [
            "sluice-lab",
            "run",
            "003",
            "--only",
            "subject=sluice*; test=a",
        ];
        let typed: Vec<String> = typed.map(String::from).into();
        let again = "sluice-lab run 003 --only 'subject=sluice*; test=a' --resume";
        assert_eq!(resumed(&typed), again);
        let resumed_already = [typed, vec!["--resume".to_string()]].concat();
        assert_eq!(resumed(&resumed_already), again);
    }

    #[test]
    fn a_block_that_is_measured_again_keeps_its_failures() {
        let block = |foreign: Option<f64>, failed: u64| {
            let marks = foreign.map(|_| Mark {
                kind: MarkKind::Disturbed,
                text: String::new(),
            });
            let failures = (failed > 0).then(|| Failures {
                class: FailureClass::Reset,
                count: failed,
                statuses: Vec::new(),
                latency: Distribution::default(),
                example: None,
            });
            Block {
                load: Load {
                    ok: 100,
                    failures: failures.into_iter().collect(),
                    ..Load::default()
                },
                resources: Some(Resources {
                    system: System {
                        foreign: foreign.unwrap_or(0.0),
                        ..System::default()
                    },
                    ..Resources::default()
                }),
                marks: marks.into_iter().collect(),
                ..Block::default()
            }
        };
        let kept = quieter(block(Some(0.5), 43), block(None, 0));
        assert_eq!((kept.load.failed(), kept.counts()), (0, (200, 43)));
        assert!(kept.marks.iter().any(|m| m.kind == MarkKind::Failures));
        // Also if the first is the quieter one.
        let kept = quieter(block(Some(0.2), 0), block(Some(0.9), 7));
        assert_eq!((kept.load.failed(), kept.counts()), (0, (200, 7)));
        let kept = quieter(kept, block(None, 1));
        assert_eq!(kept.counts(), (300, 8));
    }

    #[test]
    fn blocks_of_cells_that_are_the_same_are_taken_over() {
        let cell = |id: &str, blocks: usize| Cell {
            id: id.into(),
            blocks: vec![Block::default(); blocks],
            ..Cell::default()
        };
        let earlier = RunResult {
            cells: vec![cell("a", 2), cell("b", 1)],
            ..RunResult::default()
        };
        let path = std::env::temp_dir().join(format!("lab-resume-{}.json", std::process::id()));
        fs::write(&path, serde_json::to_vec(&earlier).unwrap()).unwrap();
        let mut result = RunResult {
            cells: vec![cell("b", 0), cell("c", 0)],
            ..RunResult::default()
        };
        take_over(&mut result, &path).unwrap();
        fs::remove_file(&path).unwrap();
        let states: Vec<_> = result
            .cells
            .iter()
            .map(|cell| (cell.blocks.len(), &cell.state))
            .collect();
        assert_eq!(
            states,
            [(1, &CellState::Measured), (0, &CellState::Pending)]
        );
    }
}
