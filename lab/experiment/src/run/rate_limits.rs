//! Rates that are shares of a limit: before the first block the limit of each server is searched for, as `find-limit` does, and
//! recorded in the result, from which a continued run takes it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Walk, state_words};
use crate::file::{File, Rate};
use crate::overload::{Goal, Steps};
use crate::plan::{self, CellPlan};
use crate::progress::Progress;
use crate::single::Driver;
use crate::stage::{Finish, NoBlock, Stage};
use sluice_load::outcome::Refused;
use sluice_load::quantity::thousands;
use sluice_load::result::{CellState, RateLimit, RateTried};

/// The confirmation of a limit is this many steps long.
const CONFIRMED_STEPS: u32 = 2;

/// Rates are rounded to this many decimals: a tenth of a request per second.
const DECIMALS: f64 = 10.0;

/// Limits that could not be found, by ID of the cell that was searched.
pub(super) type NoLimits = BTreeMap<String, CellState>;

/// Seconds that the search for one limit takes.
pub(super) fn search_s(file: &File) -> f64 {
    let part = &file.load.limit;
    let goal = Goal::Limit(part.objective.clone());
    let length = goal.length(part.step, part.step * CONFIRMED_STEPS);
    length.as_secs_f64()
}

/// The cells whose limits these cells need, each once.
pub(super) fn needed(file: &File, cells: &[CellPlan]) -> Vec<CellPlan> {
    let mut needed: Vec<CellPlan> = Vec::new();
    let measured = cells.iter().filter(|cell| cell.skipped.is_none());
    for limiting in measured.filter_map(|cell| plan::limiting(file, cell)?.ok()) {
        if !needed.iter().any(|known| known.id == limiting.id) {
            needed.push(limiting);
        }
    }
    needed
}

impl Walk {
    /// The limits that are not known yet.
    pub(super) fn limits_left(&self) -> Vec<CellPlan> {
        let mut needed = needed(&self.file, &self.cells);
        needed.retain(|cell| !self.result.limits.iter().any(|known| known.cell == cell.id));
        needed
    }

    /// Searches for the limits that are not known yet, and gives the stage the rates of all cells. If a limit cannot be found, the
    /// run goes on, and its cells say why they have no figures. Returns whether the search was interrupted.
    pub(super) fn find_limits(
        &mut self,
        stage: &mut Stage,
        live: &mut dyn Progress,
    ) -> Result<bool, Refused> {
        let left = self.limits_left();
        for (at, cell) in left.iter().enumerate() {
            let place: Vec<&str> = cell.axes.values().map(String::as_str).collect();
            let place = format!("[limit {}/{}] {}", at + 1, left.len(), place.join(" "));
            live.line(&place);
            let behind = search_s(&self.file) * (left.len() - at - 1) as f64;
            let behind = Duration::from_secs_f64(behind);
            let found = self.limit_of(stage, cell, behind, live)?;
            if self.interrupt.is_set() {
                return Ok(true);
            }
            match found {
                Ok(limit) => {
                    self.result.limits.push(limit);
                    self.save()?;
                }
                Err(state) => {
                    live.line(&format!("{place:48} {}", state_words(&state)));
                    self.no_limits.insert(cell.id.clone(), state);
                }
            }
        }
        for cell in &self.cells {
            if let Some(rate) = self.rate_of(cell) {
                stage.set_rate(&cell.id, rate);
            }
        }
        Ok(false)
    }

    /// The rate of a cell in requests per second, if it is a share of a limit that is known.
    fn rate_of(&self, cell: &CellPlan) -> Option<f64> {
        let rate = self.file.test[&cell.test].rate(&self.file.load)?;
        let Rate::OfLimit { percent, .. } = rate else {
            return None;
        };
        let limiting = plan::limiting(&self.file, cell)?.ok()?;
        let mut limits = self.result.limits.iter();
        let limit = limits.find(|limit| limit.cell == limiting.id)?;
        let rate = limit.per_s * percent / 100.0;
        Some((rate * DECIMALS).round().max(1.0) / DECIMALS)
    }

    /// Why a cell has no rate, if it needs a limit that could not be found.
    pub(super) fn without_rate(&self, cell: &CellPlan) -> Option<CellState> {
        match plan::limiting(&self.file, cell)? {
            Ok(limiting) => self.no_limits.get(&limiting.id).cloned(),
            Err(reason) => Some(CellState::Skipped(reason)),
        }
    }

    /// Finds the limit of a cell. If the agent of the servers is lost meanwhile, connects to it again and begins anew.
    fn limit_of(
        &mut self,
        stage: &Stage,
        cell: &CellPlan,
        behind: Duration,
        live: &mut dyn Progress,
    ) -> Result<Result<RateLimit, CellState>, Refused> {
        if let Some(reason) = self.missing(cell) {
            return Ok(Err(CellState::NotInstalled(reason)));
        }
        loop {
            self.generators
                .make_ready((stage, &self.file), &self.interrupt)?;
            match self.find_limit(stage, cell, behind, live) {
                Err(NoBlock::Agents(reason)) if !self.interrupt.is_set() => {
                    live.line(&reason);
                    self.generators.lost_a_search();
                }
                Err(NoBlock::Agents(reason)) => return Ok(Err(CellState::DidNotStart(reason))),
                Err(NoBlock::Cell(state)) => return Ok(Err(state)),
                Ok(limit) => {
                    self.generators.worked();
                    return Ok(Ok(limit));
                }
            }
        }
    }

    fn find_limit(
        &self,
        stage: &Stage,
        cell: &CellPlan,
        behind: Duration,
        live: &mut dyn Progress,
    ) -> Result<RateLimit, NoBlock> {
        let part = &self.file.load.limit;
        let goal = Goal::Limit(part.objective.clone());
        let serving = stage.serve(&self.file, cell, self.seed)?;
        let mut plan = serving.plan.clone();
        plan.duration = part.step * CONFIRMED_STEPS;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut steps = Steps::new(
            (Driver::Here, plan),
            Some(stage.watching(&serving)),
            part.step,
            live,
        );
        steps.left = goal.length(part.step, part.step * CONFIRMED_STEPS) + behind;
        let found = goal.search(&mut steps);
        let tried = steps.taken.iter().map(|(per_s, block)| RateTried {
            per_s: *per_s,
            broken: part.objective.broken(&block.load),
        });
        let (tried, closed_per_s): (Vec<RateTried>, _) = (tried.collect(), steps.closed_per_s);
        let ended = stage.finish((&self.file, cell), serving, Finish::Stop)?;
        if let Some(status) = ended.ended {
            let text = format!("the server ended with {status} during the search for its limit");
            return Err(CellState::DidNotStart(text).into());
        }
        let verdict = found.map_err(|Refused(text)| CellState::DidNotStart(text))?;
        let per_s = verdict.rate.ok_or_else(|| {
            CellState::Skipped(format!(
                "its rate is a share of a limit, and {} ({})",
                verdict.words, part.objective
            ))
        })?;
        live.line(&format!(
            "limit: {}/s ({})",
            thousands(per_s),
            part.objective
        ));
        Ok(RateLimit {
            cell: cell.id.clone(),
            axes: cell.axes.clone(),
            objective: part.objective.to_string(),
            per_s,
            closed_per_s,
            step_s: part.step.as_secs_f64(),
            tried,
            started_unix_ms: since.unwrap_or_default().as_millis() as u64,
        })
    }
}
