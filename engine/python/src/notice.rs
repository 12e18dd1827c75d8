//! What is reported to the log. Messages are constant text, and what varies is in named facts.

use std::sync::Arc;

/// The level of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// Normal events.
    Info,
    /// Something went wrong and was handled.
    Warn,
    /// Something is broken.
    Error,
}

/// One entry for the log.
#[derive(Debug)]
pub struct Notice<'a> {
    /// Its level; that of the line, where the application wrote one with a level.
    pub level: Level,
    /// Constant text.
    pub message: &'static str,
    /// The name of the application ([`crate::Settings::name`]).
    pub application: &'a str,
    /// The index of the worker process in its group.
    pub worker: Option<usize>,
    /// Its PID.
    pub pid: Option<u32>,
    /// What varies.
    pub facts: &'a [(&'static str, Fact)],
}

/// The value of a named fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Text; lines of an application and tracebacks may contain line ends.
    Text(String),
    /// A number.
    Number(u64),
}

/// Receives notices, from any thread. It must not block.
pub type Sink = Arc<dyn Fn(&Notice<'_>) + Send + Sync>;
