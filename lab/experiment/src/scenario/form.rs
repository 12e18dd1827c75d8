//! The form of a scenario file: what TOML it accepts. Values are checked in `check`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A scenario file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// [`super::SCHEMA`].
    pub schema: Spanned<String>,
    /// A short name.
    pub name: Spanned<String>,
    /// Open loop: random intervals between sessions.
    #[serde(default)]
    pub poisson: Option<Spanned<bool>>,
    /// Open loop: clients at the same time.
    pub clients_max: Option<Spanned<i64>>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// Variables, by name.
    #[serde(default)]
    pub vars: BTreeMap<Spanned<String>, Spanned<VariableForm>>,
    /// The phases, in chronological order.
    #[serde(default)]
    pub phase: Vec<Spanned<PhaseForm>>,
    /// Sessions of several steps.
    #[serde(default)]
    pub session: Vec<Spanned<SessionForm>>,
    /// Sessions of a single request.
    #[serde(default)]
    pub request: Vec<Spanned<RequestForm>>,
}

/// A phase.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseForm {
    /// Its name; by default its number.
    pub name: Option<String>,
    /// Its length.
    pub duration: Spanned<String>,
    /// Closed loop: the number of clients.
    pub clients: Option<Spanned<LevelForm>>,
    /// Open loop: sessions that begin per second.
    pub rate: Option<Spanned<LevelForm>>,
}

/// A level, or the levels at the beginning and at the end.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum LevelForm {
    /// The same all the time.
    Same(f64),
    /// A ramp.
    Ramp([f64; 2]),
}

/// A variable: one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableForm {
    /// Numbers in turn, from the first to the last.
    pub counter: Option<[u64; 2]>,
    /// A random number between these.
    pub random: Option<[u64; 2]>,
    /// Texts.
    pub list: Option<Vec<String>>,
    /// How a text is chosen.
    pub order: Option<OrderForm>,
    /// When the variable takes its next value.
    pub each: Option<EachForm>,
}

/// How a text of a list is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderForm {
    /// In turn.
    Turns,
    /// At random.
    Random,
}

/// When a variable takes its next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EachForm {
    /// At the beginning of a session.
    Session,
    /// With each request.
    Request,
}

/// A session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionForm {
    /// Its name.
    pub name: String,
    /// How often it begins in relation to the others.
    pub weight: Option<Spanned<i64>>,
    /// Whether cookies are sent back; by default they are.
    pub cookies: Option<bool>,
    /// Whether it begins with a new connection.
    #[serde(default)]
    pub new_connection: bool,
    /// Its requests.
    #[serde(default)]
    pub step: Vec<Spanned<StepForm>>,
}

/// A step of a session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepForm {
    /// Its name; by default method and path.
    pub name: Option<String>,
    /// The method; by default GET, or POST with a body.
    pub method: Option<Spanned<String>>,
    /// Path and query.
    pub path: Spanned<String>,
    /// Headers.
    #[serde(default)]
    pub headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The body.
    pub body: Option<Spanned<String>>,
    /// A file with the body, which has no variables.
    pub body_file: Option<Spanned<String>>,
    /// Think time after it, or the shortest and the longest.
    pub think: Option<Spanned<ThinkForm>>,
    /// The expected response.
    #[serde(default)]
    pub expect: ExpectForm,
}

/// A session of one request: a step with a weight.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestForm {
    /// How often it is sent in relation to the others.
    pub weight: Option<Spanned<i64>>,
    /// As in a step.
    pub name: Option<String>,
    /// As in a step.
    pub method: Option<Spanned<String>>,
    /// As in a step.
    pub path: Spanned<String>,
    /// As in a step.
    #[serde(default)]
    pub headers: BTreeMap<Spanned<String>, Spanned<String>>,
    /// As in a step.
    pub body: Option<Spanned<String>>,
    /// As in a step.
    pub body_file: Option<Spanned<String>>,
    /// As in a step.
    pub think: Option<Spanned<ThinkForm>>,
    /// As in a step.
    #[serde(default)]
    pub expect: ExpectForm,
}

impl RequestForm {
    /// Its parts in common with a step.
    pub fn parts(&self) -> StepParts<'_> {
        StepParts {
            name: self.name.as_ref(),
            method: self.method.as_ref(),
            path: &self.path,
            headers: &self.headers,
            body: self.body.as_ref(),
            body_file: self.body_file.as_ref(),
            think: self.think.as_ref(),
            expect: &self.expect,
        }
    }
}

impl StepForm {
    /// Its parts in common with a request.
    pub fn parts(&self) -> StepParts<'_> {
        StepParts {
            name: self.name.as_ref(),
            method: self.method.as_ref(),
            path: &self.path,
            headers: &self.headers,
            body: self.body.as_ref(),
            body_file: self.body_file.as_ref(),
            think: self.think.as_ref(),
            expect: &self.expect,
        }
    }
}

/// What a step and a session of one request have in common.
#[derive(Clone, Copy, Debug)]
pub struct StepParts<'a> {
    /// Its name.
    pub name: Option<&'a String>,
    /// The method.
    pub method: Option<&'a Spanned<String>>,
    /// Path and query.
    pub path: &'a Spanned<String>,
    /// Headers.
    pub headers: &'a BTreeMap<Spanned<String>, Spanned<String>>,
    /// The body.
    pub body: Option<&'a Spanned<String>>,
    /// A file with the body.
    pub body_file: Option<&'a Spanned<String>>,
    /// Think time.
    pub think: Option<&'a Spanned<ThinkForm>>,
    /// The expected response.
    pub expect: &'a ExpectForm,
}

/// A think time, or the shortest and the longest.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ThinkForm {
    /// Always the same.
    Same(String),
    /// Random in between.
    Between([String; 2]),
}

/// The expected response of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectForm {
    /// The status; by default 200.
    pub status: Option<Spanned<i64>>,
    /// The body.
    pub body: Option<Spanned<String>>,
    /// The length of the body.
    pub length: Option<Spanned<i64>>,
    /// Headers that must be present; an empty value accepts any.
    pub headers: BTreeMap<String, String>,
}
