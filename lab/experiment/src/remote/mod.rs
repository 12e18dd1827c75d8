//! Servers under test, their upstreams, or both, on another machine: what the coordinator asks of the agent there. The agent
//! gets the experiment with its configurations, starts its part of a cell, samples it, and stops it; its side is in `host`.

mod allowed;
mod role;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::agent::{AgentSpec, Line, Token};
use crate::checks::{Accepted, Observed};
use crate::file::{CheckPart, File, Pin};
use crate::plan::CellPlan;
pub use allowed::{AllowedPrograms, programs};
pub use role::{Places, Role};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::result::{BackendCounts, Machine, Resources, Rest, SubjectFacts};

/// An experiment, as the machine of its servers gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bed {
    /// Its name or path, for messages.
    pub name: String,
    /// Its file.
    pub text: String,
    /// What of it runs there.
    pub role: Role,
    /// Whether servers and upstreams have separate CPUs.
    pub pin: Pin,
    /// The address at which the load reaches the servers.
    pub address: Option<IpAddr>,
    /// The address at which the servers reach upstreams on a machine of their own.
    pub upstream_address: Option<IpAddr>,
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
    /// Where its upstreams listen.
    pub places: Places,
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
    pub accepted: Option<Accepted>,
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
    /// The same of the machine of the upstreams, if that is another one.
    pub upstream_work_us: Option<f64>,
}

impl Ended {
    /// Adds what the machine of the upstreams has counted and observed: their counters, lines of logs, and figures. On a network of
    /// its own the connections that its kernel accepted are those of the servers only.
    pub fn join(&mut self, upstreams: Ended, network: Network) {
        self.counts = upstreams.counts;
        if network == Network::Apart {
            self.accepted = upstreams.accepted;
        }
        self.upstream_work_us = upstreams.work_us;
        // The same checks; a file has another path on the other machine.
        let logs = |part: &CheckPart| part.log_lines.as_ref().map(|lines| lines.file.clone());
        for (own, there) in self.parts.iter().zip(&upstreams.parts) {
            let Some((own, there)) = logs(own).zip(logs(there)) else {
                continue;
            };
            let gained = upstreams.observed.log_lines.get(&there);
            let sum = self.observed.log_lines.entry(own).or_default();
            *sum += gained.copied().unwrap_or_default();
        }
        self.observed.metrics.extend(upstreams.observed.metrics);
    }
}

/// Whether two machines share a network stack, and with it its addresses and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// They do.
    Shared,
    /// Each has its own.
    Apart,
}

/// Why servers do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They cannot; the machine is there.
    Servers(String),
    /// The agent is lost.
    Lost(String),
}

/// A machine of servers, of upstreams, or of both.
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
    network: String,
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
            programs: programs(file, &bed.role),
            bed,
            interrupt: interrupt.clone(),
            state: Mutex::new(State {
                line: None,
                prepared: Prepared::default(),
                network: String::new(),
            }),
        };
        servers.reconnect(None)?;
        Ok(servers)
    }

    /// Connects anew; what ran there before ends. `places` are those of upstreams on a machine of their own, if they have
    /// changed.
    pub fn reconnect(&self, places: Option<Places>) -> Result<(), String> {
        let named = |error: String| format!("{} on {}: {error}", self.words(), self.name());
        let mut state = self.state();
        // An agent serves one coordinator at a time, so the old connection ends first.
        state.line = None;
        let line = Line::connect(&self.spec, self.token.as_ref(), &self.programs);
        let line = line.map_err(named)?;
        let is_loopback = self.bed.address.is_none_or(|address| address.is_loopback());
        if self.bed.role.has_servers() && is_loopback && !line.is_here() {
            return Err(named(
                "they run on another machine: add --address with its address, at which the load reaches them".into(),
            ));
        }
        let mut bed = self.bed.clone();
        if let (Role::Servers(known), Some(places)) = (&mut bed.role, places) {
            *known = places;
        }
        let ask = Ask::Prepare(Box::new(bed));
        match exchange(&line, &ask, &self.interrupt).map_err(named)? {
            Reply::Prepared(prepared) => state.prepared = *prepared,
            Reply::Failed(reason) => return Err(named(reason)),
            other => return Err(named(unexpected(&other))),
        }
        state.network = line.network().to_string();
        state.line = Some(line);
        Ok(())
    }

    /// The agent's name.
    pub fn name(&self) -> String {
        self.spec.name()
    }

    /// What runs there, in messages.
    fn words(&self) -> &'static str {
        match self.bed.role.has_servers() {
            true => "servers",
            false => "upstreams",
        }
    }

    /// Identifies its network stack.
    pub fn network(&self) -> String {
        self.state().network.clone()
    }

    /// What is known of the machine.
    pub fn prepared(&self) -> Prepared {
        self.state().prepared.clone()
    }

    /// Port of the server under test.
    pub fn port(&self) -> u16 {
        self.state().prepared.port
    }

    /// Where its upstreams listen.
    pub fn places(&self) -> Places {
        self.state().prepared.places.clone()
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
            // The reason names the server, but an upstream may be one of two machines'.
            Ok(Reply::Failed(reason)) => Err(Fault::Servers(match self.bed.role {
                Role::Upstreams => format!("{reason} (upstreams on {})", self.name()),
                Role::Both | Role::Servers(_) => reason,
            })),
            Ok(reply) => Ok(reply),
            Err(reason) => Err(self.lose(&reason)),
        }
    }

    /// Gives the agent up: its connection ends, and with it the servers.
    pub fn lose(&self, reason: &str) -> Fault {
        self.state().line = None;
        let (name, words) = (self.name(), self.words());
        Fault::Lost(format!(
            "agent {name}, which runs the {words}, was lost ({reason})"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::LinesPart;

    fn ended(file: &str, lines: Option<u64>) -> Ended {
        let log_lines = LinesPart {
            file: file.into(),
            per_response: "== 1".into(),
        };
        let part = CheckPart {
            log_lines: Some(log_lines),
            ..CheckPart::default()
        };
        let observed = Observed {
            log_lines: lines
                .map(|lines| (file.to_string(), lines))
                .into_iter()
                .collect(),
            ..Observed::default()
        };
        Ended {
            parts: vec![CheckPart::default(), part],
            observed,
            work_us: Some(1.0),
            ..Ended::default()
        }
    }

    #[test]
    fn what_two_machines_have_seen_of_a_block_is_added_up() {
        let servers = || Ended {
            accepted: Some(Accepted::WithClients(100)),
            ended: Some("exit status: 1".into()),
            ..ended("/tmp/a/log", Some(2))
        };
        let upstreams = || {
            let mut upstreams = ended("/tmp/b/log", Some(40));
            upstreams.accepted = Some(Accepted::Upstreams(7));
            upstreams.counts = Some(BackendCounts::default());
            upstreams.work_us = Some(3.0);
            let figure = ("http://b:1/ jobs".to_string(), Ok(5.0));
            upstreams.observed.metrics = [figure].into();
            upstreams
        };
        for (network, accepted) in [
            (Network::Shared, Accepted::WithClients(100)),
            (Network::Apart, Accepted::Upstreams(7)),
        ] {
            let mut both = servers();
            both.join(upstreams(), network);
            assert_eq!(both.accepted, Some(accepted));
            assert_eq!(
                both.observed.log_lines,
                [("/tmp/a/log".to_string(), 42)].into()
            );
            assert_eq!(both.observed.metrics["http://b:1/ jobs"], Ok(5.0));
            assert_eq!(both.counts, Some(BackendCounts::default()));
            assert_eq!(
                (both.work_us, both.upstream_work_us),
                (Some(1.0), Some(3.0))
            );
            assert_eq!(both.ended.as_deref(), Some("exit status: 1"));
        }
        // The counters of an upstream that has none are not those of the servers' machine.
        let mut both = servers();
        both.counts = Some(BackendCounts::default());
        both.join(ended("/tmp/b/log", None), Network::Apart);
        assert_eq!((both.counts, both.accepted), (None, None));
        assert_eq!(both.observed.log_lines["/tmp/a/log"], 2);
    }
}
