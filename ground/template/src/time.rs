//! Moments and spans of time as Go shows and reads them. Which zone a name means and what time it is are left
//! to the host.

mod layout;
mod read;
mod span;

use alloc::vec::Vec;

use sluice_message::date::{civil, days_from_civil};

pub use layout::format;
pub use read::parse;
pub use span::{parse_duration, show_duration};

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

/// A moment taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day, from 1.
    pub day: u32,
    /// The hour of the day.
    pub hour: u32,
    /// The minute of the hour.
    pub minute: u32,
    /// The second of the minute.
    pub second: u32,
    /// The day of the week, from Sunday.
    pub weekday: u32,
    /// The day of the year, from 1.
    pub yearday: u32,
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
        let seconds = self.seconds + i64::from(self.zone.offset);
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400) as u32;
        // `civil` counts from 1970 on; whole eras of 400 years are added for earlier days.
        let eras = (-days).max(0) / 146_097 + i64::from(days < 0);
        let (year, month, day) = civil((days + eras * 146_097) as u64);
        let year = year as i64 - eras * 400;
        Calendar {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            weekday: (days + 4).rem_euclid(7) as u32,
            yearday: (days - days_from_civil(year, 1, 1)) as u32 + 1,
        }
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
        layout::format(self, "2006-01-02 15:04:05.999999999 -0700 MST", out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn days_go_there_and_back() {
        for days in (-800_000..800_000).step_by(37) {
            let calendar = Time::from_unix(days * 86_400).calendar();
            let back = days_from_civil(calendar.year, calendar.month, calendar.day.into());
            assert_eq!(back, days);
        }
    }

    #[test]
    fn the_zero_moment_is_in_year_one() {
        let mut out = Vec::new();
        Time::ZERO.show(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "0001-01-01 00:00:00 +0000 UTC"
        );
        assert_eq!(Time::ZERO.calendar().weekday, 1);
    }

    #[test]
    fn days_beyond_a_month_run_on() {
        let january = parse("2006-01-02", "2023-01-31", Zone::UTC).unwrap();
        let calendar = january.plus_date(0, 1, 0).calendar();
        assert_eq!((calendar.month, calendar.day), (3, 3));
        assert_eq!(january.plus(-1).nanos, 999_999_999);
    }
}
