//! The environment of a run: a folder with generated files and configurations, ports, CPUs; and running one block in
//! it, from the start of a fresh server to its end. The load of a block is in `load`.

mod load;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, KeyPair, RsaKeySize};

use super::agent::Fleet;
use super::builtin::read_conf;
use super::checks::{self, Logs, Observed, Seen, observe};
use super::file::{Backend, CheckPart, File, Pin, Run};
use super::folder::Folder;
use super::marks;
use super::plan::CellPlan;
use super::ports::free_ports;
use crate::progress::Progress;
use crate::readiness::{READY_MAX, READY_PAUSE, ready};
use sluice_load::backend::{Corpus, read_counts};
use sluice_load::generator::Plan;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::probe::Probe;
use sluice_load::machine;
use sluice_load::process::{self, Names, Started, fill, lines_since, log_end, words};
use sluice_load::random::made_body;
use sluice_load::result::{BackendCounts, Block, CellState, ConfigText};
use sluice_load::sample::{self, Roots};

/// Maximum delay until an upstream's counters are in its file.
const COUNTS_SETTLE: Duration = Duration::from_millis(120);

/// The file with the certificates that clients trust.
const TRUSTED: &str = "trusted.crt";

/// Folder, ports and CPUs of a run.
pub struct Stage {
    folder: Folder,
    beside: PathBuf,
    /// Port of the server under test.
    port: u16,
    /// Port of its admin endpoint, if it has one.
    admin_port: u16,
    /// Port of a second listener.
    spare_port: u16,
    /// The address at which agents reach the server under test, if it is not the loopback address.
    address: Option<IpAddr>,
    /// Port or socket path, by name of the upstream.
    backends: BTreeMap<String, String>,
    subject_cpus: Vec<usize>,
    load_cpus: Vec<usize>,
    corpus: Corpus,
    /// Rates of cells that are shares of a limit, by ID of the cell.
    rates: BTreeMap<String, f64>,
    /// Ends the current block early.
    pub interrupt: Interrupt,
    /// Reserve the ports against other labs on this machine during the run.
    _holds: Vec<UnixListener>,
}

/// Why there are no figures of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum NoBlock {
    /// The cell cannot be measured.
    Cell(CellState),
    /// An agent failed or is lost; the cell may be measured with others.
    Agents(String),
}

impl From<CellState> for NoBlock {
    fn from(state: CellState) -> Self {
        NoBlock::Cell(state)
    }
}

/// The servers of a cell, after their first expected response.
pub(crate) struct Serving {
    backends: Vec<Started>,
    /// The load of the cell.
    pub plan: Plan,
    /// The server under test.
    pub server: Started,
    /// Its first expected response.
    pub response: Probe,
    ready_s: f64,
}

impl Serving {
    /// The processes of the server and of its upstreams.
    pub fn roots(&self) -> Roots {
        Roots {
            subject: vec![self.server.pid()],
            backend: self.backends.iter().map(Started::pid).collect(),
            ..Roots::default()
        }
    }
}

impl Stage {
    /// Creates the folder and its contents.
    pub fn build(file: &File, beside: &Path, seed: u64) -> Result<Self, String> {
        let folder = Folder::make()?;
        let failed = |error: std::io::Error| format!("{}: {error}", folder.path().display());
        let (mut ports, holds) = free_ports(file.backend.len() + 3).map_err(failed)?;
        let mut take = || ports.pop().unwrap_or_default();
        let (port, admin_port, spare_port) = (take(), take(), take());
        let place = |backend: &Backend, port: u16| match backend.unix {
            true => folder
                .path()
                .join(format!("{}.sock", backend.name))
                .display()
                .to_string(),
            false => port.to_string(),
        };
        let backends = file.backend.iter().zip(ports);
        let backends = backends
            .map(|(backend, port)| (backend.name.clone(), place(backend, port)))
            .collect();
        let (subject_cpus, load_cpus) =
            split(file.place.pin, &machine::cores(&machine::processors()));
        let stage = Stage {
            folder,
            beside: beside.to_path_buf(),
            port,
            admin_port,
            spare_port,
            address: own_address(file.place.address)?,
            backends,
            subject_cpus,
            load_cpus,
            corpus: Corpus::make(file.corpus.map_or(0, |corpus| corpus.count)),
            rates: BTreeMap::new(),
            interrupt: Interrupt::default(),
            _holds: holds,
        };
        if file.test.values().any(|test| test.tls) {
            stage.make_certificates()?;
        }
        for (at, made) in file.file.iter().enumerate() {
            let bytes = match &made.from {
                Some(from) => stage
                    .rewritten(file, from, &stage.common_names())?
                    .text
                    .into(),
                None => match &made.line {
                    Some(line) => repeated(line, made.count),
                    None => made_body(made.bytes.unwrap_or_default(), seed + at as u64),
                },
            };
            stage.write(&made.path, &bytes)?;
        }
        Ok(stage)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// The rate of a cell with a share of a limit, in requests per second.
    pub fn set_rate(&mut self, cell: &str, rate: f64) {
        self.rates.insert(cell.to_string(), rate);
    }

    /// Keeps the folder when the run is over.
    pub fn keep(self) {
        self.folder.keep();
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.dir().join(path);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, bytes).map_err(failed)
    }

    /// Self-signed certificates for this machine: with a P-256 key as benchmark kits and public CAs use it (`site`), and with an
    /// RSA key of 2,048 bits (`site-rsa`).
    fn make_certificates(&self) -> Result<(), String> {
        let failed = |error: rcgen::Error| format!("the certificate: {error}");
        let names = ["localhost".to_string(), "127.0.0.1".to_string()];
        let params = CertificateParams::new(names).map_err(failed)?;
        let ecdsa = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048);
        let mut trusted = String::new();
        for (name, key) in [("site", ecdsa), ("site-rsa", rsa.map_err(failed)?)] {
            let certificate = params.self_signed(&key).map_err(failed)?.pem();
            let key = key.serialize_pem();
            self.write(&format!("{name}.crt"), certificate.as_bytes())?;
            self.write(&format!("{name}.key"), key.as_bytes())?;
            self.write(
                &format!("{name}.pem"),
                format!("{certificate}{key}").as_bytes(),
            )?;
            trusted += &certificate;
        }
        self.write(TRUSTED, trusted.as_bytes())
    }

    /// The CPUs assigned to each role.
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

    /// The configurations of a server with placeholders replaced, each once.
    pub fn configs(&self, file: &File, cells: &[CellPlan], subject: &str) -> Vec<ConfigText> {
        let mut configs: Vec<ConfigText> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.subject == subject) {
            let main = self.config(file, cell).ok().flatten();
            let beside = self.beside(file, cell).unwrap_or_default();
            let beside = beside.into_iter().map(|(_, config)| config);
            for config in main.into_iter().chain(beside) {
                let known = |known: &ConfigText| known.used_for == config.used_for;
                if !configs.iter().any(known) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    /// CPUs of the load generator, for agents on this machine.
    pub fn load_cpus(&self) -> &[usize] {
        &self.load_cpus
    }

    /// Runs one block of one cell, with a load from the agents if there are any.
    pub fn block(
        &self,
        (file, cell): (&File, &CellPlan),
        seed: u64,
        fleet: Option<&mut Fleet>,
        live: &mut dyn Progress,
    ) -> Result<Block, NoBlock> {
        let not_started = CellState::DidNotStart;
        let test = &file.test[&cell.test];
        let started_at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let shared = self.log_of(file, cell).map_err(not_started)?;
        let serving = self.serve(file, cell, seed).map_err(not_started)?;
        let roots = serving.roots();
        // The upstreams run until the end of the block.
        let Serving {
            backends: _backends,
            plan,
            mut server,
            response,
            ready_s,
        } = serving;
        let parts = self.check_parts(file, cell).map_err(not_started)?;
        let logs = Logs::begin(&parts);
        let (before, accepted) = (self.counts(file, cell), machine::accepted());
        let (mut load, samples, window) = self.load((file, cell), &plan, &roots, fleet, live)?;
        load.response = Some(response.first_response());
        let accepted = accepted.zip(machine::accepted());
        thread::sleep(COUNTS_SETTLE);
        let counts = difference(before, self.counts(file, cell));
        let ended = server.ended();
        let mut resources = samples.over(window.0, window.1);
        resources.backend_counts.clone_from(&counts);
        if !file.load.rest.memory.is_zero() {
            thread::sleep(file.load.rest.memory);
            resources.subject.rss_after_bytes = Some(sample::memory(&roots.subject));
        }
        let observed = observe(&parts, &plan, &roots.subject);
        server.stop();
        let observed = Observed {
            log_lines: logs.end(self.dir()),
            ..observed
        };
        let mut log = server.log();
        if let Some((path, begin)) = &shared {
            log.extend(lines_since(path, *begin));
        }
        let seen = Seen {
            load: &load,
            counts: counts.as_ref(),
            accepted: accepted
                .filter(|_| !self.has_socket(file, cell))
                .map(|(before, after)| after.saturating_sub(before)),
            resources: &resources,
            observed: &observed,
        };
        let mut block = Block {
            started_unix_ms: started_at.as_millis() as u64,
            ready_s: Some(ready_s),
            checks: checks::checks(test, parts.iter(), seen),
            load,
            resources: Some(resources),
            log,
            ..Block::default()
        };
        block.marks = marks::marks(&block, ended);
        Ok(block)
    }

    /// The checks that apply to a cell, with their placeholders filled in.
    fn check_parts(&self, file: &File, cell: &CellPlan) -> Result<Vec<CheckPart>, String> {
        let parts = file.check.iter().filter(|part| concerns(&part.when, cell));
        let parts = parts.map(|part| {
            let mut part = part.clone();
            for text in part.texts() {
                *text = self.fill(text, file, cell)?;
            }
            Ok(part)
        });
        parts.collect()
    }

    /// The log that a server writes in addition to its output, and the offset at which the next block's lines begin:
    /// blocks share it.
    fn log_of(&self, file: &File, cell: &CellPlan) -> Result<Option<(PathBuf, u64)>, String> {
        let Some(path) = &file.subject[&cell.subject].log else {
            return Ok(None);
        };
        let path = PathBuf::from(self.fill(path, file, cell)?);
        let begin = log_end(&path);
        Ok(Some((path, begin)))
    }

    /// Starts the servers of a cell, waits for the first expected response and stops them. Returns the seconds until
    /// then.
    pub fn check(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<f64, CellState> {
        let mut serving = self
            .serve(file, cell, seed)
            .map_err(CellState::DidNotStart)?;
        serving.server.stop();
        Ok(serving.ready_s)
    }

    /// Starts the servers of a cell and waits for the first expected response.
    pub(crate) fn serve(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<Serving, String> {
        let mut backends = Vec::new();
        for name in self.needs(file, cell)? {
            backends.push(self.start_backend(file, cell, &name)?);
        }
        let plan = self.plan(file, cell, seed)?;
        let began = Instant::now();
        let mut server = self.start_subject(file, cell)?;
        let response = ready(&plan, &mut server).map_err(|error| match self.address {
            Some(address) => format!("{error}; it has to listen on {address} (`{{address}}`)"),
            None => error,
        })?;
        Ok(Serving {
            backends,
            plan,
            server,
            response,
            ready_s: began.elapsed().as_secs_f64(),
        })
    }

    /// Names of the cell's upstreams. A name with placeholders that matches none is skipped.
    pub fn needs(&self, file: &File, cell: &CellPlan) -> Result<Vec<String>, String> {
        let names = self.names(file, cell);
        let mut needs = Vec::new();
        for written in &file.test[&cell.test].needs {
            let name = fill(written, &names)?;
            if self.backends.contains_key(&name) {
                needs.push(name);
            } else if !written.contains('{') {
                return Err(format!("there is no [[backend]] `{name}`"));
            }
        }
        Ok(needs)
    }

    /// Whether an upstream of the cell listens on a unix socket, whose connections the kernel does not count.
    fn has_socket(&self, file: &File, cell: &CellPlan) -> bool {
        let needs = self.needs(file, cell).unwrap_or_default();
        let sockets = |backend: &Backend| backend.unix && needs.contains(&backend.name);
        file.backend.iter().any(sockets)
    }

    /// Placeholders with the same value in the whole run.
    fn common_names(&self) -> Names {
        let exe = std::env::current_exe().unwrap_or_default();
        let root = rustix::process::geteuid().is_root();
        let path = |name: &str| self.dir().join(name).display().to_string();
        let mut names = Names::from([
            ("dir".into(), self.dir().display().to_string()),
            ("port".into(), self.port.to_string()),
            ("address".into(), {
                let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
                in_url(self.address.unwrap_or(loopback))
            }),
            ("listen".into(), self.port.to_string()),
            ("admin".into(), self.admin_port.to_string()),
            ("spare".into(), self.spare_port.to_string()),
            ("lab".into(), exe.display().to_string()),
            ("setup".into(), process::setup_dir().display().to_string()),
            ("cert".into(), path("site.crt")),
            ("key".into(), path("site.key")),
            ("pem".into(), path("site.pem")),
            // Started by root, nginx runs its workers as a user who may not read a private folder.
            (
                "user".into(),
                if root {
                    "user root;".into()
                } else {
                    String::new()
                },
            ),
        ]);
        for (name, place) in &self.backends {
            names.insert(format!("backend.{name}"), place.clone());
        }
        names
    }

    fn names(&self, file: &File, cell: &CellPlan) -> Names {
        let test = &file.test[&cell.test];
        let kind = test.kind.as_ref().unwrap_or(&cell.test);
        let mut names = self.common_names();
        let number: String = cell.config.chars().filter(char::is_ascii_digit).collect();
        let mut put = |name: &str, value: String| names.insert(name.into(), value);
        put("subject", plain(&cell.subject));
        put("test", cell.test.clone());
        put("config", cell.config.clone());
        put("config-number", number);
        put("kind", kind.clone());
        put("clients", cell.clients.to_string());
        if let Some(workers) = cell.workers {
            put("workers", workers.to_string());
        }
        if let Some(path) = &test.expect.file {
            put("file", self.dir().join(path).display().to_string());
        }
        let first = test.needs.first().map(|name| fill(name, &names));
        if let Some(place) = first.and_then(|name| self.backends.get(&name.ok()?)) {
            names.insert("upstream".into(), place.clone());
        }
        names
    }

    fn names_with_conf(&self, file: &File, cell: &CellPlan) -> Names {
        let mut names = self.names(file, cell);
        names.insert("conf".into(), self.conf_path(cell).display().to_string());
        names
    }

    fn fill(&self, text: &str, file: &File, cell: &CellPlan) -> Result<String, String> {
        fill(text, &self.names_with_conf(file, cell))
    }

    fn conf_path(&self, cell: &CellPlan) -> PathBuf {
        self.dir().join(format!("{}.conf", plain(&cell.subject)))
    }

    /// The configuration of a cell with ports and paths filled in.
    fn config(&self, file: &File, cell: &CellPlan) -> Result<Option<ConfigText>, String> {
        let Some(conf) = &file.subject[&cell.subject].conf else {
            return Ok(None);
        };
        self.rewritten(file, conf, &self.names(file, cell))
            .map(Some)
    }

    /// Its additional files with their names.
    fn beside(&self, file: &File, cell: &CellPlan) -> Result<Vec<(String, ConfigText)>, String> {
        let names = self.names(file, cell);
        let beside = file.subject[&cell.subject].beside.iter().map(|written| {
            let config = self.rewritten(file, written, &names)?;
            let name = config.used_for.rsplit('/').next().unwrap_or_default();
            Ok((format!("{}-{name}", plain(&cell.subject)), config))
        });
        beside.collect()
    }

    /// A printed configuration with ports and paths filled in.
    fn rewritten(&self, file: &File, conf: &str, names: &Names) -> Result<ConfigText, String> {
        let conf = fill(conf, names)?;
        let mut text = read_conf(&conf, &self.beside)?;
        let mut rewritten = Vec::new();
        for rewrite in &file.rewrite {
            if !text.contains(&rewrite.from) {
                continue;
            }
            let to = fill(&rewrite.to, names)?;
            text = text.replace(&rewrite.from, &to);
            rewritten.push((rewrite.from.clone(), to));
        }
        Ok(ConfigText {
            used_for: conf,
            text,
            rewritten,
        })
    }

    fn start_backend(&self, file: &File, cell: &CellPlan, name: &str) -> Result<Started, String> {
        let backend = file.backend.iter().find(|backend| backend.name == name);
        let backend = backend.ok_or_else(|| format!("there is no [[backend]] `{name}`"))?;
        let place = &self.backends[name];
        let mut names = self.names(file, cell);
        let way = if backend.unix { "socket" } else { "port" };
        names.insert(way.into(), place.clone());
        names.insert("listen".into(), place.clone());
        let counts = self.counts_path(name).display().to_string();
        names.insert("counts".into(), counts);
        if let Some(conf) = &backend.conf {
            let config = self.rewritten(file, conf, &names)?;
            let path = format!("backend-{name}.conf");
            self.write(&path, config.text.as_bytes())?;
            names.insert("conf".into(), self.dir().join(path).display().to_string());
        }
        let command = filled_words(backend.command(), &names)?;
        let env = filled(&backend.env, &names)?;
        let log = self.dir().join(format!("backend-{name}.log"));
        let socket = self.dir().join(place);
        if backend.unix {
            // A socket left by the previous block would look like an upstream that listens.
            let _ = fs::remove_file(&socket);
        }
        let dir = backend.in_folder.then(|| self.dir());
        let mut started = Started::start(&command, &env, &self.load_cpus, dir, &log)
            .map_err(|error| format!("cannot start upstream {name}: {error}"))?;
        let begin = Instant::now();
        let listens = || match backend.unix {
            true => std::os::unix::net::UnixStream::connect(&socket).is_ok(),
            false => std::net::TcpStream::connect(format!("127.0.0.1:{place}")).is_ok(),
        };
        while !listens() {
            if let Some(status) = started.ended() {
                let log = started.log().join(" / ");
                return Err(format!("upstream {name} ended with {status}: {log}"));
            }
            if begin.elapsed() > READY_MAX {
                return Err(format!(
                    "upstream {name} does not listen after {READY_MAX:?}"
                ));
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
        for (name, config) in self.beside(file, cell)? {
            self.write(&name, config.text.as_bytes())?;
        }
        let command = filled_words(run, &self.names_with_conf(file, cell))?;
        let env = filled(&subject.env, &self.names(file, cell))?;
        let log = self.dir().join(format!("{}.log", plain(&cell.subject)));
        let dir = subject.in_folder.then(|| self.dir());
        Started::start(&command, &env, &self.subject_cpus, dir, &log)
            .map_err(|error| format!("{}: {error}", cell.subject))
    }

    fn counts_path(&self, name: &str) -> PathBuf {
        self.dir().join(format!("backend-{name}.counts"))
    }

    fn counts(&self, file: &File, cell: &CellPlan) -> Option<BackendCounts> {
        let needs = self.needs(file, cell).ok()?;
        read_counts(&self.counts_path(needs.first()?))
    }
}

/// A line as often as wanted, with its number.
fn repeated(line: &str, count: usize) -> Vec<u8> {
    let lines = (1..=count).map(|n| line.replace("{n}", &n.to_string()) + "\n");
    lines.collect::<String>().into()
}

/// An address as it stands before a port: that of version 6 in brackets.
fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The address if it is one of this machine: the servers of an experiment run here, and nobody else's may be loaded.
fn own_address(address: Option<IpAddr>) -> Result<Option<IpAddr>, String> {
    if let Some(address) = address {
        TcpListener::bind((address, 0)).map_err(|error| {
            format!("`{address}` is not an address of this machine, where the servers run: {error}")
        })?;
    }
    Ok(address)
}

/// The name of a subject in names of files and upstreams: without the ` (again)` of one that is measured twice, which has
/// the same configuration, and without anything that command lines and configurations would have to quote.
fn plain(subject: &str) -> String {
    let name = subject.strip_suffix(" (again)").unwrap_or(subject);
    let fits = |c: char| c.is_alphanumeric() || "._-".contains(c);
    name.chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect()
}

/// The words of a command with placeholders replaced. It is split first: a value with blanks stays one word.
fn filled_words(command: &str, names: &Names) -> Result<Vec<String>, String> {
    let words = words(command)?;
    words.iter().map(|word| fill(word, names)).collect()
}

fn filled(env: &BTreeMap<String, String>, names: &Names) -> Result<Names, String> {
    let filled = env
        .iter()
        .map(|(name, value)| Ok((name.clone(), fill(value, names)?)));
    filled.collect()
}

/// Whether a cell has all these values; alternatives are separated by `|`.
fn concerns(when: &BTreeMap<String, String>, cell: &CellPlan) -> bool {
    when.iter().all(|(axis, values)| {
        let value = cell.axes.get(axis).map_or("", String::as_str);
        values.split('|').any(|wanted| wanted == value)
    })
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

/// CPUs of the server and of the load generator: both have whole cores, as threads of one core slow each other. Of a single core
/// each has a thread.
fn split(pin: Pin, cores: &[Vec<usize>]) -> (Vec<usize>, Vec<usize>) {
    let cpus = cores.concat();
    match pin {
        Pin::None => (Vec::new(), Vec::new()),
        Pin::Split if cpus.len() < 2 => (cpus.clone(), cpus),
        Pin::Split => {
            let (subject, load) = match cores.len() {
                1 => {
                    let (subject, load) = cpus.split_at(cpus.len() / 2);
                    (subject.to_vec(), load.to_vec())
                }
                count => {
                    let (subject, load) = cores.split_at(count / 2);
                    (subject.concat(), load.concat())
                }
            };
            (subject, load)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_measured_twice_has_the_command_line_of_the_first() {
        let names = |subject: &str| {
            let conf = format!("/tmp/a folder/{}.conf", plain(subject));
            Names::from([
                ("conf".into(), conf),
                ("user".into(), "user root;".into()),
                ("dir".into(), "/tmp/a folder".into()),
            ])
        };
        let run = "nginx -c {conf} -g 'daemon off; pid {dir}/nginx.pid; {user}'";
        let once = filled_words(run, &names("nginx")).unwrap();
        let again = filled_words(run, &names("nginx (again)")).unwrap();
        assert_eq!(once, again);
        assert_eq!(once[2], "/tmp/a folder/nginx.conf");
        assert_eq!(once.len(), 5);
        assert_eq!(plain("a b/../c"), "a-b-..-c");
    }

    #[test]
    fn processors_are_split_where_there_are_two() {
        let four = [vec![0], vec![1], vec![2], vec![3]];
        assert_eq!(split(Pin::Split, &four), (vec![0, 1], vec![2, 3]));
        assert_eq!(split(Pin::Split, &[vec![4]]), (vec![4], vec![4]));
        assert_eq!(split(Pin::None, &four), (vec![], vec![]));
        // No core has threads of both.
        let threads = [vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(
            split(Pin::Split, &threads),
            (vec![0, 4, 1, 5], vec![2, 6, 3, 7])
        );
        assert_eq!(split(Pin::Split, &[vec![0, 1]]), (vec![0], vec![1]));
    }
}
