//! The files of access logs, and the error logs of a configuration.

use std::collections::HashMap;

use sluice_model::Duration;
use sluice_model::logging::{FileWriter, Log, LogEncoder, LogWriter, PlainWriter};
use sluice_model::nginx::ErrorLogEncoder;

use super::syslog;

/// The name of the logger with this number, below `http.log.access`.
pub(super) fn logger_name(index: usize) -> String {
    format!("nginx{index}")
}

/// The files of access logs.
#[derive(Default)]
pub struct AccessLogs {
    pub(super) files: Vec<AccessFile>,
    /// The number of each, by its path.
    numbers: HashMap<String, usize>,
}

/// One file of access logs.
pub(super) struct AccessFile {
    pub(super) path: String,
    /// As the first directive says that says anything of it.
    pub(super) hold: Hold,
}

impl AccessLogs {
    /// The number of the file at `path`.
    pub(super) fn number(&mut self, path: &str) -> usize {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let number = self.files.len();
        self.numbers.insert(path.to_owned(), number);
        self.files.push(AccessFile {
            path: path.to_owned(),
            hold: Hold::default(),
        });
        number
    }
}

/// What the directives of one block say about logs of errors.
pub struct ErrorLogs {
    /// Their words.
    pub(super) words: Vec<Vec<String>>,
    pub(super) logs: Vec<ErrorLog>,
}

/// One `error_log`.
pub(super) struct ErrorLog {
    pub(super) path: String,
    /// The place of its level among those of nginx.
    pub(super) level: usize,
}

/// nginx's levels, from the least grave one.
pub(super) const LEVELS: [&str; 8] = [
    "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg",
];

/// Where `error` is among them.
pub(super) const ERROR: usize = 4;

/// Entries about requests go to loggers below this one, the last part of whose names is the level.
pub(super) const REQUESTS: &str = "http.log.error";

/// How lines of a file are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Until they are so many bytes; 0 for not at all.
    pub bytes: u64,
    /// The longest that they are, without an end where there is none.
    pub time: Option<Duration>,
    /// How hard they are compressed, from 1 to 9; 0 for not at all.
    pub gzip: u8,
}

impl ErrorLog {
    /// In nginx's form; entries about requests come from loggers below `logger`. Our levels are fewer: where one of them stands
    /// for several, the loggers of those that are too soft are left out.
    pub(super) fn log(&self, logger: &str) -> Log {
        let level_of = |level: usize| match level {
            0 => "DEBUG",
            1 | 2 => "INFO",
            3 => "WARN",
            _ => "ERROR",
        };
        let softer = (0..self.level).filter(|level| level_of(*level) == level_of(self.level));
        Log {
            level: level_of(self.level).to_owned(),
            exclude: softer
                .map(|level| format!("{logger}.{}", LEVELS[level]))
                .collect(),
            ..log(&self.path, LogEncoder::Nginx(ErrorLogEncoder {}))
        }
    }
}

/// A log of these lines, in a file or with syslog.
pub(super) fn log(path: &str, lines: LogEncoder) -> Log {
    let found = path.strip_prefix("syslog:").map(syslog::parse);
    let (writer, encoder) = match found {
        // Errors were reported when the word was parsed.
        Some(Ok(found)) => (found.writer.clone(), found.around(lines)),
        Some(Err(_)) | None => (writer(path), lines),
    };
    Log {
        writer: Some(writer),
        encoder: Some(encoder),
        ..Log::default()
    }
}

/// The writer does not rotate files: nginx users have a separate program for that.
fn writer(path: &str) -> LogWriter {
    match path {
        "stderr" | "/dev/stderr" => LogWriter::Stderr(PlainWriter::default()),
        "/dev/stdout" => LogWriter::Stdout(PlainWriter::default()),
        "/dev/null" => LogWriter::Discard(PlainWriter::default()),
        path => LogWriter::File(FileWriter {
            filename: path.to_owned(),
            // As nginx makes them.
            mode: "0644".to_owned(),
            roll: Some(false),
            ..FileWriter::default()
        }),
    }
}
