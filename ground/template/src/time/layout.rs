//! Go's layouts of dates: the reference moment `Mon Jan 2 15:04:05 MST 2006` written as the date shall look.

use alloc::format as text;
use alloc::vec::Vec;

use sluice_message::date::{MONTHS, WEEKDAYS};

use super::{Calendar, Time};

/// One part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearday,
    ZeroYearday,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// An offset; `z` shows `Z` for UTC, `colons` and `seconds` say how it is written.
    Offset {
        z: bool,
        colons: bool,
        minutes: bool,
        seconds: bool,
    },
    /// A fraction with so many digits; zeros at its end are left out where it was written with nines.
    Fraction {
        digits: usize,
        trimmed: bool,
    },
}

const fn offset(z: bool, colons: bool, minutes: bool, seconds: bool) -> Part {
    Part::Offset {
        z,
        colons,
        minutes,
        seconds,
    }
}

/// The parts with their spelling, longer ones before what they begin with.
const PARTS: &[(&str, Part)] = &[
    ("January", Part::LongMonth),
    ("Jan", Part::Month),
    ("Monday", Part::LongWeekday),
    ("Mon", Part::Weekday),
    ("MST", Part::ZoneName),
    ("002", Part::ZeroYearday),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::Year),
    ("15", Part::Hour),
    ("1", Part::NumMonth),
    ("2006", Part::LongYear),
    ("2", Part::Day),
    ("__2", Part::UnderYearday),
    ("_2", Part::UnderDay),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
    ("PM", Part::UpperPm),
    ("pm", Part::LowerPm),
    ("-070000", offset(false, false, true, true)),
    ("-07:00:00", offset(false, true, true, true)),
    ("-0700", offset(false, false, true, false)),
    ("-07:00", offset(false, true, true, false)),
    ("-07", offset(false, false, false, false)),
    ("Z070000", offset(true, false, true, true)),
    ("Z07:00:00", offset(true, true, true, true)),
    ("Z0700", offset(true, false, true, false)),
    ("Z07:00", offset(true, true, true, false)),
    ("Z07", offset(true, false, false, false)),
];

/// The first part of `layout`: what stands before it, the part, and what follows.
pub(super) fn next_part(layout: &str) -> (&str, Option<Part>, &str) {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        // In `_2006` the year is meant, not a day.
        if rest.starts_with("_2006") {
            continue;
        }
        // `Jan` in a longer word such as `Janet` is text.
        let named = PARTS.iter().find(|(spelling, part)| {
            rest.starts_with(spelling)
                && !(matches!(part, Part::Month | Part::Weekday)
                    && rest[spelling.len()..].starts_with(|c: char| c.is_ascii_lowercase()))
        });
        if let Some((spelling, part)) = named {
            return (&layout[..at], Some(*part), &rest[spelling.len()..]);
        }
        if let Some((part, length)) = fraction(rest) {
            return (&layout[..at], Some(part), &rest[length..]);
        }
    }
    (layout, None, "")
}

/// `.000` or `,999` where no further digit follows.
fn fraction(text: &str) -> Option<(Part, usize)> {
    let bytes = text.as_bytes();
    let digit = *bytes.get(1).filter(|_| matches!(bytes[0], b'.' | b','))?;
    if !matches!(digit, b'0' | b'9') {
        return None;
    }
    let digits = bytes[1..].iter().take_while(|byte| **byte == digit).count();
    let ends = bytes
        .get(1 + digits)
        .is_none_or(|byte| !byte.is_ascii_digit());
    ends.then_some((
        Part::Fraction {
            digits,
            trimmed: digit == b'9',
        },
        1 + digits,
    ))
}

/// Appends `time` as `layout` says.
pub fn format(time: &Time, layout: &str, out: &mut Vec<u8>) {
    let calendar = time.calendar();
    let mut rest = layout;
    while !rest.is_empty() {
        let (before, part, after) = next_part(rest);
        out.extend_from_slice(before.as_bytes());
        if let Some(part) = part {
            write(part, time, &calendar, out);
        }
        rest = after;
    }
}

fn write(part: Part, time: &Time, at: &Calendar, out: &mut Vec<u8>) {
    let hour12 = (at.hour + 11) % 12 + 1;
    let written = match part {
        Part::LongMonth => MONTHS[at.month as usize - 1].into(),
        Part::Month => MONTHS[at.month as usize - 1][..3].into(),
        Part::NumMonth => text!("{}", at.month),
        Part::ZeroMonth => text!("{:02}", at.month),
        Part::LongWeekday => WEEKDAYS[at.weekday as usize].into(),
        Part::Weekday => WEEKDAYS[at.weekday as usize][..3].into(),
        Part::Day => text!("{}", at.day),
        Part::UnderDay => text!("{:2}", at.day),
        Part::ZeroDay => text!("{:02}", at.day),
        Part::UnderYearday => text!("{:3}", at.yearday),
        Part::ZeroYearday => text!("{:03}", at.yearday),
        Part::Hour => text!("{:02}", at.hour),
        Part::Hour12 => text!("{hour12}"),
        Part::ZeroHour12 => text!("{hour12:02}"),
        Part::Minute => text!("{}", at.minute),
        Part::ZeroMinute => text!("{:02}", at.minute),
        Part::Second => text!("{}", at.second),
        Part::ZeroSecond => text!("{:02}", at.second),
        Part::LongYear => text!("{:04}", at.year),
        Part::Year => text!("{:02}", at.year.rem_euclid(100)),
        Part::UpperPm => if at.hour < 12 { "AM" } else { "PM" }.into(),
        Part::LowerPm => if at.hour < 12 { "am" } else { "pm" }.into(),
        Part::ZoneName if time.zone.name().is_empty() => {
            return write(offset(false, false, true, false), time, at, out);
        }
        Part::ZoneName => time.zone.name().into(),
        Part::Offset { z: true, .. } if time.zone.offset == 0 => "Z".into(),
        Part::Offset {
            colons,
            minutes,
            seconds,
            ..
        } => {
            let sign = if time.zone.offset < 0 { '-' } else { '+' };
            let whole = time.zone.offset.unsigned_abs();
            let colon = if colons { ":" } else { "" };
            let mut written = text!("{sign}{:02}", whole / 3600);
            if minutes {
                written.push_str(&text!("{colon}{:02}", whole / 60 % 60));
            }
            if seconds {
                written.push_str(&text!("{colon}{:02}", whole % 60));
            }
            written
        }
        Part::Fraction { digits, trimmed } => {
            let nine = text!("{:09}", time.nanos);
            let mut fraction = text!("{:0<digits$}", &nine[..digits.min(9)]);
            if trimmed {
                fraction.truncate(fraction.trim_end_matches('0').len());
            }
            if fraction.is_empty() {
                return;
            }
            text!(".{fraction}")
        }
    };
    out.extend_from_slice(written.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::Zone;
    use super::*;
    use alloc::string::String;

    #[test]
    fn layouts_are_those_of_go() {
        let time = Time {
            seconds: 1_580_702_706,
            nanos: 78_900_000,
            zone: Zone::new(-5 * 3600, "EST"),
        };
        for (layout, expected) in [
            (
                "Mon, 02 Jan 2006 15:04:05 -0700",
                "Sun, 02 Feb 2020 23:05:06 -0500",
            ),
            (
                "Monday January _2 3:04PM MST",
                "Sunday February  2 11:05PM EST",
            ),
            (
                "2006-01-02T15:04:05.999999999Z07:00",
                "2020-02-02T23:05:06.0789-05:00",
            ),
            ("05.000 .99 002 06 1/2 pm", "06.078 .07 033 20 2/2 pm"),
            ("2006. Janet", "2020. Janet"),
        ] {
            let mut out = Vec::new();
            format(&time, layout, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{layout}");
        }
    }
}
