//! Order statistics: medians, quantiles, spread, and which percentiles a sample supports.

use crate::limits::TAIL_RESPONSES_MIN;

/// The middle value, or the mean of the two middle values; `None` if empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_sorted(&sorted)
}

/// Like `median`, for sorted values.
pub fn median_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The arithmetic mean; `None` if empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Smallest and largest value; `None` if empty.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    let ends = |(low, high): (f64, f64), &v: &f64| (low.min(v), high.max(v));
    Some(values.iter().fold((first, first), ends))
}

/// Half the distance between smallest and largest value as a share of the median: the meaning of `+-2.1 %` in a table
/// if there are too few blocks for an interval.
pub fn half_spread(values: &[f64]) -> Option<f64> {
    let (low, high) = range(values)?;
    let middle = median(values)?;
    (middle != 0.0).then(|| (high - low) / 2.0 / middle.abs())
}

/// Indices of outliers: more than 3.5 by the modified z-score, 0.6745 x distance / median distance (Iglewicz and
/// Hoaglin, "How to detect and handle outliers", 1993). Fewer than 5 values have none.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(middle) = median(values).filter(|_| values.len() >= 5) else {
        return Vec::new();
    };
    let distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let typical = median(&distances).unwrap_or(0.0);
    let apart = |distance: f64| typical > 0.0 && 0.6745 * distance / typical > 3.5;
    (0..values.len())
        .filter(|&at| apart(distances[at]))
        .collect()
}

/// Whether a sample of `count` supports the quantile (`0.99` is p99): at least ten values must lie beyond it, else it
/// depends on single requests. p99.9 needs 10,000.
pub fn carries(quantile: f64, count: u64) -> bool {
    // The small addend is needed because 1 - 0.999 is slightly less than 0.001.
    count as f64 * (1.0 - quantile) + 1e-6 >= TAIL_RESPONSES_MIN as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_means() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 2.0]), Some(3.0));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(range(&[2.0, -1.0, 5.0]), Some((-1.0, 5.0)));
        assert_eq!(half_spread(&[9.0, 10.0, 11.0]), Some(0.1));
    }

    #[test]
    fn a_percentile_needs_ten_values_beyond_it() {
        assert!(carries(0.999, 10_000));
        assert!(!carries(0.999, 9_999));
        assert!(carries(0.5, 20));
        assert!(!carries(0.99, 999));
    }

    #[test]
    fn what_stands_apart_is_found() {
        assert_eq!(outliers(&[10.0, 10.2, 9.9, 10.1, 14.0]), [4]);
        assert!(outliers(&[10.0, 10.2, 9.9, 10.1, 10.3]).is_empty());
        assert!(
            outliers(&[1.0, 1.0, 1.0, 1.0, 2.0]).is_empty(),
            "no scale, no judgement"
        );
        assert!(outliers(&[1.0, 100.0]).is_empty());
    }
}
