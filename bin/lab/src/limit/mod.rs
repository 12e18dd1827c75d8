//! `lab find-limit` and `lab break`: how much a server can do while it keeps a promise, and what it does beyond.
//!
//! Both ask in the open loop: a closed one slows down with the server and so never shows an overload.

mod overload;
mod promise;
mod search;

use std::time::Duration;

use crate::cli::Refused;
use crate::hit;
use crate::load::{self, Plan};
use crate::result::{Load, Mode};

pub use overload::{BreakOptions, break_down};
pub use search::{LimitOptions, find_limit};

/// Load before each step's window.
const STEP_WARMUP: Duration = Duration::from_millis(500);

/// Reads the options of the target. Those that a search sets itself cannot be given.
fn target(options: &hit::Options) -> Result<Plan, Refused> {
    for (given, name) in [
        (options.rate.is_some(), "--rate"),
        (options.requests.is_some(), "--requests"),
        (options.json.is_some(), "--json"),
    ] {
        if given {
            return Err(Refused::new(format!(
                "{name} has no meaning here: rates are searched, and printed"
            )));
        }
    }
    Ok(hit::prepare(options)?.0)
}

/// One load at a rate; in the closed loop without one.
fn step(plan: &Plan, rate: Option<f64>, duration: Duration) -> Result<Load, Refused> {
    let mut plan = plan.clone();
    plan.mode = match rate {
        None => Mode::Closed,
        Some(rate) => Mode::Open {
            rate,
            poisson: false,
        },
    };
    plan.duration = duration;
    plan.warmup = STEP_WARMUP;
    // What is late has failed its promise already; there is no need to wait for all of it.
    plan.drain = plan.drain.min(plan.timeout);
    load::run(&plan, &mut |_| {})
        .map_err(|error| Refused::new(format!("the load broke off: {error}")))
}
