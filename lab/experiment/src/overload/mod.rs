//! `lab find-limit` and `lab break`: the highest rate at which a server meets an objective, and its behaviour beyond.
//!
//! Both use the open loop: a closed loop slows down with the server and so never causes an overload.

mod curve;
mod promise;
mod search;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::progress::Progress;
use crate::single;
use sluice_load::generator::probe::sha256;
use sluice_load::generator::{self, Plan};
use sluice_load::outcome::Refused;
use sluice_load::result::{Block, Cell, Load, Mode};

pub use curve::{Manner, break_down};
pub use promise::Promise;
pub use search::find_limit;

/// Warm-up before each step's window.
const STEP_WARMUP: Duration = Duration::from_millis(500);

/// Options of both searches.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The load of one target; the searches choose rates and durations.
    pub plan: Plan,
    /// Length of each step.
    pub step: Duration,
    /// Writes the result to a file.
    pub json: Option<PathBuf>,
}

/// The steps of a search: each a separate load, displayed live and stored for the result.
struct Steps<'a> {
    plan: Plan,
    json: Option<&'a Path>,
    live: &'a mut dyn Progress,
    /// Offered rate and load, in chronological order.
    taken: Vec<(f64, Load)>,
    started: SystemTime,
    began: Instant,
    /// Estimated duration of the remaining steps.
    left: Duration,
}

impl<'a> Steps<'a> {
    fn new(asked: &'a Asked, live: &'a mut dyn Progress, left: Duration) -> Self {
        Steps {
            plan: asked.plan.clone(),
            json: asked.json.as_deref(),
            live,
            taken: Vec::new(),
            started: SystemTime::now(),
            began: Instant::now(),
            left,
        }
    }

    /// Runs one load at a rate; in the closed loop if `None`.
    fn step(&mut self, rate: Option<f64>, duration: Duration) -> Result<Load, Refused> {
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
        self.left = self.left.saturating_sub(duration + STEP_WARMUP);
        single::view(&plan, self.live, self.left);
        let live = &mut *self.live;
        let load = generator::run(&plan, &mut |stage| live.look(&stage))
            .map_err(|error| Refused::new(format!("the load generator failed: {error}")))?;
        if load.interrupted {
            let steps = self.taken.len();
            self.save("interrupted")?;
            return Err(Refused::new(format!("interrupted after {steps} rates")));
        }
        if let Some(rate) = rate {
            self.taken.push((rate, load.clone()));
        }
        Ok(load)
    }

    fn line(&mut self, text: &str) {
        self.live.line(text);
    }

    /// Writes the result, if requested: a cell per rate, so that a report can plot completed against offered load.
    fn save(&self, words: &str) -> Result<(), Refused> {
        let Some(path) = self.json else {
            return Ok(());
        };
        let took = self.began.elapsed();
        let mut result = single::result(Load::default(), &self.plan, self.started, took);
        let pattern = result.cells.pop().unwrap_or_default();
        let mut taken = self.taken.clone();
        taken.sort_by(|(one, _), (two, _)| one.total_cmp(two));
        result.cells = cells(&pattern, taken);
        result.notes.push(words.to_string());
        let text = serde_json::to_vec(&result).map_err(|error| Refused::new(error.to_string()))?;
        fs::write(path, text).map_err(|error| Refused::new(format!("{}: {error}", path.display())))
    }
}

/// A cell per rate; repeated rates become further blocks of the cell.
fn cells(pattern: &Cell, taken: Vec<(f64, Load)>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (rate, load) in taken {
        let rate = format!("{rate:.0}");
        let known = cells.last().is_some_and(|cell| cell.axis("rate") == rate);
        if !known {
            let mut cell = pattern.clone();
            cell.blocks.clear();
            cell.id = sha256(format!("{}{rate}", pattern.id).as_bytes())[..12].to_string();
            cell.axes.insert("rate".into(), rate);
            cells.push(cell);
        }
        if let Some(cell) = cells.last_mut() {
            let number = cell.blocks.len();
            cell.blocks.push(Block {
                number,
                load,
                ..Block::default()
            });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_is_a_cell_and_a_second_look_a_block() {
        let taken = [100.0, 200.0, 200.2, 300.0].map(|rate| (rate, Load::default()));
        let cells = cells(&Cell::default(), taken.into());
        let seen: Vec<_> = cells
            .iter()
            .map(|cell| (cell.axis("rate"), cell.blocks.len()))
            .collect();
        assert_eq!(seen, [("100", 1), ("200", 2), ("300", 1)]);
        assert_ne!(cells[0].id, cells[1].id);
    }
}
