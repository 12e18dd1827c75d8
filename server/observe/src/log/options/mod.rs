//! From the model's words about logs to settings that cannot be wrong. Opening outputs is left to `plan`.

mod file;
mod net;
mod shape;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice_model::RawModule;
use sluice_model::logging::{Log, LogSampling, LogWriter, Logging};

use super::Level;
use super::file::{DirMode, Rotation};
use super::hold::Hold;

pub use net::{Family, NetOptions, Network};
pub use shape::Shape;

/// Why logs cannot be as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The place in the configuration, such as `logging.logs.default.writer`.
    pub place: String,
    /// What is wrong there and what is accepted instead.
    pub problem: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for PlanError {}

/// One log: which entries it takes and where its lines go.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Its name; `default` replaces the log that is there without a configuration.
    pub name: String,
    /// Where lines go.
    pub output: OutputOptions,
    /// Their shape.
    pub shape: Shape,
    /// Entries below it are left out.
    pub level: Level,
    /// Loggers whose entries it takes, with all below them (`http.log` takes `http.log.access`); all if empty.
    pub include: Vec<String>,
    /// Loggers whose entries it leaves out, with all below them, unless a longer name is included.
    pub exclude: Vec<String>,
    /// Thins out repeated entries.
    pub sampling: Option<SamplingOptions>,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputOptions {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Nowhere.
    Discard,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Permissions of the file if it is made.
        mode: u32,
        /// Permissions of folders that have to be made.
        dir_mode: DirMode,
        /// When it is put aside for a new one.
        rotation: Arc<Rotation>,
        /// How lines are held back.
        hold: Hold,
    },
    /// Another program, over a socket.
    Net(NetOptions),
}

/// Of entries of the same level, the `first` in each `interval` are taken, then each `thereafter`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingOptions {
    /// After it the count starts again.
    pub interval: Duration,
    /// How many are taken at first.
    pub first: u64,
    /// Of the others each one of so many.
    pub thereafter: u64,
}

impl LogOptions {
    /// The log that is there without a configuration: everything from `level` up, on standard error.
    pub fn default_log(level: Level) -> Self {
        LogOptions {
            name: "default".into(),
            output: OutputOptions::Stderr,
            shape: Shape::default(),
            level,
            include: Vec::new(),
            exclude: Vec::new(),
            sampling: None,
        }
    }

    /// All logs that a configuration has, the default one included, and everything that is wrong with them.
    pub fn all(logging: Option<&Logging>) -> Result<Vec<LogOptions>, Vec<PlanError>> {
        let mut logs = Vec::new();
        let mut errors = Vec::new();
        for (name, log) in logging.iter().flat_map(|logging| &logging.logs) {
            match LogOptions::of(name, log) {
                Ok(options) => logs.push(options),
                Err(error) => errors.push(error),
            }
        }
        if logging.is_some_and(|logging| logging.sink.is_some()) {
            let problem = "nothing in this server writes to the sink; remove it";
            errors.push(PlanError {
                place: "logging.sink".into(),
                problem: problem.into(),
            });
        }
        if logs.iter().all(|log| log.name != "default") {
            logs.push(LogOptions::default_log(Level::Info));
        }
        if errors.is_empty() {
            Ok(logs)
        } else {
            Err(errors)
        }
    }

    fn of(name: &str, log: &Log) -> Result<LogOptions, PlanError> {
        let at = Place(format!("logging.logs.{name}"));
        let level = Level::from_name(&log.level).ok_or_else(|| {
            at.wrong(
                "level",
                format!(
                    "unknown level `{}`; use DEBUG, INFO, WARN or ERROR",
                    log.level
                ),
            )
        })?;
        check_core(log.core.as_ref(), &at)?;
        check_names(log, &at)?;
        Ok(LogOptions {
            name: name.into(),
            output: output(log.writer.as_ref(), &at)?,
            shape: Shape::build(log, &at)?,
            level,
            include: log.include.clone(),
            exclude: log.exclude.clone(),
            sampling: log.sampling.as_ref().map(sampling),
        })
    }
}

/// A place in the configuration that errors point at.
pub(super) struct Place(String);

impl Place {
    pub(super) fn wrong(&self, field: &str, problem: String) -> PlanError {
        PlanError {
            place: format!("{}.{field}", self.0),
            problem,
        }
    }

    pub(super) fn unsupported(&self, field: &str, instead: &str) -> PlanError {
        let last = field.rsplit('.').next().unwrap_or(field);
        self.wrong(field, format!("`{last}` is not supported yet; {instead}"))
    }
}

/// Entries are also given to a core. The one there is, `mock`, drops them, as Caddy's does: it is for tests.
fn check_core(core: Option<&RawModule>, at: &Place) -> Result<(), PlanError> {
    let name = core.map(|core| core.get("module").and_then(Value::as_str));
    match name {
        None | Some(Some("mock")) => Ok(()),
        Some(name) => {
            let problem = format!(
                "`{}` is not a core; there is `mock`",
                name.unwrap_or_default()
            );
            Err(at.wrong("core", problem))
        }
    }
}

fn output(writer: Option<&LogWriter>, at: &Place) -> Result<OutputOptions, PlanError> {
    Ok(match writer {
        None | Some(LogWriter::Stderr(_)) => OutputOptions::Stderr,
        Some(LogWriter::Stdout(_)) => OutputOptions::Stdout,
        Some(LogWriter::Discard(_)) => OutputOptions::Discard,
        Some(LogWriter::File(file)) => file::output(file, at)?,
        Some(LogWriter::Net(net)) => OutputOptions::Net(net::output(net, at)?),
        Some(LogWriter::Other(module)) => {
            let name = module
                .get("output")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let problem = format!("`{name}` is none of stderr, stdout, discard, file, net");
            return Err(at.wrong("writer", problem));
        }
    })
}

fn sampling(sampling: &LogSampling) -> SamplingOptions {
    let or = |number: i64, default: u64| {
        u64::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .unwrap_or(default)
    };
    let interval = sampling
        .interval
        .to_std()
        .filter(|interval| !interval.is_zero());
    SamplingOptions {
        interval: interval.unwrap_or(Duration::from_secs(1)),
        first: or(sampling.first, 100),
        thereafter: or(sampling.thereafter, 100),
    }
}

/// Two lists of names that say of one logger both that it is taken and that it is left out, or of which one says
/// nothing, are a mistake.
fn check_names(log: &Log, at: &Place) -> Result<(), PlanError> {
    if log.include.is_empty() || log.exclude.is_empty() {
        return Ok(());
    }
    if let Some(name) = log.include.iter().find(|name| log.exclude.contains(name)) {
        return Err(at.wrong("include", format!("`{name}` is both included and excluded")));
    }
    let related = |name: &String, others: &[String]| {
        others
            .iter()
            .any(|other| covers(name, other) || covers(other, name))
    };
    for (field, names, others) in [
        ("include", &log.include, &log.exclude),
        ("exclude", &log.exclude, &log.include),
    ] {
        if let Some(name) = names.iter().find(|name| !related(name, others)) {
            let problem =
                format!("`{name}` neither covers a name of the other list nor lies below one");
            return Err(at.wrong(field, problem));
        }
    }
    Ok(())
}

/// Whether `logger` is `name` or lies below it: `http.log` covers `http.log.access`, not `http.logs`.
pub(super) fn covers(name: &str, logger: &str) -> bool {
    logger
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests;
