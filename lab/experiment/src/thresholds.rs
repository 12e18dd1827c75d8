//! Conditions under which a measurement counts as failed, such as `p99>200ms` or `errors>0.1%`: for continuous
//! integration, with an exit code.

use std::str::FromStr;

use sluice_audit::evidence::is_figure;
use sluice_audit::finding::{number, percent};
use sluice_audit::ours;
use sluice_load::quantity::{parse_count, parse_duration, time};
use sluice_load::result::Cell;

/// A condition: a figure, a sign and a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    /// The name of the figure, as in claims.
    figure: String,
    sign: Sign,
    /// In the unit of the figure: milliseconds, a share, or a number.
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Above,
    Below,
}

/// What a measurement says about a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The condition holds, so the measurement failed; in words.
    Failed(String),
    /// It does not.
    Passed,
    /// The figure was not measured, or too few responses carry it; in words.
    Unknown(String),
}

/// How a figure is written.
enum Unit {
    Time,
    Share,
    Number,
}

fn unit(figure: &str) -> Unit {
    match figure {
        "errors" => Unit::Share,
        "rate" | "rps" | "goodput" | "requests" | "cpu_max" | "cpu_us" | "rss_max" | "bytes" => {
            Unit::Number
        }
        _ => Unit::Time,
    }
}

impl FromStr for FailIf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("`{text}` is not a condition: write p99>200ms, errors>0.1% or rate<5000");
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (figure, value) = (text[..at].trim(), text[at + 1..].trim());
        let sign = match &text[at..=at] {
            "<" => Sign::Below,
            _ => Sign::Above,
        };
        if !is_figure(figure) {
            let known = sluice_audit::evidence::FIGURES;
            return Err(format!("`{figure}` is not a figure; known are {known}"));
        }
        let limit = match unit(figure) {
            Unit::Time => parse_duration(value)?.as_secs_f64() * 1e3,
            Unit::Share => {
                let number = value
                    .strip_suffix('%')
                    .ok_or_else(|| format!("`{value}` is not a percentage; write {figure}>0.1%"))?;
                let number: f64 = number.trim().parse().map_err(|_| form())?;
                number / 100.0
            }
            Unit::Number => parse_count(value)?,
        };
        Ok(FailIf {
            figure: figure.to_string(),
            sign,
            limit,
        })
    }
}

impl FailIf {
    /// Checks a cell: percentiles of its merged latencies, failures of all blocks, other figures as medians over blocks.
    pub fn check(&self, cell: &Cell) -> Finding {
        let Some(value) = ours::row(cell).figure(&self.figure) else {
            let text = format!(
                "{} was not measured, or too few responses carry it",
                self.figure
            );
            return Finding::Unknown(text);
        };
        let failed = match self.sign {
            Sign::Above => value > self.limit,
            Sign::Below => value < self.limit,
        };
        if !failed {
            return Finding::Passed;
        }
        let show = |value: f64| match unit(&self.figure) {
            Unit::Time => time(value * 1e6),
            Unit::Share => percent(value),
            Unit::Number => number(value),
        };
        let sign = match self.sign {
            Sign::Above => "above",
            Sign::Below => "below",
        };
        let (value, limit) = (show(value), show(self.limit));
        Finding::Failed(format!("{} is {value}, {sign} {limit}", self.figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::result::{
        Block, CellState, Distribution, FailureClass, Failures, Histogram, Load,
    };

    fn block(ms: u64, failed: u64) -> Block {
        let mut histogram = Histogram::new();
        (0..1_000).for_each(|_| histogram.record(ms * 1_000_000));
        let mut load = Load {
            window_s: 1.0,
            ok: 1_000,
            ended_ok: 1_000,
            ..Load::default()
        };
        load.latency.total = Distribution::of(histogram);
        load.failures.push(Failures {
            class: FailureClass::Reset,
            count: failed,
            statuses: Vec::new(),
            latency: Distribution::default(),
            example: None,
        });
        Block {
            load,
            ..Block::default()
        }
    }

    #[test]
    fn conditions_are_checked_over_all_blocks() {
        let cell = Cell {
            state: CellState::Measured,
            blocks: vec![block(10, 0), block(10, 0), block(300, 6)],
            ..Cell::default()
        };
        let check = |text: &str| text.parse::<FailIf>().unwrap().check(&cell);
        // A third of all responses took 300 ms: a median of p99 over blocks would be 10 ms.
        assert!(matches!(check("p99>200ms"), Finding::Failed(_)));
        assert_eq!(check("median > 200ms"), Finding::Passed);
        // Six of three thousand.
        let Finding::Failed(text) = check("errors>0.1%") else {
            panic!("one block in three had failures");
        };
        assert!(text.starts_with("errors is 0.2 %, above 0.1 %"), "{text}");
        assert_eq!(check("errors>1%"), Finding::Passed);
        assert!(matches!(check("goodput<2k"), Finding::Failed(_)));
        assert_eq!(check("rate<500"), Finding::Passed);
        // Three thousand responses do not carry it, and nobody measured CPU time.
        assert!(matches!(check("p99.9>1s"), Finding::Unknown(_)));
        assert!(matches!(check("cpu_us>5"), Finding::Unknown(_)));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("p99", "is not a condition"),
            ("latency>1ms", "`latency` is not a figure"),
            ("errors>0.1", "is not a percentage"),
            ("p99>fast", "fast"),
        ] {
            let error = text.parse::<FailIf>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
