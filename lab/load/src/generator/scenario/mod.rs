//! Scenarios: a load whose clients visit the target in sessions of several steps, with cookies and think times, while the
//! number of clients or the rate of new sessions changes from phase to phase. Here is what a scenario is;
//! `sluice-experiment` reads it from a file.
//!
//! A client has one connection and makes one request at a time. In a closed loop the phases set the number of clients,
//! each of which begins a session after the other. In an open loop they set how many sessions begin per second, whatever
//! the target does; each takes an idle client, and waits if there is none.

mod arrivals;
mod cookies;
mod template;
mod users;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use template::{Part, Template, Values, Variable, VariableScope};
pub(super) use users::Users;

use super::expect::{BodyExpect, Expect};
use super::mix::Mix;
use super::request::{Draft, Prepared};
use super::target::Target;
use crate::result::{Load, Mode};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What the phases set.
    pub pace: Pace,
    /// The phases, one after the other; together they are the window. At least one.
    pub phases: Vec<Phase>,
    /// Variables of its templates.
    pub variables: Vec<Variable>,
    /// Its sessions. At least one, each with at least one step.
    pub sessions: Vec<Session>,
}

/// What the phases set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Closed loop: the number of clients.
    Clients,
    /// Open loop: sessions that begin per second.
    Sessions {
        /// Clients that may take part at the same time; sessions beyond wait for one.
        clients_max: usize,
        /// Whether the intervals are random (exponential).
        poisson: bool,
    },
}

/// A part of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its length.
    pub duration: Duration,
    /// Clients, or sessions per second, at its beginning.
    pub from: f64,
    /// The same at its end; in between it changes linearly.
    pub to: f64,
}

/// A visit of one client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// How often it begins in relation to the others.
    pub weight: u32,
    /// Whether cookies that the target sets are sent back until its end.
    pub cookies: bool,
    /// Whether it begins with a new connection.
    pub new_connection: bool,
    /// Its requests, in order. A step that fails ends the session.
    pub steps: Vec<Step>,
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The method token.
    pub method: String,
    /// Path and query. Values of variables are percent-encoded.
    pub path: Template,
    /// Headers.
    pub headers: Vec<(String, Template)>,
    /// The body.
    pub body: Template,
    /// Shortest think time after it.
    pub think_min: Duration,
    /// Longest think time after it; each is random in between.
    pub think_max: Duration,
    /// The expected response.
    pub expect: StepExpect,
}

/// The expected response of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepExpect {
    /// The status.
    pub status: u16,
    /// The body; `None` for any.
    pub body: Option<String>,
    /// The length of the body; `None` for any.
    pub length: Option<u64>,
    /// Headers that must be present: name, and value unless any is accepted.
    pub headers: Vec<(String, Option<String>)>,
}

impl StepExpect {
    fn expect(&self) -> Expect {
        let exact = |body: &String| BodyExpect::Exact {
            bytes: body.as_bytes().into(),
            every: 1,
        };
        let length = || self.length.map(BodyExpect::Length);
        Expect {
            status: self.status,
            body: self
                .body
                .as_ref()
                .map(exact)
                .or_else(length)
                .unwrap_or(BodyExpect::Any),
            fields: self.headers.clone(),
        }
    }
}

impl Scenario {
    /// Length of the window.
    pub fn duration(&self) -> Duration {
        self.phases.iter().map(|phase| phase.duration).sum()
    }

    /// Clients that may take part at the same time.
    pub fn clients_max(&self) -> usize {
        let levels = self.phases.iter().flat_map(|phase| [phase.from, phase.to]);
        match self.pace {
            Pace::Clients => levels.fold(0.0, f64::max).round() as usize,
            Pace::Sessions { clients_max, .. } => clients_max,
        }
    }

    /// The mode of the load. The rate of an open loop is the mean over all phases, in requests: each session counts with
    /// all its steps.
    pub fn mode(&self) -> Mode {
        let Pace::Sessions { poisson, .. } = self.pace else {
            return Mode::Closed;
        };
        let sessions: f64 = self.phases.iter().map(Phase::area).sum();
        let weights: f64 = self.sessions.iter().map(|s| f64::from(s.weight)).sum();
        let steps = self.sessions.iter();
        let steps = steps.map(|session| session.steps.len() as f64 * f64::from(session.weight));
        let steps: f64 = steps.sum::<f64>() / weights.max(1.0);
        Mode::Open {
            rate: sessions * steps / self.duration().as_secs_f64().max(1e-9),
            poisson,
        }
    }

    /// Each step as a part of the load.
    pub(super) fn mix(&self) -> Mix {
        let steps = self.sessions.iter().flat_map(|session| {
            let name = |step: &Step| (format!("{}: {}", session.name, step.name), session.weight);
            session.steps.iter().map(name)
        });
        let parts: Vec<(String, u32)> = steps.collect();
        Mix {
            part_of: (0..parts.len()).collect(),
            parts,
        }
    }

    /// The share of a machine, of `of` machines: clients and rates are divided, sessions and phases stay.
    pub fn share(&self, machine: usize, of: usize) -> Scenario {
        let upto = |all: f64, machine: usize| all * machine as f64 / of as f64;
        let whole = |all: f64| upto(all, machine + 1).round() - upto(all, machine).round();
        let mut mine = self.clone();
        match &mut mine.pace {
            Pace::Clients => {
                for phase in &mut mine.phases {
                    (phase.from, phase.to) = (whole(phase.from), whole(phase.to));
                }
            }
            Pace::Sessions { clients_max, .. } => {
                *clients_max = whole(*clients_max as f64) as usize;
                for phase in &mut mine.phases {
                    (phase.from, phase.to) = (phase.from / of as f64, phase.to / of as f64);
                }
            }
        }
        mine
    }

    /// The first request of the first session, with the first values of all variables: to check that the target responds.
    /// The error names the step.
    pub fn probe(&self, target: &Target) -> Result<Prepared, String> {
        let values: Vec<String> = self.variables.iter().map(Variable::example).collect();
        let mut first = None;
        for session in &self.sessions {
            for step in &session.steps {
                let expect = step.expect.expect();
                let prepared = step
                    .prepare(target, &values, None, expect)
                    .map_err(|error| format!("step `{}: {}`: {error}", session.name, step.name))?;
                first.get_or_insert(prepared);
            }
        }
        first.ok_or_else(|| "the scenario has no step".to_string())
    }

    /// Names and times of phases, and names of sessions, in the figures of a load.
    pub(super) fn label(&self, load: &mut Load) {
        let mut begin = Duration::ZERO;
        for (figures, phase) in load.phases.iter_mut().zip(&self.phases) {
            figures.name.clone_from(&phase.name);
            figures.begin_s = begin.as_secs_f64();
            figures.duration_s = phase.duration.as_secs_f64();
            (figures.from, figures.to) = (phase.from, phase.to);
            begin += phase.duration;
        }
        for (figures, session) in load.sessions.iter_mut().zip(&self.sessions) {
            figures.name.clone_from(&session.name);
            figures.weight = session.weight;
        }
    }

    /// What is verified, in words for the result.
    pub fn words(&self) -> String {
        let steps = || self.sessions.iter().flat_map(|session| &session.steps);
        let of = |what: fn(&StepExpect) -> bool| steps().filter(|s| what(&s.expect)).count();
        let bodies = of(|expect| expect.body.is_some());
        let lengths = of(|expect| expect.body.is_none() && expect.length.is_some());
        format!(
            "the status of each of {} steps, the body of {bodies}, the length of {lengths} others",
            steps().count()
        )
    }
}

impl Phase {
    /// The number of sessions that begin in it, or of client seconds.
    fn area(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.duration.as_secs_f64()
    }
}

impl Step {
    /// Whether its request is always the same, apart from cookies.
    fn is_fixed(&self) -> bool {
        let headers = self.headers.iter().map(|(_, value)| value);
        let mut templates = headers.chain([&self.path, &self.body]);
        templates.all(|template| template.variables().next().is_none())
    }

    /// The request with these values of the variables.
    fn prepare(
        &self,
        target: &Target,
        values: &[String],
        cookies: Option<String>,
        expect: Expect,
    ) -> Result<Prepared, String> {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.fill(values)));
        let cookies = cookies.map(|cookies| ("Cookie".to_string(), cookies));
        let draft = Draft {
            method: self.method.clone(),
            path: self.path.fill_path(values),
            fields: headers.chain(cookies).collect(),
            body: self.body.fill(values).into_bytes().into(),
            close: false,
        };
        draft.prepare(target, expect)
    }
}
