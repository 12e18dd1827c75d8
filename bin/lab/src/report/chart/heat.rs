//! Heat maps: how many answers took how long, over time.

use std::fmt::Write;

use super::scale::Unit;
use crate::report::text::escape;
use crate::result::{Series, heat_step_ns};

/// A map of one cell.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Heading.
    pub title: String,
    /// Length of a column in milliseconds.
    pub interval_ms: f64,
    /// For each column: steps of the coarse scale with counts.
    pub columns: Vec<Vec<(u8, u64)>>,
}

/// Columns that are drawn at most; more are added up in pairs.
const COLUMNS_MAX: usize = 150;

/// Shades that are told apart.
const STRENGTHS: usize = 10;

impl Heat {
    /// The map of a window in slices; `None` when nothing was counted.
    pub fn of(title: String, series: &Series) -> Option<Self> {
        let mut columns: Vec<Vec<(u8, u64)>> = series
            .points
            .iter()
            .map(|point| point.heat.clone())
            .collect();
        let mut interval_ms = series.interval_ms as f64;
        while columns.len() > COLUMNS_MAX {
            columns = columns.chunks(2).map(added).collect();
            interval_ms *= 2.0;
        }
        columns
            .iter()
            .any(|column| !column.is_empty())
            .then_some(Heat {
                title,
                interval_ms,
                columns,
            })
    }

    /// Draws it, `width` wide.
    pub fn draw(&self, width: f64, height: f64) -> String {
        let cells = self.columns.iter().flatten();
        let most = cells.clone().map(|(_, count)| *count).max().unwrap_or(1) as f64;
        let low = cells.clone().map(|(step, _)| *step).min().unwrap_or(0);
        let high = cells.map(|(step, _)| *step).max().unwrap_or(0).max(low + 3) + 1;
        let (left, top, bottom) = (58.0, 24.0, height - 34.0);
        let across = (width - left - 14.0) / self.columns.len() as f64;
        let up = (bottom - top) / f64::from(high - low);
        let y = |step: u8| bottom - f64::from(step - low) * up;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart heat\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{0}\"><text class=\"title\" x=\"0\" y=\"13\">{0}</text>",
            escape(&self.title)
        );
        // One path for each strength: thousands of rectangles of their own would fill the page.
        let mut paths = vec![String::new(); STRENGTHS];
        for (at, column) in self.columns.iter().enumerate() {
            for (step, count) in column.iter().filter(|(_, count)| *count > 0) {
                // By logarithm: single slow answers must be seen beside thousands of fast ones.
                let strength = (1.0 + *count as f64).ln() / (1.0 + most).ln();
                let path = &mut paths[((strength * STRENGTHS as f64) as usize).min(STRENGTHS - 1)];
                let _ = write!(
                    path,
                    "M{:.1} {:.1}h{:.1}v{:.1}h-{2:.1}z",
                    left + at as f64 * across,
                    y(*step) - up,
                    across + 0.3,
                    up + 0.3
                );
            }
        }
        for (at, path) in paths
            .iter()
            .enumerate()
            .filter(|(_, path)| !path.is_empty())
        {
            let _ = write!(
                out,
                "<path class=\"warm\" opacity=\"{:.2}\" d=\"{path}\"/>",
                0.12 + 0.88 * (at + 1) as f64 / STRENGTHS as f64
            );
        }
        let mut free = f64::INFINITY;
        for step in low..=high {
            if y(step) + 14.0 > free {
                continue;
            }
            free = y(step);
            let name = Unit::Milliseconds.tick(two_digits(heat_step_ns(step) as f64 / 1e6));
            let name = if step == 0 { "1 µs".to_string() } else { name };
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                left - 6.0,
                y(step) + 4.0
            );
        }
        let seconds = self.interval_ms * self.columns.len() as f64 / 1000.0;
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{left} {bottom:.1}H{0:.1}\"/><text class=\"tick\" x=\"{left}\" y=\"{1:.1}\">0 s</text><text class=\"tick\" x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"end\">{2}</text></svg>",
            width - 14.0,
            bottom + 17.0,
            Unit::Seconds.show((seconds * 10.0).round() / 10.0)
        );
        out
    }
}

/// The steps are powers of two in microseconds: 16.384 ms reads 16 ms.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.max(1e-6).log10().floor() - 1.0);
    (value / unit).round() * unit
}

fn added(columns: &[Vec<(u8, u64)>]) -> Vec<(u8, u64)> {
    let mut sum: std::collections::BTreeMap<u8, u64> = Default::default();
    for (step, count) in columns.iter().flatten() {
        *sum.entry(*step).or_default() += count;
    }
    sum.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Point;

    #[test]
    fn long_windows_are_added_up_and_nothing_is_lost() {
        let point = |at: u64| Point {
            heat: vec![(10, at % 3), (30, 1)],
            ..Point::default()
        };
        let series = Series {
            interval_ms: 100,
            points: (0..400).map(point).collect(),
        };
        let heat = Heat::of("a".into(), &series).unwrap();
        assert_eq!((heat.columns.len(), heat.interval_ms), (100, 400.0));
        let sum: u64 = heat.columns.iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(sum, (0..400).map(|at| at % 3 + 1).sum::<u64>());
        assert!(heat.draw(500.0, 200.0).contains("40 s"));
        assert!(Heat::of("b".into(), &Series::default()).is_none());
    }
}
