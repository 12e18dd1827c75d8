//! Why a configuration cannot be run as it stands. What a configuration may say is left to the languages.

use std::fmt;

use sluice_diag::OriginId;

/// Why a configuration cannot run. The message stands alone and names the thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where in the configuration, as Caddy's JSON path: `apps.http.servers.srv0.routes[2].handle[0]`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to do instead; empty where that is plain.
    pub help: String,
    /// Where it was written, in the text that the configuration was read from; unknown for most.
    pub written: Option<OriginId>,
}

impl Refusal {
    /// A refusal whose place is filled in by the [`Builder`].
    pub fn new(message: impl Into<String>) -> Self {
        Refusal {
            place: String::new(),
            message: message.into(),
            help: String::new(),
            written: None,
        }
    }

    /// A setting that is known but not built yet.
    pub fn not_yet(what: &str, instead: &str) -> Self {
        Refusal::new(format!("{what} is known but not supported yet")).with_help(instead)
    }

    /// Adds what to do instead.
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
