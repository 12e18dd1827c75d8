//! How surprising a difference would be if there were none, with correction for many cells tested at once.

use crate::limits::{FLIPS, FLIPS_EXACT_BLOCKS_MAX};
use sluice_load::random::Random;

/// The probability that values as far above 0 as these come from a distribution around 0: compares the mean with the
/// means under all choices of signs (Fisher's permutation test, one-sided). 1 if empty.
pub fn chance_above_zero(values: &[f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return 1.0;
    }
    let sum: f64 = values.iter().sum();
    // Sums that differ only by rounding are equal.
    let least = sum - 1e-12 * values.iter().map(|v| v.abs()).sum::<f64>();
    let with_signs = |bits: u64| -> f64 {
        let signed = |(at, v): (usize, &f64)| if bits >> at & 1 == 1 { -v } else { *v };
        values.iter().enumerate().map(signed).sum()
    };
    if n <= FLIPS_EXACT_BLOCKS_MAX {
        let all = 1_u64 << n;
        let hits = (0..all).filter(|bits| with_signs(*bits) >= least).count();
        return hits as f64 / all as f64;
    }
    let mut random = Random::new(0xf11b);
    let hits = (0..FLIPS).filter(|_| with_signs(random.bits()) >= least);
    // The observation itself is one of the choices.
    (hits.count() + 1) as f64 / (FLIPS + 1) as f64
}

/// The smallest probability that `blocks` blocks can show.
pub fn chance_min(blocks: usize) -> f64 {
    0.5_f64.powi(i32::try_from(blocks).unwrap_or(i32::MAX))
}

/// Number of blocks with which a test at `level` detects a mean of `distance` above 0 in four of five runs, if blocks
/// have the standard deviation `deviation`; at least as many as can show anything at all.
pub fn blocks_for(distance: f64, deviation: f64, level: f64) -> usize {
    const FOUR_OF_FIVE: f64 = 0.841_6;
    let least = (1..).find(|blocks| chance_min(*blocks) <= level);
    let spread = deviation / distance.max(f64::MIN_POSITIVE);
    let wanted = ((quantile_above(level) + FOUR_OF_FIVE) * spread).powi(2);
    // Beyond a thousand blocks, reducing the noise is the better way.
    least.unwrap_or(1).max(wanted.ceil().min(1_000.0) as usize)
}

/// The value that a normal variable exceeds with this probability, below one half (Abramowitz and Stegun, 26.2.23; to
/// 0.0005).
fn quantile_above(chance: f64) -> f64 {
    let t = (-2.0 * chance.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// Which of several findings are significant at `level` in total (Holm, "A simple sequentially rejective multiple test
/// procedure", 1979): the smallest probability is compared with level / n, the next with level / (n - 1), until one
/// fails.
pub fn holm(chances: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut stands = vec![false; chances.len()];
    for (rank, at) in order.into_iter().enumerate() {
        if chances[at] > level / (chances.len() - rank) as f64 {
            break;
        }
        stands[at] = true;
    }
    stands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_all_signs() {
        assert_eq!(chance_above_zero(&[1.0, 2.0, 3.0, 4.0, 5.0]), 1.0 / 32.0);
        assert_eq!(chance_above_zero(&[-1.0, -2.0]), 1.0);
        assert_eq!(chance_above_zero(&[]), 1.0);
        assert_eq!(chance_min(5), 1.0 / 32.0);
        // 1 - 1 + 2 with all signs: sums 4, 2, 2, 0 and their negatives; three of eight reach 2.
        assert_eq!(chance_above_zero(&[1.0, -1.0, 2.0]), 3.0 / 8.0);
    }

    #[test]
    fn without_a_difference_one_in_twenty_is_called() {
        let seed = 5;
        let mut random = Random::new(seed);
        let mut called = 0;
        for _ in 0..2000 {
            let values: Vec<f64> = (0..8).map(|_| random.normal()).collect();
            called += usize::from(chance_above_zero(&values) <= 0.05);
        }
        // 100 are expected with a standard deviation of 9.7.
        assert!(
            (60..=140).contains(&called),
            "seed {seed}: {called} of 2000"
        );
    }

    #[test]
    fn power_needs_blocks_that_grow_with_the_noise() {
        assert!((quantile_above(0.05) - 1.645).abs() < 0.001);
        assert!((quantile_above(0.005) - 2.576).abs() < 0.001);
        // Without noise as many as the sign test needs: 1 in 32 is below 5 %, and 1 in 128 below 5 % of six.
        assert_eq!(blocks_for(0.03, 0.0, 0.05), 5);
        assert_eq!(blocks_for(0.03, 0.0, 0.05 / 6.0), 7);
        assert_eq!(blocks_for(0.03, 0.06, 0.05), 25);
        // The estimate is correct: with 25 blocks four of five shifts are detected.
        let mut random = Random::new(11);
        let found = (0..400).filter(|_| {
            let values: Vec<f64> = (0..25).map(|_| 0.03 + 0.06 * random.normal()).collect();
            let mean = values.iter().sum::<f64>() / 25.0;
            mean / (0.06 / 5.0) > 1.645
        });
        let found = found.count();
        assert!((280..=360).contains(&found), "{found} of 400");
    }

    #[test]
    fn many_cells_need_more() {
        assert_eq!(holm(&[0.01, 0.04, 0.03], 0.05), [true, false, false]);
        assert_eq!(holm(&[0.01, 0.02, 0.03], 0.05), [true, true, true]);
        assert!(holm(&[], 0.05).is_empty());
    }
}
