//! The servers of one cell: their start, their counters around a load, and their end; on this machine, or on another one
//! by way of `remote`. Their upstreams are in `upstreams`.

use std::fs;
use std::path::{Component, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{NoBlock, Stage, filled, plain};
use crate::checks::{Accepted, Logs, Observed, is_own, observe};
use crate::file::{CheckPart, File, Run};
use crate::plan::CellPlan;
use crate::readiness::{ready, responds};
use crate::remote::Ended;
use crate::single::Watch;
use sluice_load::backend::read_counts;
use sluice_load::generator::Plan;
use sluice_load::generator::probe::Probe;
use sluice_load::generator::target::{Address, HttpVersion, Reach, Target};
use sluice_load::machine;
use sluice_load::process::{Started, lines_since, log_end};
use sluice_load::result::{BackendCounts, CellState};
use sluice_load::sample::{self, Roots};

/// Maximum delay until an upstream's counters are in its file.
pub(super) const COUNTS_SETTLE: Duration = Duration::from_millis(120);

/// How the servers of a cell are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// After what checks ask for was observed.
    Observe,
    /// At once.
    Stop,
}

/// The servers of a cell, after their first expected response.
pub(crate) struct Serving {
    /// The load of the cell.
    pub plan: Plan,
    /// The first expected response.
    pub response: Probe,
    pub ready_s: f64,
    /// Whether its upstreams run on a machine of their own.
    upstreams_apart: bool,
    /// `None` if they run on another machine.
    here: Option<Here>,
}

/// The processes of a cell on this machine.
struct Here {
    backends: Vec<Started>,
    server: Started,
    before: Option<Before>,
    /// Connections that the kernel has accepted until the load ended.
    accepted: Option<u64>,
}

/// Counters before a load.
struct Before {
    parts: Vec<CheckPart>,
    /// What of these is observed here.
    observed: Vec<CheckPart>,
    logs: Logs,
    /// The log that a server writes in addition to its output, and the offset at which the lines of the block begin.
    log: Option<(PathBuf, u64)>,
    counts: Option<BackendCounts>,
    accepted: Option<u64>,
}

impl Serving {
    /// The processes of the server and of its upstreams, as far as they run here.
    pub fn roots(&self) -> Roots {
        let Some(here) = &self.here else {
            return Roots::default();
        };
        Roots {
            subject: vec![here.server.pid()],
            backend: here.backends.iter().map(Started::pid).collect(),
            ..Roots::default()
        }
    }
}

impl Stage {
    /// Starts the servers of a cell, waits for the first expected response and stops them. Returns the seconds until
    /// then.
    pub fn check(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<f64, NoBlock> {
        let serving = self.serve(file, cell, seed)?;
        let ready_s = serving.ready_s;
        self.finish((file, cell), serving, Finish::Stop)?;
        Ok(ready_s)
    }

    /// Starts the servers of a cell and waits for the first expected response.
    pub(crate) fn serve(
        &self,
        file: &File,
        cell: &CellPlan,
        seed: u64,
    ) -> Result<Serving, NoBlock> {
        let not_started = |reason: String| NoBlock::Cell(CellState::DidNotStart(reason));
        let upstreams = self.upstreams_of(file, cell).map_err(not_started)?;
        if let Some(upstreams) = upstreams {
            upstreams.start(&cell.id, seed)?;
        }
        let mut served = self.serve_servers(file, cell, seed);
        if let (Some(upstreams), Err(_)) = (upstreams, &served) {
            // The next start, or the end of the run, stops them otherwise.
            let _ = upstreams.finish(false);
        }
        if let Ok(serving) = &mut served {
            serving.upstreams_apart = upstreams.is_some();
        }
        served
    }

    /// The same, with the upstreams of other machines running.
    fn serve_servers(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<Serving, NoBlock> {
        let not_started = |reason: String| NoBlock::Cell(CellState::DidNotStart(reason));
        let Some(remote) = &self.remote else {
            return self.serve_here(file, cell, seed).map_err(not_started);
        };
        let plan = self.plan(file, cell, seed).map_err(not_started)?;
        let ready_s = remote.start(&cell.id, seed)?;
        let response = responds(&plan).map_err(|error| {
            // The next start, or the end of the run, stops them otherwise.
            let _ = remote.finish(false);
            let (name, url) = (remote.name(), &plan.target.url);
            not_started(format!(
                "it responds on {name}, but {url} from here does not: {error}"
            ))
        })?;
        Ok(Serving {
            plan,
            response,
            ready_s,
            upstreams_apart: false,
            here: None,
        })
    }

    fn serve_here(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<Serving, String> {
        let backends = self.upstreams_beside(file, cell)?;
        let plan = self.plan(file, cell, seed)?;
        let began = Instant::now();
        let mut server = self.start_subject(file, cell)?;
        let response = ready(&plan, &mut server).map_err(|error| match self.address {
            Some(address) => format!("{error}; it has to listen on {address} (`{{address}}`)"),
            None => error,
        })?;
        Ok(Serving {
            plan,
            response,
            ready_s: began.elapsed().as_secs_f64(),
            upstreams_apart: false,
            here: Some(Here {
                backends,
                server,
                before: None,
                accepted: None,
            }),
        })
    }

    /// What to sample during the load of these servers.
    pub(crate) fn watching(&self, serving: &Serving) -> Watch<'_> {
        Watch {
            roots: serving.roots(),
            remote: self.remote.as_ref(),
            upstreams: self.upstreams().filter(|_| serving.upstreams_apart),
        }
    }

    /// Notes all counters before a load. The machine of the servers does so by itself when it begins to sample.
    pub(crate) fn begin(
        &self,
        (file, cell): (&File, &CellPlan),
        serving: &mut Serving,
    ) -> Result<(), String> {
        let Some(here) = &mut serving.here else {
            return Ok(());
        };
        let parts = self.check_parts(file, cell)?;
        if let (Some(allowed), true) = (&self.allowed, parts.iter().any(|p| p.calls.is_some())) {
            allowed.tracer()?;
        }
        let observed = self.observed_here((file, cell), &parts);
        for part in observed.iter().filter_map(|part| part.metric.as_ref()) {
            self.own_port(&part.url)?;
        }
        let log = match &file.subject[&cell.subject].log {
            None => None,
            Some(written) => {
                let path = self.log_path(&self.fill(written, file, cell)?)?;
                let end = log_end(&path);
                Some((path, end))
            }
        };
        here.before = Some(Before {
            logs: Logs::begin(&parts, |path| self.log_path(path))?,
            parts,
            observed,
            log,
            counts: self.counts(file, cell),
            accepted: machine::accepted(),
        });
        Ok(())
    }

    /// Notes what counts until the end of a load only.
    pub(crate) fn loaded(&self, serving: &mut Serving) {
        if let Some(here) = &mut serving.here {
            here.accepted = machine::accepted();
        }
    }

    /// Stops the servers of a cell, and then their upstreams.
    pub(crate) fn finish(
        &self,
        cell: (&File, &CellPlan),
        serving: Serving,
        finish: Finish,
    ) -> Result<Ended, NoBlock> {
        let upstreams = self.upstreams().filter(|_| serving.upstreams_apart);
        let ended = self.finish_servers(cell, serving, finish);
        let behind = upstreams.map(|upstreams| upstreams.finish(finish == Finish::Observe));
        let mut ended = ended?;
        if let Some(behind) = behind {
            ended.join(behind?, self.network());
        }
        Ok(ended)
    }

    fn finish_servers(
        &self,
        (file, cell): (&File, &CellPlan),
        serving: Serving,
        finish: Finish,
    ) -> Result<Ended, NoBlock> {
        let roots = serving.roots();
        let Some(here) = serving.here else {
            let remote = self.remote.as_ref().expect("servers run here or there");
            return Ok(remote.finish(finish == Finish::Observe)?);
        };
        // The upstreams run until the end of the block.
        let Here {
            backends: _backends,
            mut server,
            before,
            accepted,
        } = here;
        let mut ended = Ended::default();
        let before = before.filter(|_| finish == Finish::Observe);
        if before.is_some() {
            thread::sleep(COUNTS_SETTLE);
        }
        ended.ended = server.ended();
        let mut shared = None;
        if let Some(before) = before {
            ended.counts = difference(before.counts, self.counts(file, cell));
            if !file.load.rest.memory.is_zero() {
                thread::sleep(file.load.rest.memory);
                ended.rss_after_bytes = Some(sample::memory(&roots.subject));
            }
            let own = self.own_addresses();
            let observed = observe(&before.observed, &serving.plan, &roots.subject, &own);
            server.stop();
            ended.observed = Observed {
                log_lines: before.logs.end(self.dir()),
                ..observed
            };
            let grown = before.accepted.zip(accepted);
            let grown = grown.map(|(before, after)| after.saturating_sub(before));
            let grown = grown.filter(|_| !self.has_socket(file, cell));
            ended.accepted = grown.map(Accepted::WithClients);
            shared = before.log;
            ended.parts = before.parts;
        }
        server.stop();
        ended.log = server.log();
        if let Some((path, begin)) = &shared {
            ended.log.extend(lines_since(path, *begin));
        }
        Ok(ended)
    }

    /// The path of a log that the file names. On the machine of a coordinator's servers it is in the folder of the run.
    pub(super) fn log_path(&self, path: &str) -> Result<PathBuf, String> {
        let log = PathBuf::from(path);
        let escapes = log.components().any(|part| part == Component::ParentDir);
        if self.allowed.is_some() && (escapes || !log.starts_with(self.dir())) {
            return Err(format!(
                "log `{path}` is not in the folder of the run ({{dir}}), and others are not read for a coordinator"
            ));
        }
        Ok(log)
    }

    /// Checks the URL of a metric. On the machine of a coordinator's servers its port is one of the run.
    pub(super) fn own_port(&self, url: &str) -> Result<(), String> {
        if self.allowed.is_none() {
            return Ok(());
        }
        let target = Target::parse(url, HttpVersion::Http1, None, Reach::Anywhere);
        let address = target.map_err(|error| error.text)?.address;
        if !is_own(&address, &self.own_addresses()) {
            return Err(format!(
                "metric: {url} is not on the machine of the server, and others are not asked for a coordinator"
            ));
        }
        let port = match address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        };
        let own = [self.port, self.admin_port, self.spare_port];
        let is_of_run = |port: u16| {
            let name = port.to_string();
            own.contains(&port) || self.places.values().any(|place| *place == name)
        };
        match port.is_some_and(is_of_run) {
            true => Ok(()),
            false => Err(format!(
                "metric: {url} has no port of the run, such as {{port}} or {{admin}}, and others are not asked for a coordinator"
            )),
        }
    }

    fn start_subject(&self, file: &File, cell: &CellPlan) -> Result<Started, String> {
        let subject = &file.subject[&cell.subject];
        let kind = file.test[&cell.test].kind.as_ref().unwrap_or(&cell.test);
        let run = match &subject.run {
            Run::One(run) => run,
            Run::ByKind(by_kind) => by_kind
                .get(kind)
                .ok_or_else(|| format!("{} has no command for {kind}", cell.subject))?,
        };
        if let Some(config) = self.config(file, cell)? {
            let path = self.conf_path(cell);
            fs::write(&path, &config.text)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        for (name, config) in self.beside(file, cell)? {
            self.write(&name, config.text.as_bytes())?;
        }
        let command = self.command(run, &self.names_with_conf(file, cell))?;
        let env = filled(&subject.env, &self.names(file, cell))?;
        let log = self.dir().join(format!("{}.log", plain(&cell.subject)));
        let dir = subject.in_folder.then(|| self.dir());
        Started::start(&command, &env, &self.subject_cpus, dir, &log)
            .map_err(|error| format!("{}: {error}", cell.subject))
    }

    pub(super) fn counts_path(&self, name: &str) -> PathBuf {
        self.dir().join(format!("backend-{name}.counts"))
    }

    pub(super) fn counts(&self, file: &File, cell: &CellPlan) -> Option<BackendCounts> {
        let needs = self.needs(file, cell).ok()?;
        read_counts(&self.counts_path(needs.first()?))
    }
}

/// How much counters grew.
pub(super) fn difference(
    before: Option<BackendCounts>,
    after: Option<BackendCounts>,
) -> Option<BackendCounts> {
    let (before, after) = (before.unwrap_or_default(), after?);
    Some(BackendCounts {
        accepted: after.accepted.saturating_sub(before.accepted),
        requests: after.requests.saturating_sub(before.requests),
    })
}
