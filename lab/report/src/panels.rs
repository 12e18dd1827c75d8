//! The charts of a result, from its view.

use std::collections::BTreeMap;

use super::chart::{Axis, Bar, Chart, Heat, HeatScale, Marks, Point, Scale, Series, Unit};
use super::text::duration;
use super::view::{LoopKind, Seen, View};
use sluice_audit::finding::{percent, resolved};
use sluice_load::result::Histogram;

/// Resolution of drawings, depending on the room in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Points of a line over time.
    pub points: usize,
    /// Points of a percentile curve.
    pub quantiles: usize,
    /// Columns of a heat map.
    pub columns: usize,
}

impl Detail {
    /// The maximum for a drawing of this width: one point per two units.
    pub const FULL: Detail = Detail {
        points: 170,
        quantiles: 84,
        columns: 150,
    };

    /// For a page with this many cells, finest first: the more there are, the coarser each is, so that the page stays
    /// small. A page that is still too large tries the next one.
    pub fn of_page(cells: usize) -> Vec<Self> {
        let finest = Detail::share(cells);
        let coarser = |divisor: usize| Detail {
            points: (finest.points / divisor).max(8),
            quantiles: (finest.quantiles / divisor).max(8),
            columns: (finest.columns / divisor).max(8),
        };
        vec![finest, coarser(2), coarser(4)]
    }

    fn share(cells: usize) -> Self {
        let share = |all: usize, least: usize, most: usize| (all / cells.max(1)).clamp(least, most);
        Detail {
            points: share(2_800, 20, Detail::FULL.points),
            quantiles: share(1_440, 20, Detail::FULL.quantiles),
            columns: share(1_920, 16, Detail::FULL.columns),
        }
    }
}

/// A drawing with its test and level, so that a page can filter by them.
pub struct Panel {
    /// The test; `None` for charts of all tests.
    pub test: Option<usize>,
    /// The level; `None` for charts of all levels.
    pub level: Option<usize>,
    /// How the panel is drawn.
    pub drawing: Drawing,
}

/// A chart or a heat map.
pub enum Drawing {
    /// Bars or lines.
    Chart(Chart),
    /// Latency over time.
    Heat(Heat),
}

const HALF: f64 = 420.0;
const HEIGHT: f64 = 230.0;

/// Statistics of the bars: name, figure.
const BARS: [(&str, &str); 5] = [
    ("median", "median"),
    ("average", "mean"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
];

/// Successful requests, failures and CPU time of all tests at each level.
pub fn overview(view: &View<'_>) -> Vec<Panel> {
    let mut panels = Vec::new();
    for level in 0..view.levels.len() {
        let named = |what: &str| match view.level_name(level) {
            name if name.is_empty() => what.to_string(),
            name => format!("{what}, {name}"),
        };
        let charts = [
            by_test(
                view,
                level,
                &named("successful responses per second"),
                "goodput",
                Unit::PerSecond,
            ),
            by_test(
                view,
                level,
                &named("CPU time per successful response (µs)"),
                "cpu_us",
                Unit::Microseconds,
            ),
            by_test(view, level, &named("failures"), "errors", Unit::Share),
            by_test(
                view,
                level,
                &named("largest memory (MiB)"),
                "rss_max",
                Unit::Mebibytes,
            ),
        ];
        // A chart without any failures is omitted.
        let worth = |chart: &Chart| {
            !chart.is_empty() && !chart.title.starts_with("failures") || any_failure(chart)
        };
        panels.extend(charts.into_iter().filter(worth).map(|chart| Panel {
            test: None,
            level: Some(level),
            drawing: Drawing::Chart(chart),
        }));
    }
    panels
}

fn any_failure(chart: &Chart) -> bool {
    chart.series.iter().any(|series| match &series.marks {
        Marks::Bars(bars) => bars.iter().any(|bar| bar.value > 0.0),
        Marks::Line(points) => points.iter().any(|point| point.y > 0.0),
    })
}

fn by_test(view: &View<'_>, level: usize, title: &str, figure: &str, unit: Unit) -> Chart {
    let series = (0..view.subjects.len()).map(|subject| {
        let bar = |test: usize| {
            let seen = view.at(subject, test, level)?;
            bar(seen, test, &view.tests[test], figure, unit)
        };
        Series {
            name: view.subjects[subject].clone(),
            colour: subject,
            marks: Marks::Bars((0..view.tests.len()).filter_map(bar).collect()),
        }
    });
    Chart {
        title: title.to_string(),
        x: categories(view.tests.clone()),
        y: axis("", unit, Scale::Fitting),
        series: with_marks(series),
        width: HALF,
        height: HEIGHT,
        diagonal: false,
        marked: true,
    }
}

fn bar(seen: &Seen<'_>, category: usize, name: &str, figure: &str, unit: Unit) -> Option<Bar> {
    let stat = seen.stat(figure)?;
    let uncertainty = stat.uncertainty();
    let shown = match figure {
        "cpu_us" => format!("{} µs", resolved(stat.point, seen.row.cpu_us_step)),
        _ => unit.show(stat.point),
    };
    Some(Bar {
        category,
        value: stat.point,
        ends: stat.ends(),
        tip: format!("{name} {shown} {uncertainty}")
            .trim_end()
            .to_string(),
    })
}

/// Latency bars of one test at one level.
pub fn latency_bars(view: &View<'_>) -> Vec<Panel> {
    each_place(view, |view, test, level| {
        let beside = view.beside(test, level);
        let carried =
            |(_, figure): &&(&str, &str)| beside.iter().any(|seen| seen.stat(figure).is_some());
        let bars: Vec<&(&str, &str)> = BARS.iter().filter(carried).collect();
        let series = beside.iter().map(|seen| {
            let bar = |(at, (name, figure)): (usize, &&(&str, &str))| {
                bar(seen, at, name, figure, Unit::Milliseconds)
            };
            Series {
                name: view.subjects[seen.subject].clone(),
                colour: seen.subject,
                marks: Marks::Bars(bars.iter().enumerate().filter_map(bar).collect()),
            }
        });
        Chart {
            title: place_name(view, "latency of successful responses", test, level),
            x: categories(bars.iter().map(|(name, _)| name.to_string()).collect()),
            y: axis("", Unit::Milliseconds, Scale::Fitting),
            series: with_marks(series),
            width: HALF,
            height: HEIGHT,
            diagonal: false,
            marked: true,
        }
    })
}

/// All percentiles supported by the number of responses.
pub fn percentiles(view: &View<'_>, detail: Detail) -> Vec<Panel> {
    each_place(view, |view, test, level| {
        let series = view.beside(test, level).into_iter().map(|seen| Series {
            name: view.subjects[seen.subject].clone(),
            colour: seen.subject,
            marks: Marks::Line(
                seen.histogram()
                    .map_or(Vec::new(), |histogram| quantile_points(&histogram, detail)),
            ),
        });
        Chart {
            title: place_name(view, "latency by percentile", test, level),
            x: axis(
                "share of responses that were faster",
                Unit::Quantile,
                Scale::Tail,
            ),
            y: axis("", Unit::Milliseconds, Scale::Log),
            series: with_marks(series),
            width: HALF,
            height: HEIGHT,
            diagonal: false,
            marked: false,
        }
    })
}

fn quantile_points(histogram: &Histogram, detail: Detail) -> Vec<Point> {
    // Evenly over the tail: up to 14 points per power of ten, as long as ten responses lie beyond.
    let end = (histogram.count() as f64 / 10.0).max(1.0).log10();
    let count = ((end * 14.0).ceil().max(1.0) as usize).min(detail.quantiles);
    let point = |at: usize| {
        let quantile = 1.0 - 10_f64.powf(-end * at as f64 / count as f64);
        let ms = histogram.percentile(quantile * 100.0) as f64 / 1e6;
        Point {
            x: quantile,
            y: ms,
            tip: format!("{} {}", Unit::Quantile.show(quantile), duration(ms)),
        }
    };
    (0..=count).map(point).collect()
}

/// Curves of each test: title, figure, unit, scale.
const CURVES: [(&str, &str, Unit, Scale); 5] = [
    (
        "successful responses per second",
        "goodput",
        Unit::PerSecond,
        Scale::Linear,
    ),
    (
        "p99 of successful responses",
        "p99",
        Unit::Milliseconds,
        Scale::Fitting,
    ),
    ("failures", "errors", Unit::Share, Scale::Linear),
    (
        "median of successful responses",
        "median",
        Unit::Milliseconds,
        Scale::Fitting,
    ),
    (
        "largest memory (MiB)",
        "rss_max",
        Unit::Mebibytes,
        Scale::Fitting,
    ),
];

/// Figures against the level, if there are several: responses, latency, and CPU time.
pub fn curves(view: &View<'_>) -> Vec<Panel> {
    let kinds = view.kinds().into_iter();
    kinds.flat_map(|kind| curves_of(view, kind)).collect()
}

/// The curves of the levels of one kind.
fn curves_of(view: &View<'_>, kind: LoopKind) -> Vec<Panel> {
    let of_kind = view.levels.iter().filter(|level| level.by == kind);
    // A share of a limit is another rate for each server, so it has no place on the axis.
    if of_kind.filter(|level| level.number().is_some()).count() < 2 {
        return Vec::new();
    }
    let open = kind == LoopKind::Open;
    let (x_label, x_unit) = if open {
        ("offered", Unit::PerSecond)
    } else {
        ("clients", Unit::Count)
    };
    let x_scale = if open { Scale::Linear } else { Scale::Log };
    let mut panels = Vec::new();
    for test in 0..view.tests.len() {
        for (what, figure, unit, scale) in &CURVES {
            let series = (0..view.subjects.len()).map(|subject| Series {
                name: view.subjects[subject].clone(),
                colour: subject,
                marks: Marks::Line(level_points(view, (subject, test), kind, figure, *unit)),
            });
            let chart = Chart {
                title: match view.test_if_several(test).as_str() {
                    "" => what.to_string(),
                    test => format!("{test}: {what}"),
                },
                x: axis(x_label, x_unit, x_scale.clone()),
                y: axis("", *unit, scale.clone()),
                series: with_marks(series),
                width: HALF,
                height: HEIGHT,
                diagonal: open && *figure == "goodput",
                marked: true,
            };
            // A chart without any failures is omitted.
            let worth = *figure != "errors" || any_failure(&chart);
            if !chart.is_empty() && worth {
                panels.push(Panel {
                    test: Some(test),
                    level: None,
                    drawing: Drawing::Chart(chart),
                });
            }
        }
    }
    panels
}

fn level_points(
    view: &View<'_>,
    (subject, test): (usize, usize),
    kind: LoopKind,
    figure: &str,
    unit: Unit,
) -> Vec<Point> {
    let point = |level: usize| {
        let at = &view.levels[level];
        let x = at.number().filter(|_| at.by == kind)?;
        let seen = view.at(subject, test, level)?;
        let stat = seen.stat(figure)?;
        let failed = seen.row.failed_share.filter(|share| *share > 0.0);
        let failed = failed.map_or(String::new(), |share| {
            format!(", {} failed", percent(share))
        });
        Some(Point {
            x,
            y: stat.point,
            tip: format!(
                "{}: {} {}{failed}",
                view.level_name(level),
                unit.show(stat.point),
                stat.uncertainty()
            ),
        })
    };
    let mut points: Vec<Point> = (0..view.levels.len()).filter_map(point).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    points
}

/// CPU and memory over time.
pub fn over_time(view: &View<'_>, detail: Detail) -> Vec<Panel> {
    let mut panels = each_place(view, |view, test, level| {
        timed(
            view,
            (test, level),
            detail,
            "CPU usage (100 % is one core)",
            Unit::CorePercent,
            |seen| {
                let resources = seen.typical_block().resources.as_ref()?;
                let used = resources.subject.points.iter().map(|point| {
                    let seconds = point.at_ms as f64 / 1000.0;
                    (seconds, point.percent(resources.interval_ms))
                });
                Some(used.collect())
            },
        )
    });
    panels.extend(each_place(view, |view, test, level| {
        timed(
            view,
            (test, level),
            detail,
            "resident memory (MiB)",
            Unit::Mebibytes,
            |seen| {
                let points = &seen.typical_block().resources.as_ref()?.subject.points;
                Some(
                    points
                        .iter()
                        .map(|point| {
                            (
                                point.at_ms as f64 / 1000.0,
                                point.rss_bytes as f64 / 1_048_576.0,
                            )
                        })
                        .collect(),
                )
            },
        )
    }));
    panels.sort_by_key(|panel| (panel.test, panel.level));
    panels
}

/// Responses over time.
pub fn rates_over_time(view: &View<'_>, detail: Detail) -> Vec<Panel> {
    each_place(view, |view, test, level| {
        timed(
            view,
            (test, level),
            detail,
            "successful responses per second",
            Unit::PerSecond,
            |seen| {
                let series = seen.typical_block().load.series.as_ref()?;
                let each = series.interval_ms as f64 / 1000.0;
                let point = |(at, point): (usize, &sluice_load::result::Point)| {
                    (at as f64 * each, point.ok as f64 / each)
                };
                Some(series.points.iter().enumerate().map(point).collect())
            },
        )
    })
}

/// Points of a line: seconds and value.
type Places = Option<Vec<(f64, f64)>>;

fn timed(
    view: &View<'_>,
    (test, level): (usize, usize),
    detail: Detail,
    what: &str,
    unit: Unit,
    points: fn(&Seen<'_>) -> Places,
) -> Chart {
    let series = view.beside(test, level).into_iter().map(|seen| {
        let found = points(seen).unwrap_or_default();
        let inside: Vec<(f64, f64)> = found.into_iter().filter(|(at, _)| *at >= 0.0).collect();
        let point = |(x, y): (f64, f64)| Point {
            x,
            y,
            tip: format!(
                "{}: {}",
                Unit::Seconds.show((x * 10.0).round() / 10.0),
                unit.show(y)
            ),
        };
        Series {
            name: view.subjects[seen.subject].clone(),
            colour: seen.subject,
            marks: Marks::Line(
                thin(&inside, detail.points)
                    .into_iter()
                    .map(point)
                    .collect(),
            ),
        }
    });
    Chart {
        title: place_name(view, what, test, level),
        x: axis(
            "seconds since the start of the window",
            Unit::Count,
            Scale::Linear,
        ),
        y: axis("", unit, Scale::Linear),
        series: with_marks(series),
        width: HALF,
        height: HEIGHT,
        diagonal: false,
        marked: false,
    }
}

/// At most `most` of the points, in order: the lowest and the highest of each section, so that no stall and no peak is
/// lost.
fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil((most / 2).max(1));
    let both = points.chunks(stretch).flat_map(|stretch| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = stretch.iter().min_by(by_value).copied();
        let high = stretch.iter().max_by(by_value).copied();
        let mut both: Vec<(f64, f64)> = low.into_iter().chain(high).collect();
        both.sort_by(|a, b| a.0.total_cmp(&b.0));
        both.dedup();
        both
    });
    both.collect()
}

/// A heat map of latency over time for each cell.
pub fn heat_maps(view: &View<'_>, detail: Detail) -> Vec<Panel> {
    let heat = |seen: &Seen<'_>| {
        let what = format!("{}, latency over time", view.subjects[seen.subject]);
        let title = place_name(view, &what, seen.test, seen.level);
        let series = seen.typical_block().load.series.as_ref()?;
        let heat = Heat::of(title, series, detail.columns)?;
        Some(((seen.test, seen.level), heat))
    };
    let mut heats: Vec<((usize, usize), Heat)> = view.cells.iter().filter_map(heat).collect();
    // Maps of one test at one level are compared with each other.
    let mut scales: BTreeMap<(usize, usize), HeatScale> = BTreeMap::new();
    for (place, heat) in &heats {
        let known = scales.entry(*place).or_insert(heat.scale);
        *known = known.with(heat.scale);
    }
    for (place, heat) in &mut heats {
        heat.scale = scales[place];
    }
    let panels = heats.into_iter().map(|((test, level), heat)| Panel {
        test: Some(test),
        level: Some(level),
        drawing: Drawing::Heat(heat),
    });
    panels.collect()
}

impl Drawing {
    /// The SVG. `whole` makes it a standalone file.
    pub fn draw(&self, whole: bool) -> String {
        match self {
            Drawing::Chart(chart) => super::chart::draw(chart, whole),
            Drawing::Heat(heat) => heat.draw(HALF, HEIGHT, whole),
        }
    }

    /// The SVG as a standalone file, with words below it.
    pub fn file(&self, foot: &str) -> String {
        super::chart::with_foot(self.draw(true), foot)
    }

    /// Its title.
    pub fn title(&self) -> &str {
        match self {
            Drawing::Chart(chart) => &chart.title,
            Drawing::Heat(heat) => &heat.title,
        }
    }
}

fn each_place(view: &View<'_>, make: impl Fn(&View<'_>, usize, usize) -> Chart) -> Vec<Panel> {
    let places = (0..view.tests.len())
        .flat_map(|test| (0..view.levels.len()).map(move |level| (test, level)));
    let panel = |(test, level)| {
        let chart = make(view, test, level);
        (!chart.is_empty()).then_some(Panel {
            test: Some(test),
            level: Some(level),
            drawing: Drawing::Chart(chart),
        })
    };
    places.filter_map(panel).collect()
}

/// Series with marks; the others would only clutter the legend.
fn with_marks(series: impl Iterator<Item = Series>) -> Vec<Series> {
    let some = |series: &Series| match &series.marks {
        Marks::Bars(bars) => !bars.is_empty(),
        Marks::Line(points) => !points.is_empty(),
    };
    series.filter(some).collect()
}

/// `proxy at 200 clients: latency`; test and level are omitted if there is only one.
fn place_name(view: &View<'_>, what: &str, test: usize, level: usize) -> String {
    let place = [view.test_if_several(test), view.level_name(level)];
    let place: Vec<&str> = place
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    if place.is_empty() {
        what.to_string()
    } else {
        format!("{}: {what}", place.join(", "))
    }
}

fn axis(label: &str, unit: Unit, scale: Scale) -> Axis {
    Axis {
        label: label.to_string(),
        unit,
        scale,
    }
}

fn categories(names: Vec<String>) -> Axis {
    axis("", Unit::Count, Scale::Categories(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_stalls_and_peaks() {
        let mut points: Vec<(f64, f64)> = (0..600).map(|at| (f64::from(at), 100.0)).collect();
        points[123].1 = 0.0;
        points[477].1 = 900.0;
        let thinned = thin(&points, 40);
        assert!(thinned.len() <= 40, "{}", thinned.len());
        assert!(thinned.contains(&(123.0, 0.0)) && thinned.contains(&(477.0, 900.0)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(thin(&points, 600), points);
    }

    #[test]
    fn pages_of_many_cells_are_coarser() {
        assert_eq!(Detail::of_page(1)[0], Detail::FULL);
        let (few, many) = (Detail::of_page(24), Detail::of_page(200));
        assert!(few[0].points > many[0].points && few[0].quantiles > many[0].quantiles);
        assert!(many.windows(2).all(|pair| pair[0].points > pair[1].points));
        assert_eq!(many, Detail::of_page(2_000));
    }
}
