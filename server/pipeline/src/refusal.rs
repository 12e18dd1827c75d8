//! Why a configuration cannot be run as it stands. What a configuration may say is left to the languages.

use std::fmt;

use sluice_diag::OriginId;

/// The reason why a configuration cannot run. The message is self-contained and names the item it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The position in the configuration, as Caddy's JSON path: `apps.http.servers.srv0.routes[2].handle[0]`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it; empty if that is obvious.
    pub help: String,
    /// What another program said, such as the traceback of a Python application; several lines, empty for most refusals.
    pub detail: String,
    /// The position in the source text; `None` for most refusals.
    pub written: Option<OriginId>,
}

impl Refusal {
    /// Creates a refusal; the [builder](crate::build::Builder) fills in its position.
    pub fn new(message: impl Into<String>) -> Self {
        Refusal {
            place: String::new(),
            message: message.into(),
            help: String::new(),
            detail: String::new(),
            written: None,
        }
    }

    /// Refuses a setting that is known but not implemented.
    pub fn not_yet(what: &str, instead: &str) -> Self {
        Refusal::new(format!("{what} is known but not supported yet")).with_help(instead)
    }

    /// Adds how to fix it.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if !self.place.is_empty() {
            write!(f, " (at {})", self.place)?;
        }
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
