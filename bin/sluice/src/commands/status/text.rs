//! The status as text: its values, and the page of `sluice status`.

use std::fmt::Write;

use sluice_observe::status::{Certificate, ConfigSourceView, Snapshot, Traffic, Urgency};

/// Text without control characters: names and paths come from clients, and a terminal would obey theirs. Characters that
/// change the direction of the text are replaced as well.
pub fn clean(text: &str) -> String {
    let is_unsafe = |char: char| {
        char.is_control()
            || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    text.chars()
        .map(|char| if is_unsafe(char) { '\u{fffd}' } else { char })
        .collect()
}

/// Text that is cut to `width` characters, or filled up to it.
pub fn fit(text: &str, width: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= width {
        return format!("{text:<width$}");
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A number, shortened from ten thousand on.
pub fn count(value: u64) -> String {
    let shown = value as f64;
    match value {
        0..10_000 => value.to_string(),
        10_000..1_000_000 => format!("{:.1}k", shown / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", shown / 1e6),
        _ => format!("{:.1}G", shown / 1e9),
    }
}

/// A rate per second.
pub fn rate(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..0.05 => "<0.1".to_owned(),
        ..100.0 => format!("{value:.1}"),
        _ => count(value.round() as u64),
    }
}

/// A size.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut shown, mut unit) = (value as f64, 0);
    while shown >= 1024.0 && unit + 1 < units.len() {
        shown /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value} B"),
        _ if shown >= 100.0 => format!("{shown:.0} {}", units[unit]),
        _ => format!("{shown:.1} {}", units[unit]),
    }
}

/// A duration of requests in seconds.
pub fn latency(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(..0.001) => "<1ms".to_owned(),
        Some(seconds @ ..0.1) => format!("{:.1}ms", seconds * 1e3),
        Some(seconds @ ..1.0) => format!("{:.0}ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1}s"),
    }
}

/// A share.
pub fn share(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0%".to_owned(),
        Some(..0.001) => "<0.1%".to_owned(),
        Some(share) => format!("{:.1}%", share * 100.0),
    }
}

/// A longer period in seconds.
pub fn period(seconds: f64) -> String {
    let all = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (all / 86_400, all % 86_400 / 3600, all % 3600 / 60);
    match (days, hours, minutes) {
        (3.., _, _) => format!("{days}d"),
        (1.., _, _) => format!("{days}d {hours}h"),
        (0, 1.., _) => format!("{hours}h {minutes}m"),
        (0, 0, 1..) => format!("{minutes}m"),
        (0, 0, 0) => format!("{all}s"),
    }
}

/// What needs attention, most urgent first, one line each.
pub fn problems(snapshot: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(last) = snapshot.reloads.last.as_ref().filter(|last| !last.ok) {
        let ago = period(snapshot.at - last.at);
        let error = last.error.as_deref().unwrap_or("no reason is known");
        let error = error.lines().next().unwrap_or_default();
        found.push(format!("configuration rejected {ago} ago: {error}"));
    }
    if let Some(source) = &snapshot.config_source {
        found.extend(source_problem(source));
    }
    for upstream in snapshot.upstreams.rows.iter().filter(|one| !one.healthy) {
        let why = upstream.reasons.join("; ");
        found.push(format!("upstream {} is down: {why}", upstream.address));
    }
    for application in &snapshot.python.rows {
        if application.state == "failed" {
            let why = application.last_failure.as_deref();
            let why = why.unwrap_or("no process could be started");
            let why = why.lines().next().unwrap_or_default();
            found.push(format!("python {} has failed: {why}", application.name));
        }
    }
    let certificates = snapshot.certificates.rows.iter();
    found.extend(certificates.filter_map(|one| certificate_problem(one, snapshot.at)));
    found
}

fn source_problem(source: &ConfigSourceView) -> Option<String> {
    if let Some(refusal) = &source.refusal {
        let why = refusal.lines().next().unwrap_or_default();
        return Some(format!("configuration of {} refused: {why}", source.place));
    }
    let error = source.error.as_deref()?;
    let why = error.lines().next().unwrap_or_default();
    Some(format!("{} cannot be read: {why}", source.place))
}

/// One line about the fleet.
fn fleet(source: &ConfigSourceView) -> String {
    let revision = source.running.as_deref().unwrap_or("none");
    let lag = source
        .lag
        .map_or(String::new(), |lag| format!(", {} behind", period(lag)));
    clean(&format!(
        "node {} of {}, revision {revision}{lag}",
        source.node, source.place
    ))
}

fn certificate_problem(certificate: &Certificate, now: f64) -> Option<String> {
    let names = certificate.names.join(", ");
    if let Some(why) = &certificate.last_failure {
        return Some(format!("certificate for {names} cannot be obtained: {why}"));
    }
    let expires = certificate.expires?;
    match certificate.urgency(now) {
        Urgency::None => None,
        Urgency::Soon | Urgency::Critical if expires <= now => {
            Some(format!("certificate for {names} has expired"))
        }
        Urgency::Soon | Urgency::Critical => {
            let left = period(expires - now);
            Some(format!("certificate for {names} expires in {left}"))
        }
    }
}

/// One line about all requests.
pub fn requests(traffic: &Traffic) -> String {
    format!(
        "{}/s ({}/s in 1 min), errors {}, p50 {}, p99 {}, {} in flight, {} in total",
        rate(traffic.rate_10s),
        rate(traffic.rate_1m),
        share(traffic.error_share_1m),
        latency(traffic.p50_1m),
        latency(traffic.p99_1m),
        count(traffic.in_flight),
        count(traffic.requests),
    )
}

/// One line about the process.
pub fn process(snapshot: &Snapshot) -> String {
    let connections = &snapshot.connections;
    let mut text = format!("{} connections", count(connections.open));
    // Writing to a string does not fail.
    if let Some(max) = connections.max {
        let _ = write!(text, " of {}", count(max));
    }
    if let Some(cpu) = snapshot.process.cpu {
        let _ = write!(text, ", {:.0}% CPU", cpu * 100.0);
    }
    if let Some(resident) = snapshot.process.resident_bytes {
        let _ = write!(text, ", {} of memory", bytes(resident));
    }
    let _ = write!(text, ", {} sent", bytes(snapshot.requests.bytes_sent));
    text
}

/// The page of `sluice status`.
pub fn page(snapshot: &Snapshot, address: &str) -> String {
    let server = &snapshot.server;
    let mut text = format!(
        "sluice {} at {}, PID {}, up {}\n",
        clean(&server.version),
        clean(address),
        server.pid,
        period(server.uptime)
    );
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    line(format!("requests     {}", requests(&snapshot.requests)));
    line(format!("process      {}", process(snapshot)));
    if let Some(source) = &snapshot.config_source {
        line(format!("fleet        {}", fleet(source)));
    }
    for problem in problems(snapshot) {
        line(format!("problem      {}", clean(&problem)));
    }
    line(String::new());
    line(SITE_HEAD.to_owned());
    for site in &snapshot.sites.rows {
        line(site_line(&site.name, &site.traffic, NAME_WIDTH));
    }
    if let Some(rest) = &snapshot.sites.rest {
        let name = format!(
            "({} more)",
            snapshot.sites.total - snapshot.sites.rows.len()
        );
        line(site_line(&name, rest, NAME_WIDTH));
    }
    if !snapshot.upstreams.rows.is_empty() {
        line(String::new());
        line("UPSTREAM                         STATE  REASON".to_owned());
    }
    for upstream in &snapshot.upstreams.rows {
        let state = match (upstream.ejected, upstream.draining, upstream.healthy) {
            (Some(_), _, _) => "out",
            (None, true, _) => "drain",
            (None, false, true) => "up",
            (None, false, false) => "down",
        };
        let why = clean(&upstream.reasons.join("; "));
        let words = format!("{} {state:<6} {why}", fit(&upstream.address, 32));
        line(words.trim_end().to_owned());
    }
    text
}

/// The width of names of sites on the page.
const NAME_WIDTH: usize = 32;

/// The head of the table of sites, for names of [`NAME_WIDTH`].
const SITE_HEAD: &str = "SITE                                REQ/S  ERRORS     P50     P99  IN FLIGHT  REQUESTS      SENT";

/// A line of that table.
fn site_line(name: &str, traffic: &Traffic, width: usize) -> String {
    format!(
        "{} {:>8} {:>7} {:>7} {:>7} {:>10} {:>9} {:>9}",
        fit(name, width),
        rate(traffic.rate_10s),
        share(traffic.error_share_1m),
        latency(traffic.p50_1m),
        latency(traffic.p99_1m),
        count(traffic.in_flight),
        count(traffic.requests),
        bytes(traffic.bytes_sent),
    )
}

#[cfg(test)]
mod tests {
    use sluice_observe::status::{Reloads, Site, Sites};

    use super::*;

    #[test]
    fn a_node_shows_its_fleet_and_what_it_refuses() {
        let source = ConfigSourceView {
            place: "etcd://h/k".into(),
            node: "a".into(),
            running: Some("ba7816bf8f01".into()),
            lag: Some(60.0),
            ..ConfigSourceView::default()
        };
        let shown = |source: &ConfigSourceView| {
            let snapshot = Snapshot {
                config_source: Some(source.clone()),
                ..Snapshot::default()
            };
            page(&snapshot, "localhost:2019")
        };
        let expected = "\nfleet        node a of etcd://h/k, revision ba7816bf8f01, 1m behind\n";
        assert!(shown(&source).contains(expected), "{}", shown(&source));
        assert!(!shown(&source).contains("problem"));
        let source = ConfigSourceView {
            error: Some("refused\nmore".into()),
            ..source
        };
        assert!(shown(&source).contains("problem      etcd://h/k cannot be read: refused\n"));
        let source = ConfigSourceView {
            refusal: Some("no".into()),
            ..source
        };
        assert!(shown(&source).contains("problem      configuration of etcd://h/k refused: no\n"));
    }

    #[test]
    fn a_terminal_gets_no_commands_of_clients() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}b\r\n";
        let shown = clean(hostile);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(!shown.contains('\u{202e}'));
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("\u{1b}[2J", 9).chars().count(), 9);
    }

    #[test]
    fn values_are_short() {
        assert_eq!(
            [0, 9999, 10_000, 2_500_000].map(count),
            ["0", "9999", "10.0k", "2.5M"]
        );
        assert_eq!(
            [0, 1023, 1536, 200 << 20].map(bytes),
            ["0 B", "1023 B", "1.5 KiB", "200 MiB"]
        );
        assert_eq!(
            [0.0, 0.01, 12.34, 512.4].map(rate),
            ["0", "<0.1", "12.3", "512"]
        );
        let latencies = [None, Some(0.0001), Some(0.0123), Some(0.5), Some(2.5)].map(latency);
        assert_eq!(latencies, ["-", "<1ms", "12.3ms", "500ms", "2.5s"]);
        assert_eq!(
            [None, Some(0.0), Some(0.0001), Some(0.125)].map(share),
            ["-", "0%", "<0.1%", "12.5%"]
        );
        assert_eq!(
            [5.0, 90.0, 3700.0, 90_000.0, 4e5].map(period),
            ["5s", "1m", "1h 1m", "1d 1h", "4d"]
        );
    }

    #[test]
    fn the_page_has_problems_and_sites() {
        let snapshot = Snapshot {
            at: 1000.0,
            reloads: Reloads {
                last: Some(sluice_observe::status::ReloadOutcome {
                    at: 940.0,
                    error: Some("error[x]: bad\nmore".to_owned()),
                    ..Default::default()
                }),
                ..Reloads::default()
            },
            sites: Sites {
                total: 3,
                rows: vec![Site {
                    name: "a.test".to_owned(),
                    ..Site::default()
                }],
                rest: Some(Traffic::default()),
            },
            ..Snapshot::default()
        };
        let page = page(&snapshot, "localhost:2019");
        assert!(
            page.contains("problem      configuration rejected 1m ago: error[x]: bad\n"),
            "{page}"
        );
        assert!(page.contains("\na.test  "), "{page}");
        assert!(page.contains("\n(2 more)  "), "{page}");
        let head = page
            .lines()
            .find(|line| line.starts_with("SITE"))
            .map(str::len);
        let row = page
            .lines()
            .find(|line| line.starts_with("a.test"))
            .map(str::len);
        assert_eq!(head, row);
    }
}
