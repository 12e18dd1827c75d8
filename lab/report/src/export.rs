//! A result for other programs: HDR histogram logs, and metrics for Prometheus. CSV is in `csv`, OTLP in `otlp`.

use std::fmt::Write;

use super::view::View;
use sluice_audit::evidence::Row;
use sluice_load::result::{Cell, FailureClass, Histogram, RunResult, heat_step_ns};

/// A histogram log (HdrHistogram, version 1.3): a line for each block with a histogram, with the cell as tag. Histograms
/// are in nanoseconds, maxima in milliseconds.
pub fn hlog(result: &RunResult) -> String {
    let start = result.started_unix_ms as f64 / 1e3;
    let mut out = format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {start:.3} (seconds since epoch)]\n#[BaseTime: {start:.3} (seconds since epoch)]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    );
    for cell in &result.cells {
        let tag = tag(cell);
        for block in &cell.blocks {
            let Some(hdr) = &block.load.latency.total.hdr else {
                continue;
            };
            let at = block.started_unix_ms.saturating_sub(result.started_unix_ms);
            let _ = writeln!(
                out,
                "Tag={tag},{:.3},{:.3},{:.3},{}",
                at as f64 / 1e3,
                block.load.window_s,
                hdr.max() as f64 / 1e6,
                hdr.encode()
            );
        }
    }
    out
}

/// The axes of a cell; tags have no commas, blanks and line breaks.
fn tag(cell: &Cell) -> String {
    let words = cell
        .axes
        .iter()
        .map(|(axis, value)| format!("{axis}={value}"));
    let words = words.collect::<Vec<String>>().join(";");
    words
        .chars()
        .map(|c| {
            if c == ',' || c.is_whitespace() {
                '_'
            } else {
                c
            }
        })
        .collect()
}

/// A gauge of each cell: name, help, figure of the row, factor to base units.
pub(crate) const GAUGES: [(&str, &str, &str, f64); 6] = [
    (
        "responses_per_second",
        "Successful responses per second, median over blocks",
        "goodput",
        1.0,
    ),
    (
        "failed_ratio",
        "Failed requests as a share of all, over all blocks",
        "errors",
        1.0,
    ),
    (
        "latency_max_seconds",
        "Longest latency of a successful response",
        "max",
        1e-3,
    ),
    (
        "latency_mean_seconds",
        "Mean latency of successful responses",
        "mean",
        1e-3,
    ),
    (
        "cpu_seconds_per_response",
        "CPU time of the server per successful response, median over blocks",
        "cpu_us",
        1e-6,
    ),
    (
        "memory_bytes",
        "Largest resident memory of the server, median over blocks",
        "rss_max",
        1_048_576.0,
    ),
];

/// Metrics in the text format of Prometheus, for a push gateway or a textfile collector. What was not measured is absent.
/// Latencies are a histogram, which adds up over machines and runs, as quantiles do not.
pub fn prometheus(result: &RunResult) -> String {
    let view = View::new(result);
    let mut out = String::new();
    for (name, help, figure, factor) in GAUGES {
        let lines: String = view
            .cells
            .iter()
            .filter_map(|seen| {
                let value = seen.row.figure(figure)? * factor;
                let labels = labels(result, seen.cell, &[]);
                Some(format!("sluice_lab_{name}{{{labels}}} {value}\n"))
            })
            .collect();
        family(&mut out, name, help, "gauge", &lines);
    }
    let quantiles = view
        .cells
        .iter()
        .flat_map(|seen| quantiles(result, seen.cell, &seen.row));
    let name = "latency_quantile_seconds";
    let help = "Latency of successful responses, from the histograms of all blocks";
    family(
        &mut out,
        name,
        help,
        "gauge",
        &quantiles.collect::<String>(),
    );
    let failures: String = view
        .cells
        .iter()
        .map(|seen| failures(result, seen.cell, &seen.row))
        .collect();
    let name = "failed_requests";
    family(
        &mut out,
        name,
        "Failed requests of all blocks by class",
        "gauge",
        &failures,
    );
    let histograms: String = view
        .cells
        .iter()
        .filter_map(|seen| Some(histogram(result, seen.cell, &seen.histogram()?)))
        .collect();
    let help = "Latency of successful responses of all blocks";
    family(&mut out, "latency_seconds", help, "histogram", &histograms);
    out
}

fn family(out: &mut String, name: &str, help: &str, kind: &str, lines: &str) {
    if !lines.is_empty() {
        let _ = write!(
            out,
            "# HELP sluice_lab_{name} {help}\n# TYPE sluice_lab_{name} {kind}\n{lines}"
        );
    }
}

fn quantiles(result: &RunResult, cell: &Cell, row: &Row) -> Vec<String> {
    let line = |(quantile, ms): &(f64, f64)| {
        let labels = labels(result, cell, &[("quantile", &quantile.to_string())]);
        format!(
            "sluice_lab_latency_quantile_seconds{{{labels}}} {}\n",
            ms / 1e3
        )
    };
    row.latency.quantiles.iter().map(line).collect()
}

/// Each class that occurred, and the sum over all, which is 0 without failures.
fn failures(result: &RunResult, cell: &Cell, row: &Row) -> String {
    let line = |class: &str, count: u64| {
        let labels = labels(result, cell, &[("class", class)]);
        format!("sluice_lab_failed_requests{{{labels}}} {count}\n")
    };
    let of_class = |(class, count): &(FailureClass, u64)| line(class.words(), *count);
    let all = row.failures.iter().map(|(_, count)| *count).sum();
    row.failures
        .iter()
        .map(of_class)
        .chain([line("all", all)])
        .collect()
}

/// Upper bounds in nanoseconds, two for each doubling from 1 us on as far as there are responses, and the responses up to each.
pub(crate) fn buckets(merged: &Histogram) -> Vec<(f64, u64)> {
    let mut steps = merged.steps().peekable();
    let (mut sum, mut at) = (0, 1);
    let mut buckets = Vec::new();
    while steps.peek().is_some() {
        let bound = heat_step_ns(at);
        while let Some((_, count)) = steps.next_if(|(ns, _)| *ns <= bound) {
            sum += count;
        }
        buckets.push((bound as f64, sum));
        at = at.saturating_add(1);
    }
    buckets
}

/// The buckets, sum and count of a cell.
fn histogram(result: &RunResult, cell: &Cell, merged: &Histogram) -> String {
    let mut out = String::new();
    let mut bucket = |le: &str, count: u64| {
        let labels = labels(result, cell, &[("le", le)]);
        let _ = writeln!(out, "sluice_lab_latency_seconds_bucket{{{labels}}} {count}");
    };
    for (bound, sum) in buckets(merged) {
        bucket(&(bound / 1e9).to_string(), sum);
    }
    bucket("+Inf", merged.count());
    let labels = labels(result, cell, &[]);
    let total = merged.mean() * merged.count() as f64 / 1e9;
    let _ = write!(
        out,
        "sluice_lab_latency_seconds_sum{{{labels}}} {total}\nsluice_lab_latency_seconds_count{{{labels}}} {}\n",
        merged.count()
    );
    out
}

/// The experiment, the axes of a cell, and `more`.
fn labels(result: &RunResult, cell: &Cell, more: &[(&str, &str)]) -> String {
    let name = |axis: &str| -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        axis.chars()
            .map(|c| if fits(c) { c } else { '_' })
            .collect()
    };
    let value = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n")
    };
    let axes = cell
        .axes
        .iter()
        .map(|(axis, text)| (axis.as_str(), text.as_str()));
    let all = [("experiment", result.name.as_str())]
        .into_iter()
        .chain(axes);
    let all = all.chain(more.iter().copied());
    let words = all.map(|(axis, text)| format!("{}=\"{}\"", name(axis), value(text)));
    words.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_histogram_log_has_each_block_in_the_interchange_format() {
        let mut result = example::result();
        result.cells.truncate(2);
        result.cells[0]
            .axes
            .insert("test".into(), "a test, with a comma".into());
        let log = hlog(&result);
        assert!(
            log.starts_with("#[Histogram log format version 1.3]\n#[StartTime: 1700000000.000 ")
        );
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with("Tag="))
            .collect();
        assert_eq!(lines.len(), 10);
        assert!(lines[0].starts_with("Tag=clients=10;subject=swift;test=a_test__with_a_comma,"));
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!((fields.len(), fields[2]), (5, "3.000"));
            // The beginning of every compressed histogram in base64.
            assert!(fields[4].starts_with("HISTFAAA"), "{}", fields[4]);
            let read = Histogram::decode(fields[4]).unwrap();
            let max: f64 = fields[3].parse().unwrap();
            assert!(read.count() == 4_000 && (read.max() as f64 / 1e6 - max).abs() < 0.01);
        }
    }

    #[test]
    fn metrics_are_those_of_the_cells_and_what_is_unknown_is_absent() {
        let mut result = example::result();
        result.cells.truncate(2);
        result.cells[0]
            .axes
            .insert("the test".into(), "a \"b\" \\".into());
        result.cells[1]
            .blocks
            .iter_mut()
            .for_each(|block| block.resources = None);
        let text = prometheus(&result);
        let place = "experiment=\"example\",clients=\"10\",subject=\"swift\",test=\"fixed\"";
        let odd = format!("{place},the_test=\"a \\\"b\\\" \\\\\"");
        for name in [
            "responses_per_second",
            "memory_bytes",
            "latency_seconds_count",
        ] {
            let line = format!("\nsluice_lab_{name}{{{odd}}} ");
            assert_eq!(text.matches(&line).count(), 1, "{line}");
        }
        // Only the first of both has costs.
        assert_eq!(
            text.matches("\nsluice_lab_cpu_seconds_per_response{")
                .count(),
            1
        );
        assert_eq!(text.matches("quantile=\"0.99\"").count(), 2);
        assert_eq!(text.matches("class=\"all\"} 0\n").count(), 2);
        // Buckets rise to the count.
        let of =
            |line: &&str| line.starts_with(&format!("sluice_lab_latency_seconds_bucket{{{odd},le"));
        let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        let buckets: Vec<u64> = text.lines().filter(of).map(count).collect();
        assert!(buckets.is_sorted() && buckets.len() > 4, "{buckets:?}");
        assert_eq!(buckets.last(), Some(&20_000));
    }
}
