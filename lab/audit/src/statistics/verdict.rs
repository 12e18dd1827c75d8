//! Verdicts on ratios. A difference is reported only if the whole interval lies on one side of 1 and beyond the noise
//! floor.

use std::fmt;

use super::paired::Paired;
use crate::limits::BLOCKS_MIN;

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better: responses per second.
    Higher,
    /// Lower is better: latency, CPU time, memory.
    Lower,
}

/// What the blocks show about two subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, by more than the noise floor.
    Faster,
    /// Worse, by more than the noise floor.
    Slower,
    /// The whole interval lies within the margin: whatever the difference is, it does not matter.
    NoDifference,
    /// The interval is too wide, or the difference below the noise floor.
    NotShown,
    /// Fewer blocks than an interval needs.
    TooFewBlocks {
        /// Number of blocks that have both.
        blocks: usize,
    },
    /// The cells did not do the same work, or one of them is unusable.
    NotComparable {
        /// The reason, as text.
        reason: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Faster => out.write_str("faster"),
            Verdict::Slower => out.write_str("slower"),
            Verdict::NoDifference => out.write_str("no difference that matters"),
            Verdict::NotShown => out.write_str("no difference shown"),
            Verdict::TooFewBlocks { blocks } => {
                write!(out, "too few blocks ({blocks} of {BLOCKS_MIN})")
            }
            Verdict::NotComparable { reason } => write!(out, "not comparable: {reason}"),
        }
    }
}

/// The scale that a difference is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Differences up to this share do not matter (0.03).
    pub margin: f64,
    /// The noise floor, as a factor above 1; unknown without an A/A run.
    pub floor: Option<f64>,
    /// Which direction is good.
    pub better: Better,
}

/// The verdict on `other / base`.
pub fn judge(paired: &Paired, scale: Scale) -> Verdict {
    let Some(interval) = paired.interval else {
        return Verdict::TooFewBlocks {
            blocks: paired.ratios.len(),
        };
    };
    let margin = (1.0 + scale.margin).ln();
    let (low, high) = (interval.low.ln(), interval.high.ln());
    if low > -margin && high < margin {
        return Verdict::NoDifference;
    }
    let floor = scale.floor.unwrap_or(1.0).ln();
    let beyond = paired.point.ln().abs() > floor;
    let side = if low > 0.0 {
        Better::Higher
    } else if high < 0.0 {
        Better::Lower
    } else {
        return Verdict::NotShown;
    };
    match (beyond, side == scale.better) {
        (false, _) => Verdict::NotShown,
        (true, true) => Verdict::Faster,
        (true, false) => Verdict::Slower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::paired::{noise_floor, pair};
    use sluice_load::random::Random;

    const SCALE: Scale = Scale {
        margin: 0.03,
        floor: None,
        better: Better::Higher,
    };

    fn judged(base: &[f64], other: &[f64], scale: Scale) -> Verdict {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        judge(&pair(&some(base), &some(other)).expect("blocks"), scale)
    }

    #[test]
    fn each_word_has_its_case() {
        let base = [100.0, 101.0, 99.0, 100.0, 102.0];
        let times = |factor: f64| base.map(|v| v * factor);
        assert_eq!(judged(&base, &times(1.2), SCALE), Verdict::Faster);
        assert_eq!(judged(&base, &times(0.8), SCALE), Verdict::Slower);
        let latency = Scale {
            better: Better::Lower,
            ..SCALE
        };
        assert_eq!(judged(&base, &times(0.8), latency), Verdict::Faster);
        assert_eq!(judged(&base, &times(1.01), SCALE), Verdict::NoDifference);
        let wide = [90.0, 121.0, 85.0, 130.0, 99.0];
        assert_eq!(judged(&base, &wide, SCALE), Verdict::NotShown);
        let few = judged(&base[..3], &times(2.0)[..3], SCALE);
        assert_eq!(few, Verdict::TooFewBlocks { blocks: 3 });
        assert_eq!(few.to_string(), "too few blocks (3 of 5)");
    }

    #[test]
    fn nothing_below_the_noise_floor_is_called() {
        let base = [100.0, 101.0, 99.0, 100.0, 102.0];
        let other = base.map(|v| v * 1.08);
        let noisy = Scale {
            floor: Some(1.1),
            ..SCALE
        };
        assert_eq!(judged(&base, &other, SCALE), Verdict::Faster);
        assert_eq!(judged(&base, &other, noisy), Verdict::NotShown);
    }

    /// One subject against itself: at most one run in twenty may be called different. The floor comes from a separate
    /// run.
    #[test]
    fn one_subject_does_not_differ_from_itself() {
        for (blocks, noise) in [(5, 0.02), (5, 0.1), (8, 0.05)] {
            let seed = 40 + blocks as u64;
            let mut random = Random::new(seed);
            let mut called = 0;
            for _ in 0..400 {
                let mut run = |n: usize| -> Vec<f64> {
                    (0..n)
                        .map(|_| 1000.0 * (random.normal() * noise).exp())
                        .collect()
                };
                let some = |v: Vec<f64>| v.into_iter().map(Some).collect::<Vec<_>>();
                let own = pair(&some(run(blocks)), &some(run(blocks))).expect("blocks");
                let scale = Scale {
                    floor: noise_floor(&[own]),
                    ..SCALE
                };
                let verdict = judged(&run(blocks), &run(blocks), scale);
                called += usize::from(matches!(verdict, Verdict::Faster | Verdict::Slower));
            }
            assert!(
                called <= 20,
                "{blocks} blocks, noise {noise}, seed {seed}: {called} of 400"
            );
        }
    }

    #[test]
    fn real_differences_are_found() {
        let seed = 77;
        let mut random = Random::new(seed);
        let mut found = 0;
        for _ in 0..200 {
            let base: Vec<f64> = (0..8)
                .map(|_| 1000.0 * (random.normal() * 0.03).exp())
                .collect();
            let other: Vec<f64> = (0..8)
                .map(|_| 1150.0 * (random.normal() * 0.03).exp())
                .collect();
            found += usize::from(judged(&base, &other, SCALE) == Verdict::Faster);
        }
        assert!(found >= 190, "seed {seed}: {found} of 200");
    }
}
