//! Evaluates statements against rows.

use std::collections::{BTreeMap, BTreeSet};

use super::{Comparison, Figure, Fold, Statement, Value};
use crate::evidence::Row;
use crate::finding::two_numbers;
use crate::limits::{CONFIDENCE, FINDING_LINES_MAX};
use crate::statistics::bootstrap::median_interval;

/// The verdict of the figures on a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// True everywhere.
    Holds {
        /// The places, with both values.
        cells: Vec<Compared>,
    },
    /// True or false by the figures, but within the variation between blocks.
    Close {
        /// The places where it is close.
        cells: Vec<Compared>,
    },
    /// False somewhere.
    Fails {
        /// The places where it is false.
        cells: Vec<Compared>,
        /// Number of places checked.
        of: usize,
    },
    /// Figures it needs are missing.
    Undecided(String),
}

/// Two values that were compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The values of free dimensions as text; empty without any.
    pub place: String,
    /// The left value.
    pub left: f64,
    /// The right value.
    pub right: f64,
}

impl Outcome {
    /// Lines of arithmetic for a report.
    pub fn lines(&self) -> Vec<String> {
        let (cells, of) = match self {
            Outcome::Undecided(reason) => return vec![reason.clone()],
            Outcome::Holds { cells } | Outcome::Close { cells } => (cells, cells.len()),
            Outcome::Fails { cells, of } => (cells, *of),
        };
        let line = |cell: &Compared| {
            let place = if cell.place.is_empty() {
                String::new()
            } else {
                format!("{}: ", cell.place)
            };
            let (left, right) = two_numbers(cell.left, cell.right);
            format!("{place}{left} against {right}")
        };
        let mut lines: Vec<String> = cells.iter().take(FINDING_LINES_MAX).map(line).collect();
        if cells.len() > FINDING_LINES_MAX {
            lines.push(format!("and {} more", cells.len() - FINDING_LINES_MAX));
        }
        if cells.len() < of {
            lines.push(format!("{} of {of} places", cells.len()));
        }
        lines
    }

    /// A short verdict on a study's claim that was tested on another machine.
    pub fn tested_word(&self) -> &'static str {
        match self {
            Outcome::Holds { .. } => "confirmed",
            Outcome::Close { .. } => "not shown",
            Outcome::Fails { .. } => "contradicted",
            Outcome::Undecided(_) => "not comparable here",
        }
    }

    /// A short verdict for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Holds { .. } => "holds",
            Outcome::Close { .. } => "too close to call",
            Outcome::Fails { .. } => "does not hold",
            Outcome::Undecided(_) => "not decidable here",
        }
    }
}

type Binding = BTreeMap<String, String>;

impl Statement {
    /// Evaluates the statement on `rows`.
    pub fn evaluate(&self, rows: &[Row]) -> Outcome {
        let mut resolved = self.clone();
        let values = std::iter::once(&mut resolved.first)
            .chain(resolved.rest.iter_mut().map(|(_, value)| value));
        for value in values {
            if let Err(missing) = resolve(value, rows) {
                return Outcome::Undecided(missing);
            }
        }
        resolved.evaluate_resolved(rows)
    }

    fn evaluate_resolved(&self, rows: &[Row]) -> Outcome {
        let mut figures = Vec::new();
        self.values()
            .for_each(|value| plain_figures(value, &mut figures));
        let free = free_dims(&figures, rows);
        let bindings: BTreeSet<Binding> = match figures.first() {
            None => BTreeSet::from([Binding::new()]),
            Some(figure) => {
                let matching = rows.iter().filter(|row| row.matches(&figure.rows));
                matching.map(|row| project(row, &free)).collect()
            }
        };
        let mut verdicts = Vec::new();
        let mut missing = format!(
            "no row matches `{}`",
            figures.first().map_or("", |f| &f.name)
        );
        for binding in &bindings {
            match self.verdict_at(binding, rows) {
                Ok(verdict) => verdicts.push(verdict),
                Err(reason) => missing = reason,
            }
        }
        summed_up(verdicts, missing)
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.first).chain(self.rest.iter().map(|(_, value)| value))
    }

    /// The first comparison that is false here, else the first one.
    fn verdict_at(&self, binding: &Binding, rows: &[Row]) -> Result<(Verdict, Compared), String> {
        let place = |left, right| Compared {
            place: words(binding),
            left,
            right,
        };
        let mut left = &self.first;
        let mut found: Option<(Verdict, Compared)> = None;
        for (comparison, right) in &self.rest {
            let values = (value(left, binding, rows)?, value(right, binding, rows)?);
            let holds = compare(*comparison, values.0, values.1);
            let verdict = match (is_close(*comparison, left, right, binding, rows), holds) {
                (true, _) => Verdict::Close,
                (false, true) => Verdict::Holds,
                (false, false) => Verdict::Fails,
            };
            let worse = found.as_ref().is_none_or(|(known, _)| verdict > *known);
            if worse {
                found = Some((verdict, place(values.0, values.1)));
            }
            left = right;
        }
        found.ok_or_else(|| "nothing is compared".to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Holds,
    Close,
    Fails,
}

fn summed_up(verdicts: Vec<(Verdict, Compared)>, missing: String) -> Outcome {
    let of = verdicts.len();
    let with = |wanted: Verdict| -> Vec<Compared> {
        let matching = verdicts.iter().filter(|(verdict, _)| *verdict == wanted);
        matching.map(|(_, cell)| cell.clone()).collect()
    };
    match verdicts.iter().map(|(verdict, _)| *verdict).max() {
        None => Outcome::Undecided(missing),
        Some(Verdict::Fails) => Outcome::Fails {
            cells: with(Verdict::Fails),
            of,
        },
        Some(Verdict::Close) => Outcome::Close {
            cells: with(Verdict::Close),
        },
        Some(Verdict::Holds) => Outcome::Holds {
            cells: with(Verdict::Holds),
        },
    }
}

/// Finds the dimension of each bare value.
fn resolve(value: &mut Value, rows: &[Row]) -> Result<(), String> {
    match value {
        Value::Number(_) => Ok(()),
        Value::Pair(_, left, right) => resolve(left, rows).and_then(|()| resolve(right, rows)),
        Value::Figure(figure) | Value::Fold(_, figure) => {
            for bare in std::mem::take(&mut figure.bare) {
                let mut dims = rows.iter().flat_map(|row| &row.dims);
                let dim = dims
                    .find(|(_, value)| **value == bare)
                    .map(|(dim, _)| dim.clone());
                let dim = dim.ok_or_else(|| format!("no row has `{bare}`"))?;
                figure.rows.insert(dim, bare);
            }
            Ok(())
        }
    }
}

fn plain_figures<'a>(value: &'a Value, found: &mut Vec<&'a Figure>) {
    match value {
        Value::Number(_) | Value::Fold(..) => {}
        Value::Figure(figure) => found.push(figure),
        Value::Pair(_, left, right) => {
            plain_figures(left, found);
            plain_figures(right, found);
        }
    }
}

/// Dimensions that differ between rows and that no figure fixes.
fn free_dims(figures: &[&Figure], rows: &[Row]) -> Vec<String> {
    let all: BTreeSet<&String> = rows.iter().flat_map(|row| row.dims.keys()).collect();
    let fixed = |dim: &&String| figures.iter().any(|figure| figure.rows.contains_key(*dim));
    all.into_iter().filter(|dim| !fixed(dim)).cloned().collect()
}

fn project(row: &Row, dims: &[String]) -> Binding {
    dims.iter()
        .map(|dim| (dim.clone(), row.dim(dim).to_string()))
        .collect()
}

fn words(binding: &Binding) -> String {
    let said = binding.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(dim, value)| format!("{dim} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The rows of a figure at one place. A dimension that a row lacks counts as empty.
fn matching<'a>(figure: &Figure, binding: &Binding, rows: &'a [Row]) -> Vec<&'a Row> {
    let holds = |row: &&Row| {
        figure
            .rows
            .iter()
            .chain(binding)
            .all(|(dim, value)| row.dim(dim) == value)
    };
    rows.iter().filter(holds).collect()
}

fn value(value: &Value, binding: &Binding, rows: &[Row]) -> Result<f64, String> {
    evaluate_with(value, binding, rows, &|row, name| row.figure(name))
}

fn evaluate_with(
    of: &Value,
    binding: &Binding,
    rows: &[Row],
    figure_of: &dyn Fn(&Row, &str) -> Option<f64>,
) -> Result<f64, String> {
    match of {
        Value::Number(number) => Ok(*number),
        Value::Figure(figure) => {
            let found = matching(figure, binding, rows);
            let [row] = found[..] else {
                let place = words(binding);
                return Err(format!(
                    "{} rows match `{}` {place}",
                    found.len(),
                    figure.name
                ));
            };
            decides(row, figure, figure_of)?;
            figure_of(row, &figure.name)
                .ok_or_else(|| format!("{}: `{}` was not measured", row.label(), figure.name))
        }
        Value::Fold(fold, figure) => {
            let found = matching(figure, binding, rows);
            for row in &found {
                decides(row, figure, figure_of)?;
            }
            let values: Vec<f64> = found
                .iter()
                .filter_map(|row| figure_of(row, &figure.name))
                .collect();
            folded(*fold, &values).ok_or_else(|| format!("no row has `{}`", figure.name))
        }
        Value::Pair(operator, left, right) => {
            let left = evaluate_with(left, binding, rows, figure_of)?;
            let right = evaluate_with(right, binding, rows, figure_of)?;
            Ok(match operator {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ => left / right,
            })
        }
    }
}

/// Whether a row can decide the claim. Observed failures always do: interference does not excuse them.
fn decides(
    row: &Row,
    figure: &Figure,
    figure_of: &dyn Fn(&Row, &str) -> Option<f64>,
) -> Result<(), String> {
    let failed = || figure.name == "errors" && figure_of(row, "errors") > Some(0.0);
    match &row.no_verdict {
        Some(reason) if !failed() => Err(reason.clone()),
        Some(_) | None => Ok(()),
    }
}

fn folded(fold: Fold, values: &[f64]) -> Option<f64> {
    let some = values.iter().copied();
    match fold {
        Fold::Max => some.reduce(f64::max),
        Fold::Min => some.reduce(f64::min),
        Fold::Sum => some.reduce(|a, b| a + b),
        Fold::Mean => crate::statistics::order::mean(values),
    }
}

fn compare(comparison: Comparison, left: f64, right: f64) -> bool {
    match comparison {
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::Equal(share) => (left - right).abs() <= share * right.abs().max(left.abs()),
    }
}

/// Whether blocks disagree: the interval of the difference contains 0, or for `==` extends beyond the tolerance. Never
/// without enough blocks.
fn is_close(
    comparison: Comparison,
    left: &Value,
    right: &Value,
    binding: &Binding,
    rows: &[Row],
) -> bool {
    // Failures are counted, not estimated: a block without any does not cancel those of another.
    if [left, right].into_iter().any(counts_errors) {
        return false;
    }
    let blocks = rows.iter().map(|row| row.blocks.len()).max().unwrap_or(0);
    let both = |at: usize| {
        let in_block = |row: &Row, name: &str| row.blocks.get(at)?.figure(name);
        let left = evaluate_with(left, binding, rows, &in_block).ok()?;
        Some((left, evaluate_with(right, binding, rows, &in_block).ok()?))
    };
    let both = (0..blocks).filter_map(both);
    let differences: Vec<f64> = match comparison {
        Comparison::Equal(_) => both
            .map(|(left, right)| {
                (left - right) / right.abs().max(left.abs()).max(f64::MIN_POSITIVE)
            })
            .collect(),
        _ => both.map(|(left, right)| left - right).collect(),
    };
    let Some(interval) = median_interval(&differences, CONFIDENCE) else {
        return false;
    };
    let reaches_over = |end: f64| interval.low < end && interval.high > end;
    match comparison {
        // Counts that are equal except for rounding cannot disagree.
        Comparison::Equal(share) if share > EQUAL_MIN => {
            reaches_over(share) || reaches_over(-share)
        }
        Comparison::Equal(_) => false,
        _ => reaches_over(0.0),
    }
}

fn counts_errors(value: &Value) -> bool {
    match value {
        Value::Number(_) => false,
        Value::Figure(figure) | Value::Fold(_, figure) => figure.name == "errors",
        Value::Pair(_, left, right) => counts_errors(left) || counts_errors(right),
    }
}

/// Minimum tolerance for which blocks are checked for agreement.
const EQUAL_MIN: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, clients: &str, rate: f64) -> Row {
        let dims = [("subject", subject), ("clients", clients)];
        Row {
            name: subject.into(),
            dims: dims.map(|(k, v)| (k.to_string(), v.to_string())).into(),
            rate: Some(rate),
            ..Row::default()
        }
    }

    fn outcome(text: &str, rows: &[Row]) -> Outcome {
        Statement::parse(text).unwrap().evaluate(rows)
    }

    #[test]
    fn free_dimensions_must_hold_everywhere() {
        let rows = [
            row("a", "10", 5.0),
            row("b", "10", 4.0),
            row("a", "99", 3.0),
            row("b", "99", 6.0),
        ];
        let Outcome::Fails { cells, of: 2 } = outcome("rate(subject=a) > rate(subject=b)", &rows)
        else {
            panic!("it is false at 99 clients");
        };
        assert_eq!(cells[0].place, "clients 99");
        let holds = outcome(
            "rate(subject=a, clients=10) > rate(subject=b, clients=10)",
            &rows,
        );
        assert_eq!(holds.word(), "holds");
        assert_eq!(outcome("sum(rate()) == 18", &rows).word(), "holds");
        assert_eq!(
            outcome("max(rate(subject=a)) / 2 < 3 < 4", &rows).word(),
            "holds"
        );
        assert_eq!(outcome("rate() < 5 < 7", &rows).word(), "does not hold");
    }

    #[test]
    fn values_find_their_dimensions() {
        let rows = [
            row("a", "10", 5.0),
            row("b", "10", 4.0),
            row("a", "99", 8.0),
            row("b", "99", 6.0),
        ];
        assert_eq!(outcome("rps(a) > rps(b)", &rows).word(), "holds");
        assert_eq!(outcome("rps(a, *, clients=10) == 5", &rows).word(), "holds");
        assert_eq!(outcome("rps(a,99) > rps(b,99)", &rows).word(), "holds");
        assert_eq!(
            outcome("rps(c) > 1", &rows),
            Outcome::Undecided("no row has `c`".into())
        );
    }

    #[test]
    fn what_is_not_there_is_not_decided() {
        let rows = [row("a", "10", 5.0)];
        for text in [
            "p99() > 1",
            "rate(subject=c) > 1",
            "rate(subject=a) > rate(subject=b)",
        ] {
            assert_eq!(outcome(text, &rows).word(), "not decidable here", "{text}");
        }
    }

    #[test]
    fn tolerance_belongs_to_equality() {
        let rows = [row("a", "1", 103.0)];
        assert_eq!(outcome("rate() == 100 +- 5%", &rows).word(), "holds");
        assert_eq!(
            outcome("rate() == 100 +- 2%", &rows).word(),
            "does not hold"
        );
        assert_eq!(outcome("rate() == 103", &rows).word(), "holds");
    }

    #[test]
    fn blocks_that_disagree_leave_it_open() {
        let with_blocks = |subject: &str, rates: [f64; 6]| {
            let mut row = row(
                subject,
                "1",
                crate::statistics::order::median(&rates).unwrap(),
            );
            row.blocks = rates
                .iter()
                .map(|rate| self::row(subject, "1", *rate))
                .collect();
            row
        };
        let ratio = [
            with_blocks("a", [16.0, 14.0, 30.0, 12.0, 16.5, 25.0]),
            with_blocks("b", [10.0; 6]),
        ];
        let said = |text: &str| outcome(text, &ratio).word();
        let text = "rate(subject=a) / rate(subject=b) == 1.6 +- ";
        assert_eq!(said(&format!("{text}10%")), "too close to call");
        assert_eq!(said(&format!("{text}60%")), "holds");
        let far = "rate(subject=a) / rate(subject=b) == 9 +- 10%";
        assert_eq!(said(far), "does not hold");
        let close = [
            with_blocks("a", [9.0, 12.0, 10.0, 11.0, 9.5, 11.5]),
            with_blocks("b", [10.0, 11.0, 9.0, 12.0, 10.5, 10.0]),
        ];
        assert_eq!(
            outcome("rate(subject=a) > rate(subject=b)", &close).word(),
            "too close to call"
        );
        let apart = [
            with_blocks("a", [19.0, 22.0, 20.0, 21.0, 19.5, 21.5]),
            close[1].clone(),
        ];
        assert_eq!(
            outcome("rate(subject=a) > rate(subject=b)", &apart).word(),
            "holds"
        );
    }
}
