//! Formats times in log entries. `sluice-message` implements layouts.

use std::sync::Arc;
use std::time::SystemTime;

use sluice_message::decimal::{padded, push_integer};
use sluice_message::layout::Layout;

use super::zone::{Zone, since_1970};

/// The time format of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since the Unix epoch as a decimal number.
    #[default]
    UnixSeconds,
    /// Milliseconds since the Unix epoch as a decimal number.
    UnixMillis,
    /// Nanoseconds since the Unix epoch.
    UnixNanos,
    /// A calendar format.
    Calendar(Arc<Layout>),
}

/// `2006/01/02 15:04:05.000`, the time at the start of console lines.
const WALL_MILLI: &str = "2006/01/02 15:04:05.000";

impl TimeFormat {
    /// The format with this name, or the layout in the configuration.
    pub fn from_name(name: &str) -> TimeFormat {
        let layout = match name {
            "" | "unix_seconds_float" => return TimeFormat::UnixSeconds,
            "unix_milli_float" => return TimeFormat::UnixMillis,
            "unix_nano" => return TimeFormat::UnixNanos,
            "iso8601" => "2006-01-02T15:04:05.000Z0700",
            "rfc3339" => "2006-01-02T15:04:05Z07:00",
            "rfc3339_nano" => "2006-01-02T15:04:05.999999999Z07:00",
            "wall" => "2006/01/02 15:04:05",
            "wall_milli" => WALL_MILLI,
            "wall_nano" => "2006/01/02 15:04:05.000000000",
            "common_log" => "02/Jan/2006:15:04:05 -0700",
            layout => layout,
        };
        TimeFormat::Calendar(Arc::new(Layout::new(layout)))
    }

    /// The format of console lines.
    pub fn wall() -> TimeFormat {
        TimeFormat::from_name("wall_milli")
    }

    /// Whether the text is a JSON number.
    pub fn is_number(&self) -> bool {
        match self {
            TimeFormat::UnixSeconds | TimeFormat::UnixMillis | TimeFormat::UnixNanos => true,
            TimeFormat::Calendar(_) => false,
        }
    }

    /// Appends `time` without quotes. Times before 1970 count as 1970.
    pub fn push(&self, out: &mut Vec<u8>, time: SystemTime, zone: Zone) {
        let since = since_1970(time);
        let (seconds, nanos) = (since.as_secs(), since.subsec_nanos());
        match self {
            TimeFormat::UnixSeconds => {
                push_seconds(out, seconds);
                push_fraction(out, nanos / 1_000);
            }
            TimeFormat::UnixMillis => {
                push_integer(out, since.as_millis() as u64);
                push_fraction(out, nanos % 1_000_000);
            }
            TimeFormat::UnixNanos => push_integer(out, since.as_nanos() as u64),
            TimeFormat::Calendar(layout) => zone.push(layout, time, out),
        }
    }
}

/// Appends the seconds since 1970, which have ten digits from 2001 to 2286.
fn push_seconds(out: &mut Vec<u8>, seconds: u64) {
    match seconds {
        1_000_000_000..10_000_000_000 => out.extend_from_slice(&padded::<10>(seconds)),
        _ => push_integer(out, seconds),
    }
}

fn push_fraction(out: &mut Vec<u8>, value: u32) {
    out.push(b'.');
    out.extend_from_slice(&padded::<6>(u64::from(value)));
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn seconds_have_as_many_digits_as_they_need() {
        for seconds in [
            0,
            7,
            999_999_999,
            1_000_000_000,
            9_999_999_999,
            10_000_000_000,
        ] {
            let mut out = Vec::new();
            let time = UNIX_EPOCH + Duration::new(seconds, 5_000);
            TimeFormat::UnixSeconds.push(&mut out, time, Zone::Utc);
            let expected = format!("{seconds}.000005");
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn each_format_spells_the_same_moment() {
        let moment = UNIX_EPOCH + Duration::new(1_795_295_096, 910_145_800);
        for (name, expected) in [
            ("unix_seconds_float", "1795295096.910145"),
            ("unix_milli_float", "1795295096910.145800"),
            ("unix_nano", "1795295096910145800"),
            ("iso8601", "2026-11-21T21:04:56.910Z"),
            ("rfc3339", "2026-11-21T21:04:56Z"),
            ("rfc3339_nano", "2026-11-21T21:04:56.9101458Z"),
            ("wall", "2026/11/21 21:04:56"),
            ("wall_milli", "2026/11/21 21:04:56.910"),
            ("wall_nano", "2026/11/21 21:04:56.910145800"),
            ("common_log", "21/Nov/2026:21:04:56 +0000"),
            ("Jan 2", "Nov 21"),
        ] {
            let mut out = Vec::new();
            TimeFormat::from_name(name).push(&mut out, moment, Zone::Utc);
            assert_eq!(String::from_utf8(out).expect("text"), expected, "{name}");
        }
    }
}
