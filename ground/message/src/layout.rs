//! Time layouts as Go's `time` package documents them, used in Caddyfiles and templates: an example of how the moment
//! `Mon Jan 2 15:04:05 MST 2006` would be written. Named layouts are resolved by the callers.

mod read;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::date::Calendar;
use crate::decimal::{push_integer, push_padded};

pub use read::{Reading, parse};

/// A moment as the clocks of a zone show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime<'a> {
    /// Date and time of day in the zone.
    pub calendar: Calendar,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Seconds that the zone is ahead of UTC.
    pub offset: i32,
    /// What the zone is called, such as `CET`; empty where only the offset is known.
    pub zone: &'a str,
}

impl<'a> LocalTime<'a> {
    /// The moment `seconds` after 1970 (before, if negative) in the zone of that offset and name.
    pub fn new(seconds: i64, nanos: u32, offset: i32, zone: &'a str) -> LocalTime<'a> {
        LocalTime {
            calendar: Calendar::of(seconds.saturating_add(offset.into())),
            nanos,
            offset,
            zone,
        }
    }

    /// The moment in UTC.
    pub fn utc(seconds: i64, nanos: u32) -> LocalTime<'static> {
        LocalTime::new(seconds, nanos, 0, "UTC")
    }

    /// Appends it as `layout` says. Any text is a layout: what spells no part of a time stands for itself.
    pub fn push(&self, layout: &str, out: &mut Vec<u8>) {
        let mut rest = layout;
        while !rest.is_empty() {
            let (before, part, after) = next_part(rest);
            out.extend_from_slice(before.as_bytes());
            if let Some(part) = part {
                part.push(self, out);
            }
            rest = after;
        }
    }
}

/// A layout that was taken apart, for those that are used again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    parts: Box<[(Box<str>, Part)]>,
    /// What follows the last part.
    end: Box<str>,
}

impl Layout {
    /// Takes a layout apart.
    pub fn new(layout: &str) -> Layout {
        let mut parts = Vec::new();
        let mut rest = layout;
        loop {
            let (before, part, after) = next_part(rest);
            let Some(part) = part else {
                return Layout {
                    parts: parts.into(),
                    end: before.into(),
                };
            };
            parts.push((before.into(), part));
            rest = after;
        }
    }

    /// Whether it tells one day from another.
    pub fn has_date(&self) -> bool {
        let has = |wanted: fn(&Part) -> bool| self.parts.iter().any(|(_, part)| wanted(part));
        let year = has(|part| matches!(part, Part::Year4 | Part::Year2));
        let month = has(|part| matches!(part, Part::MonthName | Part::MonthShort | Part::Month(_)));
        let day = has(|part| matches!(part, Part::Day(_)));
        year && (month && day || has(|part| matches!(part, Part::YearDay(_))))
    }

    /// Appends `time`.
    pub fn push(&self, time: &LocalTime<'_>, out: &mut Vec<u8>) {
        for (before, part) in &self.parts {
            out.extend_from_slice(before.as_bytes());
            part.push(time, out);
        }
        out.extend_from_slice(self.end.as_bytes());
    }

    /// What is left of `text` after a time in this layout; `None` if it does not begin with one.
    pub fn strip<'a>(&self, text: &'a str) -> Option<&'a str> {
        let parts = self.parts.iter().map(|(before, part)| (&**before, *part));
        read::strip(parts, &self.end, text)
    }
}

/// One part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year4,
    Year2,
    MonthName,
    MonthShort,
    Month(Pad),
    WeekdayName,
    WeekdayShort,
    Day(Pad),
    YearDay(Pad),
    Hour24,
    Hour12(Pad),
    Minute(Pad),
    Second(Pad),
    HalfUpper,
    HalfLower,
    ZoneName,
    Offset(Offset),
    Fraction(Fraction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pad {
    None,
    Zero,
    Space,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    /// UTC itself is `Z`.
    zulu: bool,
    colons: bool,
    parts: OffsetParts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OffsetParts {
    Hours,
    Minutes,
    Seconds,
}

/// A mark, `.` or `,`, and so many digits of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    mark: u8,
    digits: usize,
    /// Written with nines: zeros at the end are left out, and then the mark.
    trimmed: bool,
}

/// What layouts spell, and the part it means. Of two spellings that both fit, the one that stands first is meant.
const SPELLINGS: &[(&str, Part)] = &[
    ("January", Part::MonthName),
    ("Jan", Part::MonthShort),
    ("Monday", Part::WeekdayName),
    ("Mon", Part::WeekdayShort),
    ("MST", Part::ZoneName),
    ("002", Part::YearDay(Pad::Zero)),
    ("01", Part::Month(Pad::Zero)),
    ("02", Part::Day(Pad::Zero)),
    ("03", Part::Hour12(Pad::Zero)),
    ("04", Part::Minute(Pad::Zero)),
    ("05", Part::Second(Pad::Zero)),
    ("06", Part::Year2),
    ("15", Part::Hour24),
    ("1", Part::Month(Pad::None)),
    ("2006", Part::Year4),
    ("2", Part::Day(Pad::None)),
    ("__2", Part::YearDay(Pad::Space)),
    ("_2", Part::Day(Pad::Space)),
    ("3", Part::Hour12(Pad::None)),
    ("4", Part::Minute(Pad::None)),
    ("5", Part::Second(Pad::None)),
    ("PM", Part::HalfUpper),
    ("pm", Part::HalfLower),
    ("-07:00:00", offset(false, true, OffsetParts::Seconds)),
    ("-070000", offset(false, false, OffsetParts::Seconds)),
    ("-07:00", offset(false, true, OffsetParts::Minutes)),
    ("-0700", offset(false, false, OffsetParts::Minutes)),
    ("-07", offset(false, false, OffsetParts::Hours)),
    ("Z07:00:00", offset(true, true, OffsetParts::Seconds)),
    ("Z070000", offset(true, false, OffsetParts::Seconds)),
    ("Z07:00", offset(true, true, OffsetParts::Minutes)),
    ("Z0700", offset(true, false, OffsetParts::Minutes)),
    ("Z07", offset(true, false, OffsetParts::Hours)),
];

const fn offset(zulu: bool, colons: bool, parts: OffsetParts) -> Part {
    Part::Offset(Offset {
        zulu,
        colons,
        parts,
    })
}

/// The first part of `layout`: what stands before it, the part, and what follows.
fn next_part(layout: &str) -> (&str, Option<Part>, &str) {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        if let Some((part, length)) = part_at(rest) {
            return (&layout[..at], Some(part), &rest[length..]);
        }
    }
    (layout, None, "")
}

fn part_at(rest: &str) -> Option<(Part, usize)> {
    if let Some((fraction, length)) = fraction_at(rest.as_bytes()) {
        return Some((Part::Fraction(fraction), length));
    }
    // An underscore pads the day, not the year.
    if rest.starts_with("_2006") {
        return None;
    }
    let (spelling, part) = SPELLINGS.iter().find(|(spelling, part)| {
        let Some(after) = rest.strip_prefix(spelling) else {
            return false;
        };
        // `Month` and `Janitor` name no part of a time.
        let short = matches!(part, Part::MonthShort | Part::WeekdayShort);
        !(short && after.starts_with(|c: char| c.is_ascii_lowercase()))
    })?;
    Some((*part, spelling.len()))
}

/// `.000` or `,999`: a mark and zeros or nines that no other digit follows.
fn fraction_at(rest: &[u8]) -> Option<(Fraction, usize)> {
    let (mark, digit) = match rest {
        [mark @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => (*mark, *digit),
        _ => return None,
    };
    let digits = rest[1..].iter().take_while(|byte| **byte == digit).count();
    if rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let fraction = Fraction {
        mark,
        digits,
        trimmed: digit == b'9',
    };
    Some((fraction, 1 + digits))
}

impl Part {
    fn push(self, time: &LocalTime<'_>, out: &mut Vec<u8>) {
        let at = &time.calendar;
        match self {
            Part::Year4 => {
                if at.year < 0 {
                    out.push(b'-');
                }
                push_padded(out, at.year.unsigned_abs(), 4);
            }
            Part::Year2 => push_padded(out, at.year.unsigned_abs() % 100, 2),
            Part::MonthName => out.extend_from_slice(at.month_name().as_bytes()),
            Part::MonthShort => out.extend_from_slice(&at.month_name().as_bytes()[..3]),
            Part::Month(pad) => pad.push(out, at.month, 2),
            Part::WeekdayName => out.extend_from_slice(at.weekday_name().as_bytes()),
            Part::WeekdayShort => out.extend_from_slice(&at.weekday_name().as_bytes()[..3]),
            Part::Day(pad) => pad.push(out, at.day, 2),
            Part::YearDay(pad) => pad.push(out, at.yearday(), 3),
            Part::Hour24 => push_padded(out, at.hour.into(), 2),
            Part::Hour12(pad) => pad.push(out, (at.hour + 11) % 12 + 1, 2),
            Part::Minute(pad) => pad.push(out, at.minute, 2),
            Part::Second(pad) => pad.push(out, at.second, 2),
            Part::HalfUpper => out.extend_from_slice(if at.hour < 12 { b"AM" } else { b"PM" }),
            Part::HalfLower => out.extend_from_slice(if at.hour < 12 { b"am" } else { b"pm" }),
            // Something has to tell the zone.
            Part::ZoneName if time.zone.is_empty() => {
                offset(false, false, OffsetParts::Minutes).push(time, out);
            }
            Part::ZoneName => out.extend_from_slice(time.zone.as_bytes()),
            Part::Offset(offset) => offset.push(out, time.offset),
            Part::Fraction(fraction) => fraction.push(out, time.nanos),
        }
    }
}

impl Pad {
    fn push(self, out: &mut Vec<u8>, value: u32, width: usize) {
        match self {
            Pad::None => push_integer(out, value.into()),
            Pad::Zero => push_padded(out, value.into(), width),
            Pad::Space => {
                let length = value.checked_ilog10().unwrap_or(0) as usize + 1;
                out.extend(core::iter::repeat_n(b' ', width.saturating_sub(length)));
                push_integer(out, value.into());
            }
        }
    }
}

impl Offset {
    fn push(self, out: &mut Vec<u8>, seconds: i32) {
        if self.zulu && seconds == 0 {
            return out.push(b'Z');
        }
        out.push(if seconds < 0 { b'-' } else { b'+' });
        let ahead = u64::from(seconds.unsigned_abs());
        push_padded(out, ahead / 3_600, 2);
        for (least, value) in [
            (OffsetParts::Minutes, ahead / 60 % 60),
            (OffsetParts::Seconds, ahead % 60),
        ] {
            if self.parts >= least {
                if self.colons {
                    out.push(b':');
                }
                push_padded(out, value, 2);
            }
        }
    }
}

impl Fraction {
    /// Appends it. Nobody counts beyond nanoseconds, so more than nine digits are not written.
    fn push(self, out: &mut Vec<u8>, nanos: u32) {
        let start = out.len();
        let digits = self.digits.min(9);
        out.push(self.mark);
        push_padded(out, u64::from(nanos / 10u32.pow(9 - digits as u32)), digits);
        if self.trimmed {
            let last = out[start..].iter().rposition(|byte| *byte != b'0');
            // Where only the mark is left, it goes too.
            out.truncate(match last {
                None | Some(0) => start,
                Some(last) => start + last + 1,
            });
        }
    }
}

#[cfg(test)]
mod tests;
