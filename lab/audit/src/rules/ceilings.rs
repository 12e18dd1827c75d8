//! A9, configured ceilings: limits in a configuration below the offered load.

use super::lines;
use crate::evidence::{Ceiling, Row, Sheet};
use crate::finding::{Finding, Weight, count, percent};

/// Utilization of a limit from which failures are expected: in measurements nginx has trouble from 480 of 512
/// connections.
const NEAR: f64 = 0.9;

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ceiling in &sheet.conditions.ceilings {
        let use_of = |row: &Row| Some(connections(row, ceiling)? / ceiling.connections);
        let near = super::positions(sheet, |row| {
            row.matches(&ceiling.rows) && use_of(row).is_some_and(|share| share >= NEAR)
        });
        let (failing, clean): (Vec<usize>, Vec<usize>) =
            near.into_iter().partition(|at| !sheet.rows[*at].is_clean());
        if !failing.is_empty() {
            findings.push(explained(sheet, ceiling, &failing));
        }
        if !clean.is_empty() {
            findings.push(surprising(sheet, ceiling, &clean));
        }
    }
    findings
}

/// Connections that the clients of a row use.
fn connections(row: &Row, ceiling: &Ceiling) -> Option<f64> {
    let twice = !ceiling.twice.is_empty() && row.matches(&ceiling.twice);
    Some(row.clients? * if twice { 2.0 } else { 1.0 })
}

fn wanted(row: &Row, ceiling: &Ceiling) -> String {
    let connections = connections(row, ceiling).unwrap_or(0.0);
    format!(
        "{} connections for {} allowed ({})",
        count(connections),
        count(ceiling.connections),
        percent(connections / ceiling.connections)
    )
}

fn explained(sheet: &Sheet, ceiling: &Ceiling, rows: &[usize]) -> Finding {
    let title = format!(
        "failures begin at the limit of a setting: {}",
        ceiling.words
    );
    let finding = Finding::new("A9", Weight::Limit, title)
        .means("These failures show a limit of the configuration, not how fast the program is.")
        .advise("Raise the limit above the load, or say that the limit is what is measured.");
    let line = |row: &Row| {
        format!(
            "{}, failures {}",
            wanted(row, ceiling),
            percent(row.failed_share.unwrap_or(0.0))
        )
    };
    lines(finding, sheet, rows, line)
}

fn surprising(sheet: &Sheet, ceiling: &Ceiling, rows: &[usize]) -> Finding {
    let title = format!("no failures beyond a setting: {}", ceiling.words);
    let finding = Finding::new("A9", Weight::Note, title)
        .means("The load used more connections than the setting allows, but no failure is printed; clients may have waited for each other.");
    lines(finding, sheet, rows, |row| wanted(row, ceiling))
}
