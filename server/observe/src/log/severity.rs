//! nginx's log levels. Entries of sluice and Caddy know four of them ([`Level`]); nginx's error log knows all eight.

use super::Level;

/// How serious an entry is, in nginx's grades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warn`
    Warn,
    /// `error`
    Error,
    /// `crit`
    Critical,
    /// `alert`
    Alert,
    /// `emerg`
    Emergency,
}

impl Severity {
    /// nginx's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "debug",
            Severity::Info => "info",
            Severity::Notice => "notice",
            Severity::Warn => "warn",
            Severity::Error => "error",
            Severity::Critical => "crit",
            Severity::Alert => "alert",
            Severity::Emergency => "emerg",
        }
    }

    /// The level by which outputs accept the entry, and that other formats show.
    pub fn level(self) -> Level {
        match self {
            Severity::Debug => Level::Debug,
            Severity::Info | Severity::Notice => Level::Info,
            Severity::Warn => Level::Warn,
            Severity::Error | Severity::Critical | Severity::Alert | Severity::Emergency => {
                Level::Error
            }
        }
    }

    /// The next lower one of those that nginx uses for requests.
    pub fn softer(self) -> Severity {
        match self {
            Severity::Emergency | Severity::Alert | Severity::Critical | Severity::Error => {
                Severity::Warn
            }
            Severity::Warn => Severity::Notice,
            Severity::Notice => Severity::Info,
            Severity::Info | Severity::Debug => Severity::Debug,
        }
    }
}

impl From<Level> for Severity {
    fn from(level: Level) -> Severity {
        match level {
            Level::Debug => Severity::Debug,
            Level::Info => Severity::Notice,
            Level::Warn => Severity::Warn,
            Level::Error => Severity::Error,
        }
    }
}
