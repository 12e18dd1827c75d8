//! Sizes and durations in nginx's syntax.

use sluice_model::Duration;

/// Bytes: `512`, `8k`, `1m`; with `g` where nginx takes large ones.
pub fn size(text: &str) -> Option<u64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(scale)
}

/// A length of time: `30`, `30s`, `1h 30m`, `500ms`, `1d`, from the largest unit to the smallest. A number without unit
/// is seconds.
pub fn time(text: &str) -> Option<Duration> {
    const UNITS: [(&str, i64); 8] = [
        ("y", 365 * 86_400_000),
        ("M", 30 * 86_400_000),
        ("w", 7 * 86_400_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut rest = text.trim();
    let (mut total, mut next) = (0i64, 0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let value = i64::try_from(number(&rest[..digits])?).ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "" => "s",
            unit => unit,
        };
        let at = UNITS.iter().position(|(name, _)| *name == unit)?;
        if at < next {
            return None;
        }
        next = at + 1;
        total = total.checked_add(value.checked_mul(UNITS[at].1)?)?;
        rest = rest[letters..].trim_start();
    }
    total.checked_mul(1_000_000).map(Duration)
}

fn number(digits: &str) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("0", 0), ("512", 512), ("8k", 8192), ("1M", 1 << 20)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for wrong in [
            "",
            "k",
            "1x",
            "-1",
            "1 k",
            "99999999999999999999",
            "18446744073709551615g",
        ] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_have_units_from_large_to_small() {
        for (text, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("300s", 300_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1d", 86_400_000),
            ("1M", 30 * 86_400_000),
        ] {
            assert_eq!(time(text), Some(Duration::milliseconds(millis)), "{text}");
        }
        for wrong in ["", "s", "1m 1h", "1x", "-1s", "1.5s", "999999999999y"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }
}
