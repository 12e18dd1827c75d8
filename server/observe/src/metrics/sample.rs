//! What samples of metrics have in all formats.

use std::fmt::Display;

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows; its name ends in `_total`.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A bound of a histogram and how the two formats spell it.
#[derive(Debug)]
pub struct Bound {
    /// Values up to it are below.
    pub value: u64,
    /// As Prometheus's format spells it.
    pub prometheus: &'static str,
    /// As OpenMetrics spells it.
    pub open_metrics: &'static str,
}

impl Bound {
    /// A bound.
    pub const fn new(value: u64, prometheus: &'static str, open_metrics: &'static str) -> Bound {
        Bound {
            value,
            prometheus,
            open_metrics,
        }
    }

    /// The bound as a number, in the unit that the page has.
    pub fn number(&self) -> f64 {
        number(self.prometheus)
    }
}

/// Labels with their values.
pub type LabelList<'a> = [(&'a str, &'a str)];

/// The number that a value is written as.
pub fn number(value: impl Display) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}
