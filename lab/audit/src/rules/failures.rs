//! A4, fast failures: failures included in latency and rate as if they were responses.

use super::{lines, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent};

/// A minimum latency below this, in milliseconds, is printed as 0.00: no response crosses a network in 5 microseconds.
const INSTANT: f64 = 0.005;

/// Share of failures from which a rate that equals another row's is one of failures.
const MOSTLY: f64 = 0.5;

/// Relative difference of such rates.
const NEAR: f64 = 0.02;

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let failing = |row: &Row| row.failed_share.is_some_and(|share| share > 0.0);
    let mut findings = Vec::new();
    let instant = positions(sheet, |row| {
        failing(row) && row.latency.min.is_some_and(|min| min < INSTANT)
    });
    if !instant.is_empty() {
        let title = format!(
            "a minimum latency of 0.00 ms in {} with failures",
            rows_word(instant.len())
        );
        let finding = Finding::new("A4", Weight::Limit, title)
            .means("Failures are in the latency columns: a response cannot take 0 ms. Minimum, median and average mix them with responses.")
            .advise("Read errors first; take latencies only from rows without them.");
        let line = |row: &Row| {
            let median = row
                .latency
                .quantile(0.5)
                .map_or(String::new(), |m| format!(", median {} ms", number(m)));
            format!(
                "failures {}, min 0.00 ms{median}",
                percent(row.failed_share.unwrap_or(0.0))
            )
        };
        findings.push(lines(finding, sheet, &instant, line));
    }
    findings.extend(same_rate(sheet));
    findings.extend(counted(sheet));
    findings
}

/// A row that mostly fails, at the rate at which another succeeds.
fn same_rate(sheet: &Sheet) -> Option<Finding> {
    let mostly = positions(sheet, |row| {
        row.failed_share.is_some_and(|share| share >= MOSTLY)
    });
    let baseline = |failing: &Row| {
        sheet.rows.iter().find(|row| {
            let near = match (row.rate_counted(), failing.rate_counted()) {
                (Some(one), Some(other)) => (one / other - 1.0).abs() < NEAR,
                _ => false,
            };
            let same_load =
                row.clients == failing.clients && row.dim("test") == failing.dim("test");
            row.is_clean() && near && same_load
        })
    };
    let pairs: Vec<usize> = mostly
        .into_iter()
        .filter(|at| baseline(&sheet.rows[*at]).is_some())
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let title = format!(
        "{}: failures as fast as another row's responses",
        rows_word(pairs.len())
    );
    let finding = Finding::new("A4", Weight::Limit, title)
        .means("The printed rate is that of failures. Only successful responses are work done.")
        .advise("Compare successful responses per second.");
    let line = |row: &Row| {
        let other = baseline(row).map_or((String::new(), 0.0), |b| {
            (b.label(), b.rate_counted().unwrap_or(0.0))
        });
        format!(
            "{}/s with {} failures, so {}/s are good; {} has {}/s without failures",
            number(row.rate_counted().unwrap_or(0.0)),
            percent(row.failed_share.unwrap_or(0.0)),
            number(row.goodput().unwrap_or(0.0)),
            other.0,
            number(other.1)
        )
    };
    Some(lines(finding, sheet, &pairs, line))
}

/// Tools that count failures as requests.
fn counted(sheet: &Sheet) -> Option<Finding> {
    if sheet.conditions.failures_counted != Some(true) {
        return None;
    }
    let rows = positions(sheet, |row| {
        row.failed_share.is_some_and(|share| share > 0.0)
    });
    if rows.is_empty() {
        return None;
    }
    let tool = if sheet.tool.is_empty() {
        "the tool"
    } else {
        &sheet.tool
    };
    let title = format!(
        "{}: failures count as requests ({tool})",
        rows_word(rows.len())
    );
    let finding = Finding::new("A4", Weight::Limit, title)
        .means("Requests per second and latency include failed requests.")
        .advise("Compare successful responses per second.");
    let line = |row: &Row| {
        format!(
            "{}/s printed, {} failed: {}/s good",
            number(row.rate_counted().unwrap_or(0.0)),
            percent(row.failed_share.unwrap_or(0.0)),
            number(row.goodput().unwrap_or(0.0))
        )
    };
    Some(lines(finding, sheet, &rows, line))
}
