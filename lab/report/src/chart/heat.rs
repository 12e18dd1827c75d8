//! Heat maps: the distribution of response times over time.

use std::fmt::Write;

use super::scale::Unit;
use super::scale::places;
use super::svg::{STYLE, opening};
use crate::text::escape;
use sluice_load::result::{Series, heat_step_ns};

/// A heat map of one cell.
#[derive(Clone, Debug)]
pub struct Heat {
    /// The title.
    pub title: String,
    /// Length of a column in milliseconds.
    pub interval_ms: f64,
    /// For each column: steps of the coarse scale with counts.
    pub columns: Vec<Vec<(u8, u64)>>,
}

/// Number of distinguishable shades.
const STRENGTHS: usize = 8;

impl Heat {
    /// The map of a window's series. Intervals are merged in pairs until there are at most `columns_max`; `None` if
    /// nothing was counted.
    pub fn of(title: String, series: &Series, columns_max: usize) -> Option<Self> {
        let mut columns: Vec<Vec<(u8, u64)>> = series
            .points
            .iter()
            .map(|point| point.heat.clone())
            .collect();
        let mut interval_ms = series.interval_ms as f64;
        while columns.len() > columns_max.max(1) {
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

    /// Draws it, `width` wide. `whole` embeds the style, so that the drawing is a standalone file.
    pub fn draw(&self, width: f64, height: f64, whole: bool) -> String {
        let cells = self.columns.iter().flatten();
        let most = cells.clone().map(|(_, count)| *count).max().unwrap_or(1) as f64;
        let low = cells.clone().map(|(step, _)| *step).min().unwrap_or(0);
        let high = cells.map(|(step, _)| *step).max().unwrap_or(0).max(low + 3) + 1;
        let (left, top, bottom) = (58.0, 24.0, height - 34.0);
        let across = (width - left - 14.0) / self.columns.len() as f64;
        let up = (bottom - top) / f64::from(high - low);
        let y = |step: u8| bottom - f64::from(step - low) * up;
        let mut out = format!(
            "{}viewBox=\"0 0 {width:.0} {height:.0}\" data-heat=\"{} {STRENGTHS} {low} {most}\">",
            opening("chart heat", &self.title, whole),
            self.interval_ms
        );
        if whole {
            let _ = write!(
                out,
                "<style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
            );
        }
        let _ = write!(
            out,
            "<text class=\"title\" y=\"13\">{}</text><g class=\"warm\" transform=\"translate({left} {}) scale({across:.3} {:.3})\">",
            escape(&self.title),
            places(bottom - up / 2.0),
            -up
        );
        for (at, path) in self.strengths(most, low).iter().enumerate() {
            if !path.is_empty() {
                let opacity = 0.12 + 0.88 * (at + 1) as f64 / STRENGTHS as f64;
                let _ = write!(
                    out,
                    "<path opacity=\"{opacity:.2}\" data-s=\"{at}\" d=\"{path}\"/>"
                );
            }
        }
        let _ = write!(
            out,
            "</g><g class=\"tick e\" transform=\"translate({} 4)\">",
            left - 6.0
        );
        let mut free = f64::INFINITY;
        for step in low..=high {
            if y(step) + 14.0 > free {
                continue;
            }
            free = y(step);
            let name = Unit::Milliseconds.tick(two_digits(heat_step_ns(step) as f64 / 1e6));
            let name = if step == 0 { "1 µs".to_string() } else { name };
            let _ = write!(out, "<text y=\"{}\">{name}</text>", places(y(step)));
        }
        let seconds = self.interval_ms * self.columns.len() as f64 / 1000.0;
        let _ = write!(
            out,
            "</g><path class=\"axis\" d=\"M{left} {bottom:.1}H{0:.1}\"/><text class=\"tick\" x=\"{left}\" y=\"{1:.1}\">0 s</text><text class=\"tick e\" x=\"{0:.1}\" y=\"{1:.1}\">{2}</text></svg>",
            width - 14.0,
            bottom + 17.0,
            Unit::Seconds.show((seconds * 10.0).round() / 10.0)
        );
        out
    }

    /// One path per shade, in columns and steps above `low`. It uses strokes one step wide, as thousands of rectangles
    /// would fill a page.
    fn strengths(&self, most: f64, low: u8) -> Vec<String> {
        let mut paths = vec![String::new(); STRENGTHS];
        let steps: std::collections::BTreeSet<u8> = self
            .columns
            .iter()
            .flatten()
            .map(|(step, _)| *step)
            .collect();
        for step in steps {
            let mut runs: Vec<(usize, usize, usize)> = Vec::new();
            for (at, column) in self.columns.iter().enumerate() {
                let count = column.iter().filter(|(one, _)| *one == step);
                let count: u64 = count.map(|(_, count)| *count).sum();
                if count == 0 {
                    continue;
                }
                // Logarithmic: single slow responses must be visible beside thousands of fast ones.
                let strength = (1.0 + count as f64).ln() / (1.0 + most).ln();
                let strength = ((strength * STRENGTHS as f64) as usize).min(STRENGTHS - 1);
                match runs.last_mut() {
                    Some((from, length, same)) if *same == strength && *from + *length == at => {
                        *length += 1;
                    }
                    _ => runs.push((at, 1, strength)),
                }
            }
            for (from, length, strength) in runs {
                let _ = write!(paths[strength], "M{from} {}h{length}", step - low);
            }
        }
        paths
    }
}

/// The steps are powers of two in microseconds: 16.384 ms is shown as 16 ms.
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
    use sluice_load::result::Point;

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
        let heat = Heat::of("a".into(), &series, 150).unwrap();
        assert_eq!((heat.columns.len(), heat.interval_ms), (100, 400.0));
        let sum: u64 = heat.columns.iter().flatten().map(|(_, count)| count).sum();
        assert_eq!(sum, (0..400).map(|at| at % 3 + 1).sum::<u64>());
        assert!(heat.draw(500.0, 200.0, false).contains("40 s"));
        assert!(Heat::of("b".into(), &Series::default(), 150).is_none());
    }

    #[test]
    fn neighbours_of_one_strength_are_one_stroke() {
        let column = |fast: u64, slow: u64| vec![(4, fast), (9, slow)];
        let heat = Heat {
            title: "a".into(),
            interval_ms: 100.0,
            columns: vec![column(900, 0), column(900, 1), column(900, 0), column(1, 0)],
        };
        let paths = heat.strengths(900.0, 4);
        assert_eq!(paths[STRENGTHS - 1], "M0 0h3");
        assert_eq!(paths[0], "M3 0h1M1 5h1");
        assert!(paths[1..STRENGTHS - 1].iter().all(String::is_empty));
    }
}
