//! Why a block may mislead: who else took part, what was full, what had not settled, and when the whole machine was slow.

use sluice_load::result::{Block, Cell, Load, Mark, MarkKind};

/// Work of the busiest thread of the generator above which throughput may be its own.
const GENERATOR_BUSY_MAX: f64 = 0.85;

/// Processors used by others above which a block is marked.
const FOREIGN_MAX: f64 = 0.10;

/// Share of stolen time above which a block is marked.
const STEAL_MAX: f64 = 0.02;

/// Slices of the window below which nothing is said of its course.
const SLICES_MIN: usize = 12;

/// How far throughput in the first quarter of the window may be from the rest.
const UNSTEADY: f64 = 0.20;

/// How far the quarters of the rest may be apart for it to count as settled: beyond it is noise, not a course.
const SETTLED: f64 = 0.08;

/// A fixed piece of work that takes so many times the shortest of the run marks a slow phase of the machine.
const SLOW: f64 = 1.2;

/// Why a block may mislead.
pub fn marks(block: &Block, ended: Option<String>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut mark = |kind, text: String| marks.push(Mark { kind, text });
    if let Some(status) = ended {
        mark(MarkKind::Ended, format!("the server ended: {status}"));
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
            format!("{ours} requests failed on this side"),
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
            format!("generator {percent:.0} % at work"),
        );
    }
    if let Some(system) = block.resources.as_ref().map(|resources| &resources.system) {
        if system.foreign > FOREIGN_MAX {
            mark(
                MarkKind::Disturbed,
                format!("others used {:.2} processors", system.foreign),
            );
        }
        if system.steal > STEAL_MAX {
            mark(
                MarkKind::Disturbed,
                format!("{:.1} % stolen", system.steal * 100.0),
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
    marks.extend(unconnected(load));
    marks
}

/// Whether fewer clients took part than were asked for, because opening their connections took too long.
fn unconnected(load: &Load) -> Option<Mark> {
    let (opened, wanted) = (load.connections.opened, load.asked.connections as u64);
    (load.connections.failed == 0 && 0 < opened && opened < wanted).then(|| Mark {
        kind: MarkKind::Unsteady,
        text: format!(
            "{opened} of {wanted} clients were connected: a longer warm-up lets the others come"
        ),
    })
}

/// Whether throughput still rose or fell when the window began, and had settled later.
fn unsteady(load: &Load) -> Option<Mark> {
    let points = &load.series.as_ref()?.points;
    if points.len() < SLICES_MIN {
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

/// Marks the blocks around which the machine itself was slow, by the fixed work that was timed before and after each.
pub fn mark_slow(cells: &mut [Cell]) {
    let work = |block: &Block| block.resources.as_ref()?.system.work_us;
    let all = cells.iter().flat_map(|cell| &cell.blocks);
    let Some(best) = all.filter_map(work).reduce(f64::min) else {
        return;
    };
    for block in cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
        block.marks.retain(|mark| mark.kind != MarkKind::Slow);
        if let Some(took) = work(block).filter(|took| *took > best * SLOW) {
            block.marks.push(Mark {
                kind: MarkKind::Slow,
                text: format!(
                    "the machine took {:.2} times its best for a fixed piece of work",
                    took / best
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::result::{Point, Resources, Series, System};

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
    fn a_course_is_told_from_noise_and_from_silence() {
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
        // Up and down all the time is noise, and eight slices are no course.
        let noise: Vec<u64> = (0..16)
            .map(|at| if (at / 4) % 2 == 0 { 50 } else { 100 })
            .collect();
        assert_eq!(unsteady(&load(&noise)), None);
        assert_eq!(
            unsteady(&load(&[50, 50, 100, 100, 100, 100, 100, 100])),
            None
        );
        assert_eq!(unsteady(&load(&[0; 16])), None);
    }

    #[test]
    fn clients_that_were_not_there_are_told() {
        let mut load = Load::default();
        load.asked.connections = 10_000;
        load.connections.opened = 8_896;
        let marked = unconnected(&load).unwrap();
        assert!(
            marked.text.starts_with("8896 of 10000 clients"),
            "{}",
            marked.text
        );
        // Of a program that does not count, nothing is known; a client that failed was there.
        load.connections.opened = 0;
        assert_eq!(unconnected(&load), None);
        (load.connections.opened, load.connections.failed) = (9_000, 5_000);
        assert_eq!(unconnected(&load), None);
        (load.connections.opened, load.connections.failed) = (10_000, 0);
        assert_eq!(unconnected(&load), None);
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
        // Twice, as after each block: a mark is there once.
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
}
