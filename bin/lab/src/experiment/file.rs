//! The file of an experiment: TOML, read into types that refuse what they do not know.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::quantity::parse_duration;
use crate::result::SCHEMA;

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
    pub claims: BTreeMap<String, String>,
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
    /// Pause of a client whose connection failed.
    #[serde(deserialize_with = "duration")]
    pub failure_pause: Duration,
    /// Fields of every request.
    pub headers: BTreeMap<String, String>,
    /// Requests under way at a time on each connection.
    pub depth: usize,
    /// Requests after which a connection is closed.
    pub requests_per_connection: Option<u64>,
}

impl Default for LoadPart {
    fn default() -> Self {
        LoadPart {
            rate: None,
            poisson: false,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            failure_pause: Duration::from_millis(10),
            headers: BTreeMap::new(),
            depth: 1,
            requests_per_connection: None,
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
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat {
            blocks: 5,
            order: Order::Random,
        }
    }
}

/// Order within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
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
    /// Exactly so many bytes.
    pub bytes: u64,
}

/// What stands behind the subjects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Its command.
    pub run: String,
    /// The body of its answer.
    #[serde(default)]
    pub body: Option<String>,
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
    /// Bytes of the body of each request.
    #[serde(default)]
    pub body_bytes: u64,
    /// Backends by name.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The right answer.
    pub expect: ExpectPart,
    /// What has to hold beside.
    #[serde(default)]
    pub assert: Asserts,
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
    /// Variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The command that tells its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it writes what goes wrong, beside its standard error.
    #[serde(default)]
    pub log: Option<String>,
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

/// The built-in files: experiments and the configurations they name.
const BUILTIN: &[(&str, &str)] = &[
    ("000", include_str!("../../experiments/000.toml")),
    (
        "calibrate",
        include_str!("../../experiments/calibrate.toml"),
    ),
    (
        "000/nginx.default.synthetic",
        include_str!("../../experiments/000/nginx.default.synthetic"),
    ),
    (
        "000/nginx.default.static",
        include_str!("../../experiments/000/nginx.default.static"),
    ),
    (
        "000/nginx.default.proxy",
        include_str!("../../experiments/000/nginx.default.proxy"),
    ),
    (
        "000/nginx.optimized.synthetic",
        include_str!("../../experiments/000/nginx.optimized.synthetic"),
    ),
    (
        "000/nginx.optimized.static",
        include_str!("../../experiments/000/nginx.optimized.static"),
    ),
    (
        "000/nginx.optimized.proxy",
        include_str!("../../experiments/000/nginx.optimized.proxy"),
    ),
    (
        "000/Caddyfile.synthetic",
        include_str!("../../experiments/000/Caddyfile.synthetic"),
    ),
    (
        "000/Caddyfile.static",
        include_str!("../../experiments/000/Caddyfile.static"),
    ),
    (
        "000/Caddyfile.proxy",
        include_str!("../../experiments/000/Caddyfile.proxy"),
    ),
];

/// Names of the built-in experiments.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    let names = BUILTIN.iter().map(|(name, _)| *name);
    names.filter(|name| !name.contains('/'))
}

/// A built-in file.
pub fn builtin(name: &str) -> Option<&'static str> {
    let mut files = BUILTIN.iter();
    files.find(|(one, _)| *one == name).map(|(_, text)| *text)
}

/// The text of an experiment: built in, or a file.
pub fn read(name: &str) -> Result<String, String> {
    if let Some(text) = builtin(name) {
        return Ok(text.to_string());
    }
    fs::read_to_string(name).map_err(|error| {
        let names: Vec<&str> = builtin_names().collect();
        format!("{name}: {error}; built in are {}", names.join(", "))
    })
}

/// A configuration: built in, or a file beside the experiment's.
pub fn read_conf(conf: &str, beside: &Path) -> Result<String, String> {
    match conf.strip_prefix("builtin:") {
        Some(name) => match builtin(name) {
            Some(text) => Ok(text.to_string()),
            None => Err(format!("`{conf}`: no such file is built in")),
        },
        None => {
            let path = beside.parent().unwrap_or(Path::new(".")).join(conf);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
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
        for wanted in part.needs.iter().chain(&part.expect.body_of) {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_experiments_are_read() {
        for name in builtin_names() {
            let file = parse(name, builtin(name).unwrap()).unwrap();
            assert_eq!(file.name, name);
            for subject in file.subject.values() {
                let Some(conf) = &subject.conf else { continue };
                for config in &file.matrix.config {
                    for (test, part) in &file.test {
                        let kind = part.kind.as_ref().unwrap_or(test);
                        let conf = conf.replace("{config}", config).replace("{kind}", kind);
                        assert!(read_conf(&conf, Path::new(".")).is_ok(), "{conf}");
                    }
                }
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
