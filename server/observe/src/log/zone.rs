//! The time zone of log entries and of the names of rotated files. `sluice-message` formats times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_message::layout::{Layout, LocalTime};
use sluice_net::sys::local_time::{LocalOffset, local_offset};

/// A time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// The system's time zone.
    Local,
}

impl Zone {
    /// The offset from UTC at `time`.
    pub fn offset(self, time: SystemTime) -> LocalOffset {
        match self {
            Zone::Utc => LocalOffset::utc(),
            Zone::Local => local_offset(since_1970(time).as_secs()),
        }
    }

    /// Appends `time` in this zone. Times before 1970 count as 1970.
    pub fn push(self, layout: &Layout, time: SystemTime, out: &mut Vec<u8>) {
        let since = since_1970(time);
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let nanos = since.subsec_nanos();
        match self {
            Zone::Utc => layout.push(&LocalTime::utc(seconds, nanos), out),
            Zone::Local => {
                let offset = self.offset(time);
                let time = LocalTime::new(seconds, nanos, offset.seconds, &offset.name);
                layout.push(&time, out);
            }
        }
    }
}

/// The time since the Unix epoch; times before 1970 count as 1970.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_count_as_1970() {
        for (time, expected) in [
            (UNIX_EPOCH - Duration::from_secs(1), "1970 UTC"),
            (UNIX_EPOCH + Duration::from_secs(1_795_295_096), "2026 UTC"),
        ] {
            let mut out = Vec::new();
            Zone::Utc.push(&Layout::new("2006 MST"), time, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
