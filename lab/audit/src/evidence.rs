//! What a report says about itself, in one shape whatever tool or table it comes from: rows with figures, and the conditions
//! they were taken under. A figure that was not printed is absent, never 0.

use std::collections::BTreeMap;

use sluice_load::result::FailureClass;

/// One report: a table, the outputs of a tool, a study or a result of our own.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// What it is called: a file name or a study's title.
    pub title: String,
    /// The tool whose figures these are: `wrk`, `k6`, `sluice-lab`; empty when unknown.
    pub tool: String,
    /// The measured cells.
    pub rows: Vec<Row>,
    /// What is known beside the figures.
    pub conditions: Conditions,
}

/// One cell: a subject under one load.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// As printed.
    pub name: String,
    /// What tells it from other rows: `subject`, `config`, `test`, `clients`, `variant` and what else a table names.
    pub dims: BTreeMap<String, String>,
    /// Requests that are under way at a time in a closed loop: clients or connections.
    pub clients: Option<f64>,
    /// Requests per second that an open loop sends; absent in a closed loop.
    pub offered: Option<f64>,
    /// Length of the measured window in seconds.
    pub seconds: Option<f64>,
    /// Answers that the tool counted; whether failures are among them says `conditions.failures_counted`.
    pub answers: Option<f64>,
    /// Failures as a share of the answers, 0 to 1.
    pub failed_share: Option<f64>,
    /// Requests per second as printed.
    pub rate: Option<f64>,
    /// Bytes of one answer, on the wire or of the body: whichever the tool counts.
    pub answer_bytes: Option<f64>,
    /// How far `answer_bytes` may be off by rounding in print, as a share.
    pub bytes_room: f64,
    /// Bytes of one answer as an author declares them, when the tool counts none.
    pub declared_bytes: Option<f64>,
    /// Latency in milliseconds.
    pub latency: Latency,
    /// Largest processor use in percent of one core.
    pub cpu_percent_max: Option<f64>,
    /// Processor time in microseconds for one good answer.
    pub cpu_us: Option<f64>,
    /// Largest resident memory in MiB.
    pub rss_mib_max: Option<f64>,
    /// Processor use of the generator as a share of its cores, 0 to 1.
    pub generator_share: Option<f64>,
    /// Connections opened to the upstream for one proxied answer.
    pub upstream_dials: Option<f64>,
    /// The same cell in each block, for those who repeat. Empty otherwise.
    pub blocks: Vec<Row>,
    /// Failures by class, where the tool tells them apart.
    pub failures: Vec<(FailureClass, u64)>,
    /// Warnings that the measuring program itself raised, as sentences.
    pub marks: Vec<String>,
    /// Figures within the text that cannot both be true, as sentences.
    pub contradictions: Vec<String>,
    /// Why the row decides nothing about a claim: it is another load than its name says, or rests on too few quiet blocks.
    pub no_verdict: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Half a unit of the last digit in print: how far the mean may be off by rounding alone. 0 where many digits are told.
    pub rounding: f64,
    /// Smallest.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub deviation: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Quantiles (`0.5` is the median) in rising order, with their values.
    pub quantiles: Vec<(f64, f64)>,
}

impl Latency {
    /// The value of a quantile that was printed.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let same = |(q, _): &&(f64, f64)| (q - quantile).abs() < 1e-9;
        self.quantiles.iter().find(same).map(|(_, value)| *value)
    }
}

/// What is known about a report beside its figures.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Whether failures are among the answers and in the latencies; unknown when absent.
    pub failures_counted: Option<bool>,
    /// Runs of each cell; unknown when absent.
    pub runs: Option<u32>,
    /// Whether any interval or spread over runs is printed.
    pub spread: bool,
    /// Whether percentiles are means of percentiles of several runs.
    pub percentiles_averaged: bool,
    /// What the network between generator and subject carries, bit/s.
    pub network_bits: Option<f64>,
    /// What the generator reaches against a null server, requests/s.
    pub generator_rate: Option<f64>,
    /// Limits by configuration.
    pub ceilings: Vec<Ceiling>,
    /// Options that the report claims.
    pub treatments: Vec<Treatment>,
    /// Known differences in the work that subjects do.
    pub unequal: Vec<Remark>,
    /// Things known about the report that no figure shows.
    pub remarks: Vec<Remark>,
    /// Sentences of the report with what they mean in numbers.
    pub claims: Vec<Claim>,
}

/// A limit that somebody's configuration sets.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// The rows that it concerns: those whose dimensions have all these values.
    pub rows: BTreeMap<String, String>,
    /// Connections that it allows.
    pub connections: f64,
    /// Rows for which one client takes two of them, for it is proxied. None when empty.
    pub twice: BTreeMap<String, String>,
    /// The setting in words.
    pub words: String,
}

/// An option that a report says was on.
#[derive(Clone, Debug)]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// What shows that it acted; absent when nothing does.
    pub evidence: Option<String>,
    /// What is known about it.
    pub words: String,
}

/// A fact with the rule it belongs to.
#[derive(Clone, Debug)]
pub struct Remark {
    /// The rule: `A6`.
    pub rule: String,
    /// One sentence for a heading.
    pub title: String,
    /// The fact.
    pub words: String,
    /// The rows that it concerns; all when empty.
    pub rows: BTreeMap<String, String>,
}

/// A sentence of a report.
#[derive(Clone, Debug)]
pub struct Claim {
    /// A short name.
    pub name: String,
    /// The statement, in our words.
    pub says: String,
    /// What must be true of the figures (`claim::parse`); absent when no figure of the report can tell.
    pub means: Option<String>,
    /// What the figures say instead, where that needs words.
    pub words: Option<String>,
    /// Whether a document says it that is tested here on other machines: then it is confirmed or contradicted.
    pub tested: bool,
}

impl Row {
    /// Whether all of `wanted` hold for this row. A dimension that it lacks counts as empty.
    pub fn matches(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(dim, value)| self.dim(dim) == value)
    }

    /// How messages call the row: its name, and the clients where the name does not tell them.
    pub fn label(&self) -> String {
        match self.dims.get("clients") {
            Some(clients) if !self.name.contains(clients.as_str()) => {
                format!("{} at {clients} clients", self.name)
            }
            _ => self.name.clone(),
        }
    }

    /// A dimension, or nothing.
    pub fn dim(&self, name: &str) -> &str {
        self.dims.get(name).map_or("", String::as_str)
    }

    /// Answers per second, from count and window where both are known, else as printed.
    pub fn rate_counted(&self) -> Option<f64> {
        match (self.answers, self.seconds) {
            (Some(answers), Some(seconds)) if seconds > 0.0 => Some(answers / seconds),
            _ => self.rate,
        }
    }

    /// Answers without failure per second.
    pub fn goodput(&self) -> Option<f64> {
        Some(self.rate_counted()? * (1.0 - self.failed_share.unwrap_or(0.0)))
    }

    /// Whether nothing failed, as far as is known.
    pub fn is_clean(&self) -> bool {
        self.failed_share.unwrap_or(0.0) == 0.0
    }

    /// Bytes of one answer, counted or else declared.
    pub fn bytes(&self) -> Option<f64> {
        self.answer_bytes.or(self.declared_bytes)
    }

    /// A figure by the name that claims and tables use: `rate`, `goodput`, `requests`, `errors` (share), `min`, `median`,
    /// `mean`, `stdev`, `p90` …, `max` (ms), `cpu_max` (percent of a core), `cpu_us`, `rss_max` (MiB), `bytes`.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "rate" | "rps" => self.rate.or_else(|| self.rate_counted()),
            "goodput" => self.goodput(),
            "requests" => self.answers,
            "errors" => self.failed_share,
            "min" => self.latency.min,
            "median" => self.latency.quantile(0.5),
            "mean" | "average" => self.latency.mean,
            "stdev" => self.latency.deviation,
            "max" => self.latency.max,
            "cpu_max" => self.cpu_percent_max,
            "cpu_us" => self.cpu_us,
            "rss_max" => self.rss_mib_max,
            "bytes" => self.bytes(),
            _ => {
                let digits = name.strip_prefix('p')?;
                let percent: f64 = digits.parse().ok()?;
                self.latency.quantile(percent / 100.0)
            }
        }
    }
}

/// The names that `Row::figure` knows, for messages.
pub const FIGURES: &str = "rate, goodput, requests, errors, min, median, mean, stdev, p90 (any percentile), max, cpu_max, cpu_us, rss_max, bytes";

/// Whether `name` is a figure that rows can have.
pub fn is_figure(name: &str) -> bool {
    let is_percentile = |digits: &str| digits.parse::<f64>().is_ok_and(|p| p > 0.0 && p < 100.0);
    name == "rps"
        || name == "average"
        || FIGURES.split(", ").any(|known| known == name)
        || name.strip_prefix('p').is_some_and(is_percentile)
}
