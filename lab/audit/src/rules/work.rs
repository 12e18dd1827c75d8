//! A10, equal work: subjects that send different bytes, or produce the response in another way.

use super::{grouped, positions};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent};
use crate::statistics::order::range;

/// Difference in size from which the work is not the same.
const UNEQUAL: f64 = 0.02;

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = sizes(sheet);
    findings.extend(dials(sheet));
    for remark in &sheet.conditions.unequal {
        let rows = positions(sheet, |row| {
            !remark.rows.is_empty() && row.matches(&remark.rows)
        });
        let finding = Finding::new("A10", Weight::Limit, remark.title.clone());
        findings.push(finding.means(remark.words.clone()).about(rows));
    }
    findings
}

/// Counted bytes of clean rows of one test.
fn sizes(sheet: &Sheet) -> Vec<Finding> {
    let counted = positions(sheet, |row| {
        row.is_clean() && row.response_bytes.is_some_and(|b| b > 0.0)
    });
    let mut findings = Vec::new();
    for (test, rows) in grouped(sheet, &counted, |row| row.dim("test").to_string()) {
        let sizes: Vec<f64> = rows
            .iter()
            .filter_map(|at| sheet.rows[*at].response_bytes)
            .collect();
        let Some((low, high)) = range(&sizes).filter(|_| rows.len() > 1) else {
            continue;
        };
        let apart = high / low - 1.0;
        let room: f64 = 2.0
            * rows
                .iter()
                .map(|at| sheet.rows[*at].bytes_room)
                .fold(0.0, f64::max);
        let of = if test.is_empty() {
            String::new()
        } else {
            format!(" of {test}")
        };
        if apart > UNEQUAL + room {
            let mut finding = Finding::new(
                "A10",
                Weight::Note,
                format!("responses{of} differ in size by {}", percent(apart)),
            );
            for (size, members) in grouped(sheet, &rows, |row| {
                number(row.response_bytes.unwrap_or(0.0))
            }) {
                let names: Vec<String> = members.iter().map(|at| sheet.rows[*at].label()).collect();
                finding = finding.line(format!("{size} B: {}", names.join(", ")));
            }
            findings.push(
                finding
                    .means("Subjects did not send the same bytes. For small responses the difference is one header more or less.")
                    .advise("Compare the heads before the run.")
                    .about(rows),
            );
        } else {
            let title = format!(
                "responses{of} of all rows have the same size within {}",
                percent(UNEQUAL)
            );
            let finding = Finding::new("A10", Weight::Sound, title);
            findings.push(
                finding
                    .line(format!("{} to {} B", number(low), number(high)))
                    .about(rows),
            );
        }
    }
    findings
}

/// Upstream connections per response, if they were counted.
fn dials(sheet: &Sheet) -> Vec<Finding> {
    let counted = positions(sheet, |row| row.upstream_dials.is_some());
    let mut findings = Vec::new();
    for (test, rows) in grouped(sheet, &counted, |row| row.dim("test").to_string()) {
        let fresh = |at: &usize| sheet.rows[*at].upstream_dials.is_some_and(|d| d > 0.5);
        let (dialling, keeping): (Vec<usize>, Vec<usize>) = rows.iter().copied().partition(fresh);
        if dialling.is_empty() || keeping.is_empty() {
            continue;
        }
        let names = |rows: &[usize]| -> String {
            let of = |at: &usize| {
                let row: &Row = &sheet.rows[*at];
                format!(
                    "{} ({} dials per response)",
                    row.label(),
                    number(row.upstream_dials.unwrap_or(0.0))
                )
            };
            rows.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        findings.push(
            Finding::new(
                "A10",
                Weight::Limit,
                format!("{test}: some subjects reuse upstream connections and some do not"),
            )
            .line(format!("dialling: {}", names(&dialling)))
            .line(format!("keeping: {}", names(&keeping)))
            .means("Opening a connection for each request is more work than reusing one.")
            .advise(
                "Enable upstream keep-alive for all subjects, and name those that cannot use it.",
            )
            .about(rows),
        );
    }
    findings
}
