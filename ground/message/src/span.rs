//! Durations in the format of Go's `time.ParseDuration` and `Duration.String`, used in Caddyfiles, logs and templates:
//! `1h2m3.5s`. Callers decide which values are acceptable.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::decimal::{push_integer, push_padded};

const SECOND: u64 = 1_000_000_000;

/// Whether spans may be counted in days. Caddy's configuration takes them, Go does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Days {
    /// `d` is 24 hours.
    Known,
    /// `d` is not a unit.
    Unknown,
}

/// Why a text is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanError {
    /// There is nothing, or only a sign.
    Empty,
    /// A digit was expected; holds the rest of the text.
    NotANumber(String),
    /// A number has no unit after it.
    MissingUnit(String),
    /// The unit is none of `ns us µs ms s m h`, nor `d` where days are known.
    UnknownUnit(String),
    /// The span does not fit 292 years.
    TooLong,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the duration is empty"),
            Self::NotANumber(rest) => write!(f, "expected a number at `{rest}`"),
            Self::MissingUnit(number) => write!(f, "`{number}` has no unit"),
            Self::UnknownUnit(unit) => write!(f, "unknown unit `{unit}`"),
            Self::TooLong => f.write_str("longer than 292 years"),
        }
    }
}

impl core::error::Error for SpanError {}

/// The nanoseconds of `1h30m`, `1.5s`, `250ms` or `-1s`. A lone `0` needs no unit.
pub fn parse(text: &str, days: Days) -> Result<i64, SpanError> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(SpanError::Empty);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (span, after) = parse_component(rest, days)?;
        total = total.checked_add(span).ok_or(SpanError::TooLong)?;
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| SpanError::TooLong)
}

/// One number with its unit, in nanoseconds, and what follows it.
fn parse_component(text: &str, days: Days) -> Result<(i128, &str), SpanError> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(SpanError::NotANumber(text.to_string()));
    }
    let unit_end = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (unit, after) = rest.split_at(unit_end);
    let second = i128::from(SECOND);
    let scale: i128 = match unit {
        "" => {
            let number = &text[..text.len() - rest.len()];
            return Err(SpanError::MissingUnit(number.to_string()));
        }
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => second,
        "m" => 60 * second,
        "h" => 3_600 * second,
        "d" if days == Days::Known => 86_400 * second,
        _ => return Err(SpanError::UnknownUnit(unit.to_string())),
    };
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<i128>().map_err(|_| SpanError::TooLong)?,
    };
    let span = whole.checked_mul(scale).ok_or(SpanError::TooLong)?;
    // Beyond 18 digits a fraction is finer than a nanosecond for every unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction.parse::<i128>() {
        Ok(digits) => digits * scale / 10_i128.pow(fraction.len() as u32),
        Err(_) => 0,
    };
    Ok((span + part, after))
}

fn split_digits(text: &str) -> (&str, &str) {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(count)
}

/// Appends a span as Go shows it: `0s`, `166.951µs`, `1.5s`, `1h2m3s`.
pub fn push(out: &mut Vec<u8>, nanos: i64) {
    if nanos < 0 {
        out.push(b'-');
    }
    push_whole(out, nanos.unsigned_abs());
}

/// Appends a span as Go shows it. One beyond 584 years, which Go does not know, counts as so long.
pub fn push_duration(out: &mut Vec<u8>, span: Duration) {
    push_whole(out, u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
}

fn push_whole(out: &mut Vec<u8>, nanos: u64) {
    let minutes = nanos / (60 * SECOND);
    if minutes >= 60 {
        push_integer(out, minutes / 60);
        out.push(b'h');
    }
    if minutes > 0 {
        push_integer(out, minutes % 60);
        out.push(b'm');
    }
    match nanos {
        0 | SECOND.. => push_decimal(out, nanos % (60 * SECOND), SECOND, "s"),
        1_000_000..SECOND => push_decimal(out, nanos, 1_000_000, "ms"),
        1_000..1_000_000 => push_decimal(out, nanos, 1_000, "µs"),
        1..1_000 => push_decimal(out, nanos, 1, "ns"),
    }
}

/// Appends `nanos` in a unit of so many, without zeros at the end of the fraction.
fn push_decimal(out: &mut Vec<u8>, nanos: u64, unit: u64, name: &str) {
    push_integer(out, nanos / unit);
    let fraction = nanos % unit;
    if fraction > 0 {
        out.push(b'.');
        push_padded(out, fraction, unit.ilog10() as usize);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(nanos: i64) -> String {
        let mut out = Vec::new();
        push(&mut out, nanos);
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn spans_are_shown_as_by_go_and_read_again() {
        for (nanos, text) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (1_989_866, "1.989866ms"),
            (2_050_000, "2.05ms"),
            (999_999_999, "999.999999ms"),
            (1_500_000_000, "1.5s"),
            (2_000_000_000, "2s"),
            (60_000_000_000, "1m0s"),
            (61_500_000_000, "1m1.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_250_000_000, "25h1m1.25s"),
            (-5_400_000_000_000, "-1h30m0s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
            (i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(shown(nanos), text);
            assert_eq!(parse(text, Days::Unknown), Ok(nanos), "{text}");
        }
        let mut out = Vec::new();
        push_duration(&mut out, Duration::MAX);
        assert_eq!(out, b"5124095h34m33.709551615s");
    }

    #[test]
    fn spans_read_every_unit() {
        let second = SECOND as i64;
        for (text, nanos) in [
            ("5s", 5 * second),
            ("1h30m", 5_400 * second),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5 * second),
            ("2d", 172_800 * second),
            ("1d12h", 129_600 * second),
            ("100ms", 100_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("3μs", 3_000),
            ("7ns", 7),
            ("-1s", -second),
            ("+1s", second),
            ("0", 0),
        ] {
            assert_eq!(parse(text, Days::Known), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn invalid_spans_are_refused() {
        for (text, error) in [
            ("", SpanError::Empty),
            ("-", SpanError::Empty),
            ("5", SpanError::MissingUnit("5".into())),
            ("5w", SpanError::UnknownUnit("w".into())),
            ("s", SpanError::NotANumber("s".into())),
            (".", SpanError::NotANumber(".".into())),
            ("300000d", SpanError::TooLong),
            (
                "99999999999999999999999999999999999999999s",
                SpanError::TooLong,
            ),
        ] {
            assert_eq!(parse(text, Days::Known), Err(error), "{text}");
        }
        let error = SpanError::UnknownUnit("d".into());
        assert_eq!(parse("2d", Days::Unknown), Err(error));
    }
}
