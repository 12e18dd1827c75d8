//! Whether a client sends or reads data fast enough to keep its connection. `sluice-net` waits for the data and closes
//! connections that are too slow.

use core::num::NonZeroU32;
use core::time::Duration;

use sluice_message::Moment;

use crate::limits::DATA_RATE_BURST_BYTES;

/// The lowest rate at which a client may send a request body, or take a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinDataRate {
    bytes_per_second: NonZeroU32,
    grace_millis: u32,
}

impl MinDataRate {
    /// At least `bytes_per_second`, once we have waited for `grace` in all; `None` where the rate is 0.
    pub fn new(bytes_per_second: u32, grace: Duration) -> Option<MinDataRate> {
        Some(MinDataRate {
            bytes_per_second: NonZeroU32::new(bytes_per_second)?,
            grace_millis: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX),
        })
    }

    fn grace_nanos(self) -> i64 {
        i64::from(self.grace_millis) * 1_000_000
    }

    /// How long so many bytes may take.
    fn nanos_for(self, bytes: u64) -> i64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    /// The most time that may be saved up. What a fast client has sent does not entitle it to hold its connection for
    /// hours.
    fn credit_max(self) -> i64 {
        self.grace_nanos()
            .saturating_add(self.nanos_for(DATA_RATE_BURST_BYTES))
    }
}

/// Whether a transfer keeps up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    InTime,
    /// It is slower than the lowest rate allows.
    TooSlow,
}

/// One transfer of a client: how much time it has left. Only time in which we wait for the client counts, so neither a slow
/// upstream nor a rate limit of ours is held against it. Each byte earns its time at the lowest rate, and a pause by itself
/// is judged by the idle timeout alone: the verdict falls when the next wait begins, on all that moved before it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: Option<MinDataRate>,
    /// In nanoseconds; less than none once it is overdrawn.
    credit: i64,
    waits_since: Option<Moment>,
}

impl Pace {
    /// A transfer that begins. Nothing is too slow where there is no rate.
    pub fn new(rate: Option<MinDataRate>) -> Pace {
        Pace {
            rate,
            credit: rate.map_or(0, MinDataRate::grace_nanos),
            waits_since: None,
        }
    }

    /// The same transfer under another rate, from now on.
    pub fn set_rate(&mut self, rate: Option<MinDataRate>) {
        if self.rate != rate {
            let waits_since = self.waits_since;
            *self = Pace {
                waits_since,
                ..Pace::new(rate)
            };
        }
    }

    /// So many bytes have moved, which ends a wait.
    pub fn moved(&mut self, bytes: u64, now: Moment) {
        let Some(rate) = self.rate else {
            return;
        };
        if let Some(since) = self.waits_since.take() {
            let waited = now.since(since).as_nanos();
            let waited = i64::try_from(waited).unwrap_or(i64::MAX);
            self.credit = self.credit.saturating_sub(waited);
        }
        let credit = self.credit.saturating_add(rate.nanos_for(bytes));
        self.credit = credit.min(rate.credit_max());
    }

    /// Nothing moves, and it is the client's turn. Calling it again while nothing moves changes nothing.
    pub fn wait(&mut self, now: Moment) -> Verdict {
        if self.rate.is_none() {
            return Verdict::InTime;
        }
        self.waits_since.get_or_insert(now);
        match self.credit < 0 {
            true => Verdict::TooSlow,
            false => Verdict::InTime,
        }
    }

    /// When the wait began that is under way.
    pub fn waits_since(&self) -> Option<Moment> {
        self.waits_since
    }

    /// Nothing moves, but not because of the client: what was waited for until now does not count.
    pub fn excuse(&mut self) {
        self.waits_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 240;
    const GRACE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn pace() -> Pace {
        Pace::new(MinDataRate::new(RATE, GRACE))
    }

    /// When a client that sends `bytes` every `period` seconds is too slow, within `limit` seconds.
    fn ends(pace: &mut Pace, from: u64, bytes: u64, period: u64, limit: u64) -> Option<u64> {
        let mut now = from;
        assert_eq!(pace.wait(at(now)), Verdict::InTime);
        while now < from + limit {
            now += period;
            pace.moved(bytes, at(now));
            if pace.wait(at(now)) == Verdict::TooSlow {
                return Some(now);
            }
        }
        None
    }

    #[test]
    fn a_byte_every_twenty_seconds_is_too_slow_after_the_grace() {
        assert_eq!(ends(&mut pace(), 0, 1, 20, 10_000), Some(40));
        assert_eq!(ends(&mut pace(), 0, 1, 1, 10_000), Some(31));
        let almost = ends(&mut pace(), 0, u64::from(RATE) - 1, 1, 100_000);
        assert!(
            almost.is_some_and(|end| (7200..=7201).contains(&end)),
            "{almost:?}"
        );
    }

    #[test]
    fn the_lowest_rate_is_fast_enough_in_whatever_pieces_it_comes() {
        for period in [1, 5, 20, 30] {
            let bytes = u64::from(RATE) * period;
            assert_eq!(ends(&mut pace(), 0, bytes, period, 100_000), None);
        }
    }

    #[test]
    fn what_was_sent_fast_buys_a_while_and_no_more() {
        let mut pace = pace();
        pace.wait(at(0));
        pace.moved(1 << 40, at(0));
        // Grace, and the time for a burst.
        let most = 30 + DATA_RATE_BURST_BYTES / u64::from(RATE);
        let end = ends(&mut pace, 0, 1, 10, 1_000_000);
        assert!(
            end.is_some_and(|end| (most..most + 20).contains(&end)),
            "{end:?}"
        );
    }

    #[test]
    fn a_pause_is_made_good_by_what_follows_it() {
        let mut pace = pace();
        pace.wait(at(0));
        pace.moved(10, at(50));
        // The rest of what the client sends at once counts before the verdict.
        pace.moved(20 * u64::from(RATE), at(50));
        assert_eq!(pace.wait(at(50)), Verdict::InTime);
        pace.moved(1, at(51));
        assert_eq!(pace.wait(at(51)), Verdict::TooSlow);
    }

    #[test]
    fn only_the_time_that_we_wait_for_the_client_counts() {
        let mut pace = pace();
        let mut now = 0;
        for _ in 0..1000 {
            pace.wait(at(now));
            pace.moved(RATE.into(), at(now + 1));
            // An upstream that takes its time: nobody waits for the client.
            now += 1000;
        }
        assert_eq!(pace.wait(at(now)), Verdict::InTime);
        pace.excuse();
        pace.moved(0, at(now + 100_000));
        assert_eq!(pace.wait(at(now + 100_000)), Verdict::InTime);
    }

    #[test]
    fn without_a_rate_nothing_is_too_slow() {
        assert_eq!(MinDataRate::new(0, GRACE), None);
        assert_eq!(ends(&mut Pace::new(None), 0, 1, 50, 1_000_000), None);
        let mut pace = pace();
        pace.wait(at(0));
        pace.set_rate(None);
        pace.moved(1, at(1_000));
        assert_eq!(pace.wait(at(1_000)), Verdict::InTime);
    }
}
