//! Comparison of two results, or of two subjects of one: paired ratios, intervals and verdicts.

use sluice_audit::limits::MARGIN;
use sluice_audit::ours::{QUIET_BLOCKS_MIN, quiet_blocks};
use sluice_audit::statistics::paired::{Paired, noise_floor, pair};
use sluice_audit::statistics::verdict::{Better, Scale, Verdict, judge};
use sluice_load::result::{Block, Cell, CellState, MarkKind, RunResult};

use super::text::machine_words;
use super::view::axes;

/// A metric that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Successful requests per second.
    Rate,
    /// Median latency of successful requests.
    Median,
    /// 99th percentile latency of successful requests.
    P99,
    /// CPU time per successful request.
    Cpu,
    /// Peak resident memory.
    Memory,
}

impl Quantity {
    /// All metrics, in the order of a table.
    pub const ALL: [Quantity; 5] = [
        Quantity::Rate,
        Quantity::Median,
        Quantity::P99,
        Quantity::Cpu,
        Quantity::Memory,
    ];

    /// The name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Rate => "rps",
            Quantity::Median => "median",
            Quantity::P99 => "p99",
            Quantity::Cpu => "cpu",
            Quantity::Memory => "rss",
        }
    }

    /// The metric with that name.
    pub fn of_name(name: &str) -> Option<Quantity> {
        Quantity::ALL
            .into_iter()
            .find(|quantity| quantity.name() == name)
    }

    /// Which direction is better.
    pub fn better(self) -> Better {
        if self == Quantity::Rate {
            Better::Higher
        } else {
            Better::Lower
        }
    }

    /// Its value in a block; `None` if it was not measured or has too few samples.
    pub fn of(self, block: &Block) -> Option<f64> {
        let latency = &block.load.latency.total;
        let carried = |percent: f64| {
            let carries = sluice_audit::statistics::order::carries(percent / 100.0, latency.count);
            latency.percentile(percent).filter(|_| carries)
        };
        match self {
            Quantity::Rate => Some(block.load.ok_per_s()),
            Quantity::Median => carried(50.0),
            Quantity::P99 => carried(99.0),
            Quantity::Cpu => block.cpu_us_per_ok(),
            Quantity::Memory => block
                .resources
                .as_ref()
                .map(|r| r.subject.rss_peak_bytes as f64),
        }
    }
}

/// One metric of two cells.
pub struct Compared {
    /// What is compared.
    pub quantity: Quantity,
    /// The ratios; `None` if no block of both has it.
    pub paired: Option<Paired>,
    /// The result of the comparison.
    pub verdict: Verdict,
}

/// Two corresponding cells.
pub struct Pair {
    /// The axes that both share.
    pub place: String,
    /// The metrics.
    pub compared: Vec<Compared>,
}

/// The common cells of two results, and reasons against comparing them.
pub struct Comparison {
    /// Cells that both have.
    pub pairs: Vec<Pair>,
    /// Differences in machine, plan or engine.
    pub reasons: Vec<String>,
    /// The noise floor, if the base measured one subject twice.
    pub floor: Option<f64>,
}

/// Compares `other` with `base`, cell by cell. With `subjects`, compares two subjects of the same result or of two.
pub fn compare(base: &RunResult, other: &RunResult, subjects: Option<(&str, &str)>) -> Comparison {
    let floor = floor(base);
    let mut pairs = Vec::new();
    for cell in base
        .cells
        .iter()
        .filter(|cell| subjects.is_none_or(|(name, _)| cell.axis("subject") == name))
    {
        let mut wanted = cell.axes.clone();
        if let Some((_, name)) = subjects {
            wanted.insert("subject".into(), name.into());
        }
        let Some(partner) = other.cells.iter().find(|cell| cell.axes == wanted) else {
            continue;
        };
        let place = if subjects.is_some() {
            without_subject(cell)
        } else {
            axes(cell)
        };
        pairs.push(Pair {
            place,
            compared: Quantity::ALL
                .into_iter()
                .map(|quantity| two_cells(cell, partner, quantity, floor))
                .collect(),
        });
    }
    Comparison {
        pairs,
        reasons: reasons(base, other),
        floor,
    }
}

fn without_subject(cell: &Cell) -> String {
    let mut cell = cell.clone();
    cell.axes.remove("subject");
    axes(&cell)
}

/// Compares one metric of two cells, whatever their subjects.
pub fn two_cells(base: &Cell, other: &Cell, quantity: Quantity, floor: Option<f64>) -> Compared {
    let scale = Scale {
        margin: MARGIN,
        floor,
        better: quantity.better(),
    };
    compared(base, other, quantity, scale)
}

fn compared(base: &Cell, other: &Cell, quantity: Quantity, scale: Scale) -> Compared {
    if let Some(reason) = [("the first", base), ("the second", other)]
        .into_iter()
        .find_map(|(which, cell)| unusable(which, cell, quantity))
    {
        return Compared {
            quantity,
            paired: None,
            verdict: Verdict::NotComparable { reason },
        };
    }
    let blocks = base.blocks.len().max(other.blocks.len());
    let values = |cell: &Cell| -> Vec<Option<f64>> {
        let block = |number: usize| {
            cell.blocks
                .iter()
                .find(|block| block.number == number)
                .and_then(|block| quantity.of(block))
        };
        (0..blocks).map(block).collect()
    };
    let paired = pair(&values(base), &values(other));
    let verdict = paired.as_ref().map_or(
        Verdict::NotComparable {
            reason: "not measured".into(),
        },
        |paired| judge(paired, scale),
    );
    Compared {
        quantity,
        paired,
        verdict,
    }
}

/// Share of failures above which figures of successful requests no longer describe the same load.
const FAILED_MAX: f64 = 0.01;

/// Why a cell says nothing about a metric.
pub fn unusable(which: &str, cell: &Cell, quantity: Quantity) -> Option<String> {
    if cell.state != CellState::Measured {
        return Some(format!("{which} is not measured"));
    }
    let marked = |kind: MarkKind| {
        cell.blocks
            .iter()
            .any(|block| block.marks.iter().any(|mark| mark.kind == kind))
    };
    if marked(MarkKind::Unusable) || marked(MarkKind::Ended) {
        return Some(format!("{which} has blocks that are not usable"));
    }
    let failed = cell
        .blocks
        .iter()
        .map(|block| {
            let (ok, failed) = block.counts();
            failed as f64 / (ok + failed).max(1) as f64
        })
        .fold(0.0, f64::max);
    if failed > FAILED_MAX {
        return Some(format!(
            "{which} fails in {}",
            sluice_audit::finding::percent(failed)
        ));
    }
    // A saturated generator limits rate and latency, and interference changes them; the server's cost per request stays
    // valid.
    let own = matches!(quantity, Quantity::Cpu | Quantity::Memory);
    let (quiet, all) = (quiet_blocks(cell), cell.blocks.len());
    if !own && quiet < QUIET_BLOCKS_MIN.min(all) {
        return Some(format!(
            "no verdict: {quiet} of {all} blocks of {which} are undisturbed"
        ));
    }
    (!own && marked(MarkKind::GeneratorLimited))
        .then(|| format!("the generator was saturated with {which}"))
}

/// The noise floor of a result: subjects whose names end in ` (again)` are the same program measured twice.
pub fn floor(result: &RunResult) -> Option<f64> {
    let mut pairs = Vec::new();
    for cell in &result.cells {
        let mut wanted = cell.axes.clone();
        wanted.insert(
            "subject".into(),
            format!("{} (again)", cell.axis("subject")),
        );
        if let Some(again) = result.cells.iter().find(|cell| cell.axes == wanted) {
            let values = |cell: &Cell| -> Vec<Option<f64>> {
                cell.blocks
                    .iter()
                    .map(|block| Quantity::Rate.of(block))
                    .collect()
            };
            pairs.extend(pair(&values(cell), &values(again)));
        }
    }
    noise_floor(&pairs)
}

/// Differences of machine, plan and engine that make two results different experiments.
pub fn reasons(base: &RunResult, other: &RunResult) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut differs = |what: &str, one: &str, two: &str| {
        if one != two {
            reasons.push(format!("{what}: `{one}` and `{two}`"));
        }
    };
    let (a, b) = (&base.machine, &other.machine);
    differs(
        "processors",
        &format!("{} x {}", a.cpus, a.cpu_model),
        &format!("{} x {}", b.cpus, b.cpu_model),
    );
    differs("kernel", &a.kernel, &b.kernel);
    let upstreams = |result: &RunResult| match &result.upstream_machine {
        Some(machine) => machine_words(machine),
        None => "that of the servers".to_string(),
    };
    differs(
        "machine of the upstreams",
        &upstreams(base),
        &upstreams(other),
    );
    let plan = |result: &RunResult| {
        result
            .experiment
            .as_ref()
            .map_or(String::new(), |e| e.sha256.chars().take(12).collect())
    };
    differs("experiment file", &plan(base), &plan(other));
    let engine = |result: &RunResult| {
        let block = result.cells.iter().flat_map(|cell| &cell.blocks).next();
        block.map_or(String::new(), |block| block.load.engine.name.clone())
    };
    differs("engine", &engine(base), &engine(other));
    let agents = |result: &RunResult| -> String {
        let block = result.cells.iter().flat_map(|cell| &cell.blocks).next();
        let machines = block.into_iter().flat_map(|block| &block.load.machines);
        let names: Vec<&str> = machines.map(|machine| machine.name.as_str()).collect();
        names.join(", ")
    };
    differs("agents", &agents(base), &agents(other));
    reasons
}

impl Comparison {
    /// As a table for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for reason in &self.reasons {
            out.push_str(&format!("not the same experiment: {reason}\n"));
        }
        match self.floor {
            Some(floor) => out.push_str(&format!(
                "noise floor {:.1} %, from one subject compared with itself\n",
                (floor - 1.0) * 100.0
            )),
            None => out.push_str("no noise floor was measured (no subject was measured twice)\n"),
        }
        for pair in &self.pairs {
            out.push_str(&format!("\n{}\n", pair.place));
            for compared in &pair.compared {
                out.push_str(&format!(
                    "  {:<7}{:>9}  {:<20} {}\n",
                    compared.quantity.name(),
                    ratio(compared),
                    interval(compared),
                    compared.verdict
                ));
            }
        }
        if self.pairs.is_empty() {
            out.push_str("the results have no cell in common\n");
        }
        out
    }

    /// As Markdown, for a comment on a pull request.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "| cell | quantity | ratio | 95 % | verdict |\n| --- | --- | ---: | --- | --- |\n",
        );
        for pair in &self.pairs {
            for compared in &pair.compared {
                out.push_str(&format!(
                    "| {} | {} | {} | {} | {} |\n",
                    pair.place,
                    compared.quantity.name(),
                    ratio(compared),
                    interval(compared),
                    compared.verdict
                ));
            }
        }
        out
    }
}

/// The change in per cent: `+3.1 %`.
pub fn ratio(compared: &Compared) -> String {
    compared
        .paired
        .as_ref()
        .map_or("–".into(), |paired| signed(paired.point))
}

fn interval(compared: &Compared) -> String {
    let interval = compared.paired.as_ref().and_then(|paired| paired.interval);
    interval.map_or(String::new(), |i| {
        format!("{} to {}", signed(i.low), signed(i.high))
    })
}

fn signed(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
