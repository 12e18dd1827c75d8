//! `lab find-limit` and `lab break`: the highest rate at which a server meets an objective, and its behaviour beyond; of
//! one URL, or of the cells of an experiment (`run::search`).
//!
//! Both use the open loop: a closed loop slows down with the server and so never causes an overload.

mod capacity;
mod curve;
mod promise;
mod search;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::file::OverloadPart;
use crate::progress::Progress;
use crate::remote::RemoteServers;
use crate::single::{self, Driver, Watch};
use sluice_load::generator::Plan;
use sluice_load::generator::probe::sha256;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::result::{Block, Cell, Mode, Overload, RunResult};

pub use curve::Manner;
pub use promise::Promise;

/// Warm-up before each step's window.
const STEP_WARMUP: Duration = Duration::from_millis(500);

/// What a search looks for.
#[derive(Clone, Debug)]
pub enum Goal {
    /// The highest rate that meets the objective (`find-limit`).
    Limit(Promise),
    /// The behaviour beyond capacity (`break`).
    Break,
    /// The same, beyond a capacity that the experiment knows.
    BreakKnown(OverloadPart),
}

impl Goal {
    /// The goal for an experiment: `break` exceeds a capacity that is known.
    pub(crate) fn with_capacity(&self, known: Option<&OverloadPart>) -> Goal {
        match (self, known) {
            (Goal::Break, Some(known)) => Goal::BreakKnown(known.clone()),
            (goal, _) => goal.clone(),
        }
    }

    /// Searches with the steps of one target.
    pub(crate) fn search(&self, steps: &mut Steps<'_>) -> Result<Verdict, Refused> {
        match self {
            Goal::Limit(slo) => search::limit(steps, slo),
            Goal::Break => curve::curve(steps),
            Goal::BreakKnown(known) => capacity::known(steps, known),
        }
    }

    /// How long a search takes, without retreats and slow recoveries.
    pub fn length(&self, step: Duration, last: Duration) -> Duration {
        match self {
            Goal::Limit(_) => search::length(step, last),
            Goal::Break => curve::length(step),
            Goal::BreakKnown(known) => capacity::length(known, step),
        }
    }
}

/// The result of a search of one target.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// In words.
    pub words: String,
    /// Whether it is a good one.
    pub completion: Completion,
    /// The figures of overloads of a known capacity.
    pub overload: Option<Overload>,
    /// The rate that was found, in requests per second.
    pub rate: Option<f64>,
}

/// Options of both searches on a URL.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The load of one target; the searches choose rates and durations.
    pub plan: Plan,
    /// Length of each step.
    pub step: Duration,
    /// Writes the result to a file.
    pub json: Option<PathBuf>,
}

/// Runs a search on a URL, with a load from `driver`.
pub fn search(asked: &Asked, goal: &Goal, driver: Driver<'_>, live: &mut dyn Progress) -> Outcome {
    let (started, began) = (SystemTime::now(), Instant::now());
    let mut steps = Steps::new((driver, asked.plan.clone()), None, asked.step, live);
    steps.left = goal.length(asked.step, asked.plan.duration);
    let found = goal.search(&mut steps);
    let words = match &found {
        Ok(verdict) => verdict.words.clone(),
        Err(Refused(words)) => words.clone(),
    };
    if let Some(path) = asked.json.as_deref().filter(|_| !steps.taken.is_empty()) {
        let plan = &asked.plan;
        let pattern = single::cell(plan, &plan.target.url, &plan.target.url, Vec::new());
        let cells = cells(&pattern, steps.taken);
        let mut result = single::of_cells(cells, plan, started, began.elapsed());
        result.notes.push(words);
        write(path, &result)?;
    }
    Ok(found?.completion)
}

/// Writes a result to a file.
pub(crate) fn write(path: &Path, result: &RunResult) -> Result<(), Refused> {
    let text = serde_json::to_vec(result).map_err(|error| Refused::new(error.to_string()))?;
    fs::write(path, text).map_err(|error| Refused::new(format!("{}: {error}", path.display())))
}

/// The steps of a search: each a separate load, displayed live and stored for the result.
pub(crate) struct Steps<'a> {
    /// Who generates the load.
    driver: Driver<'a>,
    plan: Plan,
    /// The servers of an experiment; `None` for a URL, whose server is detected from its port.
    watch: Option<Watch<'a>>,
    /// Length of each step.
    step: Duration,
    live: &'a mut dyn Progress,
    /// Offered rate and block, in chronological order.
    pub taken: Vec<(f64, Block)>,
    /// Loads whose rate changes, by name.
    pub named: Vec<(String, Block)>,
    /// Throughput of the last closed loop.
    pub closed_per_s: f64,
    /// Estimated duration of the remaining steps.
    pub left: Duration,
}

impl<'a> Steps<'a> {
    /// The steps of one target.
    pub(crate) fn new(
        (driver, plan): (Driver<'a>, Plan),
        watch: Option<Watch<'a>>,
        step: Duration,
        live: &'a mut dyn Progress,
    ) -> Self {
        let mut plan = plan;
        if plan.warmup_requests.take().is_some() {
            // Steps warm up for a time.
            plan.warmup = STEP_WARMUP;
        }
        Steps {
            driver,
            plan,
            watch,
            step,
            live,
            taken: Vec::new(),
            named: Vec::new(),
            closed_per_s: 0.0,
            left: Duration::ZERO,
        }
    }

    /// Runs one load at a rate; in the closed loop if `None`.
    fn step(&mut self, rate: Option<f64>, duration: Duration) -> Result<Block, Refused> {
        let mut plan = self.plan.clone();
        plan.mode = match rate {
            None => Mode::Closed,
            Some(rate) => Mode::Open {
                rate,
                poisson: false,
            },
        };
        plan.duration = duration;
        plan.warmup = STEP_WARMUP;
        // A late response already violates the objective; there is no need to wait for all of them.
        plan.drain = plan.drain.min(plan.timeout);
        let block = self.run(&plan)?;
        match rate {
            Some(rate) => self.taken.push((rate, block.clone())),
            None => self.closed_per_s = block.load.ok_per_s(),
        }
        Ok(block)
    }

    /// Runs a load.
    fn run(&mut self, plan: &Plan) -> Result<Block, Refused> {
        self.left = self.left.saturating_sub(plan.duration + plan.warmup);
        single::view(plan, self.live, self.left);
        let block = match self.watch.clone() {
            Some(watch) => single::block_of(&mut self.driver, plan, watch, 0, self.live),
            None => single::block(&mut self.driver, plan, 0, self.live),
        };
        let block = block.map_err(|error| match &self.driver {
            Driver::Here if !self.lost_an_agent() => {
                Refused::new(format!("the load generator failed: {error}"))
            }
            // It names the agent.
            Driver::Here | Driver::Agents { .. } => Refused::new(error.to_string()),
        })?;
        if block.load.interrupted {
            let steps = self.taken.len() + self.named.len();
            return Err(Refused::new(format!("interrupted after {steps} loads")));
        }
        Ok(block)
    }

    /// Whether the search has ended because an agent was lost.
    pub(crate) fn lost_an_agent(&self) -> bool {
        let mut agents = self.watch.iter().flat_map(Watch::agents);
        self.driver.is_broken() || agents.any(RemoteServers::is_lost)
    }

    fn line(&mut self, text: &str) {
        self.live.line(text);
    }
}

/// A cell per rate, so that a report can plot completed against offered load.
pub(crate) fn cells(pattern: &Cell, mut taken: Vec<(f64, Block)>) -> Vec<Cell> {
    taken.sort_by(|(one, _), (two, _)| one.total_cmp(two));
    let taken = taken.into_iter();
    by_axis(
        pattern,
        "rate",
        taken.map(|(rate, block)| (format!("{rate:.0}"), block)),
    )
}

/// A cell per named load.
pub(crate) fn named_cells(pattern: &Cell, named: Vec<(String, Block)>) -> Vec<Cell> {
    by_axis(pattern, "load", named)
}

/// A cell per value of an axis; those with a repeated value become further blocks of its cell.
fn by_axis(
    pattern: &Cell,
    axis: &str,
    taken: impl IntoIterator<Item = (String, Block)>,
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (value, block) in taken {
        let at = cells.iter().position(|cell| cell.axis(axis) == value);
        let at = at.unwrap_or_else(|| {
            let mut cell = pattern.clone();
            cell.blocks.clear();
            cell.id = sha256(format!("{}{value}", pattern.id).as_bytes())[..12].to_string();
            cell.axes.insert(axis.into(), value);
            cells.push(cell);
            cells.len() - 1
        });
        let number = cells[at].blocks.len();
        cells[at].blocks.push(Block { number, ..block });
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_is_a_cell_and_a_second_look_a_block() {
        let taken = [100.0, 200.0, 200.2, 300.0].map(|rate| (rate, Block::default()));
        let cells = cells(&Cell::default(), taken.into());
        let seen: Vec<_> = cells
            .iter()
            .map(|cell| (cell.axis("rate"), cell.blocks.len()))
            .collect();
        assert_eq!(seen, [("100", 1), ("200", 2), ("300", 1)]);
        assert_ne!(cells[0].id, cells[1].id);
    }
}
