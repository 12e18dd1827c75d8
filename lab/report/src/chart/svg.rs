//! Charts to SVG. Colours are variables, so that the page or the reader's system chooses light or dark. Markup is
//! compact, as a report has a hundred charts: coordinates are relative with one decimal, and points of a long line have
//! no texts, because the script of the page computes their values from the axes, whose scales are in `data-x` and
//! `data-y`.

use std::fmt::Write;

use super::scale::{Placed, places};
use super::{Bar, Chart, Marks, Point, Scale, Series};
use crate::text::escape;

/// Colours and fonts of a chart, for light and dark backgrounds.
pub const STYLE: &str = include_str!("chart.css");

/// Margins of the plot: left for numbers, below for names.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const BELOW: f64 = 44.0;

/// Maximum width of a character.
pub(super) const LETTER: f64 = 6.6;

/// Draws a chart. `whole` embeds the style, so that the drawing is a standalone file.
pub fn draw(chart: &Chart, whole: bool) -> String {
    let keys = Keys::new(chart);
    let top = 26.0 + keys.height;
    let plot = Plot::new(chart, top);
    let mut out = String::new();
    let (width, height) = (chart.width, chart.height + keys.height);
    let _ = write!(
        out,
        "{}viewBox=\"0 0 {width:.0} {height:.0}\" data-x=\"{} {}\" data-y=\"{} {}\">",
        opening("chart", &chart.title, whole),
        plot.x.measure(),
        chart.x.unit.code(),
        plot.y.measure(),
        chart.y.unit.code()
    );
    if whole {
        let _ = write!(
            out,
            "<style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
        );
    }
    let _ = write!(
        out,
        "<text class=\"title\" y=\"13\">{}</text>",
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
            Marks::Bars(marks) => plot.bars(marks, (at, bars.len()), chart, whole, &mut out),
            Marks::Line(points) => plot.line(points, chart.marked, whole, &mut out),
        }
        out.push_str("</g>");
    }
    out.push_str("</svg>");
    out
}

/// The opening tag of a drawing. Inside a page it needs no namespace, and the script of the page takes its name from
/// its title.
pub fn opening(class: &str, title: &str, whole: bool) -> String {
    match whole {
        true => format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" aria-label=\"{}\" ",
            escape(title)
        ),
        false => format!("<svg class=\"{class}\" "),
    }
}

/// The legend: names of series with their colours, in rows above the plot.
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
                "<text class=\"key s{}\" x=\"{}\" y=\"{}\"><tspan>■</tspan> {name}</text>",
                series.colour % 8,
                places(*x),
                places(y + 33.0)
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
            // Completed against offered load needs the same scale on both axes.
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
        let right = places(self.right);
        let (mut grid, mut numbers) = (String::new(), String::new());
        for tick in self.y.ticks() {
            let y = places(self.y.at(tick));
            let _ = write!(grid, "M{LEFT} {y}H{right}");
            let name = escape(&chart.y.unit.tick(tick));
            let _ = write!(numbers, "<text y=\"{y}\">{name}</text>");
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
        let mut below = String::new();
        let mut free = f64::NEG_INFINITY;
        for (x, name) in names {
            // A label that would touch the previous one is omitted; its tick stays.
            let half = name.chars().count() as f64 * LETTER / 2.0;
            let _ = write!(grid, "M{} {}v4", places(x), places(self.bottom));
            if x - half < free {
                continue;
            }
            free = x + half + 4.0;
            let name = escape(&name);
            // The last label must stay inside the drawing.
            let x = x.min(self.right + RIGHT - half);
            let _ = write!(below, "<text x=\"{}\">{name}</text>", places(x));
        }
        let bottom = places(self.bottom);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"{grid}\"/><g class=\"tick e\" transform=\"translate({} 4)\">{numbers}</g><g class=\"tick m\" transform=\"translate(0 {})\">{below}</g><path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>",
            LEFT - 6.0,
            places(self.bottom + 17.0),
        );
        if !chart.x.label.is_empty() {
            let _ = write!(
                out,
                "<text class=\"label e\" x=\"{right}\" y=\"{}\">{}</text>",
                places(self.bottom + 36.0),
                escape(&chart.x.label)
            );
        }
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

    /// Bars of the `n`th of several series.
    fn bars(
        &self,
        bars: &[Bar],
        (n, of): (usize, usize),
        chart: &Chart,
        whole: bool,
        out: &mut String,
    ) {
        let slot = self.x.at(1.0) - self.x.at(0.0);
        let group = slot * 0.82;
        let width = (group / of as f64).min(46.0);
        let begin = (slot - width * of as f64) / 2.0;
        let gap = (width * 0.12).min(2.0);
        let (mut whiskers, mut values) = (String::new(), String::new());
        for bar in bars {
            let x = self.x.at(bar.category as f64) + begin + width * n as f64;
            let y = self.y.at(bar.value).min(self.bottom - 0.6);
            let (middle, bottom) = (x + width / 2.0, places(self.bottom));
            let shape = match self.y.is_log() {
                // A diamond: the length of a bar would depend on where the axis happens to begin.
                true => format!("M{} {}l5 5l-5 5l-5-5z", places(middle), places(y - 5.0)),
                false => format!(
                    "M{} {bottom}V{}h{}V{bottom}z",
                    places(x + gap / 2.0),
                    places(y),
                    places(width - gap)
                ),
            };
            mark("path", &format!("d=\"{shape}\""), &bar.tip, whole, out);
            if let Some((low, high)) = bar.ends {
                let (low, high) = (self.y.at(low), self.y.at(high));
                let _ = write!(
                    whiskers,
                    "M{} {}V{}m-3 0h6M{} {}h6",
                    places(middle),
                    places(low),
                    places(high),
                    places(middle - 3.0),
                    places(low)
                );
            }
            let label = chart.y.unit.tick(bar.value);
            if of * bars.len() <= 4 && label.chars().count() as f64 * LETTER <= width + 8.0 {
                let _ = write!(
                    values,
                    "<text x=\"{}\" y=\"{}\">{}</text>",
                    places(middle),
                    places((y - 5.0).max(self.top)),
                    escape(&label)
                );
            }
        }
        if !whiskers.is_empty() {
            let _ = write!(out, "<path class=\"whisker\" d=\"{whiskers}\"/>");
        }
        if !values.is_empty() {
            let _ = write!(out, "<g class=\"value m\">{values}</g>");
        }
    }

    fn line(&self, points: &[Point], marked: bool, whole: bool, out: &mut String) {
        let mut trail = Trail::default();
        for point in points {
            // With many points half a unit sideways is invisible.
            let x = self.x.at(point.x);
            let x = if marked { x } else { x.round() };
            trail.to(x, self.y.at(point.y));
        }
        let _ = write!(out, "<path class=\"line\" d=\"{}\"/>", trail.path);
        for point in points.iter().filter(|_| marked) {
            // Inside a page the style sets the radius.
            let radius = if whole { " r=\"3.2\"" } else { "" };
            let place = format!(
                "cx=\"{}\" cy=\"{}\"{radius}",
                places(self.x.at(point.x)),
                places(self.y.at(point.y))
            );
            mark("circle", &place, &point.tip, whole, out);
        }
    }
}

/// A mark with its text: for the script of the page, or as a title in a standalone file.
fn mark(shape: &str, place: &str, tip: &str, whole: bool, out: &mut String) {
    let tip = escape(tip);
    let _ = match whole {
        true => write!(out, "<{shape} {place}><title>{tip}</title></{shape}>"),
        false => write!(out, "<{shape} {place} data-t=\"{tip}\"/>"),
    };
}

/// A line as a path of relative steps. Steps are between rounded positions, so that rounding errors do not accumulate.
#[derive(Default)]
struct Trail {
    path: String,
    /// The last position, in tenths.
    last: Option<(i64, i64)>,
}

impl Trail {
    fn to(&mut self, x: f64, y: f64) {
        let next = ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        let (x, y) = match self.last {
            None => next,
            Some((x, y)) => (next.0 - x, next.1 - y),
        };
        let begin = if self.last.is_none() {
            "M"
        } else if self.path.contains('l') {
            ""
        } else {
            "l"
        };
        let (x, y) = (places(x as f64 / 10.0), places(y as f64 / 10.0));
        // A minus sign separates as well as a blank.
        let blank = |number: &str| if number.starts_with('-') { "" } else { " " };
        let before = if begin.is_empty() { blank(&x) } else { begin };
        let _ = write!(self.path, "{before}{x}{}{y}", blank(&y));
        self.last = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Unit};

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
            marked: true,
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
        assert_eq!(drawn.matches("<title>5 &lt; 6</title>").count(), 4);
        assert_eq!(drawn.matches("m-3 0h6").count(), 4, "whiskers");
        assert!(drawn.contains("latency &amp; more") && drawn.contains("5 &lt; 6"));
        assert!(
            drawn.contains("series s1"),
            "the ninth colour is the second"
        );
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }

    #[test]
    fn a_logarithmic_axis_has_marks_instead_of_bars() {
        let series = |values: [f64; 2]| Series {
            name: "a".into(),
            colour: 0,
            marks: Marks::Bars(
                (0..2)
                    .map(|category| Bar {
                        category,
                        value: values[category],
                        ends: None,
                        tip: String::new(),
                    })
                    .collect(),
            ),
        };
        let names = || Scale::Categories(vec!["median".into(), "p99".into()]);
        let near = draw(&chart(vec![series([10.0, 20.0])], names()), false);
        let far = draw(&chart(vec![series([0.1, 20.0])], names()), false);
        assert!(near.contains("data-y=\"linear") && near.matches("V").count() >= 4);
        assert!(far.contains("data-y=\"log") && far.matches("l5 5l-5 5l-5-5z").count() == 2);
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
        assert_eq!(drawn.matches("<circle ").count(), 5);
        assert!(!drawn.contains("<style>"));
        assert!(!drawn.contains("class=\"key"), "one series needs no key");
    }

    #[test]
    fn a_line_of_many_points_is_read_off_its_axes() {
        let point = |at: usize| Point {
            x: at as f64 / 10.0,
            y: (at as f64).sin() * 40.0 + 50.0,
            tip: "no text is written".into(),
        };
        let points: Vec<Point> = (0..200).map(point).collect();
        let series = Series {
            name: "a".into(),
            colour: 0,
            marks: Marks::Line(points.clone()),
        };
        let mut chart = chart(vec![series], Scale::Linear);
        chart.y.scale = Scale::Linear;
        chart.marked = false;
        let drawn = draw(&chart, false);
        assert!(!drawn.contains("no text"));
        let after = |text: &str| drawn.split_once(text).unwrap().1.to_string();
        let measure: Vec<String> = after("data-y=\"linear ")
            .split([' ', '"'])
            .map(String::from)
            .collect();
        let [from, to, low, high] = [0, 1, 2, 3].map(|at| measure[at].parse::<f64>().unwrap());
        let line = after("class=\"line\" d=\"M");
        let (mut number, mut numbers) = (String::new(), Vec::new());
        for c in line.split('"').next().unwrap().chars().chain(" ".chars()) {
            if (c == ' ' || c == '-' || c == 'l') && !number.is_empty() {
                numbers.push(number.parse::<f64>().unwrap());
                number.clear();
            }
            if c != ' ' && c != 'l' {
                number.push(c);
            }
        }
        assert_eq!(numbers.len(), 400);
        let mut y = 0.0;
        for (step, point) in numbers.chunks(2).zip(&points) {
            y += step[1];
            let read = low + (y - from) / (to - from) * (high - low);
            assert!((read - point.y).abs() < 0.05, "{read} for {}", point.y);
        }
    }
}
