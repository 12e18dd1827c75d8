//! The stage of a run: a folder with made files and configurations, ports, processors; and one block on it, from a fresh
//! server to its end.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::file::{File, Pin, Run, Test, read_conf};
use super::plan::CellPlan;
use crate::backend::read_counts;
use crate::hit::made_body;
use crate::live::Live;
use crate::load::expect::{BodyExpect, Expect};
use crate::load::probe::{Probe, probe};
use crate::load::request::Draft;
use crate::load::target::{Reach, Target};
use crate::load::{self, Plan};
use crate::machine;
use crate::result::{
    BackendCounts, Block, CellState, Check, ConfigText, Load, Mark, MarkKind, Mode,
};
use crate::sample::{self, Roots, Samples};
use crate::subject::{Names, Started, fill, last_lines, words};

/// How long a server may take to its first right answer.
const READY_MAX: Duration = Duration::from_secs(15);

/// Between two tries whether a server is there.
const READY_PAUSE: Duration = Duration::from_millis(20);

/// A backend's counts are in its file after so long at the latest.
const COUNTS_SETTLE: Duration = Duration::from_millis(120);

/// Work of the busiest thread of the generator above which throughput may be its own.
const GENERATOR_BUSY_MAX: f64 = 0.85;

/// Processors used by others above which a block is marked.
const FOREIGN_MAX: f64 = 0.10;

/// Share of stolen time above which a block is marked.
const STEAL_MAX: f64 = 0.02;

/// Folder, ports and processors of a run.
pub struct Stage {
    dir: PathBuf,
    beside: PathBuf,
    /// For the subject.
    port: u16,
    /// For the subject's own interface, if it has one.
    admin_port: u16,
    /// By name of backend.
    backend_ports: BTreeMap<String, u16>,
    subject_cpus: Vec<usize>,
    load_cpus: Vec<usize>,
}

impl Stage {
    /// Makes the folder and what belongs into it.
    pub fn build(file: &File, beside: &Path, seed: u64) -> Result<Self, String> {
        let dir = std::env::temp_dir().join(format!("sluice-lab-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        readable_by_all(&dir).map_err(failed)?;
        for (at, made) in file.file.iter().enumerate() {
            let path = dir.join(&made.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            fs::write(path, made_body(made.bytes, seed + at as u64)).map_err(failed)?;
        }
        let mut ports = free_ports(file.backend.len() + 2).map_err(failed)?;
        let port = ports.pop().unwrap_or_default();
        let admin_port = ports.pop().unwrap_or_default();
        let backend_ports = file.backend.iter().zip(ports);
        let (subject_cpus, load_cpus) = split(file.place.pin, machine::processors());
        Ok(Stage {
            beside: beside.to_path_buf(),
            port,
            admin_port,
            backend_ports: backend_ports
                .map(|(backend, port)| (backend.name.clone(), port))
                .collect(),
            dir,
            subject_cpus,
            load_cpus,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the folder.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Who has which processors.
    pub fn placement(&self) -> BTreeMap<String, Vec<usize>> {
        let parts = [
            ("subject", &self.subject_cpus),
            ("generator", &self.load_cpus),
            ("backend", &self.load_cpus),
        ];
        parts
            .map(|(name, cpus)| (name.to_string(), cpus.clone()))
            .into()
    }

    /// The configurations of a subject as it gets them, each once.
    pub fn configs(&self, file: &File, cells: &[CellPlan], subject: &str) -> Vec<ConfigText> {
        let mut configs: Vec<ConfigText> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.subject == subject) {
            if let Ok(Some(config)) = self.config(file, cell)
                && !configs
                    .iter()
                    .any(|known| known.used_for == config.used_for)
            {
                configs.push(config);
            }
        }
        configs
    }

    /// One block of one cell.
    pub fn block(
        &self,
        file: &File,
        cell: &CellPlan,
        seed: u64,
        live: &mut Live,
    ) -> Result<Block, CellState> {
        let not_started = CellState::DidNotStart;
        let test = &file.test[&cell.test];
        let started_at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut backends = Vec::new();
        for name in &test.needs {
            backends.push(self.start_backend(file, name).map_err(not_started)?);
        }
        let plan = self.plan(file, cell, seed).map_err(not_started)?;
        let began = Instant::now();
        let mut server = self.start_subject(file, cell).map_err(not_started)?;
        let answer = ready(&plan, &mut server).map_err(not_started)?;
        let ready_s = began.elapsed().as_secs_f64();
        let before = self.counts(test);
        let roots = Roots {
            subject: vec![server.pid()],
            backend: backends.iter().map(Started::pid).collect(),
        };
        let (mut load, samples, window) = load_and_watch(&plan, &roots, live)
            .map_err(|error| not_started(format!("the load broke off: {error}")))?;
        load.answer = Some(answer.answered());
        thread::sleep(COUNTS_SETTLE);
        let counts = difference(before, self.counts(test));
        let ended = server.ended();
        let mut resources = samples.over(window.0, window.1);
        resources.backend_counts.clone_from(&counts);
        server.stop();
        let mut log = server.log();
        if let Some(path) = &file.subject[&cell.subject].log {
            let path = self.fill(path, file, cell).map_err(not_started)?;
            log.extend(last_lines(Path::new(&path)));
        }
        let mut block = Block {
            started_unix_ms: started_at.as_millis() as u64,
            ready_s: Some(ready_s),
            checks: checks(test, &load, counts.as_ref()),
            load,
            resources: Some(resources),
            log,
            ..Block::default()
        };
        block.marks = marks(&block, ended);
        Ok(block)
    }

    fn names(&self, file: &File, cell: &CellPlan) -> Names {
        let test = &file.test[&cell.test];
        let kind = test.kind.as_ref().unwrap_or(&cell.test);
        let exe = std::env::current_exe().unwrap_or_default();
        let root = rustix::process::geteuid().is_root();
        let mut names = Names::from([
            ("dir".into(), self.dir.display().to_string()),
            ("port".into(), self.port.to_string()),
            ("admin".into(), self.admin_port.to_string()),
            ("config".into(), cell.config.clone()),
            ("kind".into(), kind.clone()),
            ("clients".into(), cell.clients.to_string()),
            ("lab".into(), exe.display().to_string()),
            // Started by root, nginx gives its workers to a user who may not read a private folder.
            (
                "user".into(),
                if root {
                    "user root;".into()
                } else {
                    String::new()
                },
            ),
        ]);
        if let Some(path) = &test.expect.file {
            names.insert("file".into(), self.dir.join(path).display().to_string());
        }
        for (name, port) in &self.backend_ports {
            names.insert(format!("backend.{name}"), port.to_string());
        }
        names
    }

    fn fill(&self, text: &str, file: &File, cell: &CellPlan) -> Result<String, String> {
        let mut names = self.names(file, cell);
        names.insert("conf".into(), self.conf_path(cell).display().to_string());
        fill(text, &names)
    }

    fn conf_path(&self, cell: &CellPlan) -> PathBuf {
        self.dir.join(format!("{}.conf", cell.subject))
    }

    /// The configuration of a cell with ports and paths put in.
    fn config(&self, file: &File, cell: &CellPlan) -> Result<Option<ConfigText>, String> {
        let Some(conf) = &file.subject[&cell.subject].conf else {
            return Ok(None);
        };
        let names = self.names(file, cell);
        let conf = fill(conf, &names)?;
        let mut text = read_conf(&conf, &self.beside)?;
        let mut rewritten = Vec::new();
        for rewrite in &file.rewrite {
            let to = fill(&rewrite.to, &names)?;
            if text.contains(&rewrite.from) {
                text = text.replace(&rewrite.from, &to);
                rewritten.push((rewrite.from.clone(), to));
            }
        }
        Ok(Some(ConfigText {
            used_for: conf,
            text,
            rewritten,
        }))
    }

    fn start_backend(&self, file: &File, name: &str) -> Result<Started, String> {
        let backend = file.backend.iter().find(|backend| backend.name == name);
        let backend = backend.ok_or_else(|| format!("no backend `{name}`"))?;
        let port = self.backend_ports[name];
        let exe = std::env::current_exe().unwrap_or_default();
        let names = Names::from([
            ("dir".into(), self.dir.display().to_string()),
            ("port".into(), port.to_string()),
            ("lab".into(), exe.display().to_string()),
            (
                "counts".into(),
                self.counts_path(name).display().to_string(),
            ),
        ]);
        let command = words(&fill(&backend.run, &names)?)?;
        let log = self.dir.join(format!("backend-{name}.log"));
        let mut started = Started::start(&command, &Names::new(), &self.load_cpus, &log)
            .map_err(|error| format!("backend {name}: {error}"))?;
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = started.ended() {
                let log = started.log().join(" / ");
                return Err(format!("backend {name} ended with {status}: {log}"));
            }
            if begin.elapsed() > READY_MAX {
                return Err(format!("backend {name} does not listen"));
            }
            thread::sleep(READY_PAUSE);
        }
        Ok(started)
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
        let command = words(&self.fill(run, file, cell)?)?;
        let env = subject.env.iter();
        let env: Result<Names, String> = env
            .map(|(name, value)| Ok((name.clone(), self.fill(value, file, cell)?)))
            .collect();
        let log = self.dir.join(format!("{}.log", cell.subject));
        Started::start(&command, &env?, &self.subject_cpus, &log)
            .map_err(|error| format!("{}: {error}", cell.subject))
    }

    /// What is asked of the subject.
    fn plan(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<Plan, String> {
        let test = &file.test[&cell.test];
        let url = format!("http://127.0.0.1:{}{}", self.port, test.path);
        let target =
            Target::parse(&url, false, None, Reach::Loopback).map_err(|error| error.text)?;
        let fields = file.load.headers.iter();
        let body = made_body(test.body_bytes, seed);
        let draft = Draft {
            method: test.method.clone().unwrap_or_else(|| "GET".into()),
            path: target.path.clone(),
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body: body.into(),
            close: file.load.requests_per_connection == Some(1),
        };
        let prepared = draft.prepare(&target, self.expect(file, test)?)?;
        let mode = match file.load.rate {
            None => Mode::Closed,
            Some(rate) => Mode::Open {
                rate,
                poisson: file.load.poisson,
            },
        };
        Ok(Plan {
            target,
            tls: None,
            requests: vec![prepared],
            mode,
            connections: cell.clients,
            depth: file.load.depth,
            requests_per_connection_max: file.load.requests_per_connection,
            threads: self.load_cpus.len().max(1),
            cpus: self.load_cpus.clone(),
            requests_max: None,
            warmup: file.load.warmup,
            duration: file.load.duration,
            drain: file.load.timeout,
            timeout: file.load.timeout,
            failure_pause: file.load.failure_pause,
            seed,
        })
    }

    fn expect(&self, file: &File, test: &Test) -> Result<Expect, String> {
        let part = &test.expect;
        let bytes: Option<Arc<[u8]>> = if let Some(body) = &part.body {
            Some(body.as_bytes().into())
        } else if let Some(path) = &part.file {
            let path = self.dir.join(path);
            let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Some(read.into())
        } else if let Some(name) = &part.body_of {
            let backend = file.backend.iter().find(|backend| &backend.name == name);
            let body = backend.and_then(|backend| backend.body.as_ref());
            body.map(|body| body.as_bytes().into())
        } else {
            None
        };
        let every = part.every.unwrap_or(1).max(1);
        Ok(Expect {
            status: part.status,
            body: bytes.map_or(BodyExpect::Any, |bytes| BodyExpect::Exact { bytes, every }),
            fields: Vec::new(),
        })
    }

    fn counts_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("backend-{name}.counts"))
    }

    fn counts(&self, test: &Test) -> Option<BackendCounts> {
        read_counts(&self.counts_path(test.needs.first()?))
    }
}

/// Loads while processes are watched. Gives the window, too.
fn load_and_watch(
    plan: &Plan,
    roots: &Roots,
    live: &mut Live,
) -> std::io::Result<(Load, Samples, (Instant, Instant))> {
    let stop = AtomicBool::new(false);
    live.watch(roots);
    thread::scope(|scope| {
        let watching = scope.spawn(|| sample::watch(roots, &stop));
        let now = Instant::now();
        let mut window = (now, now);
        let load = load::run(plan, &mut |stage| {
            if let load::Stage::Window(begin, end) = stage {
                window = (begin, end);
            }
            live.look(&stage);
        });
        stop.store(true, Ordering::Release);
        let samples = watching
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((load?, samples, window))
    })
}

/// Waits until a server gives the right answer.
fn ready(plan: &Plan, server: &mut Started) -> Result<Probe, String> {
    let begin = Instant::now();
    let expect = &plan.requests[0].expect;
    loop {
        let wrong = match probe(&plan.target, plan.tls.as_ref(), &plan.requests[0]) {
            Ok(answer) => match wrong(expect, &answer) {
                None => return Ok(answer),
                Some(wrong) => wrong,
            },
            Err(fault) => format!("{} ({})", fault.class.words(), fault.text),
        };
        if let Some(status) = server.ended() {
            return Err(format!(
                "it ended with {status}{}",
                server_words(&server.log())
            ));
        }
        if begin.elapsed() > READY_MAX {
            return Err(format!(
                "no right answer in {READY_MAX:?}: {wrong}{}",
                server_words(&server.log())
            ));
        }
        thread::sleep(READY_PAUSE);
    }
}

fn server_words(log: &[String]) -> String {
    match log.last() {
        Some(last) => format!("; its last words: {last}"),
        None => String::new(),
    }
}

fn wrong(expect: &Expect, answer: &Probe) -> Option<String> {
    if answer.status != expect.status {
        return Some(format!(
            "status {} instead of {}",
            answer.status, expect.status
        ));
    }
    match &expect.body {
        BodyExpect::Exact { bytes, .. } if **bytes != *answer.body => Some(format!(
            "another body: {} bytes instead of {}",
            answer.body.len(),
            bytes.len()
        )),
        BodyExpect::Exact { .. } | BodyExpect::Length(_) | BodyExpect::Any => None,
    }
}

fn difference(
    before: Option<BackendCounts>,
    after: Option<BackendCounts>,
) -> Option<BackendCounts> {
    let (before, after) = (before.unwrap_or_default(), after?);
    Some(BackendCounts {
        accepted: after.accepted.saturating_sub(before.accepted),
        requests: after.requests.saturating_sub(before.requests),
    })
}

/// Whether what the experiment claims really acted.
fn checks(test: &Test, load: &Load, counts: Option<&BackendCounts>) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(claim) = &test.assert.backend_requests {
        let answered = load.connections.answered;
        let failed = load.failed() + load.censored.unanswered;
        let seen = counts.map(|counts| counts.requests);
        checks.push(Check {
            claim: format!("backend_requests {claim}"),
            seen: match seen {
                Some(seen) => format!("{seen} requests at the backend for {answered} good answers"),
                None => "the backend does not count".into(),
            },
            // Requests that failed may have reached the backend or not; good answers did, unless something answered
            // for it.
            holds: seen.map(|seen| {
                seen >= answered && seen <= answered + failed + load.asked.connections as u64
            }),
        });
    }
    if let Some(claim) = &test.assert.upstream_reuse {
        let least = claim
            .trim_start_matches(['>', '=', ' '])
            .parse::<f64>()
            .ok();
        let reuse = counts.filter(|counts| counts.requests > 0).map(|counts| {
            1.0 - counts.accepted.min(counts.requests) as f64 / counts.requests as f64
        });
        checks.push(Check {
            claim: format!("upstream_reuse {claim}"),
            seen: reuse.map_or("nothing was counted".into(), |reuse| format!("{reuse:.3}")),
            holds: least.zip(reuse).map(|(least, reuse)| reuse >= least),
        });
    }
    checks
}

/// Why a block may mislead.
fn marks(block: &Block, ended: Option<String>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut mark = |kind, text: String| marks.push(Mark { kind, text });
    if let Some(status) = ended {
        mark(MarkKind::Ended, format!("the server ended: {status}"));
    }
    let load = &block.load;
    let ours = load
        .failures
        .iter()
        .filter(|failures| failures.class.is_ours());
    let ours: u64 = ours.map(|failures| failures.count).sum();
    if ours > 0 {
        mark(
            MarkKind::Unusable,
            format!("{ours} requests failed on this side"),
        );
    }
    if load.failed() > 0 {
        mark(
            MarkKind::Failures,
            format!("{} requests failed", load.failed()),
        );
    }
    if let Some(generator) = load
        .generator
        .as_ref()
        .filter(|g| g.busiest > GENERATOR_BUSY_MAX)
    {
        let percent = generator.busiest * 100.0;
        mark(
            MarkKind::GeneratorLimited,
            format!("generator {percent:.0} % at work"),
        );
    }
    if let Some(system) = block.resources.as_ref().map(|resources| &resources.system) {
        if system.foreign > FOREIGN_MAX {
            mark(
                MarkKind::Disturbed,
                format!("others used {:.2} processors", system.foreign),
            );
        }
        if system.steal > STEAL_MAX {
            mark(
                MarkKind::Disturbed,
                format!("{:.1} % stolen", system.steal * 100.0),
            );
        }
    }
    for check in block
        .checks
        .iter()
        .filter(|check| check.holds == Some(false))
    {
        mark(
            MarkKind::Unusable,
            format!("{} does not hold: {}", check.claim, check.seen),
        );
    }
    marks
}

/// Processors of the subject and of the generator.
fn split(pin: Pin, cpus: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
    match pin {
        Pin::None => (Vec::new(), Vec::new()),
        Pin::Split if cpus.len() < 2 => (cpus.clone(), cpus),
        Pin::Split => {
            let (subject, load) = cpus.split_at(cpus.len() / 2);
            (subject.to_vec(), load.to_vec())
        }
    }
}

/// Ports that nobody has now, below those that the kernel gives to connections.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let (first, _) = machine::local_ports();
    let seed = u64::from(std::process::id());
    let mut candidates: Vec<u16> = (10_000.min(first / 2)..first).collect();
    crate::random::Random::new(seed).shuffle(&mut candidates);
    let free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    let found: Vec<u16> = candidates.into_iter().filter(free).take(count).collect();
    if found.len() == count {
        return Ok(found);
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::AddrInUse,
        "no free ports",
    ))
}

/// Servers that give up their rights read below this folder.
fn readable_by_all(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_split_where_there_are_two() {
        assert_eq!(
            split(Pin::Split, vec![0, 1, 2, 3]),
            (vec![0, 1], vec![2, 3])
        );
        assert_eq!(split(Pin::Split, vec![4]), (vec![4], vec![4]));
        assert_eq!(split(Pin::None, vec![0, 1]), (vec![], vec![]));
    }

    #[test]
    fn a_hidden_cache_is_seen_by_the_backend_s_counts() {
        let text = super::super::file::builtin("000").unwrap();
        let file = super::super::file::parse("000", text).unwrap();
        let mut load = Load::default();
        load.connections.answered = 1_000;
        let holds = |requests| {
            let counts = BackendCounts {
                accepted: 1,
                requests,
            };
            checks(&file.test["proxy"], &load, Some(&counts))[0].holds
        };
        assert_eq!((holds(1_000), holds(5)), (Some(true), Some(false)));
        assert_eq!(checks(&file.test["proxy"], &load, None)[0].holds, None);
    }
}
