//! Logging: entries about the process, and access logs of sites. The calling thread formats an entry and background
//! threads write it, so that a full disk or a slow terminal never delays a request. Only plain files, neither rotated nor
//! buffered, are written by the workers themselves, as in nginx. The callers decide what to log.

mod access;
mod archive;
mod direct;
mod encode;
mod entry;
mod file;
mod filter;
mod hold;
mod json;
mod layers;
pub mod limits;
mod named;
mod net;
mod nginx_line;
mod node;
mod options;
mod output;
mod place;
mod plan;
mod sampling;
mod severity;
mod syslog;
mod time_text;
mod zone;

pub use access::{AccessLog, Credentials, RequestFacts, Timings, add_request};
pub use archive::{Archive, Compression};
pub use direct::{write_before_close, write_pending};
pub use encode::{DurationFormat, Encoder, Fields, Form, Head, Keys, LevelFormat, Prefix};
pub use entry::{CONNECTION_COUNTS, Entry, Log};
pub use file::{DirMode, Rotation, Schedule};
pub use hold::Hold;
pub use named::{Kept, NamedLine, Target};
pub use options::{
    Family, LogOptions, NetOptions, Network, OutputOptions, PlanError, SamplingOptions, Shape,
};
pub use output::{Output, Outputs, Pushed};
pub use place::ConnectionSlots;
pub use plan::{Plan, Route};
pub use severity::Severity;
pub use time_text::TimeFormat;
pub use zone::Zone;

use std::fmt;

/// The level of an entry. Outputs drop entries below their own level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For debugging; off by default.
    Debug,
    /// Normal operation.
    #[default]
    Info,
    /// A problem that needs attention, although sluice continues to work.
    Warn,
    /// An operation failed.
    Error,
}

impl Level {
    /// All levels in ascending order.
    pub const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// The name in log entries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// The level with this name in a configuration, in any case. Caddy's `PANIC` and `FATAL` are above all entries that
    /// a server writes; as thresholds they equal `ERROR` here.
    pub fn from_name(name: &str) -> Option<Level> {
        Some(match name.to_ascii_lowercase().as_str() {
            "debug" => Level::Debug,
            "" | "info" => Level::Info,
            "warn" => Level::Warn,
            "error" | "panic" | "fatal" => Level::Error,
            _ => return None,
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
