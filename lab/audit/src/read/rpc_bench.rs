//! The output of rpc-bench: its percentiles are bucket bounds of its histogram.

use super::units::{bytes, milliseconds};
use super::{number_after, parts};
use crate::evidence::{Latency, Row, Sheet};

/// Parses one or more outputs. The number of clients is not printed.
pub fn read(text: &str) -> Result<Sheet, String> {
    let mut sheet = Sheet {
        tool: "rpc-bench".into(),
        ..Sheet::default()
    };
    // It stops at the first incorrect response and counts 429 separately.
    sheet.conditions.failures_counted = Some(false);
    for lines in parts(text, |line| line.contains("Num Queries:")) {
        sheet
            .rows
            .push(row(&lines).ok_or("an output of rpc-bench without `Data:` or `calls/sec`")?);
    }
    Ok(sheet)
}

fn row(lines: &[&str]) -> Option<Row> {
    let first = lines[0];
    let behind = |label: &str| first.split_once(label).map(|(_, rest)| rest.trim());
    let word = |label: &str| behind(label).and_then(|rest| rest.split_whitespace().next());
    let responses: f64 = word("Num Queries:")?.parse().ok()?;
    let data = behind("Data:")?.split('[').next().and_then(bytes)?;
    let (seconds, rate) = behind("[")?.split_once('@')?;
    let latencies: Vec<&str> = lines
        .iter()
        .copied()
        .skip_while(|line| !line.starts_with("Latency in"))
        .take_while(|line| !line.starts_with("Resp size"))
        .collect();
    let quantile = |percent: f64| {
        let value = number_after(&latencies, &format!("{percent}p:"))?;
        Some((percent / 100.0, value))
    };
    Some(Row {
        name: "rpc-bench".into(),
        seconds: milliseconds(seconds).map(|ms| ms / 1000.0),
        responses: Some(responses),
        failed_share: Some(
            word("Num 429:")
                .and_then(|n| n.parse::<f64>().ok())
                .unwrap_or(0.0)
                / responses.max(1.0),
        ),
        rate: rate.split_whitespace().next()?.parse().ok(),
        response_bytes: Some(data / responses.max(1.0)),
        bytes_room: word("Data:").map_or(0.0, rounding),
        latency: Latency {
            min: number_after(&latencies, "Min value:"),
            max: number_after(&latencies, "Max value:"),
            quantiles: [50.0, 75.0, 90.0]
                .into_iter()
                .filter_map(quantile)
                .collect(),
            ..Latency::default()
        },
        ..Row::default()
    })
}

/// Half a unit of the last digit, as a share: `3.3` may be 3.25.
fn rounding(number: &str) -> f64 {
    let digits = number
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let value: f64 = number.parse().unwrap_or(0.0);
    if value > 0.0 {
        0.5 * 10_f64.powi(-(digits as i32)) / value
    } else {
        0.0
    }
}
