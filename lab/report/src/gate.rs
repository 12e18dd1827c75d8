//! The gate for continuous integration: fails on a regression beyond a threshold. It fails only if the regression is
//! shown, and passes only if the blocks show that the change is within the threshold, or would have revealed one beyond
//! it. Otherwise it reports how many blocks that needs.

use super::compare::{Quantity, unusable};
use crate::limits::GATE_LEVEL;
use sluice_audit::finding::percent;
use sluice_audit::statistics::order::median;
use sluice_audit::statistics::paired::pair;
use sluice_audit::statistics::significance::{blocks_for, chance_above_zero, holm};
use sluice_audit::statistics::verdict::Better;
use sluice_load::result::{Block, Cell, MarkKind, RunResult};

/// How much worse a metric may become: `p99:+5%` or `rps:-3%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The metric.
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
                "`{text}` is not a threshold: write `p99:+5%` or `rps:-3%`; quantities are {}",
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

/// The gate's judgement of one cell and metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Shown to be worse than allowed.
    Regression,
    /// Shown to be within the threshold, or not shown to be worse although that would have been detected.
    Pass,
    /// No conclusion is possible.
    Unusable(String),
}

/// The check of one cell and metric.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The cell.
    pub place: String,
    /// The limit that the value must keep.
    pub threshold: Threshold,
    /// New against base, as a ratio; `None` without figures.
    pub ratio: Option<f64>,
    /// How far each block is beyond the threshold, as a logarithm; above 0 is worse than allowed.
    pub beyond: Vec<f64>,
    /// The probability of the observation if the change were exactly the threshold.
    pub chance: f64,
    /// Whether the limit is kept.
    pub judgement: Judgement,
}

/// Checks all cells of `base` against their counterparts. `partner` finds the cell of the new program.
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
    let single = checked.len();
    let pooled: Vec<Checked> = thresholds
        .iter()
        .filter_map(|threshold| together(&checked, *threshold))
        .collect();
    checked.extend(pooled);
    settle(&mut checked, floor);
    // What all cells show together does not apply to any single one.
    let level = GATE_LEVEL / checked.len().max(1) as f64;
    for one in &mut checked[..single] {
        doubt(one, floor, level);
    }
    checked
}

/// All usable cells of a metric combined: a small regression everywhere shows here before it shows in any single cell.
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
        ratio: Some((sign(threshold) * (middle + allowed(threshold))).exp()),
        chance: chance_above_zero(&beyond),
        beyond,
        judgement: Judgement::Pass,
    })
}

fn one(base: &Cell, other: &Cell, threshold: Threshold) -> Checked {
    let mut checked = Checked {
        place: super::view::axes(base),
        threshold,
        ratio: None,
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
        let quiet = |block: &&Block| !block.marks.iter().any(|m| m.kind == MarkKind::Disturbed);
        (0..blocks)
            .map(|number| threshold.quantity.of(block(number).filter(quiet)?))
            .collect()
    };
    let Some(paired) = pair(&values(base), &values(other)) else {
        let reason = "no block is undisturbed in both results";
        checked.judgement = Judgement::Unusable(reason.into());
        return checked;
    };
    // How far each block is beyond the threshold, in logarithms.
    let (sign, allowed) = (sign(threshold), allowed(threshold));
    let beyond = paired
        .ratios
        .iter()
        .map(|ratio| sign * ratio.ln() - allowed);
    checked.beyond = beyond.collect();
    checked.ratio = Some(paired.point);
    checked.chance = chance_above_zero(&checked.beyond);
    checked
}

/// The sign of a logarithm that means worse.
fn sign(threshold: Threshold) -> f64 {
    match threshold.quantity.better() {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
    }
}

/// The logarithm of the threshold: `rps:-3%` allows a ratio of 0.97, `p99:+5%` one of 1.05.
fn allowed(threshold: Threshold) -> f64 {
    match threshold.quantity.better() {
        Better::Higher => -(1.0 - threshold.share).ln(),
        Better::Lower => (1.0 + threshold.share).ln(),
    }
}

/// With many cells, one is an outlier by chance: applies Holm's correction over all, and the noise floor.
fn settle(checked: &mut [Checked], floor: Option<f64>) {
    let usable: Vec<usize> = (0..checked.len())
        .filter(|at| checked[*at].judgement == Judgement::Pass)
        .collect();
    let chances: Vec<f64> = usable.iter().map(|at| checked[*at].chance).collect();
    for (at, stands) in usable.into_iter().zip(holm(&chances, GATE_LEVEL)) {
        let one = &mut checked[at];
        let away = one.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        let above_floor = away > floor.unwrap_or(1.0).ln();
        one.judgement = match (stands, above_floor) {
            (true, true) => Judgement::Regression,
            (true, false) => Judgement::Unusable(within_noise(floor)),
            (false, _) => Judgement::Pass,
        };
    }
}

fn within_noise(floor: Option<f64>) -> String {
    let share = percent(floor.unwrap_or(1.0) - 1.0);
    format!("one subject differs from itself by up to {share}")
}

/// Withdraws a pass that the blocks do not support: they neither show that the change is within the threshold, nor are
/// they enough to have revealed one just as far beyond it.
fn doubt(one: &mut Checked, floor: Option<f64>, level: f64) {
    if one.judgement != Judgement::Pass {
        return;
    }
    let allowed = allowed(one.threshold);
    if floor.is_some_and(|floor| floor.ln() >= allowed) {
        one.judgement = Judgement::Unusable(within_noise(floor));
        return;
    }
    let within: Vec<f64> = one.beyond.iter().map(|beyond| -beyond).collect();
    if chance_above_zero(&within) <= GATE_LEVEL {
        return;
    }
    let (blocks, needed) = (
        one.beyond.len(),
        blocks_for(allowed, deviation(&one.beyond), level),
    );
    if blocks < needed {
        let reason = format!("{blocks} undisturbed blocks cannot show it; run {needed} or more");
        one.judgement = Judgement::Unusable(reason);
    }
}

/// Standard deviation of a sample; 0 for fewer than two.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    match values.len() {
        0 | 1 => 0.0,
        _ => (squares / (count - 1.0)).sqrt(),
    }
}

/// The combined judgement.
pub fn verdict(checked: &[Checked]) -> Judgement {
    let has = |wanted: fn(&Judgement) -> bool| checked.iter().any(|one| wanted(&one.judgement));
    if has(|j| *j == Judgement::Regression) {
        return Judgement::Regression;
    }
    if checked.is_empty() {
        return Judgement::Unusable("the results have no cell in common".into());
    }
    let reasons = checked.iter().filter_map(|one| match &one.judgement {
        Judgement::Unusable(reason) => Some(format!("{}: {reason}", one.place)),
        Judgement::Regression | Judgement::Pass => None,
    });
    let reasons: Vec<String> = reasons.collect();
    match reasons.first() {
        Some(first) => {
            let count = reasons.len();
            Judgement::Unusable(format!(
                "{count} of {} checks are inconclusive ({first})",
                checked.len()
            ))
        }
        None => Judgement::Pass,
    }
}
