//! A8, repetition: what a single run, or a mean of percentiles, cannot show.

use super::rows_word;
use crate::evidence::Sheet;
use crate::finding::{Finding, Weight};

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let conditions = &sheet.conditions;
    let rows = rows_word(sheet.rows.len());
    let mut findings = Vec::new();
    match conditions.runs {
        Some(1) => findings.push(
            Finding::new("A8", Weight::Gap, format!("{rows}, each from a single run"))
                .means("How far a figure would move in a second run is unknown, so small differences between rows mean nothing.")
                .advise("Repeat with a fresh process each time, in changing order, at least five times."),
        ),
        Some(runs) if !conditions.spread => findings.push(
            Finding::new("A8", Weight::Gap, format!("{runs} runs of each row, without an interval"))
                .means("The runs would have shown how certain the figures are, but only one number of each is printed.")
                .advise("Print an interval over the runs beside each figure."),
        ),
        _ => {}
    }
    if conditions.percentiles_averaged {
        findings.push(
            Finding::new("A8", Weight::Gap, "percentiles are means of percentiles")
                .means("The mean of ten p99 values is not a p99: one run with a bad tail and nine good ones give the same as ten middling ones.")
                .advise("Merge the histograms of the runs and take the percentile of the sum."),
        );
    }
    findings
}
