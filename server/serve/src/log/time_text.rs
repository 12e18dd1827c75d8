//! Points in calendar time as log lines spell them. What time it is is left to the caller.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_message::date::civil;

use super::json::{push_integer, push_padded};

/// How a log spells the time of an entry. All calendar forms are in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since 1970 as a decimal number.
    #[default]
    UnixSeconds,
    /// Milliseconds since 1970 as a decimal number.
    UnixMillis,
    /// Nanoseconds since 1970.
    UnixNanos,
    /// `2006-01-02T15:04:05.000Z`
    Iso8601,
    /// `2006-01-02T15:04:05Z`
    Rfc3339,
    /// `2006-01-02T15:04:05.000000000Z`
    Rfc3339Nanos,
    /// `2006/01/02 15:04:05`
    Wall,
    /// `2006/01/02 15:04:05.000`
    WallMillis,
    /// `2006/01/02 15:04:05.000000000`
    WallNanos,
    /// `02/Jan/2006:15:04:05 +0000`
    CommonLog,
}

impl TimeFormat {
    /// The names that a configuration may use.
    pub const NAMES: &'static [&'static str] = &[
        "unix_seconds_float",
        "unix_milli_float",
        "unix_nano",
        "iso8601",
        "rfc3339",
        "rfc3339_nano",
        "wall",
        "wall_milli",
        "wall_nano",
        "common_log",
    ];

    /// The format that a configuration names.
    pub fn from_name(name: &str) -> Option<TimeFormat> {
        Some(match name {
            "unix_seconds_float" => TimeFormat::UnixSeconds,
            "unix_milli_float" => TimeFormat::UnixMillis,
            "unix_nano" => TimeFormat::UnixNanos,
            "iso8601" => TimeFormat::Iso8601,
            "rfc3339" => TimeFormat::Rfc3339,
            "rfc3339_nano" => TimeFormat::Rfc3339Nanos,
            "wall" => TimeFormat::Wall,
            "wall_milli" => TimeFormat::WallMillis,
            "wall_nano" => TimeFormat::WallNanos,
            "common_log" => TimeFormat::CommonLog,
            _ => return None,
        })
    }

    /// Whether the text is a JSON number.
    pub fn is_number(self) -> bool {
        match self {
            TimeFormat::UnixSeconds | TimeFormat::UnixMillis | TimeFormat::UnixNanos => true,
            TimeFormat::Iso8601
            | TimeFormat::Rfc3339
            | TimeFormat::Rfc3339Nanos
            | TimeFormat::Wall
            | TimeFormat::WallMillis
            | TimeFormat::WallNanos
            | TimeFormat::CommonLog => false,
        }
    }

    /// Appends `time` without quotes. A time before 1970 counts as 1970.
    pub fn push(self, out: &mut Vec<u8>, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (seconds, nanos) = (since.as_secs(), since.subsec_nanos());
        match self {
            TimeFormat::UnixSeconds => {
                push_integer(out, seconds);
                push_fraction(out, nanos / 1_000, 6);
            }
            TimeFormat::UnixMillis => {
                push_integer(out, since.as_millis() as u64);
                push_fraction(out, nanos % 1_000_000, 6);
            }
            TimeFormat::UnixNanos => push_integer(out, since.as_nanos() as u64),
            TimeFormat::Iso8601 => {
                push_calendar(out, seconds, b"-T");
                push_fraction(out, nanos / 1_000_000, 3);
                out.push(b'Z');
            }
            TimeFormat::Rfc3339 => {
                push_calendar(out, seconds, b"-T");
                out.push(b'Z');
            }
            TimeFormat::Rfc3339Nanos => {
                push_calendar(out, seconds, b"-T");
                push_fraction(out, nanos, 9);
                out.push(b'Z');
            }
            TimeFormat::Wall => push_calendar(out, seconds, b"/ "),
            TimeFormat::WallMillis => {
                push_calendar(out, seconds, b"/ ");
                push_fraction(out, nanos / 1_000_000, 3);
            }
            TimeFormat::WallNanos => {
                push_calendar(out, seconds, b"/ ");
                push_fraction(out, nanos, 9);
            }
            TimeFormat::CommonLog => push_common(out, seconds),
        }
    }
}

fn push_fraction(out: &mut Vec<u8>, value: u32, digits: usize) {
    out.push(b'.');
    push_padded(out, u64::from(value), digits);
}

/// Appends date and time; `marks` are what stands within the date and between date and time.
fn push_calendar(out: &mut Vec<u8>, unix_seconds: u64, marks: &[u8; 2]) {
    let (year, month, day) = civil(unix_seconds / 86_400);
    push_padded(out, year, 4);
    out.push(marks[0]);
    push_padded(out, u64::from(month), 2);
    out.push(marks[0]);
    push_padded(out, u64::from(day), 2);
    out.push(marks[1]);
    push_clock(out, unix_seconds, b':');
}

fn push_clock(out: &mut Vec<u8>, unix_seconds: u64, mark: u8) {
    let second = unix_seconds % 86_400;
    push_padded(out, second / 3_600, 2);
    out.push(mark);
    push_padded(out, second / 60 % 60, 2);
    out.push(mark);
    push_padded(out, second % 60, 2);
}

fn push_common(out: &mut Vec<u8>, unix_seconds: u64) {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let (year, month, day) = civil(unix_seconds / 86_400);
    push_padded(out, u64::from(day), 2);
    out.push(b'/');
    let at = (month as usize - 1) * 3;
    out.extend_from_slice(&MONTHS[at..at + 3]);
    out.push(b'/');
    push_padded(out, year, 4);
    out.push(b':');
    push_clock(out, unix_seconds, b':');
    out.extend_from_slice(b" +0000");
}

/// `2006-01-02T15-04-05.000`, the time in the name of a rotated file.
pub fn file_stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut out = Vec::with_capacity(24);
    push_calendar(&mut out, since.as_secs(), b"-T");
    push_fraction(&mut out, since.subsec_millis(), 3);
    let text = String::from_utf8(out).expect("digits and marks are ASCII");
    text.replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> SystemTime {
        UNIX_EPOCH + Duration::new(1_795_295_096, 910_145_800)
    }

    #[test]
    fn each_format_spells_the_same_moment() {
        for (name, expected) in [
            ("unix_seconds_float", "1795295096.910145"),
            ("unix_milli_float", "1795295096910.145800"),
            ("unix_nano", "1795295096910145800"),
            ("iso8601", "2026-11-21T21:04:56.910Z"),
            ("rfc3339", "2026-11-21T21:04:56Z"),
            ("rfc3339_nano", "2026-11-21T21:04:56.910145800Z"),
            ("wall", "2026/11/21 21:04:56"),
            ("wall_milli", "2026/11/21 21:04:56.910"),
            ("wall_nano", "2026/11/21 21:04:56.910145800"),
            ("common_log", "21/Nov/2026:21:04:56 +0000"),
        ] {
            let format = TimeFormat::from_name(name).expect("a known name");
            assert!(TimeFormat::NAMES.contains(&name));
            let mut out = Vec::new();
            format.push(&mut out, moment());
            assert_eq!(String::from_utf8(out).expect("text"), expected, "{name}");
        }
        assert_eq!(TimeFormat::NAMES.len(), 10);
        assert_eq!(TimeFormat::from_name("Monday"), None);
    }

    #[test]
    fn the_stamp_of_a_file_holds_no_colon() {
        assert_eq!(file_stamp(moment()), "2026-11-21T21-04-56.910");
    }
}
