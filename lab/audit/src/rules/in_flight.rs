//! A1, Little's law: the number of requests in flight is rate times mean latency (Little, "A proof for the queuing
//! formula L = lambda W", 1961). In a closed loop it cannot exceed the clients, and clients that do nothing else reach
//! it.

use super::{lines, positions, rows_word};
use crate::evidence::{Row, Sheet};
use crate::finding::{Finding, Weight, number, percent, span};
use crate::statistics::order::median;

/// Ratio of requests in flight to clients at which a closed loop is sound. Below, clients spend time outside the
/// measured latency; above, more was in flight than there were clients. The tolerance is for rounding, ramps and ends
/// of the window.
const SOUND: (f64, f64) = (0.85, 1.05);

/// A share of failures from which they explain that latency and rate do not fit.
const FAILING: f64 = 0.05;

/// Requests in flight according to rate and latency.
pub fn in_flight(row: &Row) -> Option<f64> {
    Some(row.rate_counted()? * row.latency.mean? / 1000.0)
}

/// For a row with blocks the median over them: medians of rate and of latency may come from different blocks.
fn share(row: &Row) -> Option<f64> {
    if !row.blocks.is_empty() {
        let shares: Vec<f64> = row.blocks.iter().filter_map(share).collect();
        return median(&shares);
    }
    let clients = row.clients.filter(|c| *c > 0.0 && row.offered.is_none())?;
    Some(in_flight(row)? / clients)
}

fn shares(sheet: &Sheet, rows: &[usize]) -> Vec<f64> {
    let found = rows.iter().filter_map(|at| share(&sheet.rows[*at]));
    found.collect()
}

/// The ratio if rounding in print made the mean larger or smaller than it was.
fn rounded(row: &Row, direction: f64) -> Option<f64> {
    let mean = row.latency.mean.filter(|mean| *mean > 0.0)?;
    Some(share(row)? * (1.0 + direction * row.latency.rounding / mean))
}

fn arithmetic(row: &Row) -> String {
    if !row.blocks.is_empty() {
        let share = percent(share(row).unwrap_or(0.0));
        return format!("rate x mean latency is {share} of the clients in the median block");
    }
    let (rate, mean) = (row.rate_counted(), row.latency.mean);
    let (rate, mean) = (rate.unwrap_or(0.0), mean.unwrap_or(0.0));
    format!(
        "{}/s x {} ms = {} in flight, {} of {} clients",
        number(rate),
        number(mean),
        number(rate * mean / 1000.0),
        percent(share(row).unwrap_or(0.0)),
        number(row.clients.unwrap_or(0.0))
            .trim_end_matches(".00")
            .trim_end_matches(".0"),
    )
}

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let above = |row: &Row| rounded(row, -1.0).is_some_and(|s| s > SOUND.1);
    let below = |row: &Row| rounded(row, 1.0).is_some_and(|s| s < SOUND.0);
    let failing = |row: &Row| row.failed_share.unwrap_or(0.0) >= FAILING;
    let late = |row: &Row| counts_from_before(sheet, row);
    let mut findings = Vec::new();
    findings.extend(impossible(
        sheet,
        &positions(sheet, |row| above(row) && !late(row)),
    ));
    findings.extend(long_window(
        sheet,
        &positions(sheet, |row| above(row) && late(row)),
    ));
    findings.extend(failures(
        sheet,
        &positions(sheet, |row| below(row) && failing(row)),
    ));
    findings.extend(elsewhere(
        sheet,
        &positions(sheet, |row| below(row) && !failing(row)),
    ));
    let sound = positions(sheet, |row| {
        share(row).is_some() && !above(row) && !below(row)
    });
    findings.extend(adds_up(sheet, &sound));
    findings
}

/// Whether responses that were under way at an end of the window explain that more was in flight than there were clients.
fn counts_from_before(sheet: &Sheet, row: &Row) -> bool {
    let (Some(max), Some(seconds)) = (row.latency.max, row.seconds) else {
        return false;
    };
    let windows = max / (seconds * 1000.0);
    match sheet.tool == OURS {
        // Each client had one request under way when the window began, for at most the longest time there was.
        true => share(row).is_some_and(|share| share <= SOUND.1 + windows),
        false => windows > 1.0,
    }
}

fn impossible(sheet: &Sheet, rows: &[usize]) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    let title = format!(
        "{}: an average larger than the clients allow",
        rows_word(rows.len())
    );
    let finding = Finding::new("A1", Weight::Contradiction, title)
        .means(
            "A closed loop never has more requests in flight than it has clients. Rate and average latency cannot both be \
             right; the rate is a count, so the average is the likelier one to be off (some tools rewrite latencies after \
             the run, or take them from a sample).",
        )
        .advise("Use the rate, and ignore the latencies of these rows. Clients divided by rate is the mean that fits.");
    let line = |row: &Row| {
        let implied = row.clients.unwrap_or(0.0) / row.rate_counted().unwrap_or(1.0) * 1000.0;
        format!(
            "{}; the mean that fits the rate is {} ms",
            arithmetic(row),
            number(implied)
        )
    };
    Some(lines(finding, sheet, rows, line))
}

/// The tool of the lab's own results, as `ours` names it.
const OURS: &str = "sluice-lab";

fn long_window(sheet: &Sheet, rows: &[usize]) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    if sheet.tool == OURS {
        // The window is exact; what began before it and ended inside counts with its whole duration.
        let title = format!(
            "{}: responses began before the window",
            rows_word(rows.len())
        );
        let finding = Finding::new("A1", Weight::Limit, title)
            .means(
                "Requests that began before the window and ended inside it count with their whole duration, so the mean is \
                 that of a longer time than the rate.",
            )
            .advise("Measure for many times as long as the slowest response takes.");
        return Some(lines(finding, sheet, rows, arithmetic));
    }
    let title = format!(
        "{}: the window was longer than printed",
        rows_word(rows.len())
    );
    let finding = Finding::new("A1", Weight::Contradiction, title)
        .means(
            "The slowest response took longer than the window, so requests were counted that ended after it (k6 waits up to \
             30 s for them by default). Divided by the printed seconds, the rate is too high.",
        )
        .advise("Count requests that ended inside the window; report those still in flight separately.");
    Some(lines(finding, sheet, rows, arithmetic))
}

fn failures(sheet: &Sheet, rows: &[usize]) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    let shares = shares(sheet, rows);
    let title = format!(
        "{} with failures: the latencies explain only {} of the clients' time",
        rows_word(rows.len()),
        span(&shares, percent)
    );
    let finding = Finding::new("A1", Weight::Limit, title)
        .means(
            "Clients spent most of their time in something that no latency column shows: connects that failed, waits, \
             requests that ended at once and count as about 0 ms. Median and average of these rows describe the failures, \
             so they cannot show that successful responses stayed fast.",
        )
        .advise("Separate the latencies of successful responses from those of failures, and include the time to connect.");
    let line = |row: &Row| {
        let failed = percent(row.failed_share.unwrap_or(0.0));
        format!("{}, failures {failed}", arithmetic(row))
    };
    Some(lines(finding, sheet, rows, line))
}

fn elsewhere(sheet: &Sheet, rows: &[usize]) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    let shares = shares(sheet, rows);
    let title = format!(
        "{}: latency accounts for {} of the clients' time",
        rows_word(rows.len()),
        span(&shares, percent)
    );
    let finding = Finding::new("A1", Weight::Note, title)
        .means(
            "The rest passed between a response and the next request: in the generator, before its clock starts, or while \
             connections were opened and the last responses awaited. With short latencies, few clients or a short run that \
             is common; it means that more than the server is in the rate.",
        )
        .advise("Measure the generator against a server that does nothing, with the same clients; run longer.");
    Some(lines(finding, sheet, rows, arithmetic))
}

fn adds_up(sheet: &Sheet, rows: &[usize]) -> Option<Finding> {
    if rows.is_empty() {
        return None;
    }
    let shares = shares(sheet, rows);
    let in_sound = |share: &f64| (SOUND.0..=SOUND.1).contains(share);
    let digits = if shares.iter().all(in_sound) {
        ""
    } else {
        ", which their few digits allow"
    };
    let title = format!(
        "{}: rate x mean latency is {} of the clients{digits}",
        rows_word(rows.len()),
        span(&shares, percent)
    );
    let finding = Finding::new("A1", Weight::Sound, title)
        .means("Rate and average latency of these rows agree with each other.");
    Some(finding.about(rows.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::random::Random;

    /// Simulates a closed loop: each client sends its next request when it has its response.
    fn simulated(clients: usize, seed: u64) -> Row {
        let mut random = Random::new(seed);
        let (window, mut responses, mut total) = (200.0, 0.0, 0.0);
        for _ in 0..clients {
            let mut now = 0.0;
            loop {
                let took = 0.05 - 0.2 * (1.0 - random.unit()).ln();
                now += took;
                if now > window {
                    break;
                }
                responses += 1.0;
                total += took;
            }
        }
        Row {
            clients: Some(clients as f64),
            seconds: Some(window),
            responses: Some(responses),
            latency: crate::evidence::Latency {
                mean: Some(total / responses * 1000.0),
                ..Default::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn a_closed_loop_that_is_measured_right_is_sound() {
        for seed in 1..20 {
            let row = simulated(seed as usize * 7, seed);
            let share = share(&row).expect("all figures are there");
            assert!((0.97..=1.0).contains(&share), "seed {seed}: {share}");
        }
    }

    /// k6 counts what ends after its window; the lab does not, and its figures do not contradict each other then.
    #[test]
    fn responses_longer_than_a_window_mean_something_else_in_the_lab() {
        let mut row = simulated(10, 3);
        row.seconds = row.seconds.map(|seconds| seconds / 1.2);
        row.latency.max = Some(300_000.0);
        let found = |tool: &str| {
            let sheet = Sheet {
                tool: tool.into(),
                rows: vec![row.clone()],
                ..Sheet::default()
            };
            long_window(&sheet, &[0]).unwrap().weight
        };
        assert_eq!(found("k6"), Weight::Contradiction);
        assert_eq!(found(OURS), Weight::Limit);
    }

    #[test]
    fn what_began_before_the_window_explains_no_more_than_its_longest_time() {
        let mut row = simulated(10, 3);
        row.seconds = Some(1.0);
        let findings_of = |row: &Row, excess: f64, max: f64| {
            let mut row = row.clone();
            row.responses = Some(100.0);
            row.latency.mean = Some((1.0 + excess) * 10.0 / 100.0 * 1000.0);
            row.latency.max = Some(max);
            let sheet = Sheet {
                tool: OURS.into(),
                rows: vec![row],
                ..Sheet::default()
            };
            check(&sheet)[0].weight
        };
        assert_eq!(findings_of(&row, 0.5, 600.0), Weight::Limit);
        assert_eq!(findings_of(&row, 0.7, 600.0), Weight::Contradiction);
    }

    #[test]
    fn open_loops_are_not_judged() {
        let row = Row {
            offered: Some(10.0),
            ..simulated(10, 3)
        };
        assert_eq!(share(&row), None);
    }
}
