//! The output of h2load. It prints no percentiles.

use super::units::{bytes, milliseconds};
use super::{parts, those_seen};
use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Reads one or more outputs.
pub fn read(text: &str) -> Result<Sheet, String> {
    let mut sheet = Sheet {
        tool: "h2load".into(),
        ..Sheet::default()
    };
    // The rate that it prints is of the answers without failure.
    sheet.conditions.failures_counted = Some(false);
    let begins = |line: &str| line.starts_with("starting benchmark");
    let mut outputs = parts(text, begins);
    if outputs.is_empty() {
        outputs = parts(text, |line| line.starts_with("finished in "));
    }
    for lines in outputs {
        sheet
            .rows
            .push(row(&lines).ok_or("an output of h2load without `finished in` or `requests:`")?);
    }
    Ok(sheet)
}

fn row(lines: &[&str]) -> Option<Row> {
    let find = |label: &str| {
        lines
            .iter()
            .find_map(|line| line.trim().strip_prefix(label))
            .map(str::trim)
    };
    let finished: Vec<&str> = find("finished in ")?.split(',').collect();
    let requests = find("requests: ")?;
    let named = |name: &str| -> f64 {
        let part = requests.split(',').find(|part| part.trim().ends_with(name));
        part.and_then(|part| part.split_whitespace().next()?.parse().ok())
            .unwrap_or(0.0)
    };
    let clients: f64 = lines
        .iter()
        .filter(|line| line.starts_with("spawning thread"))
        .filter_map(|line| {
            line.split_once(": ")?
                .1
                .split_whitespace()
                .next()?
                .parse::<f64>()
                .ok()
        })
        .sum();
    let (done, good, timeouts) = (named("done"), named("succeeded"), named("timeout"));
    let errored = named("errored");
    let rate: Option<f64> = finished
        .get(1)
        .and_then(|text| text.trim().trim_end_matches(" req/s").parse().ok());
    rate?;
    let traffic = find("traffic: ")
        .and_then(|text| text.split_whitespace().next())
        .and_then(bytes);
    let classes = [
        (FailureClass::Status, named("failed") - errored),
        (FailureClass::Closed, errored - timeouts),
        (FailureClass::HeadTimeout, timeouts),
    ];
    Some(Row {
        name: "h2load".into(),
        clients: (clients > 0.0).then_some(clients),
        // `finished in` contains the warm-up, the rate does not.
        seconds: rate
            .filter(|rate| *rate > 0.0 && good > 0.0)
            .map(|rate| good / rate),
        answers: Some(done),
        failed_share: Some(if done > 0.0 {
            (done - good).max(0.0) / done
        } else {
            0.0
        }),
        rate,
        answer_bytes: traffic.map(|bytes| bytes / done.max(1.0)),
        latency: latency(
            find("time for request:")
                .or_else(|| find("request     :"))
                .unwrap_or(""),
        ),
        failures: those_seen(classes),
        ..Row::default()
    })
}

/// `min max mean sd +/-sd`; later versions put `median p95 p99` between `max` and `mean`.
fn latency(text: &str) -> Latency {
    let words: Vec<f64> = text.split_whitespace().filter_map(milliseconds).collect();
    match words[..] {
        [min, max, mean, deviation] => Latency {
            rounding: 0.0,
            min: Some(min),
            mean: Some(mean),
            deviation: Some(deviation),
            max: Some(max),
            quantiles: Vec::new(),
        },
        [min, max, median, p95, p99, mean, deviation] => Latency {
            rounding: 0.0,
            min: Some(min),
            mean: Some(mean),
            deviation: Some(deviation),
            max: Some(max),
            quantiles: vec![(0.5, median), (0.95, p95), (0.99, p99)],
        },
        _ => Latency::default(),
    }
}
