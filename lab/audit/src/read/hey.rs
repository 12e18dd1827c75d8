//! The output of hey and of boom, its former name.

use super::units::milliseconds;
use super::{number_after, parts};
use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses one or more outputs. hey does not print its number of clients.
pub fn read(text: &str) -> Result<Sheet, String> {
    let outputs = parts(text, |line| line.trim() == "Summary:");
    let mut sheet = Sheet {
        tool: "hey".into(),
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    for lines in outputs {
        sheet
            .rows
            .push(row(&lines).ok_or("an output of hey without `Requests/sec:`")?);
    }
    if sheet.rows.is_empty() {
        return Err("an output of hey without `Summary:`".into());
    }
    Ok(sheet)
}

fn row(lines: &[&str]) -> Option<Row> {
    let statuses = bracketed(lines, "Status code distribution:");
    let errors: f64 = bracketed(lines, "Error distribution:")
        .iter()
        .map(|(count, _)| count)
        .sum();
    let status_count = |(_, rest): &(f64, String)| -> f64 {
        rest.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0.0)
    };
    let good = statuses
        .iter()
        .filter(|(status, _)| (200.0..400.0).contains(status));
    let good: f64 = good.map(status_count).sum();
    let all: f64 = statuses.iter().map(status_count).sum::<f64>() + errors;
    let mut failures = Vec::new();
    let wrong = all - errors - good;
    if wrong > 0.0 {
        failures.push((FailureClass::Status, wrong as u64));
    }
    if errors > 0.0 {
        failures.push((FailureClass::Closed, errors as u64));
    }
    Some(Row {
        name: "hey".into(),
        seconds: number_after(lines, "Total:"),
        responses: (all > 0.0).then_some(all),
        failed_share: (all > 0.0).then(|| (all - good) / all),
        rate: Some(number_after(lines, "Requests/sec:")?),
        response_bytes: number_after(lines, "Size/request:"),
        latency: latency(lines),
        failures,
        ..Row::default()
    })
}

fn latency(lines: &[&str]) -> Latency {
    let seconds = |label: &str| number_after(lines, label).map(|s| s * 1000.0);
    let quantile = |line: &&str| {
        let (percent, value) = line
            .trim()
            .split_once("% in ")
            .or_else(|| line.trim().split_once("%% in "))?;
        Some((
            percent.trim().parse::<f64>().ok()? / 100.0,
            milliseconds(value)?,
        ))
    };
    Latency {
        rounding: 0.05,
        // Tenths of a millisecond: 0 is anything below one.
        min: seconds("Fastest:").filter(|min| *min > 0.0),
        mean: seconds("Average:"),
        deviation: None,
        max: seconds("Slowest:"),
        quantiles: lines.iter().filter_map(quantile).collect(),
    }
}

/// Lines such as `[200]  50000 responses` below a heading: the text in brackets and what follows.
fn bracketed(lines: &[&str], heading: &str) -> Vec<(f64, String)> {
    let below = lines
        .iter()
        .skip_while(|line| line.trim() != heading)
        .skip(1);
    let line = |line: &&str| {
        let (inside, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        Some((inside.parse().ok()?, rest.trim().to_string()))
    };
    below.map_while(line).collect()
}
