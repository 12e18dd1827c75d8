//! The cells of a result in the order in which a report tells them: by test, level and subject, each with its figures over
//! blocks.

use sluice_audit::evidence::Row;
use sluice_audit::limits::CONFIDENCE;
use sluice_audit::ours;
use sluice_audit::statistics::bootstrap::{Interval, median_interval};
use sluice_audit::statistics::order::{half_spread, median};
use sluice_load::result::{Block, Cell, CellState, Histogram, RunResult};

/// A result as a report sees it.
pub struct View<'a> {
    /// What it was made from.
    pub result: &'a RunResult,
    /// Cells with figures, in the order of the result.
    pub cells: Vec<Seen<'a>>,
    /// Who was measured, in the order of the result: subject, with its configuration where there are several.
    pub subjects: Vec<String>,
    /// What was asked of them: test and every other axis that is neither subject, configuration nor level.
    pub tests: Vec<String>,
    /// How much of it: clients or requests per second.
    pub levels: Vec<String>,
}

/// A measured cell.
pub struct Seen<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its figures over blocks.
    pub row: Row,
    /// Position in `View::subjects`.
    pub subject: usize,
    /// Position in `View::tests`.
    pub test: usize,
    /// Position in `View::levels`.
    pub level: usize,
}

/// A figure over blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// The median over blocks.
    pub point: f64,
    /// Its interval, with enough blocks.
    pub interval: Option<Interval>,
    /// Half the distance between smallest and largest block as a share of the median.
    pub spread: Option<f64>,
    /// Blocks that have the figure.
    pub blocks: usize,
}

impl Stat {
    /// Of the figure in each block.
    pub fn of(values: &[f64]) -> Option<Stat> {
        Some(Stat {
            point: median(values)?,
            interval: median_interval(values, CONFIDENCE),
            spread: half_spread(values),
            blocks: values.len(),
        })
    }

    /// The ends of what is drawn as a whisker: the interval, else nothing.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.interval.map(|interval| (interval.low, interval.high))
    }

    /// `+-2.1 %` by the interval, or by the range of few blocks; nothing of one block.
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
    /// The view of a result.
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
            let level = position(&mut view.levels, level_of(cell));
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

    /// Levels in the order of their numbers: a result has them in the order of its tests, which need not have the same ones.
    fn sort_levels(&mut self) {
        let value = |name: &String| name.parse::<f64>().unwrap_or(f64::INFINITY);
        let mut sorted = self.levels.clone();
        sorted.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let place = |level: usize| sorted.iter().position(|name| *name == self.levels[level]);
        for seen in &mut self.cells {
            seen.level = place(seen.level).unwrap_or(seen.level);
        }
        self.levels = sorted;
    }

    /// The cell at a place.
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

    /// Whether levels are offered rates rather than clients.
    pub fn is_open(&self) -> bool {
        self.cells.iter().any(|seen| seen.row.offered.is_some())
    }

    /// The name of a test where there are several; one alone needs no name.
    pub fn test_if_several(&self, test: usize) -> String {
        if self.tests.len() > 1 {
            self.tests[test].clone()
        } else {
            String::new()
        }
    }

    /// How a level is called: `200 clients`, `5,000 requests/s`.
    pub fn level_name(&self, level: usize) -> String {
        let value = &self.levels[level];
        let number = value
            .parse::<f64>()
            .map_or(value.clone(), sluice_audit::finding::count);
        match (value.is_empty(), self.is_open()) {
            (true, _) => String::new(),
            (false, true) => format!("{number} requests/s"),
            (false, false) => format!("{number} clients"),
        }
    }
}

impl Seen<'_> {
    /// A figure by the name that `Row::figure` knows: that of the whole cell, in which counts are pooled and histograms merged,
    /// with its interval and spread over blocks.
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

    /// The block whose good answers per second are nearest to the median: what charts over time show.
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

    /// Latencies of good answers of all blocks together; `None` where the engine keeps none.
    pub fn histogram(&self) -> Option<Histogram> {
        let mut merged = Histogram::new();
        for block in &self.cell.blocks {
            merged.merge(block.load.latency.total.hdr.as_ref()?);
        }
        (!merged.is_empty()).then_some(merged)
    }

    /// Short words for what makes the cell's figures doubtful: `GEN`, `ERR` …, with the sentences behind them.
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

/// Subject, with its configuration where there are several.
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

/// A cell whose clients were not all there stands at the level that it had.
fn level_of(cell: &Cell) -> String {
    let short = |block: &Block| block.load.clients_short();
    match (cell.axis("rate"), cell.blocks.iter().find_map(short)) {
        ("", Some(clients)) => clients.to_string(),
        ("", None) => cell.axis("clients").to_string(),
        (rate, _) => rate.to_string(),
    }
}

/// The place of a cell in words.
pub fn axes(cell: &sluice_load::result::Cell) -> String {
    let words: Vec<String> = cell
        .axes
        .iter()
        .map(|(axis, value)| format!("{axis} {value}"))
        .collect();
    words.join(", ")
}
