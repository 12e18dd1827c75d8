//! Learns how long an upstream keeps idle connections open. A request sent while the upstream is closing the connection
//! may be lost, and only idempotent requests are retried; so connections are no longer used when they approach the age
//! at which the upstream closed others. One idle connection is left unused to check whether the limit still holds.
//! `pool` manages the connections.

use std::cell::Cell;
use std::time::Duration;

use sluice_message::Fields;

use crate::limits::{IDLE_CHECK_INTERVAL, SHORT_IDLE_TIME};
use sluice_net::limits::TIMER_TICK;

/// What a worker has learned about one upstream.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// An idle age that connections were seen to reach; `None` while none was seen to be closed.
    age: Cell<Option<Duration>>,
}

impl Learned {
    /// The maximum idle age at which a connection may be used again; `None` for any. An eighth is left as a margin for
    /// the request to arrive.
    pub fn usable_for(&self) -> Option<Duration> {
        self.age.get().map(|age| age - age / 8)
    }

    /// Whether anything was learned.
    pub fn is_known(&self) -> bool {
        self.age.get().is_some()
    }

    /// How often to check for closed connections: the shorter they live, the more often.
    pub fn look_interval(&self) -> Duration {
        match self.age.get() {
            Some(age) if age < SHORT_IDLE_TIME => TIMER_TICK,
            Some(_) | None => IDLE_CHECK_INTERVAL,
        }
    }

    /// Records the upstream's own announcement (`Keep-Alive: timeout=5`). Observations take precedence.
    pub fn announce(&self, timeout: Duration) {
        if !self.is_known() {
            self.age.set(Some(timeout));
        }
    }

    /// A connection was found closed `age` after its last response. It was open at the last check, or at half that age
    /// if there was none.
    pub fn closed(&self, age: Duration) {
        let open = age.checked_sub(self.look_interval()).unwrap_or(age / 2);
        if self.age.get().is_none_or(|known| open < known) {
            self.age.set(Some(open));
        }
    }

    /// A connection is still open `age` after its last response.
    pub fn open(&self, age: Duration) {
        if self.age.get().is_some_and(|known| age > known) {
            self.age.set(Some(age));
        }
    }
}

/// The timeout announced in a `Keep-Alive` header.
pub(crate) fn announced_timeout(fields: &Fields) -> Option<Duration> {
    let value = fields.first(sluice_message::FieldId::KeepAlive)?;
    let named = value.split(|byte| *byte == b',').find_map(|part| {
        let (name, value) = std::str::from_utf8(part).ok()?.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().parse().ok()).flatten()
    });
    // Beyond an hour, nothing else keeps the connection open either.
    named.map(|seconds: u64| Duration::from_secs(seconds.min(3600)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn nothing_is_doubted_before_something_was_closed() {
        let learned = Learned::default();
        learned.open(ms(50_000));
        assert_eq!(learned.usable_for(), None);
        learned.closed(ms(60_500));
        assert_eq!(learned.usable_for(), Some(ms(59_500) - ms(59_500) / 8));
    }

    #[test]
    fn the_shortest_life_counts_until_one_lives_longer() {
        let learned = Learned::default();
        learned.closed(ms(400));
        assert_eq!(learned.usable_for(), Some(ms(175)), "half of it is certain");
        assert_eq!(learned.look_interval(), TIMER_TICK);
        learned.open(ms(300));
        learned.closed(ms(500));
        assert_eq!(learned.usable_for(), Some(ms(300) - ms(300) / 8));
        learned.open(ms(9_000));
        assert_eq!(learned.usable_for(), Some(ms(7_875)));
        assert_eq!(learned.look_interval(), IDLE_CHECK_INTERVAL);
    }

    #[test]
    fn an_announced_timeout_counts_until_one_is_observed() {
        let learned = Learned::default();
        learned.announce(ms(8_000));
        assert_eq!(learned.usable_for(), Some(ms(7_000)));
        learned.closed(ms(3_000));
        learned.announce(ms(8_000));
        assert_eq!(learned.usable_for(), Some(ms(1_750)));
    }

    #[test]
    fn keep_alive_fields_are_read() {
        let read = |text: &str| {
            let mut fields = Fields::new();
            fields.push(sluice_message::FieldId::KeepAlive, text.as_bytes());
            announced_timeout(&fields)
        };
        assert_eq!(read("timeout=5, max=100"), Some(ms(5_000)));
        assert_eq!(read("max=100, Timeout = 7"), Some(ms(7_000)));
        assert_eq!(read("timeout=99999999999"), Some(ms(3_600_000)));
        for bad in [
            "",
            "timeout",
            "timeout=",
            "timeout=-1",
            "timeout=x",
            "max=1",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
