//! The environment of a run: a folder with generated files and configurations, ports, CPUs; and running one block in
//! it, from the start of a fresh server to its end. The servers are in `serving`, upstreams in `upstreams`, the load of a block
//! in `load`.

mod load;
mod serving;
mod upstreams;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, KeyPair, RsaKeySize};

use super::agent::Fleet;
use super::builtin::read_conf;
use super::checks::{self, Seen};
use super::file::{Backend, CheckPart, File, Pin};
use super::folder::Folder;
use super::marks;
use super::plan::{CellPlan, plain};
use super::ports::free_ports;
use crate::progress::Progress;
use crate::remote::{AllowedPrograms, Fault, Places, RemoteServers, Role};
pub(crate) use serving::{Finish, Serving};
use sluice_load::backend::Corpus;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::machine;
use sluice_load::process::{self, Names, fill, words};
use sluice_load::random::made_body;
use sluice_load::result::{Block, CellState, ConfigText};
pub(crate) use upstreams::Upstreams;

/// The file with the certificates that clients trust.
const TRUSTED: &str = "trusted.crt";

/// The address of servers and upstreams unless the experiment has another.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Where the configurations that a file names come from.
#[derive(Clone, Debug)]
pub enum Sources {
    /// Built in, or next to this file.
    Beside(PathBuf),
    /// These, by name: the machine of the servers reads no files that an experiment names.
    Sent(BTreeMap<String, String>),
}

impl Sources {
    fn read(&self, conf: &str) -> Result<String, String> {
        match self {
            Sources::Beside(file) => read_conf(conf, file),
            Sources::Sent(texts) => {
                let text = texts.get(conf).cloned();
                text.ok_or_else(|| format!("the coordinator did not send `{conf}`"))
            }
        }
    }
}

/// Folder, ports and CPUs of a run.
pub struct Stage {
    folder: Folder,
    sources: Sources,
    /// Port of the server under test.
    port: u16,
    /// Port of its admin endpoint, if it has one.
    admin_port: u16,
    /// Port of a second listener.
    spare_port: u16,
    /// The address at which agents reach the server under test, if it is not the loopback address.
    address: Option<IpAddr>,
    /// Where upstreams of this machine listen.
    places: Places,
    /// Where the upstreams run.
    behind: Behind,
    /// The address at which the servers reach upstreams on a machine of their own, if it is not the loopback address.
    upstream_address: Option<IpAddr>,
    subject_cpus: Vec<usize>,
    load_cpus: Vec<usize>,
    corpus: Corpus,
    /// Rates of cells that are shares of a limit, by ID of the cell.
    rates: BTreeMap<String, f64>,
    /// Ends the current block early.
    pub interrupt: Interrupt,
    /// The machine of the servers, if it is not this one.
    remote: Option<RemoteServers>,
    /// The programs that may be started; any if this is `None`.
    pub allowed: Option<AllowedPrograms>,
    seed: u64,
    /// Reserve the ports against other labs on this machine during the run.
    _holds: Vec<UnixListener>,
}

/// Where the upstreams of the servers run.
enum Behind {
    /// On the machine of the servers.
    Beside,
    /// On a machine of their own, through its agent.
    Agent(Box<RemoteServers>),
    /// The same, and the coordinator of this machine starts them: where they listen.
    Known(Places),
}

/// Why there are no figures of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum NoBlock {
    /// The cell cannot be measured.
    Cell(CellState),
    /// An agent failed or is lost; the cell may be measured with others.
    Agents(String),
}

impl From<Fault> for NoBlock {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Servers(reason) => NoBlock::Cell(CellState::DidNotStart(reason)),
            Fault::Lost(reason) => NoBlock::Agents(reason),
        }
    }
}

impl From<CellState> for NoBlock {
    fn from(state: CellState) -> Self {
        NoBlock::Cell(state)
    }
}

impl Stage {
    /// Creates the folder and its contents.
    pub fn build(file: &File, sources: Sources, seed: u64) -> Result<Self, String> {
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
        let places = file.backend.iter().zip(ports);
        let places = places
            .map(|(backend, port)| (backend.name.clone(), place(backend, port)))
            .collect();
        let (subject_cpus, load_cpus) =
            split(file.place.pin, &machine::cores(&machine::processors()));
        let stage = Stage {
            folder,
            sources,
            port,
            admin_port,
            spare_port,
            address: match &file.place.servers {
                None => own_address(file.place.address, "the servers")?,
                // It is an address of that machine, which checks it.
                Some(_) => file.place.address,
            },
            places,
            behind: Behind::Beside,
            upstream_address: file.place.upstream_address,
            subject_cpus,
            load_cpus,
            corpus: Corpus::make(file.corpus.map_or(0, |corpus| corpus.count)),
            rates: BTreeMap::new(),
            interrupt: Interrupt::default(),
            remote: None,
            allowed: None,
            seed,
            _holds: holds,
        };
        if file.test.values().any(|test| test.tls) {
            stage.make_certificates()?;
        }
        stage.write_files(file)?;
        Ok(stage)
    }

    /// Writes the generated files of the experiment.
    fn write_files(&self, file: &File) -> Result<(), String> {
        for (at, made) in file.file.iter().enumerate() {
            let bytes = match &made.from {
                Some(from) => self
                    .rewritten(file, from, &self.common_names())?
                    .text
                    .into(),
                None => match &made.line {
                    Some(line) => repeated(line, made.count),
                    None => made_body(made.bytes.unwrap_or_default(), self.seed + at as u64),
                },
            };
            self.write(&made.path, &bytes)?;
        }
        Ok(())
    }

    /// Takes the part that a coordinator has for this machine. Servers or upstreams that are alone on it have all of its CPUs.
    pub fn take_role(&mut self, file: &File, role: &Role) -> Result<(), String> {
        if *role == Role::Both {
            return Ok(());
        }
        let all = match file.place.pin {
            Pin::None => Vec::new(),
            Pin::Split => machine::processors(),
        };
        (self.subject_cpus, self.load_cpus) = (all.clone(), all);
        match role {
            Role::Both => {}
            Role::Servers(places) => self.behind = Behind::Known(places.clone()),
            Role::Upstreams => {
                self.upstream_address = own_address(self.upstream_address, "the upstreams")?;
                // In the commands of a machine this is its own.
                self.address = self.upstream_address;
            }
        }
        self.write_files(file)
    }

    /// Has the servers run on another machine: they have its ports and certificates, and all CPUs of this one generate load.
    pub fn place_servers(&mut self, remote: RemoteServers) -> Result<(), String> {
        self.subject_cpus = Vec::new();
        self.load_cpus = machine::processors();
        self.remote = Some(remote);
        self.trust_servers()
    }

    /// Writes the certificates of servers on another machine, which are new whenever it prepares.
    fn trust_servers(&self) -> Result<(), String> {
        let remote = self.remote.as_ref().map(RemoteServers::prepared);
        match remote.and_then(|prepared| prepared.trusted) {
            Some(trusted) => self.write(TRUSTED, trusted.as_bytes()),
            None => Ok(()),
        }
    }

    /// The machine of the servers, if it is not this one.
    pub fn remote(&self) -> Option<&RemoteServers> {
        self.remote.as_ref()
    }

    /// Whether an agent of the servers or of the upstreams is lost.
    pub fn has_lost_agent(&self) -> bool {
        let mut agents = self.remote.iter().chain(self.upstreams());
        agents.any(RemoteServers::is_lost)
    }

    /// Connects again to the machines of the servers and of the upstreams that are lost.
    pub fn reconnect(&self, file: &File) -> Result<(), String> {
        if let Some(upstreams) = self.upstreams().filter(|one| one.is_lost()) {
            upstreams.reconnect(None)?;
            if self.remote.is_none() {
                // Their ports are others, which generated files may have.
                return self.write_files(file).inspect_err(|error| {
                    upstreams.lose(error);
                });
            }
        } else if !self.has_lost_agent() {
            return Ok(());
        }
        match &self.remote {
            None => Ok(()),
            Some(remote) => {
                let places = self.upstreams().map(RemoteServers::places);
                let connected = remote.reconnect(places);
                connected.and_then(|()| self.trust_servers())
            }
        }
    }

    /// Port of the server under test.
    pub fn port(&self) -> u16 {
        self.remote.as_ref().map_or(self.port, RemoteServers::port)
    }

    /// Certificates of the servers, if a test needs them.
    pub fn trusted(&self) -> Option<String> {
        fs::read_to_string(self.dir().join(TRUSTED)).ok()
    }

    /// Whether a command may be started here; the error says what to do.
    pub fn allows(&self, written: &str) -> Result<(), String> {
        self.command(written, &self.common_names()).map(drop)
    }

    /// The words of a command with placeholders replaced, if it may be started.
    fn command(&self, written: &str, names: &Names) -> Result<Vec<String>, String> {
        let words = filled_words(written, names)?;
        if let Some(allowed) = &self.allowed {
            allowed.command(written, &words)?;
        }
        Ok(words)
    }

    /// The configurations that cells of a file need, for a machine that cannot read them.
    pub fn texts(&self, file: &File, cells: &[CellPlan]) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        // A mistake is reported by the machine that starts the servers.
        let mut add = |written: &String, names: &Names| {
            if let Ok(name) = fill(written, names)
                && !texts.contains_key(&name)
                && let Ok(text) = self.sources.read(&name)
            {
                texts.insert(name, text);
            }
        };
        let common = self.common_names();
        let made = file.file.iter().filter_map(|made| made.from.as_ref());
        made.for_each(|from| add(from, &common));
        for cell in cells {
            let names = self.names(file, cell);
            let subject = &file.subject[&cell.subject];
            let of_subject = subject.conf.iter().chain(&subject.beside);
            let of_backends = file.backend.iter().filter_map(|one| one.conf.as_ref());
            of_subject
                .chain(of_backends)
                .for_each(|conf| add(conf, &names));
        }
        texts
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
        let mut parts = vec![
            ("subject", &self.subject_cpus),
            ("generator", &self.load_cpus),
            ("backend", &self.load_cpus),
        ];
        if !self.has_upstreams_beside() {
            parts.pop();
        }
        let parts = parts.into_iter();
        parts
            .map(|(name, cpus)| (name.to_string(), cpus.clone()))
            .collect()
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
        let mut serving = self.serve(file, cell, seed)?;
        self.begin((file, cell), &mut serving)
            .map_err(not_started)?;
        let plan = serving.plan.clone();
        let watch = self.watching(&serving);
        let (mut load, mut resources) = self.load((file, cell), &plan, watch, fleet, live)?;
        self.loaded(&mut serving);
        load.response = Some(serving.response.first_response());
        let ready_s = serving.ready_s;
        let ended = self.finish((file, cell), serving, Finish::Observe)?;
        resources.backend_counts.clone_from(&ended.counts);
        resources.subject.rss_after_bytes = ended.rss_after_bytes;
        if ended.work_us.is_some() {
            resources.system.work_us = ended.work_us;
        }
        if let Some(system) = &mut resources.backend_system {
            system.work_us = ended.upstream_work_us;
        }
        let seen = Seen {
            load: &load,
            counts: ended.counts.as_ref(),
            accepted: ended.accepted,
            resources: &resources,
            observed: &ended.observed,
        };
        let mut block = Block {
            started_unix_ms: started_at.as_millis() as u64,
            ready_s: Some(ready_s),
            checks: checks::checks(test, ended.parts.iter(), seen),
            load,
            resources: Some(resources),
            log: ended.log,
            ..Block::default()
        };
        block.marks = marks::marks(&block, ended.ended);
        Ok(block)
    }

    /// The checks that apply to a cell, with their placeholders replaced by what they are on this machine.
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

    /// Names of the cell's upstreams. A name with placeholders that matches none is skipped.
    pub fn needs(&self, file: &File, cell: &CellPlan) -> Result<Vec<String>, String> {
        let names = self.names(file, cell);
        let mut needs = Vec::new();
        for written in &file.test[&cell.test].needs {
            let name = fill(written, &names)?;
            if file.backend.iter().any(|backend| backend.name == name) {
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
            ("port".into(), self.port().to_string()),
            ("address".into(), in_url(self.address.unwrap_or(LOOPBACK))),
            ("listen".into(), self.port().to_string()),
            (
                "upstream.address".into(),
                in_url(self.upstream_address.unwrap_or(LOOPBACK)),
            ),
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
        for (name, place) in self.places() {
            names.insert(format!("backend.{name}"), place);
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
        if let Some(place) = first.and_then(|name| self.places().remove(&name.ok()?)) {
            names.insert("upstream".into(), place);
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
        let mut text = self.sources.read(&conf)?;
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

/// The address if it is one of this machine: these of an experiment run here, and nobody else's may be loaded.
fn own_address(address: Option<IpAddr>, these: &str) -> Result<Option<IpAddr>, String> {
    if let Some(address) = address {
        TcpListener::bind((address, 0)).map_err(|error| {
            format!("`{address}` is not an address of this machine, where {these} run: {error}")
        })?;
    }
    Ok(address)
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
