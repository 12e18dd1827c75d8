//! The contents of a report in a common form, whatever tool or table it comes from: rows with figures, and the
//! conditions under which they were measured. A figure that was not printed is absent, never 0.

use std::collections::BTreeMap;

use sluice_load::result::FailureClass;

/// One report: a table, the output of a tool, a study or a result of the lab.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Its title: a file name or the title of a study.
    pub title: String,
    /// The tool that measured the figures: `wrk`, `k6`, `sluice-lab`; empty if unknown.
    pub tool: String,
    /// The measured cells.
    pub rows: Vec<Row>,
    /// What is known apart from the figures.
    pub conditions: Conditions,
}

/// One cell: a subject under one load.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// As printed.
    pub name: String,
    /// Dimensions that distinguish rows: `subject`, `config`, `test`, `clients`, `variant` and whatever else a table
    /// has.
    pub dims: BTreeMap<String, String>,
    /// Concurrent requests in a closed loop: clients or connections.
    pub clients: Option<f64>,
    /// Requests per second sent by an open loop; absent in a closed loop.
    pub offered: Option<f64>,
    /// Length of the measured window in seconds.
    pub seconds: Option<f64>,
    /// Responses that the tool counted; `conditions.failures_counted` says whether they include failures.
    pub responses: Option<f64>,
    /// Failures as a share of the responses, 0 to 1.
    pub failed_share: Option<f64>,
    /// Requests per second as printed.
    pub rate: Option<f64>,
    /// Bytes of one response, on the wire or of the body, whichever the tool counts.
    pub response_bytes: Option<f64>,
    /// Possible relative error of `response_bytes` due to rounding in print.
    pub bytes_room: f64,
    /// Bytes of one response as declared by an author, if the tool does not count them.
    pub declared_bytes: Option<f64>,
    /// Latency in milliseconds.
    pub latency: Latency,
    /// Peak CPU usage in percent of one core.
    pub cpu_percent_max: Option<f64>,
    /// CPU time in microseconds per successful request.
    pub cpu_us: Option<f64>,
    /// Resolution of `cpu_us` by the clock it was read from; `None` if unknown.
    pub cpu_us_step: Option<f64>,
    /// Peak resident memory in MiB.
    pub rss_mib_max: Option<f64>,
    /// CPU usage of the generator as a share of its cores, 0 to 1.
    pub generator_share: Option<f64>,
    /// Upstream connections opened per proxied response.
    pub upstream_dials: Option<f64>,
    /// The same cell in each block, if there are repetitions.
    pub blocks: Vec<Row>,
    /// Failures by class, if the tool distinguishes them.
    pub failures: Vec<(FailureClass, u64)>,
    /// Warnings of the load generator, as sentences.
    pub marks: Vec<String>,
    /// Figures within the text that cannot both be true, as sentences.
    pub contradictions: Vec<String>,
    /// Why the row cannot decide claims: its load differs from its label, or it has too few undisturbed blocks.
    pub no_verdict: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Half a unit of the last printed digit: the possible error of the mean due to rounding. 0 if many digits are
    /// known.
    pub rounding: f64,
    /// Minimum.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub deviation: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
    /// Quantiles (`0.5` is the median) in ascending order, with their values.
    pub quantiles: Vec<(f64, f64)>,
}

impl Latency {
    /// The value of a quantile, if it was printed.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let same = |(q, _): &&(f64, f64)| (q - quantile).abs() < 1e-9;
        self.quantiles.iter().find(same).map(|(_, value)| *value)
    }
}

/// What is known about a report apart from its figures.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Whether responses and latencies include failures; `None` if unknown.
    pub failures_counted: Option<bool>,
    /// Runs of each cell; `None` if unknown.
    pub runs: Option<u32>,
    /// Whether any interval or spread over runs is printed.
    pub spread: bool,
    /// Whether percentiles are means of percentiles of several runs.
    pub percentiles_averaged: bool,
    /// Capacity of the network between generator and subject, bit/s.
    pub network_bits: Option<f64>,
    /// Throughput of the generator against a null server, requests/s.
    pub generator_rate: Option<f64>,
    /// Limits set by configurations.
    pub ceilings: Vec<Ceiling>,
    /// Options that the report claims.
    pub treatments: Vec<Treatment>,
    /// Known differences in the work of the subjects.
    pub unequal: Vec<Remark>,
    /// Known facts about the report that no figure shows.
    pub remarks: Vec<Remark>,
    /// Claims of the report with their formal meaning.
    pub claims: Vec<Claim>,
}

/// A limit set by a configuration.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// The rows that it applies to: those whose dimensions have all these values.
    pub rows: BTreeMap<String, String>,
    /// The connection limit.
    pub connections: f64,
    /// Rows for which one client needs two connections, because it is proxied. If empty, none.
    pub twice: BTreeMap<String, String>,
    /// The setting as text.
    pub words: String,
}

/// An option that a report claims to have enabled.
#[derive(Clone, Debug)]
pub struct Treatment {
    /// Its name.
    pub name: String,
    /// Evidence that it took effect; `None` if there is none.
    pub evidence: Option<String>,
    /// What is known about it.
    pub words: String,
}

/// A fact with the rule it belongs to.
#[derive(Clone, Debug)]
pub struct Remark {
    /// The rule: `A6`.
    pub rule: String,
    /// A title in one sentence.
    pub title: String,
    /// The fact.
    pub words: String,
    /// The rows that it applies to; all if empty.
    pub rows: BTreeMap<String, String>,
}

/// A claim of a report.
#[derive(Clone, Debug)]
pub struct Claim {
    /// A short name.
    pub name: String,
    /// The claim, paraphrased.
    pub says: String,
    /// What must be true of the figures (`claim::parse`); `None` if no figure of the report can decide it.
    pub means: Option<String>,
    /// What the figures say instead, if that needs an explanation.
    pub words: Option<String>,
    /// Whether this tests a claim made about other machines: then it is confirmed or contradicted.
    pub tested: bool,
}

impl Row {
    /// Whether the row has all `wanted` values. A dimension that it lacks counts as empty.
    pub fn matches(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(dim, value)| self.dim(dim) == value)
    }

    /// The name of the row in messages: its name, and the clients if the name does not include them.
    pub fn label(&self) -> String {
        match self.dims.get("clients") {
            Some(clients) if !self.name.contains(clients.as_str()) => {
                format!("{} at {clients} clients", self.name)
            }
            _ => self.name.clone(),
        }
    }

    /// The value of a dimension, or an empty string.
    pub fn dim(&self, name: &str) -> &str {
        self.dims.get(name).map_or("", String::as_str)
    }

    /// Responses per second: count by window if both are known, else as printed.
    pub fn rate_counted(&self) -> Option<f64> {
        match (self.responses, self.seconds) {
            (Some(responses), Some(seconds)) if seconds > 0.0 => Some(responses / seconds),
            _ => self.rate,
        }
    }

    /// Successful responses per second.
    pub fn goodput(&self) -> Option<f64> {
        Some(self.rate_counted()? * (1.0 - self.failed_share.unwrap_or(0.0)))
    }

    /// Whether nothing failed, as far as known.
    pub fn is_clean(&self) -> bool {
        self.failed_share.unwrap_or(0.0) == 0.0
    }

    /// Bytes of one response, counted or else declared.
    pub fn bytes(&self) -> Option<f64> {
        self.response_bytes.or(self.declared_bytes)
    }

    /// A figure by its name in claims and tables: `rate`, `goodput`, `requests`, `errors` (share), `min`, `median`,
    /// `mean`, `stdev`, `p90` …, `max` (ms), `cpu_max` (percent of a core), `cpu_us`, `rss_max` (MiB), `bytes`.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "rate" | "rps" => self.rate.or_else(|| self.rate_counted()),
            "goodput" => self.goodput(),
            "requests" => self.responses,
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

/// The names that `Row::figure` accepts, for messages.
pub const FIGURES: &str = "rate, goodput, requests, errors, min, median, mean, stdev, p90 (any percentile), max, cpu_max, cpu_us, rss_max, bytes";

/// Whether `name` is a figure that rows can have.
pub fn is_figure(name: &str) -> bool {
    let is_percentile = |digits: &str| digits.parse::<f64>().is_ok_and(|p| p > 0.0 && p < 100.0);
    name == "rps"
        || name == "average"
        || FIGURES.split(", ").any(|known| known == name)
        || name.strip_prefix('p').is_some_and(is_percentile)
}
