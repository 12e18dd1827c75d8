//! Confidence intervals by the bootstrap, bias-corrected and accelerated (BCa: Efron, "Better bootstrap confidence
//! intervals", 1987). With few blocks all resamples are enumerated instead of drawn, so that the result is
//! deterministic.

use super::order::median_sorted;
use crate::limits::{BLOCKS_EXACT_MAX, BLOCKS_MIN, RESAMPLES};
use sluice_load::random::Random;

/// The range of the true value, as far as the blocks show.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The interval of the median over blocks at `confidence` (0.95). `None` for fewer than `BLOCKS_MIN` blocks or if a
/// value is NaN or infinite.
pub fn median_interval(blocks: &[f64], confidence: f64) -> Option<Interval> {
    let usable = blocks.len() >= BLOCKS_MIN && blocks.iter().all(|v| v.is_finite());
    if !usable {
        return None;
    }
    let mut sorted = blocks.to_vec();
    sorted.sort_by(f64::total_cmp);
    let point = median_sorted(&sorted)?;
    let distribution = Distribution::of_medians(&sorted);
    let bias = normal_quantile(distribution.share_below(point).clamp(1e-9, 1.0 - 1e-9));
    let acceleration = acceleration(&sorted);
    let end = |share: f64| {
        let z = bias + normal_quantile(share);
        let level = normal_share(bias + z / (1.0 - acceleration * z));
        distribution.quantile(level)
    };
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval {
        low: end(tail),
        high: end(1.0 - tail),
    })
}

/// The acceleration of BCa, by jackknife: leaves out each block once.
fn acceleration(sorted: &[f64]) -> f64 {
    let without = |at: usize| {
        let rest: Vec<f64> = [&sorted[..at], &sorted[at + 1..]].concat();
        median_sorted(&rest).unwrap_or(sorted[at])
    };
    let medians: Vec<f64> = (0..sorted.len()).map(without).collect();
    let mean = medians.iter().sum::<f64>() / medians.len() as f64;
    let sum = |power: i32| medians.iter().map(|m| (mean - m).powi(power)).sum::<f64>();
    let squares = sum(2);
    if squares == 0.0 {
        return 0.0;
    }
    sum(3) / (6.0 * squares.powf(1.5))
}

/// Values with weights that add up to 1, in ascending order.
struct Distribution {
    values: Vec<(f64, f64)>,
}

impl Distribution {
    fn of_medians(sorted: &[f64]) -> Self {
        let mut values = if sorted.len() <= BLOCKS_EXACT_MAX {
            let mut values = Vec::new();
            let mut counts = vec![0; sorted.len()];
            count_resamples(sorted, 0, sorted.len(), 1.0, &mut counts, &mut values);
            values
        } else {
            drawn_resamples(sorted)
        };
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
        let total: f64 = values.iter().map(|(_, weight)| weight).sum();
        values.iter_mut().for_each(|(_, weight)| *weight /= total);
        Distribution { values }
    }

    /// The share below `point`; values equal to it count half.
    fn share_below(&self, point: f64) -> f64 {
        let share = |(value, weight): &(f64, f64)| match value.total_cmp(&point) {
            std::cmp::Ordering::Less => *weight,
            std::cmp::Ordering::Equal => *weight / 2.0,
            std::cmp::Ordering::Greater => 0.0,
        };
        self.values.iter().map(share).sum()
    }

    fn quantile(&self, level: f64) -> f64 {
        let mut sum = 0.0;
        for (value, weight) in &self.values {
            sum += weight;
            if sum >= level {
                return *value;
            }
        }
        self.values.last().map_or(f64::NAN, |(value, _)| *value)
    }
}

/// Enumerates the ways to draw `left` more values from `sorted[at..]`, weighted by the number of orders.
fn count_resamples(
    sorted: &[f64],
    at: usize,
    left: usize,
    weight: f64,
    counts: &mut [usize],
    found: &mut Vec<(f64, f64)>,
) {
    if at + 1 == sorted.len() {
        counts[at] = left;
        let values = sorted.iter().zip(counts.iter());
        let sample: Vec<f64> = values
            .flat_map(|(value, count)| std::iter::repeat_n(*value, *count))
            .collect();
        found.extend(median_sorted(&sample).map(|median| (median, weight / factorial(left))));
        return;
    }
    for count in 0..=left {
        counts[at] = count;
        let weight = weight / factorial(count);
        count_resamples(sorted, at + 1, left - count, weight, counts, found);
    }
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|k| k as f64).product()
}

fn drawn_resamples(sorted: &[f64]) -> Vec<(f64, f64)> {
    // The seed is fixed: the same blocks give the same interval everywhere.
    let mut random = Random::new(0x5eed);
    let mut sample = vec![0.0; sorted.len()];
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        sample.fill_with(|| sorted[random.below(sorted.len())]);
        sample.sort_by(f64::total_cmp);
        values.extend(median_sorted(&sample).map(|median| (median, 1.0)));
    }
    values
}

/// The share of the normal distribution below `z`, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
pub fn normal_share(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let sum = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    let beyond = sum * (-x * x).exp() / 2.0;
    if z > 0.0 { 1.0 - beyond } else { beyond }
}

/// The inverse of `normal_share`, by bisection.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_share(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_has_its_known_values() {
        for (z, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_7),
            (1.959_964, 0.975),
            (-2.326_348, 0.01),
        ] {
            assert!((normal_share(z) - share).abs() < 1e-6, "{z}");
            assert!((normal_quantile(share) - z).abs() < 1e-4, "{share}");
        }
    }

    #[test]
    fn few_blocks_have_no_interval_and_equal_ones_a_point() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0], 0.95), None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, f64::NAN], 0.95), None);
        let point = median_interval(&[7.0; 6], 0.95).expect("six blocks");
        assert_eq!((point.low, point.high), (7.0, 7.0));
    }

    #[test]
    fn counted_and_drawn_resamples_agree() {
        let sorted = [1.0, 2.0, 4.0, 7.0, 11.0, 16.0, 22.0];
        let counted = Distribution::of_medians(&sorted);
        let drawn = drawn_resamples(&sorted);
        let below = |limit: f64| {
            let hits = drawn.iter().filter(|(v, _)| *v < limit).count();
            hits as f64 / drawn.len() as f64
        };
        for limit in [1.5, 3.0, 5.0, 9.0, 13.0, 18.0] {
            let exact = counted.share_below(limit);
            // 10,000 draws: the standard deviation is at most 0.005; four of them.
            assert!((exact - below(limit)).abs() < 0.02, "{limit}: {exact}");
        }
    }

    /// How often the interval contains the true median. For the median of five blocks nothing better than smallest to
    /// largest exists, which covers 1 - 2/32 = 93.75 %.
    #[test]
    fn intervals_cover_what_they_promise() {
        type Shape = (&'static str, fn(&mut Random) -> f64, f64);
        let shapes: [Shape; 3] = [
            ("normal", |r| r.normal(), 0.0),
            ("lognormal", |r| r.normal().exp(), 1.0),
            (
                "exponential",
                |r| -(1.0 - r.unit()).ln(),
                std::f64::consts::LN_2,
            ),
        ];
        for (name, draw, truth) in shapes {
            for (blocks, runs) in [(5, 400), (8, 100), (12, 30)] {
                let seed = 0xc0ffee + blocks as u64;
                let mut random = Random::new(seed);
                let mut hits = 0;
                for _ in 0..runs {
                    let sample: Vec<f64> = (0..blocks).map(|_| draw(&mut random)).collect();
                    let interval = median_interval(&sample, 0.95).expect("enough blocks");
                    hits += usize::from(interval.contains(truth));
                }
                let share = hits as f64 / runs as f64;
                // 92 % less four standard deviations of the count.
                let least = 0.92 - 4.0 * (0.92 * 0.08 / runs as f64).sqrt();
                assert!(
                    share > least,
                    "{name}, {blocks} blocks, seed {seed}: covers {share}"
                );
            }
        }
    }

    #[test]
    fn intervals_shrink_with_blocks_and_scale_with_values() {
        let mut random = Random::new(3);
        let many: Vec<f64> = (0..40).map(|_| 100.0 + random.normal()).collect();
        let width = |i: Interval| i.high - i.low;
        let few = median_interval(&many[..6], 0.95).expect("six");
        let all = median_interval(&many, 0.95).expect("forty");
        assert!(width(all) < width(few), "{all:?} {few:?}");
        let doubled: Vec<f64> = many[..6].iter().map(|v| v * 2.0).collect();
        let twice = median_interval(&doubled, 0.95).expect("six");
        assert!((twice.low - 2.0 * few.low).abs() < 1e-9);
    }
}
