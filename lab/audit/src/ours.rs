//! A result of our own to evidence, so that every rule looks at our figures as it looks at those of others.

use std::collections::BTreeMap;

use super::evidence::{Claim, Latency, Remark, Row, Sheet, Treatment};
use crate::statistics::order::{carries, median};
use sluice_load::result::{Block, Cell, CellState, Mode, RunResult, SCHEMA};

/// Whether a text is a result of ours, and what it says. `None` for other texts.
pub fn read(text: &str) -> Option<Result<Sheet, String>> {
    let ours = text.trim_start().starts_with('{')
        && text.contains("\"schema\"")
        && text.contains("\"sluice.lab/");
    ours.then(|| {
        let result: RunResult = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if result.schema != SCHEMA {
            return Err(format!(
                "schema `{}`; this program reads `{SCHEMA}`",
                result.schema
            ));
        }
        Ok(sheet(&result))
    })
}

/// The evidence of a result.
pub fn sheet(result: &RunResult) -> Sheet {
    let measured = result
        .cells
        .iter()
        .filter(|cell| cell.state == CellState::Measured);
    let rows: Vec<Row> = measured
        .filter(|cell| !cell.blocks.is_empty())
        .map(row)
        .collect();
    let engine = result
        .cells
        .iter()
        .flat_map(|cell| &cell.blocks)
        .map(|block| block.load.engine.name.clone())
        .next();
    let foreign = engine.as_deref().is_some_and(|name| name != "native");
    let mut sheet = Sheet {
        title: format!("result `{}`: {}", result.name, result.title),
        tool: match engine {
            Some(name) if foreign => name,
            _ => "sluice-lab".into(),
        },
        rows,
        ..Sheet::default()
    };
    let runs = sheet
        .rows
        .iter()
        .map(|row| row.blocks.len())
        .min()
        .unwrap_or(0);
    let conditions = &mut sheet.conditions;
    conditions.runs = u32::try_from(runs).ok().filter(|runs| *runs > 0);
    conditions.spread = runs > 1;
    // Our engine counts good answers only; of foreign ones the adapter took failures out of the count.
    conditions.failures_counted = Some(false);
    conditions.generator_rate = result
        .ceilings
        .iter()
        .map(|ceiling| ceiling.ok_per_s)
        .reduce(f64::max);
    conditions.treatments = treatments(result);
    conditions.unequal = unequal(result);
    conditions.claims = claims(result);
    sheet
}

/// The claims of the experiment, those without a formula last.
fn claims(result: &RunResult) -> Vec<Claim> {
    let Some(experiment) = &result.experiment else {
        return Vec::new();
    };
    let given = result.machine.placement.get("subject").map(Vec::len);
    let given = given
        .filter(|cpus| *cpus > 0)
        .unwrap_or(result.machine.cpus);
    let one = |(name, means): (&String, Option<&String>)| {
        let saying = experiment.sayings.get(name);
        let needed = saying.and_then(|saying| saying.cpus);
        let few = needed.filter(|needed| *needed > given).map(|needed| {
            format!("It is about {needed} processors, and the subject has {given} here.")
        });
        let words = saying.and_then(|saying| saying.words.clone());
        Claim {
            name: name.clone(),
            says: saying.map_or(name, |saying| &saying.says).clone(),
            means: means.filter(|_| few.is_none()).cloned(),
            words: few.or(words),
            tested: saying.is_some(),
        }
    };
    let bare = experiment.sayings.keys();
    let bare = bare.filter(|name| !experiment.claims.contains_key(*name));
    let with = experiment.claims.iter();
    let all = with.map(|(name, means)| (name, Some(means)));
    all.chain(bare.map(|name| (name, None))).map(one).collect()
}

/// A cell with its blocks.
pub fn row(cell: &Cell) -> Row {
    let blocks: Vec<Row> = cell
        .blocks
        .iter()
        .map(|block| block_row(cell, block))
        .collect();
    let over = |figure: fn(&Row) -> Option<f64>| -> Option<f64> {
        median(&blocks.iter().filter_map(figure).collect::<Vec<f64>>())
    };
    let quantiles: Vec<f64> = blocks.first().map_or(Vec::new(), |row| {
        row.latency.quantiles.iter().map(|(q, _)| *q).collect()
    });
    let quantile = |q: f64| {
        let values: Vec<f64> = blocks
            .iter()
            .filter_map(|row| row.latency.quantile(q))
            .collect();
        median(&values).map(|value| (q, value))
    };
    let first = blocks.first().cloned().unwrap_or_default();
    let marks = cell
        .blocks
        .iter()
        .flat_map(|block| block.marks.iter().map(|mark| mark.text.clone()));
    Row {
        seconds: over(|row| row.seconds),
        answers: over(|row| row.answers),
        failed_share: over(|row| row.failed_share),
        rate: over(|row| row.rate),
        answer_bytes: over(|row| row.answer_bytes),
        latency: Latency {
            rounding: 0.0,
            min: over(|row| row.latency.min),
            mean: over(|row| row.latency.mean),
            deviation: over(|row| row.latency.deviation),
            max: over(|row| row.latency.max),
            quantiles: quantiles.into_iter().filter_map(quantile).collect(),
        },
        cpu_percent_max: over(|row| row.cpu_percent_max),
        cpu_us: over(|row| row.cpu_us),
        rss_mib_max: over(|row| row.rss_mib_max),
        generator_share: over(|row| row.generator_share),
        upstream_dials: over(|row| row.upstream_dials),
        marks: marks.collect(),
        blocks,
        ..first
    }
}

fn block_row(cell: &Cell, block: &Block) -> Row {
    let load = &block.load;
    let open = match load.asked.mode {
        Mode::Open { rate, .. } => Some(rate),
        Mode::Closed => None,
    };
    let resources = block.resources.as_ref();
    let tree = resources.map(|resources| &resources.subject);
    let names: Vec<&str> = ["subject", "config", "test"]
        .iter()
        .map(|axis| cell.axis(axis))
        .filter(|v| !v.is_empty())
        .collect();
    let good = load.ended_ok as f64;
    let all = good + load.failed() as f64;
    Row {
        name: if names.is_empty() {
            cell.id.clone()
        } else {
            names.join("-")
        },
        dims: cell.axes.clone(),
        clients: open
            .is_none()
            .then_some((load.asked.connections * load.asked.depth.max(1)) as f64),
        offered: open,
        seconds: Some(load.window_s),
        answers: Some(all),
        failed_share: Some(load.failed_share()),
        rate: (load.window_s > 0.0).then(|| all / load.window_s),
        answer_bytes: load
            .answer
            .as_ref()
            .map(|answer| (answer.head_bytes + answer.body_bytes) as f64),
        latency: latency(block),
        cpu_percent_max: tree.and_then(|tree| {
            let used = tree
                .points
                .iter()
                .map(|point| f64::from(point.user + point.system) * 100.0);
            used.reduce(f64::max)
        }),
        cpu_us: block.cpu_us_per_ok(),
        rss_mib_max: tree.map(|tree| tree.rss_peak_bytes as f64 / 1_048_576.0),
        generator_share: load.generator.as_ref().map(|generator| generator.busiest),
        upstream_dials: resources
            .and_then(|resources| resources.backend_counts.as_ref())
            .filter(|counts| counts.requests > 0)
            .map(|counts| counts.accepted as f64 / counts.requests as f64),
        failures: load
            .failures
            .iter()
            .map(|failures| (failures.class, failures.count))
            .collect(),
        ..Row::default()
    }
}

/// Latencies of good answers of one block; only percentiles that they carry.
fn latency(block: &Block) -> Latency {
    let total = &block.load.latency.total;
    let milliseconds = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
    let quantile = |percent: f64| {
        let value = total.percentile(percent)?;
        carries(percent / 100.0, total.count).then_some((percent / 100.0, value / 1e6))
    };
    Latency {
        rounding: 0.0,
        min: milliseconds(total.min_ns),
        mean: milliseconds(total.mean_ns),
        deviation: milliseconds(total.stdev_ns),
        max: milliseconds(total.max_ns),
        quantiles: [50.0, 75.0, 90.0, 95.0, 99.0, 99.9]
            .into_iter()
            .filter_map(quantile)
            .collect(),
    }
}

/// The checks of all blocks, each claim once: seen if it held wherever it could be seen.
fn treatments(result: &RunResult) -> Vec<Treatment> {
    let mut found: BTreeMap<String, (Vec<String>, bool)> = BTreeMap::new();
    for cell in &result.cells {
        for check in cell.blocks.iter().flat_map(|block| &block.checks) {
            let name = format!("{}: {}", cell.axis("subject"), check.claim);
            let entry = found.entry(name).or_insert((Vec::new(), true));
            entry.1 &= check.holds == Some(true);
            if !entry.0.contains(&check.seen) {
                entry.0.push(check.seen.clone());
            }
        }
    }
    let treatment = |(name, (seen, holds)): (String, (Vec<String>, bool))| {
        let said = seen.join("; ");
        Treatment {
            name,
            evidence: holds.then(|| said.clone()),
            words: if holds {
                String::new()
            } else {
                format!("Seen instead: {said}.")
            },
        }
    };
    found.into_iter().map(treatment).collect()
}

/// Answers of one test that differ between subjects in more than size: status, body, coding or protocol.
fn unequal(result: &RunResult) -> Vec<Remark> {
    let mut by_test: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for cell in &result.cells {
        let Some(block) = cell.blocks.first() else {
            continue;
        };
        let Some(answer) = &block.load.answer else {
            continue;
        };
        let kind = format!(
            "{} with body {} of {} B{}, {}",
            answer.status,
            answer.body_sha256.get(..8).unwrap_or("unknown"),
            answer.body_bytes,
            answer
                .encoding
                .as_ref()
                .map_or(String::new(), |encoding| format!(" in {encoding}")),
            block
                .load
                .connections
                .alpn
                .as_deref()
                .unwrap_or(&block.load.asked.protocol)
        );
        let subjects = by_test
            .entry(cell.axis("test").to_string())
            .or_default()
            .entry(kind)
            .or_default();
        if !subjects.iter().any(|known| known == cell.axis("subject")) {
            subjects.push(cell.axis("subject").to_string());
        }
    }
    let differing = by_test.into_iter().filter(|(_, kinds)| kinds.len() > 1);
    differing
        .map(|(test, kinds)| {
            let said: Vec<String> = kinds
                .iter()
                .map(|(kind, subjects)| format!("{}: {kind}", subjects.join(", ")))
                .collect();
            Remark {
                rule: "A10".into(),
                title: format!("{test}: subjects do not give the same answer"),
                words: format!("{}.", said.join("; ")),
                rows: [("test".to_string(), test)].into(),
            }
        })
        .collect()
}
