//! The budget for frames that do not advance any request. Each one is harmless, and well-behaved clients send some; a
//! peer that sends only such frames makes the server work for nothing (CVE-2019-9511 to 9518, CVE-2023-44487,
//! CVE-2025-8671).
//!
//! Requests that complete and the passage of time give points back, so that a connection may live for days. When the
//! budget is used up, the connection is closed. At three quarters it is drained, which does no harm to a well-behaved
//! client.

use sluice_message::Moment;

/// What frames cost, in points.
pub mod cost {
    /// The peer resets a stream before its response is complete.
    pub const RESET: u32 = 16;
    /// The peer makes us reset a stream.
    pub const RESET_FORCED: u32 = 32;
    /// A request that cannot be served: malformed, beyond a limit, or one too many.
    pub const REFUSED: u32 = 16;
    /// DATA without content that does not end the stream.
    pub const DATA_EMPTY: u32 = 8;
    /// DATA whose content is shorter than the frame's head and padding, or for a stream that is over. Programs that
    /// talk in single bytes exist, and so this costs little.
    pub const DATA_TINY: u32 = 1;
    /// SETTINGS.
    pub const SETTINGS: u32 = 16;
    /// PING beyond those that go with content.
    pub const PING: u32 = 4;
    /// PRIORITY, PRIORITY_UPDATE and frames of unknown kinds.
    pub const IGNORED: u32 = 4;
    /// WINDOW_UPDATE beyond those that go with content.
    pub const WINDOW_UPDATE: u32 = 4;
    /// A frame for a stream that is over.
    pub const LATE: u32 = 2;
    /// The peer of a QUIC connection comes from another address. Each is sent a datagram or two before it is validated, however
    /// little came from there: sixteen at once are more than a phone needs on its way through networks.
    pub const MIGRATION: u32 = 1024;
}

/// What a request that ended well gives back.
const REQUEST_REFUND: u32 = 16;

/// What each second gives back: 10 resets or 40 pings.
const SECOND_REFUND: u64 = 160;

/// Frames that a peer may send in reply to each stream and each DATA frame: a WINDOW_UPDATE for the stream, one for the
/// connection, and a PING, with which gRPC measures the bandwidth while content arrives.
const REPLIES_EXPECTED: u32 = 3;

/// Such frames that can be saved up. A client that returns the window of each frame by itself sends them in bursts: it
/// does so for everything that is in the buffers of two kernels and of the network between them, which is tens of
/// megabytes on a fast path. A peer earns a burst only by receiving a third as many frames, which costs more than to read
/// the burst (13 bytes each).
const UPDATES_SAVED_MAX: u32 = 64 * 1024;

/// The points used so far.
#[derive(Clone, Debug)]
pub struct Budget {
    used: u32,
    max: u32,
    updates: u32,
    calmed: Moment,
}

/// What a budget says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// All is well.
    Calm,
    /// Three quarters are used.
    Annoyed,
    /// Nothing is left.
    Exhausted,
}

impl Budget {
    /// A budget of `max` points.
    pub fn new(max: u32) -> Budget {
        Budget {
            used: 0,
            max,
            updates: REPLIES_EXPECTED,
            calmed: Moment::START,
        }
    }

    /// The points used so far.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Charges `points`.
    pub fn charge(&mut self, points: u32) -> Mood {
        self.used = self.used.saturating_add(points);
        if self.used >= self.max {
            Mood::Exhausted
        } else if self.used >= self.max - self.max / 4 {
            Mood::Annoyed
        } else {
            Mood::Calm
        }
    }

    /// A request ended well.
    pub fn refund(&mut self) {
        self.used = self.used.saturating_sub(REQUEST_REFUND);
    }

    /// A stream was opened or a DATA frame sent, so the peer may send frames in reply.
    pub fn expect_updates(&mut self) {
        self.updates = (self.updates + REPLIES_EXPECTED).min(UPDATES_SAVED_MAX);
    }

    /// Whether a WINDOW_UPDATE or a PING was to be expected.
    pub fn take_update(&mut self) -> bool {
        let expected = self.updates > 0;
        self.updates = self.updates.saturating_sub(1);
        expected
    }

    /// Gives back what time does. Fractions of a point are kept for the next call.
    pub fn calm(&mut self, now: Moment) {
        let points = now.since(self.calmed).as_millis() as u64 * SECOND_REFUND / 1000;
        if points > 0 {
            self.used = self
                .used
                .saturating_sub(u32::try_from(points).unwrap_or(u32::MAX));
            self.calmed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn points_are_used_and_come_back() {
        let mut budget = Budget::new(100);
        assert_eq!(budget.charge(74), Mood::Calm);
        assert_eq!(budget.charge(1), Mood::Annoyed);
        budget.refund();
        assert_eq!(budget.used(), 59);
        assert_eq!(budget.charge(41), Mood::Exhausted);
        budget.calm(Moment::new(Duration::from_millis(3)));
        assert_eq!(budget.used(), 100);
        budget.calm(Moment::new(Duration::from_millis(250)));
        assert_eq!(budget.used(), 60);
        budget.calm(Moment::new(Duration::from_secs(1 << 40)));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn replies_are_paid_for_by_streams_and_content() {
        let mut budget = Budget::new(100);
        for _ in 0..2 {
            (0..REPLIES_EXPECTED).for_each(|_| assert!(budget.take_update()));
            assert!(!budget.take_update());
            budget.expect_updates();
        }
        (0..UPDATES_SAVED_MAX).for_each(|_| budget.expect_updates());
        assert_eq!(budget.updates, UPDATES_SAVED_MAX);
    }

    #[test]
    fn updates_for_all_that_is_in_flight_may_come_at_once() {
        let mut budget = Budget::new(100);
        let frames = (64 << 20) / (16 << 10);
        (0..frames).for_each(|_| budget.expect_updates());
        // One for the stream and one for the connection.
        (0..2 * frames).for_each(|_| assert!(budget.take_update()));
    }
}
