//! The opened logs of a configuration, and which of them accept the entries of a logger. `entry` and `access` create
//! entries.

use std::io::IsTerminal;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use sluice_model::logging::Logging;

use super::Level;
use super::encode::{Encoder, Fields, Head, LevelFormat, Starts};
use super::options::{LogOptions, OutputOptions, PlanError, covers};
use super::output::{Output, Outputs};
use super::sampling::Sampler;
use super::severity::Severity;

/// The logs of one configuration.
#[derive(Debug)]
pub struct Plan {
    outlets: Vec<Arc<Outlet>>,
}

/// A log with its opened output.
#[derive(Debug)]
pub struct Outlet {
    options: LogOptions,
    encoder: Encoder,
    /// What lines of each level begin with, if that is JSON.
    starts: Option<Box<Starts>>,
    output: Option<Arc<Output>>,
    sampler: Option<Sampler>,
}

/// The outlets that accept the entries of one logger.
#[derive(Clone, Debug, Default)]
pub struct Route {
    outlets: Box<[Arc<Outlet>]>,
}

/// A route of which all entries have the same logger and message: what lines say of them is written once.
#[derive(Clone, Debug)]
pub struct FixedRoute {
    logger: Box<str>,
    message: &'static str,
    caller: &'static Location<'static>,
    outlets: Box<[Named]>,
}

/// An outlet, and what follows the time in its lines, if they are JSON.
type Named = (Arc<Outlet>, Box<[u8]>);

impl Plan {
    /// Opens the logs of a configuration. On error nothing remains open.
    pub fn build(logging: Option<&Logging>, outputs: &Outputs) -> Result<Plan, Vec<PlanError>> {
        let mut errors = Vec::new();
        let mut outlets = Vec::new();
        for options in LogOptions::all(logging)? {
            match outputs.open(&options.output) {
                Ok(output) => outlets.push(Arc::new(Outlet::new(options, output))),
                Err(error) => errors.push(PlanError {
                    place: format!("logging.logs.{}.writer", options.name),
                    problem: match &options.output {
                        OutputOptions::File { path, .. } => {
                            format!("cannot open {}: {error}", path.display())
                        }
                        OutputOptions::Net(net) => format!(
                            "cannot connect to {}: {error}; `soft_start` waits for it instead",
                            net.address
                        ),
                        OutputOptions::Stderr | OutputOptions::Stdout | OutputOptions::Discard => {
                            error.to_string()
                        }
                    },
                }),
            }
        }
        if errors.is_empty() {
            Ok(Plan { outlets })
        } else {
            Err(errors)
        }
    }

    /// The plan before any configuration: the default log at `level`.
    pub fn initial(level: Level, outputs: &Outputs) -> Plan {
        let options = LogOptions::default_log(level);
        Plan {
            outlets: vec![Arc::new(Outlet::new(
                options,
                Some(outputs.stderr().clone()),
            ))],
        }
    }

    /// The outlets that accept entries of `logger`.
    pub fn route(&self, logger: &str) -> Route {
        let takes = |outlet: &&Arc<Outlet>| outlet.output.is_some() && outlet.options.takes(logger);
        Route {
            outlets: self.outlets.iter().filter(takes).cloned().collect(),
        }
    }
}

impl FixedRoute {
    /// The outlets of `plan` that accept the entries of `logger`, which all have this message. The caller of this is
    /// the one that lines show.
    #[track_caller]
    pub fn new(plan: &Plan, logger: &str, message: &'static str) -> FixedRoute {
        let caller = Location::caller();
        let head = Head {
            severity: Severity::Info,
            logger,
            message,
            caller,
        };
        let outlets = plan.route(logger).outlets.into_iter().map(|outlet| {
            let names = outlet.starts.as_ref().map(|_| outlet.encoder.names(&head));
            (outlet, names.unwrap_or_default())
        });
        FixedRoute {
            outlets: outlets.collect(),
            logger: logger.into(),
            message,
            caller,
        }
    }

    /// The logger.
    pub fn logger(&self) -> &str {
        &self.logger
    }

    /// Whether no outlet accepts entries.
    pub fn is_empty(&self) -> bool {
        self.outlets.is_empty()
    }

    /// Writes an entry to all outlets that accept it; `line` is a scratch buffer.
    pub fn write(
        &self,
        line: &mut Vec<u8>,
        time: SystemTime,
        level: Level,
        fields: impl Fn(&mut Fields<'_, '_>),
    ) {
        let head = Head {
            severity: level.into(),
            logger: &self.logger,
            message: self.message,
            caller: self.caller,
        };
        for (outlet, names) in &self.outlets {
            outlet.write(line, time, &head, |encoder, line| match &outlet.starts {
                Some(starts) => {
                    let parts = (&*starts[level as usize], &**names);
                    encoder.line_after(line, time, &head, parts, &fields);
                }
                None => encoder.line(line, time, &head, &fields),
            });
        }
    }
}

impl Outlet {
    fn new(options: LogOptions, output: Option<Arc<Output>>) -> Outlet {
        let encoder = options.shape.encoder(|| match options.output {
            OutputOptions::Stderr => for_stream(std::io::stderr().is_terminal()),
            OutputOptions::Stdout => for_stream(std::io::stdout().is_terminal()),
            OutputOptions::Discard | OutputOptions::File { .. } | OutputOptions::Net(_) => {
                Encoder::json()
            }
        });
        let sampler = options.sampling.map(Sampler::new);
        Outlet {
            options,
            starts: encoder.starts(),
            encoder,
            output,
            sampler,
        }
    }

    fn takes(&self, head: &Head<'_>, time: SystemTime) -> bool {
        let sampled = |sampler: &Sampler| sampler.takes(head.level(), head.message, time);
        head.level() >= self.options.level && self.sampler.as_ref().is_none_or(sampled)
    }

    /// Writes the line that `encode` appends if the entry is accepted; `line` is a scratch buffer.
    fn write(
        &self,
        line: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        encode: impl FnOnce(&Encoder, &mut Vec<u8>),
    ) {
        if !self.takes(head, time) {
            return;
        }
        line.clear();
        encode(&self.encoder, line);
        if let Some(output) = &self.output {
            output.push(line);
        }
    }
}

/// The format for a standard stream: columns on a terminal, otherwise JSON.
pub fn for_stream(is_terminal: bool) -> Encoder {
    if !is_terminal {
        return Encoder::json();
    }
    // https://no-color.org: a non-empty value disables colours.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Encoder::console(if plain {
        LevelFormat::Upper
    } else {
        LevelFormat::Colour
    })
}

impl LogOptions {
    /// Whether this log accepts entries of `logger`. If both an included and an excluded name match, the longer one
    /// takes precedence.
    fn takes(&self, logger: &str) -> bool {
        let longest = |names: &[String]| {
            names
                .iter()
                .filter(|name| covers(name, logger))
                .map(String::len)
                .max()
        };
        match (
            self.include.is_empty(),
            longest(&self.include),
            longest(&self.exclude),
        ) {
            (false, None, _) => false,
            (true, _, excluded) => excluded.is_none(),
            (false, Some(included), excluded) => excluded.is_none_or(|length| included > length),
        }
    }
}

impl Route {
    /// Whether no outlet accepts entries.
    pub fn is_empty(&self) -> bool {
        self.outlets.is_empty()
    }

    /// Whether an entry of `level` is accepted, regardless of sampling.
    pub fn takes(&self, level: Level) -> bool {
        self.outlets
            .iter()
            .any(|outlet| level >= outlet.options.level)
    }

    /// Writes an entry to all outlets that accept it; `line` is a scratch buffer.
    pub fn write(
        &self,
        line: &mut Vec<u8>,
        time: SystemTime,
        head: &Head<'_>,
        fields: impl Fn(&mut Fields<'_, '_>),
    ) {
        for outlet in &self.outlets {
            outlet.write(line, time, head, |encoder, line| {
                encoder.line(line, time, head, &fields);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(include: &[&str], exclude: &[&str]) -> LogOptions {
        LogOptions {
            include: include.iter().map(ToString::to_string).collect(),
            exclude: exclude.iter().map(ToString::to_string).collect(),
            ..LogOptions::default_log(Level::Info)
        }
    }

    #[test]
    fn a_log_takes_the_loggers_it_includes_and_not_those_it_excludes() {
        for (include, exclude, logger, expected) in [
            (&[][..], &[][..], "admin", true),
            (&[], &[], "", true),
            (&["http.log"], &[], "http.log.access.a", true),
            (&["http.log"], &[], "http.logs", false),
            (&["http.log"], &[], "admin", false),
            (
                &[],
                &["http.log.access.log0"],
                "http.log.access.log0",
                false,
            ),
            (&[], &["http.log.access.log0"], "http.log.access.log1", true),
            (&["http"], &["http.log"], "http.log.access", false),
            (&["http.log"], &["http"], "http.log.access", true),
        ] {
            let options = log(include, exclude);
            assert_eq!(
                options.takes(logger),
                expected,
                "{include:?} {exclude:?} {logger}"
            );
        }
    }
}
