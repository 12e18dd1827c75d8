//! A7, the window: responses that took as long as the whole run, and counts that do not fit rate and seconds.

use super::{lines, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent};

/// Longest response as a share of the window from which the run was too short for the load.
const LONG: f64 = 0.8;

/// Tolerated relative difference between count / seconds and the printed rate.
const OFF: f64 = 0.01;

fn longest(row: &Row) -> Option<f64> {
    Some(row.latency.max? / 1000.0 / row.seconds.filter(|s| *s > 0.0)?)
}

fn mismatch(row: &Row) -> Option<f64> {
    let counted = row.responses? / row.seconds.filter(|s| *s > 0.0)?;
    Some(row.rate? / counted - 1.0)
}

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let mut findings = Vec::new();
    let beyond = positions(sheet, |row| longest(row).is_some_and(|share| share > LONG));
    if !beyond.is_empty() {
        let title = format!(
            "{}: the slowest response took most of the run or more",
            rows_word(beyond.len())
        );
        let finding = Finding::new("A7", Weight::Limit, title)
            .means("Some clients waited for one response from beginning to end. The requests they would have sent meanwhile are missing, so averages look better than they are; a maximum above the window shows that the tool continued after it.")
            .advise("Run several times longer than the slowest response, and report the requests in flight at the end.");
        let line = |row: &Row| {
            let (max, seconds) = (
                row.latency.max.unwrap_or(0.0) / 1000.0,
                row.seconds.unwrap_or(0.0),
            );
            format!("max {} s in a window of {} s", number(max), number(seconds))
        };
        findings.push(lines(finding, sheet, &beyond, line));
    }
    findings.extend(impossible(sheet));
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
            let (responses, seconds, rate) = (row.responses, row.seconds, row.rate);
            let (responses, seconds) = (responses.unwrap_or(0.0), seconds.unwrap_or(1.0));
            format!(
                "{} in {} s are {}/s; printed {}/s, {} less",
                crate::finding::count(responses),
                number(seconds),
                number(responses / seconds),
                number(rate.unwrap_or(0.0)),
                percent(-mismatch(row).unwrap_or(0.0))
            )
        };
        findings.push(lines(finding, sheet, &off, line));
    }
    findings
}

/// Figures of one row that are impossible, alone or together.
fn impossible(sheet: &Sheet) -> Option<Finding> {
    let rows = positions(sheet, |row| !breaches(row).is_empty());
    if rows.is_empty() {
        return None;
    }
    let title = format!("{}: impossible figures", rows_word(rows.len()));
    let finding = Finding::new("A7", Weight::Contradiction, title)
        .means("Counts, seconds, rates and shares of one text contradict each other by more than rounding explains: it was edited, or put together from several runs.")
        .advise("Do not use these rows; ask for the complete output.");
    Some(lines(finding, sheet, &rows, |row| breaches(row).join("; ")))
}

fn breaches(row: &Row) -> Vec<String> {
    let mut found = row.contradictions.clone();
    if let Some(seconds) = row.seconds.filter(|s| *s <= 0.0 || !s.is_finite()) {
        found.push(format!("a window of {} s", number(seconds)));
    }
    let shares = [
        ("failures", row.failed_share),
        ("the generator", row.generator_share),
    ];
    for (what, share) in shares {
        // Shares of CPU time are rounded to clock ticks.
        if let Some(share) = share.filter(|share| !(0.0..=1.02).contains(share)) {
            found.push(format!("{what}: {} of 100 %", percent(share)));
        }
    }
    let times = [row.latency.min, row.latency.mean, row.latency.max];
    let quantiles = row.latency.quantiles.iter().map(|(_, value)| *value);
    let negative = times
        .into_iter()
        .flatten()
        .chain(quantiles)
        .find(|ms| *ms < 0.0);
    found.extend(negative.map(|ms| format!("a latency of {ms} ms")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_cannot_be_are_contradictions() {
        let finding_of = |change: fn(&mut Row)| {
            let mut row = Row {
                seconds: Some(10.0),
                failed_share: Some(0.5),
                ..Row::default()
            };
            change(&mut row);
            let sheet = Sheet {
                rows: vec![row],
                ..Sheet::default()
            };
            impossible(&sheet).map(|finding| (finding.weight, finding.arithmetic.join("; ")))
        };
        assert_eq!(finding_of(|_| ()), None);
        for (change, words) in [
            (
                (|row| row.seconds = Some(-1.0)) as fn(&mut Row),
                "a window of",
            ),
            (|row| row.failed_share = Some(1.3), "failures: 130 %"),
            (|row| row.latency.mean = Some(-2.0), "a latency of -2 ms"),
            (|row| row.contradictions.push("7 of 5".into()), "7 of 5"),
        ] {
            let (weight, text) = finding_of(change).unwrap();
            assert_eq!(weight, Weight::Contradiction);
            assert!(text.contains(words), "{text}");
        }
    }
}
