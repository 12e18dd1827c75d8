//! Charts to SVG. Colours are variables, so that a page or the reader's system chooses light or dark.

use std::fmt::Write;

use super::scale::Placed;
use super::{Bar, Chart, Marks, Point, Scale, Series};
use crate::report::text::escape;

/// Colours and letters of a chart, for light and dark ground.
pub const STYLE: &str = include_str!("chart.css");

/// Points up to which each has a mark of its own.
const MARKED_POINTS_MAX: usize = 24;

/// Room around the plot: left for numbers, below for names.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const BELOW: f64 = 44.0;

/// Width that a letter takes at most.
const LETTER: f64 = 6.6;

/// Draws a chart. `whole` adds the style, so that the drawing is a file of its own.
pub fn draw(chart: &Chart, whole: bool) -> String {
    let keys = Keys::new(chart);
    let top = 26.0 + keys.height;
    let plot = Plot::new(chart, top);
    let mut out = String::new();
    let (width, height) = (chart.width, chart.height + keys.height);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"group\" aria-label=\"{}\">",
        escape(&chart.title)
    );
    if whole {
        let _ = write!(
            out,
            "<style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
        );
    }
    let _ = write!(
        out,
        "<text class=\"title\" x=\"0\" y=\"13\">{}</text>",
        escape(&chart.title)
    );
    keys.draw(chart, &mut out);
    plot.axes(chart, &mut out);
    if chart.diagonal {
        plot.diagonal(&mut out);
    }
    let bars: Vec<&Series> = chart
        .series
        .iter()
        .filter(|s| matches!(s.marks, Marks::Bars(_)))
        .collect();
    for (at, series) in chart.series.iter().enumerate() {
        let name = escape(&series.name);
        let _ = write!(
            out,
            "<g class=\"series s{}\" data-series=\"{name}\">",
            series.colour % 8
        );
        match &series.marks {
            Marks::Bars(marks) => plot.bars(marks, at, bars.len(), series, chart, &mut out),
            Marks::Line(points) => plot.line(points, series, &mut out),
        }
        out.push_str("</g>");
    }
    out.push_str("</svg>");
    out
}

/// The names of series with their colours, in rows above the plot.
struct Keys {
    places: Vec<(f64, f64)>,
    height: f64,
}

impl Keys {
    fn new(chart: &Chart) -> Self {
        let mut places = Vec::new();
        let (mut x, mut y) = (0.0, 0.0);
        for series in &chart.series {
            let width = 26.0 + series.name.chars().count() as f64 * LETTER;
            if x > 0.0 && x + width > chart.width {
                (x, y) = (0.0, y + 18.0);
            }
            places.push((x, y));
            x += width;
        }
        let height = if chart.series.len() > 1 {
            y + 20.0
        } else {
            0.0
        };
        Keys { places, height }
    }

    fn draw(&self, chart: &Chart, out: &mut String) {
        if self.height == 0.0 {
            return;
        }
        for (series, (x, y)) in chart.series.iter().zip(&self.places) {
            let name = escape(&series.name);
            let _ = write!(
                out,
                "<g class=\"key s{}\" data-key=\"{name}\" transform=\"translate({x:.1} {:.1})\"><rect width=\"11\" height=\"11\" rx=\"2\" y=\"-10\"/><text x=\"16\">{name}</text></g>",
                series.colour % 8,
                y + 33.0
            );
        }
    }
}

struct Plot {
    x: Placed,
    y: Placed,
    top: f64,
    bottom: f64,
    right: f64,
}

impl Plot {
    fn new(chart: &Chart, top: f64) -> Self {
        let bottom = chart.height + top - 26.0 - BELOW;
        let right = chart.width - RIGHT;
        let xs: Vec<f64> = chart
            .series
            .iter()
            .flat_map(|series| match &series.marks {
                Marks::Line(points) => points.iter().map(|point| point.x).collect(),
                Marks::Bars(_) => Vec::new(),
            })
            .collect();
        let x = Placed::new(&chart.x.scale, &xs, LEFT, right);
        let mut values = chart.values();
        if chart.diagonal {
            // Answered against offered needs one measure for both.
            values.push(x.end());
        }
        let y = Placed::new(&chart.y.scale, &values, bottom, top);
        Plot {
            x,
            y,
            top,
            bottom,
            right,
        }
    }

    fn axes(&self, chart: &Chart, out: &mut String) {
        for tick in self.y.ticks() {
            let y = self.y.at(tick);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.right,
                LEFT - 6.0,
                y + 4.0,
                escape(&chart.y.unit.tick(tick))
            );
        }
        let names = match &chart.x.scale {
            Scale::Categories(names) => {
                let middle =
                    |(at, name): (usize, &String)| (self.x.at(at as f64 + 0.5), name.clone());
                names.iter().enumerate().map(middle).collect::<Vec<_>>()
            }
            _ => self
                .x
                .ticks()
                .into_iter()
                .map(|tick| (self.x.at(tick), chart.x.unit.tick(tick)))
                .collect(),
        };
        let mut free = f64::NEG_INFINITY;
        for (x, name) in names {
            // A name that would touch the one before is left out; its place stays.
            let half = name.chars().count() as f64 * LETTER / 2.0;
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {:.1}v4\"/>",
                self.bottom
            );
            if x - half < free {
                continue;
            }
            free = x + half + 4.0;
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.bottom + 17.0,
                escape(&name)
            );
        }
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {:.1}H{:.1}\"/><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            self.bottom,
            self.right,
            self.right,
            self.bottom + 36.0,
            escape(&chart.x.label)
        );
    }

    fn diagonal(&self, out: &mut String) {
        let end = self.x.end();
        let _ = write!(
            out,
            "<path class=\"diagonal\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            self.x.at(0.0),
            self.y.at(0.0),
            self.x.at(end),
            self.y.at(end)
        );
    }

    fn bars(
        &self,
        bars: &[Bar],
        at: usize,
        of: usize,
        series: &Series,
        chart: &Chart,
        out: &mut String,
    ) {
        let slot = self.x.at(1.0) - self.x.at(0.0);
        let group = slot * 0.82;
        let width = (group / of as f64).min(46.0);
        let begin = (slot - width * of as f64) / 2.0;
        for bar in bars {
            let x = self.x.at(bar.category as f64) + begin + width * at as f64;
            let y = self.y.at(bar.value);
            let gap = (width * 0.12).min(2.0);
            let _ = write!(
                out,
                "<g class=\"mark\" tabindex=\"0\" aria-label=\"{}\"><rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\"/>",
                escape(&format!("{}: {}", series.name, bar.tip)),
                x + gap / 2.0,
                width - gap,
                (self.bottom - y).max(0.6)
            );
            if let Some((low, high)) = bar.ends {
                let (low, high, middle) = (self.y.at(low), self.y.at(high), x + width / 2.0);
                let _ = write!(
                    out,
                    "<path class=\"whisker\" d=\"M{middle:.1} {low:.1}V{high:.1}m-3 0h6M{:.1} {low:.1}h6\"/>",
                    middle - 3.0
                );
            }
            let label = chart.y.unit.tick(bar.value);
            if of * bars.len() <= 4 && label.chars().count() as f64 * LETTER <= width + 8.0 {
                let _ = write!(
                    out,
                    "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    x + width / 2.0,
                    (y - 5.0).max(self.top),
                    escape(&label)
                );
            }
            out.push_str("</g>");
        }
    }

    fn line(&self, points: &[Point], series: &Series, out: &mut String) {
        let mut path = String::new();
        for (at, point) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{letter}{:.1} {:.1}",
                self.x.at(point.x),
                self.y.at(point.y)
            );
        }
        let tips: Vec<&str> = points.iter().map(|point| point.tip.as_str()).collect();
        if points.len() > MARKED_POINTS_MAX {
            // Too many for marks of their own: one list of texts, in the order of the path's points.
            let tips = escape(&tips.join("\n"));
            let _ = write!(
                out,
                "<path class=\"line\" tabindex=\"0\" d=\"{path}\" data-tips=\"{tips}\"/>"
            );
            return;
        }
        let _ = write!(out, "<path class=\"line\" d=\"{path}\"/>");
        for point in points {
            let _ = write!(
                out,
                "<g class=\"mark\" tabindex=\"0\" aria-label=\"{}\"><circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\"/></g>",
                escape(&format!("{}: {}", series.name, point.tip)),
                self.x.at(point.x),
                self.y.at(point.y)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Unit};

    fn chart(series: Vec<Series>, x: Scale) -> Chart {
        let axis = |scale| Axis {
            label: "a <label>".into(),
            unit: Unit::Milliseconds,
            scale,
        };
        Chart {
            title: "latency & more".into(),
            x: axis(x),
            y: axis(Scale::Fitting),
            series,
            width: 400.0,
            height: 240.0,
            diagonal: false,
        }
    }

    #[test]
    fn bars_stand_on_the_axis_and_text_is_escaped() {
        let bar = |category, value| Bar {
            category,
            value,
            ends: Some((value * 0.9, value * 1.1)),
            tip: "5 < 6".into(),
        };
        let series = |name: &str, colour| Series {
            name: name.into(),
            colour,
            marks: Marks::Bars(vec![bar(0, 10.0), bar(1, 20.0)]),
        };
        let names = Scale::Categories(vec!["median".into(), "p99".into()]);
        let drawn = draw(&chart(vec![series("a", 0), series("b", 9)], names), true);
        assert_eq!(drawn.matches("class=\"mark\"").count(), 4);
        assert_eq!(drawn.matches("class=\"whisker\"").count(), 4);
        assert!(drawn.contains("latency &amp; more") && drawn.contains("5 &lt; 6"));
        assert!(
            drawn.contains("series s1"),
            "the ninth colour is the second"
        );
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }

    #[test]
    fn lines_have_a_mark_for_each_of_few_points() {
        let point = |x: f64| Point {
            x,
            y: x * x,
            tip: format!("at {x}"),
        };
        let series = Series {
            name: "a".into(),
            colour: 0,
            marks: Marks::Line((1..=5).map(f64::from).map(point).collect()),
        };
        let drawn = draw(&chart(vec![series], Scale::Linear), false);
        assert_eq!(drawn.matches("<circle class=\"dot\"").count(), 5);
        assert!(!drawn.contains("<style>"));
        assert!(!drawn.contains("class=\"key"), "one series needs no key");
    }
}
