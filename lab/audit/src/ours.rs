//! Converts a result of the lab to evidence, so that every rule checks our figures as it checks those of others.

use std::collections::BTreeMap;

use super::evidence::{Claim, Latency, Remark, Row, Sheet, Treatment};
use crate::statistics::order::{carries, median};
use sluice_load::result::{
    Block, Cell, CellState, Distribution, FailureClass, Histogram, Load, MarkKind, Mode, RunResult,
    SCHEMA,
};

/// Parses a result of the lab. `None` for other texts.
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
    // Our engine counts only successful requests; for external tools the adapter subtracted failures.
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

/// A cell with its blocks: counts are pooled, histograms merged, and everything else is the median over blocks. A
/// failure in one of five blocks is a failure of the cell, and so is one in a try that was repeated.
pub fn row(cell: &Cell) -> Row {
    let blocks: Vec<Row> = cell
        .blocks
        .iter()
        .map(|block| block_row(cell, block))
        .collect();
    let over = |figure: fn(&Row) -> Option<f64>| -> Option<f64> {
        median(&blocks.iter().filter_map(figure).collect::<Vec<f64>>())
    };
    let first = blocks.first().cloned().unwrap_or_default();
    let mut marks: Vec<String> = cell
        .blocks
        .iter()
        .flat_map(|block| block.marks.iter().map(|mark| mark.text.clone()))
        .collect();
    marks.extend(cell.failed_starts.iter().map(|start| {
        format!(
            "it did not start for block {}: {}",
            start.block + 1,
            start.reason
        )
    }));
    Row {
        seconds: over(|row| row.seconds),
        responses: over(|row| row.responses),
        failed_share: pooled_share(cell),
        rate: over(|row| row.rate),
        response_bytes: over(|row| row.response_bytes),
        latency: merged(cell).unwrap_or_else(|| latency_of_blocks(&blocks)),
        cpu_percent_max: over(|row| row.cpu_percent_max),
        cpu_us: over(|row| row.cpu_us),
        cpu_us_step: over(|row| row.cpu_us_step),
        rss_mib_max: over(|row| row.rss_mib_max),
        generator_share: over(|row| row.generator_share),
        upstream_dials: over(|row| row.upstream_dials),
        failures: pooled_failures(cell),
        no_verdict: no_verdict(cell),
        marks,
        blocks,
        ..first
    }
}

/// Minimum number of undisturbed blocks for a verdict.
pub const QUIET_BLOCKS_MIN: usize = 3;

/// Why a cell cannot decide claims.
fn no_verdict(cell: &Cell) -> Option<String> {
    let load = |block: &Block| (block.load.clients_short(), block.load.asked.connections);
    let mut loads = cell.blocks.iter().map(load);
    let short = loads.find_map(|(short, wanted)| Some((short?, wanted)));
    if let Some((clients, wanted)) = short {
        let text = format!("no verdict: {clients} of {wanted} clients were connected");
        return Some(text);
    }
    let (quiet, all) = (quiet_blocks(cell), cell.blocks.len());
    (quiet < QUIET_BLOCKS_MIN)
        .then(|| format!("no verdict: {quiet} of {all} blocks are undisturbed, and 3 are needed"))
}

/// Number of undisturbed blocks of a cell.
pub fn quiet_blocks(cell: &Cell) -> usize {
    let disturbed = |block: &Block| block.marks.iter().any(|m| m.kind == MarkKind::Disturbed);
    cell.blocks.iter().filter(|block| !disturbed(block)).count()
}

/// Failures of all blocks as a share of all their requests.
fn pooled_share(cell: &Cell) -> Option<f64> {
    let counts = cell.blocks.iter().map(Block::counts);
    let (ok, failed) = counts.reduce(|one, two| (one.0 + two.0, one.1 + two.1))?;
    Some(failed as f64 / (ok + failed).max(1) as f64)
}

fn pooled_failures(cell: &Cell) -> Vec<(FailureClass, u64)> {
    let mut pooled: Vec<(FailureClass, u64)> = Vec::new();
    for failures in cell.blocks.iter().flat_map(Block::failures) {
        match pooled
            .iter_mut()
            .find(|(class, _)| *class == failures.class)
        {
            Some((_, count)) => *count += failures.count,
            None => pooled.push((failures.class, failures.count)),
        }
    }
    pooled
}

/// Latencies of all blocks as one distribution; `None` if an engine did not record a histogram.
fn merged(cell: &Cell) -> Option<Latency> {
    let mut all = Histogram::new();
    for block in &cell.blocks {
        let total = &block.load.latency.total;
        match &total.hdr {
            Some(hdr) => all.merge(hdr),
            None if total.count == 0 => {}
            None => return None,
        }
    }
    (!all.is_empty()).then(|| latency(&Distribution::of(all)))
}

/// For blocks without histograms: minimum and maximum over all, the mean weighted, and each percentile the median of
/// theirs, since percentiles cannot be merged.
fn latency_of_blocks(blocks: &[Row]) -> Latency {
    let some = |figure: fn(&Latency) -> Option<f64>| -> Vec<f64> {
        let figures = blocks.iter().filter_map(|row| figure(&row.latency));
        figures.collect()
    };
    let quantiles: Vec<f64> = blocks.first().map_or(Vec::new(), |row| {
        row.latency.quantiles.iter().map(|(q, _)| *q).collect()
    });
    let quantile = |q: f64| {
        let values = blocks.iter().filter_map(|row| row.latency.quantile(q));
        median(&values.collect::<Vec<f64>>()).map(|value| (q, value))
    };
    let weights = blocks.iter().filter_map(|row| {
        let good = row.responses? * (1.0 - row.failed_share.unwrap_or(0.0));
        Some((row.latency.mean? * good, good))
    });
    let (sum, count) = weights.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    Latency {
        rounding: 0.0,
        min: some(|one| one.min).into_iter().reduce(f64::min),
        mean: (count > 0.0).then(|| sum / count),
        deviation: median(&some(|one| one.deviation)),
        max: some(|one| one.max).into_iter().reduce(f64::max),
        quantiles: quantiles.into_iter().filter_map(quantile).collect(),
    }
}

/// Clients that took part, or the requested number if an engine does not report it.
fn connected(load: &Load) -> usize {
    let short = load.clients_short();
    short.map_or(load.asked.connections, |clients| clients as usize)
}

fn block_row(cell: &Cell, block: &Block) -> Row {
    let load = &block.load;
    let open = match load.asked.mode {
        Mode::Open { rate, .. } => Some(rate),
        Mode::Closed => None,
    };
    // The number of clients, or the rate, of a scenario changes, and its clients think: rules about constant loads do not
    // apply.
    let is_constant = load.asked.scenario.is_none();
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
        clients: (open.is_none() && is_constant)
            .then_some((connected(load) * load.asked.depth.max(1)) as f64),
        offered: open.filter(|_| is_constant),
        seconds: Some(load.window_s),
        responses: Some(all),
        failed_share: Some(load.failed_share()),
        rate: (load.window_s > 0.0).then(|| all / load.window_s),
        response_bytes: load
            .response
            .as_ref()
            .map(|response| (response.head_bytes + response.body_bytes) as f64),
        latency: latency(&block.load.latency.total),
        cpu_percent_max: tree.and_then(|tree| {
            let each = resources.map_or(0, |resources| resources.interval_ms);
            let used = tree.points.iter().map(|point| point.percent(each));
            used.reduce(f64::max)
        }),
        cpu_us: block.cpu_us_per_ok(),
        cpu_us_step: block.cpu_us_step(),
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

/// Latencies of successful requests; only percentiles with enough samples.
fn latency(total: &Distribution) -> Latency {
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

/// The checks of all blocks, each claim once: confirmed if it held wherever it could be observed.
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

/// Responses of one test that differ between subjects in more than size: status, body, encoding or protocol.
fn unequal(result: &RunResult) -> Vec<Remark> {
    let mut by_test: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for cell in &result.cells {
        let Some(block) = cell.blocks.first() else {
            continue;
        };
        let Some(response) = &block.load.response else {
            continue;
        };
        let kind = format!(
            "{} with body {} of {} B{}, {}",
            response.status,
            response.body_sha256.get(..8).unwrap_or("unknown"),
            response.body_bytes,
            response
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
                title: format!("{test}: subjects send different responses"),
                words: format!("{}.", said.join("; ")),
                rows: [("test".to_string(), test)].into(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Statement;
    use sluice_load::result::{FailedStart, Failures, Latencies, Mark, Try};

    fn block(number: usize, ok: u64, failed: u64, durations: &[u64]) -> Block {
        let mut histogram = Histogram::new();
        durations.iter().for_each(|ns| histogram.record(*ns));
        Block {
            number,
            load: Load {
                window_s: 1.0,
                ok,
                ended_ok: ok,
                failures: failures(failed),
                latency: Latencies {
                    total: Distribution::of(histogram),
                    ..Latencies::default()
                },
                ..Load::default()
            },
            ..Block::default()
        }
    }

    fn failures(count: u64) -> Vec<Failures> {
        let some = (count > 0).then(|| Failures {
            class: FailureClass::Reset,
            count,
            statuses: Vec::new(),
            latency: Distribution::default(),
            example: None,
        });
        some.into_iter().collect()
    }

    fn cell(blocks: Vec<Block>) -> Cell {
        Cell {
            axes: [("subject".to_string(), "a".to_string())].into(),
            state: CellState::Measured,
            blocks,
            ..Cell::default()
        }
    }

    #[test]
    fn failures_in_one_block_of_five_are_failures() {
        let blocks = (0..5).map(|at| match at {
            2 => block(at, 57, 43, &[1_000]),
            _ => block(at, 100, 0, &[1_000]),
        });
        let row = row(&cell(blocks.collect()));
        assert_eq!(row.failed_share, Some(43.0 / 500.0));
        assert_eq!(row.failures, [(FailureClass::Reset, 43)]);
        let claim = |text: &str| {
            let statement = Statement::parse(text).unwrap();
            statement.evaluate(std::slice::from_ref(&row)).word()
        };
        assert_eq!(claim("errors(a) == 0"), "does not hold");
        assert_eq!(claim("errors(a) < 1%"), "does not hold");
        assert_eq!(claim("errors(a) < 10%"), "holds");
    }

    #[test]
    fn what_was_not_asked_or_not_quiet_decides_nothing() {
        let claim = |cell: &Cell, text: &str| {
            let statement = Statement::parse(text).unwrap();
            statement.evaluate(&[row(cell)]).lines().join("; ")
        };
        let blocks = || (0..5).map(|at| block(at, 100, 0, &[1_000]));
        let mut short = cell(blocks().collect());
        for block in &mut short.blocks {
            block.load.asked.connections = 10_000;
            block.load.connections.clients = Some(950);
        }
        let why = "no verdict: 950 of 10000 clients were connected";
        assert_eq!(claim(&short, "errors(a) == 0"), why);
        assert_eq!(claim(&short, "rate(a) > 1"), why);
        assert_eq!(row(&short).clients, Some(950.0));
        let mut noisy = cell(blocks().collect());
        for block in &mut noisy.blocks[..3] {
            block.marks.push(Mark {
                kind: MarkKind::Disturbed,
                text: String::new(),
            });
        }
        let why = "no verdict: 2 of 5 blocks are undisturbed, and 3 are needed";
        assert_eq!(claim(&noisy, "max(rate()) > 1"), why);
        noisy.blocks[0].marks.clear();
        assert!(!claim(&noisy, "rate(a) > 1").contains("no verdict"));
        // Failures count regardless of interference.
        short.blocks[1].load.failures = failures(7);
        assert!(!claim(&short, "errors(a) == 0").contains("no verdict"));
    }

    #[test]
    fn a_try_that_was_measured_again_and_a_failed_start_stay() {
        let mut one = block(0, 100, 0, &[1_000]);
        one.tries.push(Try {
            ok: 90,
            failures: failures(10),
        });
        let mut cell = cell(vec![one]);
        cell.failed_starts.push(FailedStart {
            block: 1,
            reason: "it ended".into(),
        });
        let row = row(&cell);
        assert_eq!(row.failed_share, Some(10.0 / 200.0));
        assert_eq!(row.marks, ["it did not start for block 2: it ended"]);
    }

    #[test]
    fn percentiles_and_the_maximum_are_those_of_all_blocks_together() {
        // Nine quick blocks and a slow one: the median of maxima would be 1 us.
        let quick: Vec<u64> = vec![1_000; 100];
        let mut blocks: Vec<Block> = (0..9).map(|at| block(at, 100, 0, &quick)).collect();
        blocks.push(block(9, 100, 0, &[2_000_000; 100]));
        let row = row(&cell(blocks));
        assert!((row.latency.max.unwrap() - 2.0).abs() < 0.01, "{row:?}");
        let quantiles: Vec<f64> = row.latency.quantiles.iter().map(|(_, v)| *v).collect();
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        assert!((row.latency.quantile(0.95).unwrap() - 2.0).abs() < 0.01);
        assert!(row.latency.quantile(0.5).unwrap() < 0.01);
    }
}
