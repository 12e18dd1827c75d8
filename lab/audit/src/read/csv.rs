//! Lists of single requests: `hey -o csv` and `h2load --log-file`. Latency figures include only successful responses.

use crate::evidence::{Latency, Row, Sheet};
use crate::limits::REQUEST_LINES_MAX;
use crate::statistics::order::carries;
use sluice_load::result::FailureClass;

/// One request of a list.
struct Request {
    ends_s: f64,
    took_ms: f64,
    status: i64,
}

/// Parses `hey -o csv`: seconds, the last two columns are status and offset.
pub fn read_hey(text: &str) -> Result<Sheet, String> {
    let request = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| {
            fields
                .get(at)
                .and_then(|field| field.trim().parse::<f64>().ok())
        };
        let took = number(0)?;
        let status = number(6)? as i64;
        Some(Request {
            ends_s: number(7)? + took,
            took_ms: took * 1000.0,
            status,
        })
    };
    sheet("hey", text.lines().skip(1), request)
}

/// Whether a line is from `h2load --log-file`: microseconds since 1970, status, microseconds.
pub fn is_h2load_log(line: &str) -> bool {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.len() == 3
        && fields
            .iter()
            .all(|field| field.trim().parse::<i64>().is_ok())
}

/// Parses the file of `h2load --log-file`.
pub fn read_h2load_log(text: &str) -> Result<Sheet, String> {
    let request = |line: &str| {
        let mut fields = line
            .split('\t')
            .map(|field| field.trim().parse::<i64>().ok());
        let (start, status, took) = (fields.next()??, fields.next()??, fields.next()??);
        Some(Request {
            ends_s: (start as f64 + took as f64) / 1e6,
            took_ms: took as f64 / 1000.0,
            status,
        })
    };
    sheet("h2load", text.lines(), request)
}

fn sheet<'a>(
    tool: &str,
    lines: impl Iterator<Item = &'a str>,
    request: impl Fn(&str) -> Option<Request>,
) -> Result<Sheet, String> {
    let mut requests = Vec::new();
    for (at, line) in lines
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        if requests.len() == REQUEST_LINES_MAX {
            return Err(format!("more than {REQUEST_LINES_MAX} requests"));
        }
        requests.push(request(line).ok_or_else(|| {
            format!(
                "line {}: `{line}` is not a request record of {tool}",
                at + 1
            )
        })?);
    }
    if requests.is_empty() {
        return Err("no requests in it".into());
    }
    let mut sheet = Sheet {
        tool: tool.into(),
        rows: vec![row(tool, &requests)],
        ..Sheet::default()
    };
    // The rate counts all lines; the latencies only successful responses.
    sheet.conditions.failures_counted = Some(true);
    Ok(sheet)
}

fn row(tool: &str, requests: &[Request]) -> Row {
    let is_good = |request: &&Request| (200..400).contains(&request.status);
    let mut times: Vec<f64> = requests.iter().filter(is_good).map(|r| r.took_ms).collect();
    times.sort_by(f64::total_cmp);
    let begin = requests
        .iter()
        .map(|r| r.ends_s - r.took_ms / 1000.0)
        .fold(f64::INFINITY, f64::min);
    let end = requests
        .iter()
        .map(|r| r.ends_s)
        .fold(f64::NEG_INFINITY, f64::max);
    let failed = requests.len() - times.len();
    let quantile = |q: f64| {
        let rank = (times.len() as f64 * q).ceil() as usize;
        carries(q, times.len() as u64).then(|| (q, times[rank.clamp(1, times.len()) - 1]))
    };
    let responses = requests.len() as f64;
    Row {
        name: tool.into(),
        seconds: (end > begin).then_some(end - begin),
        responses: Some(responses),
        failed_share: Some(failed as f64 / responses),
        rate: (end > begin).then(|| responses / (end - begin)),
        latency: Latency {
            rounding: 0.0,
            min: times.first().copied(),
            mean: crate::statistics::order::mean(&times),
            deviation: None,
            max: times.last().copied(),
            quantiles: [0.5, 0.9, 0.95, 0.99, 0.999]
                .into_iter()
                .filter_map(quantile)
                .collect(),
        },
        failures: Some((FailureClass::Status, failed as u64))
            .filter(|_| failed > 0)
            .into_iter()
            .collect(),
        ..Row::default()
    }
}
