//! `lab hit` with several blocks, of one target or of two in turn: medians with intervals, merged latencies, pooled
//! failures, and the comparison of the two.

use std::time::{Duration, Instant, SystemTime};

use sluice_experiment::single;
use sluice_load::generator::Plan;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::probe::Probe;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::result::{Block, Cell, RunResult};
use sluice_report::compare::compare;

use super::drive::Generators;
use super::{Options, prepare, text, write};
use crate::live::Live;

/// A target with its blocks.
struct Target {
    plan: Plan,
    response: Probe,
    blocks: Vec<Block>,
}

/// Loads the targets in turn, the other way round in every second block, so that what drifts cancels out.
pub fn run(options: &Options, interrupt: &Interrupt) -> Outcome {
    let mut targets = targets(options, interrupt)?;
    let mut generators = Generators::connect(options)?;
    let mut lost = None;
    let (started, began) = (SystemTime::now(), Instant::now());
    let blocks = options.blocks();
    'all: for number in 0..blocks {
        let mut order: Vec<usize> = (0..targets.len()).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let target = &mut targets[at];
            let mut live = Live::new();
            let behind = target.plan.duration * (blocks - number - 1) as u32;
            single::view(&target.plan, &mut live, behind);
            let measured = generators.block(options, &target.plan, number, &mut live);
            drop(live);
            let mut block = match measured {
                Ok(block) => block,
                Err(error) => {
                    lost = Some((number, error));
                    break 'all;
                }
            };
            block.load.response = Some(target.response.first_response());
            print!(
                "{}",
                text::block_line(&target.plan.target.url, &block, blocks)
            );
            if interrupt.is_set() {
                // A shorter window would count as much as the others.
                break 'all;
            }
            target.blocks.push(block);
        }
    }
    let mut result = result(&targets, started, began.elapsed());
    if let Some((number, Refused(error))) = &lost {
        let note = format!("block {} failed and has no figures: {error}", number + 1);
        result.notes.push(note);
    }
    for cell in &result.cells {
        print!("\n{}", text::summary(cell));
    }
    if let [one, two] = &result.cells[..] {
        let names = Some((one.axis("subject"), two.axis("subject")));
        print!(
            "\nsecond against first, within blocks\n{}",
            compare(&result, &result, names).text()
        );
    }
    if let Some(path) = &options.json {
        write(path, &result)?;
    }
    if let Some((number, Refused(error))) = lost {
        return Err(Refused(format!("block {} failed: {error}", number + 1)));
    }
    verdict(options, interrupt, &result)
}

/// Whether conditions failed, or a target never responded.
fn verdict(options: &Options, interrupt: &Interrupt, result: &RunResult) -> Outcome {
    let mut failed = false;
    for cell in result.cells.iter().filter(|cell| !cell.blocks.is_empty()) {
        failed |= text::failed_conditions(&options.fail, cell)?;
    }
    let silent = |cell: &Cell| cell.blocks.iter().all(|block| block.load.ended_ok == 0);
    Ok(
        match (
            interrupt.is_set(),
            failed || result.cells.iter().any(silent),
        ) {
            (true, _) => Completion::Interrupted,
            (false, true) => Completion::No,
            (false, false) => Completion::Yes,
        },
    )
}

fn targets(options: &Options, interrupt: &Interrupt) -> Result<Vec<Target>, Refused> {
    let urls = [Some(&options.url), options.against.as_ref()];
    if options.against.as_ref() == Some(&options.url) {
        let text = "both targets are the same; use --repeats to measure one several times";
        return Err(Refused::new(text));
    }
    let target = |url: &String| {
        let (plan, response) = prepare(&Options {
            url: url.clone(),
            ..options.clone()
        })?;
        Ok(Target {
            plan: Plan {
                interrupt: interrupt.clone(),
                ..plan
            },
            response,
            blocks: Vec::new(),
        })
    };
    urls.into_iter().flatten().map(target).collect()
}

/// A cell for each target. The two of a comparison differ only in the subject.
fn result(targets: &[Target], started: SystemTime, took: Duration) -> RunResult {
    let cell = |target: &Target| {
        let url = &target.plan.target.url;
        let test = match targets.len() {
            1 => url.as_str(),
            _ => "hit",
        };
        single::cell(&target.plan, url, test, target.blocks.clone())
    };
    let cells = targets.iter().map(cell).collect();
    single::of_cells(cells, &targets[0].plan, started, took)
}
