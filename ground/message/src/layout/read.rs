//! Parses times by a layout. If the text has no time zone, the caller chooses one.

use super::{Offset, OffsetParts, Pad, Part, next_part};
use crate::date::{MONTHS, WEEKDAYS, days_from_civil};

/// A time that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Seconds since 1970 by the clock of its zone; negative before.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Seconds that its zone is ahead of UTC, where the text tells.
    pub offset: Option<i32>,
    /// What its zone is called, where the text tells.
    pub zone: Option<&'a str>,
}

/// The time that `text` is in the form of `layout`; `None` where it has another form or is none, such as 30 February.
/// What the layout does not ask for is that of 1 January 0000.
pub fn parse<'a>(layout: &str, text: &'a str) -> Option<Reading<'a>> {
    let mut read = Read::default();
    let (mut layout, mut text) = (layout, text);
    loop {
        let (before, part, after) = next_part(layout);
        text = literal(before, text)?;
        let Some(part) = part else { break };
        text = read.part(part, text, next_part(after).1)?;
        layout = after;
    }
    if !text.is_empty() {
        return None;
    }
    read.finish()
}

/// What is left of `text` after a time in the form of a layout that was taken apart.
pub(super) fn strip<'a, 'b>(
    parts: impl Iterator<Item = (&'b str, Part)>,
    end: &str,
    text: &'a str,
) -> Option<&'a str> {
    let mut read = Read::default();
    let mut text = text;
    let mut parts = parts.peekable();
    while let Some((before, part)) = parts.next() {
        let next = parts.peek().map(|(_, next)| *next);
        text = read.part(part, literal(before, text)?, next)?;
    }
    let rest = literal(end, text)?;
    read.finish().map(|_| rest)
}

/// `text` without the `wanted` before it. A space stands for any number of them, at the end for none as well.
fn literal<'a>(wanted: &str, text: &'a str) -> Option<&'a str> {
    let (mut wanted, mut text) = (wanted, text);
    while let Some(first) = wanted.chars().next() {
        if first == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return None;
            }
            wanted = wanted.trim_start_matches(' ');
            text = text.trim_start_matches(' ');
        } else {
            wanted = &wanted[first.len_utf8()..];
            text = text.strip_prefix(first)?;
        }
    }
    Some(text)
}

/// What was read so far.
#[derive(Default)]
struct Read<'a> {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    yearday: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    afternoon: Option<bool>,
    offset: Option<i32>,
    zone: Option<&'a str>,
    /// The text said that it is in UTC, which counts more than any offset.
    utc: bool,
}

impl<'a> Read<'a> {
    /// Reads a part at the start of `text`; `next` is the one after it. Gives what follows.
    fn part(&mut self, part: Part, text: &'a str, next: Option<Part>) -> Option<&'a str> {
        let mut number = 0;
        let rest = match part {
            Part::MonthName => self.month(text, usize::MAX)?,
            Part::MonthShort => self.month(text, 3)?,
            Part::WeekdayName => name(&WEEKDAYS, usize::MAX, text)?.1,
            Part::WeekdayShort => name(&WEEKDAYS, 3, text)?.1,
            Part::ZoneName => self.zone(text)?,
            Part::Offset(offset) => self.offset(offset, text)?,
            Part::HalfUpper => self.half(text, ["AM", "PM"])?,
            Part::HalfLower => self.half(text, ["am", "pm"])?,
            Part::Fraction(fraction) if fraction.trimmed => self.any_fraction(text),
            Part::Fraction(fraction) => self.fraction(text, fraction.digits)?,
            Part::Year4 => digits(text, 4, 4, &mut number)?,
            Part::Year2 => digits(text, 2, 2, &mut number)?,
            Part::Hour24 => digits(text, 1, 2, &mut number)?,
            Part::YearDay(pad) => pad.read(text, 3, &mut number)?,
            Part::Month(pad)
            | Part::Day(pad)
            | Part::Hour12(pad)
            | Part::Minute(pad)
            | Part::Second(pad) => pad.read(text, 2, &mut number)?,
        };
        self.set(part, number)?;
        // A fraction may follow seconds where the layout has none.
        let wanted = matches!(part, Part::Second(_)) && !matches!(next, Some(Part::Fraction(_)));
        Some(if wanted {
            self.any_fraction(rest)
        } else {
            rest
        })
    }

    /// Keeps the number that was read for a part. Beyond what such a part can be it is refused.
    fn set(&mut self, part: Part, number: u32) -> Option<()> {
        let (target, max) = match part {
            Part::Year4 => return keep(&mut self.year, number),
            // As POSIX has it.
            Part::Year2 if number >= 69 => return keep(&mut self.year, 1900 + number),
            Part::Year2 => return keep(&mut self.year, 2000 + number),
            Part::Month(_) if !(1..=12).contains(&number) => return None,
            Part::Month(_) => return keep(&mut self.month, number),
            Part::Day(_) => return keep(&mut self.day, number),
            Part::YearDay(_) => return keep(&mut self.yearday, number),
            Part::Hour24 => (&mut self.hour, 23),
            Part::Hour12(_) => (&mut self.hour, 12),
            Part::Minute(_) => (&mut self.minute, 59),
            Part::Second(_) => (&mut self.second, 59),
            Part::MonthName
            | Part::MonthShort
            | Part::WeekdayName
            | Part::WeekdayShort
            | Part::HalfUpper
            | Part::HalfLower
            | Part::ZoneName
            | Part::Offset(_)
            | Part::Fraction(_) => return Some(()),
        };
        *target = number;
        (number <= max).then_some(())
    }

    fn month(&mut self, text: &'a str, length: usize) -> Option<&'a str> {
        let (at, rest) = name(&MONTHS, length, text)?;
        self.month = Some(at as u32 + 1);
        Some(rest)
    }

    fn half(&mut self, text: &'a str, names: [&str; 2]) -> Option<&'a str> {
        let at = names.iter().position(|name| text.starts_with(name))?;
        self.afternoon = Some(at == 1);
        Some(&text[2..])
    }

    /// The digits after the mark that stands here, if digits do.
    fn any_fraction(&mut self, text: &'a str) -> &'a str {
        let count = text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        match count {
            0 => text,
            _ => self.fraction(text, count).unwrap_or(text),
        }
    }

    fn fraction(&mut self, text: &'a str, count: usize) -> Option<&'a str> {
        let text = text.strip_prefix(['.', ','])?;
        let digits = text.as_bytes().get(..count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        // What is finer than nanoseconds is dropped.
        let nine = digits.iter().chain(core::iter::repeat(&b'0')).take(9);
        self.nanos = nine.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
        Some(&text[count..])
    }

    fn zone(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix("UTC") {
            self.utc = true;
            return Some(rest);
        }
        let (name, rest) = text.split_at(zone_length(text)?);
        self.zone = Some(name);
        Some(rest)
    }

    fn offset(&mut self, offset: Offset, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix('Z').filter(|_| offset.zulu) {
            self.utc = true;
            return Some(rest);
        }
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let mut number = 0;
        let mut rest = digits(text.strip_prefix(['+', '-'])?, 2, 2, &mut number)?;
        let mut ahead = number as i32 * 3_600;
        // No zone is further ahead; 24:60:60 itself is what Go still takes.
        if number > 24 {
            return None;
        }
        for (least, unit) in [(OffsetParts::Minutes, 60), (OffsetParts::Seconds, 1)] {
            if offset.parts >= least {
                if offset.colons {
                    rest = rest.strip_prefix(':')?;
                }
                rest = digits(rest, 2, 2, &mut number)?;
                ahead += number as i32 * unit;
                if number > 60 {
                    return None;
                }
            }
        }
        self.offset = Some(sign * ahead);
        Some(rest)
    }

    fn finish(self) -> Option<Reading<'a>> {
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            Some(_) | None => self.hour,
        };
        let of_day = i64::from(hour * 3600 + self.minute * 60 + self.second);
        let (offset, zone) = match (self.utc, self.offset, self.zone) {
            (true, ..) => (Some(0), Some("UTC")),
            (false, None, Some(zone)) => (gmt_offset(zone), Some(zone)),
            (false, offset, zone) => (offset, zone),
        };
        Some(Reading {
            seconds: self.days()? * 86_400 + of_day,
            nanos: self.nanos,
            offset,
            zone,
        })
    }

    /// The days since 1970; `None` for a date that does not exist or contradicts itself.
    fn days(&self) -> Option<i64> {
        let year = i64::from(self.year.unwrap_or(0));
        let start_of_year = days_from_civil(year, 1, 1);
        let (mut month, mut day) = (self.month, self.day.map(i64::from));
        if let Some(yearday) = self.yearday {
            let days = start_of_year + i64::from(yearday) - 1;
            let found = crate::date::Calendar::of(days * 86_400);
            let fits = found.year == year
                && month.is_none_or(|month| month == found.month)
                && day.is_none_or(|day| day == i64::from(found.day));
            if !fits {
                return None;
            }
            (month, day) = (Some(found.month), Some(found.day.into()));
        }
        let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
        let first = days_from_civil(year, month, 1);
        let after = days_from_civil(year + i64::from(month == 12), month % 12 + 1, 1);
        (1..=after - first).contains(&day).then(|| first + day - 1)
    }
}

fn keep(target: &mut Option<u32>, number: u32) -> Option<()> {
    *target = Some(number);
    Some(())
}

impl Pad {
    fn read<'a>(self, text: &'a str, width: usize, number: &mut u32) -> Option<&'a str> {
        match self {
            Pad::None => digits(text, 1, width, number),
            Pad::Zero => digits(text, width, width, number),
            Pad::Space => {
                let spaces = text.bytes().take(width - 1).take_while(|b| *b == b' ');
                digits(&text[spaces.count()..], 1, width, number)
            }
        }
    }
}

/// Reads at least `min` and at most `max` digits, of which a `u32` holds nine; gives what follows them.
fn digits<'a>(text: &'a str, min: usize, max: usize, number: &mut u32) -> Option<&'a str> {
    let digits = text.bytes().take(max).take_while(u8::is_ascii_digit);
    let mut count = 0;
    *number = digits.fold(0, |number, digit| {
        count += 1;
        number * 10 + u32::from(digit - b'0')
    });
    (count >= min).then(|| &text[count..])
}

/// Which of `names` stands at the start of `text`, without regard to case, by at most `length` letters.
fn name<'a>(names: &[&str], length: usize, text: &'a str) -> Option<(usize, &'a str)> {
    names.iter().enumerate().find_map(|(at, name)| {
        let name = &name[..length.min(name.len())];
        let start = text.get(..name.len())?;
        let same = start.eq_ignore_ascii_case(name);
        same.then(|| (at, &text[name.len()..]))
    })
}

/// How long the abbreviation of a zone is that `text` begins with: three letters, four or five that end in `T` (and
/// `WITA`), `GMT+3`, or the bare hours that stand for a name in many zones.
fn zone_length(text: &str) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        return Some(3 + signed_hours(rest).map_or(0, |(_, length)| length));
    }
    if text.starts_with(['+', '-']) {
        // Go also writes names such as `+0330`, but does not read them; we find what we wrote.
        let digits = text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        return match digits {
            4 => Some(5),
            _ => signed_hours(text).map(|(_, length)| length),
        };
    }
    let upper = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let fits = match upper {
        3 => true,
        4 => text[..4].ends_with('T') || text.starts_with("WITA"),
        5 => text[..5].ends_with('T'),
        _ => false,
    };
    fits.then_some(upper)
}

/// Hours with a sign, at most 23, and how long they are.
fn signed_hours(text: &str) -> Option<(i32, usize)> {
    let sign = match text.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let count = text[1..].bytes().take_while(u8::is_ascii_digit).count();
    let hours = text[1..=count].parse::<i32>().ok()?;
    (hours <= 23).then_some((sign * hours, 1 + count))
}

/// The offset that a zone such as `GMT+3` names.
fn gmt_offset(zone: &str) -> Option<i32> {
    let (hours, _) = signed_hours(zone.strip_prefix("GMT")?)?;
    Some(hours * 3_600)
}
