//! The JSON report of vegeta: an open loop, in nanoseconds.

use serde_json::Value;

use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses a report.
pub fn read(text: &str) -> Result<Sheet, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let figure = |path: &str| root.pointer(path).and_then(Value::as_f64);
    let responses = figure("/requests").ok_or("a report of vegeta without `requests`")?;
    let success = figure("/success").unwrap_or(1.0);
    let milliseconds = |key: &str| figure(&format!("/latencies/{key}")).map(|ns| ns / 1e6);
    let quantile = |(quantile, key): (f64, &str)| milliseconds(key).map(|value| (quantile, value));
    let quantiles = [(0.5, "50th"), (0.9, "90th"), (0.95, "95th"), (0.99, "99th")];
    let failed = (responses * (1.0 - success)).round();
    let row = Row {
        name: "vegeta".into(),
        offered: figure("/rate"),
        seconds: figure("/duration").map(|ns| ns / 1e9),
        responses: Some(responses),
        failed_share: Some(1.0 - success),
        rate: figure("/rate"),
        response_bytes: figure("/bytes_in/mean"),
        latency: Latency {
            rounding: 0.0,
            min: milliseconds("min"),
            mean: milliseconds("mean"),
            deviation: None,
            max: milliseconds("max"),
            quantiles: quantiles.into_iter().filter_map(quantile).collect(),
        },
        failures: Some((FailureClass::Status, failed as u64))
            .filter(|_| failed > 0.0)
            .into_iter()
            .collect(),
        ..Row::default()
    };
    let mut sheet = Sheet {
        tool: "vegeta".into(),
        rows: vec![row],
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    Ok(sheet)
}
