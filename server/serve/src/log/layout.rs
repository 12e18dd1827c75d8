//! Layouts of times as Go's `time` package documents them, which Caddyfiles use: an example time
//! (`2006-01-02T15:04:05Z07:00`) shows how each part is spelled. Named formats are left to `time_text`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_message::date::{MONTHS, WEEKDAYS, civil, weekday};
use sluice_net::sys::local_time::{LocalOffset, local_offset};

use super::json::{push_integer, push_padded};

/// Whose clock a time is spelled by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// The clock of UTC.
    #[default]
    Utc,
    /// The system's time zone.
    Local,
}

impl Zone {
    /// How far the clock is ahead of UTC at `time`.
    pub fn offset(self, time: SystemTime) -> LocalOffset {
        match self {
            Zone::Utc => LocalOffset::utc(),
            Zone::Local => local_offset(since_1970(time).as_secs()),
        }
    }
}

/// How long after 1970 it is; a time before counts as 1970.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// A layout, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    items: Box<[Item]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(Box<str>),
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
    /// `PM` or `pm`.
    Half {
        upper: bool,
    },
    ZoneName,
    Offset(Offset),
    /// A mark and so many digits; trailing zeros, and then the mark, are left out if `trimmed`.
    Fraction {
        mark: u8,
        digits: u8,
        trimmed: bool,
    },
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

/// What layouts spell, and the item for it. Of two spellings that both fit, the one that stands first is meant.
const SPELLINGS: &[(&str, Item)] = &[
    ("January", Item::MonthName),
    ("Jan", Item::MonthShort),
    ("Monday", Item::WeekdayName),
    ("Mon", Item::WeekdayShort),
    ("MST", Item::ZoneName),
    ("002", Item::YearDay(Pad::Zero)),
    ("01", Item::Month(Pad::Zero)),
    ("02", Item::Day(Pad::Zero)),
    ("03", Item::Hour12(Pad::Zero)),
    ("04", Item::Minute(Pad::Zero)),
    ("05", Item::Second(Pad::Zero)),
    ("06", Item::Year2),
    ("15", Item::Hour24),
    ("1", Item::Month(Pad::None)),
    ("2006", Item::Year4),
    ("2", Item::Day(Pad::None)),
    ("__2", Item::YearDay(Pad::Space)),
    ("_2", Item::Day(Pad::Space)),
    ("3", Item::Hour12(Pad::None)),
    ("4", Item::Minute(Pad::None)),
    ("5", Item::Second(Pad::None)),
    ("PM", Item::Half { upper: true }),
    ("pm", Item::Half { upper: false }),
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

const fn offset(zulu: bool, colons: bool, parts: OffsetParts) -> Item {
    Item::Offset(Offset {
        zulu,
        colons,
        parts,
    })
}

impl Layout {
    /// Takes a layout apart. Any text is one: what spells no part of a time stands for itself.
    pub fn parse(text: &str) -> Layout {
        let mut items = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match item_at(rest) {
                Some((item, length)) => {
                    push_literal(&mut items, &mut literal);
                    items.push(item);
                    rest = &rest[length..];
                }
                None => {
                    literal.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        push_literal(&mut items, &mut literal);
        Layout {
            items: items.into(),
        }
    }

    /// Whether it tells one day from another.
    pub fn has_date(&self) -> bool {
        let has = |wanted: fn(&Item) -> bool| self.items.iter().any(wanted);
        let year = has(|item| matches!(item, Item::Year4 | Item::Year2));
        let month = has(|item| matches!(item, Item::MonthName | Item::MonthShort | Item::Month(_)));
        let day = has(|item| matches!(item, Item::Day(_)));
        year && (month && day || has(|item| matches!(item, Item::YearDay(_))))
    }

    /// Appends `time` by the clock of `zone`.
    pub fn push(&self, out: &mut Vec<u8>, time: SystemTime, zone: Zone) {
        let parts = Parts::of(time, zone);
        for item in &self.items {
            item.push(out, &parts);
        }
    }

    /// What is left of `text` after a time in this layout; `None` if it does not begin with one.
    pub fn strip<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.items
            .iter()
            .try_fold(text, |rest, item| item.strip(rest))
    }
}

fn push_literal(items: &mut Vec<Item>, literal: &mut String) {
    if !literal.is_empty() {
        items.push(Item::Text(std::mem::take(literal).into()));
    }
}

fn item_at(rest: &str) -> Option<(Item, usize)> {
    if let Some(found) = fraction_at(rest.as_bytes()) {
        return Some(found);
    }
    // An underscore pads the day, not the year.
    if rest.starts_with("_2006") {
        return None;
    }
    let (spelling, item) = SPELLINGS.iter().find(|(spelling, item)| {
        let Some(after) = rest.strip_prefix(spelling) else {
            return false;
        };
        // `Month` and `Janitor` name no part of a time.
        let short = matches!(item, Item::MonthShort | Item::WeekdayShort);
        !(short && after.starts_with(|c: char| c.is_ascii_lowercase()))
    })?;
    Some((item.clone(), spelling.len()))
}

/// `.000` or `,999`: a mark and zeros or nines that no other digit follows.
fn fraction_at(rest: &[u8]) -> Option<(Item, usize)> {
    let (mark, digit) = match rest {
        [mark @ (b'.' | b','), digit @ (b'0' | b'9'), ..] => (*mark, *digit),
        _ => return None,
    };
    let digits = rest[1..].iter().take_while(|byte| **byte == digit).count();
    if digits > 9 || rest.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let item = Item::Fraction {
        mark,
        digits: digits as u8,
        trimmed: digit == b'9',
    };
    Some((item, 1 + digits))
}

/// A time on one clock.
struct Parts {
    year: u64,
    month: u32,
    day: u32,
    /// Days since 1970.
    days: u64,
    /// Seconds of the day.
    second: u64,
    nanos: u32,
    offset: LocalOffset,
}

impl Parts {
    fn of(time: SystemTime, zone: Zone) -> Parts {
        let since = since_1970(time);
        let offset = zone.offset(time);
        let seconds = since.as_secs().saturating_add_signed(offset.seconds.into());
        let days = seconds / 86_400;
        let (year, month, day) = civil(days);
        Parts {
            year,
            month,
            day,
            days,
            second: seconds % 86_400,
            nanos: since.subsec_nanos(),
            offset,
        }
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    fn weekday_name(&self) -> &'static str {
        weekday(self.days)
    }

    fn year_day(&self) -> u64 {
        const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        BEFORE[self.month as usize - 1] + u64::from(leap && self.month > 2) + u64::from(self.day)
    }
}

impl Item {
    fn push(&self, out: &mut Vec<u8>, parts: &Parts) {
        let hour = parts.second / 3_600;
        match self {
            Item::Text(text) => out.extend_from_slice(text.as_bytes()),
            Item::Year4 => push_padded(out, parts.year, 4),
            Item::Year2 => push_padded(out, parts.year % 100, 2),
            Item::MonthName => out.extend_from_slice(parts.month_name().as_bytes()),
            Item::MonthShort => out.extend_from_slice(&parts.month_name().as_bytes()[..3]),
            Item::Month(pad) => pad.push(out, parts.month.into(), 2),
            Item::WeekdayName => out.extend_from_slice(parts.weekday_name().as_bytes()),
            Item::WeekdayShort => out.extend_from_slice(&parts.weekday_name().as_bytes()[..3]),
            Item::Day(pad) => pad.push(out, parts.day.into(), 2),
            Item::YearDay(pad) => pad.push(out, parts.year_day(), 3),
            Item::Hour24 => push_padded(out, hour, 2),
            Item::Hour12(pad) => pad.push(out, (hour + 11) % 12 + 1, 2),
            Item::Minute(pad) => pad.push(out, parts.second / 60 % 60, 2),
            Item::Second(pad) => pad.push(out, parts.second % 60, 2),
            Item::Half { upper } => {
                let half = if hour < 12 { *b"AM" } else { *b"PM" };
                let half = if *upper {
                    half
                } else {
                    half.map(|letter| letter.to_ascii_lowercase())
                };
                out.extend_from_slice(&half);
            }
            Item::ZoneName => out.extend_from_slice(parts.offset.name.as_bytes()),
            Item::Offset(offset) => offset.push(out, parts.offset.seconds),
            Item::Fraction {
                mark,
                digits,
                trimmed,
            } => {
                let start = out.len();
                out.push(*mark);
                let divisor = 10u32.pow(9 - u32::from(*digits));
                push_padded(out, u64::from(parts.nanos / divisor), usize::from(*digits));
                while *trimmed && out.len() > start && matches!(out.last(), Some(b'0')) {
                    out.pop();
                }
                if out.len() == start + 1 {
                    out.pop();
                }
            }
        }
    }

    fn strip<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Item::Text(literal) => text.strip_prefix(&**literal),
            Item::Year4 => digits(text, 4, 4),
            Item::Year2 | Item::Hour24 => digits(text, 2, 2),
            Item::MonthName => MONTHS.iter().find_map(|name| text.strip_prefix(name)),
            Item::MonthShort => MONTHS.iter().find_map(|name| text.strip_prefix(&name[..3])),
            Item::WeekdayName => WEEKDAYS.iter().find_map(|name| text.strip_prefix(name)),
            Item::WeekdayShort => WEEKDAYS
                .iter()
                .find_map(|name| text.strip_prefix(&name[..3])),
            Item::Month(pad)
            | Item::Day(pad)
            | Item::Hour12(pad)
            | Item::Minute(pad)
            | Item::Second(pad) => pad.strip(text, 2),
            Item::YearDay(pad) => pad.strip(text, 3),
            Item::Half { upper: true } => {
                ["AM", "PM"].iter().find_map(|half| text.strip_prefix(half))
            }
            Item::Half { upper: false } => {
                ["am", "pm"].iter().find_map(|half| text.strip_prefix(half))
            }
            Item::ZoneName => {
                let rest = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
                (rest.len() < text.len()).then_some(rest)
            }
            Item::Offset(offset) => offset.strip(text),
            Item::Fraction {
                mark,
                digits: count,
                trimmed,
            } => match text.strip_prefix(*mark as char) {
                Some(rest) if *trimmed => digits(rest, 1, (*count).into()),
                Some(rest) => digits(rest, (*count).into(), (*count).into()),
                None => trimmed.then_some(text),
            },
        }
    }
}

/// `text` without at least `min` and at most `max` digits at its start.
fn digits(text: &str, min: usize, max: usize) -> Option<&str> {
    let count = text
        .bytes()
        .take(max)
        .take_while(u8::is_ascii_digit)
        .count();
    (count >= min).then(|| &text[count..])
}

impl Pad {
    fn push(self, out: &mut Vec<u8>, value: u64, width: usize) {
        match self {
            Pad::None => push_integer(out, value),
            Pad::Zero => push_padded(out, value, width),
            Pad::Space => {
                let length = value.checked_ilog10().unwrap_or(0) as usize + 1;
                out.extend(std::iter::repeat_n(b' ', width.saturating_sub(length)));
                push_integer(out, value);
            }
        }
    }

    fn strip(self, text: &str, width: usize) -> Option<&str> {
        match self {
            Pad::None => digits(text, 1, width),
            Pad::Zero => digits(text, width, width),
            Pad::Space => {
                let rest = text.trim_start_matches(' ');
                digits(rest, 1, width)
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

    fn strip(self, text: &str) -> Option<&str> {
        if let Some(rest) = text.strip_prefix('Z').filter(|_| self.zulu) {
            return Some(rest);
        }
        let mut rest = digits(text.strip_prefix(['+', '-'])?, 2, 2)?;
        for least in [OffsetParts::Minutes, OffsetParts::Seconds] {
            if self.parts >= least {
                if self.colons {
                    rest = rest.strip_prefix(':')?;
                }
                rest = digits(rest, 2, 2)?;
            }
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(layout: &str, seconds: u64, nanos: u32) -> String {
        let mut out = Vec::new();
        let time = UNIX_EPOCH + Duration::new(seconds, nanos);
        Layout::parse(layout).push(&mut out, time, Zone::Utc);
        String::from_utf8(out).expect("layouts give text")
    }

    #[test]
    fn layouts_spell_times_as_go_does() {
        // What Caddy 2.11.4 wrote for this layout at this moment.
        let layout = "2006-01-02T15:04:05.999999999Z07:00 Monday January 1 2 _2 02 __2 002 06 3 03 4 5 pm PM \
                      .000 ,000 -0700 -07:00 -07 Z0700 MST";
        assert_eq!(
            spelled(layout, 1_795_305_294, 112_165_003),
            "2026-11-21T23:54:54.112165003Z Saturday November 11 21 21 21 325 325 26 11 11 54 54 pm PM \
             .112 ,112 +0000 +00:00 +00 Z UTC"
        );
        for (layout, expected) in [
            ("Mon Jan _2 15:04:05 2006", "Thu Jan  1 00:00:00 1970"),
            ("3:04PM", "12:00AM"),
            ("05.999", "00"),
            ("05.000", "00.000"),
            ("05.0001", "00.0001"),
            ("Month of Janitors", "Month of Janitors"),
            ("_2006", "_1970"),
            ("bogus ünïcode", "bogus ünïcode"),
            ("-07:00:00", "+00:00:00"),
        ] {
            assert_eq!(spelled(layout, 0, 0), expected, "{layout}");
        }
    }

    #[test]
    fn offsets_are_spelled_with_their_sign() {
        let mut out = Vec::new();
        let parts = Parts {
            offset: LocalOffset {
                seconds: -(4 * 3600 + 30 * 60),
                name: "VET".into(),
            },
            ..Parts::of(UNIX_EPOCH, Zone::Utc)
        };
        for item in &Layout::parse("Z07:00 -07 -070000 MST").items {
            item.push(&mut out, &parts);
        }
        assert_eq!(out, b"-04:30 -04 -043000 VET");
    }

    #[test]
    fn what_was_spelled_is_known_again() {
        for layout in [
            "2006-01-02T15-04-05.000",
            "Mon Jan _2 15:04:05 2006",
            "Monday, January 2 06 3:4:5.999pm -0700 MST",
            "2006.002 __2 03PM Z07:00",
        ] {
            let parsed = Layout::parse(layout);
            for seconds in [0, 1_795_305_294, 4_000_000_000] {
                let text = spelled(layout, seconds, 120_000_000) + "-size";
                assert_eq!(parsed.strip(&text), Some("-size"), "{layout}: {text}");
            }
            assert_eq!(parsed.strip("access"), None, "{layout}");
        }
    }

    #[test]
    fn a_date_has_year_month_and_day() {
        for (layout, expected) in [
            ("2006-01-02", true),
            ("06 __2", true),
            ("Jan 2 15:04:05", false),
            ("Mon", false),
        ] {
            assert_eq!(Layout::parse(layout).has_date(), expected, "{layout}");
        }
    }
}
