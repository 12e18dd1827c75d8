//! What samples of metrics have in all formats.

use std::fmt::Display;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A monotonic counter; its name ends in `_total`.
    Counter,
    /// A gauge.
    Gauge,
    /// A histogram.
    Histogram,
}

/// A bucket bound, with its spelling in both formats.
#[derive(Debug)]
pub struct Bound {
    /// The inclusive upper bound.
    pub value: u64,
    /// As Prometheus's format spells it.
    pub prometheus: &'static str,
    /// As OpenMetrics spells it.
    pub open_metrics: &'static str,
}

impl Bound {
    /// Creates a bound.
    pub const fn new(value: u64, prometheus: &'static str, open_metrics: &'static str) -> Bound {
        Bound {
            value,
            prometheus,
            open_metrics,
        }
    }

    /// The bound as a number, in the unit of the page.
    pub fn number(&self) -> f64 {
        number(self.prometheus)
    }
}

/// Labels with their values.
pub type LabelList<'a> = [(&'a str, &'a str)];

/// The number that a value displays as.
pub fn number(value: impl Display) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}
