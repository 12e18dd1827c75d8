//! How long an upstream keeps unused connections, learned by watching it. A request on a connection that the other
//! end is just closing may be lost, and only harmless ones are sent again; so connections are not used any more when
//! they come near the age at which the upstream closed others. One that nobody uses stays and shows whether that is
//! still so. Keeping connections is left to `pool`.

use std::cell::Cell;
use std::time::Duration;

use sluice_message::Fields;

use crate::limits::TIMER_TICK;
use crate::upstream::limits::{IDLE_CHECK_INTERVAL, SHORT_IDLE_TIME};

/// What a worker has learned about one upstream.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// An age that unused connections were seen to reach; `None` while none was seen to be closed.
    age: Cell<Option<Duration>>,
}

impl Learned {
    /// How old an unused connection may be to be used again; `None` for any age. An eighth is left for the request
    /// to arrive in.
    pub fn usable_for(&self) -> Option<Duration> {
        self.age.get().map(|age| age - age / 8)
    }

    /// Whether anything was learned.
    pub fn is_known(&self) -> bool {
        self.age.get().is_some()
    }

    /// How often to look for connections that were closed: the shorter they live, the more exactly.
    pub fn look_interval(&self) -> Duration {
        match self.age.get() {
            Some(age) if age < SHORT_IDLE_TIME => TIMER_TICK,
            Some(_) | None => IDLE_CHECK_INTERVAL,
        }
    }

    /// The upstream tells the time itself (`Keep-Alive: timeout=5`). What was seen counts more.
    pub fn told(&self, timeout: Duration) {
        if !self.is_known() {
            self.age.set(Some(timeout));
        }
    }

    /// A connection was found closed `age` after its last answer. It was open at the last look, or half that age if
    /// there was none.
    pub fn closed(&self, age: Duration) {
        let open = age.checked_sub(self.look_interval()).unwrap_or(age / 2);
        if self.age.get().is_none_or(|known| open < known) {
            self.age.set(Some(open));
        }
    }

    /// A connection is open `age` after its last answer.
    pub fn open(&self, age: Duration) {
        if self.age.get().is_some_and(|known| age > known) {
            self.age.set(Some(age));
        }
    }
}

/// The time that a Keep-Alive field names.
pub(super) fn told_timeout(fields: &Fields) -> Option<Duration> {
    let value = fields.first(sluice_message::FieldId::KeepAlive)?;
    let named = value.split(|byte| *byte == b',').find_map(|part| {
        let (name, value) = std::str::from_utf8(part).ok()?.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        is_timeout.then(|| value.trim().parse().ok()).flatten()
    });
    // Beyond an hour nobody else keeps them either.
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
    fn what_was_told_counts_until_something_was_seen() {
        let learned = Learned::default();
        learned.told(ms(8_000));
        assert_eq!(learned.usable_for(), Some(ms(7_000)));
        learned.closed(ms(3_000));
        learned.told(ms(8_000));
        assert_eq!(learned.usable_for(), Some(ms(1_750)));
    }

    #[test]
    fn keep_alive_fields_are_read() {
        let read = |text: &str| {
            let mut fields = Fields::new();
            fields.push(sluice_message::FieldId::KeepAlive, text.as_bytes());
            told_timeout(&fields)
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
