//! A pasted table: Markdown or CSV with a header line. Headings are recognized by their words; an unknown column
//! becomes a dimension. A line such as `200 Clients` above a table sets the clients of its rows.

use super::units::plain;
use crate::evidence::{Row, Sheet};

/// The meaning of a column.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    Name,
    Clients,
    Seconds,
    Min(f64),
    Mean(f64),
    Deviation(f64),
    Max(f64),
    Quantile(f64, f64),
    Requests,
    Rate,
    Errors,
    Bytes,
    Cpu,
    Memory,
    Dimension(String),
}

/// Whether a text has a header line that this parser understands.
pub fn has_table(text: &str) -> bool {
    text.lines().any(|line| headings(line).is_some())
}

/// Parses all tables of a text.
pub fn read(text: &str) -> Result<Sheet, String> {
    let mut sheet = Sheet::default();
    let mut columns: Option<Vec<Column>> = None;
    let mut clients = None;
    let mut first = 0;
    for line in text.lines() {
        if let Some(found) = headings(line) {
            settle_errors(&mut sheet.rows[first..]);
            first = sheet.rows.len();
            columns = Some(found);
        } else if let Some(count) = clients_heading(line) {
            clients = Some(count);
        } else if let Some(columns) = &columns
            && let Some(row) = row(columns, &cells(line), clients)
        {
            sheet.rows.push(row);
        }
    }
    settle_errors(&mut sheet.rows[first..]);
    match sheet.rows.is_empty() {
        true => Err("a table without rows".into()),
        false => Ok(sheet),
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let separator = if line.contains('|') { '|' } else { ',' };
    let inside = match separator {
        '|' => line.trim_matches('|'),
        _ => line,
    };
    let cell = |cell: &str| cell.trim().trim_matches(['*', '`', '"']).trim().to_string();
    inside.split(separator).map(cell).collect()
}

/// The columns of a header line: at least two of them must be figures.
fn headings(line: &str) -> Option<Vec<Column>> {
    let cells = cells(line);
    let columns: Vec<Column> = cells
        .iter()
        .enumerate()
        .map(|(at, cell)| column(cell, at))
        .collect();
    let is_figure = |column: &&Column| {
        !matches!(
            column,
            Column::Name | Column::Dimension(_) | Column::Clients
        )
    };
    (columns.iter().filter(is_figure).count() >= 2).then_some(columns)
}

fn column(cell: &str, at: usize) -> Column {
    let lower = cell.to_lowercase();
    let scale = unit(&lower);
    let word = lower.split(['(', '[']).next().unwrap_or("").trim();
    let word = word
        .trim_end_matches(" ms")
        .trim_end_matches(" latency")
        .trim_start_matches("latency ");
    let percentile = word
        .strip_prefix('p')
        .or_else(|| word.strip_suffix('%'))
        .or_else(|| word.strip_suffix("th"));
    if let Some(percent) = percentile.and_then(|digits| digits.trim().parse::<f64>().ok()) {
        return Column::Quantile(percent / 100.0, scale);
    }
    match word {
        "test" | "name" | "configuration" | "row" | "server" | "cell" if at == 0 => Column::Name,
        "clients" | "connections" | "concurrency" | "vus" | "c" => Column::Clients,
        "seconds" | "duration" => Column::Seconds,
        "min" | "minimum" | "fastest" => Column::Min(scale),
        "median" | "med" => Column::Quantile(0.5, scale),
        "average" | "avg" | "mean" | "latency" => Column::Mean(scale),
        "stdev" | "sd" | "std dev" => Column::Deviation(scale),
        "max" | "maximum" | "slowest" => Column::Max(scale),
        "requests" | "count" | "total requests" | "reqs" => Column::Requests,
        "requests/sec" | "req/s" | "requests/s" | "rps" | "req/sec" | "throughput" => Column::Rate,
        "errors" | "error" | "failed" | "failures" | "errors%" | "errors %" | "error rate" => {
            Column::Errors
        }
        "bytes" | "size" => Column::Bytes,
        "cpu" | "cpu %" | "cpu%" => Column::Cpu,
        "memory" | "rss" | "mem" => Column::Memory,
        _ if at == 0 => Column::Name,
        _ => Column::Dimension(word.to_string()),
    }
}

/// Milliseconds in one of the heading's unit; the default is milliseconds.
fn unit(heading: &str) -> f64 {
    let inside = heading.split(['(', '[']).nth(1).unwrap_or("");
    match inside.trim_end_matches([')', ']']).trim() {
        "s" | "secs" | "seconds" => 1000.0,
        "us" | "µs" | "μs" => 0.001,
        _ => 1.0,
    }
}

/// `200 Clients`, `## 1,000 clients`
fn clients_heading(line: &str) -> Option<f64> {
    let words: Vec<&str> = line
        .trim_start_matches(['#', ' '])
        .split_whitespace()
        .collect();
    let [number, noun] = words[..] else {
        return None;
    };
    let noun = noun.trim_end_matches([':', '.']).to_lowercase();
    ["clients", "connections", "users"]
        .contains(&noun.as_str())
        .then(|| plain(number))?
}

fn row(columns: &[Column], cells: &[String], clients: Option<f64>) -> Option<Row> {
    // The line of dashes below the headings, prose, and empty lines.
    if cells.len() != columns.len()
        || cells
            .iter()
            .all(|cell| cell.chars().all(|c| "-: ".contains(c)))
    {
        return None;
    }
    let mut row = Row {
        clients,
        ..Row::default()
    };
    for (column, cell) in columns.iter().zip(cells) {
        let number = plain(cell);
        let scaled = |scale: &f64| number.map(|n| n * scale);
        match column {
            Column::Name => row.name.clone_from(cell),
            Column::Clients => row.clients = number,
            Column::Seconds => row.seconds = number,
            Column::Min(scale) => row.latency.min = scaled(scale),
            Column::Mean(scale) => {
                row.latency.mean = scaled(scale);
                row.latency.rounding = half_unit(cell) * scale;
            }
            Column::Deviation(scale) => row.latency.deviation = scaled(scale),
            Column::Max(scale) => row.latency.max = scaled(scale),
            Column::Quantile(q, scale) => {
                row.latency.quantiles.extend(scaled(scale).map(|v| (*q, v)))
            }
            Column::Requests => row.responses = number,
            Column::Rate => row.rate = number,
            Column::Errors => {
                // Whether these are counts or per cent is decided once the whole column is known.
                row.failed_share = number;
                let percent = cell.contains('.') || cell.contains('%');
                row.marks.extend(percent.then(|| PERCENT.to_string()));
            }
            Column::Bytes => row.declared_bytes = number,
            Column::Cpu => row.cpu_percent_max = number,
            Column::Memory => row.rss_mib_max = number,
            Column::Dimension(dim) => {
                row.dims.insert(dim.clone(), cell.clone());
            }
        }
    }
    if let Some(clients) = row.clients {
        row.dims.insert("clients".into(), format!("{clients}"));
    }
    row.latency
        .quantiles
        .sort_by(|one, other| one.0.total_cmp(&other.0));
    Some(row)
}

/// Half a unit of the last digit: 0.005 for `0.22`.
fn half_unit(cell: &str) -> f64 {
    let digits = cell.split_once('.').map_or(0, |(_, fraction)| {
        fraction.chars().filter(char::is_ascii_digit).count()
    });
    0.5 * 10_f64.powi(-i32::try_from(digits).unwrap_or(0))
}

/// A marker for `settle_errors`, which removes it.
const PERCENT: &str = "errors in per cent";

/// A column of errors is in per cent if any value has a decimal point or `%`, else it has counts.
fn settle_errors(rows: &mut [Row]) {
    let percent = rows
        .iter()
        .any(|row| row.marks.iter().any(|mark| mark == PERCENT));
    for row in rows {
        row.marks.retain(|mark| mark != PERCENT);
        row.failed_share = match (row.failed_share, percent, row.responses) {
            (Some(value), true, _) => Some(value / 100.0),
            (Some(0.0), false, _) => Some(0.0),
            (Some(value), false, Some(responses)) if responses > 0.0 => Some(value / responses),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_different_shapes_are_read() {
        let text = "## 1,000 Clients\n\
            test | min | median | average | p90 | p95 | max | requests | errors |\n\
            ---|---|---|---|---|---|---|---|---|\n\
            a-b-c | 0.00 | 0.76 | 6.62 | 17.27 | 31.72 | 292.06 | 344427 | 97.38 |\n\
            a-b-d | 0.28 | 28.28 | 34.30 | 43.66 | 92.14 | 225.71 | 825893 | 0.00 |\n";
        let sheet = read(text).unwrap();
        assert_eq!(sheet.rows.len(), 2);
        let row = &sheet.rows[0];
        assert_eq!(
            (row.clients, row.responses),
            (Some(1000.0), Some(344_427.0))
        );
        assert!((row.failed_share.unwrap() - 0.9738).abs() < 1e-9);
        assert_eq!(row.latency.quantile(0.95), Some(31.72));
        let text = "| Configuration | Requests/sec | Avg Latency (ms) | P99 Latency (ms) |\n|---|---|---|---|\n| Flask | 1,759 | 56.68 | 72.67 |\n";
        let row = &read(text).unwrap().rows[0];
        assert_eq!((row.rate, row.latency.mean), (Some(1759.0), Some(56.68)));
        assert_eq!(row.latency.quantile(0.99), Some(72.67));
        let row = &read("name,rps,mean (us),errors,requests\nx,10,500,5,100\n")
            .unwrap()
            .rows[0];
        assert_eq!(
            (row.latency.mean, row.failed_share),
            (Some(0.5), Some(0.05))
        );
    }

    #[test]
    fn other_texts_are_not_tables() {
        assert!(!has_table("This is prose, with commas, and | bars |"));
        assert!(!has_table("| a | b |\n|---|---|\n| 1 | 2 |"));
        assert!(read("test | min | max |\n---|---|---|\n").is_err());
    }
}
