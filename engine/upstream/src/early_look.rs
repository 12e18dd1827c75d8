//! When a worker looks for a response: once the socket is reported as readable, or already when the other tasks have had
//! their turn.
//!
//! With a thousand clients the sockets that are ready form a long queue, in which the response to a request stands behind
//! hundreds of new requests. When its turn comes, all memory of its request has left the CPU caches, and as many upstream
//! connections are in use as requests wait. A fast upstream has responded by the time that the tasks of one poll of the
//! sockets have run, though; so reading without having been asked to costs no more system calls, and finishes requests
//! before others begin.

use std::cell::Cell;

use crate::limits::{
    EARLY_LOOK_CONNECTIONS_MIN, EARLY_LOOK_CREDIT_MAX, EARLY_LOOK_INTERVAL, EARLY_LOOK_MISS_COST,
};

/// How one call looks for its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    /// Not known before the request is sent.
    #[default]
    Unknown,
    /// Once the other tasks have run.
    Early,
    /// When the socket is readable.
    Reported,
}

/// Whether the early looks of a worker have found responses.
#[derive(Debug, Default)]
pub(crate) struct EarlyLooks {
    credit: Cell<u8>,
    /// Calls without an early look since the last one that had one.
    skipped: Cell<u8>,
}

impl EarlyLooks {
    /// Whether the next call of a worker with so many client connections looks early.
    pub fn is_due(&self, connections: usize) -> bool {
        if connections < EARLY_LOOK_CONNECTIONS_MIN {
            return false;
        }
        if self.credit.get() > 0 {
            return true;
        }
        let skipped = self.skipped.get() + 1;
        let is_trial = skipped >= EARLY_LOOK_INTERVAL;
        self.skipped.set(if is_trial { 0 } else { skipped });
        is_trial
    }

    /// A look has found a response, or the end of the connection.
    pub fn note_found(&self) {
        let credit = self.credit.get() + 1;
        self.credit.set(credit.min(EARLY_LOOK_CREDIT_MAX));
    }

    /// A look has found nothing.
    pub fn note_missed(&self) {
        let credit = self.credit.get();
        self.credit.set(credit.saturating_sub(EARLY_LOOK_MISS_COST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = EARLY_LOOK_CONNECTIONS_MIN;

    #[test]
    fn with_few_connections_nobody_looks_early() {
        let looks = EarlyLooks::default();
        assert!((0..1000).all(|_| !looks.is_due(MANY - 1)));
        looks.note_found();
        assert!(!looks.is_due(MANY - 1));
        assert!(looks.is_due(MANY));
    }

    #[test]
    fn without_success_only_few_calls_look_early() {
        let looks = EarlyLooks::default();
        let calls = 10 * usize::from(EARLY_LOOK_INTERVAL);
        let trials = (0..calls).filter(|_| {
            let is_due = looks.is_due(MANY);
            if is_due {
                looks.note_missed();
            }
            is_due
        });
        assert_eq!(trials.count(), 10);
    }

    #[test]
    fn with_success_all_calls_look_early_until_looks_fail() {
        let looks = EarlyLooks::default();
        for _ in 0..1000 {
            looks.note_found();
            assert!(looks.is_due(MANY));
        }
        let missed = EARLY_LOOK_CREDIT_MAX.div_ceil(EARLY_LOOK_MISS_COST);
        for _ in 0..missed {
            assert!(looks.is_due(MANY));
            looks.note_missed();
        }
        assert!(!looks.is_due(MANY));
    }
}
