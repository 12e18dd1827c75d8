//! Parses sizes in bytes with units: `10MB` is ten million bytes, `10MiB` is 10 × 1,048,576.

/// Reads a size; a number alone counts bytes. `None` if it is none or does not fit.
pub(crate) fn parse_size(text: &str) -> Option<i64> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.replace(',', "").parse().ok()?;
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "ki" | "kib" => 1024.0,
        "m" | "mb" => 1e6,
        "mi" | "mib" => 1024f64.powi(2),
        "g" | "gb" => 1e9,
        "gi" | "gib" => 1024f64.powi(3),
        "t" | "tb" => 1e12,
        "ti" | "tib" => 1024f64.powi(4),
        "p" | "pb" => 1e15,
        "pi" | "pib" => 1024f64.powi(5),
        _ => return None,
    };
    let size = number * scale;
    // Above 2^53 a double no longer counts single bytes, and nothing here is that large.
    (0.0..9.0e15).contains(&size).then_some(size as i64)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn units_are_decimal_or_binary() {
        for (text, size) in [
            ("0", 0),
            ("512", 512),
            ("10MB", 10_000_000),
            ("10 mb", 10_000_000),
            ("64KiB", 65_536),
            ("1.5k", 1_500),
            ("1,024", 1_024),
            ("2GiB", 2_147_483_648),
        ] {
            assert_eq!(parse_size(text), Some(size), "{text}");
        }
        for text in ["", "MB", "10XB", "-1", "1.2.3", "9999999PB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
