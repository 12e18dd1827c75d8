//! `sluice-lab find-limit` and `break`: their options. The target is a URL, or an experiment of which each selected cell is
//! searched.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use sluice_experiment::agent::AgentSpec;
use sluice_experiment::overload::{self, Asked, Goal, Promise};
use sluice_experiment::{builtin, run};
use sluice_load::generator::Plan;
use sluice_load::outcome::{Outcome, Refused};
use sluice_load::quantity::parse_duration;

use crate::hit::{self, drive::Generators};
use crate::interrupt::on_signal;
use crate::live::Live;

/// Options of `lab find-limit`.
#[derive(Args, Clone, Debug)]
pub struct LimitOptions {
    #[command(flatten)]
    search: SearchOptions,
    /// Objective: upper bounds for p50 p90 p99 …, mean, max and errors
    #[arg(long, default_value = "p99<50ms,errors<0.1%")]
    slo: Promise,
    /// Duration of each step of the search
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    step: Duration,
}

/// Options of `lab break`.
#[derive(Args, Clone, Debug)]
pub struct BreakOptions {
    #[command(flatten)]
    search: SearchOptions,
    /// Duration of each step
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    step: Duration,
}

/// Options of both: those of `hit` for a URL, and these for an experiment in its place.
#[derive(Args, Clone, Debug)]
struct SearchOptions {
    #[command(flatten)]
    hit: hit::Options,
    /// Experiment: search only these cells: 'subject=sluice*,nginx; test=proxy'
    #[arg(long, default_value = "")]
    only: String,
    /// Experiment: print the cells and the duration without measuring anything
    #[arg(long)]
    plan: bool,
    /// Experiment: run the servers under test, and their upstreams without --upstreams, on the machine of this agent
    #[arg(long, value_name = "AGENT")]
    servers: Option<AgentSpec>,
    /// Experiment: address of the servers' machine at which the load reaches them
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Experiment: run the upstreams on the machine of this agent instead
    #[arg(long, value_name = "AGENT")]
    upstreams: Option<AgentSpec>,
    /// Experiment: address of the upstreams' machine at which the servers reach them
    #[arg(long, value_name = "IP")]
    upstream_address: Option<IpAddr>,
}

/// Options that apply to an experiment; the file sets everything else.
const OF_EXPERIMENTS: [&str; 15] = [
    "servers",
    "upstreams",
    "upstream_address",
    "url",
    "only",
    "plan",
    "address",
    "agent",
    "token_file",
    "slo",
    "step",
    "connections",
    "duration",
    "seed",
    "json",
];

/// Options that apply to experiments only.
const ONLY_OF_EXPERIMENTS: [&str; 6] = [
    "only",
    "plan",
    "address",
    "servers",
    "upstreams",
    "upstream_address",
];

/// Runs `lab find-limit`. `given` are the identifiers of the options on the command line.
pub fn find_limit(options: &LimitOptions, given: &[String]) -> Outcome {
    let goal = Goal::Limit(options.slo.clone());
    search(&options.search, &goal, options.step, given)
}

/// Runs `lab break`.
pub fn break_down(options: &BreakOptions, given: &[String]) -> Outcome {
    search(&options.search, &Goal::Break, options.step, given)
}

fn search(options: &SearchOptions, goal: &Goal, step: Duration, given: &[String]) -> Outcome {
    if is_experiment(&options.hit.url) {
        return experiment(options, goal, step, given);
    }
    if let Some(option) = first_of(given, |id| ONLY_OF_EXPERIMENTS.contains(&id)) {
        return Err(Refused(format!(
            "{option} needs an experiment instead of a URL: a file or one of `sluice-lab list`"
        )));
    }
    let asked = Asked {
        plan: target(&options.hit)?,
        step,
        json: options.hit.json.clone(),
    };
    let mut generators = Generators::connect(&options.hit)?;
    let driver = generators.driver(&options.hit);
    overload::search(&asked, goal, driver, &mut Live::new())
}

/// Searches the cells of an experiment.
fn experiment(options: &SearchOptions, goal: &Goal, step: Duration, given: &[String]) -> Outcome {
    if let Some(option) = first_of(given, |id| !OF_EXPERIMENTS.contains(&id)) {
        return Err(Refused(format!(
            "{option} applies to a URL; `{}` is an experiment, whose file describes the load",
            options.hit.url
        )));
    }
    let has = |id: &str| given.iter().any(|one| one == id);
    let hit = &options.hit;
    let asked = run::Options {
        experiment: hit.url.clone(),
        only: options.only.clone(),
        clients: has("connections").then(|| vec![hit.connections]),
        duration: has("duration").then_some(hit.duration),
        seed: hit.seed,
        plan: options.plan,
        agents: hit.agent.clone(),
        token_file: hit.token_file.clone(),
        servers: options.servers.clone(),
        address: options.address,
        upstreams: options.upstreams.clone(),
        upstream_address: options.upstream_address,
        interrupt: on_signal()?,
        ..run::Options::default()
    };
    run::search(&asked, goal, step, hit.json.as_deref(), &mut Live::new())
}

/// Whether the target is an experiment: built in, or a file.
fn is_experiment(target: &str) -> bool {
    let file = target.ends_with(".toml") || Path::new(target).is_file();
    !target.contains("://") && (file || builtin::builtin_names().any(|name| name == target))
}

/// The first option that was given and matches, as it is typed.
fn first_of(given: &[String], matches: impl Fn(&str) -> bool) -> Option<String> {
    let id = given.iter().find(|id| matches(id.as_str()))?;
    Some(match id.as_str() {
        "against" => "a second target".to_string(),
        id => format!("--{}", id.replace('_', "-")),
    })
}

/// The target's options. Those that a search sets itself are rejected.
fn target(options: &hit::Options) -> Result<Plan, Refused> {
    for (given, name) in [
        (options.rate.is_some(), "--rate"),
        (options.requests.is_some(), "--requests"),
        (options.engine.is_some(), "--engine"),
        (options.against.is_some(), "a second target"),
        (options.repeats.is_some(), "--repeats"),
        (!options.fail.is_empty(), "--fail"),
        (options.scenario.is_some(), "--scenario"),
    ] {
        if given {
            return Err(Refused::new(format!(
                "{name} cannot be used here: the lab's own load generator searches for the rate"
            )));
        }
    }
    Ok(Plan {
        interrupt: on_signal()?,
        ..hit::prepare(options)?.0
    })
}
