//! Spans of time: `1h2m3.5s`.

use alloc::format;
use alloc::vec::Vec;

const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The nanoseconds of a span.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|end| *end > 0)?;
        let number: f64 = rest[..end].parse().ok()?;
        let behind = &rest[end..];
        let length = behind
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(behind.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &behind[..length])?;
        sum += number * unit;
        rest = &behind[length..];
    }
    let sum = if negative { -sum } else { sum };
    // Halves away from zero: 2.05 ms is a little less than 2,050,000 ns in binary.
    let half = if negative { -0.5 } else { 0.5 };
    (sum.abs() < 9.2e18).then_some((sum + half) as i64)
}

/// Appends a span as Go shows it.
pub fn show_duration(nanos: i64, out: &mut Vec<u8>) {
    let whole = nanos.unsigned_abs();
    if nanos < 0 {
        out.push(b'-');
    }
    let text = match whole {
        0 => "0s".into(),
        1..1_000 => format!("{whole}ns"),
        1_000..1_000_000 => decimal(whole, 1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(whole, 1_000_000, "ms"),
        _ => {
            let seconds = whole / 1_000_000_000;
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let rest = decimal(whole % 60_000_000_000, 1_000_000_000, "s");
            match (hours, minutes) {
                (0, 0) => rest,
                (0, minutes) => format!("{minutes}m{rest}"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}"),
            }
        }
    };
    out.extend_from_slice(text.as_bytes());
}

fn decimal(number: u64, unit: u64, name: &str) -> alloc::string::String {
    let fraction = number % unit;
    if fraction == 0 {
        return format!("{}{name}", number / unit);
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{fraction:0digits$}");
    format!("{}.{}{name}", number / unit, fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn spans_go_there_and_back() {
        for (text, nanos) in [
            ("1h1m40s", 3_700_000_000_000),
            ("-1h30m0s", -5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2.05ms", 2_050_000),
            ("7ns", 7),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(nanos));
            let mut out = Vec::new();
            show_duration(nanos, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
        for wrong in ["", "1", "h", "1x", "-"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
