//! The structure of an explanation, for tools. The command line formats it for terminals.

use serde::{Deserialize, Serialize};

/// How a request was handled, or would be handled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The method of the request.
    pub method: String,
    /// The complete URL.
    pub url: String,
    /// The listener that received the request.
    pub listener: Listener,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// The result.
    pub outcome: Outcome,
}

/// The listener that received a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listener {
    /// The name of the server in the configuration.
    pub server: String,
    /// The listen address.
    pub address: String,
    /// Whether it uses TLS.
    pub tls: bool,
    /// Assumptions about parts that the question does not specify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

/// One step: a route was tried, or a handler ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What happened.
    pub kind: StepKind,
    /// The directive, or `site`; without a source text, the handler's module name.
    pub name: String,
    /// The position in the JSON configuration.
    pub place: String,
    /// The number of enclosing routes.
    pub depth: usize,
    /// The position in the source text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Spot>,
    /// Details.
    pub remarks: Vec<Remark>,
    /// The number of further non-matching routes of the same list, which are not shown individually.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A route that does not match, or that another route of its group excludes.
    Passed,
    /// A route whose handlers run.
    Taken,
    /// A handler ran.
    Ran,
    /// The request failed; error routes handle it, or it ends.
    Failed,
    /// A filter changed the response.
    Filtered,
}

/// One sentence about a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// The subject.
    pub kind: RemarkKind,
    /// The condition, variable or header concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The sentence.
    pub text: String,
    /// The position in the configuration, if it is only a part of the step's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Spot>,
}

/// The subjects of remarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// A condition is met.
    Met,
    /// A condition is not met.
    Unmet,
    /// The method or the target was changed.
    Rewrite,
    /// A variable was set.
    Variable,
    /// A request header was changed.
    RequestField,
    /// A response header was changed.
    ResponseField,
    /// A handler describes what it does or would do.
    Does,
    /// A handler did nothing.
    Nothing,
    /// Additional information.
    Note,
    /// The request failed.
    Error,
    /// The handler produced the response. Its name in JSON is older than the glossary.
    #[serde(rename = "answer")]
    Response,
}

/// A position in the source text of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The file.
    pub file: String,
    /// The line, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
    /// The text of the line.
    pub text: String,
    /// The start of the marked part, in bytes from the start of the line.
    pub start: u32,
    /// The end of the marked part.
    pub end: u32,
    /// The imports that led here, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One sentence that describes the result.
    pub text: String,
    /// The status; 0 if it is unknown.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The response headers, as far as they are known.
    pub fields: Vec<(String, String)>,
    /// The size of the body in bytes, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// The beginning of a short text body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body_begins: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Remark {
    /// A remark about the whole step.
    pub(super) fn new(kind: RemarkKind, name: &str, text: impl Into<String>) -> Remark {
        Remark {
            kind,
            name: name.to_owned(),
            text: text.into(),
            at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json_are_those_that_editors_know() {
        let names = [RemarkKind::Response, RemarkKind::ResponseField];
        let names = names.map(|kind| serde_json::to_value(kind).expect("a name"));
        assert_eq!(names, ["answer", "response_field"]);
    }
}
