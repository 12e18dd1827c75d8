//! The output of wrk and wrk2.

use super::units::{bytes, milliseconds, rate_breach, rounding};
use super::{after, number_after, parts};
use crate::evidence::{Latency, Remark, Row, Sheet};
use sluice_load::result::FailureClass;

/// Parses one or more outputs.
pub fn read(text: &str) -> Result<Sheet, String> {
    let outputs = parts(text, |line| {
        line.starts_with("Running ") && line.contains(" test @ ")
    });
    let mut sheet = Sheet {
        tool: "wrk".into(),
        ..Sheet::default()
    };
    sheet.conditions.failures_counted = Some(true);
    for lines in outputs {
        let row = row(&lines).ok_or("an output of wrk that ends before `Requests/sec:`")?;
        sheet.conditions.remarks.extend(socket_errors(&row));
        sheet.rows.push(row);
    }
    Ok(sheet)
}

fn row(lines: &[&str]) -> Option<Row> {
    let url = lines[0].split_once(" test @ ")?.1.trim();
    let shape = lines.iter().find(|line| line.contains("threads and"))?;
    let clients = shape.split_whitespace().nth(3)?.parse().ok();
    let total = lines.iter().find(|line| line.contains(" requests in "))?;
    let (responses, rest) = total.trim().split_once(" requests in ")?;
    let (seconds, read) = rest.split_once(',')?;
    let responses: f64 = responses.parse().ok()?;
    let failures = failures(lines);
    let wrong = number_after(lines, "Non-2xx or 3xx responses:").unwrap_or(0.0);
    let rate = number_after(lines, "Requests/sec:");
    // wrk2 has a fixed rate and prints that it calibrates its threads for it: it is not a closed loop, so no clients
    // wait.
    let open = lines
        .iter()
        .any(|line| line.contains("Thread calibration:"));
    Some(Row {
        name: url.to_string(),
        clients: clients.filter(|_| !open),
        offered: rate.filter(|_| open),
        contradictions: contradictions(lines, responses, (seconds, read), wrong),
        seconds: milliseconds(seconds).map(|ms| ms / 1000.0),
        responses: Some(responses),
        failed_share: Some(if responses > 0.0 {
            wrong / responses
        } else {
            0.0
        }),
        rate,
        response_bytes: bytes(read.trim().trim_end_matches(" read"))
            .map(|b| b / responses.max(1.0)),
        latency: latency(lines),
        failures,
        ..Row::default()
    })
    .filter(|row| row.rate.is_some())
}

/// Inconsistent figures: rates against counts, and failures against requests.
fn contradictions(
    lines: &[&str],
    responses: f64,
    (time, read): (&str, &str),
    wrong: f64,
) -> Vec<String> {
    let mut found = Vec::new();
    let read = read.trim().trim_end_matches(" read");
    let seconds = milliseconds(time).unwrap_or(0.0) / 1000.0;
    if let Some(rate) = number_after(lines, "Requests/sec:") {
        found.extend(rate_breach(
            "Requests/sec",
            rate,
            responses,
            seconds,
            rounding(time),
        ));
    }
    let transfer = after(lines, "Transfer/sec:").map(str::trim);
    if let Some((text, rate, count)) =
        transfer.and_then(|text| Some((text, bytes(text)?, bytes(read)?)))
    {
        let room = rounding(time) + rounding(read) + rounding(text);
        found.extend(rate_breach("Transfer/sec", rate, count, seconds, room));
    }
    if wrong > responses {
        found.push(format!("{wrong} of {responses} responses failed"));
    }
    found
}

fn latency(lines: &[&str]) -> Latency {
    let summary = after(lines, "Latency   ").or_else(|| {
        let lines = lines.iter().filter(|line| !line.contains("Distribution"));
        lines
            .filter_map(|line| line.trim().strip_prefix("Latency "))
            .next()
    });
    let words: Vec<&str> = summary.unwrap_or("").split_whitespace().collect();
    let word = |at: usize| words.get(at).and_then(|word| milliseconds(word));
    let quantile = |line: &&str| {
        let (percent, value) = line.trim().split_once('%')?;
        let percent: f64 = percent.trim().parse().ok()?;
        Some((percent / 100.0, milliseconds(value)?))
    };
    Latency {
        rounding: 0.0,
        min: None,
        mean: word(0),
        deviation: word(1),
        max: word(2),
        quantiles: lines
            .iter()
            .filter_map(quantile)
            .filter(|(q, _)| *q < 1.0)
            .collect(),
    }
}

/// wrk counts these separately from its requests; it counts unexpected statuses among them.
fn failures(lines: &[&str]) -> Vec<(FailureClass, u64)> {
    let mut found = Vec::new();
    let named = [
        ("connect", FailureClass::Refused),
        ("read", FailureClass::Reset),
        ("write", FailureClass::Write),
        ("timeout", FailureClass::HeadTimeout),
    ];
    let errors = after(lines, "Socket errors:").unwrap_or("");
    for part in errors.split(',') {
        let mut words = part.split_whitespace();
        let class = words
            .next()
            .and_then(|name| named.iter().find(|(known, _)| *known == name));
        let count = words
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        if let Some((_, class)) = class.filter(|_| count > 0) {
            found.push((*class, count));
        }
    }
    let wrong = number_after(lines, "Non-2xx or 3xx responses:").unwrap_or(0.0);
    if wrong > 0.0 {
        found.push((FailureClass::Status, wrong as u64));
    }
    found
}

fn socket_errors(row: &Row) -> Option<Remark> {
    let sockets = row
        .failures
        .iter()
        .filter(|(class, _)| *class != FailureClass::Status);
    let said: Vec<String> = sockets
        .map(|(class, count)| format!("{} {count}", class_word(*class)))
        .collect();
    (!said.is_empty()).then(|| Remark {
        rule: "A4".into(),
        title: format!("{}: socket errors are listed beside the figures ({})", row.name, said.join(", ")),
        words: "wrk excludes them from its requests and latencies, so both look better than what clients saw. A request \
                that timed out is counted, and may be counted again if its response arrives later."
            .into(),
        rows: Default::default(),
    })
}

fn class_word(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Refused => "connect",
        FailureClass::Reset => "read",
        FailureClass::Write => "write",
        _ => "timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Running 30s test @ http://127.0.0.1/\n  2 threads and 50 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.00ms    1.48ms  12.29ms   85.32%\n  1500000 requests in 30.03s, 429.15MB read\nRequests/sec:  49950.05\nTransfer/sec:     14.29MB\n";

    fn contradictions(text: &str) -> String {
        read(text).unwrap().rows[0].contradictions.join("; ")
    }

    #[test]
    fn rates_that_contradict_the_counts_are_reported() {
        assert_eq!(contradictions(TEXT), "");
        let rate = contradictions(&TEXT.replace("49950.05", "51450.05"));
        assert!(
            rate.starts_with("Requests/sec is printed as 51,450"),
            "{rate}"
        );
        let transfer = contradictions(&TEXT.replace("14.29MB", "17.29MB"));
        assert!(
            transfer.starts_with("Transfer/sec is printed"),
            "{transfer}"
        );
        let wrong = TEXT.replace(
            "Requests/sec",
            "  Non-2xx or 3xx responses: 1600000\nRequests/sec",
        );
        assert!(contradictions(&wrong).contains("responses failed"));
    }

    #[test]
    fn a_fixed_rate_is_not_a_closed_loop() {
        let text = TEXT.replace(
            "  Thread Stats",
            "  Thread calibration: mean lat.: 1.0ms, rate sampling interval: 10ms\n  Thread Stats",
        );
        let row = read(&text).unwrap().rows.remove(0);
        assert_eq!((row.clients, row.offered), (None, Some(49_950.05)));
    }
}
