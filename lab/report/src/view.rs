//! The cells of a result in the order of a report: by test, level and subject, each with its figures over blocks.

use sluice_audit::evidence::Row;
use sluice_audit::limits::CONFIDENCE;
use sluice_audit::ours;
use sluice_audit::statistics::bootstrap::{Interval, median_interval};
use sluice_audit::statistics::order::{half_spread, median};
use sluice_load::result::{Block, Cell, CellState, Histogram, Mode, RunResult};

/// A result arranged for a report.
pub struct View<'a> {
    /// The source.
    pub result: &'a RunResult,
    /// Cells with figures, in the order of the result.
    pub cells: Vec<Seen<'a>>,
    /// Servers in the order of the result: subject, with its configuration if there are several.
    pub subjects: Vec<String>,
    /// Tests: test and every other axis that is not subject, configuration or level.
    pub tests: Vec<String>,
    /// Load levels.
    pub levels: Vec<Level>,
}

/// A load level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The number as text; empty if the result has no such axis.
    pub value: String,
    /// What it counts.
    pub by: LoopKind,
}

/// What the levels of a load count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// Clients of a closed loop.
    Closed,
    /// Requests per second of an open loop.
    Open,
}

/// A measured cell.
pub struct Seen<'a> {
    /// The cell of the result.
    pub cell: &'a Cell,
    /// Its figures over blocks.
    pub row: Row,
    /// Index in `View::subjects`.
    pub subject: usize,
    /// Index in `View::tests`.
    pub test: usize,
    /// Index in `View::levels`.
    pub level: usize,
}

/// A figure over blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// The median over blocks.
    pub point: f64,
    /// Its confidence interval, if there are enough blocks.
    pub interval: Option<Interval>,
    /// Half the distance between smallest and largest block as a share of the median.
    pub spread: Option<f64>,
    /// Number of blocks that have the figure.
    pub blocks: usize,
}

impl Stat {
    /// Computed from the figure of each block.
    pub fn of(values: &[f64]) -> Option<Stat> {
        Some(Stat {
            point: median(values)?,
            interval: median_interval(values, CONFIDENCE),
            spread: half_spread(values),
            blocks: values.len(),
        })
    }

    /// The ends of the whisker: the interval, if there is one.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.interval.map(|interval| (interval.low, interval.high))
    }

    /// `+-2.1 %` from the interval, or from the range if there are few blocks; empty for one block.
    pub fn uncertainty(&self) -> String {
        let half = match self.interval {
            Some(interval) if self.point != 0.0 => {
                Some((interval.high - interval.low) / 2.0 / self.point.abs())
            }
            _ => self.spread.filter(|_| self.blocks > 1),
        };
        half.map_or(String::new(), |half| format!("±{:.1} %", half * 100.0))
    }
}

impl<'a> View<'a> {
    /// Creates the view of a result.
    pub fn new(result: &'a RunResult) -> Self {
        let several_configs = differ(result, "config");
        let mut view = View {
            result,
            cells: Vec::new(),
            subjects: Vec::new(),
            tests: Vec::new(),
            levels: Vec::new(),
        };
        let measured = |cell: &&Cell| cell.state == CellState::Measured && !cell.blocks.is_empty();
        for cell in result.cells.iter().filter(measured) {
            let subject = position(&mut view.subjects, subject_of(cell, several_configs));
            let test = position(&mut view.tests, test_of(cell));
            let level = level_of(cell);
            let known = view.levels.iter().position(|one| *one == level);
            let level = known.unwrap_or_else(|| {
                view.levels.push(level);
                view.levels.len() - 1
            });
            view.cells.push(Seen {
                cell,
                row: ours::row(cell),
                subject,
                test,
                level,
            });
        }
        view.sort_levels();
        view
    }

    /// Sorts levels numerically: a result lists them in the order of its tests, which may have different ones.
    fn sort_levels(&mut self) {
        let mut sorted = self.levels.clone();
        sorted.sort_by(|one, other| {
            let open = |level: &Level| level.by == LoopKind::Open;
            let value = |level: &Level| level.number().unwrap_or(f64::INFINITY);
            let by = open(one).cmp(&open(other));
            by.then(value(one).total_cmp(&value(other)))
        });
        let place = |level: usize| sorted.iter().position(|name| *name == self.levels[level]);
        for seen in &mut self.cells {
            seen.level = place(seen.level).unwrap_or(seen.level);
        }
        self.levels = sorted;
    }

    /// The cell at a position.
    pub fn at(&self, subject: usize, test: usize, level: usize) -> Option<&Seen<'a>> {
        let mut cells = self.cells.iter();
        cells.find(|seen| (seen.subject, seen.test, seen.level) == (subject, test, level))
    }

    /// Cells of a test at a level, in the order of subjects.
    pub fn beside(&self, test: usize, level: usize) -> Vec<&Seen<'a>> {
        let subjects = 0..self.subjects.len();
        subjects
            .filter_map(|subject| self.at(subject, test, level))
            .collect()
    }

    /// What the levels count, each kind once.
    pub fn kinds(&self) -> Vec<LoopKind> {
        let kinds = [LoopKind::Closed, LoopKind::Open].into_iter();
        kinds
            .filter(|kind| self.levels.iter().any(|level| level.by == *kind))
            .collect()
    }

    /// The name of a test; empty if there is only one.
    pub fn test_if_several(&self, test: usize) -> String {
        if self.tests.len() > 1 {
            self.tests[test].clone()
        } else {
            String::new()
        }
    }

    /// The name of a level: `200 clients`, `5,000 requests/s`.
    pub fn level_name(&self, level: usize) -> String {
        let level = &self.levels[level];
        let value = level.number();
        let number = value.map_or(level.value.clone(), sluice_audit::finding::count);
        match (level.value.is_empty(), level.by) {
            (true, _) => String::new(),
            (false, LoopKind::Open) if value.is_none() => number,
            (false, LoopKind::Open) => format!("{number} requests/s"),
            (false, LoopKind::Closed) => format!("{number} clients"),
        }
    }
}

impl Level {
    /// The number; `None` if the result has no such axis.
    pub fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }
}

impl Seen<'_> {
    /// A figure by its name in `Row::figure`: of the whole cell, with counts pooled and histograms merged, and with its
    /// interval and spread over blocks.
    pub fn stat(&self, figure: &str) -> Option<Stat> {
        let values: Vec<f64> = self
            .row
            .blocks
            .iter()
            .filter_map(|row| row.figure(figure))
            .collect();
        let stat = Stat::of(&values)?;
        Some(Stat {
            point: self.row.figure(figure).unwrap_or(stat.point),
            ..stat
        })
    }

    /// The block whose throughput is nearest to the median: shown in charts over time.
    pub fn typical_block(&self) -> &Block {
        let rates: Vec<f64> = self
            .cell
            .blocks
            .iter()
            .map(|block| block.load.ok_per_s())
            .collect();
        let middle = median(&rates).unwrap_or(0.0);
        let away = |block: &&Block| (block.load.ok_per_s() - middle).abs();
        let nearest = self
            .cell
            .blocks
            .iter()
            .min_by(|a, b| away(a).total_cmp(&away(b)));
        nearest.unwrap_or(&self.cell.blocks[0])
    }

    /// Latencies of successful requests of all blocks merged; `None` if the engine does not record them.
    pub fn histogram(&self) -> Option<Histogram> {
        let mut merged = Histogram::new();
        for block in &self.cell.blocks {
            merged.merge(block.load.latency.total.hdr.as_ref()?);
        }
        (!merged.is_empty()).then_some(merged)
    }

    /// Abbreviations of what makes the cell's figures doubtful: `GEN`, `ERR` …, with their explanations.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let mut flags: Vec<(&'static str, String)> = Vec::new();
        for mark in self.cell.blocks.iter().flat_map(|block| &block.marks) {
            let short = super::text::mark_word(mark.kind);
            if !flags.iter().any(|(known, _)| *known == short) {
                flags.push((short, mark.text.clone()));
            }
        }
        if let Some(failed) = self.cell.failed_starts.first() {
            let count = self.cell.failed_starts.len();
            let text = format!("{count} starts failed, the first with: {}", failed.reason);
            flags.push(("START", text));
        }
        flags
    }
}

fn position(names: &mut Vec<String>, name: String) -> usize {
    names
        .iter()
        .position(|known| *known == name)
        .unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
}

/// Whether any subject has more than one value on an axis.
fn differ(result: &RunResult, axis: &str) -> bool {
    let first = result.cells.first().map_or("", |cell| cell.axis(axis));
    result.cells.iter().any(|cell| cell.axis(axis) != first)
}

/// Subject, with its configuration if there are several.
pub fn subject_of(cell: &Cell, several_configs: bool) -> String {
    let subject = match cell.axis("subject") {
        "" => "target",
        subject => subject,
    };
    match cell.axis("config") {
        config if several_configs && !config.is_empty() => format!("{subject} {config}"),
        _ => subject.to_string(),
    }
}

fn test_of(cell: &Cell) -> String {
    let others = cell.axes.iter().filter(|(axis, _)| {
        !["subject", "config", "test", "clients", "rate"].contains(&axis.as_str())
    });
    let mut words: Vec<String> = Some(cell.axis("test").to_string())
        .into_iter()
        .filter(|test| !test.is_empty())
        .collect();
    words.extend(others.map(|(axis, value)| format!("{axis} {value}")));
    words.join(", ")
}

/// The level of a cell: of an open loop its rate, whether or not that is an axis; of a closed loop its clients, or if some
/// were missing, the number that took part.
fn level_of(cell: &Cell) -> Level {
    let rate = cell
        .blocks
        .iter()
        .find_map(|block| match block.load.asked.mode {
            Mode::Open { rate, .. } => Some(format!("{rate:.0}")),
            Mode::Closed => None,
        });
    let rate = match cell.axis("rate") {
        "" => rate,
        rate => Some(rate.to_string()),
    };
    if let Some(value) = rate {
        let by = LoopKind::Open;
        return Level { value, by };
    }
    let mut blocks = cell.blocks.iter();
    let short = blocks.find_map(|block| block.load.clients_short());
    let clients = || cell.axis("clients").to_string();
    Level {
        value: short.map_or_else(clients, |clients| clients.to_string()),
        by: LoopKind::Closed,
    }
}

/// The axes of a cell as text.
pub fn axes(cell: &sluice_load::result::Cell) -> String {
    let words: Vec<String> = cell
        .axes
        .iter()
        .map(|(axis, value)| format!("{axis} {value}"))
        .collect();
    words.join(", ")
}
