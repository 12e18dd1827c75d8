//! A7, the window: answers that took as long as the whole run, and counts that do not fit rate and seconds.

use super::{lines, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent};

/// Share of the window from which the longest answer says that the run was too short for the load.
const LONG: f64 = 0.8;

/// How far count / seconds may be from the printed rate.
const OFF: f64 = 0.01;

fn longest(row: &Row) -> Option<f64> {
    Some(row.latency.max? / 1000.0 / row.seconds.filter(|s| *s > 0.0)?)
}

fn mismatch(row: &Row) -> Option<f64> {
    let counted = row.answers? / row.seconds.filter(|s| *s > 0.0)?;
    Some(row.rate? / counted - 1.0)
}

/// The rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = Vec::new();
    let beyond = positions(sheet, |row| longest(row).is_some_and(|share| share > LONG));
    if !beyond.is_empty() {
        let title = format!(
            "{}: the longest answer took most of the run or more",
            rows_word(beyond.len())
        );
        let finding = Finding::new("A7", Weight::Limit, title)
            .means("Some clients waited for one answer from beginning to end. What they would have asked meanwhile is missing, so averages look better than they are; a maximum above the window shows that the tool went on after it.")
            .advise("Run several times longer than the longest answer, and report what was under way at the end.");
        let line = |row: &Row| {
            let (max, seconds) = (
                row.latency.max.unwrap_or(0.0) / 1000.0,
                row.seconds.unwrap_or(0.0),
            );
            format!("max {} s in a window of {} s", number(max), number(seconds))
        };
        findings.push(lines(finding, sheet, &beyond, line));
    }
    let off = positions(sheet, |row| {
        mismatch(row).is_some_and(|share| share.abs() > OFF)
    });
    if !off.is_empty() {
        let title = format!(
            "{}: count, seconds and rate do not fit",
            rows_word(off.len())
        );
        let finding = Finding::new("A7", Weight::Note, title)
            .means("Either the seconds are rounded or rate and count are of different windows.")
            .advise("Compare rates with rates and counts with counts, not across.");
        let line = |row: &Row| {
            let (answers, seconds, rate) = (row.answers, row.seconds, row.rate);
            let (answers, seconds) = (answers.unwrap_or(0.0), seconds.unwrap_or(1.0));
            format!(
                "{} in {} s are {}/s; printed {}/s, {} less",
                crate::finding::count(answers),
                number(seconds),
                number(answers / seconds),
                number(rate.unwrap_or(0.0)),
                percent(-mismatch(row).unwrap_or(0.0))
            )
        };
        findings.push(lines(finding, sheet, &off, line));
    }
    findings
}
