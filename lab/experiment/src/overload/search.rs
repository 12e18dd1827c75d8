//! `lab find-limit`: the highest rate that meets an objective. Bisects between rates that met it and rates that did
//! not, then confirms the result in a longer run.

use std::time::Duration;

use super::promise::Promise;
use super::{STEP_WARMUP, Steps, Verdict};
use sluice_load::outcome::{Completion, Refused};
use sluice_load::quantity::{thousands, time};
use sluice_load::result::Load;

/// Bisection steps: the rate is found to a hundredth of the first estimate.
const HALVINGS: usize = 7;

/// The search starts from the throughput of the closed loop, and never exceeds this multiple of it.
const BEYOND: f64 = 1.2;

/// Steps down of 5 % each, if the rate found is not confirmed.
const RETREATS_MAX: usize = 6;

/// How long the search takes, without retreats.
pub(super) fn length(step: Duration, last: Duration) -> Duration {
    (step + STEP_WARMUP) * (HALVINGS as u32 + 1) + STEP_WARMUP + last
}

/// Searches for the limit; the last step has the duration of the plan.
pub(super) fn limit(steps: &mut Steps<'_>, slo: &Promise) -> Result<Verdict, Refused> {
    let (step, last) = (steps.step, steps.plan.duration);
    let closed = steps.step(None, step)?.load;
    let most = closed.ok_per_s() * BEYOND;
    if closed.ended_ok == 0 {
        return Err(Refused::new(
            "the target sends no correct response under load",
        ));
    }
    steps.line(&format!(
        "closed loop: {}/s; searching below {}/s",
        thousands(closed.ok_per_s()),
        thousands(most)
    ));
    let mut look = |rate: f64, duration: Duration| -> Result<bool, Refused> {
        let load = steps.step(Some(rate), duration)?.load;
        let broken = slo.broken(&load);
        steps.line(&line(rate, &load, broken.as_deref()));
        Ok(broken.is_none())
    };
    let seconds = last.as_secs_f64();
    let found = halve(most, &mut |rate| look(rate, step))?;
    let mut limit = None;
    if let Some(found) = found {
        let rates = (0..RETREATS_MAX).map(|retreat| found * 0.95_f64.powi(retreat as i32));
        for rate in rates {
            if look(rate, last)? {
                limit = Some(rate);
                break;
            }
        }
    }
    let words = match (found, limit) {
        (None, _) => "no rate meets the objective".to_string(),
        (Some(_), None) => format!("no rate near it meets the objective for {seconds} s"),
        (Some(_), Some(rate)) => format!("limit: {}/s, sustained for {seconds} s", thousands(rate)),
    };
    steps.line(&words);
    let completion = match limit {
        Some(_) => Completion::Yes,
        None => Completion::No,
    };
    Ok(Verdict {
        words,
        completion,
        overload: None,
        rate: limit,
    })
}

/// Bisects between a rate that meets the objective and one that does not.
fn halve<E>(most: f64, look: &mut impl FnMut(f64) -> Result<bool, E>) -> Result<Option<f64>, E> {
    let (mut kept, mut broken) = (None, most);
    let mut rate = most / 2.0;
    for _ in 0..HALVINGS {
        if look(rate)? {
            kept = Some(rate);
        } else {
            broken = rate;
        }
        rate = (kept.unwrap_or(0.0) + broken) / 2.0;
    }
    Ok(kept)
}

fn line(rate: f64, load: &Load, broken: Option<&str>) -> String {
    let p99 = load.latency.total.percentile(99.0).map_or("-".into(), time);
    let verdict = broken.map_or("kept".to_string(), |why| format!("broken: {why}"));
    format!(
        "{:>10}/s due {:>10}/s good  p99 {p99:>8}  {verdict}",
        thousands(rate),
        thousands(load.ok_per_s())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_limit() {
        for limit in [10.0, 333.0, 990.0] {
            let mut look = |rate: f64| Ok::<bool, ()>(rate <= limit);
            let found = halve(1_000.0, &mut look).unwrap().unwrap();
            assert!(
                found <= limit && limit - found < 10.0,
                "{found} for {limit}"
            );
        }
        assert_eq!(halve(1_000.0, &mut |_| Ok::<bool, ()>(false)), Ok(None));
    }
}
