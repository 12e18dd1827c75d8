//! Tables in the layout of each study, with additional intervals and flags.

use super::view::{Seen, Stat, View};
use sluice_audit::evidence::Row;
use sluice_audit::finding::{count, number, resolved};

/// A table: headings and rows of cells.
pub struct Table {
    /// Its title.
    pub title: String,
    /// Names of columns.
    pub headings: Vec<String>,
    /// Cells, as many as headings.
    pub rows: Vec<Vec<String>>,
}

/// The tables of a result in a study's layout, or in the general one.
pub fn tables(view: &View<'_>, shape: Option<&str>) -> Vec<Table> {
    match shape {
        Some("000") => by_level(view, &HOTDOGS),
        Some("002") => vec![all(view, &PYTHON)],
        Some("003") => vec![all(view, &CALLS)],
        Some("001") => vec![all(view, &WRK)],
        Some("004") => vec![all(view, &AB)],
        _ => by_level(view, &GENERAL),
    }
}

/// Printed rows and the cells that reproduce them, one below the other in the columns of the study.
pub fn beside(shape: &str, pairs: &[(&Seen<'_>, &Row)]) -> Table {
    let columns: &[Column] = match shape {
        "000" => &HOTDOGS,
        "001" => &WRK,
        "002" => &PYTHON,
        "003" => &CALLS,
        "004" => &AB,
        _ => &GENERAL,
    };
    let with_rate = columns.iter().any(|(_, figure, _)| *figure == "goodput");
    let rate: Column = ("good/s", "goodput", count);
    let columns = || columns.iter().chain((!with_rate).then_some(&rate));
    let absent = || "–".to_string();
    let lines = pairs.iter().flat_map(|(seen, printed)| {
        let was = |(_, figure, show): &Column| printed.figure(figure).map_or_else(absent, show);
        let is = |(_, figure, show): &Column| {
            let stat = seen.stat(figure);
            stat.map_or_else(absent, |stat| show(stat.point))
        };
        let spread = seen.stat("goodput").map(|stat| stat.uncertainty());
        let here = super::view::axes(seen.cell);
        let mut above = vec![printed.label(), "printed".to_string()];
        above.extend(columns().map(was));
        above.push(String::new());
        let mut below = vec![here, "here".to_string()];
        below.extend(columns().map(is));
        below.push(spread.unwrap_or_default());
        [above, below]
    });
    let mut headings = vec!["row".to_string(), String::new()];
    headings.extend(columns().map(|(heading, _, _)| heading.to_string()));
    headings.push("±".to_string());
    Table {
        title: String::new(),
        headings,
        rows: lines.collect(),
    }
}

/// A column: heading, figure, format.
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

const CALLS: [Column; 9] = [
    ("calls", "requests", whole),
    ("calls/sec", "goodput", count),
    ("errors", "errors", share),
    ("min ms", "min", two),
    ("max ms", "max", two),
    ("50p ms", "median", two),
    ("75p ms", "p75", two),
    ("90p ms", "p90", two),
    ("bytes", "bytes", whole),
];

/// Columns of wrk.
const WRK: [Column; 8] = [
    ("Latency avg ms", "mean", two),
    ("Stdev ms", "stdev", two),
    ("Max ms", "max", two),
    ("99 % ms", "p99", two),
    ("requests", "requests", whole),
    ("errors", "errors", share),
    ("Requests/sec", "goodput", number),
    ("bytes", "bytes", whole),
];

/// Columns of ab.
const AB: [Column; 12] = [
    ("Complete", "requests", whole),
    ("Failed", "errors", share),
    ("Requests/sec", "goodput", number),
    ("min ms", "min", two),
    ("mean ms", "mean", two),
    ("sd ms", "stdev", two),
    ("50 % ms", "median", two),
    ("75 % ms", "p75", two),
    ("90 % ms", "p90", two),
    ("95 % ms", "p95", two),
    ("99 % ms", "p99", two),
    ("100 % ms", "max", two),
];

const GENERAL: [Column; 9] = [
    ("good/s", "goodput", count),
    ("errors", "errors", share),
    ("median ms", "median", two),
    ("average ms", "mean", two),
    ("p95 ms", "p95", two),
    ("p99 ms", "p99", two),
    ("max ms", "max", two),
    ("CPU µs/response", "cpu_us", two),
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
        let figure = |(_, figure, show): &Column| match (seen.stat(figure), *figure) {
            (None, _) => "–".to_string(),
            (Some(stat), "cpu_us") => resolved(stat.point, seen.row.cpu_us_step),
            (Some(stat), _) => show(stat.point),
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

/// `nginx-default-synthetic`, as in study 000, followed by further axes.
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

/// Two decimals, or for small numbers two digits.
fn two(value: f64) -> String {
    match value.abs() < 0.1 {
        true => number(value),
        false => format!("{value:.2}"),
    }
}

fn share(value: f64) -> String {
    match value {
        0.0 => "0".to_string(),
        value => format!("{:.2} %", value * 100.0),
    }
}
