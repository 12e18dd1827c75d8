//! `lab find-limit` and `lab break` on an experiment: the search runs on each selected cell, with freshly started servers, and
//! each rate that was tried is a cell of the result.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Options, Walk, minutes, prepare, state_words};
use crate::overload::{self, Goal, Steps, Verdict};
use crate::plan::CellPlan;
use crate::progress::Progress;
use crate::remote::Ended;
use crate::stage::{Finish, NoBlock, Serving, Stage};
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::result::{Cell, CellState, Mark, MarkKind, Overload};

/// Runs a search on the cells of an experiment. `options.duration` is the length of the confirmation of a limit (default:
/// the window of the file); with `json` the result is written after each cell.
pub fn search(
    options: &Options,
    goal: &Goal,
    step: Duration,
    json: Option<&Path>,
    live: &mut dyn Progress,
) -> Outcome {
    let mut walk = prepare(options)?;
    let goal = &goal.with_capacity(walk.file.overload.as_ref());
    if matches!(goal, Goal::BreakKnown(_)) && !walk.file.place.agents.is_empty() {
        return Err(Refused(format!(
            "{}: agents do not generate loads whose rate changes, as `break` needs them for [overload]: remove the agents",
            options.experiment
        )));
    }
    let name = &options.experiment;
    let stage = walk.stage(name)?;
    walk.describe(&stage);
    walk.result.cells.clear();
    let cells = std::mem::take(&mut walk.cells);
    let last = walk.file.load.duration;
    let runnable = |cell: &&CellPlan| walk.impossible(cell).is_none();
    let count = cells.iter().filter(runnable).count();
    let whole = goal.length(step, last) * count as u32;
    live.line(&format!(
        "{}: {count} cells to search, about {}",
        walk.file.title,
        minutes(whole.as_secs_f64())
    ));
    if options.plan {
        return Ok(Completion::Yes);
    }
    walk.generators.connect(stage.load_cpus())?;
    walk.generators.describe(&mut walk.result, &stage);
    let began = Instant::now();
    let (mut lines, mut worst) = (Vec::new(), Completion::Yes);
    for cell in &cells {
        walk.generators
            .make_ready((&stage, &walk.file), &walk.interrupt)?;
        let place: Vec<&str> = cell.axes.values().map(String::as_str).collect();
        let place = place.join(" ");
        live.line(&format!("\n{place}"));
        let found = walk.search_cell(&stage, cell, (goal, step), live);
        walk.result.duration_s = began.elapsed().as_secs_f64();
        let note = format!("{place}: {}", words(&found));
        walk.note(&found, &place, &note);
        if let Some(json) = json {
            overload::write(json, &walk.result)?;
        }
        if walk.interrupt.is_set() {
            live.line("interrupted: the result contains the rates tried until then");
            return Ok(Completion::Interrupted);
        }
        match &found {
            Ok(verdict) if verdict.completion == Completion::Yes => {}
            Ok(_) | Err(NoBlock::Cell(CellState::DidNotStart(_)) | NoBlock::Agents(_)) => {
                worst = Completion::No;
            }
            Err(NoBlock::Cell(state)) => live.line(&state_words(state)),
        }
        lines.push(note);
    }
    live.line("");
    lines.iter().for_each(|text| live.line(text));
    if count == 0 {
        return Err(Refused::new("none of the cells can be searched here"));
    }
    Ok(worst)
}

/// The outcome of the search of a cell.
fn words(found: &Result<Verdict, NoBlock>) -> String {
    match found {
        Ok(verdict) => verdict.words.clone(),
        Err(NoBlock::Cell(state)) => state_words(state),
        Err(NoBlock::Agents(reason)) => reason.clone(),
    }
}

impl Walk {
    /// Adds what was found of a cell to the result.
    fn note(&mut self, found: &Result<Verdict, NoBlock>, place: &str, note: &str) {
        let overload = found.as_ref().ok().and_then(|one| one.overload.clone());
        self.result.overload.extend(overload.map(|one| Overload {
            cell: place.to_string(),
            ..one
        }));
        let never_tried = matches!(
            found,
            Err(NoBlock::Cell(
                CellState::NotInstalled(_) | CellState::Skipped(_)
            ))
        );
        if !never_tried {
            self.result.notes.push(note.to_string());
        }
    }

    /// Why a cell cannot be searched.
    fn impossible(&self, cell: &CellPlan) -> Option<CellState> {
        if let Some(reason) = &cell.skipped {
            return Some(CellState::Skipped(reason.clone()));
        }
        if cell.engine.is_some() {
            let text = "the lab's own load generator searches for the rate";
            return Some(CellState::Skipped(text.into()));
        }
        if let Some(reason) = self.file.test[&cell.test].has_no_rate() {
            return Some(CellState::Skipped(reason.into()));
        }
        self.missing(cell).map(CellState::NotInstalled)
    }

    /// Searches one cell. What was measured becomes part of the result, even if the search did not end.
    fn search_cell(
        &mut self,
        stage: &Stage,
        cell: &CellPlan,
        (goal, step): (&Goal, Duration),
        live: &mut dyn Progress,
    ) -> Result<Verdict, NoBlock> {
        let mut pattern = Cell {
            id: cell.id.clone(),
            axes: cell.axes.clone(),
            ..Cell::default()
        };
        let serving = match self.impossible(cell) {
            Some(state) => Err(state.into()),
            None => stage.serve(&self.file, cell, self.seed),
        };
        let serving: Serving = match serving {
            Ok(serving) => serving,
            Err(reason) => {
                if let NoBlock::Cell(state) = &reason {
                    pattern.state = state.clone();
                    self.result.cells.push(pattern);
                }
                return Err(reason);
            }
        };
        let test = &self.file.test[&cell.test];
        let (driver, plan) = stage.driver(test, &serving.plan, self.generators.fleet());
        let mut steps = Steps::new((driver, plan), Some(stage.watching(&serving)), step, live);
        steps.left = goal.length(step, self.file.load.duration);
        let found = goal.search(&mut steps);
        let agents_failed = steps.lost_an_agent();
        pattern.state = CellState::Measured;
        let mut cells = overload::cells(&pattern, steps.taken);
        cells.extend(overload::named_cells(&pattern, steps.named));
        let response = serving.response.first_response();
        let stopped = stage.finish((&self.file, cell), serving, Finish::Stop);
        // If the machine of the servers is lost, the figures so far are still theirs.
        let Ended { ended, log, .. } = stopped.unwrap_or_default();
        for block in cells.iter_mut().flat_map(|cell| &mut cell.blocks) {
            block.load.response = Some(response.clone());
        }
        let last = cells.last_mut().and_then(|cell| cell.blocks.last_mut());
        if let Some(block) = last {
            block.log = log;
            if let Some(status) = &ended {
                block.marks.push(Mark {
                    kind: MarkKind::Ended,
                    text: format!("the server ended with {status} during the search"),
                });
            }
        }
        self.result.cells.extend(cells);
        match (found, ended) {
            (Ok(verdict), None) => Ok(verdict),
            (Ok(verdict), Some(status)) => Ok(Verdict {
                words: format!("{}; the server ended with {status}", verdict.words),
                completion: Completion::No,
                overload: verdict.overload,
                rate: None,
            }),
            (Err(Refused(text)), _) if agents_failed => Err(NoBlock::Agents(text)),
            (Err(Refused(text)), _) => Err(CellState::DidNotStart(text).into()),
        }
    }
}
