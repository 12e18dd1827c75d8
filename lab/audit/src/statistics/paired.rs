//! Ratios of two subjects within the same block. Whatever slows a whole block down (another guest on the host, a warm
//! CPU) slows both subjects and cancels out in the ratio.

use super::bootstrap::{Interval, median_interval};
use super::order::median;
use crate::limits::CONFIDENCE;

/// `other` against `base`, over the blocks that have both.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Paired {
    /// `other / base` of each block, in the order of blocks.
    pub ratios: Vec<f64>,
    /// The median of the ratios.
    pub point: f64,
    /// The 95 % confidence interval of the ratio; absent with too few blocks.
    pub interval: Option<Interval>,
}

/// Pairs two series of the same length by position; a block that lacks either is ignored. `None` if no block has both
/// with positive numbers.
pub fn pair(base: &[Option<f64>], other: &[Option<f64>]) -> Option<Paired> {
    let positive = |v: &Option<f64>| v.filter(|v| v.is_finite() && *v > 0.0);
    let both = base.iter().zip(other);
    let logs: Vec<f64> = both
        .filter_map(|(b, o)| Some((positive(o)? / positive(b)?).ln()))
        .collect();
    // On the logarithmic scale half and double are equally far from one.
    let point = median(&logs)?.exp();
    let interval = median_interval(&logs, CONFIDENCE).map(|i| Interval {
        low: i.low.exp(),
        high: i.high.exp(),
    });
    Some(Paired {
        ratios: logs.iter().map(|log| log.exp()).collect(),
        point,
        interval,
    })
}

/// The noise floor: the largest difference that one subject showed against itself, as a factor above 1. Smaller
/// differences between others are never reported as such. `None` without a pair.
pub fn noise_floor(pairs: &[Paired]) -> Option<f64> {
    let away = |ratio: f64| ratio.ln().abs();
    let worst = |pair: &Paired| match pair.interval {
        Some(interval) => away(interval.low).max(away(interval.high)),
        None => pair.ratios.iter().copied().map(away).fold(0.0, f64::max),
    };
    pairs.iter().map(worst).reduce(f64::max).map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::random::Random;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn what_slows_both_falls_out() {
        let base = [100.0, 50.0, 80.0, 120.0, 95.0];
        let other: Vec<f64> = base.iter().map(|v| v * 1.1).collect();
        let paired = pair(&some(&base), &some(&other)).expect("five blocks");
        assert!((paired.point - 1.1).abs() < 1e-9);
        let interval = paired.interval.expect("five blocks");
        assert!((interval.low - 1.1).abs() < 1e-9 && (interval.high - 1.1).abs() < 1e-9);
    }

    #[test]
    fn blocks_that_one_lacks_are_left_out() {
        let paired = pair(
            &[Some(10.0), None, Some(0.0)],
            &[Some(20.0), Some(5.0), Some(9.0)],
        );
        assert_eq!(paired.expect("one block").ratios.len(), 1);
        assert_eq!(pair(&[None], &[Some(1.0)]), None);
    }

    #[test]
    fn swapping_the_subjects_inverts_the_ratio() {
        let mut random = Random::new(11);
        let base: Vec<f64> = (0..7).map(|_| (random.normal() * 0.1).exp()).collect();
        let other: Vec<f64> = (0..7).map(|_| (random.normal() * 0.1).exp()).collect();
        let one = pair(&some(&base), &some(&other)).expect("seven");
        let two = pair(&some(&other), &some(&base)).expect("seven");
        assert!((one.point * two.point - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_floor_is_the_worst_difference_of_one_with_itself() {
        let same = pair(&some(&[100.0, 104.0, 97.0]), &some(&[102.0, 100.0, 99.0])).expect("three");
        let floor = noise_floor(&[same]).expect("a pair");
        assert!((floor - 1.04).abs() < 1e-9, "{floor}");
        assert_eq!(noise_floor(&[]), None);
    }
}
