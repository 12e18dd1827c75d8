//! The experiment file: TOML, deserialized into types that reject unknown keys. Its parts: the load is in
//! `load_part`, treatment checks in `check_part`; `names` checks that all parts fit together.

mod check_part;
mod load_part;
mod made_file;
mod names;
mod overload_part;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::agent::AgentSpec;
use super::cell_filter::Only;
use super::position::position;
use super::scenario;
pub use check_part::{CallPart, CheckPart, LinesPart, MetricPart, RequestPart, Switch, ThreadPart};
pub use load_part::{LimitPart, LoadPart, Rate, RestPart};
use load_part::{some_duration, some_warmup};
pub use made_file::MadeFile;
pub use overload_part::OverloadPart;

use sluice_load::generator::scenario::Scenario;
use sluice_load::generator::target::HttpVersion;
use sluice_load::generator::warmup::Warmup;
use sluice_load::process;
use sluice_load::result::SCHEMA;

/// The name of the lab's own load generator.
pub const NATIVE: &str = "native";

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// [`SCHEMA`].
    pub schema: String,
    /// A short name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The axes and their combinations.
    pub matrix: Matrix,
    /// The load.
    #[serde(default)]
    pub load: LoadPart,
    /// Repetitions and their order.
    #[serde(default)]
    pub repeat: Repeat,
    /// Where servers and load generators run.
    #[serde(default)]
    pub place: Place,
    /// Files to create.
    #[serde(default)]
    pub file: Vec<MadeFile>,
    /// Upstreams of the servers under test.
    #[serde(default)]
    pub backend: Vec<Backend>,
    /// Tests, by name.
    pub test: BTreeMap<String, Test>,
    /// Replacements in configurations.
    #[serde(default)]
    pub rewrite: Vec<Rewrite>,
    /// Servers under test, by name.
    pub subject: BTreeMap<String, Subject>,
    /// The report's table.
    #[serde(default)]
    pub table: Table,
    /// Claims to check against the new results.
    #[serde(default)]
    pub claims: BTreeMap<String, Claim>,
    /// What a reader must know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The axis values of `--quick`.
    #[serde(default)]
    pub quick: Quick,
    /// Bodies for tests that request many different ones.
    #[serde(default)]
    pub corpus: Option<Corpus>,
    /// Treatment checks.
    #[serde(default)]
    pub check: Vec<CheckPart>,
    /// Printed rows and the cells that reproduce them.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// The known capacity of the upstream, for `lab break`.
    #[serde(default)]
    pub overload: Option<OverloadPart>,
    /// The cells that `--quick` is restricted to; empty for all. Set by `--quick`, not by the file.
    #[serde(skip)]
    pub wanted: Vec<Only>,
}

/// A claim of the study: a formula alone, or with its wording.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Claim {
    /// The formula (`audit::claim`).
    Formula(String),
    /// With its wording.
    Worded(WordedClaim),
}

/// A claim of the study with its wording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordedClaim {
    /// What the study claims, paraphrased.
    pub says: String,
    /// What must be true of the results; absent if no metric here can decide it.
    #[serde(default)]
    pub means: Option<String>,
    /// Why no metric can decide it, or what to keep in mind.
    #[serde(default)]
    pub words: Option<String>,
    /// CPUs that the server needs before the claim can be checked.
    #[serde(default)]
    pub cpus: Option<usize>,
}

/// The axis values of `--quick`. Missing ones are chosen by rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quick {
    /// Concurrent connections.
    pub clients: Option<Vec<usize>>,
    /// Configurations.
    pub config: Option<Vec<String>>,
    /// Tests.
    pub test: Option<Vec<String>>,
    /// Cells, each entry a condition in the syntax of `--only`; cells that match none are omitted.
    pub cells: Vec<String>,
    /// The window, instead of the default of quick runs.
    #[serde(deserialize_with = "some_duration")]
    pub duration: Option<Duration>,
    /// Warm-up, instead of the default of quick runs.
    #[serde(deserialize_with = "some_warmup")]
    pub warmup: Option<Warmup>,
}

/// Generated bodies, the same in the upstream that sends them and in the generator that verifies them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// How many.
    pub count: usize,
}

/// A printed row and the cell that reproduces it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Dimensions of the printed row.
    pub printed: BTreeMap<String, String>,
    /// Axes of the cell.
    pub here: BTreeMap<String, String>,
}

/// The axes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Names of tests; all by default.
    #[serde(default)]
    pub test: Vec<String>,
    /// Concurrent connections.
    pub clients: Vec<usize>,
    /// Names of configurations.
    #[serde(default)]
    pub config: Vec<String>,
    /// Numbers of workers of the servers under test: their commands, environments and configurations contain `{workers}`.
    #[serde(default)]
    pub workers: Vec<usize>,
    /// Load generators: `native`, and external ones by name; by default only the lab's own.
    #[serde(default)]
    pub engine: Vec<String>,
    /// Cells to measure, each entry a condition in the syntax of `--only`; cells that match none are omitted. All if it is empty.
    #[serde(default)]
    pub cells: Vec<String>,
    /// Combinations to skip: those in which every given axis has the given value.
    #[serde(default)]
    pub skip: Vec<BTreeMap<String, String>>,
}

/// Repetitions and their order.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repeat {
    /// Blocks: each runs every server once, freshly started.
    pub blocks: usize,
    /// Order within a block.
    pub order: Order,
    /// How many times a disturbed block is measured again.
    pub again: usize,
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat {
            blocks: 5,
            order: Order::Random,
            again: 2,
        }
    }
}

/// Order within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Random, reproducible from the seed.
    Random,
    /// As written, reversed in every second block.
    Abba,
    /// As written.
    Fixed,
}

/// Where servers and load generators run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Place {
    /// Whether the server and the load generator have separate CPUs.
    pub pin: Pin,
    /// Agents that generate the load; if there are none, this process does.
    pub agents: Vec<AgentSpec>,
    /// The agent of the machine on which the servers run, and their upstreams unless these have a machine of their own; by default
    /// this one.
    pub servers: Option<AgentSpec>,
    /// The address of that machine at which agents reach the servers; by default the loopback address.
    pub address: Option<IpAddr>,
    /// The agent of the machine on which the upstreams run; by default that of the servers.
    pub upstreams: Option<AgentSpec>,
    /// The address of that machine at which the servers reach the upstreams; by default the loopback address.
    pub upstream_address: Option<IpAddr>,
}

/// Whether the server and the load generator have separate CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// The server gets the first half of the CPUs, load generator and upstreams the rest.
    #[default]
    Split,
    /// Scheduled by the kernel.
    None,
}

/// An upstream of the servers under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Its command.
    pub run: String,
    /// The fallback command if the program of `run` is not installed.
    #[serde(default)]
    pub instead: Option<String>,
    /// Whether it listens on a unix socket, `{socket}`, rather than on `{port}`.
    #[serde(default)]
    pub unix: bool,
    /// Its configuration: `builtin:NAME` or a path next to the experiment file.
    #[serde(default)]
    pub conf: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether its working directory is the folder of the run rather than that of the lab.
    #[serde(default)]
    pub in_folder: bool,
    /// Its response body.
    #[serde(default)]
    pub body: Option<String>,
}

impl Backend {
    /// The command that can run here: `instead` if the program of `run` is not installed.
    pub fn command(&self) -> &str {
        let here = program(&self.run).is_some();
        match &self.instead {
            Some(instead) if !here => instead,
            _ => &self.run,
        }
    }
}

/// The path of a command's program.
pub fn program(command: &str) -> Option<PathBuf> {
    let first = command.split_whitespace().next().unwrap_or_default();
    match first.split_once("{setup}") {
        _ if first == "{lab}" => std::env::current_exe().ok(),
        Some(("", rest)) => process::find(&format!("{}{rest}", process::setup_dir().display())),
        _ => process::find(first),
    }
}

/// A test: its requests and the expected responses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The configuration it needs, if several tests share one; by default its own name.
    #[serde(default)]
    pub kind: Option<String>,
    /// Path and query.
    pub path: String,
    /// The method.
    #[serde(default)]
    pub method: Option<String>,
    /// The exchange: requests, WebSocket messages that are echoed, or events.
    #[serde(default)]
    pub talk: Talk,
    /// Length of the body of each request, or of each message.
    #[serde(default)]
    pub body_bytes: u64,
    /// The body of each request as text.
    #[serde(default)]
    pub body: Option<String>,
    /// Request headers in addition to those of `[load]`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The host name for requests and TLS, optionally with a port.
    #[serde(default)]
    pub host: Option<String>,
    /// Whether to use TLS. The lab creates a certificate for `localhost`.
    #[serde(default)]
    pub tls: bool,
    /// Only this version of TLS: `1.2` or `1.3`.
    #[serde(default)]
    pub tls_version: Option<String>,
    /// Whether clients resume TLS sessions. If not, every connection makes a full handshake.
    #[serde(default)]
    pub tls_resume: bool,
    /// Whether to use HTTP/2.
    #[serde(default)]
    pub http2: bool,
    /// Whether to use HTTP/3, which needs `tls`. A subject that does not speak it is left out by its `tests`.
    #[serde(default)]
    pub http3: bool,
    /// A scenario file next to the experiment's, which is loaded instead of `path`: a request for that only checks that the
    /// server responds.
    #[serde(default)]
    pub scenario: Option<PathBuf>,
    /// The scenario, once it has been read.
    #[serde(skip)]
    pub loaded: Option<Arc<Scenario>>,
    /// Whether the bodies of [`Corpus`] are requested in turn.
    #[serde(default)]
    pub corpus: bool,
    /// Concurrent connections, overriding the matrix.
    #[serde(default)]
    pub clients: Option<Vec<usize>>,
    /// Requests after which a connection is closed, overriding `[load]`.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Concurrent requests on each connection, overriding `[load]`.
    #[serde(default)]
    pub depth: Option<usize>,
    /// The rate of an open loop, overriding `[load]`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Idle connections held open beside the load, overriding `[load]`.
    #[serde(default)]
    pub idle: Option<usize>,
    /// Names of upstreams; `{subject}` and `{config}` are replaced.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The expected response.
    pub expect: ExpectPart,
    /// Other expectations.
    #[serde(default)]
    pub assert: Asserts,
}

impl Test {
    /// The version of HTTP.
    pub fn version(&self) -> HttpVersion {
        match (self.http2, self.http3) {
            (_, true) => HttpVersion::Http3,
            (true, false) => HttpVersion::Http2,
            (false, false) => HttpVersion::Http1,
        }
    }

    /// Checks that the version of HTTP fits the rest. `held` is the number of connections that the load holds open.
    fn check_version(&self, held: usize) -> Result<(), &'static str> {
        if !self.tls && (self.tls_resume || self.tls_version.is_some()) {
            return Err("`tls_version` and `tls_resume` need `tls = true`");
        }
        if !matches!(self.tls_version.as_deref(), None | Some("1.2" | "1.3")) {
            return Err("`tls_version` is \"1.2\" or \"1.3\"");
        }
        if !self.http3 {
            return Ok(());
        }
        if self.http2 || !self.tls || self.talk != Talk::Requests {
            return Err("`http3` needs `tls = true`, and excludes `http2` and `talk`");
        }
        match self.idle.unwrap_or(held) {
            0 => Ok(()),
            _ => Err("idle connections and slow readers need HTTP/1.1, not `http3`"),
        }
    }

    /// The rate of its open loop, if it has one.
    pub fn rate<'a>(&'a self, load: &'a LoadPart) -> Option<&'a Rate> {
        match self.scenario {
            Some(_) => None,
            None => self.rate.as_ref().or(load.rate.as_ref()),
        }
    }

    /// Why no search can choose the rate of this test.
    pub fn has_no_rate(&self) -> Option<&'static str> {
        match (&self.scenario, self.talk) {
            (Some(_), _) => Some("its scenario sets the rate"),
            (None, Talk::Events) => Some("the server, not the clients, sets the rate of events"),
            (None, Talk::Requests | Talk::Websocket) => None,
        }
    }
}

/// The kind of exchange on each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Talk {
    /// Requests, each with a response.
    #[default]
    Requests,
    /// WebSocket messages that are echoed.
    Websocket,
    /// Server-sent events: the intervals between them.
    Events,
}

/// The expected response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectPart {
    /// The status that a response must have.
    pub status: u16,
    /// Its body, literally.
    #[serde(default)]
    pub body: Option<String>,
    /// A generated file that is its body.
    #[serde(default)]
    pub file: Option<String>,
    /// The upstream whose body it is.
    #[serde(default)]
    pub body_of: Option<String>,
    /// The body is compared in every n-th response of a connection.
    #[serde(default)]
    pub every: Option<u64>,
}

/// Expectations beyond the responses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asserts {
    /// `== requests`: nothing between client and upstream responds itself.
    pub backend_requests: Option<String>,
    /// `>= 0.95`: share of the upstream's requests on a reused connection.
    pub upstream_reuse: Option<String>,
}

/// A replacement in configurations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// The text printed in the study.
    pub from: String,
    /// The text that replaces it.
    pub to: String,
}

/// A server under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its command, or one per kind of test.
    pub run: Run,
    /// Its configuration: `builtin:NAME` or a path next to the experiment file.
    #[serde(default)]
    pub conf: Option<String>,
    /// Further files that its configuration includes, named like it; each becomes `{dir}/{subject}-NAME`.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The command that prints its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Its error log, in addition to its standard error.
    #[serde(default)]
    pub log: Option<String>,
    /// Whether its working directory is the folder of the run rather than that of the lab.
    #[serde(default)]
    pub in_folder: bool,
    /// The tests it takes part in; all by default.
    #[serde(default)]
    pub tests: Vec<String>,
    /// The configurations it has; all by default.
    #[serde(default)]
    pub configs: Vec<String>,
}

/// A command, or one per kind of test.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Run {
    /// One for all.
    One(String),
    /// By kind of test.
    ByKind(BTreeMap<String, String>),
}

impl Run {
    /// One of the commands: all have the same program.
    pub fn any(&self) -> &str {
        match self {
            Run::One(command) => command,
            Run::ByKind(by_kind) => by_kind.values().next().map_or("", String::as_str),
        }
    }
}

/// The report's table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// The study whose table layout it uses.
    pub shape: Option<String>,
}

impl File {
    /// Reads the scenarios of its tests, which are next to the file `name`. Their phases set the number of clients.
    pub fn load_scenarios(&mut self, name: &str) -> Result<(), String> {
        let folder = Path::new(name).parent().unwrap_or(Path::new("."));
        for (test, part) in &mut self.test {
            let Some(path) = &part.scenario else {
                continue;
            };
            let refused = [
                (part.talk != Talk::Requests, "talk"),
                (part.corpus, "corpus"),
                (part.clients.is_some(), "clients"),
                (part.rate.is_some(), "rate"),
                (part.depth.is_some(), "depth"),
                (part.idle.is_some(), "idle"),
                (
                    part.requests_per_connection.is_some(),
                    "requests_per_connection",
                ),
            ];
            if let Some((_, key)) = refused.iter().find(|(given, _)| *given) {
                return Err(format!(
                    "{name}: [test.{test}] has a scenario, which sets the load; remove `{key}`"
                ));
            }
            if self.load.warmup.requests().is_some() {
                return Err(format!(
                    "{name}: [test.{test}] has a scenario, which warms up for a time: write `warmup` of [load] as in \"2s\""
                ));
            }
            let scenario = scenario::read(&folder.join(path))?;
            part.clients = Some(vec![scenario.clients_max()]);
            part.loaded = Some(scenario.into());
        }
        Ok(())
    }
}

/// Parses an experiment. Errors give file, line and column.
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{}: {}", position(name, text, at), error.message())
    })?;
    if file.schema != SCHEMA {
        return Err(format!(
            "{name}: schema is `{}`; this version reads `{SCHEMA}`",
            file.schema
        ));
    }
    // The name is also that of the result's folder.
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    if file.name.is_empty() || file.name.starts_with('.') || !file.name.chars().all(plain) {
        return Err(format!(
            "{name}: invalid name `{}`: use letters, digits, `-`, `_` and `.`, not starting with `.`",
            file.name
        ));
    }
    names::check(name, &file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::builtin::{builtin, builtin_names, read_conf};
    use super::super::plan;
    use super::*;
    use std::path::Path;

    #[test]
    fn the_built_in_experiments_are_read() {
        for name in builtin_names() {
            let file = parse(name, builtin(name).unwrap()).unwrap();
            assert_eq!(file.name, name);
            for cell in plan::cells(&file, &Only::default(), usize::MAX) {
                let subject = &file.subject[&cell.subject];
                let Some(conf) = &subject.conf else { continue };
                let kind = file.test[&cell.test].kind.as_ref().unwrap_or(&cell.test);
                let conf = conf
                    .replace("{config}", &cell.config)
                    .replace("{kind}", kind)
                    .replace("{test}", &cell.test);
                assert!(read_conf(&conf, Path::new(".")).is_ok(), "{conf}");
            }
        }
    }

    #[test]
    fn mistakes_have_a_place() {
        let text = builtin("000").unwrap();
        let wrong = text.replace("[load]\n", "[load]\nwamup = \"3s\"\n");
        let line = wrong
            .lines()
            .position(|line| line.starts_with("wamup"))
            .unwrap()
            + 1;
        let error = parse("a.toml", &wrong).unwrap_err();
        assert!(
            error.starts_with(&format!("a.toml:{line}:1: unknown field `wamup`")),
            "{error}"
        );
        for (from, to, word) in [
            (
                "\"synthetic\", \"html",
                "\"synthetick\", \"html",
                "synthetick",
            ),
            ("needs = [\"hello\"]", "needs = [\"helo\"]", "helo"),
            (
                "file = \"static/index.html\"",
                "file = \"index.html\"",
                "[[file]]",
            ),
            ("sluice.lab/1", "sluice.lab/9", "sluice.lab/9"),
            ("duration = \"30s\"", "duration = \"30 days\"", "days"),
        ] {
            let error = parse("a.toml", &text.replace(from, to)).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn http3_needs_tls_and_requests() {
        let text = builtin("scenarios").unwrap();
        let version = |name: &str| parse("a.toml", text).unwrap().test[name].version();
        assert_eq!(version("h3-upload"), HttpVersion::Http3);
        assert_eq!(version("h2-upload"), HttpVersion::Http2);
        assert_eq!(version("tls-synthetic"), HttpVersion::Http1);
        for (add, word) in [
            ("http2 = true\n", "excludes `http2`"),
            ("talk = \"events\"\n", "excludes `http2` and `talk`"),
            ("idle = 5\n", "need HTTP/1.1"),
        ] {
            let wrong = text.replace("http3 = true\n", &format!("http3 = true\n{add}"));
            let error = parse("a.toml", &wrong).unwrap_err();
            assert!(error.starts_with("a.toml: [test.h3-"), "{error}");
            assert!(error.contains(word), "{error}");
        }
        let wrong = text.replace("tls = true\nhttp3 = true", "http3 = true");
        let error = parse("a.toml", &wrong).unwrap_err();
        assert!(error.contains("needs `tls = true`"), "{error}");
    }
}
