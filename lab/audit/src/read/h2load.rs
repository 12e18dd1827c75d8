//! The output of h2load. It does not print percentiles.

use super::units::{bytes, milliseconds};
use super::{parts, those_seen};
use crate::evidence::{Latency, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses one or more outputs.
pub fn read(text: &str) -> Result<Sheet, String> {
    let mut sheet = Sheet {
        tool: "h2load".into(),
        ..Sheet::default()
    };
    // The rate that it prints counts responses without failures.
    sheet.conditions.failures_counted = Some(false);
    let streams = streams(text);
    let begins = |line: &str| line.starts_with("starting benchmark");
    let mut outputs = parts(text, begins);
    if outputs.is_empty() {
        outputs = parts(text, |line| line.starts_with("finished in "));
    }
    for lines in outputs {
        sheet.rows.push(
            row(&lines, streams)
                .ok_or("an output of h2load without `finished in` or `requests:`")?,
        );
    }
    Ok(sheet)
}

fn row(lines: &[&str], streams_asked: Option<f64>) -> Option<Row> {
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
    // Only the command line shows how many concurrent streams each client has.
    let is_h2 = find("Application protocol: ").is_some_and(|protocol| protocol.starts_with("h2"));
    let streams = streams_asked.or((!is_h2).then_some(1.0));
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
        clients: streams
            .map(|streams| clients * streams)
            .filter(|all| *all > 0.0),
        contradictions: contradictions(done, good, named("failed")),
        // `finished in` includes the warm-up, the rate does not.
        seconds: rate
            .filter(|rate| *rate > 0.0 && good > 0.0)
            .map(|rate| good / rate),
        responses: Some(done),
        failed_share: Some(if done > 0.0 {
            (done - good).max(0.0) / done
        } else {
            0.0
        }),
        rate,
        response_bytes: traffic.map(|bytes| bytes / done.max(1.0)),
        latency: latency(
            find("time for request:")
                .or_else(|| find("request     :"))
                .unwrap_or(""),
        ),
        failures: those_seen(classes),
        ..Row::default()
    })
}

/// The value of `-m` in a command line above the output: concurrent requests on each connection.
fn streams(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let command = lines.find(|line| line.split_whitespace().any(|w| w.ends_with("h2load")))?;
    let words: Vec<&str> = command.split_whitespace().collect();
    let value = words.iter().enumerate().find_map(|(at, word)| match *word {
        "-m" | "--max-concurrent-streams" => words.get(at + 1).copied(),
        _ => ["--max-concurrent-streams=", "-m"]
            .iter()
            .find_map(|name| word.strip_prefix(name)),
    });
    // The default is one.
    value.map_or(Some(1.0), |value| value.parse().ok())
}

/// Inconsistent counts.
fn contradictions(done: f64, good: f64, failed: f64) -> Vec<String> {
    let mut found = Vec::new();
    if good + failed > done {
        found.push(format!(
            "{good} succeeded and {failed} failed of {done} that were done"
        ));
    }
    found
}

/// `min max mean sd +/-sd`; later versions have `median p95 p99` between `max` and `mean`.
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "starting benchmark...\nspawning thread #0: 50 total client(s). 5000 total requests\nApplication protocol: h2\n\nfinished in 250.00ms, 20000.00 req/s, 3.22MB/s\nrequests: 5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout\n";

    fn row(text: &str) -> Row {
        read(text).unwrap().rows.remove(0)
    }

    #[test]
    fn streams_multiply_the_clients() {
        // h2load does not print them: without its command line they are unknown.
        assert_eq!(row(TEXT).clients, None);
        for (command, clients) in [
            ("$ h2load -c 50 -m 10 http://localhost/\n", 500.0),
            ("$ h2load -c 50 -m10 http://localhost/\n", 500.0),
            (
                "h2load --max-concurrent-streams=4 -c50 http://localhost/\n",
                200.0,
            ),
            ("h2load -c50 http://localhost/\n", 50.0),
        ] {
            assert_eq!(
                row(&format!("{command}{TEXT}")).clients,
                Some(clients),
                "{command}"
            );
        }
        assert_eq!(row(&TEXT.replace(": h2", ": http/1.1")).clients, Some(50.0));
    }

    #[test]
    fn failures_beside_only_successes_are_reported() {
        assert!(row(TEXT).contradictions.is_empty());
        let breaches = row(&TEXT.replace("0 failed", "7 failed")).contradictions;
        assert_eq!(
            breaches,
            ["5000 succeeded and 7 failed of 5000 that were done"]
        );
    }
}
