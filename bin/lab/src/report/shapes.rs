//! Tables in the shape that each study prints, with the interval and the flags that it does not have.

use super::view::{Seen, Stat, View};
use crate::audit::finding::{count, number};

/// A table: headings and rows of cells.
pub struct Table {
    /// What stands above it.
    pub title: String,
    /// Names of columns.
    pub headings: Vec<String>,
    /// Cells, as many as headings.
    pub rows: Vec<Vec<String>>,
}

/// The tables of a result in a study's shape; in the general one for `None` and other words.
pub fn tables(view: &View<'_>, shape: Option<&str>) -> Vec<Table> {
    match shape {
        Some("000") => by_level(view, &HOTDOGS),
        Some("002") => vec![all(view, &PYTHON)],
        Some("003") => vec![all(view, &CALLS)],
        Some("001" | "004") => vec![all(view, &TOOL)],
        _ => by_level(view, &GENERAL),
    }
}

/// A column: heading, figure, how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

const HOTDOGS: [Column; 8] = [
    ("min", "min", two),
    ("median", "median", two),
    ("average", "mean", two),
    ("p90", "p90", two),
    ("p95", "p95", two),
    ("max", "max", two),
    ("requests", "requests", whole),
    ("errors", "errors", share),
];

const PYTHON: [Column; 3] = [
    ("Requests/sec", "goodput", count),
    ("Avg Latency (ms)", "mean", two),
    ("P99 Latency (ms)", "p99", two),
];

const CALLS: [Column; 7] = [
    ("calls", "requests", whole),
    ("calls/sec", "goodput", count),
    ("errors", "errors", share),
    ("median ms", "median", two),
    ("p90 ms", "p90", two),
    ("max ms", "max", two),
    ("bytes", "bytes", whole),
];

const TOOL: [Column; 8] = [
    ("Requests/sec", "goodput", number),
    ("Latency avg ms", "mean", two),
    ("median ms", "median", two),
    ("p99 ms", "p99", two),
    ("max ms", "max", two),
    ("requests", "requests", whole),
    ("errors", "errors", share),
    ("bytes", "bytes", whole),
];

const GENERAL: [Column; 9] = [
    ("good/s", "goodput", count),
    ("errors", "errors", share),
    ("median ms", "median", two),
    ("average ms", "mean", two),
    ("p95 ms", "p95", two),
    ("p99 ms", "p99", two),
    ("max ms", "max", two),
    ("CPU µs/answer", "cpu_us", two),
    ("memory MiB", "rss_max", one),
];

fn by_level(view: &View<'_>, columns: &[Column]) -> Vec<Table> {
    let level = |level: usize| Table {
        title: view.level_name(level),
        headings: headings(columns),
        rows: cells(view, |seen| seen.level == level, columns),
    };
    (0..view.levels.len()).map(level).collect()
}

fn all(view: &View<'_>, columns: &[Column]) -> Table {
    Table {
        title: String::new(),
        headings: headings(columns),
        rows: cells(view, |_| true, columns),
    }
}

fn headings(columns: &[Column]) -> Vec<String> {
    let names = std::iter::once("test").chain(columns.iter().map(|(heading, _, _)| *heading));
    names.chain(["±", "flags"]).map(str::to_string).collect()
}

fn cells(
    view: &View<'_>,
    wanted: impl Fn(&Seen<'_>) -> bool,
    columns: &[Column],
) -> Vec<Vec<String>> {
    let rows = view.cells.iter().filter(|seen| wanted(seen));
    rows.map(|seen| {
        let figure = |(_, figure, show): &Column| {
            seen.stat(figure)
                .map_or("–".to_string(), |stat| show(stat.point))
        };
        let uncertainty = seen
            .stat("goodput")
            .map_or(String::new(), |stat: Stat| stat.uncertainty());
        let flags: Vec<&str> = seen.flags().into_iter().map(|(short, _)| short).collect();
        let name = row_name(view, seen);
        let mut row = vec![name];
        row.extend(columns.iter().map(figure));
        row.extend([uncertainty, flags.join(" ")]);
        row
    })
    .collect()
}

/// `nginx-default-synthetic`, as study 000 writes it, with further axes behind.
fn row_name(view: &View<'_>, seen: &Seen<'_>) -> String {
    let subject = view.subjects[seen.subject].replace(' ', "-");
    match view.tests[seen.test].as_str() {
        test if test.is_empty() || test == subject => subject,
        test => format!("{subject}-{}", test.replace(", ", "-").replace(' ', "-")),
    }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn one(value: f64) -> String {
    format!("{value:.1}")
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn share(value: f64) -> String {
    match value {
        0.0 => "0".to_string(),
        value => format!("{:.2} %", value * 100.0),
    }
}
