//! What an explanation says, in the shape that tools read. How it looks on a terminal is left to the command line.

use serde::{Deserialize, Serialize};

/// How a request was handled, or would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The method of the request.
    pub method: String,
    /// Its whole URL.
    pub url: String,
    /// Where it came in.
    pub listener: Listener,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What came of it.
    pub outcome: Outcome,
}

/// Where a request came in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listener {
    /// The name of the server in the configuration.
    pub server: String,
    /// The address it listens on.
    pub address: String,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// What had to be assumed, since the question did not say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

/// One thing that happened: a route was looked at, or a handler ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What happened.
    pub kind: StepKind,
    /// The directive, or `site`; where the text is not known, the module of the handler.
    pub name: String,
    /// Where in the JSON of the configuration.
    pub place: String,
    /// How many routes are around it.
    pub depth: usize,
    /// Where in the text of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Spot>,
    /// What there is to say of it.
    pub remarks: Vec<Remark>,
    /// How many more routes of the same list were passed by and are not told one by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A route whose conditions are not met, or that another excludes.
    Passed,
    /// A route whose handlers run.
    Taken,
    /// A handler ran.
    Ran,
    /// The request failed and goes on with other routes, or ends.
    Failed,
    /// The answer was changed on its way out.
    Filtered,
}

/// One sentence on a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// What it is about.
    pub kind: RemarkKind,
    /// The condition, variable or field that it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The sentence.
    pub text: String,
    /// The words of the configuration that it is about, where they are not the whole step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Spot>,
}

/// What remarks are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// A condition that is met.
    Met,
    /// One that is not.
    Unmet,
    /// Method or target were changed.
    Rewrite,
    /// A variable was set.
    Variable,
    /// A field of the request was changed.
    RequestField,
    /// A field of the answer was changed.
    ResponseField,
    /// A handler says what it does or would do.
    Does,
    /// A handler did nothing.
    Nothing,
    /// Something worth knowing.
    Note,
    /// The request failed.
    Error,
    /// The request was answered.
    Answer,
}

/// Words of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The text of the line.
    pub text: String,
    /// The bytes of the text that are meant.
    pub start: u32,
    /// Their end.
    pub end: u32,
    /// The imports that brought them in, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
}

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What happens, in a sentence.
    pub text: String,
    /// The status; 0 where nobody here knows it.
    pub status: u16,
    /// What the status is called.
    pub reason: String,
    /// The fields of the answer, as far as they are known.
    pub fields: Vec<(String, String)>,
    /// The bytes of the body, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// How a short text body begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body_begins: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Remark {
    /// A remark on the whole step.
    pub(super) fn new(kind: RemarkKind, name: &str, text: impl Into<String>) -> Remark {
        Remark {
            kind,
            name: name.to_owned(),
            text: text.into(),
            at: None,
        }
    }
}
