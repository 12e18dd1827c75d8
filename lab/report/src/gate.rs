//! The gate for continuous integration: no regression beyond a threshold. It closes only on what is shown, and says so when
//! nothing can be shown.

use super::compare::{Quantity, unusable};
use crate::limits::GATE_LEVEL;
use sluice_audit::statistics::order::median;
use sluice_audit::statistics::paired::pair;
use sluice_audit::statistics::significance::{chance_above_zero, chance_min, holm};
use sluice_audit::statistics::verdict::Better;
use sluice_load::result::{Cell, RunResult};

/// How much worse a quantity may become: `p99:+5%` or `rps:-3%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Which quantity.
    pub quantity: Quantity,
    /// The share by which it may become worse, above 0.
    pub share: f64,
}

impl std::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Quantity::ALL
            .iter()
            .map(|quantity| quantity.name())
            .collect();
        let form = || {
            format!(
                "`{text}` is no threshold: write `p99:+5%` or `rps:-3%`; quantities are {}",
                names.join(", ")
            )
        };
        let (name, change) = text.split_once(':').ok_or_else(form)?;
        let quantity = Quantity::of_name(name.trim()).ok_or_else(form)?;
        let change = change.trim().strip_suffix('%').ok_or_else(form)?;
        let percent: f64 = change.trim().parse().map_err(|_| form())?;
        let worse = match quantity.better() {
            Better::Higher => -percent,
            Better::Lower => percent,
        };
        if !(worse > 0.0 && worse < 100.0) {
            return Err(format!(
                "`{text}` allows an improvement only: for {} write {}",
                quantity.name(),
                match quantity.better() {
                    Better::Higher => "a minus",
                    Better::Lower => "a plus",
                }
            ));
        }
        Ok(Threshold {
            quantity,
            share: worse / 100.0,
        })
    }
}

/// What the gate says about one cell and quantity.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Shown to be worse than allowed.
    Regression,
    /// Not shown to be worse than allowed.
    Pass,
    /// Nothing can be said.
    Unusable(String),
}

/// One cell and quantity.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Which cell.
    pub place: String,
    /// Which threshold.
    pub threshold: Threshold,
    /// Change in the direction of worse, as a share; `None` without figures.
    pub worse: Option<f64>,
    /// How far each block is beyond the threshold, as a logarithm; above 0 is worse than allowed.
    pub beyond: Vec<f64>,
    /// The chance of what was seen if the change were just the threshold.
    pub chance: f64,
    /// The judgement.
    pub judgement: Judgement,
}

/// Checks all cells of `base` against their partners. `partner` finds the cell that stands for the new program.
pub fn check<'a>(
    base: &'a RunResult,
    thresholds: &[Threshold],
    floor: Option<f64>,
    partner: impl Fn(&Cell) -> Option<&'a Cell>,
) -> Vec<Checked> {
    let mut checked = Vec::new();
    for cell in &base.cells {
        let Some(other) = partner(cell) else {
            continue;
        };
        for threshold in thresholds {
            checked.push(one(cell, other, *threshold));
        }
    }
    let pooled: Vec<Checked> = thresholds
        .iter()
        .filter_map(|threshold| together(&checked, *threshold))
        .collect();
    checked.extend(pooled);
    settle(&mut checked, floor);
    checked
}

/// All usable cells of a quantity as one: what is a little worse everywhere shows here before it shows in any cell.
fn together(checked: &[Checked], threshold: Threshold) -> Option<Checked> {
    let usable: Vec<&Checked> = checked
        .iter()
        .filter(|one| one.threshold == threshold && one.judgement == Judgement::Pass)
        .collect();
    let beyond: Vec<f64> = usable
        .iter()
        .flat_map(|one| one.beyond.iter().copied())
        .collect();
    let middle = median(&beyond).filter(|_| usable.len() > 1)?;
    Some(Checked {
        place: format!("all {} cells together", usable.len()),
        threshold,
        worse: Some((middle + allowed(threshold)).exp() - 1.0),
        chance: chance_above_zero(&beyond),
        beyond,
        judgement: Judgement::Pass,
    })
}

fn one(base: &Cell, other: &Cell, threshold: Threshold) -> Checked {
    let mut checked = Checked {
        place: super::markdown::axes(base),
        threshold,
        worse: None,
        beyond: Vec::new(),
        chance: 1.0,
        judgement: Judgement::Pass,
    };
    let reason = unusable("the base", base, threshold.quantity)
        .or_else(|| unusable("the new one", other, threshold.quantity));
    if let Some(reason) = reason {
        checked.judgement = Judgement::Unusable(reason);
        return checked;
    }
    let blocks = base.blocks.len().max(other.blocks.len());
    let values = |cell: &Cell| -> Vec<Option<f64>> {
        let block = |number: usize| cell.blocks.iter().find(|block| block.number == number);
        (0..blocks)
            .map(|number| block(number).and_then(|block| threshold.quantity.of(block)))
            .collect()
    };
    let Some(paired) = pair(&values(base), &values(other)) else {
        checked.judgement = Judgement::Unusable("not measured in the same blocks".into());
        return checked;
    };
    let sign = match threshold.quantity.better() {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
    };
    // How far each block is beyond the threshold, in logarithms.
    let allowed = allowed(threshold);
    let beyond: Vec<f64> = paired
        .ratios
        .iter()
        .map(|ratio| sign * ratio.ln() - allowed)
        .collect();
    checked.worse = Some((sign * paired.point.ln()).exp() - 1.0);
    checked.chance = chance_above_zero(&beyond);
    if chance_min(beyond.len()) > GATE_LEVEL {
        checked.judgement = Judgement::Unusable(format!(
            "{} blocks can show nothing; run 5 or more",
            beyond.len()
        ));
    }
    checked.beyond = beyond;
    checked
}

/// The logarithm of what is allowed: `rps:-3%` allows a ratio of 0.97, `p99:+5%` one of 1.05.
fn allowed(threshold: Threshold) -> f64 {
    match threshold.quantity.better() {
        Better::Higher => -(1.0 - threshold.share).ln(),
        Better::Lower => (1.0 + threshold.share).ln(),
    }
}

/// Many cells are looked at, so one of them is far out by chance: Holm's correction over all, and the noise floor.
fn settle(checked: &mut [Checked], floor: Option<f64>) {
    let usable: Vec<usize> = (0..checked.len())
        .filter(|at| checked[*at].judgement == Judgement::Pass)
        .collect();
    let chances: Vec<f64> = usable.iter().map(|at| checked[*at].chance).collect();
    for (at, stands) in usable.into_iter().zip(holm(&chances, GATE_LEVEL)) {
        let above_floor = checked[at]
            .worse
            .is_some_and(|worse| 1.0 + worse > floor.unwrap_or(1.0));
        if stands && above_floor {
            checked[at].judgement = Judgement::Regression;
        }
    }
}

/// Blocks that are needed so that one bad cell among `cells` can be shown.
pub fn blocks_needed(cells: usize) -> usize {
    (1..64)
        .find(|blocks| chance_min(*blocks) <= GATE_LEVEL / cells.max(1) as f64)
        .unwrap_or(64)
}

/// The judgement of all together.
pub fn verdict(checked: &[Checked]) -> Judgement {
    let has = |wanted: fn(&Judgement) -> bool| checked.iter().any(|one| wanted(&one.judgement));
    if has(|j| *j == Judgement::Regression) {
        return Judgement::Regression;
    }
    if checked.is_empty() {
        return Judgement::Unusable("no cell is in both".into());
    }
    if has(|j| matches!(j, Judgement::Unusable(_))) {
        return Judgement::Unusable("some cells can show nothing".into());
    }
    Judgement::Pass
}
