//! `sluice-lab find-limit` and `break`: their options.

use std::time::Duration;

use clap::Args;
use sluice_experiment::overload::{self, Asked, Promise};
use sluice_load::generator::Plan;
use sluice_load::outcome::{Outcome, Refused};
use sluice_load::quantity::parse_duration;

use crate::hit;
use crate::interrupt::on_signal;
use crate::live::Live;

/// Options of `lab find-limit`.
#[derive(Args, Clone, Debug)]
pub struct LimitOptions {
    #[command(flatten)]
    hit: hit::Options,
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
    hit: hit::Options,
    /// Duration of each step
    #[arg(long, value_parser = parse_duration, default_value = "3s")]
    step: Duration,
}

/// Runs `lab find-limit`.
pub fn find_limit(options: &LimitOptions) -> Outcome {
    let asked = asked(&options.hit, options.step)?;
    overload::find_limit(&asked, &options.slo, &mut Live::new())
}

/// Runs `lab break`.
pub fn break_down(options: &BreakOptions) -> Outcome {
    let asked = asked(&options.hit, options.step)?;
    overload::break_down(&asked, &mut Live::new())
}

fn asked(options: &hit::Options, step: Duration) -> Result<Asked, Refused> {
    Ok(Asked {
        plan: target(options)?,
        step,
        json: options.json.clone(),
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
