//! The JSON summary of k6: from `--summary-export` (figures beside the name) or from `handleSummary` (below `values`).

use serde_json::Value;

use crate::evidence::{Latency, Row, Sheet};

/// Parses a summary.
pub fn read(text: &str) -> Result<Sheet, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let metrics = root
        .get("metrics")
        .ok_or("a summary of k6 without `metrics`")?;
    let metric = |name: &str| {
        metrics
            .get(name)
            .map(|metric| metric.get("values").unwrap_or(metric))
    };
    let figure = |name: &str, key: &str| metric(name)?.get(key)?.as_f64();
    // k6 can record the latencies of expected responses separately.
    let good = metric("http_req_duration{expected_response:true}");
    let duration = good
        .or(metric("http_req_duration"))
        .ok_or("a summary of k6 without `http_req_duration`")?;
    let responses = figure("http_reqs", "count");
    let rate = figure("http_reqs", "rate");
    let failed = figure("http_req_failed", "rate").or_else(|| figure("http_req_failed", "value"));
    let ran = root
        .pointer("/state/testRunDurationMs")
        .and_then(Value::as_f64)
        .map(|ms| ms / 1000.0);
    let mut row = Row {
        name: "k6".into(),
        clients: figure("vus_max", "value").or_else(|| figure("vus", "max")),
        seconds: ran.or_else(|| Some(responses? / rate?)),
        responses,
        failed_share: failed,
        rate,
        latency: latency(duration),
        ..Row::default()
    };
    row.response_bytes = figure("data_received", "count")
        .zip(responses)
        .map(|(bytes, n)| bytes / n.max(1.0));
    if let Some(dropped) = figure("dropped_iterations", "count").filter(|n| *n > 0.0) {
        row.marks
            .push(format!("k6 dropped {dropped} iterations that were due"));
    }
    let mut sheet = Sheet {
        tool: "k6".into(),
        rows: vec![row],
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    Ok(sheet)
}

fn latency(duration: &Value) -> Latency {
    let figure = |key: &str| duration.get(key).and_then(Value::as_f64);
    let mut quantiles: Vec<(f64, f64)> = figure("med")
        .map(|median| (0.5, median))
        .into_iter()
        .collect();
    for (key, value) in duration.as_object().into_iter().flatten() {
        let percent = key
            .strip_prefix("p(")
            .and_then(|rest| rest.strip_suffix(')'));
        let percent = percent.and_then(|text| text.parse::<f64>().ok());
        quantiles.extend(percent.zip(value.as_f64()).map(|(p, v)| (p / 100.0, v)));
    }
    quantiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    quantiles.dedup_by(|one, other| one.0 == other.0);
    Latency {
        rounding: 0.0,
        min: figure("min"),
        mean: figure("avg"),
        deviation: None,
        max: figure("max"),
        quantiles,
    }
}
