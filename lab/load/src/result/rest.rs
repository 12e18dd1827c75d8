//! The pause before a block.

use serde::{Deserialize, Serialize};

/// The pause before a block, in which the machine comes to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// How long it took.
    pub waited_s: f64,
    /// Whether the machine was idle at its end; `None` if the experiment does not wait for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<bool>,
    /// Share of all CPUs that was busy in its last interval, from 0 to 1; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Local ports that connections in TIME_WAIT held at its end, to one destination.
    pub ports_held: u64,
    /// The most that may be held so that the block has enough.
    pub ports_held_max: u64,
}

impl Rest {
    /// The pauses of two machines, those of the load and of the servers, as one: both were idle or one was not, and the ports are
    /// those of the machine that has fewer left.
    pub fn of_both(one: Option<Rest>, other: Option<Rest>) -> Option<Rest> {
        let (Some(one), Some(other)) = (one, other) else {
            return one.or(other);
        };
        let left = |rest: &Rest| rest.ports_held_max as i128 - rest.ports_held as i128;
        let scarce = if left(&other) < left(&one) {
            other
        } else {
            one
        };
        let busy = one.busy.into_iter().chain(other.busy);
        Some(Rest {
            waited_s: one.waited_s + other.waited_s,
            idle: match (one.idle, other.idle) {
                (Some(one), Some(other)) => Some(one && other),
                (known, None) | (None, known) => known,
            },
            busy: busy.reduce(f64::max),
            ..scarce
        })
    }

    /// Whether the block began although the machine was busy.
    pub fn is_busy(&self) -> bool {
        self.idle == Some(false)
    }

    /// Whether the block began with too few free ports.
    pub fn is_short_of_ports(&self) -> bool {
        self.ports_held > self.ports_held_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_machines_the_worse_one_counts() {
        let idle = Rest {
            waited_s: 1.0,
            idle: Some(true),
            busy: Some(0.01),
            ports_held: 90,
            ports_held_max: 100,
        };
        let busy = Rest {
            waited_s: 2.0,
            idle: Some(false),
            busy: Some(0.7),
            ports_held: 900,
            ports_held_max: 1000,
        };
        let both = Rest::of_both(Some(idle), Some(busy)).unwrap();
        assert_eq!((both.idle, both.busy), (Some(false), Some(0.7)));
        assert_eq!((both.ports_held, both.ports_held_max), (90, 100));
        assert_eq!(both.waited_s, 3.0);
        let same = Rest::of_both(Some(busy), Some(idle));
        assert_eq!(same, Some(both));
        assert_eq!(Rest::of_both(None, Some(busy)), Some(busy));
        assert_eq!(Rest::of_both(Some(idle), None), Some(idle));
        assert_eq!(Rest::of_both(None, None), None);
        // A machine that did not look whether it is idle says nothing about that.
        let ports = Rest { idle: None, ..busy };
        let both = Rest::of_both(Some(idle), Some(ports)).unwrap();
        assert_eq!(both.idle, Some(true));
    }
}
