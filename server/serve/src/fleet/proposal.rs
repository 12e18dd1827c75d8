//! What is pushed, and what comes of it.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Serialize;
use sluice_store::{Fault, StoreError, Value, Version};

use super::revision::Revision;
use super::seen::text_of;
use super::view::Fleet;

/// What to push, and how.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The text.
    pub text: String,
    /// The nodes that take it first; all at once if `None`.
    pub canary: Option<Share>,
    /// How long to wait for the verdicts of a stage.
    pub timeout: Duration,
    /// How long to observe the error rates after each stage.
    pub observe: Duration,
}

/// A part of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// From 1 to 100 percent, rounded up.
    Percent(u8),
    /// So many.
    Nodes(usize),
}

/// What is there before a push.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The text in effect, if there is one.
    pub text: Option<String>,
    /// Its revision.
    pub revision: Option<Revision>,
    /// The fleet.
    pub fleet: Fleet,
    pub(super) version: Option<Version>,
}

/// What the text in effect must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Anything.
    Any,
    /// The revision with these first digits.
    Revision(String),
    /// None.
    Nothing,
}

/// A part of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Some nodes take it.
    Canary,
    /// All nodes take it.
    All,
    /// The text before was written again, and the nodes go back to it.
    RollBack,
}

/// How a push ended.
#[derive(Clone, Debug, Serialize)]
pub struct Pushed {
    /// What was pushed.
    pub revision: Revision,
    /// What was in effect before.
    pub previous: Option<Revision>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: PushOutcome,
    /// The verdict of each node on the text.
    pub nodes: Vec<NodeVerdict>,
}

/// The outcome of a push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum PushOutcome {
    /// All nodes run it.
    Done,
    /// The same text was in effect before, so that nothing was written.
    Unchanged,
    /// The text before is in effect again.
    RolledBack {
        /// The last stage.
        stage: Stage,
        /// Why.
        why: String,
        /// Whether all nodes run it again.
        is_restored: bool,
    },
    /// The text before could not be written again.
    Stuck {
        /// Why it was to be rolled back.
        why: String,
        /// Why it was not.
        problem: String,
    },
}

/// A node's verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// The verdict.
    pub verdict: Verdict,
    /// After how many seconds it was known.
    pub seconds: Option<f64>,
    /// What the node says about it.
    pub error: Option<String>,
}

/// The verdict of a node on a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has none yet.
    Waiting,
    /// It runs it.
    Took,
    /// It refused it.
    Refused,
    /// It runs it, and its error rate has jumped.
    ErrorsRose,
    /// It gave none in time.
    Silent,
    /// It has died meanwhile.
    Gone,
}

impl Verdict {
    /// As a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Waiting => "waiting",
            Verdict::Took => "took it",
            Verdict::Refused => "refused",
            Verdict::ErrorsRose => "errors rose",
            Verdict::Silent => "no verdict",
            Verdict::Gone => "gone",
        }
    }
}

/// Why nothing was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The store failed before anything was written, or while the outcome was not known.
    Store(StoreError),
    /// Somebody else has changed the configuration meanwhile.
    Changed(Option<Revision>),
    /// Somebody else pushes.
    InProgress,
}

impl From<StoreError> for PushError {
    fn from(error: StoreError) -> PushError {
        match error.fault {
            Fault::Held => PushError::InProgress,
            Fault::Away
            | Fault::Credentials
            | Fault::ReadOnly
            | Fault::Refused
            | Fault::Foreign
            | Fault::System
            | Fault::Limit
            | Fault::Setting => PushError::Store(error),
        }
    }
}

impl Share {
    /// Parses `10%` or `2`.
    pub fn parse(text: &str) -> Option<Share> {
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().ok();
                percent
                    .filter(|percent| (1..=100).contains(percent))
                    .map(Share::Percent)
            }
            None => text
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Share::Nodes),
        }
    }

    /// These nodes of all: the first by the digest of their names, so that it is not always the first by name, and each
    /// time the same ones.
    pub fn of(self, mut nodes: Vec<String>) -> Vec<String> {
        let count = match self {
            Share::Percent(percent) => (nodes.len() * usize::from(percent)).div_ceil(100),
            Share::Nodes(count) => count,
        };
        nodes.sort_by_cached_key(|name| digest(&SHA256, name.as_bytes()).as_ref().to_vec());
        nodes.truncate(count);
        nodes.sort();
        nodes
    }
}

impl Wanted {
    /// Whether this is the revision in effect.
    pub fn is(&self, revision: Option<&Revision>) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::Revision(digits) => revision.is_some_and(|found| found.is_named_by(digits)),
            Wanted::Nothing => revision.is_none(),
        }
    }
}

impl Checked {
    pub(super) fn of(
        value: Option<Value>,
        fleet: Fleet,
        place: &str,
    ) -> Result<Checked, StoreError> {
        let version = value.as_ref().map(|value| value.version.clone());
        let text = value.map(|value| text_of(value.bytes, place)).transpose()?;
        let revision = text.as_deref().map(Revision::of);
        Ok(Checked {
            text,
            revision,
            fleet,
            version,
        })
    }
}
