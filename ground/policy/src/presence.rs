//! Whether another node responds, learned from the requests that are sent to it. A node that does not is left out for a
//! while; then one request finds out, and all others go on without it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sluice_message::Moment;

use crate::limits::{NODE_PAUSE, NODE_SILENCES_MAX};

/// How a request to a node failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The connection was refused or reset: the node is away.
    Unreachable,
    /// No response in time: the node is away, or what it does takes long.
    Silent,
}

/// Whether a node changed with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is as before.
    None,
    /// It was there, and is away from now on.
    Left,
    /// It was away, and is there again.
    Returned,
}

/// The presence of one node. All workers share it.
#[derive(Debug, Default)]
pub struct Presence {
    /// Until when it is left out, in nanoseconds plus one; 0 while it is there.
    away_until: AtomicU64,
    /// Requests in a row without a response in time.
    silences: AtomicU32,
}

impl Presence {
    /// A node that is there.
    pub const fn new() -> Presence {
        Presence {
            away_until: AtomicU64::new(0),
            silences: AtomicU32::new(0),
        }
    }

    /// Whether it is there, or a request may find out whether it is.
    pub fn may_be_there(&self, now: Moment) -> bool {
        nanos(now) >= self.away_until.load(Ordering::Relaxed)
    }

    /// Takes the right to send it a request: always while it is there, and for one request after each pause.
    pub fn claim(&self, now: Moment) -> bool {
        let until = self.away_until.load(Ordering::Relaxed);
        let now = nanos(now);
        let next = later(now);
        until == 0
            || now >= until
                && self
                    .away_until
                    .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
    }

    /// Notes a response.
    pub fn note_response(&self) -> Change {
        self.silences.store(0, Ordering::Relaxed);
        match self.away_until.swap(0, Ordering::Relaxed) {
            0 => Change::None,
            _ => Change::Returned,
        }
    }

    /// Notes a request that failed. A single one without a response in time says little: the node may be waiting, too.
    pub fn note_failure(&self, missed: Missed, now: Moment) -> Change {
        let is_away = match missed {
            Missed::Unreachable => true,
            Missed::Silent => {
                self.silences.fetch_add(1, Ordering::Relaxed) + 1 >= NODE_SILENCES_MAX
            }
        };
        if !is_away {
            return Change::None;
        }
        match self.away_until.swap(later(nanos(now)), Ordering::Relaxed) {
            0 => Change::Left,
            _ => Change::None,
        }
    }
}

fn later(now: u64) -> u64 {
    let pause = u64::try_from(NODE_PAUSE.as_nanos()).unwrap_or(u64::MAX);
    now.saturating_add(pause)
}

fn nanos(moment: Moment) -> u64 {
    let nanos = u64::try_from(moment.since_start().as_nanos());
    nanos.unwrap_or(u64::MAX - 1).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    #[test]
    fn after_each_pause_one_request_finds_out_whether_a_node_is_back() {
        let node = Presence::new();
        assert!(node.may_be_there(at(0)) && node.claim(at(0)) && node.claim(at(0)));
        assert_eq!(node.note_failure(Missed::Unreachable, at(10)), Change::Left);
        assert_eq!(
            node.note_failure(Missed::Unreachable, at(10)),
            Change::None,
            "it is reported once"
        );
        assert!(!node.may_be_there(at(10)) && !node.claim(at(10)));
        let back = at(10) + NODE_PAUSE;
        assert!(node.may_be_there(back) && node.claim(back));
        assert!(
            !node.may_be_there(back) && !node.claim(back),
            "one request is enough"
        );
        assert_eq!(node.note_response(), Change::Returned);
        assert!(node.claim(back) && node.claim(back));
        assert_eq!(node.note_response(), Change::None);
    }

    #[test]
    fn slow_responses_count_only_in_a_row() {
        let node = Presence::new();
        for _ in 1..NODE_SILENCES_MAX {
            assert_eq!(node.note_failure(Missed::Silent, at(1)), Change::None);
        }
        assert_eq!(node.note_response(), Change::None);
        for _ in 1..NODE_SILENCES_MAX {
            assert_eq!(node.note_failure(Missed::Silent, at(2)), Change::None);
        }
        assert!(node.claim(at(2)));
        assert_eq!(node.note_failure(Missed::Silent, at(2)), Change::Left);
        assert!(!node.claim(at(2)));
    }
}
