//! The file of an experiment: TOML, read into types that refuse what they do not know.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::comparison::Comparison;
use super::only::Only;
use sluice_audit::claim::Statement;
use sluice_load::process;
use sluice_load::quantity::parse_duration;
use sluice_load::result::SCHEMA;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// [`SCHEMA`].
    pub schema: String,
    /// A short name.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What is combined with what.
    pub matrix: Matrix,
    /// How it is asked.
    #[serde(default)]
    pub load: LoadPart,
    /// How often.
    #[serde(default)]
    pub repeat: Repeat,
    /// On which processors.
    #[serde(default)]
    pub place: Place,
    /// Content to be made.
    #[serde(default)]
    pub file: Vec<MadeFile>,
    /// What stands behind the subjects.
    #[serde(default)]
    pub backend: Vec<Backend>,
    /// What is asked, by name.
    pub test: BTreeMap<String, Test>,
    /// Text replaced in configurations.
    #[serde(default)]
    pub rewrite: Vec<Rewrite>,
    /// Who is asked, by name.
    pub subject: BTreeMap<String, Subject>,
    /// How the report's table looks.
    #[serde(default)]
    pub table: Table,
    /// What the new figures are to be asked about.
    #[serde(default)]
    pub claims: BTreeMap<String, Claim>,
    /// What a reader must know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What `--quick` takes of the axes.
    #[serde(default)]
    pub quick: Quick,
    /// Bodies for tests that ask for many different ones.
    #[serde(default)]
    pub corpus: Option<Corpus>,
    /// What has to be seen of the claimed options.
    #[serde(default)]
    pub check: Vec<CheckPart>,
    /// Rows of the document beside which cells stand.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// Cells of which `--quick` takes no others; empty takes all. It is set by `--quick`, not by the text.
    #[serde(skip)]
    pub wanted: Vec<Only>,
}

/// A sentence of the document: a formula alone, or with the words it stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Claim {
    /// The formula (`audit::claim`).
    Formula(String),
    /// With words.
    Told(ToldClaim),
}

/// A sentence of the document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldClaim {
    /// What the document says, in our words.
    pub says: String,
    /// What must be true of the figures; absent when no figure here can tell.
    #[serde(default)]
    pub means: Option<String>,
    /// Why no figure can tell, or what to keep in mind.
    #[serde(default)]
    pub words: Option<String>,
    /// Processors that the subject needs before the sentence can be looked at.
    #[serde(default)]
    pub cpus: Option<usize>,
}

/// What `--quick` takes of the axes. What is absent is chosen by rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quick {
    /// Connections at a time.
    pub clients: Option<Vec<usize>>,
    /// Configurations.
    pub config: Option<Vec<String>>,
    /// Tests.
    pub test: Option<Vec<String>>,
    /// Cells, each line a condition as `--only` takes it; what no line takes is left out.
    pub cells: Vec<String>,
    /// The window, instead of that of all quick runs.
    #[serde(deserialize_with = "some_duration")]
    pub duration: Option<Duration>,
    /// Load before it, instead of that of all quick runs.
    #[serde(deserialize_with = "some_duration")]
    pub warmup: Option<Duration>,
}

/// Bodies made up by the lab, the same in the backend that sends them and in the generator that compares them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// How many.
    pub count: usize,
}

/// What has to be seen in cells with these values. Each comparison is `>= 0.9`, `== 1`, `<= 4` and the like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckPart {
    /// Axes with the value that they must have, or several separated by `|`; all cells without.
    pub when: BTreeMap<String, String>,
    /// Share of the requests at the backend that came on a connection that was there already.
    pub upstream_reuse: Option<String>,
    /// Requests at the backend for each good answer.
    pub backend_share: Option<String>,
    /// Answers for each connection of a client.
    pub answers_per_connection: Option<String>,
    /// Processes of the subject.
    pub processes: Option<String>,
    /// Processes of the backends.
    pub backend_processes: Option<String>,
    /// The protocol that was agreed on by ALPN.
    pub alpn: Option<String>,
    /// Content-Encoding of the answer, `none` for an answer without.
    pub encoding: Option<String>,
    /// Version of TLS, such as `TLSv1_3`.
    pub tls: Option<String>,
}

/// A row of the document and the cell that repeats it.
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
    /// Connections at a time.
    pub clients: Vec<usize>,
    /// Names of configurations.
    #[serde(default)]
    pub config: Vec<String>,
    /// Combinations that are left out: those in which every given axis has the given value.
    #[serde(default)]
    pub skip: Vec<BTreeMap<String, String>>,
}

/// How it is asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadPart {
    /// Requests per second of an open loop; without, the loop is closed.
    pub rate: Option<f64>,
    /// Random gaps in an open loop.
    pub poisson: bool,
    /// The window.
    #[serde(deserialize_with = "duration")]
    pub duration: Duration,
    /// Load before it.
    #[serde(deserialize_with = "duration")]
    pub warmup: Duration,
    /// Time limit of a request.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// How long answers that are under way at the end of the window are waited for; as long as `timeout` without.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
    /// Pause of a client whose connection failed.
    #[serde(deserialize_with = "duration")]
    pub failure_pause: Duration,
    /// Fields of every request.
    pub headers: BTreeMap<String, String>,
    /// Requests under way at a time on each connection.
    pub depth: usize,
    /// Requests after which a connection is closed.
    pub requests_per_connection: Option<u64>,
    /// Pause between the end of the load and the last look at the subject's memory; without, there is none.
    #[serde(deserialize_with = "duration")]
    pub rest: Duration,
    /// Idle connections held beside.
    pub idle: usize,
    /// Slow readers held beside.
    pub slow_readers: usize,
    /// Bytes that each of them takes in a second.
    pub slow_rate: u64,
}

impl Default for LoadPart {
    fn default() -> Self {
        LoadPart {
            rate: None,
            poisson: false,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            drain: None,
            failure_pause: Duration::from_millis(10),
            headers: BTreeMap::new(),
            depth: 1,
            requests_per_connection: None,
            rest: Duration::ZERO,
            idle: 0,
            slow_readers: 0,
            slow_rate: 1024,
        }
    }
}

/// How often.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repeat {
    /// Blocks: each has every subject once, freshly started.
    pub blocks: usize,
    /// Order within a block.
    pub order: Order,
    /// How often a block in which others took part is measured again.
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
    /// Random and repeatable.
    Random,
    /// As written, and backwards in every second block.
    Abba,
    /// As written.
    Fixed,
}

/// On which processors.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Place {
    /// Whether subject and generator are kept apart.
    pub pin: Pin,
}

/// Whether subject and generator are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// The subject has the first half of the processors, generator and backends have the rest.
    #[default]
    Split,
    /// Wherever the kernel likes.
    None,
}

/// Content to be made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeFile {
    /// Below the folder of the run.
    pub path: String,
    /// Exactly so many bytes, made up.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// `builtin:NAME` or a path beside the file, with the same replacements as configurations.
    #[serde(default)]
    pub from: Option<String>,
}

/// What stands behind the subjects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Its command.
    pub run: String,
    /// The command that stands in where the program of `run` is not installed.
    #[serde(default)]
    pub instead: Option<String>,
    /// Whether it listens at a unix socket, `{socket}`, rather than at `{port}`.
    #[serde(default)]
    pub unix: bool,
    /// Its configuration: `builtin:NAME` or a path beside the file.
    #[serde(default)]
    pub conf: Option<String>,
    /// Variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it is started in the folder of the run rather than where the lab is.
    #[serde(default)]
    pub in_folder: bool,
    /// The body of its answer.
    #[serde(default)]
    pub body: Option<String>,
}

impl Backend {
    /// The command that can be carried out here: `instead` where the program of `run` is not installed.
    pub fn command(&self) -> &str {
        let here = program(&self.run).is_some();
        match &self.instead {
            Some(instead) if !here => instead,
            _ => &self.run,
        }
    }
}

/// Where the program of a command is.
pub fn program(command: &str) -> Option<PathBuf> {
    let first = command.split_whitespace().next().unwrap_or_default();
    match first.split_once("{setup}") {
        _ if first == "{lab}" => std::env::current_exe().ok(),
        Some(("", rest)) => process::find(&format!("{}{rest}", process::setup_dir().display())),
        _ => process::find(first),
    }
}

/// What is asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Which configuration it wants, where several tests share one; by default its own name.
    #[serde(default)]
    pub kind: Option<String>,
    /// Path and query.
    pub path: String,
    /// The method.
    #[serde(default)]
    pub method: Option<String>,
    /// What is asked: requests, messages of WebSocket that come back, or events.
    #[serde(default)]
    pub talk: Talk,
    /// Bytes of the body of each request, or of each message.
    #[serde(default)]
    pub body_bytes: u64,
    /// The body of each request as text.
    #[serde(default)]
    pub body: Option<String>,
    /// Fields of its requests beside those of `[load]`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The name that requests and TLS use for the server, with a port if it is to have one.
    #[serde(default)]
    pub host: Option<String>,
    /// Whether TLS is spoken. The lab makes a certificate for `localhost`.
    #[serde(default)]
    pub tls: bool,
    /// Whether HTTP/2 is spoken.
    #[serde(default)]
    pub http2: bool,
    /// Whether the bodies of [`Corpus`] are asked for in turn.
    #[serde(default)]
    pub corpus: bool,
    /// Connections at a time, instead of the matrix's.
    #[serde(default)]
    pub clients: Option<Vec<usize>>,
    /// Requests after which a connection is closed, instead of what `[load]` says.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// Requests under way at a time on each connection, instead of what `[load]` says.
    #[serde(default)]
    pub depth: Option<usize>,
    /// Requests per second of an open loop, instead of what `[load]` says.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Idle connections held beside, instead of what `[load]` says.
    #[serde(default)]
    pub idle: Option<usize>,
    /// Backends by name, in which `{subject}` and `{config}` are put in.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The right answer.
    pub expect: ExpectPart,
    /// What has to hold beside.
    #[serde(default)]
    pub assert: Asserts,
}

/// What is asked on each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Talk {
    /// Requests, each with an answer.
    #[default]
    Requests,
    /// Messages of WebSocket that come back.
    Websocket,
    /// Events: the gaps between them.
    Events,
}

/// The right answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectPart {
    /// Its status.
    pub status: u16,
    /// Its body.
    #[serde(default)]
    pub body: Option<String>,
    /// A made file that is its body.
    #[serde(default)]
    pub file: Option<String>,
    /// A backend whose body is its body.
    #[serde(default)]
    pub body_of: Option<String>,
    /// The body is compared in every n-th answer of a connection.
    #[serde(default)]
    pub every: Option<u64>,
}

/// What has to hold beside the answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asserts {
    /// `== requests`: nothing between client and backend answers for it.
    pub backend_requests: Option<String>,
    /// `>= 0.95`: share of the backend's requests that came on a connection that was there already.
    pub upstream_reuse: Option<String>,
}

/// Text replaced in configurations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// What the document prints.
    pub from: String,
    /// What stands there instead.
    pub to: String,
}

/// Who is asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Its command, or one for each kind of test.
    pub run: Run,
    /// Its configuration: `builtin:NAME` or a path beside the file.
    #[serde(default)]
    pub conf: Option<String>,
    /// Further files that its configuration includes, named like it; each becomes `{dir}/{subject}-NAME`.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The command that tells its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it writes what goes wrong, beside its standard error.
    #[serde(default)]
    pub log: Option<String>,
    /// Whether it is started in the folder of the run rather than where the lab is.
    #[serde(default)]
    pub in_folder: bool,
    /// The tests it takes part in; all by default.
    #[serde(default)]
    pub tests: Vec<String>,
    /// The configurations it has; all by default.
    #[serde(default)]
    pub configs: Vec<String>,
}

/// A command, or one for each kind of test.
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

/// How the report's table looks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// The study whose table it has.
    pub shape: Option<String>,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Reads an experiment. A mistake is told with its file, line and column.
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = &text[..at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{name}:{line}:{column}: {}", error.message())
    })?;
    if file.schema != SCHEMA {
        return Err(format!(
            "{name}: schema is `{}`; this lab knows `{SCHEMA}`",
            file.schema
        ));
    }
    // The name is that of the result's folder.
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    if file.name.is_empty() || file.name.starts_with('.') || !file.name.chars().all(plain) {
        return Err(format!(
            "{name}: name is `{}`: letters, digits, `-`, `_` and `.` make one, and it does not begin with `.`",
            file.name
        ));
    }
    check_names(name, &file)?;
    Ok(file)
}

/// Names that are used have to be there.
fn check_names(name: &str, file: &File) -> Result<(), String> {
    let backend = |wanted: &String| file.backend.iter().any(|backend| &backend.name == wanted);
    for test in &file.matrix.test {
        if !file.test.contains_key(test) {
            return Err(format!(
                "{name}: the matrix names a test `{test}`, and there is no [test.{test}]"
            ));
        }
    }
    for (test, part) in &file.test {
        let fixed = |wanted: &&String| !wanted.contains('{');
        for wanted in part.needs.iter().filter(fixed).chain(&part.expect.body_of) {
            if !backend(wanted) {
                return Err(format!(
                    "{name}: [test.{test}] names a backend `{wanted}`, and there is none"
                ));
            }
        }
        let made = |wanted: &String| file.file.iter().any(|one| &one.path == wanted);
        if let Some(wanted) = part.expect.file.as_ref().filter(|wanted| !made(wanted)) {
            return Err(format!(
                "{name}: [test.{test}] expects `{wanted}`, which no [[file]] makes"
            ));
        }
    }
    if file.matrix.clients.is_empty() || file.matrix.clients.contains(&0) {
        return Err(format!("{name}: [matrix] clients needs numbers above 0"));
    }
    for made in &file.file {
        if made.bytes.is_some() == made.from.is_some() {
            return Err(format!(
                "{name}: [[file]] `{}` needs either `bytes` or `from`",
                made.path
            ));
        }
    }
    for (subject, part) in &file.subject {
        let strange = part
            .tests
            .iter()
            .find(|test| !file.test.contains_key(*test));
        if let Some(test) = strange {
            return Err(format!(
                "{name}: [subject.{subject}] names a test `{test}`, and there is no [test.{test}]"
            ));
        }
        let strange = part
            .configs
            .iter()
            .find(|config| !file.matrix.config.contains(config));
        if let Some(config) = strange {
            return Err(format!(
                "{name}: [subject.{subject}] names a configuration `{config}`, which the matrix has not"
            ));
        }
    }
    if let Some((test, _)) = file.test.iter().find(|(_, test)| test.corpus)
        && file.corpus.is_none()
    {
        return Err(format!(
            "{name}: [test.{test}] asks for a corpus, and there is no [corpus]"
        ));
    }
    for condition in &file.quick.cells {
        Only::parse(condition).map_err(|error| format!("{name}: [quick] cells: {error}"))?;
    }
    check_claims(name, file)
}

/// Formulas have to be readable before anything is measured.
fn check_claims(name: &str, file: &File) -> Result<(), String> {
    for (claim, part) in &file.claims {
        let formula = match part {
            Claim::Formula(formula) => Some(formula),
            Claim::Told(told) => told.means.as_ref(),
        };
        let read = formula.map(|formula| Statement::parse(formula));
        if let Some(Err(error)) = read {
            return Err(format!("{name}: claim `{claim}`: {error}"));
        }
    }
    let comparisons = file.check.iter().flat_map(|check| {
        let CheckPart {
            when: _,
            upstream_reuse,
            backend_share,
            answers_per_connection,
            processes,
            backend_processes,
            alpn: _,
            encoding: _,
            tls: _,
        } = check;
        [
            upstream_reuse,
            backend_share,
            answers_per_connection,
            processes,
            backend_processes,
        ]
    });
    for comparison in comparisons.flatten() {
        Comparison::parse(comparison).map_err(|error| format!("{name}: [[check]] {error}"))?;
    }
    Ok(())
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
}
