//! Heat maps: the distribution of response times over time.

use std::fmt::Write;

use super::scale::Unit;
use super::scale::places;
use super::svg::{STYLE, opening};
use crate::text::{self, escape};
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
    /// The scale of durations and shades; the same for maps that are compared.
    pub scale: HeatScale,
}

/// The scale of a heat map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatScale {
    /// The lowest step shown.
    pub low: u8,
    /// The highest step shown.
    pub high: u8,
    /// Responses of the darkest shade.
    pub most: u64,
}

impl HeatScale {
    fn of(columns: &[Vec<(u8, u64)>]) -> Self {
        let cells = || columns.iter().flatten();
        HeatScale {
            low: cells().map(|(step, _)| *step).min().unwrap_or(0),
            high: cells().map(|(step, _)| *step).max().unwrap_or(0),
            most: cells().map(|(_, count)| *count).max().unwrap_or(1),
        }
    }

    /// The scale on which both have room.
    pub fn with(self, other: HeatScale) -> Self {
        HeatScale {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            most: self.most.max(other.most),
        }
    }
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
            .then(|| Heat {
                title,
                interval_ms,
                scale: HeatScale::of(&columns),
                columns,
            })
    }

    /// Draws it, `width` wide. `whole` embeds the style, so that the drawing is a standalone file.
    pub fn draw(&self, width: f64, height: f64, whole: bool) -> String {
        let HeatScale { low, high, most } = self.scale;
        let (high, most) = (high.max(low + 3) + 1, most as f64);
        let (left, top, bottom) = (58.0, 24.0, height - 50.0);
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
                let opacity = opacity(at);
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
        // The drawing ends with its legend.
        out.truncate(out.len() - "</svg>".len());
        self.legend(width, height, &mut out);
        out + "</svg>"
    }

    /// What the shades mean: from one response to the most of all maps on this scale.
    fn legend(&self, width: f64, height: f64, out: &mut String) {
        let (y, right) = (height - 14.0, width - 14.0);
        let most = sluice_audit::finding::count(self.scale.most as f64);
        let words = format!("{most} responses in {}", text::duration(self.interval_ms));
        // Width of a digit at this size.
        let end = right - words.chars().count() as f64 * 6.2 - 6.0;
        let begin = end - 12.0 * STRENGTHS as f64;
        let _ = write!(
            out,
            "<g class=\"warm\" stroke-width=\"10\" style=\"stroke-width:10\">"
        );
        for at in 0..STRENGTHS {
            let x = places(begin + 12.0 * at as f64);
            let _ = write!(
                out,
                "<path opacity=\"{:.2}\" d=\"M{x} {}h12\"/>",
                opacity(at),
                places(y - 4.0)
            );
        }
        let _ = write!(
            out,
            "</g><text class=\"tick e\" x=\"{}\" y=\"{y}\">1</text><text class=\"tick e\" x=\"{right}\" y=\"{y}\">{words}</text>",
            places(begin - 6.0)
        );
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

/// Opacity of a shade.
fn opacity(strength: usize) -> f64 {
    0.12 + 0.88 * (strength + 1) as f64 / STRENGTHS as f64
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
        let columns = vec![column(900, 0), column(900, 1), column(900, 0), column(1, 0)];
        let heat = Heat {
            title: "a".into(),
            interval_ms: 100.0,
            scale: HeatScale::of(&columns),
            columns,
        };
        let paths = heat.strengths(900.0, 4);
        assert_eq!(paths[STRENGTHS - 1], "M0 0h3");
        assert_eq!(paths[0], "M3 0h1M1 5h1");
        assert!(paths[1..STRENGTHS - 1].iter().all(String::is_empty));
    }

    #[test]
    fn maps_that_are_compared_have_one_scale_and_say_what_the_shades_mean() {
        let series = |step: u8, count: u64| Series {
            interval_ms: 100,
            points: vec![
                Point {
                    heat: vec![(step, count)],
                    ..Point::default()
                };
                4
            ],
        };
        let fast = Heat::of("fast".into(), &series(10, 4_000), 150).unwrap();
        let slow = Heat::of("slow".into(), &series(30, 20), 150).unwrap();
        let scale = fast.scale.with(slow.scale);
        assert_eq!((scale.low, scale.high, scale.most), (10, 30, 4_000));
        let draw = |heat: Heat| Heat { scale, ..heat }.draw(420.0, 230.0, false);
        let (fast, slow) = (draw(fast), draw(slow));
        for drawn in [&fast, &slow] {
            assert!(drawn.contains(">4,000 responses in 100 ms</text>"));
        }
        // The same durations are at the same heights, and only the fast map has the darkest shade.
        let ticks = |drawn: &str| drawn.split("tick e").nth(1).unwrap().to_string();
        assert_eq!(ticks(&fast), ticks(&slow));
        let darkest = format!("data-s=\"{}\"", STRENGTHS - 1);
        assert!(fast.contains(&darkest) && !slow.contains(&darkest));
    }
}
