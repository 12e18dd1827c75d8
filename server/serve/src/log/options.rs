//! From the model's words about logs to settings that cannot be wrong. Opening outputs is left to `plan`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use sluice_model::logging::{
    FileWriter, LineEncoder, Log, LogEncoder, LogSampling, LogWriter, Logging,
};

use super::Level;
use super::archive::Archive;
use super::encode::{DurationFormat, Encoder, LevelFormat};
use super::file::Rotation;
use super::limits::{LOG_FILE_BYTES_DEFAULT, LOG_FILES_KEPT_DEFAULT, LOG_KEPT_DEFAULT};
use super::time_text::TimeFormat;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Its name; `default` replaces the log that is there without a configuration.
    pub name: String,
    /// Where lines go.
    pub output: OutputOptions,
    /// Their shape; by default JSON, on a terminal the console form.
    pub encoder: Option<Encoder>,
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
        dir_mode: u32,
        /// When it is put aside for a new one.
        rotation: Rotation,
    },
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
            encoder: None,
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
        if log.core.is_some() {
            return Err(at.unsupported("core", "write to a file or to standard error"));
        }
        if log.with_caller || !log.with_stacktrace.is_empty() {
            return Err(at.unsupported("with_caller", "entries carry no place in the source"));
        }
        Ok(LogOptions {
            name: name.into(),
            output: output(log.writer.as_ref(), &at)?,
            encoder: log
                .encoder
                .as_ref()
                .map(|encoder| shape(encoder, &at))
                .transpose()?,
            level,
            include: log.include.clone(),
            exclude: log.exclude.clone(),
            sampling: log.sampling.as_ref().map(sampling),
        })
    }
}

/// A place in the configuration that errors point at.
struct Place(String);

impl Place {
    fn wrong(&self, field: &str, problem: String) -> PlanError {
        PlanError {
            place: format!("{}.{field}", self.0),
            problem,
        }
    }

    fn unsupported(&self, field: &str, instead: &str) -> PlanError {
        let last = field.rsplit('.').next().unwrap_or(field);
        self.wrong(field, format!("`{last}` is not supported yet; {instead}"))
    }
}

fn output(writer: Option<&LogWriter>, at: &Place) -> Result<OutputOptions, PlanError> {
    Ok(match writer {
        None | Some(LogWriter::Stderr(_)) => OutputOptions::Stderr,
        Some(LogWriter::Stdout(_)) => OutputOptions::Stdout,
        Some(LogWriter::Discard(_)) => OutputOptions::Discard,
        Some(LogWriter::File(file)) => file_output(file, at)?,
        Some(LogWriter::Net(_)) => {
            return Err(at.unsupported(
                "writer.net",
                "write to standard error and let a log shipper read it",
            ));
        }
        Some(other) => {
            let name = format!("{other:?}");
            let name = name.split('(').next().unwrap_or_default();
            return Err(at.unsupported(
                "writer",
                &format!("`{name}` is none of stderr, stdout, discard, file"),
            ));
        }
    })
}

fn file_output(file: &FileWriter, at: &Place) -> Result<OutputOptions, PlanError> {
    if file.filename.is_empty() {
        return Err(at.wrong("writer.filename", "a file name is missing".into()));
    }
    if file.filename.contains('{') {
        let instead = "write the name out, or use `{$NAME}` in a Caddyfile";
        return Err(at.unsupported("writer.filename with placeholders", instead));
    }
    let mode = permissions(&file.mode, 0o600, "writer.mode", at)?;
    let dir_mode = match file.dir_mode.as_str() {
        "inherit" => {
            return Err(at.unsupported("writer.dir_mode inherit", "write it as digits: 0750"));
        }
        // Whoever may read the file may then look into its folder.
        "from_file" => mode | ((mode & 0o444) >> 2),
        digits => permissions(digits, 0o700, "writer.dir_mode", at)?,
    };
    for (set, field) in [
        (!file.roll_minutes.is_empty(), "writer.roll_minutes"),
        (!file.roll_at.is_empty(), "writer.roll_at"),
        (
            !file.backup_time_format.is_empty(),
            "writer.backup_time_format",
        ),
    ] {
        if set {
            return Err(at.unsupported(field, "use roll_size or roll_interval"));
        }
    }
    if file.roll_local_time {
        return Err(at.unsupported("writer.roll_local_time", "old files are named by UTC"));
    }
    let compress = match file.roll_compression.as_str() {
        "" => file.roll_gzip.unwrap_or(true),
        "gzip" => true,
        "none" => false,
        _ => return Err(at.unsupported("writer.roll_compression", "use gzip or none")),
    };
    Ok(OutputOptions::File {
        path: PathBuf::from(&file.filename),
        mode,
        dir_mode,
        rotation: rotation(file, compress),
    })
}

fn rotation(file: &FileWriter, compress: bool) -> Rotation {
    if file.roll == Some(false) {
        return Rotation::never();
    }
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let days = positive(file.roll_keep_days).map(|days| Duration::from_secs(days * 24 * 3600));
    Rotation {
        bytes_max: Some(positive(file.roll_size_mb).map_or(LOG_FILE_BYTES_DEFAULT, |mb| mb << 20)),
        interval: file
            .roll_interval
            .to_std()
            .filter(|interval| !interval.is_zero()),
        archive: Archive {
            files_max: Some(
                positive(file.roll_keep).map_or(LOG_FILES_KEPT_DEFAULT, |n| n as usize),
            ),
            age_max: Some(days.unwrap_or(LOG_KEPT_DEFAULT)),
            compress,
        },
    }
}

fn permissions(digits: &str, default: u32, field: &str, at: &Place) -> Result<u32, PlanError> {
    if digits.is_empty() {
        return Ok(default);
    }
    let mode = u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| {
        at.wrong(
            field,
            format!("`{digits}` is not octal permissions such as 0640"),
        )
    })
}

fn shape(encoder: &LogEncoder, at: &Place) -> Result<Encoder, PlanError> {
    match encoder {
        LogEncoder::Json(line) => with_settings(Encoder::json(), line, at),
        LogEncoder::Console(line) => with_settings(Encoder::console(LevelFormat::Colour), line, at),
        LogEncoder::Filter(_) => Err(at.unsupported("encoder.filter", "use json or console")),
        LogEncoder::Append(_) => {
            Err(at.unsupported("encoder.append", "use log_append in the site"))
        }
        other => {
            let name = format!("{other:?}");
            let name = name.split('(').next().unwrap_or_default();
            Err(at.unsupported("encoder", &format!("`{name}` is none of json, console")))
        }
    }
}

fn with_settings(
    mut encoder: Encoder,
    line: &LineEncoder,
    at: &Place,
) -> Result<Encoder, PlanError> {
    let keys = &mut encoder.keys;
    for (key, set) in [
        (&mut keys.message, &line.message_key),
        (&mut keys.level, &line.level_key),
        (&mut keys.time, &line.time_key),
        (&mut keys.name, &line.name_key),
        (&mut encoder.line_ending, &line.line_ending),
    ] {
        if let Some(text) = set.as_deref().filter(|text| !text.is_empty()) {
            *key = text.into();
        }
    }
    if line.time_local {
        return Err(at.unsupported("encoder.time_local", "times are in UTC"));
    }
    if !line.time_format.is_empty() {
        encoder.time = TimeFormat::from_name(&line.time_format).ok_or_else(|| {
            let names = TimeFormat::NAMES.join(", ");
            at.wrong(
                "encoder.time_format",
                format!("`{}` is none of {names}", line.time_format),
            )
        })?;
    }
    encoder.duration = DurationFormat::from_name(&line.duration_format).ok_or_else(|| {
        let problem = format!("`{}` is none of s, ms, ns, string", line.duration_format);
        at.wrong("encoder.duration_format", problem)
    })?;
    if !line.level_format.is_empty() {
        encoder.level = LevelFormat::from_name(&line.level_format).ok_or_else(|| {
            let problem = format!("`{}` is none of lower, upper, color", line.level_format);
            at.wrong("encoder.level_format", problem)
        })?;
    }
    Ok(encoder)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn all(json: &str) -> Result<Vec<LogOptions>, Vec<PlanError>> {
        let config = sluice_model::Config::from_json(json).expect("it is a configuration");
        LogOptions::all(config.logging.as_ref())
    }

    #[test]
    fn without_a_configuration_there_is_the_default_log() {
        assert_eq!(all("{}"), Ok(vec![LogOptions::default_log(Level::Info)]));
    }

    #[test]
    fn a_file_has_caddys_defaults_and_options() {
        let logs = all(
            r#"{"logging":{"logs":{"default":{"writer":{"output":"file","filename":"/a.log"}},
               "e":{"level":"DEBUG","writer":{"output":"file","filename":"/b.log","mode":"0644",
                    "roll_gzip":false,"roll_keep":3,"roll_keep_days":2,"roll_size_mb":5}},
               "f":{"writer":{"output":"file","filename":"/c.log","roll":false}}}}}"#,
        )
        .expect("all of it is supported");
        let OutputOptions::File {
            mode,
            dir_mode,
            rotation,
            ..
        } = &logs[0].output
        else {
            panic!("a file");
        };
        assert_eq!(
            (*mode, *dir_mode, *rotation),
            (0o600, 0o700, Rotation::default())
        );
        let OutputOptions::File { mode, rotation, .. } = &logs[1].output else {
            panic!("a file")
        };
        let archive = Archive {
            files_max: Some(3),
            age_max: Some(Duration::from_secs(172_800)),
            compress: false,
        };
        assert_eq!(*mode, 0o644);
        assert_eq!(
            *rotation,
            Rotation {
                bytes_max: Some(5 << 20),
                interval: None,
                archive
            }
        );
        let OutputOptions::File { rotation, .. } = &logs[2].output else {
            panic!("a file")
        };
        assert_eq!(*rotation, Rotation::never());
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name_and_all_at_once() {
        let errors = all(r#"{"logging":{"logs":{
               "a":{"writer":{"output":"net","address":"localhost:1"}},
               "b":{"encoder":{"format":"filter"}},
               "c":{"level":"LOUD"},
               "d":{"encoder":{"format":"json","time_format":"Monday"}},
               "e":{"writer":{"output":"file","filename":"/x","mode":"99"}}}}}"#)
        .expect_err("nothing of it is possible");
        let text: Vec<String> = errors.iter().map(PlanError::to_string).collect();
        assert_eq!(text.len(), 5, "{text:#?}");
        assert!(text[0].contains("`net` is not supported"), "{}", text[0]);
        assert!(text[1].contains("`filter` is not supported"), "{}", text[1]);
        assert!(
            text[2].starts_with("logging.logs.c.level: unknown level `LOUD`"),
            "{}",
            text[2]
        );
        assert!(
            text[3].contains("`Monday` is none of unix_seconds_float"),
            "{}",
            text[3]
        );
        assert!(text[4].contains("`99` is not octal"), "{}", text[4]);
    }
}
