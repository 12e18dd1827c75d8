//! Numbers with units as printed by tools.

use crate::finding::number;

/// A duration such as `116.96ms`, `1.21s`, `350us`, `2.10m` or `1m0s`, in milliseconds.
pub fn milliseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let rest = &text[digits..];
    let unit_end = rest
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(rest.len());
    let factor = match rest[..unit_end].trim() {
        "ns" => 1e-6,
        "us" | "µs" | "μs" => 1e-3,
        "ms" => 1.0,
        "s" | "secs" | "sec" | "seconds" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        _ => return None,
    };
    let more = &rest[unit_end..];
    let tail = if more.is_empty() {
        0.0
    } else {
        milliseconds(more)?
    };
    Some(number * factor + tail)
}

/// The possible relative error of a number due to rounding in print: half a unit of its last digit.
pub fn rounding(text: &str) -> f64 {
    let digits: String = text
        .trim()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let half = 0.5 * 0.1_f64.powi(i32::try_from(decimals).unwrap_or(0));
    match digits.parse::<f64>() {
        Ok(value) if value > 0.0 => half / value,
        _ => f64::INFINITY,
    }
}

/// A sentence if a printed rate differs from count by seconds by more than rounding (`room`, a share) explains.
pub fn rate_breach(
    what: &str,
    printed: f64,
    count: f64,
    seconds: f64,
    room: f64,
) -> Option<String> {
    let made = count / seconds;
    // Clocks read one after the other differ a little.
    let off = (printed / made - 1.0).abs();
    (seconds > 0.0 && count > 0.0 && off > room + CLOCKS).then(|| {
        format!(
            "{what} is printed as {}, and its count divided by the seconds is {}",
            number(printed),
            number(made)
        )
    })
}

/// Tolerance of a rate for two readings of the clock.
const CLOCKS: f64 = 0.002;

/// A size such as `215.11MB` or `3.3 GiB`; wrk, h2load and Go tools mean powers of 1024 whatever they write.
pub fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let power = match text[digits..].trim().to_ascii_uppercase().as_str() {
        "" | "B" | "BYTES" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return None,
    };
    Some(number * 1024_f64.powi(power))
}

/// A number with thousands separators or with `%`: `1,759`, `97.38%`, `0`.
pub fn plain(text: &str) -> Option<f64> {
    let text = text
        .trim()
        .trim_start_matches('~')
        .trim_end_matches('%')
        .trim();
    let text = text
        .trim_matches('*')
        .replace([',', '_', '\u{a0}', '\u{202f}'], "");
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        let near = |found: Option<f64>, wanted: f64| {
            assert!((found.unwrap() - wanted).abs() < 1e-9, "{found:?}")
        };
        near(milliseconds("116.96ms"), 116.96);
        near(milliseconds("1.21s"), 1210.0);
        near(milliseconds("350us"), 0.35);
        near(milliseconds("1m0s"), 60_000.0);
        near(milliseconds("0.0625 secs"), 62.5);
        assert_eq!(milliseconds("5"), None);
        assert_eq!(milliseconds("fast"), None);
        near(bytes("215.11MB"), 215.11 * 1_048_576.0);
        near(bytes("3.3 GiB"), 3.3 * 1_073_741_824.0);
        near(bytes("224"), 224.0);
        near(plain("1,759"), 1759.0);
        near(plain(" 97.38 %"), 97.38);
        assert_eq!(plain("n/a"), None);
        assert_eq!(plain("inf"), None);
    }
}
