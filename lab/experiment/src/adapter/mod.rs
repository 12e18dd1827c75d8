//! External load generators as engines: wrk, hey, ab, h2load, k6, oha and vegeta, if they are installed. Each gets the
//! same task, its output is parsed with the parsers of `audit`, and what it cannot measure is listed as such, never as
//! 0. The command lines are in `tools`, running a program in `process`.

mod process;
mod tools;

use std::path::PathBuf;

pub use tools::{Steps, Tool};

use process::{Ran, carry_out};
use sluice_audit::evidence::Row;
use sluice_audit::read::{Hints, read};
use sluice_load::result::{Asked, Distribution, Engine, Failures, Latencies, Load, Mode, Transfer};

/// A task: the load, and options that `Asked` does not have.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Target, clients, window.
    pub asked: Asked,
    /// Additional headers of each request, as `Name: value`.
    pub fields: Vec<String>,
    /// Another host than that of the URL, for the `Host` header.
    pub host: Option<String>,
    /// Accepts any certificate.
    pub insecure: bool,
}

/// Runs a task with a tool. The error names what is missing or what the tool does not support.
pub fn run(tool: Tool, task: &Task) -> Result<Load, String> {
    run_program(tool, &PathBuf::from(tool.name()), task)
}

fn run_program(tool: Tool, program: &std::path::Path, task: &Task) -> Result<Load, String> {
    let folder = process::Folder::new()?;
    if task.asked.warmup_s > 0.0 && !tool.warms_up() {
        let mut warmup = task.clone();
        warmup.asked.duration_s = task.asked.warmup_s;
        let steps = tool.steps(&warmup, folder.path())?;
        carry_out(program, &steps, &warmup.asked)?;
    }
    let steps = tool.steps(task, folder.path())?;
    let ran = carry_out(program, &steps, &task.asked)?;
    let text = match &steps.output {
        Some(path) => process::text_of(path)?,
        None => ran.output.clone(),
    };
    let hints = Hints {
        seconds: Some(task.asked.duration_s),
        clients: Some(task.asked.connections as f64),
        bytes: None,
    };
    let sheet = read(&text, Some(tool.format()), &hints)
        .map_err(|error| failure_text(tool, &error, &ran))?;
    let row = sheet
        .rows
        .into_iter()
        .next()
        .ok_or_else(|| failure_text(tool, "no figures", &ran))?;
    let version = process::version(program, tool.version_args());
    Ok(load(tool, version, task, &row, text))
}

fn failure_text(tool: Tool, error: &str, ran: &Ran) -> String {
    let said: Vec<&str> = ran
        .complaint
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = said
        .last()
        .map_or(String::new(), |line| format!("; it printed: {line}"));
    format!("{}: {error}{last}", tool.name())
}

/// Converts a row of a tool's output to a load.
fn load(tool: Tool, version: Option<String>, task: &Task, row: &Row, raw: String) -> Load {
    let engine = Engine {
        name: tool.name().into(),
        version,
        not_measured: not_measured(tool, row),
        raw: Some(raw),
    };
    load_of(engine, task.asked.clone(), row)
}

/// What a tool does not measure; for a row with failures also what these spoil.
pub(crate) fn not_measured(tool: Tool, row: &Row) -> Vec<String> {
    let fields = tool.not_measured().into_iter();
    let mut fields: Vec<String> = fields.map(str::to_string).collect();
    if row.failed_share.unwrap_or(0.0) > 0.0 && tool.mixes_failures() {
        fields.push("latency of successful responses alone (failures are included)".into());
    }
    fields
}

/// A row of figures as the load of an engine.
pub(crate) fn load_of(engine: Engine, asked: Asked, row: &Row) -> Load {
    let responses = row.responses.unwrap_or(0.0);
    let failed = row.failed_share.unwrap_or(0.0) * responses;
    let ok = (responses - failed).round().max(0.0) as u64;
    let failures = row.failures.iter().map(|(class, count)| Failures {
        class: *class,
        count: *count,
        statuses: Vec::new(),
        latency: Distribution::default(),
        example: None,
    });
    Load {
        window_s: row.seconds.unwrap_or(asked.duration_s),
        ok,
        ended_ok: ok,
        due: matches!(asked.mode, Mode::Open { .. }).then_some(responses as u64),
        failures: failures.collect(),
        latency: Latencies {
            total: distribution(row, ok),
            ..Latencies::default()
        },
        transfer: Transfer {
            received_bytes: (row.response_bytes.unwrap_or(0.0) * responses) as u64,
            ..Transfer::default()
        },
        engine,
        asked,
        ..Load::default()
    }
}

fn distribution(row: &Row, ok: u64) -> Distribution {
    let nanoseconds = |ms: Option<f64>| ms.map(|ms| ms * 1e6);
    let latency = &row.latency;
    Distribution {
        count: ok,
        min_ns: nanoseconds(latency.min),
        mean_ns: nanoseconds(latency.mean),
        stdev_ns: nanoseconds(latency.deviation),
        max_ns: nanoseconds(latency.max),
        // Rounds: 0.9990000000000001 is 99.9 per cent.
        percentiles: latency
            .quantiles
            .iter()
            .map(|(q, ms)| ((q * 1e6).round() / 1e4, ms * 1e6))
            .collect(),
        hdr: None,
    }
}

#[cfg(test)]
mod tests;
