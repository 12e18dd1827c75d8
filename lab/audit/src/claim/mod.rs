//! Statements about figures that can be checked: `rate(subject=caddy, test=proxy) > 0.9 * rate(subject=nginx, test=proxy)`.
//!
//! A figure names the rows it is taken from. A dimension that no figure of the statement fixes is free: the statement must
//! then hold for each of its values (`errors(subject=caddy, clients=10000) == 0` for every test). `max`, `min`, `sum` and
//! `mean` around a figure take all rows instead. Comparisons chain (`a < b < c`), `==` takes a tolerance (`== 1.65 +- 20%`).

mod evaluate;
mod parse;

use std::collections::BTreeMap;

pub use evaluate::Outcome;

/// A statement: values with comparisons between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The first value.
    pub first: Value,
    /// Each further value with how the one before must compare with it.
    pub rest: Vec<(Comparison, Value)>,
}

/// A value of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A constant.
    Number(f64),
    /// A figure of one row.
    Figure(Figure),
    /// A figure of all rows that match, taken together.
    Fold(Fold, Figure),
    /// Two values with an operator: `+`, `-`, `*` or `/`.
    Pair(char, Box<Value>, Box<Value>),
}

/// How figures of several rows become one.
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

/// A figure and the rows it is taken from.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, as `Row::figure` knows it.
    pub name: String,
    /// Dimensions with the values that they must have.
    pub rows: BTreeMap<String, String>,
    /// Values without their dimension: that of the first row that has the value on any.
    pub bare: Vec<String>,
}

/// How two values must compare.
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
    /// `==`, with a share by which the left value may differ from the right one.
    Equal(f64),
}
