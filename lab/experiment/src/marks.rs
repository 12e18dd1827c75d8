//! Why a block may mislead: other programs interfered, something was saturated, throughput had not settled, or the
//! whole machine was slow.

use std::iter;

use sluice_load::generator::limits::LATE_MAX;
use sluice_load::quantity::time;
use sluice_load::result::{Block, Cell, Load, Mark, MarkKind, Resources, System};

/// Utilization of the busiest generator thread above which throughput may be the generator's limit.
const GENERATOR_BUSY_MAX: f64 = 0.85;

/// CPUs used by other programs above which a block is marked.
const FOREIGN_MAX: f64 = 0.10;

/// Share of stolen time above which a block is marked.
const STEAL_MAX: f64 = 0.02;

/// Minimum number of intervals for judging the trend of a window: one for each quarter.
const SLICES_MIN: usize = 4;

/// Relative difference between the first quarter of the window and the rest at which it counts as unsteady.
const UNSTEADY: f64 = 0.20;

/// Maximum relative difference between the other quarters to count as settled: beyond it the differences are noise.
const SETTLED: f64 = 0.08;

/// Ratio to the run's shortest time of the fixed piece of work that marks a slow phase of the machine.
const SLOW: f64 = 1.2;

/// The warnings about a block.
pub fn marks(block: &Block, ended: Option<String>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut mark = |kind, text: String| marks.push(Mark { kind, text });
    if let Some(status) = ended {
        mark(MarkKind::Ended, format!("the server exited: {status}"));
    }
    let load = &block.load;
    let ours = load
        .failures
        .iter()
        .filter(|failures| failures.class.is_ours());
    let ours: u64 = ours.map(|failures| failures.count).sum();
    if ours > 0 {
        mark(
            MarkKind::Unusable,
            format!("{ours} requests failed on the generator's side"),
        );
    }
    if load.failed() > 0 {
        mark(
            MarkKind::Failures,
            format!("{} requests failed", load.failed()),
        );
    }
    if let Some(generator) = load
        .generator
        .as_ref()
        .filter(|g| g.busiest > GENERATOR_BUSY_MAX)
    {
        let percent = generator.busiest * 100.0;
        mark(
            MarkKind::GeneratorLimited,
            format!("generator {percent:.0} % busy"),
        );
    }
    for (system, place) in systems(block) {
        if system.foreign > FOREIGN_MAX {
            mark(
                MarkKind::Disturbed,
                format!("other processes used {:.2} CPUs{place}", system.foreign),
            );
        }
        if system.steal > STEAL_MAX {
            mark(
                MarkKind::Disturbed,
                format!("{:.1} % stolen{place}", system.steal * 100.0),
            );
        }
    }
    for check in block
        .checks
        .iter()
        .filter(|check| check.holds == Some(false))
    {
        mark(
            MarkKind::Unusable,
            format!("{} does not hold: {}", check.claim, check.seen),
        );
    }
    if !marks.iter().any(|mark| mark.kind == MarkKind::Disturbed) {
        marks.extend(unsteady(load));
    }
    marks.extend(cold(load));
    marks.extend(late(load));
    marks.extend(unconnected(load));
    marks
}

/// The machines of the servers and of the upstreams, with words that distinguish them.
fn systems(block: &Block) -> impl Iterator<Item = (&System, &'static str)> {
    let resources = block.resources.iter();
    resources.flat_map(|resources| {
        let upstreams = resources.backend_system.as_ref();
        let upstreams = upstreams.map(|system| (system, " on the machine of the upstreams"));
        iter::once((&resources.system, "")).chain(upstreams)
    })
}

/// How much other programs and hypervisors interfered with a block: CPUs on the machines of its servers.
pub fn interference(block: &Block) -> f64 {
    systems(block)
        .map(|(system, _)| system.foreign + system.steal)
        .sum()
}

/// Whether the load generator sent later than requests were due: latencies from the due time are then partly its own.
fn late(load: &Load) -> Option<Mark> {
    let lag = load.generator.as_ref()?.send_lag.percentile(99.0)?;
    (lag > LATE_MAX.as_nanos() as f64).then(|| Mark {
        kind: MarkKind::Late,
        text: format!(
            "requests left late: 1 % more than {} after they were due",
            time(lag)
        ),
    })
}

/// Whether the warm-up ended before its requests had succeeded.
fn cold(load: &Load) -> Option<Mark> {
    let (served, wanted) = (load.warmup_ok?, load.asked.warmup_requests?);
    // In the open loop the last ones are still in flight when the window begins.
    let in_flight = load.asked.connections * load.asked.depth.max(1);
    (served.saturating_add(in_flight as u64) < wanted).then(|| Mark {
        kind: MarkKind::Unsteady,
        text: format!(
            "the warm-up ended after {:.1} s with {served} of {wanted} requests",
            load.asked.warmup_s
        ),
    })
}

/// Whether fewer clients took part than requested: then the load differs from its label.
fn unconnected(load: &Load) -> Option<Mark> {
    let (clients, wanted) = (load.clients_short()?, load.asked.connections);
    Some(Mark {
        kind: MarkKind::Unusable,
        text: format!("{clients} of {wanted} clients were connected"),
    })
}

/// Whether throughput was still rising or falling when the window began, and settled later.
fn unsteady(load: &Load) -> Option<Mark> {
    let points = &load.series.as_ref()?.points;
    // A scenario has phases in order to change.
    if points.len() < SLICES_MIN || load.asked.scenario.is_some() {
        return None;
    }
    let quarter = points.len() / 4;
    let rate = |part: &[sluice_load::result::Point]| {
        part.iter().map(|point| point.ok).sum::<u64>() as f64 / part.len() as f64
    };
    let first = rate(&points[..quarter]);
    let rest: Vec<f64> = points[quarter..]
        .chunks(quarter)
        .filter(|c| c.len() == quarter)
        .map(rate)
        .collect();
    let mean = rest.iter().sum::<f64>() / rest.len() as f64;
    let settled = rest.iter().all(|one| (one / mean - 1.0).abs() <= SETTLED);
    (mean > 0.0 && settled && (first / mean - 1.0).abs() > UNSTEADY).then(|| Mark {
        kind: MarkKind::Unsteady,
        text: format!(
            "the first quarter of the window had {:.0} % of the rate of the rest",
            first / mean * 100.0
        ),
    })
}

/// Marks the blocks around which the machine itself was slow, by the fixed piece of work timed before and after each.
pub fn mark_slow(cells: &mut [Cell]) {
    let blocks = cells.iter_mut().flat_map(|cell| &mut cell.blocks);
    blocks.for_each(|block| block.marks.retain(|mark| mark.kind != MarkKind::Slow));
    mark_slow_by(cells, "the machine", |resources| resources.system.work_us);
    mark_slow_by(cells, "the machine of the upstreams", |resources| {
        resources.backend_system.as_ref()?.work_us
    });
}

/// The same for one machine: what a block has of its times.
fn mark_slow_by(cells: &mut [Cell], machine: &str, work: fn(&Resources) -> Option<f64>) {
    let work = |block: &Block| block.resources.as_ref().and_then(work);
    let all = cells.iter().flat_map(|cell| &cell.blocks);
    let Some(best) = all.filter_map(work).reduce(f64::min) else {
        return;
    };
    for block in cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
        if let Some(took) = work(block).filter(|took| *took > best * SLOW) {
            block.marks.push(Mark {
                kind: MarkKind::Slow,
                text: format!(
                    "{machine} took {:.2} times its best for a fixed piece of work",
                    took / best
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::result::{Distribution, Generator, Histogram, Point, Series};

    fn load(slices: &[u64]) -> Load {
        let points = slices.iter().map(|ok| Point {
            ok: *ok,
            ..Point::default()
        });
        Load {
            series: Some(Series {
                interval_ms: 100,
                points: points.collect(),
            }),
            ..Load::default()
        }
    }

    #[test]
    fn a_trend_is_distinguished_from_noise_and_from_silence() {
        let rising: Vec<u64> = (0..16)
            .map(|at| if at < 4 { 50 } else { 100 + at % 3 })
            .collect();
        let marked = unsteady(&load(&rising)).unwrap();
        assert_eq!(marked.kind, MarkKind::Unsteady);
        assert!(
            marked.text.contains("50 %") || marked.text.contains("49 %"),
            "{}",
            marked.text
        );
        let falling: Vec<u64> = (0..16).map(|at| if at < 4 { 200 } else { 100 }).collect();
        assert!(unsteady(&load(&falling)).is_some());
        assert_eq!(unsteady(&load(&[100; 16])), None);
        // A short window has a trend, too; fluctuation throughout is noise.
        assert!(unsteady(&load(&[50, 100, 100, 101, 99, 100])).is_some());
        assert_eq!(
            unsteady(&load(&[50, 100, 100])),
            None,
            "too short for quarters"
        );
        let noise: Vec<u64> = (0..16)
            .map(|at| if (at / 4) % 2 == 0 { 50 } else { 100 })
            .collect();
        assert_eq!(unsteady(&load(&noise)), None);
        assert!(unsteady(&load(&[50, 50, 100, 100, 100, 100, 100, 100])).is_some());
        assert_eq!(unsteady(&load(&[0; 16])), None);
    }

    #[test]
    fn a_generator_that_sends_late_is_marked() {
        let with = |ns: u64| {
            let mut lag = Histogram::new();
            (0..1_000).for_each(|_| lag.record(ns));
            Load {
                generator: Some(Generator {
                    send_lag: Distribution::of(lag),
                    ..Generator::default()
                }),
                ..Load::default()
            }
        };
        assert_eq!(late(&with(90_000)), None);
        assert_eq!(late(&with(500_000)).unwrap().kind, MarkKind::Late);
        // A closed loop has no due times.
        assert_eq!(late(&Load::default()), None);
    }

    #[test]
    fn a_warmup_that_is_cut_off_is_marked() {
        let mut load = Load::default();
        load.asked.warmup_s = 60.0;
        (load.asked.connections, load.asked.depth) = (10, 1);
        let of = |load: &mut Load, served, wanted| {
            (load.warmup_ok, load.asked.warmup_requests) = (served, wanted);
            cold(load).map(|mark| mark.text)
        };
        let text = "the warm-up ended after 60.0 s with 412 of 1000 requests";
        assert_eq!(of(&mut load, Some(412), Some(1_000)).as_deref(), Some(text));
        assert_eq!(of(&mut load, Some(1_000), Some(1_000)), None);
        assert_eq!(of(&mut load, Some(995), Some(1_000)), None, "in flight");
        assert_eq!(of(&mut load, Some(0), None), None, "a time");
        assert_eq!(of(&mut load, None, Some(5)), None, "not measured");
    }

    #[test]
    fn missing_clients_are_reported() {
        let mut load = Load::default();
        load.asked.connections = 10_000;
        let of = |load: &mut Load, clients, failed| {
            (load.connections.clients, load.connections.failed) = (clients, failed);
            unconnected(load).map(|mark| (mark.kind, mark.text))
        };
        let text = "950 of 10000 clients were connected".to_string();
        assert_eq!(
            of(&mut load, Some(950), 0),
            Some((MarkKind::Unusable, text))
        );
        // Also if the others tried and failed; one missing in a hundred does not matter.
        assert!(of(&mut load, Some(9_000), 5_000).is_some());
        assert_eq!(of(&mut load, Some(9_900), 0), None);
        // Unknown for a program that does not count clients; with fewer requests than clients, fewer clients are
        // expected.
        assert_eq!(of(&mut load, None, 0), None);
        load.asked.requests_max = Some(100);
        assert_eq!(of(&mut load, Some(100), 0), None);
    }

    #[test]
    fn slow_phases_are_marked_by_the_best_of_the_whole_run() {
        let block = |work_us| Block {
            resources: Some(Resources {
                system: System {
                    work_us,
                    ..System::default()
                },
                ..Resources::default()
            }),
            ..Block::default()
        };
        let mut cells = vec![Cell {
            blocks: vec![
                block(Some(1_300.0)),
                block(Some(1_000.0)),
                block(Some(1_150.0)),
                block(None),
            ],
            ..Cell::default()
        }];
        // Twice, as after each block: a mark is added only once.
        mark_slow(&mut cells);
        mark_slow(&mut cells);
        let marks: Vec<usize> = cells[0]
            .blocks
            .iter()
            .map(|block| block.marks.len())
            .collect();
        assert_eq!(marks, [1, 0, 0, 0]);
        assert!(cells[0].blocks[0].marks[0].text.contains("1.30 times"));
    }

    #[test]
    fn the_machine_of_the_upstreams_is_judged_by_itself() {
        let system = |foreign, work_us| System {
            foreign,
            work_us: Some(work_us),
            ..System::default()
        };
        let block = |of_upstreams: f64, work_us| Block {
            resources: Some(Resources {
                system: system(0.01, 1_000.0),
                backend_system: Some(system(of_upstreams, work_us)),
                ..Resources::default()
            }),
            ..Block::default()
        };
        let disturbed = block(0.5, 4_000.0);
        let marks = marks(&disturbed, None);
        let texts: Vec<&str> = marks.iter().map(|mark| mark.text.as_str()).collect();
        let expected = "other processes used 0.50 CPUs on the machine of the upstreams";
        assert_eq!(texts, [expected]);
        assert!((interference(&disturbed) - 0.51).abs() < 1e-9);
        // The other machine is slower at all times, which does not make a slow phase.
        let mut cells = vec![Cell {
            blocks: vec![disturbed, block(0.0, 5_200.0)],
            ..Cell::default()
        }];
        mark_slow(&mut cells);
        assert!(cells[0].blocks[0].marks.is_empty());
        let text =
            "the machine of the upstreams took 1.30 times its best for a fixed piece of work";
        assert_eq!(cells[0].blocks[1].marks[0].text, text);
    }
}
