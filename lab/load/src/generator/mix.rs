//! Several requests in one load, each with a weight: their order, and which figures belong to which.

use std::sync::Arc;

use super::limits::{MIX_MAX, MIX_SEQUENCE_MAX};
use super::request::Prepared;

/// The requests of a mix; empty for a load of a single one.
#[derive(Clone, Debug, Default)]
pub struct Mix {
    /// Each request's name and weight.
    pub parts: Vec<(String, u32)>,
    /// For each request of the plan, the index of its part.
    pub part_of: Arc<[usize]>,
}

impl Mix {
    /// The sequence in which the requests are sent, in turn, and the mix. A request of weight 3 occurs three times as often
    /// as one of weight 1, as evenly as possible. The error names a limit.
    pub fn of(requests: Vec<(String, u32, Prepared)>) -> Result<(Vec<Prepared>, Mix), String> {
        if requests.len() > MIX_MAX {
            return Err(format!(
                "{} requests in one load; at most {MIX_MAX}",
                requests.len()
            ));
        }
        if let Some((name, _, _)) = requests.iter().find(|(_, weight, _)| *weight == 0) {
            return Err(format!("the weight of `{name}` is 0; remove its line"));
        }
        let weights = requests.iter().map(|(_, weight, _)| *weight);
        let order = turns(&weights.collect::<Vec<u32>>())?;
        let sequence = order.iter().map(|at| requests[*at].2.clone()).collect();
        let parts = requests.into_iter().map(|(name, weight, _)| (name, weight));
        let mix = Mix {
            parts: parts.collect(),
            part_of: order.into(),
        };
        Ok((sequence, mix))
    }
}

/// The order in which parts of these weights take turns, until it repeats.
pub(super) fn turns(weights: &[u32]) -> Result<Vec<usize>, String> {
    let divisor = weights.iter().fold(0, |all, weight| common(all, *weight));
    let weights = weights.iter().map(|weight| weight / divisor.max(1));
    smooth(&weights.collect::<Vec<u32>>())
}

/// The greatest common divisor.
fn common(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        other => common(other, one % other),
    }
}

/// Indices in the order of smooth weighted round robin: the part that has waited longest for its share is next.
fn smooth(weights: &[u32]) -> Result<Vec<usize>, String> {
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if sum > MIX_SEQUENCE_MAX {
        let text = format!(
            "the weights add up to {sum}, without a common divisor; at most {MIX_SEQUENCE_MAX}"
        );
        return Err(text);
    }
    let mut credits = vec![0_i64; weights.len()];
    let mut order = Vec::new();
    for _ in 0..sum {
        for (credit, weight) in credits.iter_mut().zip(weights) {
            *credit += i64::from(*weight);
        }
        // The first of the highest.
        let most = credits.iter().copied().max().unwrap_or(0);
        let at = credits
            .iter()
            .position(|credit| *credit == most)
            .unwrap_or(0);
        credits[at] -= sum as i64;
        order.push(at);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_turns_by_weight() {
        assert_eq!(smooth(&[1, 1]).unwrap(), [0, 1]);
        assert_eq!(smooth(&[3, 1]).unwrap(), [0, 0, 1, 0]);
        let order = smooth(&[5, 1, 1]).unwrap();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
        assert!(
            smooth(&[u32::MAX, 1])
                .unwrap_err()
                .contains("add up to 4294967296")
        );
        assert_eq!(common(60, common(40, 20)), 20);
    }
}
