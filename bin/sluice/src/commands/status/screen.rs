//! The screen of `sluice top`: lines for a terminal of a given size.

use std::collections::VecDeque;

use sluice_observe::status::{FailedRequest, Site, Snapshot};

use super::text::{bytes, clean, count, fit, latency, period, problems, process, rate, share};

/// What the screen shows beside the snapshot.
#[derive(Debug, Default)]
pub struct View {
    /// The order of the sites.
    pub order: Order,
    /// Sites that are skipped at the top.
    pub skipped: usize,
    /// Whether it stands still.
    pub is_paused: bool,
    /// Whether colors are used.
    pub has_colors: bool,
    /// Requests per second, the latest last.
    pub rates: VecDeque<f64>,
}

/// An order of the sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By requests per second.
    #[default]
    Rate,
    /// By the share of errors.
    Errors,
    /// By the 99th percentile.
    P99,
    /// By name.
    Name,
}

impl Order {
    /// The next one, after a key was pressed.
    pub fn next(self) -> Order {
        match self {
            Order::Rate => Order::Errors,
            Order::Errors => Order::P99,
            Order::P99 => Order::Name,
            Order::Name => Order::Rate,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Order::Rate => "requests",
            Order::Errors => "errors",
            Order::P99 => "p99",
            Order::Name => "name",
        }
    }

    fn sort(self, sites: &mut [&Site]) {
        let by = |value: fn(&Site) -> f64| {
            move |a: &&Site, b: &&Site| value(b).total_cmp(&value(a)).then(a.name.cmp(&b.name))
        };
        match self {
            Order::Rate => sites.sort_by(by(|site| site.traffic.rate_10s)),
            Order::Errors => {
                sites.sort_by(by(|site| site.traffic.error_share_1m.unwrap_or_default()));
            }
            Order::P99 => sites.sort_by(by(|site| site.traffic.p99_1m.unwrap_or_default())),
            Order::Name => sites.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }
}

/// The emphasis of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Bold,
    Problem,
    Dim,
}

/// Lines of at most `width` characters, at most `height` of them.
struct Screen {
    lines: Vec<String>,
    width: usize,
    has_colors: bool,
}

impl Screen {
    fn add(&mut self, style: Style, text: &str) {
        let line = fit(text, self.width);
        let line = line.trim_end();
        let code = match style {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Problem => "31",
            Style::Dim => "2",
        };
        self.lines.push(match self.has_colors && !code.is_empty() {
            true => format!("\x1b[{code}m{line}\x1b[0m"),
            false => line.to_owned(),
        });
    }
}

/// The lines of the screen, for a terminal with so many columns and rows.
pub fn lines(
    snapshot: &Snapshot,
    view: &View,
    address: &str,
    (width, height): (usize, usize),
) -> Vec<String> {
    let mut screen = Screen {
        lines: Vec::new(),
        width,
        has_colors: view.has_colors,
    };
    add_head(&mut screen, snapshot, view, address);
    let problems = problems(snapshot);
    for problem in problems.iter().take(PROBLEMS_MAX) {
        screen.add(Style::Problem, &format!("! {problem}"));
    }
    if problems.len() > PROBLEMS_MAX {
        let more = problems.len() - PROBLEMS_MAX;
        screen.add(
            Style::Problem,
            &format!("! {more} more problems; see `sluice status`"),
        );
    }
    screen.add(Style::Plain, "");
    // What is left, without the line of keys: failed requests get a third, at least three lines.
    let left = height.saturating_sub(screen.lines.len() + 1);
    let failures = match snapshot.failures.len() {
        0 => 0,
        some => (some + 2).min((left / 3).max(3)),
    };
    add_sites(&mut screen, snapshot, view, left.saturating_sub(failures));
    if failures > 2 {
        screen.add(Style::Plain, "");
        screen.add(Style::Bold, "FAILED REQUESTS");
        for failure in snapshot.failures.iter().take(failures - 2) {
            screen.add(Style::Plain, &failed(failure, snapshot.at));
        }
    }
    screen.lines.truncate(height.saturating_sub(1));
    while screen.lines.len() + 1 < height {
        screen.lines.push(String::new());
    }
    let order = view.order.name();
    let pause = if view.is_paused { "resume" } else { "pause" };
    let keys = format!("q quit  p {pause}  s sort (by {order})  up/down scroll");
    screen.add(Style::Dim, &keys);
    screen.lines
}

/// Problems that have lines of their own.
const PROBLEMS_MAX: usize = 3;

fn add_head(screen: &mut Screen, snapshot: &Snapshot, view: &View, address: &str) {
    let server = &snapshot.server;
    let paused = if view.is_paused { "  PAUSED" } else { "" };
    let title = format!(
        "sluice {}  {}  PID {}  up {}{paused}",
        clean(&server.version),
        clean(address),
        server.pid,
        period(server.uptime)
    );
    screen.add(Style::Bold, &title);
    let all = &snapshot.requests;
    let requests = format!(
        "requests {}/s  errors {}  p50 {}  p99 {}  in flight {}  total {}",
        rate(all.rate_10s),
        share(all.error_share_1m),
        latency(all.p50_1m),
        latency(all.p99_1m),
        count(all.in_flight),
        count(all.requests),
    );
    screen.add(Style::Plain, &requests);
    screen.add(Style::Plain, &process(snapshot));
    let chart = sparkline(&view.rates, screen.width.saturating_sub(20));
    let peak = view.rates.iter().fold(0.0f64, |peak, rate| peak.max(*rate));
    screen.add(Style::Plain, &format!("{chart}  max {}/s", rate(peak)));
}

fn add_sites(screen: &mut Screen, snapshot: &Snapshot, view: &View, rows: usize) {
    let Some(rows) = rows.checked_sub(1) else {
        return;
    };
    let mut sites: Vec<&Site> = snapshot.sites.rows.iter().collect();
    view.order.sort(&mut sites);
    let skipped = view.skipped.min(sites.len().saturating_sub(rows));
    let name_width = screen.width.saturating_sub(COLUMNS_WIDTH).max(8);
    let title = match snapshot.sites.total > rows {
        true => format!(
            "SITES ({} of {})",
            rows.min(sites.len()),
            snapshot.sites.total
        ),
        false => "SITES".to_owned(),
    };
    let head = format!(
        "{}   REQ/S  ERRORS     P50     P99  IN FLIGHT      SENT",
        fit(&title, name_width)
    );
    screen.add(Style::Bold, &head);
    for site in sites.iter().skip(skipped).take(rows) {
        let traffic = &site.traffic;
        let is_bad = traffic.error_share_1m.is_some_and(|share| share > 0.05);
        let line = format!(
            "{}{:>8}{:>8}{:>8}{:>8}{:>11}{:>10}",
            fit(&site.name, name_width),
            rate(traffic.rate_10s),
            share(traffic.error_share_1m),
            latency(traffic.p50_1m),
            latency(traffic.p99_1m),
            count(traffic.in_flight),
            bytes(traffic.bytes_sent),
        );
        screen.add(if is_bad { Style::Problem } else { Style::Plain }, &line);
    }
}

/// The width of all columns of the sites but the name.
const COLUMNS_WIDTH: usize = 53;

fn failed(failure: &FailedRequest, now: f64) -> String {
    let ago = period(now - failure.at);
    let status = match failure.status {
        0 => "none".to_owned(),
        status => status.to_string(),
    };
    format!(
        "{ago:>7} {status:>4} {} {}{}  {}",
        failure.method, failure.host, failure.path, failure.error
    )
}

/// The latest values as a line of blocks, at most `width` of them.
fn sparkline(values: &VecDeque<f64>, width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = values.iter().skip(values.len().saturating_sub(width));
    let max = values.iter().fold(0.0f64, |max, value| max.max(*value));
    let block = |value: &f64| match max > 0.0 {
        true => BLOCKS[((value / max * 7.0).round() as usize).min(7)],
        false => BLOCKS[0],
    };
    shown.map(block).collect()
}

#[cfg(test)]
mod tests {
    use sluice_observe::status::{Sites, Table, Traffic, UpstreamRow};

    use super::*;

    fn snapshot(sites: usize) -> Snapshot {
        let site = |number: usize| Site {
            name: format!("site-{number:03}.with-a-rather-long-name.example.test"),
            traffic: Traffic {
                rate_10s: number as f64,
                p99_1m: (number > 0).then(|| 1.0 / number as f64),
                bytes_sent: 1 << 40,
                requests: u64::MAX,
                ..Traffic::default()
            },
        };
        Snapshot {
            at: 100.0,
            sites: Sites {
                total: sites,
                rows: (0..sites).map(site).collect(),
                rest: None,
            },
            upstreams: Table {
                total: 9,
                rows: (0..9)
                    .map(|number| UpstreamRow {
                        address: format!("10.0.0.{number}:80"),
                        ..UpstreamRow::default()
                    })
                    .collect(),
            },
            failures: vec![
                FailedRequest {
                    path: "/\u{1b}[2J".to_owned(),
                    ..FailedRequest::default()
                };
                64
            ],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_screen_fits_and_has_no_commands_of_clients() {
        for (width, height) in [(80, 24), (40, 12), (200, 60), (1, 1), (20, 3)] {
            for sites in [0, 1, 500] {
                let view = View {
                    rates: (0..100).map(f64::from).collect(),
                    ..View::default()
                };
                let lines = lines(&snapshot(sites), &view, "localhost:2019", (width, height));
                assert_eq!(lines.len(), height, "{width}x{height} {sites}");
                for line in lines {
                    assert!(line.chars().count() <= width, "{width}x{height}: {line}");
                    assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn in_80_by_24_all_parts_are_seen() {
        let view = View::default();
        let text = lines(&snapshot(30), &view, "localhost:2019", (80, 24)).join("\n");
        for part in [
            "requests 0/s",
            "! upstream 10.0.0.0:80 is down",
            "! 6 more problems",
            "SITES (9 of 30)",
            "site-029",
            "FAILED REQUESTS",
            "q quit",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn sites_are_sorted_and_scrolled() {
        let first = |view: &View| {
            let lines = lines(&snapshot(30), view, "", (80, 24));
            let head = lines.iter().position(|line| line.starts_with("SITES"));
            lines[head.expect("a head") + 1][..8].to_owned()
        };
        let mut view = View::default();
        assert_eq!(first(&view), "site-029");
        view.skipped = 2;
        assert_eq!(first(&view), "site-027");
        view.skipped = 1000;
        assert_eq!(first(&view), "site-008", "the last page is full");
        view.skipped = 0;
        view.order = Order::P99;
        assert_eq!(first(&view), "site-001");
        view.order = view.order.next();
        assert_eq!(first(&view), "site-000");
        assert_eq!(view.order.next(), Order::Rate);
    }

    #[test]
    fn colors_are_used_only_if_wanted() {
        let mut view = View::default();
        let has_codes = |view: &View| {
            let lines = lines(&snapshot(3), view, "", (80, 24));
            lines.iter().any(|line| line.contains('\x1b'))
        };
        assert!(!has_codes(&view));
        view.has_colors = true;
        assert!(has_codes(&view));
    }
}
