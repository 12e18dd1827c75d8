//! Verifiable statements about figures: `rate(subject=caddy, test=proxy) > 0.9 * rate(subject=nginx, test=proxy)`.
//!
//! A figure selects the rows it is taken from. A dimension that no figure of the statement fixes is free: the statement
//! must then hold for each of its values (`errors(subject=caddy, clients=10000) == 0` for every test). `max`, `min`,
//! `sum` and `mean` around a figure aggregate all rows instead. Comparisons chain (`a < b < c`), `==` takes a tolerance
//! (`== 1.65 +- 20%`).

mod evaluate;
mod parse;

use std::collections::BTreeMap;

pub use evaluate::Outcome;

/// A statement: values with comparisons between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The first value.
    pub first: Value,
    /// Each further value with its comparison to the previous one.
    pub rest: Vec<(Comparison, Value)>,
}

/// A value of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A constant.
    Number(f64),
    /// A figure of one row.
    Figure(Figure),
    /// A figure aggregated over all matching rows.
    Fold(Fold, Figure),
    /// Two values with an operator: `+`, `-`, `*` or `/`.
    Pair(char, Box<Value>, Box<Value>),
}

/// How figures of several rows are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum.
    Sum,
    /// The arithmetic mean.
    Mean,
}

/// A figure and its row filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, as in `Row::figure`.
    pub name: String,
    /// Dimensions and their required values.
    pub rows: BTreeMap<String, String>,
    /// Values without their dimension: the first row that has the value in any dimension decides.
    pub bare: Vec<String>,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`, with a relative tolerance.
    Equal(f64),
}
