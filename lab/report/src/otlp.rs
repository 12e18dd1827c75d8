//! A result as metrics in OTLP/JSON (OpenTelemetry protocol 1.x, `ExportMetricsServiceRequest`), for any OpenTelemetry
//! collector. Names and meanings are those of the Prometheus export.

use serde_json::{Value, json};

use super::export::{GAUGES, buckets};
use super::view::View;
use sluice_load::result::{Cell, Histogram, RunResult};

/// `AGGREGATION_TEMPORALITY_DELTA`: a result counts from its own beginning.
const DELTA: u32 = 1;

/// The request that exports a result. 64-bit integers are strings in OTLP/JSON.
pub fn otlp(result: &RunResult) -> Value {
    let view = View::new(result);
    let moments = Moments::of(result);
    let mut metrics = Vec::new();
    for (name, help, figure, factor) in GAUGES {
        let points: Vec<Value> = view
            .cells
            .iter()
            .filter_map(|seen| {
                let value = seen.row.figure(figure)? * factor;
                Some(moments.point(attributes(result, seen.cell), json!({ "asDouble": value })))
            })
            .collect();
        if !points.is_empty() {
            metrics.push(json!({
                "name": format!("sluice_lab.{name}"),
                "description": help,
                "unit": unit(name),
                "gauge": { "dataPoints": points },
            }));
        }
    }
    let failures: Vec<Value> = view
        .cells
        .iter()
        .flat_map(|seen| {
            seen.row.failures.iter().map(|(class, count)| {
                let mut attributes = attributes(result, seen.cell);
                attributes.push(attribute("class", class.words()));
                moments.point(attributes, json!({ "asInt": count.to_string() }))
            })
        })
        .collect();
    if !failures.is_empty() {
        metrics.push(json!({
            "name": "sluice_lab.failed_requests",
            "description": "Failed requests of all blocks by class",
            "unit": "{request}",
            "sum": { "aggregationTemporality": DELTA, "isMonotonic": true, "dataPoints": failures },
        }));
    }
    let histograms: Vec<Value> = view
        .cells
        .iter()
        .filter_map(|seen| {
            let attributes = attributes(result, seen.cell);
            Some(moments.point(attributes, histogram(&seen.histogram()?)))
        })
        .collect();
    if !histograms.is_empty() {
        metrics.push(json!({
            "name": "sluice_lab.latency",
            "description": "Latency of successful responses of all blocks",
            "unit": "s",
            "histogram": { "aggregationTemporality": DELTA, "dataPoints": histograms },
        }));
    }
    let resource = [
        attribute("service.name", "sluice-lab"),
        attribute("host.cpu.model.name", &result.machine.cpu_model),
        attribute("os.description", &result.machine.os),
    ];
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{
            "scope": { "name": "sluice-lab", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics,
        }],
    }] })
}

/// The reason of a collector that accepted the request but not all of its points; `None` if it took all.
pub fn rejected(response: &[u8]) -> Option<String> {
    let response: Value = serde_json::from_slice(response).ok()?;
    let partial = response.get("partialSuccess")?;
    let count = partial.get("rejectedDataPoints")?;
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    let reason = partial.get("errorMessage").and_then(Value::as_str);
    let reason = reason.unwrap_or("no reason given");
    (count > 0).then(|| format!("{count} data points were rejected: {reason}"))
}

/// When a result was measured.
struct Moments {
    begin: String,
    end: String,
}

impl Moments {
    fn of(result: &RunResult) -> Self {
        let begin = u128::from(result.started_unix_ms) * 1_000_000;
        let length = (result.duration_s.max(0.0) * 1e9) as u128;
        Moments {
            begin: begin.to_string(),
            end: (begin + length).to_string(),
        }
    }

    /// A data point with these values.
    fn point(&self, attributes: Vec<Value>, values: Value) -> Value {
        let mut point = values;
        if let Some(fields) = point.as_object_mut() {
            fields.insert("attributes".into(), attributes.into());
            fields.insert("startTimeUnixNano".into(), self.begin.clone().into());
            fields.insert("timeUnixNano".into(), self.end.clone().into());
        }
        point
    }
}

/// The unit of a gauge in UCUM notation, by the ending of its name.
fn unit(name: &str) -> &'static str {
    match name {
        name if name.ends_with("per_second") => "1/s",
        name if name.ends_with("seconds") || name.ends_with("seconds_per_response") => "s",
        name if name.ends_with("bytes") => "By",
        _ => "1",
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The experiment and the axes of a cell.
fn attributes(result: &RunResult, cell: &Cell) -> Vec<Value> {
    let axes = cell.axes.iter().map(|(axis, value)| attribute(axis, value));
    let experiment = [attribute("experiment", &result.name)];
    experiment.into_iter().chain(axes).collect()
}

/// Buckets are counts of their own here, not sums; the last one is above the last bound.
fn histogram(merged: &Histogram) -> Value {
    let buckets = buckets(merged);
    let mut before = 0;
    let counts = buckets.iter().map(|(_, sum)| {
        let own = sum - before;
        before = *sum;
        own.to_string()
    });
    let mut counts: Vec<String> = counts.collect();
    counts.push((merged.count() - before).to_string());
    let bounds: Vec<f64> = buckets.iter().map(|(bound, _)| bound / 1e9).collect();
    json!({
        "count": merged.count().to_string(),
        "sum": merged.mean() * merged.count() as f64 / 1e9,
        "min": merged.min() as f64 / 1e9,
        "max": merged.max() as f64 / 1e9,
        "bucketCounts": counts,
        "explicitBounds": bounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn metrics_are_those_of_the_cells() {
        let mut result = example::result();
        result.cells.truncate(2);
        let cells = &mut result.cells;
        cells[1]
            .blocks
            .iter_mut()
            .for_each(|block| block.resources = None);
        let request = otlp(&result);
        let metrics = request.pointer("/resourceMetrics/0/scopeMetrics/0/metrics");
        let metrics = metrics.and_then(Value::as_array).unwrap();
        let of = |name: &str| {
            let found = metrics.iter().find(|metric| metric["name"] == name);
            found.unwrap_or_else(|| panic!("{name}"))
        };
        let rates = of("sluice_lab.responses_per_second");
        assert_eq!(rates["unit"], "1/s");
        let points = rates["gauge"]["dataPoints"].as_array().unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!(points[0]["startTimeUnixNano"], "1700000000000000000");
        let attributes = points[0]["attributes"].as_array().unwrap();
        assert!(attributes.contains(&attribute("experiment", "example")));
        assert!(attributes.contains(&attribute("subject", "swift")));
        // Only the first of both has costs.
        let costs = of("sluice_lab.cpu_seconds_per_response");
        assert_eq!(costs["gauge"]["dataPoints"].as_array().unwrap().len(), 1);
        let latency = &of("sluice_lab.latency")["histogram"]["dataPoints"][0];
        let numbers = |key: &str| latency[key].as_array().unwrap().clone();
        let counts = numbers("bucketCounts");
        let counts = counts
            .iter()
            .map(|count| count.as_str().unwrap().parse::<u64>().unwrap());
        let counts: Vec<u64> = counts.collect();
        assert_eq!(counts.iter().sum::<u64>(), 20_000);
        assert_eq!(latency["count"], "20000");
        let bounds: Vec<f64> = numbers("explicitBounds")
            .iter()
            .map(|b| b.as_f64().unwrap())
            .collect();
        assert_eq!(counts.len(), bounds.len() + 1);
        assert!(bounds.is_sorted() && counts.last() == Some(&0));
    }

    #[test]
    fn partial_success_is_a_failure() {
        for (text, expected) in [
            ("{}", None),
            ("", None),
            ("{\"partialSuccess\": {}}", None),
            (
                "{\"partialSuccess\": {\"rejectedDataPoints\": \"0\"}}",
                None,
            ),
            (
                "{\"partialSuccess\": {\"rejectedDataPoints\": \"3\", \"errorMessage\": \"too old\"}}",
                Some("3 data points were rejected: too old"),
            ),
            (
                "{\"partialSuccess\": {\"rejectedDataPoints\": 1}}",
                Some("1 data points were rejected: no reason given"),
            ),
        ] {
            assert_eq!(rejected(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
