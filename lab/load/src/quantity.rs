//! Quantities as people read and write them: durations, counts, rates, sizes.

use std::time::Duration;

/// Parses a duration: a number with `us`, `ms`, `s`, `m` or `h`; a bare number means seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "unknown unit of time `{unit}`: use us, ms, s, m or h"
            ));
        }
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a duration; write 10s, 500ms or 2m"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("`{text}` is not a duration"))
}

/// Parses a count, with `k` for thousands and `M` for millions.
pub fn parse_count(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, scale) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text, 1.0),
        },
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number * scale),
        _ => Err(format!("`{text}` is not a number above 0")),
    }
}

/// Parses a number of bytes, with `KiB`, `MiB`, `KB` or `MB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "" | "B" => 1,
        "KB" | "kB" => 1_000,
        "KiB" | "k" | "K" => 1_024,
        "MB" => 1_000_000,
        "MiB" | "M" => 1_048_576,
        _ => {
            return Err(format!(
                "unknown unit of size `{unit}`: use B, KB, KiB, MB or MiB"
            ));
        }
    };
    let number: u64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a number of bytes"))?;
    number
        .checked_mul(scale)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// Formats nanoseconds with three significant digits and a unit.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a number of bytes with its unit.
pub fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        count if count < 1e3 => return format!("{count:.0} B"),
        count if count < 1e6 => (count / 1e3, "kB"),
        count if count < 1e9 => (count / 1e6, "MB"),
        count => (count / 1e9, "GB"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a whole number with commas between thousands.
pub fn thousands(count: f64) -> String {
    let plain = format!("{:.0}", count.abs());
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if count < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Formats three significant digits.
fn digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1.5 ms"), Ok(Duration::from_micros(1_500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("3"), Ok(Duration::from_secs(3)));
        assert!(parse_duration("3 days").is_err() && parse_duration("-1s").is_err());
        assert_eq!(parse_count("20k"), Ok(20_000.0));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000.0));
        assert!(parse_count("0").is_err() && parse_count("many").is_err());
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("155"), Ok(155));
        assert!(parse_bytes("1 lb").is_err());
    }

    #[test]
    fn what_people_read_is_short() {
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(1_234.0), "1.23 us");
        assert_eq!(time(99_960_000.0), "100 ms");
        assert_eq!(time(12_340_000_000.0), "12.3 s");
        assert_eq!(bytes(289_812.0), "290 kB");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(12.0), "12");
    }
}
