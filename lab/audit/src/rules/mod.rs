//! The rules A1 to A12. Each checks a whole sheet and returns its findings, including sound ones.

mod ceilings;
pub mod claims;
mod failures;
mod generator;
mod in_flight;
mod order;
mod repetition;
mod steps;
mod treatments;
mod window;
mod wire;
mod work;

use super::evidence::{Row, Sheet};
use super::finding::{Finding, Weight};
use crate::limits::FINDING_LINES_MAX;

/// All findings of all rules.
pub fn all(sheet: &Sheet) -> Vec<Finding> {
    let rules: [fn(&Sheet) -> Vec<Finding>; 12] = [
        in_flight::check,
        wire::check,
        generator::check,
        failures::check,
        steps::check,
        order::check,
        window::check,
        repetition::check,
        ceilings::check,
        work::check,
        claims::check,
        treatments::check,
    ];
    let found = rules.iter().flat_map(|rule| rule(sheet));
    found.chain(remarks(sheet)).collect()
}

/// Remarks known about a report, under the rules they belong to.
fn remarks(sheet: &Sheet) -> Vec<Finding> {
    let remarks = sheet.conditions.remarks.iter();
    remarks
        .filter_map(|remark| {
            let rule = RULES.iter().find(|rule| **rule == remark.rule)?;
            let rows = positions(sheet, |row| {
                !remark.rows.is_empty() && row.matches(&remark.rows)
            });
            let finding = Finding::new(rule, Weight::Note, remark.title.clone());
            Some(finding.means(remark.words.clone()).about(rows))
        })
        .collect()
}

/// Names of the rules.
pub const RULES: [&str; 12] = [
    "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12",
];

/// Indices of the rows for which `holds`.
fn positions(sheet: &Sheet, holds: impl Fn(&Row) -> bool) -> Vec<usize> {
    (0..sheet.rows.len())
        .filter(|&at| holds(&sheet.rows[at]))
        .collect()
}

/// A line for each of the first rows, and how many more there are.
fn lines(
    mut finding: Finding,
    sheet: &Sheet,
    rows: &[usize],
    line: impl Fn(&Row) -> String,
) -> Finding {
    for at in rows.iter().take(FINDING_LINES_MAX) {
        let row = &sheet.rows[*at];
        finding = finding.line(format!("{}: {}", row.label(), line(row)));
    }
    if rows.len() > FINDING_LINES_MAX {
        let more = rows.len() - FINDING_LINES_MAX;
        finding = finding.line(format!("and {more} more of the same kind"));
    }
    finding.about(rows.iter().copied())
}

/// `1 row`, `12 rows`.
fn rows_word(count: usize) -> String {
    match count {
        1 => "1 row".to_string(),
        _ => format!("{count} rows"),
    }
}

/// Rows grouped by `key`, in order of first occurrence.
fn grouped(
    sheet: &Sheet,
    rows: &[usize],
    key: impl Fn(&Row) -> String,
) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for at in rows {
        let value = key(&sheet.rows[*at]);
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, members)) => members.push(*at),
            None => groups.push((value, vec![*at])),
        }
    }
    groups
}
