//! Parses and validates the logging settings of the model. `plan` opens outputs.

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

/// An error in the logging configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The position in the configuration, such as `logging.logs.default.writer`.
    pub place: String,
    /// What is wrong, and what is accepted instead.
    pub problem: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl std::error::Error for PlanError {}

/// One log: which entries it accepts and where it writes them.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The name; `default` replaces the default log.
    pub name: String,
    /// The output.
    pub output: OutputOptions,
    /// The line format.
    pub shape: Shape,
    /// The minimum level.
    pub level: Level,
    /// Loggers to accept, including their descendants (`http.log` accepts `http.log.access`); empty for all.
    pub include: Vec<String>,
    /// Loggers to drop, including their descendants, unless a longer name is included.
    pub exclude: Vec<String>,
    /// Drops repeated entries.
    pub sampling: Option<SamplingOptions>,
}

/// The output of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputOptions {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// None.
    Discard,
    /// A file.
    File {
        /// The path.
        path: PathBuf,
        /// Permissions of the file when it is created.
        mode: u32,
        /// Permissions of folders that are created.
        dir_mode: DirMode,
        /// When to rotate it.
        rotation: Arc<Rotation>,
        /// How lines are buffered.
        hold: Hold,
    },
    /// A network output.
    Net(NetOptions),
}

/// Of entries with the same level and message, the first `first` in each `interval` are logged, then every
/// `thereafter`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingOptions {
    /// The period after which counting restarts.
    pub interval: Duration,
    /// How many entries are logged first.
    pub first: u64,
    /// After that, one in this many.
    pub thereafter: u64,
}

impl LogOptions {
    /// The default log: all entries from `level` up, on standard error.
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

    /// All logs of a configuration including the default one, or all errors.
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

/// A position in the configuration for error messages.
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

/// Checks the additional core of a log. The only one, `mock`, discards entries, as in Caddy, where it is meant for
/// tests.
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

/// Refuses name lists that both include and exclude a logger, or that contain a name without effect.
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

/// Whether `logger` is `name` or a descendant of it: `http.log` covers `http.log.access`, not `http.logs`.
pub(super) fn covers(name: &str, logger: &str) -> bool {
    logger
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests;
