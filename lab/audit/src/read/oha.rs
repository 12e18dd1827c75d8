//! The JSON of oha. Durations are in seconds; requests cut off at the end count as errors.

use serde_json::Value;

use super::those_seen;
use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses a report.
pub fn read(text: &str) -> Result<Sheet, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let summary = root
        .get("summary")
        .ok_or("a report of oha without `summary`")?;
    let figure = |key: &str| summary.get(key).and_then(Value::as_f64);
    let counts = |key: &str| -> Vec<(String, f64)> {
        let entries = root
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        entries
            .filter_map(|(name, count)| Some((name.clone(), count.as_f64()?)))
            .collect()
    };
    let statuses = counts("statusCodeDistribution");
    let errors: f64 = counts("errorDistribution")
        .iter()
        .map(|(_, count)| count)
        .sum();
    let is_good = |name: &str| {
        name.parse::<u16>()
            .is_ok_and(|status| (200..400).contains(&status))
    };
    let good: f64 = statuses
        .iter()
        .filter(|(name, _)| is_good(name))
        .map(|(_, n)| n)
        .sum();
    let all: f64 = statuses.iter().map(|(_, n)| n).sum::<f64>() + errors;
    let classes = [
        (FailureClass::Status, all - errors - good),
        (FailureClass::Closed, errors),
    ];
    let row = Row {
        name: "oha".into(),
        seconds: figure("total"),
        responses: (all > 0.0).then_some(all),
        failed_share: (all > 0.0).then(|| (all - good) / all),
        rate: figure("requestsPerSec"),
        response_bytes: figure("sizePerRequest"),
        latency: latency(&root, figure),
        failures: those_seen(classes),
        ..Row::default()
    };
    let mut sheet = Sheet {
        tool: "oha".into(),
        rows: vec![row],
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    Ok(sheet)
}

fn latency(root: &Value, figure: impl Fn(&str) -> Option<f64>) -> Latency {
    let milliseconds = |key: &str| figure(key).map(|seconds| seconds * 1000.0);
    let listed = root
        .get("latencyPercentiles")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let quantile = |(name, value): (&String, &Value)| {
        let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
        Some((percent / 100.0, value.as_f64()? * 1000.0))
    };
    let mut quantiles: Vec<(f64, f64)> = listed.filter_map(quantile).collect();
    quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    Latency {
        rounding: 0.0,
        min: milliseconds("fastest"),
        mean: milliseconds("average"),
        deviation: None,
        max: milliseconds("slowest"),
        quantiles,
    }
}
