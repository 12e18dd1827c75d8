//! `lab break`: increases the load until the server is overloaded, and reports how it degrades and recovers.

use std::time::Duration;

use super::{STEP_WARMUP, Steps, Verdict};
use sluice_load::outcome::{Completion, Refused};
use sluice_load::quantity::{thousands, time};
use sluice_load::result::{FailureClass, Load};

/// Rates of the curve, relative to the throughput of the closed loop.
const SHARES: [f64; 8] = [0.25, 0.5, 0.75, 0.9, 1.1, 1.3, 1.6, 2.0];

/// The relative rate at which the server was healthy, repeated afterwards to check recovery.
const CALM_SHARE: f64 = 0.5;

/// Maximum number of recovery steps before the server counts as not recovering.
const RECOVERY_LOOKS: usize = 10;

/// Growth of latency that counts as queueing, and as not yet recovered.
const GROWN: f64 = 5.0;

/// Goodput below this share of its maximum counts as collapsed.
const COLLAPSED: f64 = 0.5;

/// Share of failures that counts as failing.
const FAILING: f64 = 0.01;

/// Behaviour under overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Not overloaded at any of the rates tried.
    Holds,
    /// Rejects the excess at once, and serves the rest as fast as before.
    Sheds,
    /// Responds to everything, with growing latency.
    Queues,
    /// Connections break during requests.
    Drops,
    /// Successful responses fall below half of the maximum.
    Collapses,
    /// The server has exited.
    Dies,
}

impl Manner {
    fn words(self) -> &'static str {
        match self {
            Manner::Holds => {
                "holds: the server never degraded; the generator or its connections are the limit"
            }
            Manner::Sheds => "sheds: refuses excess requests and serves the rest as fast as before",
            Manner::Queues => "queues: serves every request, later and later",
            Manner::Drops => "drops: closes connections with requests in flight",
            Manner::Collapses => "collapses: serves less than half of its capacity",
            Manner::Dies => "dies: no longer responds",
        }
    }
}

/// Results of one step.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    goodput: f64,
    p99_ns: f64,
    /// Shares of requests: rejected cleanly, by status or refused connection; broken connections; all failures.
    refused: f64,
    broken: f64,
    failed: f64,
}

/// How long it takes if the server recovers at once.
pub(super) fn length(step: Duration) -> Duration {
    (step + STEP_WARMUP) * (SHARES.len() as u32 + 2)
}

/// Overloads the server step by step, and waits for its recovery.
pub(super) fn curve(steps: &mut Steps<'_>) -> Result<Verdict, Refused> {
    let step = steps.step;
    let closed = steps.step(None, step)?.load;
    let knee = closed.ok_per_s();
    if closed.ended_ok == 0 {
        return Err(Refused::new(
            "the target sends no correct response under load",
        ));
    }
    steps.line(&format!("closed loop: {}/s", thousands(knee)));
    let mut curve = Vec::new();
    for share in SHARES {
        let load = steps.step(Some(knee * share), step)?.load;
        let seen = Seen::of(&load);
        steps.line(&line(knee * share, share, &seen));
        curve.push((share, seen));
    }
    // The following steps check recovery and do not belong to the curve.
    let before = steps.taken.len();
    let mut calm = None;
    for look in 1..=RECOVERY_LOOKS {
        let seen = Seen::of(&steps.step(Some(knee * CALM_SHARE), step)?.load);
        if is_calm(&curve, knee, &seen) {
            calm = Some(look);
            break;
        }
    }
    steps.taken.truncate(before);
    let manner = judge(&curve, calm.is_some());
    let recovery = match calm {
        Some(1) => "recovers at once".to_string(),
        Some(look) => {
            let seconds = step.as_secs_f64() * (look - 1) as f64;
            format!("recovers after about {seconds:.0} s")
        }
        None => format!("does not recover within {RECOVERY_LOOKS} steps"),
    };
    steps.line(manner.words());
    steps.line(&recovery);
    let completion = match manner {
        Manner::Holds | Manner::Sheds | Manner::Queues => Completion::Yes,
        Manner::Drops | Manner::Collapses | Manner::Dies => Completion::No,
    };
    let words = format!("{}; {recovery}", manner.words());
    Ok(Verdict {
        words,
        completion,
        overload: None,
        rate: None,
    })
}

impl Seen {
    fn of(load: &Load) -> Self {
        let all = (load.ok + load.failed()).max(1) as f64;
        let share = |classes: &[FailureClass]| {
            let count: u64 = classes.iter().map(|class| load.failed_in(*class)).sum();
            count as f64 / all
        };
        Seen {
            goodput: load.ok_per_s(),
            p99_ns: load.latency.total.percentile(99.0).unwrap_or(0.0),
            refused: share(&[
                FailureClass::Refused,
                FailureClass::GoAway,
                FailureClass::Status,
            ]),
            broken: share(&[
                FailureClass::Reset,
                FailureClass::Closed,
                FailureClass::Stale,
                FailureClass::HeadCut,
                FailureClass::BodyCut,
                FailureClass::StreamReset,
                FailureClass::ConnectionLost,
            ]),
            failed: load.failed_share(),
        }
    }
}

/// Whether the server performs as well as it did at the same rate before the overload.
fn is_calm(curve: &[(f64, Seen)], knee: f64, seen: &Seen) -> bool {
    let before = curve.iter().find(|(share, _)| *share == CALM_SHARE);
    let p99 = before.map_or(0.0, |(_, before)| before.p99_ns);
    let kept_up = seen.goodput >= knee * CALM_SHARE * 0.95;
    kept_up && seen.failed < FAILING && seen.p99_ns <= (p99 * GROWN).max(5e6)
}

/// Classifies the behaviour, from the curve and whether the server recovered.
fn judge(curve: &[(f64, Seen)], recovered: bool) -> Manner {
    let best = curve
        .iter()
        .map(|(_, seen)| seen.goodput)
        .fold(0.0, f64::max);
    let over = || {
        curve
            .iter()
            .filter(|(share, _)| *share > 1.0)
            .map(|(_, seen)| seen)
    };
    let Some(worst) = curve.last().map(|(_, seen)| seen) else {
        return Manner::Holds;
    };
    let calm = curve.iter().find(|(share, _)| *share == CALM_SHARE);
    let calm_ns = calm.map_or(0.0, |(_, seen)| seen.p99_ns).max(1e5);
    if worst.goodput < best * 0.01 && !recovered {
        Manner::Dies
    } else if over().any(|seen| seen.goodput < best * COLLAPSED) {
        Manner::Collapses
    } else if over().any(|seen| seen.broken > FAILING) {
        Manner::Drops
    } else if worst.refused > FAILING && worst.p99_ns < calm_ns * GROWN {
        Manner::Sheds
    } else if over().any(|seen| seen.p99_ns > calm_ns * GROWN || seen.failed > FAILING) {
        Manner::Queues
    } else {
        Manner::Holds
    }
}

fn line(rate: f64, share: f64, seen: &Seen) -> String {
    format!(
        "{:>4.0} %  {:>10}/s due {:>10}/s good  p99 {:>8}  failed {:.1} %",
        share * 100.0,
        thousands(rate),
        thousands(seen.goodput),
        time(seen.p99_ns),
        seen.failed * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(beyond: Seen) -> Vec<(f64, Seen)> {
        let well = |share: f64| Seen {
            goodput: share * 1_000.0,
            p99_ns: 2e6,
            ..Seen::default()
        };
        vec![
            (0.25, well(0.25)),
            (0.5, well(0.5)),
            (0.9, well(0.9)),
            (1.3, beyond),
            (2.0, beyond),
        ]
    }

    #[test]
    fn each_overload_reaction_is_distinguished() {
        // Successful requests per second, p99 in milliseconds, shares refused, broken and failed; whether it recovered.
        for (goodput, p99_ms, [refused, broken, failed], recovered, manner) in [
            (1_000.0, 2.0, [0.0, 0.0, 0.0], true, Manner::Holds),
            (1_000.0, 2.0, [0.4, 0.0, 0.4], true, Manner::Sheds),
            (1_000.0, 2_000.0, [0.0, 0.0, 0.0], true, Manner::Queues),
            (1_000.0, 2_000.0, [0.1, 0.0, 0.1], true, Manner::Queues),
            (1_000.0, 2.0, [0.0, 0.2, 0.2], true, Manner::Drops),
            (300.0, 2.0, [0.0, 0.0, 0.0], true, Manner::Collapses),
            (0.0, 2.0, [0.0, 0.0, 1.0], true, Manner::Collapses),
            (0.0, 2.0, [0.0, 0.0, 1.0], false, Manner::Dies),
        ] {
            let beyond = Seen {
                goodput,
                p99_ns: p99_ms * 1e6,
                refused,
                broken,
                failed,
            };
            assert_eq!(judge(&curve(beyond), recovered), manner, "{beyond:?}");
        }
    }

    #[test]
    fn recovery_is_measured_against_the_time_before() {
        let curve = curve(Seen::default());
        let seen = |goodput, p99_ns| Seen {
            goodput,
            p99_ns,
            ..Seen::default()
        };
        assert!(is_calm(&curve, 1_000.0, &seen(500.0, 3e6)));
        assert!(!is_calm(&curve, 1_000.0, &seen(400.0, 3e6)));
        assert!(!is_calm(&curve, 1_000.0, &seen(500.0, 80e6)));
    }
}
