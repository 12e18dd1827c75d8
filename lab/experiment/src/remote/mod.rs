//! Servers under test, with their upstreams, on another machine: what the coordinator asks of the agent there. The agent gets
//! the experiment with its configurations, starts the servers of a cell, samples them, and stops them; its side is in `host`.

mod allowed;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::agent::{AgentSpec, Line, Token};
use crate::checks::Observed;
use crate::file::{CheckPart, File, Pin};
use crate::plan::CellPlan;
pub use allowed::{Allowed, programs};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::result::{BackendCounts, Machine, Resources, Rest, SubjectFacts};

/// An experiment, as the machine of its servers gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bed {
    /// Its name or path, for messages.
    pub name: String,
    /// Its file.
    pub text: String,
    /// Whether servers and upstreams have separate CPUs.
    pub pin: Pin,
    /// The address at which the load reaches the servers.
    pub address: Option<IpAddr>,
    /// Pause between the load and the last reading of memory.
    pub rest: Duration,
    /// How long a block waits at most until the machine is idle.
    pub idle_within: Duration,
    /// Seed of generated files.
    pub seed: u64,
    /// Configurations that are not in the file, by the name that it has for them.
    pub texts: BTreeMap<String, String>,
    /// The cells of the run.
    pub cells: Vec<CellPlan>,
}

/// What a coordinator asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Prepare for this experiment.
    Prepare(Box<Bed>),
    /// Wait until the machine has come to rest, as far as a block of a cell needs it.
    Rest {
        /// The cell's ID.
        cell: String,
    },
    /// Start the servers of a cell, and stop those before.
    Start {
        /// The cell's ID.
        cell: String,
        /// Seed of generated requests.
        seed: u64,
    },
    /// Note all counters, and sample from now on.
    Watch,
    /// End the sampling.
    Unwatch {
        /// The window, in nanoseconds of the agent's clock.
        window_ns: (u64, u64),
    },
    /// The memory of the server now.
    Memory,
    /// Stop the servers.
    Finish {
        /// Whether what checks ask for is observed before.
        observe: bool,
    },
}

/// What the agent replies, to each message once.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// It is prepared.
    Prepared(Box<Prepared>),
    /// It has waited, if there was anything to wait for.
    Rested(Option<Rest>),
    /// The servers respond as expected, after so many seconds.
    Started(f64),
    /// It samples.
    Watching,
    /// Usage in the window.
    Resources(Box<Resources>),
    /// Bytes.
    Memory(u64),
    /// The servers are stopped.
    Finished(Box<Ended>),
    /// What was asked is not possible; the reason.
    Failed(String),
}

/// What is known of a machine that is prepared for an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Prepared {
    /// The machine, with its CPUs for servers and upstreams.
    pub machine: Machine,
    /// Port of the server under test.
    pub port: u16,
    /// Certificates of the servers, if a test needs them.
    pub trusted: Option<String>,
    /// What is known of the servers.
    pub subjects: Vec<SubjectFacts>,
    /// Cells that lack a program, by ID, with the reason.
    pub missing: BTreeMap<String, String>,
    /// For the notes of the report.
    pub notes: Vec<String>,
}

/// What is known of the servers of a block when they are stopped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Counters of the upstream.
    pub counts: Option<BackendCounts>,
    /// Connections that the kernel accepted during the load, if they include those of the upstreams.
    pub accepted: Option<u64>,
    /// Memory of the server after a rest.
    pub rss_after_bytes: Option<u64>,
    /// The checks of the cell, with their placeholders replaced by what they are on the machine of the servers.
    pub parts: Vec<CheckPart>,
    /// What these checks ask for.
    pub observed: Observed,
    /// How the server ended, if it did so by itself.
    pub ended: Option<String>,
    /// The last lines of its logs.
    pub log: Vec<String>,
    /// Duration of a fixed piece of work, in microseconds: the longer one of before and after.
    pub work_us: Option<f64>,
}

/// Why servers do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They cannot; the machine is there.
    Servers(String),
    /// The agent is lost.
    Lost(String),
}

/// The machine of the servers.
pub struct RemoteServers {
    spec: AgentSpec,
    token: Option<Token>,
    programs: Vec<String>,
    bed: Bed,
    interrupt: Interrupt,
    state: Mutex<State>,
}

/// The connection, and what the machine said last.
struct State {
    line: Option<Line>,
    prepared: Prepared,
}

impl RemoteServers {
    /// Connects to the agent and has it prepare for an experiment.
    pub fn connect(
        (spec, token): (&AgentSpec, Option<&Token>),
        file: &File,
        bed: Bed,
        interrupt: &Interrupt,
    ) -> Result<Self, String> {
        let servers = RemoteServers {
            spec: spec.clone(),
            token: token.cloned(),
            programs: programs(file),
            bed,
            interrupt: interrupt.clone(),
            state: Mutex::new(State {
                line: None,
                prepared: Prepared::default(),
            }),
        };
        servers.reconnect()?;
        Ok(servers)
    }

    /// Connects anew; what ran there before ends.
    pub fn reconnect(&self) -> Result<(), String> {
        let named = |error: String| format!("servers on {}: {error}", self.name());
        let mut state = self.state();
        // An agent serves one coordinator at a time, so the old connection ends first.
        state.line = None;
        let line = Line::connect(&self.spec, self.token.as_ref(), &self.programs);
        let line = line.map_err(named)?;
        let is_loopback = self.bed.address.is_none_or(|address| address.is_loopback());
        if is_loopback && !line.is_here() {
            return Err(named(
                "they run on another machine: add --address with its address, at which the load reaches them".into(),
            ));
        }
        let ask = Ask::Prepare(Box::new(self.bed.clone()));
        match exchange(&line, &ask, &self.interrupt).map_err(named)? {
            Reply::Prepared(prepared) => state.prepared = *prepared,
            Reply::Failed(reason) => return Err(named(reason)),
            other => return Err(named(unexpected(&other))),
        }
        state.line = Some(line);
        Ok(())
    }

    /// The agent's name.
    pub fn name(&self) -> String {
        self.spec.name()
    }

    /// What is known of the machine.
    pub fn prepared(&self) -> Prepared {
        self.state().prepared.clone()
    }

    /// Port of the server under test.
    pub fn port(&self) -> u16 {
        self.state().prepared.port
    }

    /// Whether the agent is lost.
    pub fn is_lost(&self) -> bool {
        self.state().line.is_none()
    }

    /// Waits until the machine has come to rest, as far as a block of a cell needs it.
    pub fn rest(&self, cell: &str) -> Result<Option<Rest>, Fault> {
        let cell = cell.to_string();
        match self.ask(&Ask::Rest { cell })? {
            Reply::Rested(rest) => Ok(rest),
            other => Err(self.lose(&unexpected(&other))),
        }
    }

    /// Starts the servers of a cell; returns the seconds until they responded as expected.
    pub fn start(&self, cell: &str, seed: u64) -> Result<f64, Fault> {
        let cell = cell.to_string();
        match self.ask(&Ask::Start { cell, seed })? {
            Reply::Started(ready_s) => Ok(ready_s),
            other => Err(self.lose(&unexpected(&other))),
        }
    }

    /// Notes all counters, and samples from now on.
    pub fn watch(&self) -> io::Result<()> {
        match self.ask(&Ask::Watch).map_err(Fault::error)? {
            Reply::Watching => Ok(()),
            other => Err(self.lose(&unexpected(&other)).error()),
        }
    }

    /// Ends the sampling; returns what the servers used from `begin` to `end`.
    pub fn unwatch(&self, (begin, end): (Instant, Instant)) -> io::Result<Resources> {
        let window_ns = match &self.state().line {
            Some(line) => (line.clock_ns(begin), line.clock_ns(end)),
            None => (0, 0),
        };
        match self
            .ask(&Ask::Unwatch { window_ns })
            .map_err(Fault::error)?
        {
            Reply::Resources(resources) => Ok(*resources),
            other => Err(self.lose(&unexpected(&other)).error()),
        }
    }

    /// The memory of the server now; `None` if it is not known.
    pub fn memory(&self) -> Option<u64> {
        match self.ask(&Ask::Memory) {
            Ok(Reply::Memory(bytes)) => Some(bytes),
            Ok(_) | Err(_) => None,
        }
    }

    /// Stops the servers.
    pub fn finish(&self, observe: bool) -> Result<Ended, Fault> {
        match self.ask(&Ask::Finish { observe })? {
            Reply::Finished(ended) => Ok(*ended),
            other => Err(self.lose(&unexpected(&other))),
        }
    }

    fn ask(&self, ask: &Ask) -> Result<Reply, Fault> {
        let asked = match &self.state().line {
            Some(line) => exchange(line, ask, &self.interrupt),
            None => Err("its connection ended".to_string()),
        };
        match asked {
            Ok(Reply::Failed(reason)) => Err(Fault::Servers(reason)),
            Ok(reply) => Ok(reply),
            Err(reason) => Err(self.lose(&reason)),
        }
    }

    /// Gives the agent up: its connection ends, and with it the servers.
    fn lose(&self, reason: &str) -> Fault {
        self.state().line = None;
        let name = self.name();
        Fault::Lost(format!(
            "agent {name}, which runs the servers, was lost ({reason})"
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fault {
    /// As an error of a load.
    fn error(self) -> io::Error {
        match self {
            Fault::Servers(text) | Fault::Lost(text) => io::Error::other(text),
        }
    }
}

fn exchange(line: &Line, ask: &Ask, interrupt: &Interrupt) -> Result<Reply, String> {
    let text = serde_json::to_string(ask).map_err(|error| error.to_string())?;
    let reply = line.ask(text, interrupt)?;
    serde_json::from_str(&reply).map_err(|error| format!("not a reply: {error}"))
}

fn unexpected(reply: &Reply) -> String {
    format!("an unexpected reply: {reply:.60?}")
}
