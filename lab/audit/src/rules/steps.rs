//! A5, steps: percentiles that are histogram bucket bounds or ticks of a coarse clock.

use super::{lines, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number};

/// Neighbouring percentiles that must be equal to count as steps. Two equal ones are common, three are not.
const ALIKE: usize = 3;

/// Ratio of mean to smallest percentile below which they contradict each other: half of all responses are above the
/// median, so a mean below half of it is impossible, and one 15 % below a median that equals p90 practically is.
const BELOW: f64 = 0.85;

/// The value that at least `ALIKE` percentiles share, with the first and the last of them.
fn step(row: &Row) -> Option<(f64, f64, f64)> {
    let quantiles = &row.latency.quantiles;
    let runs = quantiles.windows(ALIKE).filter(|run| {
        let value = run[0].1;
        run.iter().all(|(_, v)| *v == value)
            && row.latency.max.is_none_or(|max| max > value)
            && value > 0.0
    });
    let first = runs.min_by(|a, b| a[0].0.total_cmp(&b[0].0))?;
    let value = first[0].1;
    let last = quantiles
        .iter()
        .filter(|(_, v)| *v == value)
        .map(|(q, _)| *q)
        .fold(0.0, f64::max);
    Some((value, first[0].0, last))
}

/// Clients divided by the printed rate: the mean that would fit.
fn implied_mean(row: &Row) -> Option<f64> {
    let rate = row.rate.or_else(|| row.rate_counted())?;
    Some(row.clients? / rate * 1000.0)
}

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let contradicts = |row: &Row| {
        let mean = row.latency.mean.or_else(|| implied_mean(row));
        matches!((step(row), mean), (Some((value, from, _)), Some(mean)) if from <= 0.5 && mean < BELOW * value)
    };
    let labels = positions(sheet, |row| {
        step(row).is_some() && row.latency.mean.is_none()
    });
    let coarse = positions(sheet, |row| {
        step(row).is_some() && row.latency.mean.is_some()
    });
    let mut findings = Vec::new();
    let line = |row: &Row| {
        let (value, from, to) = step(row).unwrap_or_default();
        let mut text = format!(
            "p{:.0} to p{:.0} all read {} ms",
            from * 100.0,
            to * 100.0,
            number(value)
        );
        if let Some(mean) = implied_mean(row) {
            let against = if contradicts(row) {
                ", which no such median allows"
            } else {
                ""
            };
            text += &format!(
                "; the mean that fits the rate is {} ms{against}",
                number(mean)
            );
        }
        text
    };
    if !labels.is_empty() {
        let title = format!(
            "{}: percentiles are names of histogram steps",
            rows_word(labels.len())
        );
        let finding = Finding::new("A5", Weight::Limit, title)
            .means("Equal percentiles are the edges of wide steps. They show between which edges a latency lies, not how long the response took.")
            .advise("Compare the means that follow from the rate; measure again with a histogram of three significant digits.");
        findings.push(lines(finding, sheet, &labels, line));
    }
    if !coarse.is_empty() {
        let title = format!(
            "{}: percentiles fall on a few values",
            rows_word(coarse.len())
        );
        let finding = Finding::new("A5", Weight::Note, title)
            .means("The clock or the histogram behind them is coarse; differences smaller than a step mean nothing.");
        findings.push(lines(finding, sheet, &coarse, line));
    }
    findings
}
