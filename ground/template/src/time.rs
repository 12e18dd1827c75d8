//! Points in time as Go formats and parses them. `sluice-message` implements layouts and durations; the host knows time
//! zones and the current time.

use alloc::vec::Vec;

use sluice_message::date::{Calendar, days_from_civil};
use sluice_message::layout::{self, LocalTime};

/// Seconds from year 1 to 1970: Go's zero moment is the first of January of year 1.
const YEAR_ONE: i64 = -62_135_596_800;

/// A moment, and the zone it is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970, in UTC.
    pub seconds: i64,
    /// Nanoseconds of that second.
    pub nanos: u32,
    /// The zone.
    pub zone: Zone,
}

/// An offset from UTC and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Seconds east of UTC.
    pub offset: i32,
    name: [u8; 8],
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone {
        offset: 0,
        name: *b"UTC\0\0\0\0\0",
    };

    /// A zone; names beyond eight bytes are cut.
    pub fn new(offset: i32, name: &str) -> Zone {
        let mut zone = Zone {
            offset,
            name: [0; 8],
        };
        for (to, from) in zone.name.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        zone
    }

    /// Its name; empty where only the offset is known.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(8);
        core::str::from_utf8(&self.name[..end]).unwrap_or("")
    }
}

impl Time {
    /// The moment that Go takes for none.
    pub const ZERO: Time = Time {
        seconds: YEAR_ONE,
        nanos: 0,
        zone: Zone::UTC,
    };

    /// A moment in UTC.
    pub fn from_unix(seconds: i64) -> Time {
        // Beyond some hundred thousand years nobody means a date; the calendar must not overflow.
        const FAR: i64 = 1 << 43;
        Time {
            seconds: seconds.clamp(-FAR, FAR),
            nanos: 0,
            zone: Zone::UTC,
        }
    }

    /// Taken apart, in its zone.
    pub fn calendar(&self) -> Calendar {
        self.local().calendar
    }

    fn local(&self) -> LocalTime<'_> {
        LocalTime::new(self.seconds, self.nanos, self.zone.offset, self.zone.name())
    }

    /// The moment so many nanoseconds later.
    pub fn plus(&self, nanos: i64) -> Time {
        let sum = i64::from(self.nanos) + nanos.rem_euclid(1_000_000_000);
        Time {
            seconds: self.seconds + nanos.div_euclid(1_000_000_000) + sum / 1_000_000_000,
            nanos: (sum % 1_000_000_000) as u32,
            zone: self.zone,
        }
    }

    /// The nanoseconds since `earlier`, as far as they can be counted.
    pub fn since(&self, earlier: &Time) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        let nanos = seconds * 1_000_000_000 + i128::from(self.nanos) - i128::from(earlier.nanos);
        nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// The date so many years, months and days later; days beyond the end of a month run on.
    pub fn plus_date(&self, years: i64, months: i64, days: i64) -> Time {
        const FAR: i64 = 1_000_000;
        let calendar = self.calendar();
        let month = i64::from(calendar.month) - 1 + months.clamp(-FAR, FAR);
        let year = calendar.year + years.clamp(-FAR, FAR) + month.div_euclid(12);
        let first = days_from_civil(year, month.rem_euclid(12) as u32 + 1, 1);
        let before = days_from_civil(calendar.year, calendar.month, calendar.day.into());
        let day = first + i64::from(calendar.day) - 1 + days.clamp(-FAR, FAR);
        Time {
            seconds: self.seconds + (day - before) * 86_400,
            ..*self
        }
    }

    /// Appends it as `print` shows it.
    pub fn show(&self, out: &mut Vec<u8>) {
        format(self, "2006-01-02 15:04:05.999999999 -0700 MST", out);
    }
}

/// Appends `time` as a layout of Go says.
pub fn format(time: &Time, layout: &str, out: &mut Vec<u8>) {
    time.local().push(layout, out);
}

/// The moment that `text` names in the form of a layout of Go; without a zone of its own it is in `zone`.
pub fn parse(layout: &str, text: &str, zone: Zone) -> Option<Time> {
    let read = layout::parse(layout, text)?;
    let name = read.zone.unwrap_or("");
    let zone = match (read.offset, read.zone) {
        (None, None) => zone,
        (None, Some(name)) if name == zone.name() => zone,
        (Some(offset), None) if offset == zone.offset => zone,
        // Nobody knows where a zone of that name alone is; like Go we take it for UTC under another name.
        (offset, _) => Zone::new(offset.unwrap_or(0), name),
    };
    Some(Time {
        seconds: read.seconds - i64::from(zone.offset),
        nanos: read.nanos,
        zone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn the_zero_moment_is_in_year_one() {
        let mut out = Vec::new();
        Time::ZERO.show(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "0001-01-01 00:00:00 +0000 UTC"
        );
        assert_eq!(Time::ZERO.calendar().weekday_name(), "Monday");
    }

    #[test]
    fn days_beyond_a_month_run_on() {
        let january = parse("2006-01-02", "2023-01-31", Zone::UTC).unwrap();
        let calendar = january.plus_date(0, 1, 0).calendar();
        assert_eq!((calendar.month, calendar.day), (3, 3));
        assert_eq!(january.plus(-1).nanos, 999_999_999);
    }

    #[test]
    fn times_are_read_in_the_right_zone() {
        let cet = Zone::new(3600, "CET");
        for (layout, text, zone) in [
            ("15", "04", cet),
            ("15 MST", "04 CET", cet),
            ("15 MST", "04 UTC", Zone::UTC),
            ("15 MST", "04 EST", Zone::new(0, "EST")),
            ("15 MST", "04 GMT-5", Zone::new(-5 * 3600, "GMT-5")),
            ("15 -07", "04 +01", cet),
            ("15 -07", "04 +02", Zone::new(7200, "")),
            ("15 -07 MST", "04 +00 GMT", Zone::new(0, "GMT")),
            ("15Z07", "04Z", Zone::UTC),
        ] {
            let read = parse(layout, text, cet).unwrap();
            assert_eq!(read.zone, zone, "{text}");
            assert_eq!(read.calendar().hour, 4, "{text}");
        }
    }
}
