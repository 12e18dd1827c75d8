//! Calendar dates in the formats of HTTP (RFC 9110, section 5.6.7). Reading the clock is up to the caller; `layout`
//! handles all other formats.

/// The months in English; their first three letters are the short names.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The days of the week in English, from Sunday; their first three letters are the short names.
pub const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The day of the week of a day counted from 1970, which began on a Thursday.
pub const fn weekday(days: u64) -> &'static str {
    WEEKDAYS[((days + 4) % 7) as usize]
}

/// What the calendar and the clock of a zone show at a moment, also before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The year; 0 is the one before 1.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
    /// The hour of the day.
    pub hour: u32,
    /// The minute of the hour.
    pub minute: u32,
    /// The second of the minute.
    pub second: u32,
    /// Days since 1970.
    days: i64,
}

impl Calendar {
    /// What is shown `seconds` after 1970 by the zone's own clock, or before it.
    pub fn of(seconds: i64) -> Calendar {
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400) as u32;
        // `civil` counts from 1970 on; whole eras of 400 years are added for earlier days.
        let eras = (-days).max(0) / 146_097 + i64::from(days < 0);
        let (year, month, day) = civil((days + eras * 146_097) as u64);
        Calendar {
            year: year as i64 - eras * 400,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            days,
        }
    }

    /// The month in English.
    pub fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    /// The day of the week in English.
    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS[(self.days + 4).rem_euclid(7) as usize]
    }

    /// The day of the year, from 1.
    pub fn yearday(&self) -> u32 {
        (self.days - days_from_civil(self.year, 1, 1)) as u32 + 1
    }
}

/// `unix_seconds` as an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. Years beyond 9999 are not meant.
pub fn format_http(unix_seconds: u64) -> [u8; 29] {
    let days = unix_seconds / 86_400;
    let second = (unix_seconds % 86_400) as u32;
    let (year, month, day) = civil(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(&weekday(days).as_bytes()[..3]);
    two_digits(&mut out, 5, day);
    out[8..11].copy_from_slice(&MONTHS[month as usize - 1].as_bytes()[..3]);
    two_digits(&mut out, 12, (year / 100) as u32 % 100);
    two_digits(&mut out, 14, (year % 100) as u32);
    two_digits(&mut out, 17, second / 3600);
    two_digits(&mut out, 20, second / 60 % 60);
    two_digits(&mut out, 23, second % 60);
    out
}

fn two_digits(out: &mut [u8; 29], at: usize, value: u32) {
    out[at] = b'0' + (value / 10 % 10) as u8;
    out[at + 1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of a day counted from 1970, by eras of 400 years that begin on 1 March.
pub fn civil(days: u64) -> (u64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    } as u32;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// Seconds since 1970 of a date in any of the three forms a recipient must accept (RFC 9110, section 5.6.7);
/// negative before 1970. `now` (also in seconds since 1970) settles the century of the two-digit form.
///
/// The name of the day is not compared with the date: no recipient gains anything from refusing it.
pub fn parse_http(text: &[u8], now: u64) -> Option<i64> {
    let comma = text.iter().position(|&b| b == b',');
    match comma {
        Some(3) if text.len() == 29 => parse_fixdate(text),
        Some(day_len) => parse_rfc850(text.get(day_len..)?, now),
        None => parse_asctime(text),
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_fixdate(text: &[u8]) -> Option<i64> {
    let separators = [text[4], text[7], text[11], text[16]] == *b"    ";
    let year = number(&text[12..16])?;
    let day = number(&text[5..7])?;
    (separators && &text[25..] == b" GMT")
        .then(|| seconds(year, month(&text[8..11])?, day, &text[17..25]))?
}

/// `, 06-Nov-94 08:49:37 GMT`: the form of RFC 850 without the name of its day.
fn parse_rfc850(text: &[u8], now: u64) -> Option<i64> {
    let well_formed = text.len() == 24
        && [text[1], text[4], text[8], text[11]] == *b" -- "
        && &text[20..] == b" GMT";
    if !well_formed {
        return None;
    }
    let (month, day) = (month(&text[5..8])?, number(&text[2..4])?);
    let year_now = civil(now / 86_400).0 as i64;
    let mut year = year_now / 100 * 100 + number(&text[9..11])?;
    if year > year_now + 50 {
        year -= 100;
    }
    seconds(year, month, day, &text[12..20])
}

/// `Sun Nov  6 08:49:37 1994`, what the C function of that name writes.
fn parse_asctime(text: &[u8]) -> Option<i64> {
    let well_formed = text.len() == 24 && [text[3], text[7], text[10], text[19]] == *b"    ";
    if !well_formed {
        return None;
    }
    let day = if text[8] == b' ' {
        number(&text[9..10])?
    } else {
        number(&text[8..10])?
    };
    seconds(
        number(&text[20..])?,
        month(&text[4..7])?,
        day,
        &text[11..19],
    )
}

fn month(name: &[u8]) -> Option<u32> {
    let at = MONTHS
        .iter()
        .position(|known| known.as_bytes()[..3].eq_ignore_ascii_case(name))?;
    Some(at as u32 + 1)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |value, &b| {
        b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0'))
    })
}

/// Seconds since 1970 of a date and a `clock` like `08:49:37`. A leap second counts as the second before it.
fn seconds(year: i64, month: u32, day: i64, clock: &[u8]) -> Option<i64> {
    let (hour, minute, second) = (
        number(&clock[..2])?,
        number(&clock[3..5])?,
        number(&clock[6..])?,
    );
    let leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap_year => 29,
        2 => 28,
        _ => 31,
    };
    let possible = [clock[2], clock[5]] == *b"::"
        && (1..=month_days).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    possible.then(|| {
        days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second.min(59)
    })
}

/// Days since 1970 of a date: the inverse of [`civil`], also for dates before.
pub fn days_from_civil(year: i64, month: u32, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_imf_fixdate() {
        assert_eq!(&format_http(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format_http(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format_http(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(
            &format_http(1_795_305_599),
            b"Sat, 21 Nov 2026 23:59:59 GMT"
        );
    }

    const NOW: u64 = 1_795_305_599;

    #[test]
    fn the_three_forms_of_a_date_mean_the_same() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse_http(text.as_bytes(), NOW),
                Some(784_111_777),
                "{text}"
            );
        }
    }

    #[test]
    fn every_day_survives_formatting_and_parsing() {
        for day in 0..80_000u64 {
            let seconds = day * 86_400 + day % 86_400;
            let text = format_http(seconds);
            assert_eq!(parse_http(&text, NOW), Some(seconds as i64));
        }
    }

    #[test]
    fn two_digit_years_lie_at_most_fifty_years_ahead() {
        let year =
            |text: &str| parse_http(text.as_bytes(), NOW).map(|s| civil(s as u64 / 86_400).0);
        assert_eq!(year("Monday, 01-Jan-76 00:00:00 GMT"), Some(2076));
        assert_eq!(year("Monday, 01-Jan-77 00:00:00 GMT"), Some(1977));
        assert_eq!(year("Monday, 01-Jan-26 00:00:00 GMT"), Some(2026));
    }

    #[test]
    fn dates_before_1970_are_negative() {
        assert_eq!(parse_http(b"Wed, 31 Dec 1969 23:59:59 GMT", NOW), Some(-1));
        assert_eq!(
            parse_http(b"Sat, 01 Jan 0000 00:00:00 GMT", NOW),
            Some(-62_167_219_200)
        );
    }

    #[test]
    fn the_calendar_goes_back_before_1970() {
        for days in (-800_000..800_000).step_by(37) {
            let at = Calendar::of(days * 86_400);
            assert_eq!(days_from_civil(at.year, at.month, at.day.into()), days);
        }
        let first = Calendar::of(days_from_civil(1, 1, 1) * 86_400 - 1);
        assert_eq!((first.year, first.month, first.day), (0, 12, 31));
        assert_eq!((first.hour, first.minute, first.second), (23, 59, 59));
        assert_eq!((first.weekday_name(), first.yearday()), ("Sunday", 366));
    }

    #[test]
    fn invalid_dates_are_refused() {
        for text in [
            "",
            ",",
            "0",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nob 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37 94",
            "Sun Nov 00 08:49:37 1994",
        ] {
            assert_eq!(parse_http(text.as_bytes(), NOW), None, "{text}");
        }
    }
}
