//! Reading dates by a layout.

use sluice_message::date::{MONTHS, WEEKDAYS, days_from_civil};

use super::layout::{Part, next_part};
use super::{Time, Zone};

/// What was read of a date.
#[derive(Default)]
struct Read {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    yearday: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    afternoon: Option<bool>,
    offset: Option<i32>,
    zone_name: Option<Zone>,
}

/// The moment that `text` names in the form of `layout`; without a zone of its own it is in `zone`.
pub fn parse(layout: &str, text: &str, zone: Zone) -> Option<Time> {
    let mut read = Read::default();
    let (mut layout, mut text) = (layout, text);
    loop {
        let (before, part, after) = next_part(layout);
        text = text.strip_prefix(before)?;
        let Some(part) = part else { break };
        text = read.part(part, text)?;
        // A fraction may follow seconds that the layout writes without one.
        if matches!(part, Part::Second | Part::ZeroSecond)
            && text.starts_with(['.', ','])
            && !matches!(next_part(after), ("", Some(Part::Fraction { .. }), _))
        {
            text = read.fraction(text, usize::MAX)?;
        }
        layout = after;
    }
    if !text.is_empty() {
        return None;
    }
    read.finish(zone)
}

impl Read {
    fn part<'a>(&mut self, part: Part, text: &'a str) -> Option<&'a str> {
        let set = |target: &mut u32, (number, rest): (u32, &'a str)| {
            *target = number;
            Some(rest)
        };
        match part {
            Part::LongMonth | Part::Month => {
                let length = if part == Part::Month { 3 } else { usize::MAX };
                let (at, rest) = name(&MONTHS, length, text)?;
                self.month = Some(at as u32 + 1);
                Some(rest)
            }
            Part::LongWeekday => Some(name(&WEEKDAYS, usize::MAX, text)?.1),
            Part::Weekday => Some(name(&WEEKDAYS, 3, text)?.1),
            Part::NumMonth => keep(&mut self.month, digits(text, 1, 2)?),
            Part::ZeroMonth => keep(&mut self.month, digits(text, 2, 2)?),
            Part::Day => keep(&mut self.day, digits(text, 1, 2)?),
            Part::UnderDay => keep(&mut self.day, digits(text.trim_start_matches(' '), 1, 2)?),
            Part::ZeroDay => keep(&mut self.day, digits(text, 2, 2)?),
            Part::UnderYearday => keep(
                &mut self.yearday,
                digits(text.trim_start_matches(' '), 1, 3)?,
            ),
            Part::ZeroYearday => keep(&mut self.yearday, digits(text, 3, 3)?),
            Part::Hour | Part::ZeroHour12 => set(&mut self.hour, digits(text, 2, 2)?),
            Part::Hour12 => set(&mut self.hour, digits(text, 1, 2)?),
            Part::Minute => set(&mut self.minute, digits(text, 1, 2)?),
            Part::ZeroMinute => set(&mut self.minute, digits(text, 2, 2)?),
            Part::Second => set(&mut self.second, digits(text, 1, 2)?),
            Part::ZeroSecond => set(&mut self.second, digits(text, 2, 2)?),
            Part::LongYear => {
                let (year, rest) = digits(text, 4, 4)?;
                self.year = Some(i64::from(year));
                Some(rest)
            }
            Part::Year => {
                let (year, rest) = digits(text, 2, 2)?;
                self.year = Some(i64::from(year) + if year >= 69 { 1900 } else { 2000 });
                Some(rest)
            }
            Part::UpperPm => self.half(text, ["AM", "PM"]),
            Part::LowerPm => self.half(text, ["am", "pm"]),
            Part::ZoneName => {
                let end = text.bytes().take_while(u8::is_ascii_uppercase).count();
                if !(3..=5).contains(&end) {
                    return None;
                }
                self.zone_name = Some(Zone::new(0, &text[..end]));
                Some(&text[end..])
            }
            Part::Offset {
                z,
                colons,
                minutes,
                seconds,
            } => self.offset(text, z, colons, [minutes, seconds]),
            Part::Fraction { digits, trimmed } => match trimmed {
                true if !text.starts_with(['.', ',']) => Some(text),
                true => self.fraction(text, usize::MAX),
                false => self.fraction(text, digits),
            },
        }
    }

    fn half<'a>(&mut self, text: &'a str, names: [&str; 2]) -> Option<&'a str> {
        let at = names.iter().position(|name| text.starts_with(name))?;
        self.afternoon = Some(at == 1);
        Some(&text[2..])
    }

    fn offset<'a>(
        &mut self,
        text: &'a str,
        z: bool,
        colons: bool,
        further: [bool; 2],
    ) -> Option<&'a str> {
        if z && let Some(rest) = text.strip_prefix('Z') {
            self.offset = Some(0);
            return Some(rest);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let (hours, mut rest) = digits(&text[1..], 2, 2)?;
        let mut offset = hours as i32 * 3600;
        for (unit, _) in [60, 1].into_iter().zip(further).filter(|(_, given)| *given) {
            if colons {
                rest = rest.strip_prefix(':')?;
            }
            let (number, after) = digits(rest, 2, 2)?;
            offset += number as i32 * unit;
            rest = after;
        }
        self.offset = Some(sign * offset);
        Some(rest)
    }

    fn fraction<'a>(&mut self, text: &'a str, wanted: usize) -> Option<&'a str> {
        let text = text.strip_prefix(['.', ','])?;
        let length = text.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 || (wanted != usize::MAX && length < wanted) {
            return None;
        }
        let length = length.min(wanted);
        let nine = alloc::format!("{:0<9}", &text[..length.min(9)]);
        self.nanos = nine.parse().ok()?;
        Some(&text[length..])
    }

    fn finish(self, zone: Zone) -> Option<Time> {
        let year = self.year.unwrap_or(0);
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            Some(_) | None => self.hour,
        };
        if !(1..=12).contains(&month) || hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let first = days_from_civil(year, month, 1);
        let after = days_from_civil(year + i64::from(month == 12), month % 12 + 1, 1);
        if day == 0 || i64::from(day) > after - first {
            return None;
        }
        let days = match self.yearday {
            Some(yearday) => days_from_civil(year, 1, 1) + i64::from(yearday) - 1,
            None => first + i64::from(day) - 1,
        };
        let zone = match (self.offset, self.zone_name) {
            (Some(0), _) => Zone::UTC,
            (Some(offset), name) => Zone::new(offset, name.as_ref().map_or("", Zone::name)),
            (None, Some(name)) if name.name() == "UTC" => Zone::UTC,
            (None, Some(name)) => name,
            (None, None) => zone,
        };
        let of_day = i64::from(hour * 3600 + self.minute * 60 + self.second);
        Some(Time {
            seconds: days * 86_400 + of_day - i64::from(zone.offset),
            nanos: self.nanos,
            zone,
        })
    }
}

fn keep<'a>(target: &mut Option<u32>, (number, rest): (u32, &'a str)) -> Option<&'a str> {
    *target = Some(number);
    Some(rest)
}

fn digits(text: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let count = text
        .bytes()
        .take(max)
        .take_while(u8::is_ascii_digit)
        .count();
    if count < min {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

/// The name that `text` begins with, without regard to case, by at most `length` letters.
fn name<'a>(names: &[&str], length: usize, text: &'a str) -> Option<(usize, &'a str)> {
    names.iter().enumerate().find_map(|(at, name)| {
        let name = &name[..length.min(name.len())];
        let start = text.get(..name.len())?;
        start
            .eq_ignore_ascii_case(name)
            .then(|| (at, &text[name.len()..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_by_their_layout() {
        for (layout, text, seconds) in [
            ("2006-01-02", "2020-02-03", Some(1_580_688_000)),
            (
                "Mon, 02 Jan 2006 15:04:05 MST",
                "Mon, 03 Feb 2020 04:05:06 UTC",
                Some(1_580_702_706),
            ),
            (
                "2006-01-02T15:04:05Z07:00",
                "2020-02-03T04:05:06+02:00",
                Some(1_580_695_506),
            ),
            (
                "2006-01-02T15:04:05Z07:00",
                "2020-02-03T04:05:06.5Z",
                Some(1_580_702_706),
            ),
            ("Jan _2 06 3:04PM", "feb  3 20 4:05AM", Some(1_580_702_700)),
            ("2006-01-02", "2020-02-30", None),
            ("2006-01-02", "2020-13-01", None),
            ("2006-01-02", "2020-01-01x", None),
            ("15:04", "24:00", None),
        ] {
            let read = parse(layout, text, Zone::UTC).map(|time| time.seconds);
            assert_eq!(read, seconds, "{layout}: {text}");
        }
    }
}
