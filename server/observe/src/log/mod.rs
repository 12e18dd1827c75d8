//! Logs: what happened in the process, and one line for each request of sites that want it. Lines are encoded by
//! whoever has something to say and written by background threads, so that a full disk or a slow terminal never
//! holds up a request. Deciding what is worth a line is left to the callers.

mod access;
mod archive;
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
mod syslog;
mod time_text;
mod zone;

pub use access::{AccessLog, Credentials, RequestFacts, add_request};
pub use archive::{Archive, Compression};
pub use encode::{DurationFormat, Encoder, Fields, Form, Head, Keys, LevelFormat, Prefix};
pub use entry::{CROWD, Entry, Log};
pub use file::{DirMode, Rotation, Schedule};
pub use hold::Hold;
pub use named::{Kept, NamedLine, Target};
pub use options::{
    Family, LogOptions, NetOptions, Network, OutputOptions, PlanError, SamplingOptions, Shape,
};
pub use output::{Output, Outputs, Pushed};
pub use place::Places;
pub use plan::{Plan, Route};
pub use time_text::TimeFormat;
pub use zone::Zone;

use std::fmt;

/// How much an entry matters. Outputs leave out what is below their level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For finding a mistake; off unless asked for.
    Debug,
    /// Part of normal work.
    #[default]
    Info,
    /// Works, and somebody should look.
    Warn,
    /// Something did not work.
    Error,
}

impl Level {
    /// All levels, the least important first.
    pub const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// The level as logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// The level that a configuration names, in any case. Caddy's `PANIC` and `FATAL` lie above all entries
    /// that a server writes; as a threshold they mean the same as `ERROR` does here.
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
