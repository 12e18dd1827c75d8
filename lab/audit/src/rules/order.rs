//! A6, order: minimum, percentiles, mean and maximum that no set of numbers can have.

use super::{lines, positions, rows_word};
use crate::evidence::{Latency, Row, Sheet};
use crate::finding::{Finding, Weight, number};

/// Tolerance for rounding in print: a thousandth of the value and half a hundredth of a millisecond.
fn room(value: f64) -> f64 {
    value.abs() * 1e-3 + 0.006
}

fn exceeds(one: f64, other: f64) -> bool {
    one > other + room(one.max(other))
}

/// Everything that is impossible about these latencies, as sentences.
fn breaches(latency: &Latency) -> Vec<String> {
    let mut points: Vec<(String, f64)> = Vec::new();
    points.extend(latency.min.map(|v| ("min".to_string(), v)));
    let name = |q: f64| format!("p{}", (q * 1e5).round() / 1e3);
    points.extend(latency.quantiles.iter().map(|(q, v)| (name(*q), *v)));
    points.extend(latency.max.map(|v| ("max".to_string(), v)));
    let mut found = Vec::new();
    for pair in points.windows(2) {
        if exceeds(pair[0].1, pair[1].1) {
            found.push(format!(
                "{} {} ms is above {} {} ms",
                pair[0].0,
                number(pair[0].1),
                pair[1].0,
                number(pair[1].1)
            ));
        }
    }
    let Some(mean) = latency.mean else {
        return found;
    };
    if let Some(max) = latency.max.filter(|max| exceeds(mean, *max)) {
        found.push(format!(
            "the average {} ms is above the maximum {} ms",
            number(mean),
            number(max)
        ));
    }
    if let Some(min) = latency.min.filter(|min| exceeds(*min, mean)) {
        found.push(format!(
            "the average {} ms is below the minimum {} ms",
            number(mean),
            number(min)
        ));
    }
    if found.is_empty() {
        found.extend(mean_bounds(latency, mean));
        found.extend(deviation_bound(latency, mean));
    }
    found
}

/// The mean lies between its values if every response took the shortest or the longest time that the percentiles allow.
fn mean_bounds(latency: &Latency, mean: f64) -> Option<String> {
    let mut edges = vec![(0.0, latency.min.unwrap_or(0.0))];
    edges.extend(latency.quantiles.iter().copied());
    edges.push((1.0, latency.max.unwrap_or(f64::INFINITY)));
    let part = |pair: &[(f64, f64)], value: f64| (pair[1].0 - pair[0].0) * value;
    let low: f64 = edges.windows(2).map(|pair| part(pair, pair[0].1)).sum();
    let high: f64 = edges.windows(2).map(|pair| part(pair, pair[1].1)).sum();
    if exceeds(low, mean) {
        return Some(format!(
            "the average {} ms is below {} ms, the least that the percentiles allow",
            number(mean),
            number(low)
        ));
    }
    exceeds(mean, high).then(|| {
        format!(
            "the average {} ms is above {} ms, the most that the percentiles allow",
            number(mean),
            number(high)
        )
    })
}

/// A standard deviation is at most sqrt((max - mean)(mean - min)) (Bhatia and Davis, "A better bound on the variance",
/// 2000).
fn deviation_bound(latency: &Latency, mean: f64) -> Option<String> {
    let (deviation, max) = (latency.deviation?, latency.max?);
    let bound = ((max - mean) * (mean - latency.min.unwrap_or(0.0)))
        .max(0.0)
        .sqrt();
    // Rounded means make this bound less certain than the others.
    let beyond = deviation > bound * 1.01 + 2.0 * room(max);
    beyond.then(|| {
        format!(
            "a deviation of {} ms is more than the {} ms possible",
            number(deviation),
            number(bound)
        )
    })
}

/// For a row with blocks what is impossible within one of them: medians may come from different blocks.
fn of_row(row: &Row) -> Vec<String> {
    if row.blocks.is_empty() {
        return breaches(&row.latency);
    }
    row.blocks
        .iter()
        .flat_map(|block| breaches(&block.latency))
        .collect()
}

/// Runs the rule.
pub fn check(sheet: &Sheet) -> Vec<Finding> {
    let rows = positions(sheet, |row| !of_row(row).is_empty());
    if rows.is_empty() {
        return Vec::new();
    }
    let title = format!("{}: figures in an impossible order", rows_word(rows.len()));
    let finding = Finding::new("A6", Weight::Contradiction, title)
        .means("No set of measurements has these figures together; at least one of them is wrong.")
        .advise("Keep the tool's raw output and take the figure again with another tool.");
    let line = |row: &Row| of_row(row).join("; ");
    vec![lines(finding, sheet, &rows, line)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::random::Random;

    fn measured(values: &mut [f64]) -> Latency {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let at = |q: f64| (q, values[((n * q).ceil() as usize).max(1) - 1]);
        Latency {
            rounding: 0.0,
            min: Some(values[0]),
            mean: Some(mean),
            deviation: Some(variance.sqrt()),
            max: Some(values[values.len() - 1]),
            quantiles: [0.5, 0.9, 0.95, 0.99].map(at).to_vec(),
        }
    }

    #[test]
    fn real_measurements_are_never_impossible() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let count = 2 + random.below(400);
            let tail = random.unit() * 4.0;
            let mut values: Vec<f64> = (0..count).map(|_| (random.normal() * tail).exp()).collect();
            let latency = measured(&mut values);
            assert!(
                breaches(&latency).is_empty(),
                "seed {seed}: {:?}",
                breaches(&latency)
            );
        }
    }

    #[test]
    fn each_impossible_order_is_reported() {
        let sound = || Latency {
            rounding: 0.0,
            min: Some(1.0),
            mean: Some(3.0),
            deviation: Some(2.0),
            max: Some(20.0),
            quantiles: vec![(0.5, 2.0), (0.9, 6.0), (0.99, 11.0)],
        };
        assert!(breaches(&sound()).is_empty());
        let finding_of = |change: fn(&mut Latency)| {
            let mut latency = sound();
            change(&mut latency);
            breaches(&latency).join("; ")
        };
        assert_eq!(
            finding_of(|l| l.mean = Some(25.0)),
            "the average 25.0 ms is above the maximum 20.0 ms"
        );
        assert_eq!(
            finding_of(|l| l.mean = Some(0.5)),
            "the average 0.50 ms is below the minimum 1.00 ms"
        );
        assert_eq!(
            finding_of(|l| l.min = Some(4.0)),
            "min 4.00 ms is above p50 2.00 ms; the average 3.00 ms is below the minimum 4.00 ms"
        );
        assert_eq!(
            finding_of(|l| l.quantiles[1].1 = 12.0),
            "p90 12.0 ms is above p99 11.0 ms"
        );
        assert_eq!(
            finding_of(|l| l.mean = Some(1.2)),
            "the average 1.20 ms is below 1.95 ms, the least that the percentiles allow"
        );
        assert_eq!(
            finding_of(|l| l.mean = Some(5.5)),
            "the average 5.50 ms is above 4.59 ms, the most that the percentiles allow"
        );
        assert_eq!(
            finding_of(|l| l.deviation = Some(9.0)),
            "a deviation of 9.00 ms is more than the 5.83 ms possible"
        );
    }
}
