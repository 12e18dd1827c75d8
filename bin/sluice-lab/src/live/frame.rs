//! The live view as lines of a given width.

use std::fmt::Write;
use std::time::Duration;

use sluice_load::quantity::{thousands, time};
use sluice_load::result::FailureClass;

/// The state to display.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The current step.
    pub name: String,
    /// Progress of the whole run, from 0 to 1.
    pub share: f64,
    /// Estimated time left for the whole run.
    pub left: Duration,
    /// Phase of the step.
    pub phase: Phase,
    /// Successful requests per second, over the last second.
    pub rate: Option<f64>,
    /// The same over time, for a sparkline.
    pub rates: Vec<f64>,
    /// Approximate median of the last second, in nanoseconds.
    pub median_ns: Option<f64>,
    /// Approximate 99th percentile.
    pub p99_ns: Option<f64>,
    /// Successful requests of the window.
    pub ok: u64,
    /// Failures of the window by class.
    pub failures: Vec<(FailureClass, u64)>,
    /// CPUs in use: 1 is one full CPU.
    pub cpu: Vec<(&'static str, f64)>,
}

/// Phase of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Servers start, connections open.
    #[default]
    Opening,
    /// Time until the window begins.
    WarmUp(Duration),
    /// Elapsed time and length of the window.
    Window(Duration, Duration),
    /// Elapsed time of a window limited by its number of requests.
    Endless(Duration),
    /// Requests in flight may end.
    Draining,
}

/// Narrower terminals get this width, cut at the edge.
const NARROWEST: usize = 20;

/// Maximum width of the bar and the sparkline: wider ones would not be easier to read.
const BAR_MAX: usize = 40;

/// Eighths of a block, for the sparkline.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Failure classes named in a line; the rest are counted together.
const CLASSES_MAX: usize = 3;

/// The lines, each at most `width` columns wide, without line endings.
pub fn frame(facts: &Facts, width: usize, colours: bool) -> Vec<String> {
    // The last column stays free: some terminals wrap when it is filled.
    let width = width.max(NARROWEST) - 1;
    let mut lines = vec![paint(&cut(&head(facts, width), width), "1", colours)];
    let bar = bar(facts, width);
    lines.push(cut(&bar, width));
    lines.push(cut(&throughput(facts, width), width));
    let failures = failures(facts);
    let (text, colour) = match failures.is_empty() {
        true => ("  failed 0".to_string(), "32"),
        false => (format!("  failed {failures}"), "31"),
    };
    lines.push(paint(&cut(&text, width), colour, colours));
    if !facts.cpu.is_empty() {
        lines.push(paint(&cut(&cpu(facts), width), "2", colours));
    }
    lines
}

/// The same in one line, for output that is not redrawn.
pub fn plain(facts: &Facts) -> String {
    let mut text = format!("{}: {}", facts.name, phase(facts));
    if let Some(rate) = facts.rate {
        let _ = write!(text, ", {}/s", thousands(rate));
    }
    if let (Some(median), Some(p99)) = (facts.median_ns, facts.p99_ns) {
        let _ = write!(
            text,
            ", p50 about {}, p99 about {}",
            time(median),
            time(p99)
        );
    }
    let failures = failures(facts);
    let failures = if failures.is_empty() { "0" } else { &failures };
    let _ = write!(text, ", failed {failures}, {} left", length(facts.left));
    text
}

fn head(facts: &Facts, width: usize) -> String {
    let phase = phase(facts);
    let room = width.saturating_sub(phase.chars().count() + 2);
    if room < facts.name.chars().count().min(12) {
        return facts.name.clone();
    }
    let name = cut(&facts.name, room);
    let gap = width - name.chars().count() - phase.chars().count();
    format!("{name}{:gap$}{phase}", "")
}

fn phase(facts: &Facts) -> String {
    let s = |duration: Duration| format!("{:.1}", duration.as_secs_f64());
    match facts.phase {
        Phase::Opening => "starting".to_string(),
        Phase::WarmUp(left) => format!("warm-up, {} s", s(left)),
        Phase::Window(passed, whole) => format!("{} of {} s", s(passed), s(whole)),
        Phase::Endless(passed) => format!("{} s", s(passed)),
        Phase::Draining => "draining".to_string(),
    }
}

fn bar(facts: &Facts, width: usize) -> String {
    let left = format!(
        " {:3.0} %, {} left",
        facts.share * 100.0,
        length(facts.left)
    );
    let room = width.saturating_sub(left.chars().count() + 2).min(BAR_MAX);
    let full = (room as f64 * facts.share.clamp(0.0, 1.0)) as usize;
    format!("  {}{}{left}", "█".repeat(full), "░".repeat(room - full))
}

fn throughput(facts: &Facts, width: usize) -> String {
    let mut text = match facts.rate {
        Some(rate) => format!("  {}/s", thousands(rate)),
        None => "  –/s".to_string(),
    };
    for (name, value) in [("p50", facts.median_ns), ("p99", facts.p99_ns)] {
        let value = value.map_or("–".to_string(), |ns| format!("≈{}", time(ns)));
        let _ = write!(text, "  {name} {value}");
    }
    if facts.ok > 0 {
        let _ = write!(text, "  ok {}", thousands(facts.ok as f64));
    }
    let room = width.saturating_sub(text.chars().count() + 2).min(BAR_MAX);
    if room >= 8 && facts.rates.len() > 1 {
        let from = facts.rates.len().saturating_sub(room);
        let most = facts.rates[from..].iter().copied().fold(0.0, f64::max);
        let level = |rate: &f64| match most > 0.0 {
            true => LEVELS[((rate / most * 7.0).round() as usize).min(7)],
            false => LEVELS[0],
        };
        text += "  ";
        text.extend(facts.rates[from..].iter().map(level));
    }
    text
}

/// `12 reset before the response, 3 wrong status`; empty without failures.
fn failures(facts: &Facts) -> String {
    let mut most: Vec<&(FailureClass, u64)> = facts.failures.iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (named, rest) = most.split_at(most.len().min(CLASSES_MAX));
    let mut words: Vec<String> = named
        .iter()
        .map(|(class, count)| format!("{} {}", thousands(*count as f64), class.words()))
        .collect();
    let rest: u64 = rest.iter().map(|(_, count)| count).sum();
    if rest > 0 {
        words.push(format!("{} others", thousands(rest as f64)));
    }
    words.join(", ")
}

fn cpu(facts: &Facts) -> String {
    let parts = facts.cpu.iter();
    let parts: Vec<String> = parts
        .map(|(name, used)| format!("{name} {:.0} %", used * 100.0))
        .collect();
    format!("  CPU {}", parts.join("  "))
}

/// Formats a duration.
pub fn length(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds < 90 => format!("{seconds} s"),
        seconds if seconds < 5_400 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Truncates to `width` characters with `…`. All characters used here are one column wide; names chosen by the user may
/// have others, and are then cut at the wrong column.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn paint(text: &str, code: &str, colours: bool) -> String {
    match colours {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            name: "[12/72] nginx optimized, proxy, 200 clients".into(),
            share: 0.25,
            left: Duration::from_secs(240),
            phase: Phase::Window(Duration::from_millis(1_800), Duration::from_secs(3)),
            rate: Some(52_310.4),
            rates: (0..60).map(f64::from).collect(),
            median_ns: Some(3.2e6),
            p99_ns: Some(11e6),
            ok: 94_158,
            failures: vec![
                (FailureClass::Reset, 12),
                (FailureClass::Status, 3_000),
                (FailureClass::Dropped, 1),
                (FailureClass::Body, 2),
            ],
            cpu: vec![("subject", 0.98), ("generator", 0.61)],
        }
    }

    #[test]
    fn everything_has_its_line() {
        let lines = frame(&facts(), 100, false);
        assert_eq!(lines.len(), 5);
        assert!(lines[0].starts_with("[12/72] nginx optimized, proxy, 200 clients "));
        assert!(lines[0].ends_with("1.8 of 3.0 s") && lines[0].chars().count() == 99);
        assert!(lines[1].contains("██████████░") && lines[1].ends_with(" 25 %, 4 min left"));
        assert!(lines[2].starts_with("  52,310/s  p50 ≈3.20 ms  p99 ≈11.0 ms  ok 94,158  "));
        assert!(lines[2].ends_with('█'), "the last rate is the highest");
        assert_eq!(
            lines[3],
            "  failed 3,000 wrong status, 12 reset before the response, 2 wrong body, 1 others"
        );
        assert_eq!(lines[4], "  CPU subject 98 %  generator 61 %");
    }

    #[test]
    fn no_line_is_wider_than_the_window_and_colours_are_extra() {
        for width in [1, 20, 33, 60, 80, 200] {
            let lines = frame(&facts(), width, false);
            for line in &lines {
                let columns = line.chars().count();
                assert!(columns < width.max(20), "{columns} of {width}: {line}");
                assert!(!line.contains('\x1b'));
            }
            let painted = frame(&facts(), width, true);
            assert!(painted[0].starts_with("\x1b[1m") && painted[0].ends_with("\x1b[0m"));
            assert_eq!(painted.len(), lines.len());
        }
    }

    #[test]
    fn a_step_without_figures_yet_has_lines() {
        let nothing = Facts {
            name: "a".into(),
            ..Facts::default()
        };
        let lines = frame(&nothing, 60, false);
        assert!(lines[0].ends_with("starting"));
        assert_eq!(lines[2], "  –/s  p50 –  p99 –");
        assert_eq!(lines[3], "  failed 0");
        assert_eq!(plain(&nothing), "a: starting, failed 0, 0 s left");
        let text = plain(&facts());
        assert!(
            text.contains("1.8 of 3.0 s, 52,310/s, p50 about 3.20 ms"),
            "{text}"
        );
    }

    #[test]
    fn durations_are_shown_in_readable_units() {
        let shown = |s| length(Duration::from_secs(s));
        assert_eq!((shown(89), shown(95)), ("89 s".into(), "2 min".into()));
        assert_eq!(shown(7_300), "2 h 1 min");
    }
}
