//! The lab's result format: one [`RunResult`] has everything that a report, a comparison or an audit needs. Fields are
//! only ever added; a reader ignores those it does not know.
//!
//! Units are in the names: `_ns` nanoseconds, `_s` seconds, `_ms` milliseconds, `_bytes` bytes. `None` means "not
//! measured" everywhere, never zero.

mod failure;
mod histogram;
mod load;
mod overload;
mod resources;
mod rest;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use failure::{FailureClass, Failures};
pub use histogram::{DIGITS, DURATION_MAX_NS, Distribution, Histogram, PERCENTILES};
pub use load::{
    Asked, Censored, Connections, Engine, FirstResponse, Generator, HEAT_STEPS, HeldConnections,
    Latencies, Load, LoadMachine, LoadPart, LoadPhase, LoadSession, Mode, Point, Series, Transfer,
    heat_step, heat_step_ns,
};
pub use overload::{Overload, OverloadStep};
pub use resources::{BackendCounts, CPU_TICK_S, Resources, System, SystemPoint, Tree, TreePoint};
pub use rest::Rest;

/// Name and version of the format.
pub const SCHEMA: &str = "sluice.lab/1";

/// Everything one `lab` command measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment, or `hit`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The command line that produced it.
    pub command: Vec<String>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long it took.
    pub duration_s: f64,
    /// Seed of every random order and schedule in it.
    pub seed: u64,
    /// Where it ran: the machine of the servers.
    pub machine: Machine,
    /// The machine of the upstreams, if they ran on another one, through an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_machine: Option<Machine>,
    /// Which machine ran what, in words; absent for a single target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The experiment file; `None` for a single target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// The servers under test, in the order of the file.
    #[serde(default)]
    pub subjects: Vec<SubjectFacts>,
    /// One entry per combination of the matrix, including those that could not be measured.
    pub cells: Vec<Cell>,
    /// What the load generator itself can do on this machine, if that was calibrated.
    #[serde(default)]
    pub ceilings: Vec<Ceiling>,
    /// Servers beyond the capacity of their upstream; empty unless `lab break` ran an experiment that says what it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overload: Vec<Overload>,
    /// Limits that were searched for before the blocks, for rates that are shares of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<RateLimit>,
    /// What a reader must know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The highest rate at which a server met an objective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateLimit {
    /// ID of the cell that was searched; it changes with its definition.
    pub cell: String,
    /// The axes of that cell.
    pub axes: BTreeMap<String, String>,
    /// The objective, such as `p99<50ms,errors<0.1%`.
    pub objective: String,
    /// The limit in requests per second.
    pub per_s: f64,
    /// Throughput of the closed loop with which the search began.
    pub closed_per_s: f64,
    /// Length of a step of the search.
    pub step_s: f64,
    /// The rates that were tried, in chronological order.
    pub tried: Vec<RateTried>,
    /// When the search began, in milliseconds since 1970.
    pub started_unix_ms: u64,
}

/// A rate that a search tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateTried {
    /// Requests per second.
    pub per_s: f64,
    /// Why the objective was not met; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The experiment that was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its path or built-in name.
    pub file: String,
    /// Its text.
    pub text: String,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// Shape of the table printed in the study, such as `000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_shape: Option<String>,
    /// Claims to check: name and formula.
    #[serde(default)]
    pub claims: BTreeMap<String, String>,
    /// The wording of claims by name, including those that no metric here can decide.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sayings: BTreeMap<String, Saying>,
    /// Which printed row corresponds to which cell, if the names alone do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// Differences from the file in this run (`--quick`, `--set`, levels reduced to the machine's limits), in
    /// sentences.
    #[serde(default)]
    pub changes: Vec<String>,
}

/// The wording of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saying {
    /// What the study claims, paraphrased.
    pub says: String,
    /// Why no metric can decide it, or what to keep in mind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// CPUs that the server needs before the claim can be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

/// A printed row and the cell that reproduces it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Dimensions of the printed row.
    pub printed: BTreeMap<String, String>,
    /// Axes of the cell.
    pub here: BTreeMap<String, String>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model.
    pub cpu_model: String,
    /// CPUs that the lab may use.
    pub cpus: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub os: String,
    /// Hypervisor, if one is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Hard limit of open files per process.
    pub open_files_max: u64,
    /// Relevant kernel settings, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// CPUs assigned to `generator`, `subject` and `backend`; empty if they share all.
    #[serde(default)]
    pub placement: BTreeMap<String, Vec<usize>>,
}

/// What is known of a server under test before any load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectFacts {
    /// Its name in the experiment.
    pub name: String,
    /// The command that starts it, placeholders not replaced.
    pub command: String,
    /// Its version output, all lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Path of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// SHA-256 of the program, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The configurations it was given, verbatim.
    #[serde(default)]
    pub configs: Vec<ConfigText>,
    /// Why it was not measured at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// A configuration of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigText {
    /// The cells that use it: axis and value joined by `=`, several by `,`.
    pub used_for: String,
    /// The text after ports and paths were filled in.
    pub text: String,
    /// What was replaced so that it can run beside others: pairs of before and after.
    #[serde(default)]
    pub rewritten: Vec<(String, String)>,
}

/// One combination of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Twelve hexadecimal digits that identify the cell within its experiment and change with its definition.
    pub id: String,
    /// Its value on every axis: `subject`, `test`, `clients`, `config` and whatever else the experiment has.
    pub axes: BTreeMap<String, String>,
    /// Whether it was measured.
    pub state: CellState,
    /// The repetitions in chronological order.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Failed starts, even if later ones succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_starts: Vec<FailedStart>,
}

/// One failed start of a server: it exited or never sent the expected response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedStart {
    /// The repetition, from 0.
    pub block: usize,
    /// The reason, as a message.
    pub reason: String,
}

impl Cell {
    /// Its value on an axis; empty if the experiment does not have that axis.
    pub fn axis(&self, name: &str) -> &str {
        self.axes.get(name).map_or("", String::as_str)
    }
}

/// Whether a cell was measured. A reason is a sentence for the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "reason")]
pub enum CellState {
    /// Not yet: the run was interrupted or its budget ended.
    #[default]
    Pending,
    /// Has at least one block.
    Measured,
    /// The program is not installed here.
    NotInstalled(String),
    /// The program exited or never sent the expected response.
    DidNotStart(String),
    /// The experiment excludes it, or it exceeds this machine's limits.
    Skipped(String),
}

/// One repetition of a cell: a fresh server, warmed up and loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The repetition, from 0. Blocks of different servers with the same number are neighbours in time: pairs.
    pub number: usize,
    /// Its position in the order of the whole run, from 0.
    pub position: usize,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The pause before it, if there was a reason for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// From the start of the server to its first expected response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// What the clients observed.
    pub load: Load,
    /// Resource usage; `None` for a target that the lab did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Whether the options that the experiment claims actually took effect.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What the server wrote to its log or standard error, shortened.
    #[serde(default)]
    pub log: Vec<String>,
    /// Results of earlier measurements of this block that were discarded because the machine was more disturbed. Their
    /// failures still count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<Try>,
    /// Why this block may mislead: `disturbed`, `generator-limited`, `ended`, with a sentence and a number each.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// The counts of a discarded measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Successful requests, counted like those of a load.
    pub ok: u64,
    /// Failed requests.
    #[serde(default)]
    pub failures: Vec<Failures>,
}

impl Block {
    /// Successful and failed requests, including those of earlier tries.
    pub fn counts(&self) -> (u64, u64) {
        let tries = self.tries.iter();
        let (ok, failed) = (self.load.ok, self.load.failed());
        tries.fold((ok, failed), |(ok, failed), one| {
            let count = one.failures.iter().map(|failures| failures.count);
            (ok + one.ok, failed + count.sum::<u64>())
        })
    }

    /// Failures of every class, including those of earlier tries.
    pub fn failures(&self) -> impl Iterator<Item = &Failures> {
        let tries = self.tries.iter().flat_map(|one| &one.failures);
        self.load.failures.iter().chain(tries)
    }

    /// CPU microseconds of the server per successful request: the metric that stays meaningful on a busy machine.
    pub fn cpu_us_per_ok(&self) -> Option<f64> {
        let tree = &self.resources.as_ref()?.subject;
        (self.load.ended_ok > 0)
            .then(|| (tree.cpu_user_s + tree.cpu_system_s) * 1e6 / self.load.ended_ok as f64)
    }
}

impl Block {
    /// Resolution of [`Block::cpu_us_per_ok`]: one tick of the kernel's clock, in microseconds per successful request.
    pub fn cpu_us_step(&self) -> Option<f64> {
        self.cpu_us_per_ok()?;
        Some(CPU_TICK_S * 1e6 / self.load.ended_ok as f64)
    }
}

/// A treatment check: does the claimed option actually take effect?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The expectation, as the experiment states it.
    pub claim: String,
    /// The observed value.
    pub seen: String,
    /// Whether it held; `None` if it could not be observed here.
    pub holds: Option<bool>,
}

/// A warning about a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// What happened.
    pub kind: MarkKind,
    /// The message, with its numbers.
    pub text: String,
}

/// Kinds of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// Other programs, the hypervisor or the disk interfered.
    Disturbed,
    /// The load generator was saturated, so throughput and latency are its own.
    GeneratorLimited,
    /// The server exited under load.
    Ended,
    /// Requests failed.
    Failures,
    /// The load generator ran out of a resource: not usable.
    Unusable,
    /// Throughput was still rising or falling when the window began.
    Unsteady,
    /// Open loop: the load generator sent requests later than they were due, so latencies are in part its own.
    Late,
    /// The whole machine was slower than at other times of the run.
    Slow,
}

/// Maximum throughput of the load generator here, against a server that does the least possible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Body length of the response.
    pub body_bytes: u64,
    /// Connections.
    pub connections: usize,
    /// `http/1.1`, `https/1.1`, `h2c` or `h2`.
    pub protocol: String,
    /// Successful requests per second.
    pub ok_per_s: f64,
    /// Bytes received per second.
    pub bytes_per_s: f64,
}
