//! Maps numbers to positions on an axis, and chooses the labelled ones.

use crate::text;
use sluice_audit::statistics::order::range;

/// How numbers map to positions.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic. Values of 0 and less are at the lower end.
    Log,
    /// `Linear`, or `Log` when the largest value is more than `LOG_FROM` times the smallest.
    Fitting,
    /// By the rarity of what lies beyond: 0.9, 0.99 and 0.999 are equally spaced. Numbers are quantiles.
    Tail,
    /// Named categories.
    Categories(Vec<String>),
}

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Per second.
    PerSecond,
    /// Shares from 0 to 1, shown in per cent.
    Share,
    /// Microseconds.
    Microseconds,
    /// Per cent of one core.
    CorePercent,
    /// MiB.
    Mebibytes,
    /// Seconds.
    Seconds,
    /// Counts.
    Count,
    /// Quantiles.
    Quantile,
}

/// Above this ratio small values would be invisible beside large ones.
const LOG_FROM: f64 = 40.0;

impl Unit {
    /// Formats a number with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Milliseconds => text::duration(value),
            Unit::PerSecond => format!("{}/s", text::short(value)),
            Unit::Share => format!("{} %", text::short(value * 100.0)),
            Unit::Microseconds => format!("{} µs", text::short(value)),
            Unit::CorePercent => format!("{} %", text::short(value)),
            Unit::Mebibytes => format!("{} MiB", text::short(value)),
            Unit::Seconds => format!("{} s", text::short(value)),
            Unit::Count => text::short(value),
            Unit::Quantile => quantile_name(value),
        }
    }

    /// Its name in the script of the page.
    pub fn code(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::PerSecond => "/s",
            Unit::Share => "share",
            Unit::Microseconds => "us",
            Unit::CorePercent => "%",
            Unit::Mebibytes => "MiB",
            Unit::Seconds => "s",
            Unit::Count => "n",
            Unit::Quantile => "p",
        }
    }

    /// Formats a number for an axis label, as short as possible.
    pub fn tick(self, value: f64) -> String {
        let plain = |value: f64| -> String {
            match value.abs() {
                v if v >= 1e6 => format!("{}M", trimmed(value / 1e6)),
                v if v >= 1e4 => format!("{}k", trimmed(value / 1e3)),
                _ => trimmed(value),
            }
        };
        match self {
            Unit::Milliseconds => {
                let (scaled, unit) = match value {
                    v if v >= 1000.0 => (v / 1000.0, "s"),
                    v if v >= 1.0 || v == 0.0 => (v, "ms"),
                    v => (v * 1000.0, "µs"),
                };
                format!("{} {unit}", trimmed(scaled))
            }
            Unit::Share => format!("{} %", trimmed(value * 100.0)),
            Unit::CorePercent => format!("{} %", plain(value)),
            Unit::Quantile => quantile_name(value),
            _ => plain(value),
        }
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn quantile_name(quantile: f64) -> String {
    let percent = quantile * 100.0;
    if percent < 0.05 {
        "min".into()
    } else {
        format!("p{}", trimmed(percent))
    }
}

/// A scale placed between two ends of the drawing.
pub struct Placed {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Placed {
    /// An axis for `values`, drawn from `from` to `to`.
    pub fn new(scale: &Scale, values: &[f64], from: f64, to: f64) -> Self {
        let (least, most) = range(values).unwrap_or((0.0, 1.0));
        let positive = values
            .iter()
            .copied()
            .filter(|v| *v > 0.0)
            .reduce(f64::min)
            .unwrap_or(1.0);
        let scale = match scale {
            Scale::Fitting if most > LOG_FROM * positive => Scale::Log,
            Scale::Fitting => Scale::Linear,
            other => other.clone(),
        };
        let (low, high) = match &scale {
            Scale::Log => {
                let low = 10_f64.powf(positive.log10().floor());
                let high = nice_above_log(most.max(positive));
                (low, if high > low { high } else { low * 10.0 })
            }
            Scale::Tail => (0.0, tail(most.max(0.9))),
            Scale::Categories(names) => (0.0, names.len() as f64),
            _ => {
                let step = step(most - least.min(0.0));
                let top = (most / step).ceil() * step;
                (0.0, if top > 0.0 { top } else { 1.0 })
            }
        };
        Placed {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    /// The position of a value, clamped to the ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Log => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            Scale::Tail => tail(value) / self.high,
            _ => (value - self.low) / (self.high - self.low),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The scale for a script that converts positions to values: kind, both ends of the drawing, both ends as values.
    pub fn measure(&self) -> String {
        let kind = match self.scale {
            Scale::Log => "log",
            Scale::Tail => "tail",
            Scale::Categories(_) => "names",
            _ => "linear",
        };
        let (from, to) = (places(self.from), places(self.to));
        format!("{kind} {from} {to} {} {}", self.low, self.high)
    }

    /// Whether the axis is logarithmic: it has no zero, so lengths on it mean nothing.
    pub fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// The upper end, as a value.
    pub fn end(&self) -> f64 {
        self.high
    }

    /// The values labelled on the axis.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Log => log_ticks(self.low, self.high),
            Scale::Tail => {
                let all = [
                    0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999_999,
                ];
                all.into_iter()
                    .filter(|q| tail(*q) <= self.high + 1e-9)
                    .collect()
            }
            Scale::Categories(_) => Vec::new(),
            _ => {
                let step = step(self.high);
                let count = (self.high / step).round() as usize;
                (0..=count).map(|at| at as f64 * step).collect()
            }
        }
    }
}

/// The rarity of what lies beyond a quantile, in powers of ten.
fn tail(quantile: f64) -> f64 {
    -(1.0 - quantile.min(1.0 - 1e-9)).log10()
}

/// A round step that divides the extent into four to eight parts.
fn step(extent: f64) -> f64 {
    let rough = extent.max(1e-9) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let lead = rough / power;
    let round = match lead {
        l if l <= 1.0 => 1.0,
        l if l <= 2.0 => 2.0,
        l if l <= 5.0 => 5.0,
        _ => 10.0,
    };
    round * power
}

fn nice_above_log(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|lead| lead * power >= value * 0.9999);
    found.unwrap_or(10.0) * power
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let leads: &[f64] = if decades > 3.5 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let first = low.log10().round() as i32;
    let last = high.log10().ceil() as i32;
    let all =
        (first..=last).flat_map(|power| leads.iter().map(move |lead| lead * 10_f64.powi(power)));
    all.filter(|tick| *tick >= low * 0.9999 && *tick <= high * 1.0001)
        .collect()
}

/// A coordinate: at most one decimal.
pub fn places(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0" } else { text }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_at_zero_and_end_at_round_numbers() {
        let axis = Placed::new(&Scale::Linear, &[3.0, 87.0], 0.0, 100.0);
        assert_eq!(axis.end(), 100.0);
        assert_eq!(axis.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(axis.at(50.0), 50.0);
        assert_eq!(axis.at(500.0), 100.0);
    }

    #[test]
    fn wide_ranges_are_drawn_by_logarithm() {
        let wide = Placed::new(&Scale::Fitting, &[0.2, 900.0], 0.0, 1.0);
        assert_eq!(wide.ticks(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert!((wide.at(10.0) - 0.5).abs() < 1e-9);
        assert_eq!(wide.at(0.0), 0.0);
        let narrow = Placed::new(&Scale::Fitting, &[10.0, 90.0], 0.0, 1.0);
        assert_eq!(narrow.ticks()[0], 0.0);
    }

    #[test]
    fn tails_are_even() {
        let axis = Placed::new(&Scale::Tail, &[0.0, 0.999], 0.0, 3.0);
        for (quantile, at) in [(0.0, 0.0), (0.9, 1.0), (0.99, 2.0), (0.999, 3.0)] {
            assert!((axis.at(quantile) - at).abs() < 1e-6);
        }
        assert_eq!(axis.ticks().last(), Some(&0.999));
    }

    #[test]
    fn numbers_are_short_beside_an_axis() {
        assert_eq!(Unit::Milliseconds.tick(0.05), "50 µs");
        assert_eq!(Unit::Milliseconds.tick(2000.0), "2 s");
        assert_eq!(Unit::PerSecond.tick(25_000.0), "25k");
        assert_eq!(Unit::Share.tick(0.5), "50 %");
        assert_eq!(Unit::Quantile.tick(0.999), "p99.9");
    }

    #[test]
    fn nothing_and_zeros_still_have_an_axis() {
        for values in [&[][..], &[0.0, 0.0][..]] {
            for scale in [Scale::Linear, Scale::Log, Scale::Fitting, Scale::Tail] {
                let axis = Placed::new(&scale, values, 0.0, 1.0);
                assert!(
                    axis.at(0.0).is_finite() && !axis.ticks().is_empty(),
                    "{scale:?}"
                );
            }
        }
    }
}
