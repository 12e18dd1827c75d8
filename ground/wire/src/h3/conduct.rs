//! How the peer of a connection behaves: its budget for what brings no request forward, and the first fault that ends the
//! connection.

use sluice_message::Moment;

use super::error::Code;
use crate::glitch::{Budget, Mood, cost};

/// The conduct of the peer of one connection.
#[derive(Clone, Debug)]
pub struct Conduct {
    budget: Budget,
    /// Why the connection has to be closed, if it has.
    fault: Option<Code>,
}

/// Whether a connection goes on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Tolerated,
    /// It does, but should take no more requests: three quarters of the budget are used.
    Warned,
    /// It has to be closed with the code of [`Conduct::take_fault`].
    Condemned,
}

impl Conduct {
    /// The conduct of a peer that has done nothing yet, with a budget of `points_max` points.
    pub fn new(points_max: u32) -> Conduct {
        Conduct {
            budget: Budget::new(points_max),
            fault: None,
        }
    }

    /// The peer broke a rule that ends the connection.
    pub fn fail(&mut self, code: Code) -> Verdict {
        // Others may follow from the first.
        self.fault.get_or_insert(code);
        Verdict::Condemned
    }

    /// Why the connection has to be closed; returned once.
    pub fn take_fault(&mut self) -> Option<Code> {
        self.fault.take()
    }

    /// Charges `points` for what brings no request forward.
    pub fn charge(&mut self, points: u32, now: Moment) -> Verdict {
        self.budget.calm(now);
        match self.budget.charge(points) {
            Mood::Calm => Verdict::Tolerated,
            Mood::Annoyed => Verdict::Warned,
            Mood::Exhausted => self.fail(Code::EXCESSIVE_LOAD),
        }
    }

    /// Charges for streams and frames that mean nothing (see [`super::PeerStreams::take_glitches`]).
    pub fn charge_glitches(&mut self, count: u32, now: Moment) -> Verdict {
        match count {
            0 => Verdict::Tolerated,
            count => self.charge(count.saturating_mul(cost::IGNORED), now),
        }
    }

    /// A request has ended well.
    pub fn refund(&mut self) {
        self.budget.refund();
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_budget_that_is_used_up_ends_the_connection() {
        let mut conduct = Conduct::new(100);
        let begin = Moment::START;
        assert_eq!(conduct.charge(74, begin), Verdict::Tolerated);
        assert_eq!(conduct.charge(6, begin), Verdict::Warned);
        assert_eq!(conduct.charge_glitches(0, begin), Verdict::Tolerated);
        conduct.refund();
        // Seconds give back more than was used.
        let later = Moment::new(Duration::from_secs(60));
        assert_eq!(conduct.charge(99, later), Verdict::Warned);
        assert_eq!(conduct.take_fault(), None);
        assert_eq!(conduct.charge_glitches(1, later), Verdict::Condemned);
        assert_eq!(conduct.take_fault(), Some(Code::EXCESSIVE_LOAD));
        assert_eq!(conduct.take_fault(), None);
    }

    #[test]
    fn the_first_fault_is_the_reason() {
        let mut conduct = Conduct::new(4);
        assert_eq!(conduct.fail(Code::ID_ERROR), Verdict::Condemned);
        assert_eq!(conduct.fail(Code::FRAME_ERROR), Verdict::Condemned);
        let charged = conduct.charge_glitches(u32::MAX, Moment::START);
        assert_eq!(charged, Verdict::Condemned);
        assert_eq!(conduct.take_fault(), Some(Code::ID_ERROR));
    }
}
