//! The output of ApacheBench.

use super::units::{rate_breach, rounding};
use super::{after, number_after, parts};
use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses one or more outputs. Lines before `Concurrency Level:` may be missing.
pub fn read(text: &str) -> Result<Sheet, String> {
    let outputs = parts(text, |line| {
        line.trim_start().starts_with("Concurrency Level:")
    });
    let hosts: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Server Hostname:"))
        .collect();
    let mut sheet = Sheet {
        tool: "ab".into(),
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    for (at, lines) in outputs.iter().enumerate() {
        let mut row = row(lines)
            .ok_or("an output of ab without `Complete requests:` or `Requests per second:`")?;
        row.name = hosts.get(at).map_or("ab", |host| host.trim()).to_string();
        sheet.rows.push(row);
    }
    if sheet.rows.is_empty() {
        return Err("an output of ab without `Concurrency Level:`".into());
    }
    Ok(sheet)
}

fn row(lines: &[&str]) -> Option<Row> {
    let responses = number_after(lines, "Complete requests:")?;
    let failed = number_after(lines, "Failed requests:").unwrap_or(0.0);
    let wrong = number_after(lines, "Non-2xx responses:").unwrap_or(0.0);
    Some(Row {
        clients: number_after(lines, "Concurrency Level:"),
        seconds: number_after(lines, "Time taken for tests:"),
        responses: Some(responses),
        // A response may count in both: of another length and not 2xx.
        failed_share: Some(failed.max(wrong) / responses.max(1.0)),
        rate: Some(number_after(lines, "Requests per second:")?),
        response_bytes: number_after(lines, "Total transferred:")
            .map(|bytes| bytes / responses.max(1.0)),
        latency: latency(lines),
        contradictions: contradictions(lines, responses, failed.max(wrong)),
        failures: failures(lines, failed, wrong),
        ..Row::default()
    })
}

/// Inconsistent figures: the rate against the count, and failures against requests.
fn contradictions(lines: &[&str], responses: f64, failed: f64) -> Vec<String> {
    let mut found = Vec::new();
    let time = after(lines, "Time taken for tests:").unwrap_or("");
    let seconds = number_after(lines, "Time taken for tests:").unwrap_or(0.0);
    if let Some(rate) = number_after(lines, "Requests per second:") {
        let room = rounding(time);
        found.extend(rate_breach(
            "Requests per second",
            rate,
            responses,
            seconds,
            room,
        ));
    }
    if failed > responses {
        found.push(format!("{failed} of {responses} requests failed"));
    }
    found
}

fn latency(lines: &[&str]) -> Latency {
    let words: Vec<f64> = after(lines, "Total:   ")
        .or_else(|| {
            after(
                &lines[lines
                    .iter()
                    .position(|l| l.trim().starts_with("Connection Times"))
                    .unwrap_or(0)..],
                "Total:",
            )
        })
        .unwrap_or("")
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let table = lines
        .iter()
        .skip_while(|line| !line.contains("Percentage of the requests"));
    let quantile = |line: &&str| {
        let (percent, value) = line.trim().split_once('%')?;
        let value = value.split_whitespace().next()?.parse().ok()?;
        Some((percent.trim().parse::<f64>().ok()? / 100.0, value))
    };
    let [min, mean, deviation, _median, max] = words[..] else {
        return Latency::default();
    };
    Latency {
        rounding: 0.5,
        // Whole milliseconds: 0 is anything below one.
        min: Some(min).filter(|min| *min > 0.0),
        mean: Some(mean),
        deviation: Some(deviation),
        max: Some(max),
        quantiles: table
            .filter_map(quantile)
            .filter(|(q, value)| *q < 1.0 && *value > 0.0)
            .collect(),
    }
}

/// `(Connect: 0, Receive: 0, Length: 970161, Exceptions: 0)`
fn failures(lines: &[&str], failed: f64, wrong: f64) -> Vec<(FailureClass, u64)> {
    let mut found = Vec::new();
    let named = [
        ("Connect:", FailureClass::Refused),
        ("Receive:", FailureClass::Reset),
        ("Exceptions:", FailureClass::Closed),
    ];
    let detail = lines
        .iter()
        .find(|line| line.trim().starts_with("(Connect:"));
    for (label, class) in named {
        let rest = detail
            .and_then(|line| line.split_once(label))
            .map_or("", |(_, rest)| rest);
        let digits: String = rest
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        found.extend(
            digits
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(|count| (class, count)),
        );
    }
    if wrong > 0.0 {
        found.push((FailureClass::Status, wrong as u64));
    }
    let listed: u64 = found.iter().map(|(_, count)| count).sum();
    let rest = (failed as u64).saturating_sub(listed);
    if rest > 0 {
        found.push((FailureClass::Length, rest));
    }
    found
}
