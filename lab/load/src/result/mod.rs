//! What the lab writes down: one [`RunResult`] is everything that a report, a comparison or an audit needs. Fields are
//! only ever added; a reader takes what it knows.
//!
//! Units are in the names: `_ns` nanoseconds, `_s` seconds, `_ms` milliseconds, `_bytes` bytes. `None` means "not
//! measured" everywhere, never zero.

mod failure;
mod histogram;
mod load;
mod resources;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use failure::{FailureClass, Failures};
pub use histogram::{DIGITS, DURATION_MAX_NS, Distribution, Histogram, PERCENTILES};
pub use load::{
    Answered, Asked, Censored, Connections, Engine, Generator, HEAT_STEPS, HeldConnections,
    Latencies, Load, Mode, Point, Series, Transfer, heat_step, heat_step_ns,
};
pub use resources::{BackendCounts, Resources, System, SystemPoint, Tree, TreePoint};

/// Name and version of the format.
pub const SCHEMA: &str = "sluice.lab/1";

/// Everything one `lab` command measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the experiment, or `hit`.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How long it took.
    pub duration_s: f64,
    /// Start value of every random order and schedule in it.
    pub seed: u64,
    /// Where it ran.
    pub machine: Machine,
    /// The file it was run from; `None` for a single target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// What was measured, in the order of the file.
    #[serde(default)]
    pub subjects: Vec<SubjectFacts>,
    /// One entry per combination of the matrix, those that could not be measured included.
    pub cells: Vec<Cell>,
    /// What the generator itself can do on this machine, where that was calibrated.
    #[serde(default)]
    pub ceilings: Vec<Ceiling>,
    /// What a reader must know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The file of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its path or built-in name.
    pub file: String,
    /// Its text.
    pub text: String,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// Shape of the table that the document prints, such as `000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_shape: Option<String>,
    /// Claims to be checked: name and formula.
    #[serde(default)]
    pub claims: BTreeMap<String, String>,
    /// The words of claims, by their name; also of those that no figure here can tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sayings: BTreeMap<String, Saying>,
    /// Which printed row stands beside which cell, where the names alone do not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// What differed from the file in this run (`--quick`, `--set`, levels cut to the machine's limits), in sentences.
    #[serde(default)]
    pub changes: Vec<String>,
}

/// The words of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saying {
    /// What the document says, in our words.
    pub says: String,
    /// Why no figure can tell, or what to keep in mind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Processors that the subject needs before it can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

/// A printed row and the cell that repeats it.
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
    /// Model of the processor.
    pub cpu_model: String,
    /// Processors that the lab may use.
    pub cpus: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub os: String,
    /// Hypervisor, if one says that it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Hard limit of open files of one process.
    pub open_files_max: u64,
    /// Settings of the kernel that matter, by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Which processors were given to whom: `generator`, `subject`, `backend`; empty where they share all.
    #[serde(default)]
    pub placement: BTreeMap<String, Vec<usize>>,
}

/// What is known of a measured server before any load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectFacts {
    /// Its name in the experiment.
    pub name: String,
    /// The command that starts it, with names in braces still in it.
    pub command: String,
    /// What it says of its version, all lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Path of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// SHA-256 of the program, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The configurations that it got, each with the text as it was given.
    #[serde(default)]
    pub configs: Vec<ConfigText>,
    /// Why it was not measured at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// A configuration as a server got it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigText {
    /// For which cells: axis and value joined by `=`, several by `,`.
    pub used_for: String,
    /// The text after ports and paths were put in.
    pub text: String,
    /// What was replaced to run beside others: pairs of before and after.
    #[serde(default)]
    pub rewritten: Vec<(String, String)>,
}

/// One combination of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Twelve hexadecimal digits that name the cell within its experiment and change with its definition.
    pub id: String,
    /// Its place on every axis: `subject`, `test`, `clients`, `config` and whatever else the experiment has.
    pub axes: BTreeMap<String, String>,
    /// Whether it was measured.
    pub state: CellState,
    /// The repetitions, in the order of time.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Starts that failed, also where later ones did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_starts: Vec<FailedStart>,
}

/// A server that ended or never gave the right answer, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedStart {
    /// In which repetition, from 0.
    pub block: usize,
    /// Why, in words.
    pub reason: String,
}

impl Cell {
    /// Its place on an axis; empty where the experiment has no such axis.
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
    /// At least one block is there.
    Measured,
    /// The program is not installed here.
    NotInstalled(String),
    /// The program ended or never gave the right answer.
    DidNotStart(String),
    /// The experiment leaves it out, or this machine cannot hold it.
    Skipped(String),
}

/// One repetition of a cell: a fresh server, warmed up and loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Which repetition, from 0. Blocks of the same number of different subjects are neighbours in time: pairs.
    pub number: usize,
    /// Its place in the order of the whole run, from 0.
    pub position: usize,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// From the start of the server to its first right answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// What the clients saw.
    pub load: Load,
    /// What it cost; `None` for a target that the lab did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Whether what the experiment claims really acted.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What the server wrote to its log or its standard error, shortened.
    #[serde(default)]
    pub log: Vec<String>,
    /// What clients saw when this block was measured before, in a machine that was more disturbed: failures stay failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<Try>,
    /// Why this block may mislead: `disturbed`, `generator-limited`, `ended`, in words with a number each.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// The counts of a measurement whose other figures were given up for those of another try.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Good answers, counted like those of a load.
    pub ok: u64,
    /// What failed.
    #[serde(default)]
    pub failures: Vec<Failures>,
}

impl Block {
    /// Good answers and failures, those of earlier tries included.
    pub fn counts(&self) -> (u64, u64) {
        let tries = self.tries.iter();
        let (ok, failed) = (self.load.ok, self.load.failed());
        tries.fold((ok, failed), |(ok, failed), one| {
            let count = one.failures.iter().map(|failures| failures.count);
            (ok + one.ok, failed + count.sum::<u64>())
        })
    }

    /// Failures of every class, those of earlier tries included.
    pub fn failures(&self) -> impl Iterator<Item = &Failures> {
        let tries = self.tries.iter().flat_map(|one| &one.failures);
        self.load.failures.iter().chain(tries)
    }

    /// CPU microseconds of the server for each good answer: the figure that stays true on a busy machine.
    pub fn cpu_us_per_ok(&self) -> Option<f64> {
        let tree = &self.resources.as_ref()?.subject;
        (self.load.ended_ok > 0)
            .then(|| (tree.cpu_user_s + tree.cpu_system_s) * 1e6 / self.load.ended_ok as f64)
    }
}

/// A treatment check: does the option that is claimed really act?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was to hold, as the experiment writes it.
    pub claim: String,
    /// What was seen.
    pub seen: String,
    /// Whether it held; `None` if it could not be seen here.
    pub holds: Option<bool>,
}

/// A warning that belongs to a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Which.
    pub kind: MarkKind,
    /// The sentence, with its numbers.
    pub text: String,
}

/// Kinds of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// Other programs, the hypervisor or the disk took part.
    Disturbed,
    /// The generator was full, so throughput and latency are its own.
    GeneratorLimited,
    /// The server ended while it was loaded.
    Ended,
    /// Requests failed.
    Failures,
    /// The measuring side ran out of something: not usable.
    Unusable,
    /// Throughput still rose or fell when the window began.
    Unsteady,
    /// Open loop: the generator sent later than requests were due, so latencies are in part its own.
    Late,
    /// The whole machine was slower than at other times of the run.
    Slow,
}

/// How much the generator can ask for here, against a server that does the least possible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Payload of the answer.
    pub body_bytes: u64,
    /// Connections.
    pub connections: usize,
    /// `http/1.1`, `https/1.1`, `h2c` or `h2`.
    pub protocol: String,
    /// Good answers per second.
    pub ok_per_s: f64,
    /// Bytes per second that arrived.
    pub bytes_per_s: f64,
}
