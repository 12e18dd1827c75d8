//! Parses outputs of other tools and pasted tables into evidence. What a text does not contain stays absent; `Hints`
//! add what the user knows. One text may hold several outputs of the same tool: each is a row.

mod ab;
mod csv;
mod h2load;
mod hey;
mod k6;
mod oha;
mod rpc_bench;
mod table;
pub mod units;
mod vegeta;
mod wrk;

use crate::evidence::Sheet;
use sluice_load::result::FailureClass;

/// Facts about a text supplied by the user.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Length of the window in seconds.
    pub seconds: Option<f64>,
    /// Clients of a closed loop.
    pub clients: Option<f64>,
    /// Bytes of one response.
    pub bytes: Option<f64>,
}

/// A supported text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `ab`
    Ab,
    /// `h2load`
    H2load,
    /// `h2load --log-file`
    H2loadLog,
    /// `hey`, formerly `boom`
    Hey,
    /// `hey -o csv`
    HeyCsv,
    /// `k6 run --summary-export` or the data of `handleSummary`
    K6,
    /// `oha --output-format json`
    Oha,
    /// `rpc-bench`
    RpcBench,
    /// A table in Markdown or CSV with a header line
    Table,
    /// `vegeta report -type=json`
    Vegeta,
    /// `wrk` or `wrk2`
    Wrk,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 11] = [
        Format::Ab,
        Format::H2load,
        Format::H2loadLog,
        Format::Hey,
        Format::HeyCsv,
        Format::K6,
        Format::Oha,
        Format::RpcBench,
        Format::Table,
        Format::Vegeta,
        Format::Wrk,
    ];

    /// Its name on the command line and in study files.
    pub fn name(self) -> &'static str {
        match self {
            Format::Ab => "ab",
            Format::H2load => "h2load",
            Format::H2loadLog => "h2load-log",
            Format::Hey => "hey",
            Format::HeyCsv => "hey-csv",
            Format::K6 => "k6",
            Format::Oha => "oha",
            Format::RpcBench => "rpc-bench",
            Format::Table => "table",
            Format::Vegeta => "vegeta",
            Format::Wrk => "wrk",
        }
    }

    /// The format with that name.
    pub fn of_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Detects the format of a text.
    pub fn detect(text: &str) -> Option<Format> {
        let has = |part: &str| text.contains(part);
        if text.trim_start().starts_with('{') {
            let found = [
                ("\"http_req_duration\"", Format::K6),
                ("\"latencyPercentiles\"", Format::Oha),
                ("\"bytes_in\"", Format::Vegeta),
            ];
            return found
                .into_iter()
                .find(|(mark, _)| has(mark))
                .map(|(_, format)| format);
        }
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        let known = [
            (has("test @ ") && has("threads and"), Format::Wrk),
            (has("Complete requests:"), Format::Ab),
            (has("finished in ") && has("succeeded,"), Format::H2load),
            (has("Slowest:") && has("Requests/sec:"), Format::Hey),
            (has("Num Queries:"), Format::RpcBench),
            (first.starts_with("response-time,"), Format::HeyCsv),
            (csv::is_h2load_log(first), Format::H2loadLog),
            (table::has_table(text), Format::Table),
        ];
        known
            .into_iter()
            .find(|(holds, _)| *holds)
            .map(|(_, format)| format)
    }
}

/// Parses a text in a given or detected format. The error is a message for the user and names what is missing.
pub fn read(text: &str, format: Option<Format>, hints: &Hints) -> Result<Sheet, String> {
    let Some(format) = format.or_else(|| Format::detect(text)) else {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        return Err(format!(
            "unknown format: expected a result of `sluice-lab`, {}",
            names.join(", ")
        ));
    };
    let mut sheet = match format {
        Format::Ab => ab::read(text)?,
        Format::H2load => h2load::read(text)?,
        Format::H2loadLog => csv::read_h2load_log(text)?,
        Format::Hey => hey::read(text)?,
        Format::HeyCsv => csv::read_hey(text)?,
        Format::K6 => k6::read(text)?,
        Format::Oha => oha::read(text)?,
        Format::RpcBench => rpc_bench::read(text)?,
        Format::Table => table::read(text)?,
        Format::Vegeta => vegeta::read(text)?,
        Format::Wrk => wrk::read(text)?,
    };
    for row in &mut sheet.rows {
        row.seconds = row.seconds.or(hints.seconds);
        row.clients = row
            .clients
            .or(hints.clients.filter(|_| row.offered.is_none()));
        row.declared_bytes = row.declared_bytes.or(hints.bytes);
    }
    Ok(sheet)
}

/// Splits a text before each line for which `begins` holds; what precedes the first is dropped.
fn parts(text: &str, begins: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        if begins(line) {
            found.push(Vec::new());
        }
        if let Some(part) = found.last_mut() {
            part.push(line);
        }
    }
    found
}

/// The text after a label at the beginning of a line.
fn after<'a>(lines: &[&'a str], label: &str) -> Option<&'a str> {
    let mut found = lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix(label));
    found.next().map(str::trim)
}

/// The first number after a label.
fn number_after(lines: &[&str], label: &str) -> Option<f64> {
    let word = after(lines, label)?.split_whitespace().next()?;
    word.trim_end_matches([',', ']'])
        .replace(',', "")
        .parse()
        .ok()
}

/// The classes that occurred at least once.
fn those_seen(classes: impl IntoIterator<Item = (FailureClass, f64)>) -> Vec<(FailureClass, u64)> {
    let seen = classes.into_iter().filter(|(_, number)| *number > 0.0);
    seen.map(|(class, number)| (class, number as u64)).collect()
}
