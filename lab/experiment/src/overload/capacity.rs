//! `lab break` against an upstream of known capacity: multiples of it in an open loop, and a herd of clients that come at once.
//!
//! The capacity is that of the experiment's upstream by construction (so many requests at a time, each for so long), not what
//! this machine can do. So the judgement does not depend on the machine, as long as it can serve the highest multiple.

use std::time::{Duration, Instant};

use sluice_load::generator::Plan;
use sluice_load::generator::expect::BodyExpect;
use sluice_load::generator::limits::SLICE;
use sluice_load::generator::scenario::{
    Pace, Phase, Scenario, Session, Step, StepExpect, Template,
};
use sluice_load::outcome::{Completion, Refused};
use sluice_load::quantity::{thousands, time};
use sluice_load::result::{
    Distribution, FailureClass, Load, MarkKind, Mode, Overload, OverloadStep, Point,
};

use super::{STEP_WARMUP, Steps, Verdict};
use crate::file::OverloadPart;
use crate::scenario;

/// The load without overload, as a share of the capacity.
const CALM_SHARE: f64 = 0.5;

/// How long the latency without overload is measured: a thousand requests give a 99th percentile at 500 requests a second.
const UNLOADED: Duration = Duration::from_secs(4);

/// Calm before each overload.
const BEFORE: Duration = Duration::from_secs(1);

/// Calm after each overload, in which recovery is looked for; [`RECOVERY_MAX`] and a margin.
const AFTER: Duration = Duration::from_secs(3);

/// Bounds that a server is to keep: goodput as a share of the capacity, and recovery.
const GOODPUT_MIN: f64 = 0.9;
const RECOVERY_MAX: Duration = Duration::from_secs(2);

/// Goodput below this share of the capacity counts as collapsed.
const COLLAPSED: f64 = 0.5;

/// How often the calm load is repeated until a server is as before: an upstream whose queue has grown serves abandoned requests
/// for up to twenty seconds.
const SETTLE_LOOKS: usize = 10;

/// How long it takes if the server recovers at once.
pub(super) fn length(known: &OverloadPart, step: Duration) -> Duration {
    let each = STEP_WARMUP + BEFORE + step + AFTER;
    let herd = match known.herd {
        0 => Duration::ZERO,
        _ => BEFORE * 2 + STEP_WARMUP + AFTER,
    };
    STEP_WARMUP + UNLOADED + each * known.multiples.len() as u32 + herd
}

/// Overloads the server with each multiple of the capacity and with the herd.
pub(super) fn known(steps: &mut Steps<'_>, known: &OverloadPart) -> Result<Verdict, Refused> {
    let calm = known.capacity * CALM_SHARE;
    let load = phases(steps, "unloaded", &[("calm", calm, UNLOADED)])?;
    let unloaded = load.latency.total.percentile(99.0).unwrap_or(0.0);
    if load.ok == 0 || load.failed_share() > 0.01 {
        return Err(Refused::new(
            "the server does not serve half of the capacity of its upstream without failures",
        ));
    }
    let bound = 2.0 * unloaded + known.target_latency.as_nanos() as f64;
    let mut overload = Overload {
        cell: String::new(),
        capacity_per_s: known.capacity,
        unloaded_p99_ns: unloaded,
        p99_max_ns: bound,
        steps: Vec::new(),
    };
    steps.line(&format!(
        "capacity {}/s; unloaded p99 {}, at most {} in overload",
        thousands(known.capacity),
        time(unloaded),
        time(bound)
    ));
    let timeout = steps.plan.timeout;
    for multiple in &known.multiples {
        let name = format!("{multiple} x");
        let parts = [
            ("before", calm, BEFORE),
            ("overload", known.capacity * multiple, steps.step),
            ("after", calm, AFTER),
        ];
        let first = steps.named.len();
        let load = phases(steps, &name, &parts)?;
        let seen = of_multiple(&load, name, (known.capacity, steps.step), bound, timeout);
        take(steps, &mut overload, (seen, first), calm)?;
    }
    if known.herd > 0 {
        let first = steps.named.len();
        let seen = herd(steps, known.herd, calm, bound)?;
        take(steps, &mut overload, (seen, first), calm)?;
    }
    Ok(verdict(overload))
}

/// Judges and adds a step, whose loads are those from number `first` on; after one that the server has not recovered from, waits
/// until it has.
fn take(
    steps: &mut Steps<'_>,
    overload: &mut Overload,
    (mut seen, first): (OverloadStep, usize),
    calm: f64,
) -> Result<(), Refused> {
    seen.faults = faults(&seen, overload.p99_max_ns);
    let mut marks = steps.named[first..]
        .iter()
        .flat_map(|(_, block)| &block.marks);
    seen.disturbed = marks.any(|mark| mark.kind == MarkKind::Disturbed);
    steps.line(&line(&seen));
    let is_settled = seen.recovery_s.is_some();
    overload.steps.push(seen);
    if is_settled {
        return Ok(());
    }
    for _ in 0..SETTLE_LOOKS {
        let load = phases(steps, "settling", &[("calm", calm, RECOVERY_MAX)])?;
        let points = load.series.map(|series| series.points).unwrap_or_default();
        if last_bad(&points, overload.p99_max_ns) == 0 {
            break;
        }
    }
    Ok(())
}

/// An open loop whose rate changes: name, requests per second and length of each phase.
fn phases(
    steps: &mut Steps<'_>,
    name: &str,
    parts: &[(&str, f64, Duration)],
) -> Result<Load, Refused> {
    let phase = |(name, rate, duration): &(&str, f64, Duration)| Phase {
        name: (*name).to_string(),
        duration: *duration,
        from: *rate,
        to: *rate,
    };
    let scenario = Scenario {
        name: name.to_string(),
        pace: Pace::Sessions {
            clients_max: steps.plan.connections,
            poisson: false,
        },
        phases: parts.iter().map(phase).collect(),
        variables: Vec::new(),
        sessions: vec![session(&steps.plan)?],
    };
    let mut plan = steps.plan.clone();
    plan.warmup = STEP_WARMUP;
    scenario::apply(&mut plan, scenario).map_err(Refused)?;
    let block = steps.run(&plan)?;
    let load = block.load.clone();
    steps.named.push((name.to_string(), block));
    Ok(load)
}

/// The request of a plan as a session.
fn session(plan: &Plan) -> Result<Session, Refused> {
    let request = &plan.requests[0];
    let draft = request.draft();
    let template = |text: &str| Template::parse(&text.replace('$', "$$"), |_| None);
    let mut headers = Vec::new();
    for (name, value) in &draft.fields {
        headers.push((name.clone(), template(value).map_err(Refused)?));
    }
    let body = std::str::from_utf8(&draft.body);
    let body = body.map_err(|_| Refused::new("the body of the request is not a text"))?;
    Ok(Session {
        name: "request".into(),
        weight: 1,
        cookies: false,
        new_connection: false,
        steps: vec![Step {
            name: "request".into(),
            method: draft.method,
            path: template(&draft.path).map_err(Refused)?,
            headers,
            body: template(body).map_err(Refused)?,
            think_min: Duration::ZERO,
            think_max: Duration::ZERO,
            expect: StepExpect {
                status: request.expect.status,
                body: None,
                length: match &request.expect.body {
                    BodyExpect::Any => None,
                    BodyExpect::Length(length) => Some(*length),
                    BodyExpect::Exact { bytes, .. } => Some(bytes.len() as u64),
                },
                headers: Vec::new(),
            },
        }],
    })
}

/// All of the clients connect at once, and each sends a request; then the calm load, in which recovery is looked for.
fn herd(
    steps: &mut Steps<'_>,
    clients: usize,
    calm: f64,
    bound: f64,
) -> Result<OverloadStep, Refused> {
    let name = format!("{} clients", thousands(clients as f64));
    let plan = Plan {
        mode: Mode::Closed,
        connections: clients,
        requests_max: Some(clients as u64),
        ..steps.plan.clone()
    };
    let block = steps.run(&plan)?;
    let ended = Instant::now();
    let load = block.load.clone();
    steps.named.push((name.clone(), block));
    let after = phases(steps, "after the clients", &[("after", calm, AFTER)])?;
    // The window of this load began no later than its length before now.
    let begun = ended.elapsed().as_secs_f64() - after.window_s;
    let points = after.series.map(|series| series.points).unwrap_or_default();
    let mut seen = counted(&load, name);
    seen.p99_ns = p99(&load.latency.total, seen.late, plan.timeout);
    seen.recovery_s = recovery(&points, bound).map(|seconds| begun.max(0.0) + seconds);
    Ok(seen)
}

/// What was seen of a load whose second of three phases is the overload.
fn of_multiple(
    load: &Load,
    name: String,
    (capacity, step): (f64, Duration),
    bound: f64,
    timeout: Duration,
) -> OverloadStep {
    let points = load
        .series
        .as_ref()
        .map_or(&[][..], |series| &series.points);
    let slices = |span: Duration| (span.as_millis() / SLICE.as_millis()) as usize;
    let begin = slices(BEFORE).min(points.len());
    let end = slices(BEFORE + step).min(points.len());
    let served: u64 = points[begin..end].iter().map(|point| point.ok).sum();
    let mut seen = counted(load, name);
    seen.goodput = Some(served as f64 / (capacity * step.as_secs_f64()));
    let latency = load.phases.get(1).map(|phase| &phase.latency);
    seen.p99_ns = latency.and_then(|latency| p99(latency, seen.late, timeout));
    seen.recovery_s = recovery(&points[end..], bound);
    seen
}

/// The requests of a load by their outcome.
fn counted(load: &Load, name: String) -> OverloadStep {
    let mut seen = OverloadStep {
        load: name,
        ok: load.ok,
        ..OverloadStep::default()
    };
    for failures in &load.failures {
        let counter = match failures.class {
            FailureClass::Status => &mut seen.refused,
            FailureClass::ConnectTimeout
            | FailureClass::HeadTimeout
            | FailureClass::BodyTimeout
            | FailureClass::Dropped => &mut seen.late,
            _ => &mut seen.broken,
        };
        *counter += failures.count;
    }
    seen
}

/// The 99th percentile of admitted requests, of which `late` had no response within the timeout.
fn p99(latency: &Distribution, late: u64, timeout: Duration) -> Option<f64> {
    let all = latency.count + late;
    if all == 0 {
        return None;
    }
    let percent = 99.0 * all as f64 / latency.count.max(1) as f64;
    match percent <= 100.0 {
        true => latency.percentile(percent),
        false => Some(timeout.as_nanos() as f64),
    }
}

/// The end of the last slice in which a request failed or was slow, as a count of slices; 0 if there is none.
fn last_bad(points: &[Point], bound: f64) -> usize {
    let is_bad = |point: &Point| point.failed > 0 || point.max_ns as f64 > bound;
    points.iter().rposition(is_bad).map_or(0, |at| at + 1)
}

/// Seconds until all requests succeed fast; `None` if that is not so for the last half second.
fn recovery(points: &[Point], bound: f64) -> Option<f64> {
    let bad = last_bad(points, bound);
    let quiet = &points[bad..];
    let is_long = quiet.len() * SLICE.as_millis() as usize >= 500;
    let is_served = quiet.iter().any(|point| point.ok > 0);
    (is_long && is_served).then(|| bad as f64 * SLICE.as_secs_f64())
}

/// What falls short.
fn faults(seen: &OverloadStep, bound: f64) -> Vec<String> {
    let mut faults = Vec::new();
    match seen.goodput {
        Some(share) if share < COLLAPSED => faults.push("collapse".to_string()),
        Some(share) if share < GOODPUT_MIN => faults.push("goodput".to_string()),
        Some(_) | None => {}
    }
    // Clients that come at once share the machine with the server: their latency is shown, not judged.
    if seen.goodput.is_some() && seen.p99_ns.is_none_or(|p99| p99 > bound) {
        faults.push("latency".to_string());
    }
    if seen.broken > 0 {
        faults.push("broken connections".to_string());
    }
    if seen.ok == 0 {
        faults.push("no response".to_string());
    }
    let late = RECOVERY_MAX.as_secs_f64();
    if seen.recovery_s.is_none_or(|seconds| seconds > late) {
        faults.push("recovery".to_string());
    }
    faults
}

fn line(seen: &OverloadStep) -> String {
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    format!(
        "{:>14}  goodput {:>5}  p99 {:>8}  {:>6} refused {:>6} late {:>4} broken  recovery {:>5}  {}",
        seen.load,
        seen.goodput.map_or("–".to_string(), share),
        seen.p99_ns.map_or("–".to_string(), time),
        seen.refused,
        seen.late,
        seen.broken,
        seen.recovery_s.map_or("–".to_string(), seconds),
        seen.verdict()
    )
}

/// The verdict in words. Bounds that are not kept are a finding; a server that collapses or breaks connections is a failure.
fn verdict(overload: Overload) -> Verdict {
    let mut words: Vec<String> = Vec::new();
    for step in overload.steps.iter().filter(|step| !step.faults.is_empty()) {
        words.push(format!("{}: {}", step.load, step.faults.join(", ")));
    }
    let bad = |fault: &String| {
        ["collapse", "broken connections", "no response"].contains(&fault.as_str())
    };
    let is_bad = overload
        .steps
        .iter()
        .any(|step| step.faults.iter().any(bad));
    Verdict {
        rate: None,
        words: match words.is_empty() {
            true => "keeps all bounds".to_string(),
            false => words.join("; "),
        },
        completion: if is_bad {
            Completion::No
        } else {
            Completion::Yes
        },
        overload: Some(overload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::result::{Failures, Histogram, LoadPhase, Series};

    const BOUND: f64 = 200e6;

    fn distribution(ms: &[u64]) -> Distribution {
        let mut histogram = Histogram::new();
        ms.iter().for_each(|ms| histogram.record(ms * 1_000_000));
        Distribution::of(histogram)
    }

    fn point(ok: u64, failed: u64, max_ms: u64) -> Point {
        Point {
            ok,
            failed,
            max_ns: max_ms * 1_000_000,
            ..Point::default()
        }
    }

    /// A load with a second of calm, a second of overload and a second of calm, at a capacity of 100 requests per second.
    fn load(during: Point, after: [Point; 10], class: FailureClass, failed: u64) -> Load {
        let calm = || point(5, 0, 50);
        let points = (0..10)
            .map(|_| calm())
            .chain((0..10).map(|_| during.clone()));
        let phase = |latency| LoadPhase {
            latency,
            ..LoadPhase::default()
        };
        Load {
            ok: 150,
            failures: vec![Failures {
                class,
                count: failed,
                statuses: Vec::new(),
                latency: Distribution::default(),
                example: None,
            }],
            series: Some(Series {
                interval_ms: 100,
                points: points.chain(after).collect(),
            }),
            phases: vec![
                phase(distribution(&[50])),
                phase(distribution(&[60; 100])),
                phase(distribution(&[50])),
            ],
            ..Load::default()
        }
    }

    fn judged(load: &Load) -> OverloadStep {
        let second = Duration::from_secs(1);
        let mut seen = of_multiple(load, "2 x".into(), (100.0, second), BOUND, second);
        seen.faults = faults(&seen, BOUND);
        seen
    }

    #[test]
    fn a_server_that_sheds_keeps_all_bounds() {
        let after = std::array::from_fn(|at| point(5, u64::from(at < 2), 50));
        let seen = judged(&load(point(10, 10, 60), after, FailureClass::Status, 102));
        assert_eq!(seen.faults, Vec::<String>::new());
        assert_eq!((seen.goodput, seen.refused), (Some(1.0), 102));
        assert_eq!(seen.recovery_s, Some(0.2));
    }

    #[test]
    fn each_fault_is_found() {
        let calm = || std::array::from_fn(|_| point(5, 0, 50));
        let faults = |load: &Load| judged(load).faults.join(", ");
        let low = load(point(8, 10, 60), calm(), FailureClass::Status, 100);
        assert_eq!(faults(&low), "goodput");
        let none = load(point(4, 10, 60), calm(), FailureClass::Status, 100);
        assert_eq!(faults(&none), "collapse");
        let late = load(point(10, 10, 60), calm(), FailureClass::HeadTimeout, 100);
        assert_eq!(faults(&late), "latency");
        assert_eq!(judged(&late).p99_ns, Some(1e9));
        // One of a hundred may be late.
        let one = load(point(10, 10, 60), calm(), FailureClass::HeadTimeout, 1);
        assert_eq!(faults(&one), "");
        let reset = load(point(10, 10, 60), calm(), FailureClass::Reset, 1);
        assert_eq!(faults(&reset), "broken connections");
        let slow = std::array::from_fn(|at| point(5, 0, if at < 8 { 900 } else { 50 }));
        let slow = load(point(10, 10, 60), slow, FailureClass::Status, 100);
        assert_eq!(faults(&slow), "recovery");
        assert_eq!(judged(&slow).recovery_s, None);
        // Silence is not recovery.
        let silent = std::array::from_fn(|_| point(0, 0, 0));
        let silent = load(point(10, 10, 60), silent, FailureClass::Status, 100);
        assert_eq!(faults(&silent), "recovery");
    }

    #[test]
    fn clients_at_once_are_judged_by_their_connections() {
        let seen = OverloadStep {
            ok: 1,
            p99_ns: Some(1e10),
            recovery_s: Some(0.6),
            ..OverloadStep::default()
        };
        assert!(faults(&seen, BOUND).is_empty());
        let none = OverloadStep {
            broken: 3,
            ok: 0,
            ..seen
        };
        assert_eq!(faults(&none, BOUND), ["broken connections", "no response"]);
    }
}
